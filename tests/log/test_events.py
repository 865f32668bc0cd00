"""Events as lines of the log: what they say, and at which level."""

from typing import Any

from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import TestCase

from mhub.core import events
from mhub.core.events import Event, Events, EventSource
from mhub.core.limits import Limits
from mhub.log import set_level
from mhub.log.events import EventLog
from mhub.wire import reasons
from tests.core.world import Client, World


class Case(TestCase):
    def setUp(self) -> None:
        self.lines: list[dict[str, Any]] = []
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)
        set_level("debug")
        self.addCleanup(set_level, "info")
        self.events = Events([EventLog()])

    def observe(self, event: dict[str, Any]) -> None:
        if event["log_namespace"].startswith("mhub.events"):
            self.lines.append(event)

    def said(self) -> str:
        """The last line, with its level."""
        event = self.lines[-1]
        return f"{event['log_level'].name}: {formatEvent(event)}"

    def source(self) -> EventSource:
        """A connection: the compiled build takes its own classes only."""
        connection = Client(World(), 5, Limits()).connection
        connection.principal.client_id = "sensor-7"
        connection.principal.address = "192.0.2.1:50000"
        connection.principal.listener = "tcp-1883"
        connection.version = 5
        return connection


class Lines(Case):
    def test_connected(self) -> None:
        source = self.source()
        self.events.connected(source, False)
        self.assertEqual(
            self.said(), "info: 'sensor-7' connected from 192.0.2.1:50000 on tcp-1883, MQTT 5.0"
        )
        source.principal.claimed_user = "alice"
        self.events.connected(source, False)
        self.assertTrue(self.said().endswith("MQTT 5.0, user 'alice' (not authenticated)"))
        source.principal.user = "alice"
        self.events.connected(source, True)
        self.assertTrue(self.said().endswith("MQTT 5.0, user 'alice', session resumed"))

    def test_disconnected(self) -> None:
        head = "info: 'sensor-7' from 192.0.2.1:50000 disconnected, "
        for reason, text, by, expected in (
            (0, "", events.CLIENT, "by the client"),
            (4, "", events.CLIENT, "by the client: disconnect with will message"),
            (
                reasons.UNSPECIFIED,
                "the peer closed the connection",
                events.NETWORK,
                "connection lost: the peer closed the connection",
            ),
            (
                reasons.KEEP_ALIVE_TIMEOUT,
                "nothing received for 15 s",
                events.BROKER,
                "by the broker: keep alive timeout (nothing received for 15 s)",
            ),
            (
                reasons.ADMINISTRATIVE_ACTION,
                "",
                events.OPERATOR,
                "by an operator",
            ),
        ):
            self.events.disconnected(self.source(), reason, text, by)
            self.assertEqual(self.said(), head + expected)

    def test_what_a_client_is_called_cannot_forge_a_line(self) -> None:
        source = self.source()
        source.principal.client_id = "a\n2026-01-01 {forged}"
        source.principal.user = "b\r\x1b[31m{forged}"
        self.events.connected(source, False)
        self.assertIn(r"'a\n2026-01-01 {forged}'", self.said())
        self.assertIn(r"'b\r\x1b[31m{forged}'", self.said())
        self.assertNotIn("\n", self.said())

    def test_what_a_client_is_called_cannot_fill_the_log(self) -> None:
        """Its client id, user names and topics may have 65,535 characters each."""
        source = self.source()
        long = "\x01" * 65_535
        source.principal.client_id = source.principal.claimed_user = long
        self.events.connected(source, False)
        self.assertLess(len(self.said()), 2500)
        self.assertIn("\\x01…' connected", self.said())
        source.principal.user = long
        for tell in (
            lambda: self.events.connected(source, True),
            lambda: self.events.refused(source, reasons.NOT_AUTHORIZED, repr(long)),
            lambda: self.events.disconnected(source, 0, long, events.CLIENT),
            lambda: self.events.taken_over(source, "x"),
            lambda: self.events.kicked(source.principal, 5, 0, "x"),
            lambda: self.events.denied(source, events.PUBLISH, long, reasons.NOT_AUTHORIZED),
            lambda: self.events.session_expired(source.principal),
            lambda: self.events.crashed(repr(long), RuntimeError("a defect")),
        ):
            tell()
            self.assertLess(len(self.said()), 3500)
            for name in ("client_id", "user", "claimed_user", "topic", "text"):
                self.assertLessEqual(len(self.lines[-1].get(name, "")), 256)
        self.flushLoggedErrors(RuntimeError)

    def test_drops(self) -> None:
        world = World()
        session = world.client("c", clean=False).connection.owner()
        world.hub.events.sinks.append(EventLog())
        session.tell_drop(events.QUEUE_FULL)
        self.assertEqual(self.said(), "info: 'c': 1 message dropped, the queue is full")
        for _ in range(40):
            session.tell_drop(events.QUEUE_FULL)
        world.wait(10)
        self.assertEqual(self.said(), "info: 'c': 40 more messages dropped, the queue is full")

    def test_nodes(self) -> None:
        self.events.node("b", "up", "")
        self.assertEqual(self.said(), "info: node b is up")
        self.events.node("b", "dead", "nothing received for 9 s")
        self.assertEqual(self.said(), "warn: node b is dead: nothing received for 9 s")
        self.events.node("b", "left", "")
        self.assertEqual(self.said(), "info: node b has left")

    def test_the_store(self) -> None:
        self.events.store_failed("no route to host", False, True, 0.0)
        self.assertEqual(self.said(), "error: waiting for the store: no route to host")
        self.events.store_failed("disk full", True, False, 61.0)
        self.assertEqual(self.said(), "error: the store has been failing for 61 s: disk full")
        self.events.store_recovered(70.0)
        self.assertEqual(self.said(), "info: the store recovered after 70 s")

    def test_defects_come_with_their_traceback(self) -> None:
        self.events.crashed("'sensor-7'", RuntimeError("a defect"))
        self.assertEqual(len(self.flushLoggedErrors(RuntimeError)), 1)
        self.assertIn("it hit 'sensor-7'", self.said())

    def test_fields_for_programs(self) -> None:
        self.events.disconnected(self.source(), reasons.QUOTA_EXCEEDED, "", events.BROKER)
        expected = {
            "event": "disconnected",
            "client_id": "sensor-7",
            "address": "192.0.2.1:50000",
            "listener": "tcp-1883",
            "version": "5.0",
            "reason": reasons.QUOTA_EXCEEDED,
            "by": "broker",
        }
        self.assertEqual(expected, {key: self.lines[-1][key] for key in expected})
        self.assertNotIn("topic", self.lines[-1])

    def test_there_is_a_line_for_each_kind(self) -> None:
        for kind in events.KINDS:
            event = Event(kind)
            event.version = 5
            event.by = events.BROKER
            event.cause = "queue_full" if kind == events.DROPPED else ""
            event.error = RuntimeError("x")
            before = len(self.lines)
            self.events.emit(event)
            self.assertEqual(len(self.lines), before + 1, kind)
        self.flushLoggedErrors(RuntimeError)


class OfAnotherNode(Case):
    def test_is_named(self) -> None:
        Events([EventLog("b")]).store_failed("disk full", True, True, 0.0)
        self.assertEqual(self.lines[-1]["log_namespace"], "mhub.events for b")
