"""A test case with a broker inside: mhub's own hub and loop, on real sockets, in this thread.

The clock is the test's: `advance` moves it and runs the timers.  `start` is called by the first
connection when a test has not done so itself to set limits.
"""

import dataclasses
import itertools
import socket
import time
from typing import Any, ClassVar

from twisted.trial import unittest

from mhub.core import events
from mhub.core.events import Event, Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.limits import Limits
from mhub.net.layers import WebSocketLayer
from mhub.net.loop import Acceptor, Loop
from tests.core.world import Defect
from tests.helpers import packets, websocket
from tests.helpers.client import PATIENCE_S, RawClient
from tests.helpers.packets import Text

TICK_S = 0.25
TICKS = 400
"""A longer time passes in so many steps, else a month would take a while."""


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


class Diary:
    """The broker's events, written down for the test."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []

    def emit(self, event: Event) -> None:
        if event.kind == events.CONNECTED:
            self.lines.append(("connected", event.client_id))
        elif event.kind in (events.REFUSED, events.DISCONNECTED):
            self.lines.append((event.kind, event.client_id, event.reason, event.text))
        elif event.kind == events.CRASHED:
            assert event.error is not None
            self.crashed(event.text, event.error)
        elif event.principal.listener:
            self.lines.append((event.kind, event.principal.listener, event.text))

    def crashed(self, what: str, error: Exception) -> None:
        raise Defect(f"a defect hit {what}") from error


class BrokerCase(unittest.SynchronousTestCase):
    """Each test gets a broker of its own; `limits` are overrides for all tests of a class."""

    limits: ClassVar[dict[str, Any]] = {}
    version = 4
    hub: Hub
    loop: Loop
    port: int
    _web: Acceptor | None = None

    def start(self, **limits: Any) -> None:
        """A broker whose listener has these limits; fields of HubSettings may be given, too."""
        fields = {field.name for field in dataclasses.fields(Limits)}
        limits = {**self.limits, **limits}
        settings = HubSettings()
        for name, value in limits.items():
            if hasattr(settings, name):
                setattr(settings, name, value)
        self.clock = Clock()
        self.diary = Diary()
        numbers = itertools.count(1)
        self.hub = Hub(settings, Events([self.diary]), lambda: str(next(numbers)), self.clock.now)
        self.loop = Loop(self.hub, self.clock, bytes.hex)
        self.addCleanup(self.loop.close)
        own = {name: value for name, value in limits.items() if name in fields}
        self.limits_in_use = Limits(**own)
        self.port = self.listen("test").listener.getsockname()[1]

    def listen(self, name: str) -> Acceptor:
        """One more listener with the same limits."""
        listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        # Accepted sockets inherit it; tests are short conversations of small packets.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.setblocking(False)
        acceptor = Acceptor(name, listener, self.limits_in_use)
        self.loop.listen(acceptor)
        return acceptor

    def pump(self) -> bool:
        """One turn of the broker; whether there was anything to do."""
        busy = bool(self.loop.epoll.poll(0)) or bool(self.hub.unfinished)
        self.loop.turn()
        return busy

    def advance(self, seconds: float) -> None:
        """Let time pass for the broker."""
        step = max(TICK_S, seconds / TICKS)
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.clock.now = min(end, self.clock.now + step)
            self.loop.tick()
            while self.pump():
                pass

    def open(self, version: int | None = None) -> RawClient:
        """A TCP connection on which nothing was sent yet."""
        return RawClient(self._socket(), self.pump, version or self.version, self)

    def connect(
        self, client_id: Text = "c", version: int | None = None, **connect: Any
    ) -> RawClient:
        """A connected client; `connect` are arguments of `packets.connect`."""
        client = self.open(version)
        client.send(packets.connect(client_id, client.version, **connect))
        client.connack = client.expect("CONNACK", reason=0)
        return client

    def upgrade(
        self, version: int | None = None, **request: Any
    ) -> tuple[int, dict[str, str], RawClient]:
        """Ask for a WebSocket: status and header fields of the answer, and a client on it."""
        sock = self._socket(self._websocket_port())
        sock.setblocking(False)
        sock.send(websocket.request(**request))
        head, rest = self._head(sock)
        status, fields = websocket.response(head)
        stream = websocket.WebSocket(sock, rest) if status == 101 else sock
        return status, fields, RawClient(stream, self.pump, version or self.version, self)

    def open_ws(self, version: int | None = None) -> RawClient:
        """A WebSocket on which no MQTT was sent yet."""
        status, fields, client = self.upgrade(version)
        self.assertEqual((101, "mqtt"), (status, fields.get("sec-websocket-protocol")))
        return client

    def _socket(self, port: int | None = None) -> socket.socket:
        if not hasattr(self, "loop"):
            self.start()
        sock = socket.create_connection(("127.0.0.1", port or self.port))
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while self.pump():
            pass  # Accepted in the order in which the test connects.
        return sock

    def _websocket_port(self) -> int:
        if not hasattr(self, "loop"):
            self.start()
        if self._web is None:
            self._web = self.listen("web")
            self._web.layers = lambda: [WebSocketLayer("/mqtt", (), 8192)]
        port: int = self._web.listener.getsockname()[1]
        return port

    def _head(self, sock: socket.socket) -> tuple[bytes, bytes]:
        """The header of an HTTP answer, and what came behind it."""
        data = b""
        deadline = time.monotonic() + PATIENCE_S
        while b"\r\n\r\n" not in data:
            if not self.pump() and time.monotonic() > deadline:
                self.fail(f"no answer to the handshake, only {data!r}")
            try:
                piece = sock.recv(65536)
            except BlockingIOError:
                continue
            if not piece:
                self.fail(f"the broker closed amid the handshake: {data!r}")
            data += piece
        head, _, rest = data.partition(b"\r\n\r\n")
        return head, rest
