"""The contract of a store as tests, to be run over every one there is.

    class Test(StoreSuite, TestCase):       twisted.trial's
        make_store, left_behind, obstruct, clear

    suite_sessions, _messages, _notes       its other parts
    case                                    start, commit, ask
    records, plain, walk                    what goes in, what comes out, histories at random

A test starts with no contents.  `start()` is the start of a broker, and its restart: it closes the
store, if there is one, and opens a new one on the same contents.
"""

import random

from twisted.internet.defer import Deferred

from mhub.core.records import Batch
from mhub.store.contract import StoreBroken, StoreError
from mhub.store.jsonl import records, to_line
from mhub.store.memory import MemoryStore
from tests.store.plain import (
    copy,
    plain,
    plain_contents,
    plain_delivery,
    plain_row,
    plain_session,
    plain_stored,
    plain_subscription,
    portrait,
)
from tests.store.records import LOTS, NOW, batch, body, delivery, message, session, subscription
from tests.store.records import filled as _filled
from tests.store.suite_messages import MessageSuite
from tests.store.suite_notes import NoteSuite
from tests.store.suite_sessions import SessionSuite
from tests.store.walk import Walk

# What a test of one store needs beside the suite comes from here too.
__all__ = [
    "LOTS",
    "NOW",
    "StoreSuite",
    "Walk",
    "_filled",
    "batch",
    "body",
    "copy",
    "delivery",
    "message",
    "plain",
    "plain_contents",
    "plain_delivery",
    "plain_row",
    "plain_session",
    "plain_stored",
    "plain_subscription",
    "portrait",
    "session",
    "subscription",
]


def lines_of(part: Batch) -> list[bytes]:
    """As an export has them."""
    return [to_line(kind, values) for kind, values in records(part)]


class StoreSuite(SessionSuite, MessageSuite, NoteSuite):
    """Mix this into a TestCase and answer the four calls of StoreCase for the store."""

    # Numbers

    async def test_the_highest_numbers_never_go_back(self) -> None:
        """A number that is used again could meet what is left of its earlier bearer."""
        await self.start()
        await self.commit(session(4), message(9, 1), delivery(4, 1, 9))
        await self.commit(session(2), message(3, 1), delivery(2, 1, 3))
        contents = await self.start()
        self.assertEqual((contents.last_sid, contents.last_mid), (4, 9))
        await self.commit(ended=[2, 4])
        for _ in range(2):
            contents = await self.start()
            self.assertEqual(contents.sessions, [])
            self.assertEqual((contents.last_sid, contents.last_mid), (4, 9))
        await self.commit(session(5), message(10, 1), delivery(5, 1, 10))
        contents = await self.start()
        self.assertEqual((contents.last_sid, contents.last_mid), (5, 10))

    async def test_numbers_of_what_is_not_stored_count_too(self) -> None:
        """pages() relies on this to bring the numbers along."""
        await self.start()
        await self.commit(message(8, 0), ended=[6])
        contents = await self.start()
        self.assertEqual((contents.last_sid, contents.last_mid), (6, 8))

    # Errors

    async def test_the_same_batch_after_an_error_has_its_effect_once(self) -> None:
        await self.start()
        await self.commit(session(1), message(7, 2), delivery(1, 1, 7), delivery(1, 2, 7))
        before = await self.portrait()
        again = batch(session(2), delivery(2, 1, 7), removals=[(1, 1)], retained={"t": body()})
        again.refs = {7: 0}
        again.notes = {"n": "1"}
        last = batch(removals=[(1, 2)], refs={7: -1})
        await self.obstruct()
        for _ in range(2):
            try:
                await self.store.commit(again)
            except StoreError as error:
                self.assertNotIsInstance(error, StoreBroken)
                self.assertTrue(str(error))
            else:
                self.fail("the commit was to fail")
        await self.clear()
        self.assertEqual(await self.portrait(), before)
        await self.store.commit(again)
        await self.store.commit(last)
        found = await self.portrait()
        self.assertEqual(found["messages"], [(7, 1, body("shared"))])
        self.assertEqual([each[:2] for each in found["deliveries"]], [(2, 1)])
        self.assertEqual(found["notes"], [("n", "1")])
        await self.assert_sound()

    # All of it

    async def test_pages_bring_another_store_to_the_same_contents(self) -> None:
        await self.start()
        some = [delivery(1, seq) for seq in range(1, 1300)]
        shared = [delivery(2, seq, seq) for seq in range(1, 700)]
        messages = [message(mid, 1, str(mid)) for mid in range(1, 700)]
        await self.full_session(2000)
        await self.commit(session(1), session(2), *messages, *some, *shared)
        await self.commit(*(session(sid) for sid in range(3, 600)), incoming={(2, 9): True})
        await self.commit(
            *(subscription(3, f"a/{number}") for number in range(600)),
            retained={f"r/{number}": body("x", f"r/{number}") for number in range(600)},
            notes={"": "no name", **{f"n/{number}\0": f"\0{number}" for number in range(1300)}},
        )
        await self.commit(message(5000, 0), ended=[3000])
        other = MemoryStore()
        await copy(self.store, other)
        self.assertEqual(await portrait(other), await self.portrait())
        self.assertEqual(await other.check(), [])
        contents = plain_contents(await other.open(NOW))
        self.assertEqual(plain_contents(await self.start()), contents)
        self.assertEqual((contents["last_sid"], contents["last_mid"]), (3000, 5000))

    async def test_pages_of_another_store_are_taken(self) -> None:
        other = MemoryStore()
        walk = Walk(random.Random(7), other)
        for _ in range(30):
            await other.commit(walk.step(NOW))
        await self.start()
        await copy(other, self.store)
        self.assertEqual(await self.portrait(), await portrait(other))
        await self.assert_sound()

    async def test_pages_of_an_empty_store(self) -> None:
        await self.start()
        other = MemoryStore()
        await copy(self.store, other)
        self.assertEqual(await portrait(other), await portrait(MemoryStore()))

    async def test_a_snapshot_is_of_one_moment_1(self) -> None:
        await self._snapshot(11)

    async def test_a_snapshot_is_of_one_moment_2(self) -> None:
        await self._snapshot(12)

    async def _snapshot(self, seed: int) -> None:
        """Whatever is committed between its first batch and its last."""
        reference = MemoryStore()
        chance = random.Random(seed)
        walk = Walk(chance, reference)
        await self.start()

        async def go_on() -> None:
            changes = walk.step(NOW)
            await self.store.commit(changes)
            await reference.commit(changes)

        for _ in range(60):
            await go_on()
        for _ in range(3):
            expected = [line async for part in reference.pages() for line in lines_of(part)]
            snapshot = self.store.snapshot()
            found = lines_of(await anext(snapshot))
            going = Deferred.fromCoroutine(go_on())
            async for part in snapshot:
                found += lines_of(part)
                if chance.random() < 0.5:  # else it is still being committed
                    await going
                    going = Deferred.fromCoroutine(go_on())
            await going
            self.assertEqual(sorted(found), sorted(expected))
        await self.assert_sound()

    async def test_any_history_is_as_in_plain_dictionaries_1(self) -> None:
        await self._walk(1)

    async def test_any_history_is_as_in_plain_dictionaries_2(self) -> None:
        await self._walk(2)

    async def test_any_history_is_as_in_plain_dictionaries_3(self) -> None:
        await self._walk(3)

    async def _walk(self, seed: int) -> None:
        """Random batches, and restarts in between."""
        reference = MemoryStore()
        walk = Walk(random.Random(seed), reference)
        now = NOW
        await self.start()
        for step in range(90):
            changes = walk.step(now)
            await self.store.commit(changes)
            await reference.commit(changes)
            if step % 6 == 5:
                await self._compare(reference)
            if step % 15 == 14:
                now += walk.random.choice((1, 20, 200))
                contents = plain_contents(await reference.open(now))
                self.assertEqual(plain_contents(await self.start(now)), contents)
                await self._compare(reference)
        await self.assert_sound()
        erased = dict.fromkeys(reference.retained, b"")
        forgotten = dict.fromkeys(reference.notes, "")
        await self.commit(ended=list(reference.sessions), retained=erased, notes=forgotten)
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def _compare(self, reference: MemoryStore) -> None:
        self.assertEqual(await self.portrait(), await portrait(reference))
        for sid in reference.sessions:
            for after, most, most_bytes in ((0, 1000, LOTS), (3, 4, LOTS), (1, 100, 50)):
                expected = await reference.load(sid, after, most, most_bytes)
                found = await self.store.load(sid, after, most, most_bytes)
                self.assertEqual(
                    [plain_row(row) for row in found], [plain_row(row) for row in expected]
                )
