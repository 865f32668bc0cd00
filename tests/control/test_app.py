"""Requests at a control socket and their answers, the bounds of a connection, its end."""

import json

from twisted.internet.error import ConnectionDone
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from mhub.control.app import ControlApp
from mhub.control.contract import MAX_REQUEST
from mhub.control.site import BOUNDS, control_site
from mhub.operations.contract import OperationError
from mhub.web.site import CLOSE_S, BoundedChannel
from mhub.web.stream import STALL_S
from tests.control.operations import FakeOperations

IDLE_S = BOUNDS.idle_s


def post(path: str, body: bytes = b"{}", version: str = "1.1") -> bytes:
    return f"POST /{path} HTTP/{version}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


class AppCase(TestCase):
    """One connection, without a socket."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.operations = FakeOperations()
        self.app = ControlApp(self.operations, self.clock)
        self.site = control_site(self.app.app.resource(), self.clock)
        self.channel, self.transport = self.connect()

    def connect(self) -> tuple[BoundedChannel, StringTransport]:
        channel, transport = self.site.buildProtocol(None), StringTransport()
        channel.makeConnection(transport)
        return channel, transport

    def ask(self, operation: str, **arguments: object) -> None:
        # As HTTP/1.0, whose answer is not in chunks.
        self.channel.dataReceived(post(operation, json.dumps(arguments).encode(), "1.0"))

    def answer(self) -> tuple[int, list[dict[str, object]]]:
        """The status and the lines that came since the last time."""
        head, _, body = self.transport.value().partition(b"\r\n\r\n")
        self.transport.clear()
        return int(head.split()[1]), self.lines(body)

    def lines(self, body: bytes) -> list[dict[str, object]]:
        *lines, rest = body.split(b"\n")
        self.assertEqual(rest, b"")
        return [json.loads(line) for line in lines]

    def assertAnswer(self, status: int, *lines: dict[str, object]) -> None:
        self.assertEqual(self.answer(), (status, list(lines)))

    def lose(self) -> None:
        self.channel.connectionLost(Failure(ConnectionDone()))


class RequestTests(AppCase):
    def test_result(self) -> None:
        self.ask("status")
        self.assertAnswer(
            200, {"result": {"clients": [], "left": 1, "sessions": 2, "next": "", "missing": []}}
        )
        self.assertTrue(self.transport.disconnecting)

    def test_arguments(self) -> None:
        self.ask("clients", match="b*", limit=5, state="offline")
        self.assertAnswer(200, {"result": {"match": "b*", "limit": 5, "state": "offline"}})

    def test_byte_by_byte(self) -> None:
        for byte in post("clients", b'{"after": "x"}', "1.0"):
            self.channel.dataReceived(bytes([byte]))
        self.assertAnswer(200, {"result": {"after": "x"}})

    def test_several_on_one_connection(self) -> None:
        """A request waits for the answer to the one before."""
        self.channel.dataReceived(post("kick", b'{"client_id": "a"}') * 2)
        self.assertEqual((self.transport.value(), len(self.operations.waiting)), (b"", 1))
        self.operations.waiting[0].callback(None)
        self.assertIn(b'{"result":null}\n', self.transport.value())
        self.assertEqual(len(self.operations.waiting), 2)
        self.assertFalse(self.transport.disconnecting)

    def test_without_arguments(self) -> None:
        self.channel.dataReceived(b"GET /clients HTTP/1.0\r\n\r\n")
        self.assertAnswer(200, {"result": {}})

    def test_changes_need_post(self) -> None:
        self.channel.dataReceived(b"GET /kick HTTP/1.0\r\n\r\n")
        self.assertAnswer(405, {"error": "this operation needs POST"})
        self.assertEqual(self.operations.waiting, [])

    def test_progress_then_result(self) -> None:
        self.ask("cluster-leave")
        self.assertAnswer(200, {"progress": "one"}, {"progress": "two"})
        self.operations.waiting[0].callback(3)
        self.assertEqual(self.lines(self.transport.value()), [{"result": 3}])

    def test_refusals(self) -> None:
        """The status says whose fault it is."""
        for operation, arguments, status, text in (
            ("cluster-status", {}, 409, "not today"),
            ("client", {"client_id": "nobody"}, 404, "there is no such client"),
            ("client", {}, 400, "client_id: expected text"),
            ("client", {"client_id": 7}, 400, "client_id: expected text"),
            ("clients", {"limit": True}, 400, "limit: expected an integer"),
            ("clients", {"limit": None}, 400, "limit: expected an integer"),
            ("kick", {"client_id": "a", "forget": True}, 400, "unknown argument 'forget'"),
            (
                "sattus",
                {},
                404,
                "this broker knows client, clients, cluster-forget, cluster-leave, cluster-status,"
                " kick, status, store-export",
            ),
        ):
            self.channel, self.transport = self.connect()
            self.ask(operation, **arguments)
            self.assertAnswer(status, {"error": text})
            self.lose()
        self.assertEqual(self.operations.waiting, [])

    def test_access(self) -> None:
        """The calls of the access interface, with their defaults."""
        self.ask("access/users", match="a*")
        asked = {"match": "a*", "role": "", "after": "", "limit": 1000}
        self.assertAnswer(200, {"result": asked})
        self.channel, self.transport = self.connect()
        self.ask("access/user-add", name="alice")
        self.assertAnswer(200, {"result": {"version": "1"}})
        self.assertEqual(
            self.operations.access.added,
            [{"name": "alice", "password": "", "iterations": 0, "values": {}, "reason": ""}],
        )

    def test_access_refusals(self) -> None:
        for operation, arguments, status, text in (
            ("access/user-add", {}, 400, "name: expected text"),
            ("access/user-add", {"name": "a", "values": []}, 400, "values: expected an object"),
            (
                "access/user-add",
                {"nmae": "a"},
                400,
                "unknown argument 'nmae'; did you mean 'name'?",
            ),
        ):
            self.channel, self.transport = self.connect()
            self.ask(operation, **arguments)
            self.assertAnswer(status, {"error": text})
            self.lose()
        self.channel, self.transport = self.connect()
        self.channel.dataReceived(b"GET /access/user-add HTTP/1.0\r\n\r\n")
        self.assertAnswer(405, {"error": "this operation needs POST"})
        self.channel, self.transport = self.connect()
        self.ask("access/usr")
        self.assertIn(b"this broker knows access/ban-add, ", self.transport.value())
        self.assertEqual(self.operations.access.added, [])

    def test_not_json(self) -> None:
        for body in (b"status", b"[]", b"\xff", b'"echo"', b"[" * 60_000):
            self.channel, self.transport = self.connect()
            self.channel.dataReceived(post("status", body, "1.0"))
            self.assertAnswer(400, {"error": "expected the arguments as a JSON object"})
            self.lose()

    def test_text_that_utf8_does_not_have(self) -> None:
        """JSON can say half of a surrogate pair: it comes back as it came."""
        self.ask("client", client_id="\udcff")
        self.assertAnswer(200, {"result": {"client_id": "\udcff"}})
        self.channel, self.transport = self.connect()
        self.operations.refusal = "\ud800 again"
        self.ask("cluster-status")
        self.assertAnswer(409, {"error": "\ud800 again"})

    def test_a_mistake_of_ours(self) -> None:
        """It is told to both sides."""
        self.ask("cluster-forget", node="b")
        self.assertAnswer(500, {"error": "the broker failed: KeyError: 'b'; see its log"})
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_a_result_that_json_does_not_have(self) -> None:
        self.operations.status = object
        self.ask("status")
        ((_, (line,)),) = (self.answer(),)
        self.assertIn("TypeError", str(line))
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)


class BoundTests(AppCase):
    def test_long_request(self) -> None:
        fits = b"{}".ljust(MAX_REQUEST)
        self.channel.dataReceived(post("clients", fits, "1.0"))
        self.assertAnswer(200, {"result": {}})
        self.channel, self.transport = self.connect()
        self.channel.dataReceived(post("clients", fits + b" ")[:100])
        self.assertAnswer(413, {"error": f"the body may have {MAX_REQUEST} bytes"})
        self.assertTrue(self.transport.disconnecting)

    def test_the_longest_client_id(self) -> None:
        name = "\x01" * 65_535
        self.ask("client", client_id=name)
        self.assertAnswer(200, {"result": {"client_id": name}})

    def test_request_of_unknown_length(self) -> None:
        self.channel.dataReceived(b"POST /clients HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
        self.assertEqual(self.answer()[0], 411)

    def test_endless_head(self) -> None:
        self.channel.dataReceived(b"GET /" + b"x" * 300_000)
        self.assertTrue(self.transport.disconnecting)

    def test_idle(self) -> None:
        self.clock.advance(IDLE_S - 1)
        self.channel.dataReceived(b"POST")
        self.clock.advance(IDLE_S - 1)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnected)

    def test_who_does_not_take_the_answer(self) -> None:
        self.ask("status")
        self.assertTrue(self.transport.disconnecting)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(IDLE_S)
        self.assertTrue(self.transport.disconnected)

    def test_an_operation_that_runs_is_not_idle(self) -> None:
        self.ask("kick", client_id="a")
        self.clock.pump([IDLE_S] * 5)
        self.assertFalse(self.transport.disconnected)

    def test_too_many(self) -> None:
        """An idle one makes room; where all are busy, nobody does."""
        idle = self.transport
        for _ in range(BOUNDS.max_connections):
            self.channel, self.transport = self.connect()
            self.ask("kick", client_id="a")
        self.assertTrue(idle.disconnected)
        _, self.transport = self.connect()
        self.assertAnswer(503, {"error": "there are 16 connections already; try again later"})
        self.assertTrue(self.transport.disconnecting)

    def test_a_request_that_comes_drop_by_drop(self) -> None:
        self.channel.dataReceived(b"POST /status HTTP/1.1\r\nContent-Length: 100\r\n\r\n")
        for _ in range(int(BOUNDS.request_s) - 1):
            self.clock.advance(1)
            self.channel.dataReceived(b" ")
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnected)


class StreamTests(AppCase):
    def test_data(self) -> None:
        self.ask("store-export")
        head, _, body = self.transport.value().partition(b"\r\n\r\n")
        self.assertIn(b" 200 ", head)
        self.assertEqual(body, b"x" * 210_000 + b'{"result":null}\n')
        self.assertEqual(self.operations.ended, ["export"])

    def test_as_fast_as_it_is_taken(self) -> None:
        self.operations.before_export = self.channel.pauseProducing
        self.ask("store-export")
        for parts in (1, 2, 3):
            self.assertEqual(self.transport.value().count(b"xx"), parts * 35_000)
            self.assertEqual(self.operations.ended, [])
            self.operations.before_export = self.channel.pauseProducing
            self.channel.resumeProducing()
        self.assertTrue(self.transport.value().endswith(b'{"result":null}\n'))

    def test_a_client_that_takes_nothing(self) -> None:
        self.operations.before_export = self.channel.pauseProducing
        self.ask("store-export")
        self.clock.advance(STALL_S)
        self.assertTrue(self.transport.disconnected)
        self.lose()
        self.assertEqual(self.operations.ended, ["export"])

    def test_a_client_that_goes(self) -> None:
        self.operations.before_export = self.channel.pauseProducing
        self.ask("store-export")
        self.lose()
        self.assertEqual(self.operations.ended, ["export"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_error_behind_data(self) -> None:
        def fail() -> None:
            raise OperationError("not today")

        self.ask("status")
        self.channel, self.transport = self.connect()
        self.operations.after_export = fail
        self.ask("store-export")
        self.assertTrue(self.transport.value().endswith(b'x{"error":"not today"}\n'))


class EndTests(AppCase):
    def test_an_operation_goes_on_without_its_caller(self) -> None:
        self.ask("cluster-leave")
        self.transport.clear()
        self.lose()
        self.assertFalse(self.operations.waiting[0].called)
        self.operations.waiting[0].callback(None)
        self.assertEqual(self.transport.value(), b"")
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop(self) -> None:
        """What runs is cancelled and answered; what waits is not begun."""
        self.channel.dataReceived(post("kick", b'{"client_id": "a"}', "1.0") + post("status"))
        self.app.stop()
        ended = self.site.close()
        self.assertTrue(self.operations.waiting[0].called)
        self.assertAnswer(503, {"error": "the broker is stopping"})
        self.assertTrue(self.transport.disconnecting)
        self.assertNoResult(ended)
        self.lose()
        self.successResultOf(ended)

    def test_stop_with_one_who_does_not_read(self) -> None:
        self.site.close()
        self.clock.advance(CLOSE_S)
        self.assertTrue(self.transport.disconnected)

    def test_stop_without_clients(self) -> None:
        self.lose()
        self.successResultOf(self.site.close())
