"""Messages for one session, in the channel from one node to another; and what is not confirmed."""

from mhub.core.channel_records import CONFIRM, PUBLISHES, Entry, Origin
from mhub.core.hlc import AHEAD, NOTE
from mhub.core.journal import tracker_of
from mhub.store.memory import MemoryStore
from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import read_u64
from mhub.wire.publish import Publish, topic_field
from tests.core.channel_case import Case, End
from tests.core.test_peer import TOPIC
from tests.helpers import packets as p

VIA = "a\nlife\n7"


def message_of(payload: bytes, qos: int = 1) -> Publish:
    message = Publish(TOPIC.encode(), payload, qos, False)
    message.topic = TOPIC
    message.topic_field = topic_field(TOPIC.encode())
    return message


class DirectCase(Case):
    def put(self, *payloads: bytes, is_safe: bool = True, via: str = VIA) -> None:
        """For the session of client s with epoch 5."""
        for payload in payloads:
            self.a.peer.outgoing.put_direct("s", 5, message_of(payload), is_safe, via)
        self.a.world.hub.flush()

    def directs(self) -> list[tuple[str, int, str, bytes]]:
        """What came to node b so."""
        found, self.b.node.directs = self.b.node.directs, []
        return [(each.direct, each.session_epoch, each.via, each.message.payload) for each in found]

    def copy(self, n: int, payload: bytes) -> Entry:
        """Of what node c has for node b, with that number."""
        copy = Entry(0, message_of(payload), False, None)
        copy.direct, copy.session_epoch, copy.via = "s", 5, VIA
        copy.origin = Origin("c", "c1", n, "")
        return copy


class WireTests(DirectCase):
    def test_it_comes_with_whom_it_is_for_and_to_nobody_else(self) -> None:
        """Bob has subscribed to its topic, and does not get it."""
        for durable in ("", "ab"):
            with self.subTest(durable=durable):
                self.start(durable)
                self.put(b"1")
                self.settle()
                self.assertEqual(self.directs(), [("s", 5, VIA, b"1")])
                self.assertEqual(self.came(), [])

    def test_with_all_that_a_message_has(self) -> None:
        self.start()
        message = message_of(b"1", 2)
        message.retain = True
        self.a.peer.outgoing.put_direct("s", (1 << 62) - 1, message, True, "")
        self.settle()
        (entry,) = self.b.node.directs
        found = entry.message
        self.assertEqual((entry.session_epoch, entry.via), ((1 << 62) - 1, ""))
        self.assertEqual((found.topic_data, found.qos), (TOPIC.encode(), 2))
        self.assertTrue(found.retain)

    def test_in_its_place_among_the_others(self) -> None:
        self.start()
        self.publish(b"1")
        self.put(b"2")
        self.publish(b"3")
        numbers = [entry.n for entry in self.a.peer.outgoing.unconfirmed()]
        self.assertEqual(numbers, list(range(numbers[0], numbers[0] + 3)))
        self.settle()
        self.assertEqual((self.came(), len(self.directs())), ([b"1", b"3"], 1))
        self.assertEqual(self.b.peer.incoming.last_received, numbers[-1])

    def test_once_though_the_link_breaks(self) -> None:
        for durable in ("", "ab"):
            with self.subTest(durable=durable):
                self.start(durable)
                self.put(b"1", b"2")
                self.a.settle()
                self.carry()
                self.put(b"3")
                self.a.settle()
                self.unlink()
                self.link()
                self.settle()
                self.assertEqual([each[3] for each in self.directs()], [b"1", b"2", b"3"])
                self.assertEqual(self.a.peer.outgoing.queued, 0)

    def test_no_bound_holds_it_back(self) -> None:
        self.start()
        self.a.peers.limits.max_queued_messages = 1
        self.publish(b"1")
        self.put(b"2", b"3")
        self.settle()
        self.assertEqual(len(self.directs()), 2)

    def test_one_that_is_cut_off_is_refused(self) -> None:
        self.start()
        self.put(b"1")
        (body,) = self.a.outlet.take(PUBLISHES)
        for end in range(9, len(body)):
            with self.assertRaises(ProtocolFault, msg=f"the first {end} bytes"):
                self.b.peer.incoming.take(body[:end], self.b.world.now)
        self.assertEqual(self.directs(), [])


class CopyTests(DirectCase):
    def test_a_copy_may_be_for_one_session(self) -> None:
        for durable in ("", "ab"):
            with self.subTest(durable=durable):
                self.start(durable)
                self.a.peer.outgoing.put_copy(self.copy(7, b"1"))
                self.settle()
                self.assertEqual(self.directs(), [("s", 5, VIA, b"1")])
                self.assertEqual(self.came(), [])

    def test_it_comes_once_whichever_way_is_faster(self) -> None:
        self.start()
        for _ in range(2):
            self.a.peer.outgoing.put_copy(self.copy(7, b"1"))
        self.settle()
        self.assertEqual(len(self.directs()), 1)
        self.assertEqual(self.b.peers.peers["c"].incoming.early, {7: "c1"})

    def test_what_came_as_a_copy_is_not_taken_again(self) -> None:
        """Node b has heard of it as early: the direct message itself is a double then."""
        self.start()
        self.put(b"1")
        (entry,) = self.a.peer.outgoing.unconfirmed()
        self.assertTrue(self.b.peer.incoming.comes_early(self.a.peer.outgoing.epoch, entry.n))
        self.settle()
        self.assertEqual((self.directs(), self.b.peer.counters.messages_doubled), ([], 1))
        self.assertEqual(
            (self.b.peer.incoming.early, self.b.peer.incoming.last_received), ({}, entry.n)
        )


class SafeTests(DirectCase):
    """It is as safe as where it was taken from."""

    def test_what_was_stored_is_stored(self) -> None:
        self.start("a")
        self.put(b"1")
        self.assertEqual(self.a.outlet.take(PUBLISHES), [])
        self.a.settle()
        self.assertEqual(len(self.a.outlet.take(PUBLISHES)), 1)
        assert self.a.store is not None
        self.assertEqual(len(self.a.store.deliveries), 1)

    def test_for_what_was_not_its_sender_waits(self) -> None:
        self.start("a")
        message = message_of(b"1")
        self.a.peer.outgoing.put_direct("s", 5, message, False, VIA)
        self.a.settle()
        assert self.a.store is not None
        self.assertEqual(self.a.store.deliveries, {})
        self.assertEqual(tracker_of(message).remote, 1)
        self.settle()
        self.assertEqual(tracker_of(message).remote, 0)

    def test_to_a_node_that_is_away_it_is_stored(self) -> None:
        """Also if the link breaks while it is on its way; nobody waits any more then."""
        for is_late in (False, True):
            with self.subTest(is_late=is_late):
                self.start("a")
                message = message_of(b"1")
                if is_late:
                    self.a.peer.outgoing.put_direct("s", 5, message, False, VIA)
                self.unlink()
                if not is_late:
                    self.a.peer.outgoing.put_direct("s", 5, message, False, VIA)
                self.a.settle()
                assert self.a.store is not None
                self.assertEqual(len(self.a.store.deliveries), 1)
                self.assertEqual(tracker_of(message).remote, 0)

    def test_it_survives_a_crash(self) -> None:
        for via in ("", VIA):
            with self.subTest(via=via):
                self.start("a")
                self.unlink()
                self.publish(b"1")
                self.put(b"2", via=via)
                self.a.peer.outgoing.put_copy(self.copy(9, b"3"))
                self.a.settle()
                self.a = End("a", "b", self.a.store)
                found = self.a.peer.outgoing.unconfirmed()
                self.assertEqual([each.message.payload for each in found], [b"1", b"2", b"3"])
                expected = [("", 0, ""), ("s", 5, via), ("s", 5, VIA)]
                self.assertEqual([(e.direct, e.session_epoch, e.via) for e in found], expected)
                self.assertEqual([e.shares for e in found], [None] * 3)
                self.assertEqual([e.plain for e in found], [True, False, False])
                origin = found[2].origin
                assert origin is not None
                self.assertEqual((origin.node, origin.n), ("c", 9))
                self.link()
                self.settle()
                self.assertEqual([each[3] for each in self.directs()], [b"2", b"3"])


class SenderNameTests(Case):
    def test_any_client_id_survives_a_restart(self) -> None:
        """It is in the journal with the message, as are the names of groups: with any characters
        that MQTT allows."""
        for client_id in ("plain", "two\nlines", '+"\\[', "é"):
            for share in ("", "$share/a\nb/" + TOPIC):
                with self.subTest(client_id=client_id, share=share):
                    self.start("a")
                    if share:
                        self.a.peers.learn(self.a.peer, "f" + TOPIC, 0)
                        self.a.peers.learn(self.a.peer, "s" + share, 1 + 2)
                    self.unlink()
                    client = self.a.world.client(client_id)
                    self.publish(b"1", client=client)
                    self.a.settle()
                    self.a = End("a", "b", self.a.store)
                    (entry,) = self.a.peer.outgoing.unconfirmed()
                    self.assertEqual(entry.message.sender, client_id)
                    self.assertEqual(
                        (entry.plain, entry.shares), (not share, [share] if share else None)
                    )


class HoldTests(DirectCase):
    """What came and is not confirmed: the other node may have to send it elsewhere."""

    def confirmed(self) -> int:
        """The number up to which node b says that it has all; -1: it says nothing."""
        self.b.settle()
        bodies = self.b.outlet.take(CONFIRM)
        for body in bodies:
            self.a.peer.confirmed(body)
        self.a.settle()
        return read_u64(bodies[-1], 8)[0] if bodies else -1

    def came_with(self, *payloads: bytes) -> int:
        """Messages come to node b; the number of the last."""
        self.publish(*payloads)
        self.a.settle()
        self.carry()
        return self.a.peer.outgoing.last_n

    def test_nothing_beyond_the_number(self) -> None:
        for durable in ("", "ab"):
            with self.subTest(durable=durable):
                self.start(durable)
                n = self.came_with(b"1")
                self.assertEqual(self.confirmed(), n)
                self.b.peer.incoming.hold_confirm("why", n)
                self.came_with(b"2", b"3")
                self.assertEqual(self.confirmed(), n)
                found = [entry.message.payload for entry in self.a.peer.outgoing.unconfirmed()]
                self.assertEqual(found, [b"2", b"3"])
                self.assertEqual(self.came(), [b"1", b"2", b"3"])

    def test_its_publishers_wait_and_others_are_sent_all_the_same(self) -> None:
        """Frames are confirmed: the window of the link does not fill."""
        self.start()
        self.b.peer.incoming.hold_confirm("why", 0)
        self.came_with(b"1")
        self.confirmed()
        self.assertEqual(self.acked(), [])
        self.assertEqual(self.a.peer.outgoing.under_way_bytes, 0)

    def test_a_number_that_is_not_reached_yet_holds_nothing_back(self) -> None:
        self.start()
        self.b.peer.incoming.hold_confirm("why", self.a.peer.outgoing.last_n + 2)
        n = self.came_with(b"1", b"2", b"3")
        self.assertEqual(self.confirmed(), n - 1)

    def test_released_all_of_it_is_confirmed_at_once(self) -> None:
        self.start()
        self.b.peer.incoming.hold_confirm("why", 0)
        n = self.came_with(b"1", b"2")
        self.assertEqual(self.confirmed(), 0)
        self.b.peer.incoming.release_confirm("why")
        self.assertEqual(self.confirmed(), n)
        self.assertEqual(self.acked(), [1, 2])

    def test_the_lowest_of_several_counts(self) -> None:
        self.start()
        n = self.a.peer.outgoing.last_n + 3
        self.b.peer.incoming.hold_confirm("x", n - 1)
        self.b.peer.incoming.hold_confirm("y", n - 2)
        self.came_with(b"1", b"2", b"3")
        self.assertEqual(self.confirmed(), n - 2)
        self.b.peer.incoming.release_confirm("y")
        self.assertEqual(self.confirmed(), n - 1)
        self.b.peer.incoming.release_confirm("x")
        self.assertEqual(self.confirmed(), n)

    def test_what_was_never_held_is_not_released(self) -> None:
        self.start()
        n = self.a.peer.outgoing.last_n + 2
        self.b.peer.incoming.hold_confirm("why", n - 1)
        self.came_with(b"1", b"2")
        self.confirmed()
        self.b.peer.incoming.release_confirm("another")
        self.assertEqual(self.confirmed(), -1)
        self.assertEqual(self.b.peer.incoming.confirmable(), n - 1)

    def confirmable(self, *safe: int) -> list[int]:
        """Up to where a new link could say that all has come, with so much safe."""
        found = []
        for n in safe:
            self.b.peer.incoming.safe_n = n
            found.append(self.b.peer.incoming.confirmable())
        return found

    def test_a_link_begins_with_no_more_either(self) -> None:
        self.start()
        self.assertEqual(self.confirmable(0, 5, 9), [0, 5, 9])
        self.b.peer.incoming.hold_confirm("why", 5)
        self.assertEqual(self.confirmable(0, 4, 5, 6), [0, 4, 5, 5])
        self.b.peer.incoming.hold_confirm("zero", 0)
        self.assertEqual(self.confirmable(0, 9), [0, 0])

    def test_of_another_life_nothing_is_confirmed(self) -> None:
        """The node has lost its store, and counts from the beginning: the number means nothing."""
        self.start()
        n = self.came_with(b"1", b"2")
        self.b.peer.incoming.hold_confirm("why", n)
        self.unlink()
        self.a = End("a", "b", None)
        self.a.peer.outgoing.epoch = "another"
        self.link()
        self.subscribed()
        self.alice = self.a.world.client("alice")
        self.came_with(b"3", b"4")
        self.assertEqual(self.confirmed(), 0)
        self.b.peer.incoming.release_confirm("why")
        self.assertEqual(self.confirmed(), 2)

    def test_the_other_node_knows_how_far_it_was_confirmed(self) -> None:
        """Since it began: what is confirmed is not there to be sent elsewhere."""
        self.start()
        n = self.came_with(b"1", b"2")
        self.assertEqual(self.a.peer.outgoing.confirmed_n, 0)
        self.confirmed()
        self.assertEqual(self.a.peer.outgoing.confirmed_n, n)


class ClockTests(Case):
    """No timestamp is given twice: the store knows one that none before a restart has reached."""

    def noted(self) -> int:
        assert self.a.store is not None
        return int(self.a.store.notes.get(NOTE, 0))

    def begin(self) -> None:
        self.a = End("a", "b", MemoryStore())
        self.a.settle()

    def timestamp(self) -> int:
        hlc = self.a.peers.clock.timestamp(self.a.world.now)
        self.settle()
        return hlc

    def settle(self) -> None:
        """The note is of the turn's end, and safe with the next batch."""
        for _ in range(2):
            self.a.settle()

    def test_it_is_ahead_of_what_was_given(self) -> None:
        self.begin()
        hlc = self.timestamp()
        self.assertEqual(self.noted(), hlc + AHEAD)

    def test_it_is_not_written_with_each_timestamp(self) -> None:
        self.begin()
        self.timestamp()
        noted = self.noted()
        self.a.world.wait(5.0)
        self.timestamp()
        self.assertEqual(self.noted(), noted)
        self.a.world.wait(6.0)
        hlc = self.timestamp()
        self.assertEqual(self.noted(), hlc + AHEAD)

    def test_also_if_a_timestamp_of_another_node_was_far_ahead(self) -> None:
        self.begin()
        ahead = self.timestamp() + (1 << 40)
        self.a.peers.clock.saw(ahead)
        self.settle()
        self.assertGreater(self.noted(), ahead)

    def test_after_a_restart_timestamps_are_higher(self) -> None:
        self.begin()
        ahead = self.timestamp() + (1 << 40)
        self.a.peers.clock.saw(ahead)
        last = self.timestamp()
        self.a = End("a", "b", self.a.store)
        self.assertGreater(self.timestamp(), last)
        self.assertGreater(last, ahead)

    def test_without_a_store_nothing_is_noted(self) -> None:
        self.a = End("a", "b", None)
        self.a.peers.clock.timestamp(self.a.world.now)
        self.a.world.hub.flush()
        self.assertEqual(self.a.peers.clock.reserved, 0)


class SenderTests(DirectCase):
    def test_a_direct_message_counts_as_one_that_came(self) -> None:
        self.start()
        self.put(b"1")
        self.publish(b"2")
        self.settle()
        self.assertEqual(self.b.peer.counters.messages_received, 2)

    def test_its_publisher_is_told_when_both_nodes_have_it(self) -> None:
        """It is in the channel to node c as well, where the session was."""
        self.start()
        c = self.a.peers.meet("c")
        self.alice.send(p.publish("other", b"x", 0))
        message = message_of(b"1")
        for peer in (self.a.peer, c):
            peer.up = True
            peer.outgoing.put_direct("s", 5, message, False, "")
        self.assertEqual(tracker_of(message).remote, 2)
        self.settle()
        self.assertEqual(tracker_of(message).remote, 1)
