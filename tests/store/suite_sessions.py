"""The contract: sessions and what belongs to them, how they end, and retained messages."""

from mhub.core import records
from mhub.core.records import SESSION, SUBSCRIPTION
from mhub.core.registry import entry_message
from tests.store.case import StoreCase
from tests.store.plain import plain_contents, plain_session, plain_subscription
from tests.store.records import (
    NOW,
    body,
    delivery,
    extreme,
    filled,
    message,
    session,
    subscription,
)


class SessionSuite(StoreCase):
    # Sessions and what belongs to them

    async def test_a_new_store_is_empty(self) -> None:
        contents = plain_contents(await self.start())
        empty = {"sessions": [], "retained": [], "notes": {}, "last_sid": 0, "last_mid": 0}
        self.assertEqual(contents, empty)
        self.assertEqual(await self.queue(1), [])
        await self.assert_sound()
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_it_has_a_name(self) -> None:
        self.assertTrue(self.make_store().name)

    async def test_a_session_comes_back_with_every_field(self) -> None:
        await self.start()
        will = body("gone", "will/é")
        first = session(
            3, 0xFFFFFFFF, principal="ü", listener="tls", mount="m/", ends_at=NOW + 9.25
        )
        filled(first, will=will, will_delay_s=7, will_at=NOW + 1.5)
        second = session(4, 1)
        await self.commit(first, second)
        found = (await self.start()).sessions
        self.assertEqual(
            sorted(plain_session(each.record) for each in found),
            [plain_session(first), plain_session(second)],
        )

    async def test_a_session_is_as_the_last_batch_has_it(self) -> None:
        await self.start()
        await self.commit(session(1, will=body()), subscription(1, "a"))
        await self.commit(session(1, 99, ends_at=NOW + 5))
        [found] = (await self.start()).sessions
        self.assertEqual(
            plain_session(found.record), plain_session(session(1, 99, ends_at=NOW + 5))
        )
        self.assertEqual(len(found.subscriptions), 1)

    async def test_a_session_comes_back_with_every_field_at_its_bounds(self) -> None:
        await self.start()
        first, named = extreme(SESSION, sid=3), extreme(SUBSCRIPTION, sid=3)
        await self.commit(first, named)
        [found] = (await self.start(NOW + 0.05)).sessions
        self.assertEqual(plain_session(found.record), plain_session(first))
        [subscribed] = found.subscriptions
        self.assertEqual(plain_subscription(subscribed), plain_subscription(named))

    async def test_subscriptions_come_back_with_every_field(self) -> None:
        await self.start()
        some = [
            subscription(1, "a/#", qos=2, no_local=True),
            subscription(1, "$share/g/a/+", qos=1, retain_as_published=True, identifier=268435455),
            subscription(1, "ä b", qos=0),
        ]
        await self.commit(session(1), session(2), *some, subscription(2, "a/#"))
        found = {each.record.sid: each.subscriptions for each in (await self.start()).sessions}
        self.assertEqual(
            sorted(map(plain_subscription, found[1])), sorted(map(plain_subscription, some))
        )
        self.assertEqual([each.name for each in found[2]], ["a/#"])

    async def test_subscriptions_are_replaced_and_removed(self) -> None:
        await self.start()
        await self.commit(session(1), subscription(1, "a"), subscription(1, "b"))
        await self.commit(subscription(1, "a", qos=2))
        await self.commit(subscriptions={(1, "b"): None, (1, "never there"): None})
        [found] = (await self.start()).sessions
        self.assertEqual(
            [plain_subscription(each) for each in found.subscriptions],
            [plain_subscription(subscription(1, "a", qos=2))],
        )

    async def test_incoming_packet_ids_come_and_go(self) -> None:
        await self.start()
        await self.commit(session(1), session(2), incoming={(1, 5): True, (1, 65535): True})
        await self.commit(incoming={(1, 5): False, (2, 5): True, (1, 7): False})
        await self.commit(incoming={(1, 65535): True})
        found = {each.record.sid: each.incoming for each in (await self.start()).sessions}
        self.assertEqual(found, {1: [65535], 2: [5]})

    # Sessions that end

    async def test_an_ended_session_takes_all_it_had(self) -> None:
        await self.start()
        await self.full_session(1)
        before = await self.portrait()
        await self.full_session(2)
        await self.commit(ended=[2])
        self.assertEqual(await self.queue(2), [])
        self.assertEqual(await self.portrait(), {**before, "last_sid": 2, "last_mid": 2})
        await self.commit(ended=[1])
        self.assertEqual((await self.start()).sessions, [])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_a_session_that_came_and_ended_in_one_batch_leaves_nothing(self) -> None:
        await self.start()
        await self.commit(
            session(1),
            subscription(1, "a"),
            message(1, 1),
            delivery(1, 1, 1),
            delivery(1, 2, pid=3),
            incoming={(1, 1): True},
            ended=[1],
        )
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_ending_what_was_never_stored_is_nothing(self) -> None:
        await self.start()
        await self.commit(session(1), delivery(1, 1))
        await self.commit(ended=[5])
        self.assertEqual(await self.seqs(1), [1])

    async def test_sessions_that_end_with_the_process_are_gone_at_the_start(self) -> None:
        await self.start()
        await self.full_session(1, expiry_s=0)
        self.assertEqual((await self.start()).sessions, [])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_sessions_whose_time_is_over_are_gone_at_the_start(self) -> None:
        await self.start()
        await self.full_session(1, ends_at=NOW + 5)
        await self.full_session(2, ends_at=NOW + 50)
        await self.full_session(3)
        found = (await self.start(NOW + 10)).sessions
        self.assertEqual(sorted(each.record.sid for each in found), [2, 3])
        await self.assert_sound()
        await self.commit(ended=[2, 3])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_a_session_that_is_over_but_has_a_will_comes_with_all_it_had(self) -> None:
        """The hub publishes the will, and ends the session then."""
        await self.start()
        will = body("gone", "w")
        await self.full_session(1, 0, will=will)
        await self.full_session(2, ends_at=NOW + 5, will=will, will_at=NOW + 5)
        before = await self.portrait()
        await self.full_session(3, 0)
        await self.full_session(4, ends_at=NOW + 5)
        for _ in range(2):  # it stays until the hub ends it
            found = sorted((await self.start(NOW + 10)).sessions, key=lambda each: each.record.sid)
            self.assertEqual([each.record.sid for each in found], [1, 2])
            for stored in found:
                self.assertEqual(stored.record.will, will)
                self.assertEqual([each.name for each in stored.subscriptions], ["a/#"])
                self.assertEqual([row.record.seq for row in stored.inflight], [2, 4])
                self.assertEqual((stored.incoming, stored.queued, stored.last_seq), ([9], 2, 4))
            self.assertEqual(await self.portrait(), {**before, "last_sid": 4, "last_mid": 4})
        await self.assert_sound()
        await self.commit(session(1, 0), session(2, ends_at=NOW + 5))
        self.assertEqual((await self.start(NOW + 10)).sessions, [])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_a_shared_message_outlives_the_sessions_that_are_gone_at_the_start(self) -> None:
        await self.start()
        owners = [session(1, 0), session(2, ends_at=NOW + 5), session(3)]
        some = [delivery(1, 1, 7), delivery(1, 2, 7), delivery(2, 1, 7), delivery(3, 1, 7)]
        await self.commit(*owners, message(7, 4), *some)
        await self.start(NOW + 10)
        self.assertEqual((await self.portrait())["messages"], [(7, 1, body("shared"))])
        await self.assert_sound()

    # Retained messages

    async def test_retained_messages_are_set_replaced_and_erased(self) -> None:
        await self.start()
        await self.commit(retained={"a": body("1", "a"), "b/c": body("2", "b/c")})
        await self.commit(retained={"a": body("3", "a"), "b/c": b"", "never": b""})
        self.assertEqual((await self.start()).retained, [body("3", "a")])
        await self.commit(retained={"a": b""})
        self.assertEqual((await self.start()).retained, [])
        await self.stop()
        self.assertEqual(await self.left_behind(), [])

    async def test_entries_of_the_registry_are_set_replaced_and_deleted(self) -> None:
        """Under topics with U+0000: none is cut off there, or taken for another one."""
        await self.start()
        made = {
            (key, value): records.message(entry_message(key, value, 5), 0.0)
            for key in ("user/a", "user/b", "rule/é")
            for value in ("", "1", "2")
        }
        topics = {key: entry_message(key, "", 5).topic for key, _ in made}
        await self.commit(retained={topics[key]: made[key, "1"] for key in topics})
        await self.commit(
            retained={
                topics["user/a"]: made["user/a", "2"],
                topics["user/b"]: made["user/b", ""],
                topics["rule/é"]: b"",
            }
        )
        found = (await self.start()).retained
        self.assertEqual(sorted(found), sorted([made["user/a", "2"], made["user/b", ""]]))

    async def test_expired_retained_messages_are_removed_at_the_start(self) -> None:
        await self.start()
        soon, later = body("1", "a", NOW + 5), body("2", "b", NOW + 50)
        await self.commit(retained={"a": soon, "b": later, "c": body("3", "c")})
        self.assertEqual(len((await self.start(NOW + 1)).retained), 3)
        self.assertEqual(
            sorted((await self.start(NOW + 10)).retained), sorted([later, body("3", "c")])
        )
        # Gone for good, and not merely left out.
        self.assertEqual(len((await self.portrait())["retained"]), 2)

    async def test_a_retained_message_that_no_longer_expires_stays(self) -> None:
        await self.start()
        await self.commit(retained={"a": body("1", "a", NOW + 5), "b": body("1", "b")})
        await self.commit(retained={"a": body("2", "a"), "b": body("2", "b", NOW + 5)})
        self.assertEqual((await self.start(NOW + 10)).retained, [body("2", "a")])
        self.assertEqual((await self.start(NOW + 1)).retained, [body("2", "a")])

    async def test_a_retained_message_that_is_cut_off_is_kept_and_told(self) -> None:
        """Nothing is known of its expiry; that it is wrong is for check() to say."""
        await self.start()
        await self.commit(retained={"t": b"short"})
        self.assertEqual((await self.start(NOW + 10)).retained, [b"short"])
        self.assertEqual(await self.store.check(), ["retained t: a stored message is cut off"])
