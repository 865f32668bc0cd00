"""The writer: a store that fails is tried again, and nothing is promised meanwhile."""

from collections.abc import AsyncIterator
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mhub.core.channel_records import Entry
from mhub.core.events import STORE_FAILED, STORE_RECOVERED, Event
from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.records import Batch, Contents, Row
from mhub.store.contract import StoreBroken, StoreError, StoreTaken
from mhub.store.memory import MemoryStore
from mhub.store.writer import StoreWriter
from mhub.wire.publish import Publish
from tests.core.disk import EPOCH
from tests.core.world import Client, World
from tests.helpers import packets as p


class Balky:
    """A memory store whose next calls fail as the test wants it."""

    name = "balky"

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.problem: Exception | None = None
        self.slow: Deferred[None] | None = None  # what a commit waits for, before it may fail
        self.closed = False
        self.calls = 0

    def _answer(self) -> None:
        self.calls += 1
        if self.problem is not None:
            raise self.problem

    async def open(self, now: float) -> Contents:
        self._answer()
        return await self.store.open(now)

    async def commit(self, batch: Batch) -> None:
        if self.slow is not None:
            await self.slow
        self._answer()
        await self.store.commit(batch)

    async def load(self, sid: int, after: int, most: int, most_bytes: int) -> list[Row]:
        self._answer()
        return await self.store.load(sid, after, most, most_bytes)

    def pages(self) -> AsyncIterator[Batch]:
        return self.store.pages()

    async def check(self) -> list[str]:
        return await self.store.check()

    async def close(self) -> None:
        self.closed = True


class WriterCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.balky = Balky()
        self.said: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)
        self.begin()

    def begin(self) -> None:
        """A new hub on the same store."""
        self.world = World()
        self.world.hub.wake = self.settle
        self.writer = StoreWriter(
            self.balky,
            self.world.hub,
            self.clock,
            lambda: self.world.now + self.clock.seconds(),
            1.0,
        )

    def settle(self) -> None:
        self.world.settle()

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("log_namespace") == "mhub.store":
            text = event["log_format"] or ""
            self.said.append(text.format(**event) if "log_failure" not in event else text)

    def open(self) -> "Deferred[None]":
        journal = Journal(EPOCH, 4, 1 << 30)
        opening = self.writer.open(self.world.now + EPOCH, journal, lambda name: Limits())
        return Deferred.fromCoroutine(opening)

    def away(self) -> Client:
        """A publisher to a session that is away."""
        client = self.world.client("away", clean=False)
        client.subscribe("t", 1)
        client.lose()
        self.world.settle()  # nothing is left to be done that would end the writer's turn for it
        return self.world.client("pub")


class CommitTests(WriterCase):
    def setUp(self) -> None:
        super().setUp()
        self.successResultOf(self.open())
        self.sender = self.away()
        self.balky.problem = StoreError("no room on the disk")

    def test_nothing_is_acknowledged_while_the_store_fails(self) -> None:
        self.sender.publish("t", b"x", 1)
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.sender.take(), [])
        self.assertGreater(self.world.stats.store_failures, 2)
        self.assertEqual(self.world.hub.storage.state, "failing: no room on the disk")

    def test_it_goes_on_when_the_store_works_again(self) -> None:
        self.sender.publish("t", b"x", 1)
        self.clock.pump([1.0] * 5)
        self.balky.problem = None
        self.clock.pump([1.0] * 10)
        self.assertEqual([packet.type for packet in self.sender.take()], ["PUBACK"])
        self.assertEqual(len(self.balky.store.deliveries), 1)
        self.assertEqual(self.world.hub.storage.state, "ok")
        self.assertEqual(len(self.world.diary.of(STORE_RECOVERED)), 1)

    def test_it_is_an_event_once_and_then_once_a_minute(self) -> None:
        self.sender.publish("t", b"x", 1)
        self.clock.pump([1.0] * 50)
        self.assertEqual([e.text for e in self.failures()], ["no room on the disk"])
        self.clock.pump([1.0] * 30)
        self.assertEqual([e.is_first for e in self.failures()], [True, False])

    def test_another_reason_is_an_event_at_once(self) -> None:
        self.sender.publish("t", b"x", 1)
        self.clock.pump([1.0] * 5)
        self.balky.problem = StoreError("the disk is gone")
        self.clock.pump([1.0] * 20)
        self.assertEqual(
            [e.text for e in self.failures()], ["no room on the disk", "the disk is gone"]
        )

    def failures(self) -> list[Event]:
        return self.world.diary.of(STORE_FAILED)

    def test_tries_come_at_growing_intervals(self) -> None:
        self.sender.publish("t", b"x", 1)
        before = self.balky.calls
        self.clock.pump([1.0] * 100)
        self.assertEqual(self.balky.calls - before, 12)

    def test_nothing_is_acknowledged_once_another_broker_has_the_store(self) -> None:
        """Though this one goes on trying, and says why."""
        self.balky.problem = StoreTaken("another broker uses it now")
        self.sender.publish("t", b"x", 1)
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.sender.take(), [])
        self.assertEqual(self.world.hub.storage.state, "failing: another broker uses it now")

    def test_a_defect_of_the_store_is_a_failure_too(self) -> None:
        self.balky.problem = ZeroDivisionError("a defect")
        self.sender.publish("t", b"x", 1)
        self.clock.pump([1.0] * 5)
        self.assertTrue(self.flushLoggedErrors(ZeroDivisionError))
        self.assertEqual(self.sender.take(), [])
        self.balky.problem = None
        self.clock.pump([1.0] * 10)
        self.assertEqual([packet.type for packet in self.sender.take()], ["PUBACK"])

    def test_a_queue_that_cannot_be_read_is_read_later(self) -> None:
        self.balky.problem = None
        for number in range(20):
            self.sender.publish("t", b"%d" % number, 1)
        self.balky.problem = StoreError("away")
        client = self.world.open(4)
        client.send(p.connect("away", 4, clean=False))
        self.assertEqual(client.take(), [])
        self.balky.problem = None
        self.clock.pump([1.0] * 10)
        client.next("CONNACK")
        self.assertEqual(client.payloads(), [b"%d" % number for number in range(20)])


class OpenTests(WriterCase):
    def test_the_log_says_what_is_there(self) -> None:
        """What is kept for other nodes of a cluster is in no session."""
        self.successResultOf(self.open())
        self.assertEqual(self.world.hub.storage.state, "ok")
        self.assertEqual(self.said[-1], "balky: 0 sessions, 0 queued messages, 0 retained")
        self.away().publish("t", b"x", 1, retain=True)
        journal = self.world.hub.require_journal()
        sid = journal.open_channel("b")
        entry = Entry(1, Publish(b"t", b"x", 1, False), True, None)
        journal.keep_for_peer(sid, 1, entry, entry.addressed())
        self.world.hub.flush()
        self.begin()
        self.successResultOf(self.open())
        self.assertEqual(
            self.said[-1],
            "balky: 1 session, 1 queued message, 1 retained, 1 message for other nodes",
        )

    def test_a_store_that_is_not_there_yet_is_waited_for(self) -> None:
        self.balky.problem = StoreError("connection refused")
        opening = self.open()
        self.clock.pump([1.0] * 20)
        self.assertNoResult(opening)
        self.balky.problem = None
        self.clock.pump([1.0] * 10)
        self.successResultOf(opening)
        self.assertEqual(self.world.hub.storage.state, "ok")

    def test_a_broken_one_is_not(self) -> None:
        self.balky.problem = StoreBroken("a newer schema")
        self.failureResultOf(self.open(), StoreBroken)


class CloseTests(WriterCase):
    def test_what_is_pending_goes_to_the_store(self) -> None:
        self.successResultOf(self.open())
        sender = self.away()
        self.balky.problem = StoreError("away")
        sender.publish("t", b"x", 1)
        closing = Deferred.fromCoroutine(self.writer.close(5.0))
        self.clock.pump([0.1] * 5)
        self.assertNoResult(closing)
        self.balky.problem = None
        self.clock.pump([0.1] * 20)
        self.successResultOf(closing)
        self.assertEqual(len(self.balky.store.deliveries), 1)
        self.assertTrue(self.balky.closed)

    def test_also_what_was_not_urgent(self) -> None:
        """That a message was acknowledged goes with the next batch, or with the last one."""
        self.successResultOf(self.open())
        self.away().publish("t", b"x", 1)
        client = self.world.client("away", clean=False)
        self.world.settle()
        client.send(p.puback(client.next("PUBLISH").pid or 0))
        self.assertEqual(len(self.balky.store.deliveries), 1)
        closing = Deferred.fromCoroutine(self.writer.close(5.0))
        self.clock.pump([0.01] * 2)
        self.successResultOf(closing)
        self.assertEqual(self.balky.store.deliveries, {})

    def test_but_not_for_ever(self) -> None:
        self.successResultOf(self.open())
        sender = self.away()
        self.balky.problem = StoreError("away")
        sender.publish("t", b"x", 1)
        closing = Deferred.fromCoroutine(self.writer.close(5.0))
        self.clock.pump([0.1] * 60)
        self.successResultOf(closing)
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertTrue(any("were not stored" in line for line in self.said), self.said)

    def test_not_for_a_store_that_is_another_ones(self) -> None:
        """It would never take what is pending."""
        self.successResultOf(self.open())
        sender = self.away()
        self.balky.problem = StoreTaken("another broker uses it now")
        sender.publish("t", b"x", 1)
        self.writer.give_up()
        self.successResultOf(Deferred.fromCoroutine(self.writer.close(5.0)))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_commit_that_fails_after_the_end_is_not_tried_again(self) -> None:
        """The store was busy with it when the time was over."""
        self.successResultOf(self.open())
        sender = self.away()
        slow = self.balky.slow = Deferred()
        sender.publish("t", b"x", 1)
        self.successful_close()
        self.balky.problem = StoreError("closed")
        slow.callback(None)
        calls = self.balky.calls
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.clock.pump([1.0] * 30)
        self.assertEqual((self.balky.calls, sender.take()), (calls, []))

    def test_nothing_is_tried_again_after_the_end(self) -> None:
        """A commit and a read of a queue both fail, and both wait to be tried again."""
        self.successResultOf(self.open())
        sender = self.away()
        for number in range(20):
            sender.publish("t", b"%d" % number, 1)
        self.balky.problem = StoreError("away")
        client = self.world.open(4)
        client.send(p.connect("away", 4, clean=False))
        self.assertEqual(len(self.clock.getDelayedCalls()), 2)
        self.successful_close()
        self.assertEqual(self.clock.getDelayedCalls(), [])
        calls = self.balky.calls
        self.clock.pump([1.0] * 30)
        self.assertEqual(self.balky.calls, calls)

    def successful_close(self) -> None:
        """The end, after all the time that it may take."""
        closing = Deferred.fromCoroutine(self.writer.close(5.0))
        self.clock.pump([0.1] * 60)
        self.successResultOf(closing)
        self.assertTrue(self.balky.closed)

    def test_before_it_was_open(self) -> None:
        self.balky.problem = StoreError("connection refused")
        opening = self.open()
        opening.addErrback(lambda failure: None)
        self.successResultOf(Deferred.fromCoroutine(self.writer.close(5.0)))
        self.assertEqual(self.clock.getDelayedCalls(), [])
