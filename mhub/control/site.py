"""The connections to the control socket: how many, how long a request may be, how long all takes.

What is refused here is answered without a request: by twisted.web's parser (400), or by refuse().
"""

from io import BytesIO
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

from mhub.control.contract import MAX_REQUEST, to_line

MAX_CLIENTS: Final = 16
IDLE_S: Final = 60.0
"""How long a client may be silent, or take nothing of an answer."""

CLOSE_S: Final = 1.0
"""How long a client may take for what is left to say when the broker stops."""


class ControlRequest(Request):
    def getRequestHostname(self) -> bytes:
        return b"mhub"  # Klein asks, and a Unix socket has none

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()  # twisted.web would put what is longer than 100 kB into a file


class ControlSite(Site):
    """Who is connected."""

    displayTracebacks = False
    noisy = False

    def __init__(self, resource: Resource, reactor: Any) -> None:
        super().__init__(resource, timeout=IDLE_S, reactor=reactor)
        self.connected: set[ControlChannel] = set()
        self._empty: Deferred[None] | None = None

    def buildProtocol(self, addr: object) -> Any:
        # As Site does it, but for its choice between HTTP/1.1 and HTTP/2.
        channel: Any = ControlChannel()
        channel.site = self
        channel.requestFactory = ControlRequest
        channel.callLater = self.reactor.callLater
        channel.timeOut = self.timeOut
        return channel

    def gone(self, channel: "ControlChannel") -> None:
        self.connected.discard(channel)
        if self._empty is not None and not self.connected:
            self._empty.callback(None)
            self._empty = None

    def close(self) -> Deferred[None]:
        """End all connections; fires when they have ended."""
        ended: Deferred[None] = Deferred()
        if not self.connected:
            ended.callback(None)
            return ended
        self._empty = ended
        for channel in list(self.connected):
            if not channel.transport.disconnecting:
                channel.loseConnection()
            channel.setTimeout(CLOSE_S)
        return ended


class ControlChannel(HTTPChannel):
    site: ControlSite
    transport: Any

    def connectionMade(self) -> None:
        super().connectionMade()
        crowded = len(self.site.connected) >= MAX_CLIENTS
        self.site.connected.add(self)
        if crowded:
            self.refuse(503, f"{MAX_CLIENTS} others use the control socket; try again later")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        super().connectionLost(reason)
        self.site.gone(self)

    def allHeadersReceived(self) -> None:
        # Before any of it comes: it is held in memory.
        if self.length is None or self.length > MAX_REQUEST:
            self.refuse(413, f"the arguments may have {MAX_REQUEST} bytes")
        else:
            super().allHeadersReceived()

    def requestDone(self, request: object) -> None:
        super().requestDone(request)
        self.setTimeout(IDLE_S)  # also if the connection only waits for its output to be taken

    def timeoutConnection(self) -> None:
        self.transport.abortConnection()

    def refuse(self, code: int, text: str) -> None:
        head = f"HTTP/1.1 {code} -\r\nConnection: close\r\n\r\n"
        self.transport.write(head.encode("ascii") + to_line({"error": text}))
        self.loseConnection()
