"""The connections of an HTTP server: how many, how long a request may be, how long all takes.

A client costs others nothing but what is bounded here.  It has `request_s` to send a request as a
whole, however it is cut up; it may be silent for `idle_s` between two requests, and take nothing of
an answer for as long.  When there are `max_connections`, the one that has been without a request
for the longest time makes room, or else one that has not sent all of its request yet; where all
wait for their answers, the new one is refused.  The bodies that are being sent have at most
MOST_BODIES bytes, all together.

What is refused here is answered without a request: by twisted.web's parser (400), or by refuse().
"""

from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Final

from twisted.internet.defer import Deferred
from twisted.internet.protocol import connectionDone
from twisted.python.failure import Failure
from twisted.web.http import HTTPChannel
from twisted.web.resource import Resource
from twisted.web.server import Request, Site

MAX_HEAD: Final = 1 << 18
"""Bytes of a request's line and headers: a client id may have 65,535, each of which takes three in
a query."""

MAX_PATH: Final = 1024
"""Bytes of a path, without the query: all that there are, are short."""

MOST_BODIES: Final = 64 << 20
"""Bytes of the bodies of all requests that are being sent: who sends them may be anybody."""

CLOSE_S: Final = 1.0
"""How long a client may take for what is left to say when the broker stops."""


@dataclass(frozen=True)
class Bounds:
    max_connections: int = 16
    idle_s: float = 60.0
    request_s: float = 60.0
    max_head: int = 16 << 10  # bytes of the lines before the body


class BoundedRequest(Request):
    def getRequestHostname(self) -> bytes:
        return b"mhub"  # Klein asks, and a Unix socket has none

    def gotLength(self, length: int | None) -> None:
        self.content = BytesIO()  # twisted.web would put what is longer than 100 kB into a file

    def requestReceived(self, command: bytes, path: bytes, version: bytes) -> None:
        # As twisted.web does it, but for `args`, which nobody here needs: it takes seconds to find
        # those of a form of some megabytes, and nobody knows yet who has sent it.
        content: Any = self.content
        content.seek(0, 0)
        self.args = {}
        self.method, self.uri, self.clientproto = command, path, version
        self.path = path.partition(b"?")[0]
        self.process()


class BoundedSite(Site):
    """Who is connected."""

    displayTracebacks = False
    noisy = False

    def __init__(
        self,
        resource: Resource,
        reactor: Any,
        bounds: Bounds,
        most_body: Callable[[bytes, bytes], int],
        refusal: Callable[[int, str], tuple[str, bytes]],
    ) -> None:
        """`most_body(method, path)` is how long a body may be; `refusal` is the content type and
        the body of an error."""
        super().__init__(resource, timeout=bounds.idle_s, reactor=reactor)
        self.bounds = bounds
        self.most_body = most_body
        self.refusal = refusal
        self.refused = 0  # connections, as there were enough
        self.connected: dict[BoundedChannel, None] = {}  # the longest without a request is first
        self.expected_bytes = 0  # of bodies that are being sent
        self._empty: Deferred[None] | None = None

    def take(self, bounds: Bounds) -> None:
        """Other bounds, from the next request of each connection on."""
        self.bounds = bounds
        timed: tuple[Any, ...] = (self, *self.connected)  # Twisted says that they take an int
        for each in timed:
            each.timeOut = bounds.idle_s

    def buildProtocol(self, addr: object) -> Any:
        # As Site does it, but for its choice between HTTP/1.1 and HTTP/2.
        channel: Any = BoundedChannel()
        channel.site = self
        channel.requestFactory = BoundedRequest
        channel.callLater = self.reactor.callLater
        channel.timeOut = self.timeOut
        channel.MAX_LENGTH = channel.totalHeadersSize = self.bounds.max_head
        return channel

    def has_room(self) -> bool:
        """Whether there can be one more connection; an idle one may have had to go for it."""
        if len(self.connected) < self.bounds.max_connections:
            return True
        idle = (channel for channel in self.connected if not channel.requests)
        sending = (channel for channel in self.connected if not channel.is_answering)
        found = next(idle, None) or next(sending, None)
        if found is None:
            return False
        found.transport.abortConnection()
        self.connected.pop(found, None)
        return True

    def seen(self, channel: "BoundedChannel") -> None:
        """It had a request just now."""
        if channel in self.connected:
            del self.connected[channel]
            self.connected[channel] = None

    def gone(self, channel: "BoundedChannel") -> None:
        self.connected.pop(channel, None)
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


class BoundedChannel(HTTPChannel):
    MAX_LENGTH = MAX_HEAD
    totalHeadersSize = MAX_HEAD
    site: BoundedSite
    transport: Any

    def __init__(self) -> None:
        super().__init__()
        self._deadline: Any = None  # for the request that is being sent
        self._expected_bytes = 0  # of its body
        self._is_refused = False

    @property
    def is_answering(self) -> bool:
        """Whether there is a request that came as a whole."""
        return bool(self._handlingRequest)

    def connectionMade(self) -> None:
        super().connectionMade()
        has_room = self.site.has_room()
        self.site.connected[self] = None
        if not has_room:
            self.site.refused += 1
            most = self.site.bounds.max_connections
            self.refuse(503, f"there are {most} connections already; try again later")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        self._expect_nothing()
        super().connectionLost(reason)
        self.site.gone(self)

    def dataReceived(self, data: bytes) -> None:
        if self._deadline is None and not self._handlingRequest:
            self._expect_request()
        super().dataReceived(data)

    def _expect_request(self) -> None:
        request_s = self.site.bounds.request_s
        self._deadline = self.callLater(request_s, self.timeoutConnection)

    def _expect_nothing(self) -> None:
        if self._deadline is not None and self._deadline.active():
            self._deadline.cancel()
        self._deadline = None
        self.site.expected_bytes -= self._expected_bytes
        self._expected_bytes = 0

    def lineLengthExceeded(self, line: bytes) -> None:
        self.refuse(414, f"the head of a request may have {self.MAX_LENGTH} bytes")

    def allHeadersReceived(self) -> None:
        # Before any of it comes: it is held in memory.
        command: Any = self._command
        path: Any = self._path
        most = self.site.most_body(command, path)
        site = self.site
        if len(path.partition(b"?")[0]) > MAX_PATH:
            self.refuse(414, f"a path may have {MAX_PATH} bytes")
        elif self.length is None:
            self.refuse(411, "send the length of the body as Content-Length")
        elif self.length > most:
            self.refuse(413, f"the body may have {most} bytes")
        elif site.expected_bytes + self.length > MOST_BODIES:
            self.refuse(503, "too much is being sent at this moment; try again later")
        else:
            self._expected_bytes = self.length
            site.expected_bytes += self.length
            super().allHeadersReceived()

    def allContentReceived(self) -> None:
        if self._is_refused:
            return
        self._expect_nothing()
        self.site.seen(self)
        super().allContentReceived()

    def requestDone(self, request: object) -> None:
        super().requestDone(request)
        # Also if the connection only waits for its output to be taken.
        self.setTimeout(self.site.bounds.idle_s)

    def timeoutConnection(self) -> None:
        self.transport.abortConnection()

    def refuse(self, code: int, text: str) -> None:
        self._is_refused = True
        kind, body = self.site.refusal(code, text)
        head = (
            f"HTTP/1.1 {code} -\r\nConnection: close\r\nContent-Type: {kind}\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        )
        self.transport.write(head.encode("ascii") + body)
        self.loseConnection()
