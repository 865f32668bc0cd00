"""The answer to one request, written as the client takes it."""

from collections.abc import Mapping
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.control.contract import to_line

CONTENT_TYPE: Final = b"application/x-ndjson"

STALL_S: Final = 60.0
"""How long a client may take nothing of an answer that is being made."""


@implementer(IPushProducer)
class Answer:
    """Lines, and the last one of them; nothing of it is written to a client that is gone.

    `ended` fires when the last line was written; whoever cancels it has seen the client go.
    """

    def __init__(self, request: Any, reactor: Any) -> None:
        self.asked: bytes = request.content.read()
        self.ended: Deferred[None] = Deferred()
        self._request = request
        self._reactor = reactor
        self._is_gone = False
        self._begun = False
        self._room: Deferred[None] | None = None  # fires when the client has taken something
        self._stalled: Any = None
        request.setHeader(b"Content-Type", CONTENT_TYPE)
        request.notifyFinish().addBoth(self._on_end)
        request.registerProducer(self, True)

    def say(self, text: str) -> None:
        """How far it has come."""
        self._write(to_line({"progress": text}))

    async def send(self, data: bytes) -> None:
        """Some data; comes back when there is room for more.  Raises CancelledError."""
        self._write(data)
        if self._room is not None:
            await self._room
        if self._is_gone:
            raise CancelledError

    def finish(self, last: Mapping[str, object]) -> None:
        line = to_line(last)  # which may fail: then nothing of it is written
        if not self._is_gone:
            self._write(line)
            self._request.unregisterProducer()
            self._request.finish()

    def fail(self, code: int, text: str) -> None:
        if not self._begun and not self._is_gone:
            self._request.setResponseCode(code)
        self.finish({"error": text})

    def _write(self, data: bytes) -> None:
        if not self._is_gone:
            self._begun = True
            self._request.write(data)

    def _on_end(self, reason: object) -> None:
        """All of it is written, or the client is gone."""
        self._is_gone = True
        self.resumeProducing()
        if not self.ended.called:
            self.ended.callback(None)

    def pauseProducing(self) -> None:
        if self._room is None:
            self._room = Deferred()
            self._stalled = self._reactor.callLater(STALL_S, self._on_stall)

    def resumeProducing(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            if self._stalled.active():
                self._stalled.cancel()
            room.callback(None)

    def stopProducing(self) -> None:
        """The connection is lost; the request says so."""

    def _on_stall(self) -> None:
        self._request.channel.timeoutConnection()
