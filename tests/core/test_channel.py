"""The channel of messages from one node to another: each arrives once, in order, and is safe."""

from mhub.core.channel_out import EAGER
from mhub.core.channel_records import CONFIRM, PUBLISHES
from mhub.core.hub import Hub
from mhub.store.memory import MemoryStore
from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import read_u64
from tests.core.channel_case import Case, End
from tests.core.test_peer import TOPIC, Alone, Outlet
from tests.core.world import Client
from tests.helpers import packets as p


class OrderTests(Case):
    def full(self) -> None:
        """1 is on its way, and there is no room for others."""
        self.start()
        self.a.peers.limits.window_bytes = 1
        self.publish(b"1")

    def test_a_new_message_does_not_overtake_those_that_wait(self) -> None:
        """Not even in the turn in which there is room again: that would lose them, as the other
        side takes what has a lower number than the last one for a double.
        """
        self.full()
        self.publish(b"2", b"3")
        self.carry()
        self.confirm()
        self.publish(b"4")
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3", b"4"])
        self.assertEqual(self.acked(), [1, 2, 3, 4])

    def test_nor_does_qos_0(self) -> None:
        self.full()
        self.publish(b"2", b"3", qos=0)
        self.carry()
        self.confirm()
        self.publish(b"4", qos=0)
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3", b"4"])

    def test_after_a_break_what_was_on_its_way_comes_before_what_waited(self) -> None:
        self.full()
        self.publish(b"2", b"3")
        self.unlink()
        self.publish(b"4")
        self.link()
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3", b"4"])


class OnceTests(Case):
    """A link that breaks: what the other side has is not sent again, and what it has not, is."""

    def test_what_came_and_was_not_confirmed(self) -> None:
        self.start()
        self.publish(b"1", b"2")
        self.carry()
        self.publish(b"3")
        self.unlink()
        self.link()
        self.assertEqual(self.a.payloads(), [b"3"])
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3"])
        self.assertEqual(self.a.peer.outgoing.queued, 0)

    def test_a_frame_that_comes_twice(self) -> None:
        """A process that stood still may hold one that was sent again since."""
        self.start()
        self.publish(b"1", b"2")
        (*_, body) = [body for kind, body in self.a.outlet.sent if kind == PUBLISHES]
        self.carry()
        self.b.peer.incoming.take(body, self.b.world.now)
        self.b.world.hub.flush()
        self.assertEqual(self.came(), [b"1", b"2"])
        self.assertEqual(
            (self.b.peer.counters.messages_received, self.b.peer.counters.messages_doubled), (2, 1)
        )

    def test_a_frame_of_which_a_part_came_before(self) -> None:
        """What is behind that part is taken."""
        self.start()
        self.publish(b"1")
        self.carry()
        self.publish(b"2")
        self.a.peer.unlinked()
        self.a.outlet = Outlet()
        self.a.peer.linked(
            self.a.outlet, "", 0, self.b.peer.outgoing.epoch
        )  # it does not know of 1
        self.a.world.hub.flush()
        self.assertEqual(self.a.payloads(), [b"1", b"2"])
        self.carry()
        self.assertEqual(self.came(), [b"1", b"2"])

    def test_many_frames_were_on_their_way(self) -> None:
        """As many as are sent without confirmation: those of the old link count no more."""
        self.start()
        payloads = [b"%d" % number for number in range(2 * EAGER)]
        self.publish(*payloads)
        self.unlink()
        self.link()
        self.settle()
        self.assertEqual((self.came(), len(self.acked())), (payloads, len(payloads)))

    def test_the_window_is_that_of_the_new_link(self) -> None:
        self.start()
        self.a.peers.limits.window_bytes = 3000
        for _ in range(3):
            payloads = [b"%d" % number + bytes(1000) for number in range(10)]
            self.publish(*payloads)
            self.settle()
            self.assertEqual(self.came(), payloads)
            self.publish(b"lost")
            self.unlink()
            self.link()
            self.settle()
            self.assertEqual(self.came(), [b"lost"])

    def test_the_other_side_has_begun_anew(self) -> None:
        """Its numbers begin anew, too: they are not those of the channel that was before."""
        self.start()
        self.publish(b"1", b"2", b"3")
        self.settle()
        self.a.peer.unlinked()
        self.b.peer.unlinked()
        came = self.came()
        self.a = End("a", "b", None)
        self.a.peer.outgoing.epoch = "another"
        self.alice = self.a.world.client("alice")
        self.link()
        self.subscribed()
        self.publish(b"4", b"5")
        self.confirm()  # of the link, which says nothing of the new channel
        self.assertEqual(self.acked(), [])
        self.settle()
        self.assertEqual(came + self.came(), [b"1", b"2", b"3", b"4", b"5"])
        self.assertEqual(self.acked(), [4, 5])

    def test_the_other_side_has_lost_what_it_had(self) -> None:
        """It knows nothing of the channel: what was not confirmed comes from its beginning."""
        self.start()
        self.publish(b"1", b"2")
        self.unlink()
        self.b.peer.incoming.epoch = "other"
        self.b.peer.incoming.last_received = 7
        self.link()
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2"])


class ControlTests(Case):
    """Records about sessions, between the messages: where they stand is what they are for."""

    def control(self, body: bytes) -> None:
        self.a.peer.outgoing.put_control("ann", body)
        self.a.world.hub.flush()

    def test_they_come_where_they_were_put(self) -> None:
        self.start()
        self.control(b"first")
        self.publish(b"1")
        self.control(b"between")
        self.publish(b"2", b"3")
        self.control(b"last")
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3"])
        expected = [("ann", b"first", 0), ("ann", b"between", 1), ("ann", b"last", 3)]
        self.assertEqual(self.b.node.controls, expected)
        self.assertEqual(self.a.peer.outgoing.queued, 0)

    def test_once_though_the_link_breaks(self) -> None:
        self.start()
        self.publish(b"1")
        self.control(b"x")
        self.carry()
        self.control(b"y")
        self.publish(b"2")
        self.unlink()
        self.link()
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2"])
        self.assertEqual(self.b.node.controls, [("ann", b"x", 1), ("ann", b"y", 1)])

    def test_though_the_sender_crashes(self) -> None:
        """In their places among the messages, which the store has as well."""
        self.start("a")
        self.unlink()
        self.publish(b"1")
        self.control(b"x")
        self.publish(b"2")
        self.a.settle()
        self.a = End("a", "b", self.a.store)
        self.link()
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2"])
        self.assertEqual(self.b.node.controls, [("ann", b"x", 1)])

    def test_none_leaves_before_it_is_stored(self) -> None:
        """A restart that has forgotten it would put the messages behind it elsewhere."""
        self.start("a")
        self.control(b"x")
        self.assertEqual(self.a.outlet.take(PUBLISHES), [])
        self.a.settle()
        self.assertEqual(len(self.a.outlet.take(PUBLISHES)), 1)

    def test_no_bound_holds_them_back(self) -> None:
        self.start()
        self.a.peers.limits.max_queued_messages = 1
        self.unlink()
        self.publish(b"1")
        self.assertTrue(self.a.peer.outgoing.full())
        self.control(b"x")
        self.control(b"y")
        self.link()
        self.settle()
        self.assertEqual([body for _, body, _ in self.b.node.controls], [b"x", b"y"])

    def test_one_that_is_cut_off_is_refused(self) -> None:
        self.start()
        self.control(b"body")
        (body,) = self.a.outlet.take(PUBLISHES)
        with self.assertRaises(ProtocolFault):
            self.b.peer.incoming.take(body[:-1], self.b.world.now)
        self.assertEqual(self.b.node.controls, [])


class PublisherTests(Case):
    """Whose message is at hand, as sessions that have migrated do not take every node's."""

    def setUp(self) -> None:
        self.start()
        self.seen: list[str] = []
        self.b.peers.migrating = 1
        self.b.node.turn = self.look  # type: ignore[method-assign]

    def look(self) -> None:
        publisher = self.b.peers.publisher
        self.seen.append(publisher.name if publisher is not None else "")

    def test_none_while_a_turn_ends_within_a_frame(self) -> None:
        """What is published then, as a will, is of this node."""
        self.b.world.hub.work_per_turn = 1
        self.alice.send(*(p.publish(TOPIC, b"%d" % n, 1, n) for n in (1, 2, 3)))
        (body,) = self.a.outlet.take(PUBLISHES)
        self.b.peer.incoming.take(body, self.b.world.now)
        self.assertEqual(self.seen, ["", "", ""])
        self.b.world.hub.flush()
        self.assertEqual(self.came(), [b"1", b"2", b"3"])

    def test_none_after_a_frame_that_cannot_be_read(self) -> None:
        self.publish(b"1", b"2")
        (*_, body) = self.a.outlet.take(PUBLISHES)
        with self.assertRaises(ProtocolFault):
            self.b.peer.incoming.take(body[:-1], self.b.world.now)
        self.assertIsNone(self.b.peers.publisher)


class SafeTests(Case):
    """Each side tells the other what is safe with it."""

    def confirmed(self) -> int:
        """Up to which number b says that all is safe."""
        bodies = [body for kind, body in self.b.outlet.sent if kind == CONFIRM]
        return read_u64(bodies[-1], 8)[0] if bodies else 0

    def test_a_message_that_is_to_be_stored_is_confirmed_when_it_is(self) -> None:
        self.start("b")
        self.away()
        self.publish(b"1")
        self.carry()
        self.assertEqual((self.confirmed(), self.acked()), (0, []))
        assert self.b.disk is not None
        self.b.disk.step()
        self.assertEqual(self.confirmed(), self.a.peer.outgoing.last_n)
        self.confirm()
        self.assertEqual(self.acked(), [1])

    def test_each_with_its_own_batch(self) -> None:
        self.start("b")
        self.away()
        self.publish(b"1")
        self.carry()
        self.publish(b"2")
        self.carry()
        assert self.b.disk is not None
        self.b.disk.step()
        self.confirm()
        self.assertEqual(self.acked(), [1])
        self.b.disk.step()
        self.confirm()
        self.assertEqual(self.acked(), [2])

    def test_a_node_that_crashes_then_has_it_once(self) -> None:
        """The number that came is stored with the message: both are safe, or none."""
        self.start("b")
        self.away()
        self.publish(b"1", b"2")
        self.settle()
        self.publish(b"3")
        self.carry()  # it is not stored yet
        self.unlink()
        self.b = End("b", "a", self.b.store)
        self.link()
        self.settle()
        client = self.b.world.open(4)
        client.send(p.connect("away", 4, clean=False))
        self.b.settle()
        client.next("CONNACK")
        self.assertEqual(client.payloads(), [b"1", b"2", b"3"])

    def test_also_if_the_turn_ended_amid_a_frame(self) -> None:
        """The store gets the number with the first part of it."""
        self.start("b", work_per_turn=2)
        self.away()
        self.alice.send(*(p.publish(TOPIC, b"%d" % n, 2, n) for n in range(1, 6)))
        self.carry()
        assert self.b.disk is not None
        self.b.disk.step()  # the first part, and nothing else
        self.unlink()
        self.b = End("b", "a", self.b.store)
        self.link()
        self.settle()
        client = self.b.world.open(4)
        client.send(p.connect("away", 4, clean=False))
        self.b.settle()
        client.next("CONNACK")
        self.assertEqual(client.payloads(), [b"1", b"2", b"3", b"4", b"5"])

    def test_also_if_the_confirmation_was_lost(self) -> None:
        self.start("b")
        self.away()
        self.publish(b"1", b"2")
        self.carry()
        self.b.settle()
        self.unlink()
        self.b = End("b", "a", self.b.store)
        self.link()
        self.assertEqual(self.a.payloads(), [])
        self.assertEqual((self.acked(), self.a.peer.outgoing.queued), ([1, 2], 0))

    def test_what_becomes_safe_of_an_old_line_is_not_said_of_the_new_one(self) -> None:
        self.start("b")
        self.away()
        self.publish(b"1", b"2", b"3")
        self.carry()
        self.unlink()
        self.a = End("a", "b", None)
        self.a.peer.outgoing.epoch = "another"
        self.alice = self.a.world.client("alice")
        self.link()
        self.subscribed()
        self.publish(b"4")
        self.b.settle()
        self.confirm()
        self.assertEqual(self.acked(), [])
        self.settle()
        self.assertEqual(self.acked(), [4])

    def away(self) -> None:
        """A session on b whose client is not there."""
        client = self.b.world.open(4)
        client.send(p.connect("away", 4, clean=False), p.subscribe(1, (TOPIC, 1)))
        self.b.settle()
        client.take()
        client.lose()
        self.b.settle()

    def test_a_message_for_a_node_that_is_away_is_acknowledged_when_it_is_stored(self) -> None:
        self.start("a")
        self.unlink()
        self.publish(b"1")
        self.assertEqual(self.acked(), [])
        self.a.settle()
        self.assertEqual(self.acked(), [1])

    def test_that_a_retained_message_was_erased_is_stored_as_well(self) -> None:
        """Another node may still have it, and must not bring it back after a crash."""
        self.start("a")
        self.unlink()
        for pid, payload in ((1, b"x"), (2, b"")):
            self.alice.send(p.publish("r", payload, 1, pid, True))
            self.assertEqual(self.acked(), [])
            self.a.settle()
            self.assertEqual(self.acked(), [pid])
        self.a = End("a", "b", self.a.store)
        retained = self.a.world.hub.retained
        self.assertEqual([message.payload for message in retained.known()], [b""])
        digests = list(retained.digests or [])
        retained.count_for_peers()
        self.assertEqual(digests, retained.digests)  # by which the two nodes compare what they have

    def test_one_that_was_on_its_way_when_the_link_broke_is_stored_first(self) -> None:
        self.start("a")
        self.publish(b"1")
        self.assertEqual(self.acked(), [])
        self.unlink()
        self.assertEqual(self.acked(), [])
        self.a.settle()
        self.assertEqual(self.acked(), [1])

    def test_what_a_node_has_kept_survives_its_crash(self) -> None:
        """Then come new ones, whose numbers are far behind: none is taken for another."""
        self.start("a")
        self.unlink()
        self.publish(b"1", b"2")
        self.a.settle()
        self.a = End("a", "b", self.a.store)
        self.alice = self.a.world.client("alice")
        self.publish(b"3")
        self.a.settle()
        self.link()
        self.carry()
        self.unlink()  # before any of it was confirmed
        self.link()
        self.publish(b"4", b"5")
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3", b"4", b"5"])
        self.publish(b"6")
        self.unlink()
        self.link()
        self.settle()
        self.assertEqual(self.came(), [b"6"])
        assert self.a.store is not None
        self.assertEqual((self.a.peer.outgoing.queued, self.a.store.deliveries), (0, {}))

    def test_more_messages_than_numbers_were_reserved(self) -> None:
        """After a crash none of them is given again: the message would be taken for a double."""
        self.start("a")
        self.a.peer.outgoing.last_n = self.a.peer.outgoing.reserved - 1
        self.publish(b"1", b"2", b"3")
        self.settle()
        self.unlink()
        self.a = End("a", "b", self.a.store)
        self.alice = self.a.world.client("alice")
        self.link()
        self.publish(b"4")
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2", b"3", b"4"])

    def test_what_is_journaled_leaves_when_it_is_stored(self) -> None:
        """QoS 2 of a session that survives a crash: else the packet id could be taken twice."""
        self.start("a")
        kept = self.a.world.open(4)
        kept.send(p.connect("kept", 4, clean=False))
        self.a.settle()
        kept.take()
        self.publish(b"1", qos=2, client=kept)
        self.assertEqual(self.a.payloads(), [])
        self.a.settle()
        self.assertEqual(self.a.payloads(), [b"1"])

    def test_numbers_are_not_used_before_they_are_reserved_for_good(self) -> None:
        """After a crash they would be given to other messages."""
        self.a = End("a", "b", MemoryStore())
        self.b = End("b", "a", None)
        self.pid = 0
        self.link()
        self.a.peers.learn(self.a.peer, "f" + TOPIC, 1)
        self.alice = self.a.world.client("alice")
        self.publish(b"1")
        self.assertEqual(self.a.payloads(), [])
        self.a.settle()
        self.assertEqual(self.a.payloads(), [b"1"])


class BehindTests(Case):
    """What the peer may not have, by its place or by its client."""

    def setUp(self) -> None:
        self.start()
        self.channel = self.a.peer.outgoing

    def behind(self, n: int) -> list[bytes]:
        return [entry.message.payload for entry in self.channel.behind(n)]

    def controls(self, client_id: str) -> list[bytes]:
        return [entry.message.payload for entry in self.channel.controls_of(client_id)]

    def test_a_number_is_the_last_that_is_not_among_them(self) -> None:
        self.publish(b"1", b"2", b"3", b"4")
        first = self.channel.last_n - 3
        self.assertEqual(self.behind(0), [b"1", b"2", b"3", b"4"])
        self.assertEqual(self.behind(first), [b"2", b"3", b"4"])
        self.assertEqual(self.behind(first + 2), [b"4"])
        self.assertEqual(self.behind(first + 3), [])

    def test_also_where_some_wait_and_others_are_on_their_way(self) -> None:
        self.publish(b"1", b"2")
        self.a.peers.limits.window_bytes = 0
        self.publish(b"0", qos=0)
        self.publish(b"3", b"4")
        first = self.channel.last_n - 3
        self.assertEqual(self.behind(first), [b"2", b"3", b"4"])
        self.assertEqual(self.behind(first + 2), [b"4"])

    def test_control_records_are_found_by_their_client(self) -> None:
        self.channel.put_control("ann", b"x")
        self.publish(b"1")
        self.channel.put_control("tom", b"y")
        self.channel.put_control("ann", b"z")
        self.assertEqual(self.controls("ann"), [b"x", b"z"])
        self.assertEqual(self.controls("tom"), [b"y"])
        self.assertEqual(self.controls("bob"), [])

    def test_until_they_are_confirmed(self) -> None:
        self.channel.put_control("ann", b"x")
        self.settle()
        self.channel.put_control("ann", b"y")
        self.assertEqual(self.controls("ann"), [b"y"])
        self.settle()
        self.assertEqual(self.controls("ann"), [])
        self.assertEqual((len(self.channel.controls), self.channel.client_controls), (0, {}))

    def test_also_after_a_restart(self) -> None:
        self.start("a")
        self.unlink()
        self.a.peer.outgoing.put_control("ann", b"x")
        self.a.settle()
        self.a = End("a", "b", self.a.store)
        self.channel = self.a.peer.outgoing
        self.assertEqual(self.controls("ann"), [b"x"])


class Goer(Alone):
    """Neighbours that go on with a migration once, and wait for the store then."""

    def __init__(self, hub: Hub) -> None:
        super().__init__()
        self._hub = hub
        self.asked = 0

    def turn(self) -> None:
        self.asked += 1
        if self.asked == 1:
            self._hub.require_journal().note("ended/1", "b")


class TurnTests(Case):
    def test_what_a_migration_has_to_store_goes_with_the_turn(self) -> None:
        """Else it waits until something else happens: a tick is longer than the store takes."""
        self.start("b")
        self.b.settle()
        hub = self.b.world.hub
        goer = self.b.peers.neighbours = Goer(hub)
        self.b.peers.migrating = 1
        hub.flush()
        assert self.b.disk is not None
        self.assertTrue(self.b.disk.busy())
        asked = goer.asked
        hub.flush()
        self.assertEqual(goer.asked, asked + 1)  # nothing is to be done, so the turn ends


class WaitingTests(Case):
    """Whom a publisher waits for."""

    def test_for_all_nodes_that_want_the_message(self) -> None:
        self.start()
        other = self.a.peers.meet("c")
        outlet = Outlet()
        other.linked(outlet, "", 0, "epoch")
        self.a.peers.learn(other, "f" + TOPIC, 1)
        self.publish(b"1")
        self.settle()
        self.assertEqual(self.acked(), [])
        other.unlinked()
        self.assertEqual(self.acked(), [1])

    def test_many_senders_are_told_by_one_confirmation(self) -> None:
        self.start()
        clients = [self.a.world.client(f"c{number}") for number in range(3)]
        for client in (*clients, *clients):
            self.publish(b"x", client=client)
        self.carry()
        bodies = self.b.outlet.take(CONFIRM)
        self.a.peer.confirmed(bodies[-1])
        self.a.world.hub.flush()
        self.assertEqual([len(client.take()) for client in clients], [2, 2, 2])

    def test_a_qos_2_message_that_is_repeated_waits_for_the_first(self) -> None:
        """The PUBREC says that all have it, also if it is the second one."""
        self.start()
        self.publish(b"1", qos=2)
        self.alice.send(p.publish(TOPIC, b"1", 2, self.pid, dup=True))
        self.assertEqual(self.alice.take(), [])
        self.settle()
        self.assertEqual([packet.type for packet in self.alice.take()], ["PUBREC", "PUBREC"])
        self.assertEqual(self.came(), [b"1"])

    def again(self) -> Client:
        """Alice, on a new connection, repeats her last message."""
        self.alice.lose()
        self.alice = self.a.world.client("alice", clean=False)
        self.alice.send(p.publish(TOPIC, b"1", 2, self.pid, dup=True))
        return self.alice

    def test_also_on_another_connection(self) -> None:
        self.start()
        self.alice = self.a.world.client("alice", clean=False)
        self.publish(b"1", qos=2)
        self.again()
        self.assertEqual(self.acked(), [])
        self.settle()
        self.assertEqual((self.acked(), self.came()), ([self.pid], [b"1"]))

    def test_a_packet_id_that_is_in_use_is_no_new_message(self) -> None:
        """Not on the connection on which it came, with DUP or without."""
        self.start()
        self.publish(b"1", qos=2)
        for dup in (False, True):
            self.alice.send(p.publish(TOPIC, b"2", 2, self.pid, dup=dup))
        self.settle()
        self.assertEqual(self.came(), [b"1"])

    def test_a_message_without_dup_is_a_new_one(self) -> None:
        """Its packet id may be left from a session of this client that another node had."""
        self.start()
        self.alice = self.a.world.client("alice", clean=False)
        self.publish(b"1", qos=2)
        self.alice.lose()
        self.alice = self.a.world.client("alice", clean=False)
        self.alice.send(p.publish(TOPIC, b"2", 2, self.pid))
        self.settle()
        self.assertEqual(self.came(), [b"1", b"2"])

    def test_also_if_only_qos_0_waits_behind_it(self) -> None:
        """Which is never confirmed by itself."""
        self.start()
        self.a.peers.limits.window_bytes = 1
        self.alice = self.a.world.client("alice", clean=False)
        self.publish(b"1", qos=2)
        self.a.world.client("other").send(p.publish(TOPIC, b"0"))
        self.again()
        self.assertEqual(self.acked(), [])
        self.settle()
        self.assertEqual(self.acked(), [self.pid])

    def test_not_for_a_node_from_which_nothing_is_received(self) -> None:
        self.start()
        self.alice = self.a.world.client("alice", clean=False)
        self.publish(b"1", qos=2)
        self.a.peer.suspect()
        self.again()
        self.assertEqual(self.acked(), [self.pid])

    def test_and_for_those_behind_which_it_waits(self) -> None:
        """It was put behind others, for which there is no room yet."""
        self.start()
        self.a.peers.limits.window_bytes = 1
        self.publish(b"1")
        self.publish(b"2", qos=2)
        again = self.pid
        self.alice.send(p.publish(TOPIC, b"2", 2, again, dup=True))
        self.carry()
        self.confirm()
        self.assertEqual(self.acked(), [1])
        self.settle()
        self.assertEqual(self.acked(), [again, again])
