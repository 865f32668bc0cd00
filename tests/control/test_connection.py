"""Requests at a control socket and their answers, the bounds of a connection, its end."""

import json

from twisted.internet.error import ConnectionDone
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import TestCase

from mhub.control.connection import CLOSE_S, IDLE_S, MAX_CLIENTS, Client, Clients
from mhub.control.contract import MAX_REQUEST
from tests.control.commands import Commands


class ConnectionCase(TestCase):
    """One connection, without a socket."""

    def setUp(self) -> None:
        self.clock = Clock()
        self.commands = Commands()
        self.clients = Clients(self.commands, self.clock)
        self.client, self.transport = self.connect()

    def connect(self) -> tuple[Client, StringTransport]:
        client, transport = self.clients.buildProtocol(None), StringTransport()
        client.makeConnection(transport)
        return client, transport

    def send(self, *requests: object) -> None:
        self.client.dataReceived(
            b"".join(json.dumps(request).encode() + b"\n" for request in requests)
        )

    def received(self) -> list[dict[str, object]]:
        """What was answered since the last time."""
        lines = self.transport.value().split(b"\n")
        self.transport.clear()
        self.assertEqual(lines.pop(), b"")
        return [json.loads(line) for line in lines]

    def lose(self) -> None:
        self.client.connectionLost(Failure(ConnectionDone()))


class RequestTests(ConnectionCase):
    def test_arguments_and_result(self) -> None:
        self.send({"command": "echo", "node": "b", "n": [1]})
        self.assertEqual(self.received(), [{"ok": True, "result": {"node": "b", "n": [1]}}])

    def test_byte_by_byte(self) -> None:
        for byte in b'{"command": "echo"}\n{"command": "no"}\n':
            self.client.dataReceived(bytes([byte]))
        self.assertEqual(
            self.received(), [{"ok": True, "result": {}}, {"ok": False, "error": "not today"}]
        )

    def test_progress_then_result(self) -> None:
        self.send({"command": "later"})
        self.assertEqual(self.received(), [{"progress": "one"}, {"progress": "two"}])
        self.commands.waiting[0].callback(3)
        self.assertEqual(self.received(), [{"ok": True, "result": 3}])

    def test_one_after_the_other(self) -> None:
        """A request waits for the answer to the one before, and nothing more is read."""
        self.send({"command": "wait"}, {"command": "echo"}, {"command": "wait"})
        self.assertEqual((self.received(), len(self.commands.waiting)), ([], 1))
        self.assertEqual(self.transport.producerState, "paused")
        self.commands.waiting[0].callback(1)
        self.assertEqual(self.received(), [{"ok": True, "result": 1}, {"ok": True, "result": {}}])
        self.commands.waiting[1].callback(2)
        self.assertEqual(self.received(), [{"ok": True, "result": 2}])
        self.assertEqual(self.transport.producerState, "producing")

    def test_unknown_command(self) -> None:
        known = "this broker knows bad, echo, later, no, wait"
        self.send({"command": "ehco"}, {"command": 7}, {"node": "b"})
        self.assertEqual(
            [answer["error"] for answer in self.received()],
            [
                f'no command "ehco"; {known}',
                f'no command "7"; {known}',
                f'expected the key "command"; {known}',
            ],
        )

    def test_not_a_request(self) -> None:
        """Other lines are answered, and do no harm to those that follow."""
        for line in (b"", b"status", b"[]", b"\xff", b'"echo"', b"[" * 60_000):
            self.client.dataReceived(line + b'\n{"command": "echo"}\n')
            self.assertEqual(
                self.received(),
                [
                    {"ok": False, "error": 'expected a JSON object with the key "command"'},
                    {"ok": True, "result": {}},
                ],
            )

    def test_a_mistake_of_ours(self) -> None:
        """It is told to both sides, and the connection goes on."""
        self.send({"command": "bad"})
        (answer,) = self.received()
        self.assertEqual(answer["error"], "the broker failed: KeyError: 'missing'; see its log")
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)
        self.commands["echo"] = lambda arguments, say: object()
        self.send({"command": "echo"})
        self.assertIn("TypeError", str(self.received()))
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)


class BoundTests(ConnectionCase):
    def test_long_request(self) -> None:
        fits = b'{"command": "echo"}'.ljust(MAX_REQUEST)
        self.client.dataReceived(fits + b"\n")
        self.assertEqual(self.received(), [{"ok": True, "result": {}}])
        self.client.dataReceived(fits)
        self.assertEqual(self.received(), [])
        self.client.dataReceived(b" ")
        self.assertEqual(
            self.received(), [{"ok": False, "error": "a request may have 65536 bytes"}]
        )
        self.assertTrue(self.transport.disconnecting)

    def test_who_does_not_take_answers(self) -> None:
        """Nothing more is done for one who does not read, until it does."""
        self.client.pauseProducing()
        self.send({"command": "echo"}, {"command": "echo"})
        self.assertEqual(self.received(), [])
        self.assertEqual(self.transport.producerState, "paused")
        self.client.resumeProducing()
        self.assertEqual(len(self.received()), 2)
        self.assertEqual(self.transport.producerState, "producing")

    def test_full_while_a_command_runs(self) -> None:
        self.send({"command": "wait"}, {"command": "echo"})
        self.client.pauseProducing()
        self.client.resumeProducing()
        self.assertEqual(self.transport.producerState, "paused")
        self.client.pauseProducing()
        self.commands.waiting[0].callback(None)
        self.assertEqual(len(self.received()), 1)
        self.client.resumeProducing()
        self.assertEqual(len(self.received()), 1)

    def test_idle(self) -> None:
        self.clock.advance(IDLE_S - 1)
        self.send({"command": "echo"})
        self.clock.advance(IDLE_S - 1)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnected)

    def test_a_command_that_runs_is_not_idle(self) -> None:
        self.send({"command": "wait"})
        self.clock.pump([IDLE_S] * 5)
        self.assertFalse(self.transport.disconnected)
        self.commands.waiting[0].callback(None)
        self.clock.advance(IDLE_S - 1)
        self.assertFalse(self.transport.disconnected)
        self.clock.advance(1)
        self.assertTrue(self.transport.disconnected)

    def test_too_many(self) -> None:
        for _ in range(MAX_CLIENTS - 1):
            _, transport = self.connect()
        self.assertFalse(transport.disconnecting)
        other, self.transport = self.connect()
        self.assertEqual(
            self.received(),
            [{"ok": False, "error": "16 others use the control socket; try again later"}],
        )
        self.assertTrue(self.transport.disconnecting)
        other.connectionLost()
        self.lose()
        _, transport = self.connect()
        self.assertFalse(transport.disconnecting)


class EndTests(ConnectionCase):
    def test_last_request(self) -> None:
        """Who closes its side after a request gets the answer first."""
        self.assertTrue(IHalfCloseableProtocol.providedBy(self.client))
        self.send({"command": "echo"})
        self.client.readConnectionLost()
        self.assertEqual(len(self.received()), 1)
        self.assertTrue(self.transport.disconnecting)
        self.assertIsNone(self.transport.producer)

    def test_a_command_goes_on_without_its_caller(self) -> None:
        self.send({"command": "later"}, {"command": "wait"})
        self.lose()
        self.received()
        self.commands.waiting[0].callback(None)
        self.assertEqual(self.received(), [])
        self.assertEqual(len(self.commands.waiting), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_stop(self) -> None:
        """What runs is cancelled and answered; what waits is not begun."""
        self.send({"command": "wait"}, {"command": "echo"})
        ended = self.clients.close()
        self.assertTrue(self.commands.waiting[0].called)
        self.assertEqual(self.received(), [{"ok": False, "error": "the broker is stopping"}])
        self.assertTrue(self.transport.disconnecting)
        self.assertNoResult(ended)
        self.lose()
        self.successResultOf(ended)

    def test_stop_with_one_who_does_not_read(self) -> None:
        self.clients.close()
        self.clock.advance(CLOSE_S)
        self.assertTrue(self.transport.disconnected)

    def test_stop_without_clients(self) -> None:
        self.lose()
        self.successResultOf(self.clients.close())
