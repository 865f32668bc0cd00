"""The socket loop for tests: real loopback sockets, one thread, a clock of the test's own."""

import itertools
import select
import socket
import time
from collections.abc import Callable
from typing import Any
from unittest import TestCase

from mhub.core.events import Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.limits import Limits
from mhub.net.loop import Acceptor, Link, Loop
from tests.helpers import broker
from tests.helpers import packets as p

PATIENCE_S = 5.0
"""How long loopback may take: only failures wait that long."""


class Diary(broker.Diary):
    def crashed(self, what: str, error: Exception) -> None:
        self.lines.append(("crashed", what, error))


class Full(socket.socket):
    """A listener of a process that has no descriptors left, while `problem` is set."""

    problem: OSError | None = None

    def accept(self) -> tuple[socket.socket, Any]:
        if self.problem is not None:
            raise self.problem
        return super().accept()


def _narrow(sock: socket.socket) -> None:
    """Small buffers, so that little fills them."""
    for buffer in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        sock.setsockopt(socket.SOL_SOCKET, buffer, 32768)


class Case(TestCase):
    def setUp(self) -> None:
        self.start()

    def start(self, **options: Any) -> None:
        settings = HubSettings()
        limits = {}
        for name, value in options.items():
            if hasattr(settings, name):
                setattr(settings, name, value)
            else:
                limits[name] = value
        self.clock = broker.Clock()
        self.diary = Diary()
        tokens = itertools.count(1)
        self.hub = Hub(settings, Events([self.diary]), lambda: str(next(tokens)), self.clock.now)
        self.loop = Loop(self.hub, self.clock, bytes.hex)
        self.addCleanup(self.loop.close)
        self.listener = Full()
        _narrow(self.listener)
        self.listener.bind(("127.0.0.1", 0))
        self.listener.listen(1024)
        self.listener.setblocking(False)
        self.acceptor = Acceptor("test", self.listener, Limits(**limits))
        self.loop.listen(self.acceptor)

    def dial(self) -> socket.socket:
        """A connection to the listener, not yet accepted."""
        sock = socket.socket()
        _narrow(sock)
        sock.connect(self.listener.getsockname())
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setblocking(False)
        self.addCleanup(sock.close)
        return sock

    def client(self, name: str = "c", version: int = 4, **connect: Any) -> socket.socket:
        sock = self.dial()
        sock.send(p.connect(name, version, **connect))
        head = self.receive(sock, 4)
        self.assertEqual((head[0], head[3]), (0x20, 0))
        if version == 5:
            self.receive(sock, head[1] - 2)
        return sock

    def subscribe(self, sock: socket.socket, topic_filter: str, qos: int = 0) -> None:
        sock.send(p.subscribe(1, (topic_filter, qos)))
        self.receive(sock, 5)

    def link(self, name: str) -> Link:
        (found,) = [k for k in self.loop.links.values() if k.connection.client_id == name]
        return found

    def until(self, done: Callable[[], bool], why: str = "it did not happen") -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            self.loop.turn()
            self.assertLess(time.monotonic(), deadline, why)

    def quiet(self) -> None:
        """Turns until the broker has nothing to do."""
        idle = 0
        deadline = time.monotonic() + PATIENCE_S
        while idle < 3:
            busy = self.loop.epoll.poll(0.001) or self.hub.unfinished
            self.loop.turn()
            idle = 0 if busy else idle + 1
            self.assertLess(time.monotonic(), deadline, "the broker does not come to rest")

    def receive(self, sock: socket.socket, size: int) -> bytes:
        data = bytearray()

        def more() -> bool:
            try:
                piece = sock.recv(min(size - len(data), 1 << 20))
            except BlockingIOError:
                return False
            self.assertTrue(piece, f"closed after {len(data)} of {size} bytes")
            data.extend(piece)
            return len(data) == size

        self.until(more, f"{size} bytes did not come")
        return bytes(data)

    def rest(self, sock: socket.socket) -> bytes:
        """Everything until the broker closes; a reset fails the test."""
        data = b""

        def ended() -> bool:
            nonlocal data
            try:
                piece = sock.recv(1 << 20)
            except BlockingIOError:
                return False
            data += piece
            return not piece

        self.until(ended, f"the broker does not close, after {data[:50]!r}")
        return data

    def hear(self, sock: socket.socket, size: int) -> bytes:
        """The next bytes, which the broker has written already: no turn of it is run."""
        ready, _, _ = select.select([sock], [], [], PATIENCE_S)
        self.assertTrue(ready, "nothing was written")
        return sock.recv(size)

    def flood(self, sock: socket.socket, packet: bytes, check: Callable[[], None]) -> int:
        """Send a packet again and again until the broker takes no more; how many bytes it was."""
        stream = packet * 500
        sent = idle = 0
        deadline = time.monotonic() + PATIENCE_S
        while idle < 20:
            try:
                sent += sock.send(stream[sent % len(stream) :])
                idle = 0
            except BlockingIOError:
                idle += 1
            self.quiet()
            check()
            self.assertLess(time.monotonic(), deadline, "the broker takes it without end")
        return sent

    def land(self) -> None:
        """Loopback may hand over what was sent a moment later; a test that counts turns waits."""
        time.sleep(0.003)

    def ping(self, sock: socket.socket) -> None:
        sock.send(p.pingreq())
        self.assertEqual(self.receive(sock, 2), b"\xd0\0")

    def reports(self, kind: str) -> list[tuple[Any, ...]]:
        return [line for line in self.diary.lines if line[0] == kind]
