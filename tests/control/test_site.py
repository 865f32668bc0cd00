"""The bounds of connections to a control socket."""

from typing import Any

from klein import Klein
from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from mhub.control.contract import MAX_HEAD, MAX_REQUEST
from mhub.control.site import BOUNDS, control_site
from mhub.web.site import CLOSE_S, BoundedChannel

IDLE_S = BOUNDS.idle_s


def post(path: str, body: bytes = b"{}", version: str = "1.0") -> bytes:
    return f"POST /{path} HTTP/{version}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class SiteTests(TestCase):
    """One connection, without a socket."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.waiting: list[Deferred[bytes]] = []
        app = Klein()
        app.route("/length", methods=["GET", "POST"])(self.length)
        app.route("/wait", methods=["POST"])(self.wait)
        self.site = control_site(app.resource(), self.clock)
        self.channel, self.transport = self.connect()

    def length(self, request: Any) -> bytes:
        return b"%d" % len(request.content.read())

    def wait(self, request: Any) -> Deferred[bytes]:
        self.waiting.append(Deferred())
        return self.waiting[-1]

    def connect(self) -> tuple[BoundedChannel, StringTransport]:
        channel, transport = self.site.buildProtocol(None), StringTransport()
        channel.makeConnection(transport)
        return channel, transport

    def answer(self) -> tuple[int, bytes]:
        """The status and the body that came since the last time."""
        head, _, body = self.transport.value().partition(b"\r\n\r\n")
        self.transport.clear()
        return int(head.split()[1]), body

    def lose(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))

    def test_byte_by_byte(self) -> None:
        for byte in post("length", b"12345"):
            self.channel.dataReceived(bytes([byte]))
        self.assertEqual(self.answer(), (200, b"5"))

    def test_several_on_one_connection(self) -> None:
        """A request waits for the answer to the one before."""
        self.channel.dataReceived(post("wait", version="1.1") * 2)
        self.assertEqual((self.transport.value(), len(self.waiting)), (b"", 1))
        self.waiting[0].callback(b"done")
        self.assertIn(b"done", self.transport.value())
        self.assertEqual(len(self.waiting), 2)
        self.assertFalse(self.transport.disconnecting)

    def test_long_request(self) -> None:
        self.channel.dataReceived(post("length", b" " * MAX_REQUEST))
        self.assertEqual(self.answer(), (200, b"%d" % MAX_REQUEST))
        self.channel, self.transport = self.connect()
        self.channel.dataReceived(post("length", b" " * (MAX_REQUEST + 1))[:100])
        status, body = self.answer()
        self.assertEqual(status, 413)
        self.assertIn(b'"detail": "the body may have 4194304 bytes"', body)
        self.assertTrue(self.transport.disconnecting)

    def test_long_query(self) -> None:
        """The longest topic fits, each of its bytes escaped; more does not."""
        self.channel.dataReceived(b"GET /length?t=" + b"%FF" * 65_535 + b" HTTP/1.0\r\n\r\n")
        self.assertEqual(self.answer(), (200, b"0"))
        self.channel, self.transport = self.connect()
        self.channel.dataReceived(b"GET /" + b"x" * (MAX_HEAD + 1))
        self.assertTrue(self.transport.disconnecting)

    def test_request_of_unknown_length(self) -> None:
        self.channel.dataReceived(b"POST /length HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.assertEqual(self.answer()[0], 411)

    def test_idle(self) -> None:
        self.clock.advance(IDLE_S - 1)
        self.channel.dataReceived(b"POST")
        self.clock.advance(IDLE_S - 1)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnected)

    def test_who_does_not_take_the_answer(self) -> None:
        self.channel.dataReceived(post("length"))
        self.assertTrue(self.transport.disconnecting)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(IDLE_S)
        self.assertTrue(self.transport.disconnected)

    def test_an_operation_that_runs_is_not_idle(self) -> None:
        self.channel.dataReceived(post("wait"))
        self.clock.pump([IDLE_S] * 5)
        self.assertFalse(self.transport.disconnected)

    def test_too_many(self) -> None:
        """An idle one makes room; where all are busy, nobody does."""
        idle = self.transport
        for _ in range(BOUNDS.max_connections):
            self.channel, self.transport = self.connect()
            self.channel.dataReceived(post("wait"))
        self.assertTrue(idle.disconnected)
        _, self.transport = self.connect()
        status, body = self.answer()
        self.assertEqual(status, 503)
        self.assertIn(b"there are 16 connections already; try again later", body)
        self.assertTrue(self.transport.disconnecting)

    def test_a_request_that_comes_drop_by_drop(self) -> None:
        self.channel.dataReceived(b"POST /length HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        for _ in range(int(BOUNDS.request_s) - 1):
            self.clock.advance(1)
            self.channel.dataReceived(b" ")
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnected)

    def test_stop_with_one_who_does_not_read(self) -> None:
        self.site.close()
        self.clock.advance(CLOSE_S)
        self.assertTrue(self.transport.disconnected)

    def test_stop_without_clients(self) -> None:
        self.lose()
        self.successResultOf(self.site.close())
