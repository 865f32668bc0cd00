"""Requests to other servers: whom they trust, and answers of bounded length."""

from typing import Any

from twisted.internet.defer import Deferred, succeed
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.iweb import IPolicyForHTTPS
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.store.client_tls import client_tls


@implementer(IPolicyForHTTPS)
class TlsPolicy:
    """`tls` are files: authorities, certificate, key; each may be ""."""

    def __init__(self, tls: tuple[str, str, str]) -> None:
        self._tls = tls

    def creatorForNetloc(self, hostname: bytes, port: int) -> Any:
        return client_tls(hostname.decode("ascii"), *self._tls)


def bounded_body(response: Any, limit: int) -> "Deferred[bytes]":
    """The body of an answer; OSError if it is longer."""
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
