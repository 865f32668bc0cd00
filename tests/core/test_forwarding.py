"""Which other nodes a message goes to: subscribers, groups, and nodes that are away."""

from mhub.core.channel_out import FRAME_BYTES
from mhub.core.channel_records import PUBLISHES, read_record
from mhub.core.peer import Peer
from tests.core.channel_case import Case, End
from tests.core.test_peer import TOPIC, Outlet
from tests.helpers import packets as p


class PlainTests(Case):
    def test_a_subscriber_on_another_node_is_somebody(self) -> None:
        """The publisher is not told that nobody wants it."""
        self.start()
        five = self.a.world.client("five", 5)
        for topic in (TOPIC, "unwanted"):
            five.send(p.publish(topic, b"x", 1, 1, version=5))
            self.settle()
        self.assertEqual([packet.reason for packet in five.take()], [0, 0x10])

    def test_what_one_turn_brings_goes_in_frames_of_bounded_size(self) -> None:
        self.start()
        self.alice.send(*(p.publish(TOPIC, bytes(1000), 1, pid) for pid in range(1, 201)))
        bodies = [body for kind, body in self.a.outlet.sent if kind == PUBLISHES]
        self.assertGreater(len(bodies), 2)
        self.assertLess(max(map(len, bodies)), FRAME_BYTES + 2000)


class GroupTests(Case):
    def test_a_message_is_for_the_groups_that_were_chosen_for_it(self) -> None:
        """The turn of another group is that of a member elsewhere."""
        self.start()
        members = [self.b.world.client(name) for name in "gh"]
        for member, name in zip(members, "gh", strict=True):
            member.subscribe(f"$share/{name}/{TOPIC}", 1)
        self.a.peers.learn(self.a.peer, f"s$share/g/{TOPIC}", 1 + 4)
        self.publish(b"1")
        self.settle()
        self.assertEqual([member.payloads() for member in members], [[b"1"], []])
        self.assertEqual(self.came(), [b"1"])

    def test_with_a_subscriber_that_wants_it_as_well_it_crosses_once(self) -> None:
        self.start()
        self.a.peers.learn(self.a.peer, f"s$share/g/{TOPIC}", 1 + 4)
        self.publish(b"1")
        self.assertEqual(self.a.payloads(), [b"1"])

    def test_if_the_members_have_gone_meanwhile_the_publisher_is_answered(self) -> None:
        self.start()
        self.a.peers.learn(self.a.peer, f"f{TOPIC}", 0)
        self.a.peers.learn(self.a.peer, f"s$share/g/{TOPIC}", 1 + 4)
        self.publish(b"1")
        self.settle()
        self.assertEqual((self.came(), self.acked()), ([], [1]))

    def test_a_retained_message_crosses_once(self) -> None:
        """Whoever wants it keeps it, too."""
        self.start()
        self.a.peers.learn(self.a.peer, f"s$share/g/{TOPIC}", 1 + 4)
        self.alice.send(p.publish(TOPIC, b"1", 1, 1, True))
        self.a.peers.learn(self.a.peer, f"f{TOPIC}", 0)
        self.alice.send(p.publish(TOPIC, b"2", 1, 2, True))
        self.a.peers.learn(self.a.peer, f"s$share/g/{TOPIC}", 0)
        self.alice.send(p.publish(TOPIC, b"3", 1, 3, True))
        self.assertEqual(self.a.payloads(), [b"1", b"2", b"3"])

    def test_a_retained_message_that_nobody_wants_is_not_kept_for_a_node_that_is_away(self) -> None:
        """It asks for what it does not have when it is back."""
        self.start()
        self.unlink()
        self.alice.send(p.publish("unwanted", b"1", 1, 1, True))
        self.assertEqual(self.a.peer.outgoing.queued, 0)

    def test_many_groups(self) -> None:
        """Each gets the message once, and so do plain subscribers: all by one record."""
        for count in (255, 256, 1000):
            self.start()
            for number in range(count):
                self.a.peers.learn(self.a.peer, f"s$share/{number}/{TOPIC}", 1 + 4)
            self.publish(b"1")
            plain, names = [], []
            for body in self.a.outlet.take(PUBLISHES):
                pos = 8
                while pos < len(body):
                    _, is_plain, shares, pos = read_record(body, pos, 0.0)
                    plain.append(is_plain)
                    names += shares or []
            self.assertEqual(plain, [True])
            self.assertEqual((len(names), len(set(names))), (count, count))

    def test_what_a_member_leaves_stays_if_no_other_one_is_connected(self) -> None:
        """Those on the other node are away as well: its own session comes first."""
        self.start()
        self.a.peers.learn(self.a.peer, f"f{TOPIC}", 0)
        member = self.a.world.client("member", clean=False)
        member.subscribe(f"$share/g/{TOPIC}", 1)
        self.publish(b"1")
        self.a.peers.learn(self.a.peer, f"s$share/g/{TOPIC}", 1 + 2)
        member.take()
        member.lose()
        self.assertEqual(self.a.payloads(), [])
        self.assertEqual(self.a.world.client("member", clean=False).payloads(), [b"1"])

    def test_of_members_that_are_all_away_those_on_a_linked_node_come_first(self) -> None:
        self.start()
        self.a.peers.learn(self.a.peer, f"f{TOPIC}", 0)
        gone = self.a.peers.meet("c")
        for peer in (gone, self.a.peer):
            self.a.peers.learn(peer, f"s$share/g/{TOPIC}", 1 + 2)
        self.publish(b"1")
        self.assertEqual((self.a.payloads(), gone.outgoing.queued), ([b"1"], 0))


class TurnTests(Case):
    """Whose turn it is in a group with members on several nodes."""

    def setUp(self) -> None:
        """Only a group has subscribed; its members are on nodes b and c, and maybe here."""
        self.start()
        self.a.peers.learn(self.a.peer, f"f{TOPIC}", 0)
        self.c = self.a.peers.meet("c")
        self.c.linked(Outlet(), "", 0, "epoch")

    def members(self, peer: Peer, connected: int) -> None:
        self.a.peers.learn(peer, f"s$share/g/{TOPIC}", 1 + 2 + 4 * connected)

    def fill(self, *peers: Peer) -> None:
        """As many messages as may wait for them."""
        self.a.peers.limits.max_queued_messages = 3
        for peer in peers:
            self.a.peers.learn(peer, "ffill", 1)
        for _ in range(3):
            self.pid += 1
            self.alice.send(p.publish("fill", b"x", 1, self.pid))
        for peer in peers:
            self.a.peers.learn(peer, "ffill", 0)

    def turns(self, count: int) -> tuple[int, int]:
        """How many of so many messages go to b and to c."""
        before = self.a.peer.outgoing.queued, self.c.outgoing.queued
        self.publish(*[b"x"] * count)
        return self.a.peer.outgoing.queued - before[0], self.c.outgoing.queued - before[1]

    def test_each_connected_member_has_as_many_as_another(self) -> None:
        self.members(self.a.peer, 2)
        self.members(self.c, 1)
        here = self.a.world.client("here")
        here.subscribe(f"$share/g/{TOPIC}", 1)
        self.assertEqual(self.turns(20), (10, 5))
        self.assertEqual(len(here.take()), 5)

    def test_a_node_that_can_take_no_more_has_no_turn(self) -> None:
        self.members(self.a.peer, 1)
        self.members(self.c, 1)
        self.fill(self.a.peer)
        self.assertEqual(self.turns(3), (0, 3))
        self.assertEqual((self.a.peer.counters.dropped_full, self.a.peer.counters.refused), (0, 0))

    def test_nor_has_a_node_that_is_away(self) -> None:
        self.members(self.a.peer, 1)
        self.members(self.c, 1)
        self.unlink()
        self.assertEqual(self.turns(4), (0, 4))

    def test_nor_if_all_members_are_away(self) -> None:
        """There is another node that can keep it."""
        self.members(self.a.peer, 0)
        self.members(self.c, 0)
        for peer in (self.a.peer, self.c):
            peer.unlinked()
        self.fill(self.a.peer)
        self.assertEqual(self.turns(3), (0, 3))
        self.assertEqual(self.a.peer.counters.dropped_full, 0)

    def test_with_nobody_connected_a_session_of_this_node_comes_first(self) -> None:
        self.members(self.a.peer, 0)
        self.members(self.c, 0)
        here = self.a.world.client("here", clean=False)
        here.subscribe(f"$share/g/{TOPIC}", 1)
        here.lose()
        self.assertEqual(self.turns(3), (0, 0))
        self.assertEqual(len(self.a.world.client("here", clean=False).take()), 3)

    def test_what_a_member_leaves_does_not_go_to_a_node_that_is_away(self) -> None:
        """Which had connected members when it was last heard of."""
        self.members(self.c, 0)
        here = self.a.world.client("here", clean=False)
        here.subscribe(f"$share/g/{TOPIC}", 1)
        self.assertEqual(self.turns(2), (0, 0))
        self.members(self.c, 1)
        self.c.unlinked()
        here.take()
        here.lose()
        self.assertEqual(self.c.outgoing.queued, 0)
        self.assertEqual(len(self.a.world.client("here", clean=False).take()), 2)


class WantedTests(Case):
    """What goes to a node that is not there."""

    def kept(self, *topics: str) -> list[str]:
        """Those of the topics whose messages are kept for it."""
        found = []
        for topic in topics:
            before = self.a.peer.outgoing.queued
            self.pid += 1
            self.alice.send(p.publish(topic, b"x", 1, self.pid))
            found += [topic] if self.a.peer.outgoing.queued > before else []
        return found

    def test_what_lasting_sessions_want_after_it_is_given_up(self) -> None:
        self.start()
        self.a.peers.learn(self.a.peer, "fplain", 1)
        self.a.peers.learn(self.a.peer, "flasting", 3)
        self.unlink()
        self.assertEqual(self.kept("plain", "lasting"), ["plain", "lasting"])
        self.a.peers.withdraw(self.a.peer, False)
        self.assertEqual(self.kept("plain", "lasting"), ["lasting"])
        self.a.peers.restore_routes(self.a.peer)
        self.assertEqual(self.kept("plain", "lasting"), ["plain", "lasting"])
        self.a.peers.withdraw(self.a.peer, True)
        self.assertEqual(self.kept("plain", "lasting"), [])

    def test_a_restart_remembers_what_lasting_sessions_want(self) -> None:
        self.start("a")
        for value in (3, 1):  # the second one does not last any more
            self.a.peers.learn(self.a.peer, "fold", value)
        for name in ("flasting", f"s$share/g/{TOPIC}"):
            self.a.peers.learn(self.a.peer, name, 3)
        self.a.peers.learn(self.a.peer, "fplain", 1)
        self.a.settle()
        self.a = End("a", "b", self.a.store)
        self.alice = self.a.world.client("alice")
        self.assertEqual(self.kept("lasting", "old", "plain", TOPIC), ["lasting", TOPIC])
