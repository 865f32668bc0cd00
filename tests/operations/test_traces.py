"""Traces: what is seen of a client and of topics, and that nobody else notices."""

import base64
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations import traces
from mhub.operations.contract import BadArgument, OperationError
from mhub.operations.packet_log import FrameReader, describe
from mhub.operations.steering import TraceEvent
from mhub.operations.traces import Traces
from tests.core.world import World
from tests.helpers import packets as p


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.clock = Clock()
        self.traces = Traces(self.world.hub, self.clock.seconds, self.clock)

    def start(self, **options: Any) -> Any:
        """A trace whose events are in the list that it gives."""
        given = {"client_id": "", "topic": "", "seconds": 60.0, "most": 1000, "payload_bytes": 0}
        trace, remove = self.traces.start(**(given | options))
        self.addCleanup(remove)
        found: list[TraceEvent] = []
        trace.listener = found.append
        return found

    def packets(self, found: list[TraceEvent]) -> list[tuple[str, str]]:
        return [(event.direction, event.packet) for event in found if event.kind == "packet"]


class ClientTests(Case):
    def test_both_directions(self) -> None:
        client = self.world.client("a", 5)
        found = self.start(client_id="a")
        client.subscribe("t/#", 1)
        client.publish("t/1", b"hello", 1, retain=True)
        self.assertEqual(
            self.packets(found),
            [
                ("in", "SUBSCRIBE"),
                ("out", "SUBACK"),
                ("in", "PUBLISH"),
                ("out", "PUBLISH"),
                ("out", "PUBACK"),
            ],
        )
        self.assertEqual(found[0].filters, ("t/#",))
        self.assertEqual(found[1].reasons, (1,))
        sent = found[2]
        self.assertEqual((sent.topic, sent.qos, sent.retain, sent.dup), ("t/1", 1, True, False))
        self.assertEqual((sent.payload_bytes, sent.payload), (5, None))
        self.assertEqual(sent.client_id, "a")
        self.assertGreater(sent.size_bytes, 5)
        self.assertEqual([event.seq for event in found], [1, 2, 3, 4, 5])

    def test_byte_by_byte(self) -> None:
        """Packets that come in pieces, and the piece that was there before the trace."""
        client = self.world.client("a")
        data = p.publish("topic", b"x" * 300, 1, 7)
        client.feed(data[:3])
        found = self.start(client_id="a", payload_bytes=4)
        for at in range(3, len(data)):
            client.feed(data[at : at + 1])
        self.world.hub.flush()
        self.assertEqual(self.packets(found), [("in", "PUBLISH"), ("out", "PUBACK")])
        self.assertEqual((found[0].packet_id, found[0].payload_bytes), (7, 300))
        assert found[0].payload is not None
        self.assertEqual(base64.b64decode(found[0].payload), b"xxxx")

    def test_large_messages(self) -> None:
        """Their payload is written behind the head."""
        client = self.world.client("a")
        client.subscribe("t", 1)
        found = self.start(client_id="a")
        self.world.client("b").publish("t", b"x" * 100_000, 1)
        client.send(p.pingreq())
        self.assertEqual(
            self.packets(found), [("out", "PUBLISH"), ("in", "PINGREQ"), ("out", "PINGRESP")]
        )
        self.assertEqual(found[0].payload_bytes, 100_000)

    def test_aliases(self) -> None:
        """Also one that was set before the trace began."""
        client = self.world.client("a", 5)
        client.send(p.publish("long/topic", b"1", version=5, props=[(0x23, 1)]))
        found = self.start(client_id="a")
        client.send(p.publish("", b"2", version=5, props=[(0x23, 1)]))
        self.assertEqual(found[0].topic, "long/topic")

    def test_who_comes_later(self) -> None:
        found = self.start(client_id="a")
        self.world.client("b").publish("x")
        client = self.world.client("a", 5)
        client.lose("gone")
        self.assertEqual(
            [(event.kind, event.packet) for event in found],
            [("connected", ""), ("packet", "CONNACK"), ("disconnected", "")],
        )
        self.world.client("a", 4)
        self.assertEqual(found[-1].packet, "CONNACK")

    def test_who_is_refused(self) -> None:
        found = self.start(client_id="a")
        other = self.world.open(allow_anonymous=False)
        other.send(p.connect("a"))
        self.assertEqual([event.kind for event in found], ["refused"])
        self.assertEqual(found[0].reasons, (0x87,))

    def test_the_end_leaves_nothing_behind(self) -> None:
        client = self.world.client("a")
        before = client.connection.outlet
        sinks = list(self.world.hub.events.sinks)
        _, remove = self.traces.start("a", "", 60.0, 10, 0)
        _, remove_other = self.traces.start("a", "", 60.0, 10, 0)
        self.assertIsNotNone(client.connection.tap)
        remove()
        self.assertIsNotNone(client.connection.tap)
        remove_other()
        self.assertIsNone(client.connection.tap)
        self.assertIs(client.connection.outlet, before)
        self.assertIsNone(self.world.hub.tracer)
        self.assertEqual(self.world.hub.events.sinks, sinks)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertEqual(self.traces.count, 0)
        client.send(p.pingreq())
        client.next("PINGRESP")

    def test_passwords_are_not_in_it(self) -> None:
        """A second CONNECT is a mistake, and has a password all the same."""
        found = self.start(client_id="a", payload_bytes=4096)
        client = self.world.client("a", 5)
        client.send(p.connect("a", 5, username="u", password=b"hunter2"))
        self.assertIn(("in", "CONNECT"), self.packets(found))
        self.assertNotIn("hunter2", repr(found))
        self.assertNotIn(base64.b64encode(b"hunter2").decode()[:8], repr(found))


class TopicTests(Case):
    def test_messages_once(self) -> None:
        """However many have subscribed; with the one who has published it."""
        for name in ("s1", "s2"):
            self.world.client(name).subscribe("a/#")
        found = self.start(topic="a/+", payload_bytes=3)
        publisher = self.world.client("p")
        publisher.publish("a/1", b"hello")
        publisher.publish("a/1/2", b"no")
        publisher.publish("b", b"no")
        publisher.publish("a/2", b"", 1, retain=True)
        self.assertEqual([event.topic for event in found], ["a/1", "a/2"])
        self.assertEqual((found[0].kind, found[0].client_id), ("message", "p"))
        self.assertEqual((found[0].payload_bytes, found[1].qos, found[1].retain), (5, 1, True))
        assert found[0].payload is not None
        self.assertEqual(base64.b64decode(found[0].payload), b"hel")

    def test_publishers_do_not_notice(self) -> None:
        """Without a subscriber the answer still says so."""
        publisher = self.world.client("p", 5)
        publisher.publish("a", b"", 1)
        self.assertEqual(publisher.next("PUBACK").reason, 0x10)
        found = self.start(topic="#")
        publisher.publish("a", b"", 1)
        self.assertEqual(publisher.next("PUBACK").reason, 0x10)
        self.assertEqual(len(found), 1)

    def test_topics_that_are_known_already(self) -> None:
        publisher = self.world.client("p")
        publisher.publish("a")
        trace, remove = self.traces.start("", "a", 60.0, 10, 0)
        found: list[TraceEvent] = []
        trace.listener = found.append
        publisher.publish("a")
        remove()
        publisher.publish("a")
        self.assertEqual(len(found), 1)
        self.assertEqual(self.world.hub.router.taps, [])

    def test_reserved_topics(self) -> None:
        found = self.start(topic="#")
        mine = self.start(topic="$SYS/#")
        self.world.wait(20.0)
        self.assertEqual(found, [])
        self.assertNotEqual(mine, [])


class BoundTests(Case):
    def events(self, generator: Any, count: int) -> list[TraceEvent]:
        """The next events, which are there already."""

        async def take() -> list[TraceEvent]:
            return [await anext(generator) for _ in range(count)]

        return self.successResultOf(Deferred.fromCoroutine(take()))

    def test_time(self) -> None:
        generator = self.traces.run("", "t", 5.0, 10, 0)
        self.assertEqual([event.kind for event in self.events(generator, 1)], ["begin"])
        waiting = Deferred.fromCoroutine(generator.__anext__())
        self.assertNoResult(waiting)
        self.clock.advance(5.0)
        event = self.successResultOf(waiting)
        self.assertEqual((event.kind, event.text), ("end", "its time is over"))
        self.failureResultOf(Deferred.fromCoroutine(generator.__anext__()), StopAsyncIteration)
        self.assertEqual(self.traces.count, 0)

    def test_number(self) -> None:
        generator = self.traces.run("", "t", 5.0, 2, 0)
        self.events(generator, 1)
        waiting = Deferred.fromCoroutine(generator.__anext__())
        client = self.world.client("p")
        for _ in range(5):
            client.publish("t")
        self.assertEqual(self.successResultOf(waiting).kind, "message")
        found = self.events(generator, 2)
        self.assertEqual([event.kind for event in found], ["message", "end"])

    def test_rate(self) -> None:
        """Beyond, events are left out, and the next one says how many."""
        found = self.start(topic="t", most=10_000)
        client = self.world.client("p")
        for _ in range(traces.RATE + 7):
            client.publish("t")
        self.assertEqual(len(found), traces.RATE)
        self.clock.advance(1.0)
        client.publish("t")
        self.assertEqual(found[-1].dropped, 7)

    def test_who_does_not_take_them(self) -> None:
        trace, remove = self.traces.start("", "t", 60.0, 100_000, 0)
        self.addCleanup(remove)
        client = self.world.client("p")
        for _ in range(4):
            for _ in range(traces.RATE):
                client.publish("t")
            self.clock.advance(1.0)
        self.assertEqual(len(trace._queue), traces.QUEUE)
        for _ in range(traces.QUEUE):
            self.successResultOf(Deferred.fromCoroutine(trace.next()))
        client.publish("t")
        event = self.successResultOf(Deferred.fromCoroutine(trace.next()))
        self.assertEqual(event.dropped, 4 * traces.RATE - traces.QUEUE)

    def test_how_many(self) -> None:
        for _ in range(traces.MOST_TRACES):
            self.start(topic="t")
        error = self.assertRaises(OperationError, self.start, topic="t")
        self.assertIn("as many as may be", str(error))

    def test_arguments(self) -> None:
        for given in (
            {},
            {"client_id": "a", "topic": "b"},
            {"topic": "a/#/b"},
            {"topic": "a", "seconds": 1e9},
            {"topic": "a", "most": 0},
            {"topic": "a", "payload_bytes": -1},
        ):
            self.assertRaises(BadArgument, self.start, **given)

    def test_who_goes_away_ends_it(self) -> None:
        generator = self.traces.run("", "t", 60.0, 10, 0)
        self.events(generator, 1)
        waiting = Deferred.fromCoroutine(generator.__anext__())
        waiting.addErrback(lambda failure: None)
        waiting.cancel()
        self.assertEqual(self.traces.count, 0)
        self.assertEqual(self.clock.getDelayedCalls(), [])


class FrameTests(SynchronousTestCase):
    """Invariant: any bytes, in any portions, give frames or nothing, and never an exception."""

    def test_portions(self) -> None:
        data = b"".join(
            [p.pingreq(), p.publish("t", b"x" * 200), p.subscribe(1, ("a", 0)), p.disconnect()]
        )
        whole = list(FrameReader(64).feed(data))
        for size in (1, 2, 3, 7, 100):
            reader = FrameReader(64)
            found = [
                frame
                for at in range(0, len(data), size)
                for frame in reader.feed(data[at : at + size])
            ]
            self.assertEqual(found, whole)
        self.assertEqual([frame.first >> 4 for frame in whole], [12, 3, 8, 14])
        self.assertEqual(sum(frame.size for frame in whole), len(data))

    def test_nonsense(self) -> None:
        reader = FrameReader(64)
        self.assertEqual(list(reader.feed(b"\x30" + b"\xff" * 10)), [])
        self.assertTrue(reader.is_lost)

    def test_packets_that_are_cut(self) -> None:
        for packet in (
            p.publish("topic", b"x", 1, 7, version=5, props=[(0x26, ("a", "b")), (0x23, 3)]),
            p.subscribe(1, ("filter", 0), version=5),
            p.puback(1, 0x10),
            p.disconnect(),
        ):
            (frame,) = FrameReader(4096).feed(packet)
            for size in range(len(frame.body) + 1):
                cut = type(frame)(frame.first, frame.size, frame.body[:size], frame.header)
                for version in (3, 4, 5):
                    describe(cut, version, 10, {})
