"""Requests to a web service, by treq: no redirects, no cookies, answers of bounded length."""

from typing import Any

from treq.client import HTTPClient
from twisted.internet.defer import Deferred
from twisted.web.client import Agent, HTTPConnectionPool

from mhub.web.client import TlsPolicy, bounded_body

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
        self._agent: Any = Agent(reactor, TlsPolicy(tls), pool=self._pool)

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
        return int(response.code), await bounded_body(response, self._max_body)
