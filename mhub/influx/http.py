"""One request to InfluxDB: where to, who we are, and the lines, compressed.

version 1 (db)            POST /write?db=…&precision=ms           Authorization: Basic
version 2 (org, bucket)   POST /api/v2/write?org=…&bucket=…       Authorization: Token
"""

import base64
import gzip
from typing import Any, Final, NoReturn
from urllib.parse import urlencode, urlsplit, urlunsplit

from twisted.internet.defer import Deferred, succeed
from twisted.internet.error import TimeoutError as ConnectTimeout
from twisted.web.client import Agent, HTTPConnectionPool
from twisted.web.http_headers import Headers
from twisted.web.iweb import IBodyProducer
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.config.influx import InfluxSettings, password_of_influx, token_of
from mhub.web.client import TlsPolicy, bounded_body

MOST_ANSWER: Final = 16 * 1024
SHOWN: Final = 200
"""Characters of an answer that are told: it says what was wrong with a line."""

LEVEL: Final = 3


class InfluxHttp:
    """Posts lines.  Raises ConfigError for a file with a secret that cannot be read."""

    def __init__(self, settings: InfluxSettings, reactor: Any) -> None:
        self._settings = settings
        self._reactor = reactor
        self._url = write_url(settings).encode("ascii")
        self._headers = {
            "User-Agent": "mhub",
            "Content-Type": "text/plain; charset=utf-8",
            **_authorization(settings),
        }
        pool: Any = HTTPConnectionPool(reactor)
        pool.maxPersistentPerHost = 1
        pool.retryAutomatically = False
        self._pool = pool
        tls = TlsPolicy((settings.ca, settings.certificate, settings.key))
        self._agent: Any = Agent(reactor, tls, connectTimeout=settings.timeout_s, pool=pool)

    def __call__(self, lines: bytes) -> "Deferred[tuple[int, str]]":
        done = Deferred.fromCoroutine(self._post(lines))
        timeout_s = self._settings.timeout_s
        return done.addTimeout(timeout_s, self._reactor, lambda result, _: _late(result, timeout_s))

    def stop(self) -> "Deferred[None]":
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

    async def _post(self, lines: bytes) -> tuple[int, str]:
        headers = Headers({name: [value] for name, value in self._headers.items()})
        if self._settings.gzip:
            lines = gzip.compress(lines, LEVEL, mtime=0)
            headers.setRawHeaders("Content-Encoding", ["gzip"])
        response: Any = await self._agent.request(b"POST", self._url, headers, _Lines(lines))
        answer = await bounded_body(response, MOST_ANSWER)
        return int(response.code), _brief(answer)


@implementer(IBodyProducer)
class _Lines:
    """All of it at once: it is short."""

    def __init__(self, data: bytes) -> None:
        self.length = len(data)
        self._data = data

    def startProducing(self, consumer: Any) -> "Deferred[None]":
        consumer.write(self._data)
        return succeed(None)

    def pauseProducing(self) -> None:
        pass

    resumeProducing = stopProducing = pauseProducing


def write_url(settings: InfluxSettings) -> str:
    if settings.db:
        path = "/write"
        query = {"db": settings.db, "precision": "ms"}
        if settings.retention_policy:
            query["rp"] = settings.retention_policy
    else:
        path = "/api/v2/write"
        query = {"org": settings.org, "bucket": settings.bucket, "precision": "ms"}
    parts = urlsplit(settings.url)
    return urlunsplit(
        (parts.scheme, parts.netloc, parts.path.rstrip("/") + path, urlencode(query), "")
    )


def _authorization(settings: InfluxSettings) -> dict[str, str]:
    token = token_of(settings)
    if token:
        return {"Authorization": f"Token {token}"}
    if settings.username:
        pair = f"{settings.username}:{password_of_influx(settings)}"
        return {"Authorization": f"Basic {base64.b64encode(pair.encode()).decode('ascii')}"}
    return {}


def _late(result: object, timeout_s: float) -> NoReturn:
    raise ConnectTimeout(string=f"no answer within {timeout_s:g} s")


def _brief(answer: bytes) -> str:
    text = " ".join(answer.decode("utf-8", "replace").split())
    return text if len(text) <= SHOWN else text[:SHOWN] + "…"
