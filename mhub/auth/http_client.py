"""Requests to a web service, by treq: no redirects, no cookies, answers of bounded length."""

from typing import Any

from treq.client import HTTPClient
from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IPolicyForHTTPS
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.store.client_tls import client_tls

IDLE_S = 30
"""How long a connection that nobody uses is kept; less than most servers keep it."""


class HttpClient:
    """`tls` are files: authorities, certificate, key; each may be ""."""

    def __init__(
        self, reactor: Any, connections: int, max_body: int, tls: tuple[str, str, str]
    ) -> None:
        self._max_body = max_body
        self._pool = HTTPConnectionPool(reactor)
        self._pool.maxPersistentPerHost = connections
        self._pool.cachedConnectionTimeout = IDLE_S
        self._agent: Any = Agent(reactor, _Policy(tls), pool=self._pool)

    def request(
        self, method: str, url: str, headers: dict[str, str], data: bytes
    ) -> "Deferred[tuple[int, bytes]]":
        return Deferred.fromCoroutine(self._request(method, url, headers, data))

    def stop(self) -> "Deferred[None]":
        closed: Deferred[None] = self._pool.closeCachedConnections()
        return closed

    async def _request(
        self, method: str, url: str, headers: dict[str, str], data: bytes
    ) -> tuple[int, bytes]:
        # A client for each request: it keeps cookies, and they would be those of another user.
        client = HTTPClient(self._agent)
        given: Any = {"User-Agent": "mhub", "Accept": "application/json"} | headers
        response: Any = await client.request(
            method,
            url,
            headers=given,
            data=data or None,
            allow_redirects=False,
            unbuffered=True,
        )
        return int(response.code), await _body(response, self._max_body)


@implementer(IPolicyForHTTPS)
class _Policy:
    def __init__(self, tls: tuple[str, str, str]) -> None:
        self._tls = tls

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:
        return client_tls(hostname.decode("ascii"), *self._tls)


def _body(response: Any, limit: int) -> "Deferred[bytes]":
    if response.length == 0:
        return succeed(b"")
    body = _Body(limit)
    response.deliverBody(body)
    return body.done


class _Body(Protocol):
    def __init__(self, limit: int) -> None:
        self.done: Deferred[bytes] = Deferred(lambda _: self._cut())
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    def dataReceived(self, data: bytes) -> None:
        self._size += len(data)
        if self._size > self._limit:
            self._parts.clear()
            if not self.done.called:
                self.done.errback(OSError(f"an answer of more than {self._limit} bytes"))
                self._cut()
            return
        self._parts.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        if self.done.called:
            return
        if reason.check(ResponseDone, PotentialDataLoss):
            self.done.callback(b"".join(self._parts))
        else:
            self.done.errback(reason)

    def _cut(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.loseConnection()
