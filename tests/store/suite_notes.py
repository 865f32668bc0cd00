"""The contract: notes, and the sessions that a hub keeps for itself, which no client could have."""

from tests.store.case import StoreCase
from tests.store.plain import plain, plain_row, plain_session, plain_subscription
from tests.store.records import body, delivery, filled, message, session, subscription

INTERNAL = "\0peer/b/1234"
NEVER = 0xFFFFFFFF
FAR = 1 << 50

TEXTS = ("", "\0", "\0\0", "a", "a\0", "a\0b", "a\0c", "é\0", "\U0001f600", "\U0010ffff\0", "'\"%_")


class NoteSuite(StoreCase):
    # Notes

    async def test_notes_are_set_replaced_and_removed(self) -> None:
        await self.start()
        await self.commit(notes={"a": "1", "b": "2", "c": "3"})
        await self.commit(notes={"a": "one", "b": "", "never there": ""})
        self.assertEqual((await self.start()).notes, {"a": "one", "c": "3"})
        await self.commit(notes={"a": "", "c": ""})
        self.assertEqual((await self.start()).notes, {})
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_names_and_texts_of_notes_are_any_text(self) -> None:
        """Also the empty name; and U+0000, where others would end a text."""
        await self.start()
        notes = {name: f"{name}\0{name} of {len(name)}" for name in TEXTS}
        notes |= {f"text of {number}": text for number, text in enumerate(TEXTS) if text}
        notes["long"] = "\0é\U0001f600" * 100_000
        await self.commit(notes=notes)
        self.assertEqual((await self.start()).notes, notes)
        self.assertEqual((await self.portrait())["notes"], sorted(notes.items()))
        await self.assert_sound()
        await self.commit(notes={"a\0": "", "\0": "", "": ""})
        for name in ("a\0", "\0", ""):
            del notes[name]
        self.assertEqual((await self.start()).notes, notes)

    async def test_notes_do_not_depend_on_anything_else(self) -> None:
        await self.start()
        await self.full_session(1)
        await self.commit(notes={"a": "1"}, retained={"a": body("x", "a")}, ended=[1])
        contents = await self.start()
        self.assertEqual((contents.sessions, contents.notes), ([], {"a": "1"}))
        await self.commit(notes={"a": ""})
        self.assertEqual((await self.start()).retained, [body("x", "a")])

    # Sessions that are no client's

    async def test_a_client_id_may_begin_with_zero(self) -> None:
        await self.start()
        await self.full_session(1, NEVER, client_id=INTERNAL, principal="\0", mount="a\0b")
        await self.commit(session(2, client_id="\0"), session(3, client_id=f"{INTERNAL}\0"))
        expected = [
            session(1, NEVER, client_id=INTERNAL, principal="\0", mount="a\0b"),
            session(2, client_id="\0"),
            session(3, client_id=f"{INTERNAL}\0"),
        ]
        found = sorted((await self.start()).sessions, key=lambda each: each.record.sid)
        self.assertEqual(
            [plain_session(each.record) for each in found], list(map(plain_session, expected))
        )
        self.assertEqual((await self.portrait())["sessions"], list(map(plain_session, expected)))
        self.assertEqual(
            list(map(plain_subscription, found[0].subscriptions)),
            [plain_subscription(subscription(1, "a/#"))],
        )
        await self.assert_sound()
        await self.commit(ended=[1, 2, 3])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_a_whole_line_may_be_in_flight_with_one_packet_id(self) -> None:
        """It comes back at the start in its order, with its messages, whatever gaps it has."""
        await self.start()
        owner = session(1, NEVER, client_id=INTERNAL)
        seqs = (FAR, 3, FAR - 1, 1, 1 << 32, FAR + 7)
        kept = [delivery(1, seq, pid=1, share="é\0") for seq in seqs]
        shared = delivery(1, 2, 7, pid=1)
        await self.commit(owner, message(7, 2), *kept, shared, delivery(1, FAR + 1, 7, pid=1))
        [found] = (await self.start()).sessions
        self.assertEqual(
            [plain(row.record, "seq", "pid", "share") for row in found.inflight],
            [
                (1, 1, "é\0"),
                (2, 1, ""),
                (3, 1, "é\0"),
                (1 << 32, 1, "é\0"),
                (FAR - 1, 1, "é\0"),
                (FAR, 1, "é\0"),
                (FAR + 1, 1, ""),
                (FAR + 7, 1, "é\0"),
            ],
        )
        bodies = [row.body for row in found.inflight]
        own = [body(f"1/{seq}") for seq in sorted(seqs)]
        self.assertEqual(bodies, [own[0], body("shared"), *own[1:5], body("shared"), own[5]])
        self.assertEqual((found.queued, found.queued_bytes, found.last_seq), (0, 0, FAR + 7))
        self.assertEqual(await self.queue(1), [])
        await self.assert_sound()
        await self.commit(removals=[(1, FAR), (1, 2), (1, FAR + 7)], refs={7: -1})
        [found] = (await self.start()).sessions
        left = [row.record.seq for row in found.inflight]
        self.assertEqual(left, [1, 3, 1 << 32, FAR - 1, FAR + 1])
        self.assertEqual(found.last_seq, FAR + 1)
        await self.assert_sound()
        await self.commit(ended=[1])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_a_queue_may_have_gaps_and_numbers_far_up(self) -> None:
        await self.start()
        seqs = [1, 1000, FAR - 1, FAR, FAR + 1, FAR + 5]
        await self.commit(session(1), *(delivery(1, seq) for seq in reversed(seqs)))
        self.assertEqual(await self.seqs(1), seqs)
        self.assertEqual(await self.seqs(1, after=FAR - 1), [FAR, FAR + 1, FAR + 5])
        self.assertEqual(await self.seqs(1, after=FAR - 1, most=1), [FAR])
        await self.commit(removals=[(1, FAR)])
        [found] = (await self.start()).sessions
        self.assertEqual((found.queued, found.last_seq), (5, FAR + 5))
        self.assertEqual(await self.seqs(1, after=1000), [FAR - 1, FAR + 1, FAR + 5])

    async def test_a_long_line_in_flight(self) -> None:
        """Beside others, and longer than a portion in number and in bytes."""
        await self.start()
        seqs = range(10, 26_010, 20)
        kept = [delivery(2, seq, seq % 3 and 7, pid=1, size_bytes=1000) for seq in seqs]
        for each in kept:
            filled(each, body=b"" if each.mid else body("x" * 3000 + str(each.seq)))
        own = [each.body or body("shared") for each in kept]
        refs = sum(1 for each in kept if each.mid)
        await self.commit(
            session(1), session(2, NEVER, client_id=INTERNAL), session(3), message(7, refs)
        )
        await self.commit(*kept, delivery(1, 1, pid=1), delivery(3, 4, pid=1), delivery(2, 5))
        found = sorted((await self.start()).sessions, key=lambda each: each.record.sid)
        self.assertEqual([len(each.inflight) for each in found], [1, len(kept), 1])
        self.assertEqual(
            [(row.record.seq, row.body) for row in found[1].inflight],
            list(zip(seqs, own, strict=True)),
        )
        self.assertEqual(plain_row(found[1].inflight[0])[-2:], (False, own[0]))
        self.assertEqual([each.last_seq for each in found], [1, seqs[-1], 4])
        self.assertEqual((found[1].queued, found[1].queued_bytes), (1, 10))
        await self.assert_sound()
        await self.commit(ended=[1, 2, 3])
        await self.assert_sound()
        await self.stop()
        self.assertEqual(await self.left_behind(), [])
