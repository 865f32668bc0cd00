"""The contract: deliveries, the messages they share, and the queue that load() reads."""

from mhub.core import records
from mhub.core.records import DELIVERY, MESSAGE, ChangeRecord
from mhub.wire.publish import Publish
from tests.store.case import StoreCase
from tests.store.plain import plain, plain_delivery, plain_row
from tests.store.records import body, delivery, extreme, filled, message, session, subscription


class MessageSuite(StoreCase):
    # Deliveries

    async def test_a_queue_comes_back_with_every_field(self) -> None:
        await self.start()
        first = delivery(
            1, 4, qos=2, retain=True, ids=b"\x0b\x01", share="$share/g/t", size_bytes=9
        )
        second = delivery(1, 5, size_bytes=1000)
        await self.commit(session(1), first, second)
        [found] = (await self.start()).sessions
        self.assertEqual((found.queued, found.queued_bytes, found.last_seq), (2, 1009, 5))
        self.assertEqual(found.inflight, [])
        self.assertEqual(
            [plain_row(row) for row in await self.queue(1)],
            [(*plain_delivery(each), each.body) for each in (first, second)],
        )

    async def test_deliveries_come_back_with_every_field_at_its_bounds(self) -> None:
        """One with a message of its own waits, one with the message that it shares is in flight."""
        await self.start()
        shared = extreme(MESSAGE, refs=1)
        waits = extreme(DELIVERY, sid=1, mid=0, pid=0)
        flies = extreme(DELIVERY, sid=1, seq=0, mid=shared.mid, body=b"")
        await self.commit(session(1), shared, waits, flies)
        contents = await self.start()
        [row] = contents.sessions[0].inflight
        self.assertEqual(plain_row(row), (*plain_delivery(flies), shared.body))
        [row] = await self.queue(1)
        self.assertEqual(plain_row(row), (*plain_delivery(waits), waits.body))
        self.assertEqual(
            (contents.last_mid, contents.sessions[0].last_seq), (shared.mid, waits.seq)
        )
        await self.assert_sound()

    async def test_deliveries_in_flight_come_back_in_order(self) -> None:
        await self.start()
        some = [
            delivery(1, 300, pid=2),
            delivery(1, 7, pid=9, released=True, qos=2),
            delivery(1, 40, 1, pid=1),
        ]
        await self.commit(session(1), session(2), message(1, 2), *some, delivery(1, 8))
        await self.commit(delivery(2, 1, 1, pid=1))
        first, second = sorted((await self.start()).sessions, key=lambda each: each.record.sid)
        self.assertEqual(
            [plain_row(row) for row in first.inflight],
            [
                (*plain_delivery(some[1]), some[1].body),
                (*plain_delivery(some[2]), body("shared")),
                (*plain_delivery(some[0]), some[0].body),
            ],
        )
        self.assertEqual([row.record.pid for row in second.inflight], [1])
        self.assertEqual((first.queued, first.queued_bytes, first.last_seq), (1, 10, 300))
        self.assertEqual(await self.seqs(1), [8])

    async def test_a_queue_is_in_order_of_seq(self) -> None:
        """However the batches brought it: 1 and 256 and 1000, and not as text."""
        await self.start()
        await self.commit(session(1), session(2), *(delivery(1, seq) for seq in (256, 2, 1000)))
        await self.commit(*(delivery(1, seq) for seq in (10, 1, 1 << 40)), delivery(2, 3))
        self.assertEqual(await self.seqs(1), [1, 2, 10, 256, 1000, 1 << 40])
        self.assertEqual(await self.seqs(2), [3])
        await self.start()
        self.assertEqual(await self.seqs(1), [1, 2, 10, 256, 1000, 1 << 40])

    async def test_a_change_moves_a_delivery_in_and_out_of_flight(self) -> None:
        await self.start()
        await self.commit(session(1), delivery(1, 1), delivery(1, 2, qos=2), delivery(1, 3, pid=8))
        changes = [ChangeRecord(1, 1, 5, False), ChangeRecord(1, 2, 6, False)]
        await self.commit(changes=[*changes, ChangeRecord(1, 2, 6, True)])
        await self.commit(changes=[ChangeRecord(1, 3, 0, False)])
        self.assertEqual(await self.seqs(1), [3])
        [found] = (await self.start()).sessions
        inflight = [plain(row.record, "seq", "pid", "released") for row in found.inflight]
        self.assertEqual(inflight, [(1, 5, False), (2, 6, True)])
        self.assertEqual((found.queued, found.queued_bytes), (1, 10))

    async def test_a_change_of_what_is_gone_changes_nothing(self) -> None:
        await self.start()
        await self.commit(session(1), delivery(1, 1))
        before = await self.portrait()
        await self.commit(changes=[ChangeRecord(1, 2, 5, False), ChangeRecord(9, 1, 5, True)])
        self.assertEqual(await self.portrait(), before)

    async def test_removals(self) -> None:
        await self.start()
        some = [delivery(1, seq, size_bytes=seq) for seq in (1, 2, 3, 4)]
        await self.commit(session(1), *some, delivery(1, 5, pid=1))
        await self.commit(removals=[(1, 1), (1, 3), (1, 5)])
        self.assertEqual(await self.seqs(1), [2, 4])
        [found] = (await self.start()).sessions
        self.assertEqual((found.queued, found.queued_bytes, found.last_seq), (2, 6, 4))
        self.assertEqual(found.inflight, [])

    async def test_changed_and_removed_in_one_batch_is_removed(self) -> None:
        await self.start()
        await self.commit(session(1), delivery(1, 1))
        await self.commit(changes=[ChangeRecord(1, 1, 5, False)], removals=[(1, 1)])
        self.assertEqual((await self.portrait())["deliveries"], [])

    async def test_dead_deliveries_and_messages_without_deliveries_are_not_stored(self) -> None:
        await self.start()
        dead = delivery(1, 1, dead=True, body=b"")
        await self.commit(session(1), dead, delivery(1, 2, 9, dead=True), message(9, 0))
        found = await self.portrait()
        self.assertEqual((found["deliveries"], found["messages"]), ([], []))
        self.assertEqual(await self.seqs(1), [])
        await self.commit(ended=[1])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_what_is_stored_is_a_copy(self) -> None:
        """The hub goes on with its records."""
        await self.start()
        owner, queued, shared = session(1), delivery(1, 1), message(1, 1)
        await self.commit(owner, queued, shared, delivery(1, 2, 1), subscription(1, "a"))
        before = await self.portrait()
        filled(queued, pid=9, dead=True, body=b"")
        filled(owner, expiry_s=0)
        shared.refs = 5
        self.assertEqual(await self.portrait(), before)
        for row in await self.queue(1):
            row.record.pid = 4
        self.assertEqual(await self.portrait(), before)

    async def test_messages_are_bytes_of_any_kind_and_size(self) -> None:
        await self.start()
        large = records.message(Publish(b"t", bytes(range(256)) * 4096, 1, False), 0.0)
        queued = delivery(1, 1, body=large, ids=bytes(range(256)))
        await self.commit(session(1, will=large), queued, retained={"t\U0001f600": large})
        contents = await self.start()
        self.assertEqual(contents.retained, [large])
        self.assertEqual(contents.sessions[0].record.will, large)
        [row] = await self.queue(1)
        self.assertEqual((row.body, row.record.ids), (large, bytes(range(256))))

    # Shared messages

    async def test_a_shared_message_is_stored_once(self) -> None:
        await self.start()
        shared = [delivery(sid, 1, 7) for sid in (1, 2, 3)]
        await self.commit(*(session(sid) for sid in (1, 2, 3)), message(7, 3), *shared)
        self.assertEqual((await self.portrait())["messages"], [(7, 3, body("shared"))])
        for sid in (1, 2, 3):
            [row] = await self.queue(sid)
            self.assertEqual((row.record.mid, row.body), (7, body("shared")))
        await self.assert_sound()

    async def test_a_shared_message_goes_with_its_last_delivery(self) -> None:
        await self.start()
        shared = [delivery(1, 1, 7), delivery(2, 1, 7)]
        await self.commit(session(1), session(2), message(7, 2), *shared)
        await self.commit(removals=[(1, 1)], refs={7: -1})
        self.assertEqual((await self.portrait())["messages"], [(7, 1, body("shared"))])
        await self.commit(removals=[(2, 1)], refs={7: -1})
        self.assertEqual((await self.portrait())["messages"], [])
        await self.assert_sound()

    async def test_refs_grow_with_later_deliveries(self) -> None:
        await self.start()
        await self.commit(session(1), message(7, 1), delivery(1, 1, 7))
        await self.commit(delivery(1, 2, 7), delivery(1, 3, 7), refs={7: 2})
        await self.commit(delivery(1, 4, 7), removals=[(1, 1)], refs={7: 0})
        self.assertEqual((await self.portrait())["messages"], [(7, 3, body("shared"))])
        await self.assert_sound()

    async def test_a_shared_message_goes_with_the_last_session(self) -> None:
        """Also where a session has several deliveries of it."""
        await self.start()
        some = [delivery(1, 1, 7), delivery(1, 2, 7, pid=1), delivery(1, 3, 8), delivery(2, 1, 7)]
        await self.commit(session(1), session(2), message(7, 3), message(8, 1), *some)
        await self.commit(ended=[1])
        self.assertEqual((await self.portrait())["messages"], [(7, 1, body("shared"))])
        await self.assert_sound()
        await self.commit(ended=[2])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_several_sessions_of_one_message_end_in_one_batch(self) -> None:
        await self.start()
        some = [delivery(sid, seq, 7) for sid in (1, 2, 3) for seq in (1, 2)]
        await self.commit(session(1), session(2), session(3), message(7, 6), *some)
        await self.commit(removals=[(3, 2)], refs={7: -1}, ended=[1, 2])
        self.assertEqual((await self.portrait())["messages"], [(7, 1, body("shared"))])
        await self.commit(ended=[3])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_a_delivery_whose_message_is_missing_has_an_empty_body(self) -> None:
        """As only damage makes it."""
        await self.start()
        await self.commit(session(1), delivery(1, 1, 7), delivery(1, 2, 7, pid=3))
        [found] = (await self.start()).sessions
        self.assertEqual([(row.record.seq, row.body) for row in found.inflight], [(2, b"")])
        self.assertEqual([(row.record.seq, row.body) for row in await self.queue(1)], [(1, b"")])

    # load()

    async def test_load_brings_what_comes_after(self) -> None:
        await self.start()
        await self.commit(session(1), *(delivery(1, seq) for seq in (2, 4, 6, 8)), delivery(2, 5))
        self.assertEqual(await self.seqs(1, after=4), [6, 8])
        self.assertEqual(await self.seqs(1, after=5), [6, 8])
        self.assertEqual(await self.seqs(1, after=8), [])

    async def test_load_leaves_out_what_is_in_flight(self) -> None:
        await self.start()
        some = [delivery(1, seq, pid=seq % 2) for seq in range(1, 10)]
        await self.commit(session(1), *some)
        self.assertEqual(await self.seqs(1, most=3), [2, 4, 6])

    async def test_load_is_bounded_by_number(self) -> None:
        await self.start()
        await self.commit(session(1), *(delivery(1, seq) for seq in range(1, 101)))
        found: list[int] = []
        while more := await self.seqs(1, found[-1] if found else 0, 7):
            self.assertLessEqual(len(more), 7)
            found += more
        self.assertEqual(found, list(range(1, 101)))

    async def test_load_is_bounded_by_bytes(self) -> None:
        await self.start()
        some = [delivery(1, seq, size_bytes=size) for seq, size in enumerate((10, 20, 30, 40), 1)]
        await self.commit(session(1), *some)
        for most_bytes, expected in ((0, [1]), (10, [1]), (11, [1, 2]), (31, [1, 2, 3])):
            rows = await self.store.load(1, 0, 100, most_bytes)
            self.assertEqual([row.record.seq for row in rows], expected, most_bytes)
