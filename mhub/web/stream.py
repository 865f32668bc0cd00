"""An answer that is written in pieces, as the client takes them."""

from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IPushProducer
from zope.interface import implementer  # type: ignore[import-untyped]

STALL_S: Final = 60.0
"""How long a client may take nothing of an answer that is being made."""


@implementer(IPushProducer)
class Stream:
    """Nothing is written to a client that is gone.

    `ended` fires when the last piece was written, or the client has gone.
    """

    def __init__(self, request: Any, reactor: Any) -> None:
        self.ended: Deferred[None] = Deferred()
        self.is_gone = False
        self.begun = False
        self._request = request
        self._reactor = reactor
        self._room: Deferred[None] | None = None  # fires when the client has taken something
        self._stalled: Any = None
        request.notifyFinish().addBoth(self._on_end)
        request.registerProducer(self, True)

    async def send(self, data: bytes) -> None:
        """Some data; comes back when there is room for more.  Raises CancelledError."""
        self.write(data)
        if self._room is not None:
            await self._room
        if self.is_gone:
            raise CancelledError

    def write(self, data: bytes) -> None:
        if not self.is_gone:
            self.begun = True
            self._request.write(data)

    def finish(self, data: bytes = b"") -> None:
        if not self.is_gone:
            if data:
                self.write(data)
            self._request.unregisterProducer()
            self._request.finish()

    def cut(self) -> None:
        """End it so that the client sees that something is missing."""
        if not self.is_gone:
            self.is_gone = True
            self._request.channel.timeoutConnection()

    def _on_end(self, reason: object) -> None:
        """All of it is written, or the client is gone."""
        self.is_gone = True
        self.resumeProducing()
        if not self.ended.called:
            self.ended.callback(None)

    def pauseProducing(self) -> None:
        if self._room is None:
            self._room = Deferred()
            self._stalled = self._reactor.callLater(STALL_S, self.cut)

    def resumeProducing(self) -> None:
        room, self._room = self._room, None
        if room is not None:
            if self._stalled.active():
                self._stalled.cancel()
            room.callback(None)

    def stopProducing(self) -> None:
        """The connection is lost; the request says so."""
