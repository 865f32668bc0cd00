"""A peer that is away, or does not keep up: what waits for it is bounded, and publishers are told.

The bounds are those of `PeerLimits`: messages and bytes of QoS 1 and 2, bytes of QoS 0.
"""

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.channel_records import CONFIRM, PUBLISHES
from mhub.core.sys import write
from tests.core.disk import Disk
from tests.core.test_peer import TOPIC, Side
from tests.core.world import Client
from tests.helpers import packets as p

QUOTA = 0x97


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.side = Side("a", "b")
        self.side.wants(TOPIC)
        self.peer = self.side.peer
        self.limits = self.peer.limits
        self.five = self.side.world.client("five", 5)
        self.here = self.side.world.client("here")
        self.here.send(p.subscribe(1, (TOPIC, 0)))
        self.here.take()

    def publish(self, client: Client, qos: int, pid: int, payload: bytes = b"x") -> None:
        client.send(p.publish(TOPIC, payload, qos, pid or None, version=client.version))

    def reasons(self, client: Client) -> list[tuple[str, int]]:
        return [(packet.type, packet.reason or 0) for packet in client.take()]

    def told(self) -> dict[str, str]:
        """What $SYS says."""
        snapshot = self.side.hub.metrics.snapshot(self.side.hub.now)
        return {name.removeprefix("cluster/"): write(name, v) for name, v in snapshot.items()}

    def confirm(self) -> None:
        """The other node has all that was sent to it, and says so."""
        other = Side("b", "a")
        other.peer.incoming.frames_received = self.peer.outgoing.frames_confirmed
        for body in self.side.outlet.take(PUBLISHES):
            other.peer.incoming.take(body, other.hub.now)
        other.hub.flush()
        for body in other.outlet.take(CONFIRM):
            self.peer.confirmed(body)
        self.side.hub.flush()


class Refusals:
    """`queue_full = "refuse"`, whether there is a link or not."""

    def test_beyond_so_many_messages(self) -> None:
        self.limits.max_queued_messages = 3
        for pid in (1, 2, 3):
            self.publish(self.five, 1 + pid % 2, pid)
        self.five.take()
        self.publish(self.five, 1, 4)
        self.publish(self.five, 2, 5)
        self.assertEqual(self.reasons(self.five), self.REFUSED)
        self.assertEqual((self.peer.outgoing.queued, self.peer.counters.refused), (3, 2))
        self.assertEqual(self.told()["refused/full"], "2")
        self.assertEqual(self.told()["queued/messages"], "3")
        self.assertEqual(self.told()["dropped/full"], "0")

    def test_beyond_so_many_bytes(self) -> None:
        size = 1000 + len(TOPIC)
        self.limits.max_queued_bytes = 2 * size
        for pid in (1, 2, 3):
            self.publish(self.five, 1, pid, bytes(1000))
        self.assertEqual(
            (self.peer.outgoing.queued, self.peer.outgoing.queued_bytes), (2, 2 * size)
        )
        self.assertEqual(self.told()["queued/bytes"], str(2 * size))
        self.assertEqual(self.told()["refused/full"], "1")

    def test_nobody_gets_what_was_refused(self) -> None:
        self.limits.max_queued_messages = 1
        self.publish(self.five, 1, 1, b"taken")
        self.publish(self.five, 1, 2, b"refused")
        self.assertEqual(self.here.payloads(), [b"taken"])

    def test_before_version_5_the_connection_ends(self) -> None:
        """It cannot be told, and must not believe that the message was taken."""
        self.limits.max_queued_messages = 1
        self.publish(self.five, 1, 1)
        for qos in (1, 2):
            three = self.side.world.client("three", 4)
            self.publish(three, qos, 1)
            self.assertEqual((three.take(), three.closed), ([], True))
        self.assertEqual(self.told()["refused/full"], "2")

    def test_a_message_of_qos_2_that_is_sent_again_is_a_new_one(self) -> None:
        """It was not taken, so its packet id must not be either: that would lose it."""
        self.limits.max_queued_messages = 1
        self.publish(self.five, 1, 1)
        three = self.side.world.client("three", 4, clean=False)
        self.publish(three, 2, 7, b"again")
        self.assertTrue(three.closed)
        self.limits.max_queued_messages = 2
        self.here.take()
        three = self.side.world.client("three", 4, clean=False)
        three.send(p.publish(TOPIC, b"again", 2, 7, dup=True))
        self.assertEqual(self.here.payloads(), [b"again"])

    def test_qos_0_is_not_refused(self) -> None:
        self.limits.max_queued_messages = 1
        self.publish(self.five, 1, 1)
        self.publish(self.five, 0, 0, b"zero")
        self.assertEqual(self.here.payloads()[-1], b"zero")
        self.assertEqual(self.told()["refused/full"], "0")

    def test_a_group_with_a_member_here_takes_it(self) -> None:
        """Whether that is connected or not: somebody has room for it."""
        self.limits.max_queued_messages = 1
        self.publish(self.five, 1, 1)
        peers = self.side.hub.peers
        assert peers is not None
        peers.learn(self.peer, "s$share/g/other", 1 + 4)
        member = self.side.world.client("member", clean=False)
        member.subscribe("$share/g/other", 1)
        self.five.take()
        self.five.send(p.publish("other", b"1", 1, 2, version=5))
        member.lose()
        self.five.send(p.publish("other", b"2", 1, 3, version=5))
        member = self.side.world.client("member", clean=False)
        self.assertEqual(member.payloads(), [b"1", b"2"])
        self.assertEqual((self.peer.outgoing.queued, self.peer.counters.refused), (1, 0))

    def test_drop(self) -> None:
        """The publisher hears nothing of it, and all others get it."""
        self.limits.max_queued_messages = 1
        self.limits.refuse_when_full = False
        self.publish(self.five, 1, 1, b"1")
        self.publish(self.five, 1, 2, b"2")
        self.publish(self.five, 2, 3, b"3")
        self.assertEqual(self.here.payloads(), [b"1", b"2", b"3"])
        self.assertEqual((self.peer.outgoing.queued, self.peer.counters.dropped_full), (1, 2))
        self.assertEqual(self.told()["dropped/full"], "2")
        self.assertEqual(self.told()["refused/full"], "0")
        self.assertFalse(self.five.closed)


class Away(Refusals, Case):
    """There is no link."""

    REFUSED = [("PUBACK", QUOTA), ("PUBREC", QUOTA)]

    def setUp(self) -> None:
        super().setUp()
        self.peer.unlinked()

    def test_qos_0_is_dropped(self) -> None:
        self.publish(self.five, 0, 0)
        self.publish(self.five, 0, 0)
        self.assertEqual((self.peer.counters.dropped_qos0, self.told()["dropped/qos0"]), (2, "2"))
        self.assertEqual(self.told()["queued/bytes"], "0")

    def test_an_acknowledgement_does_not_wait_for_it(self) -> None:
        self.publish(self.five, 1, 1)
        self.assertEqual(self.reasons(self.five), [("PUBACK", 0)])

    def test_it_waits_for_the_store_instead(self) -> None:
        disk = Disk(self.side.world)
        self.publish(self.five, 1, 1)
        self.assertEqual(self.five.take(), [])
        disk.settle()
        self.assertEqual(self.reasons(self.five), [("PUBACK", 0)])

    def test_when_it_is_back_there_is_room_again(self) -> None:
        self.limits.max_queued_messages = 2
        for pid in (1, 2, 3):
            self.publish(self.five, 1, pid)
        self.five.take()
        self.peer.linked(self.side.outlet, "", 0, "epoch")
        self.side.hub.flush()
        self.confirm()
        self.assertEqual((self.peer.outgoing.queued, self.peer.outgoing.queued_bytes), (0, 0))
        self.publish(self.five, 1, 4)
        self.confirm()
        self.assertEqual(self.reasons(self.five), [("PUBACK", 0)])


class Silent(Refusals, Case):
    """There is a link, but nothing is confirmed."""

    REFUSED: list[tuple[str, int]] = []  # they wait behind those that were taken

    def test_an_acknowledgement_waits_for_it(self) -> None:
        self.limits.max_queued_messages = 1
        self.publish(self.five, 1, 1)
        self.publish(self.five, 1, 2)
        self.assertEqual(self.five.take(), [])
        self.confirm()
        self.assertEqual(self.reasons(self.five), [("PUBACK", 0), ("PUBACK", QUOTA)])

    def test_a_confirmation_makes_room(self) -> None:
        self.limits.max_queued_messages = 1
        for pid in (1, 2, 3):
            self.publish(self.five, 1, pid)
            self.confirm()
        self.assertEqual(self.reasons(self.five), [("PUBACK", 0)] * 3)
        self.assertEqual(self.told()["queued/messages"], "0")

    def test_qos_0_waits_within_its_bound(self) -> None:
        """What is on its way, then what waits, then nothing more."""
        size = 1000 + len(TOPIC)
        self.limits.window_bytes = 4000
        self.limits.max_queued_bytes_qos0 = 3 * size
        for number in range(20):
            self.publish(self.five, 0, 0, b"%03d" % number + bytes(997))
        sent = self.peer.counters.messages_sent
        self.assertLess(self.peer.outgoing.under_way_bytes, 4000 + 2 * size)
        self.assertEqual(self.peer.outgoing.queued_bytes_qos0, 3 * size)
        self.assertEqual(self.told()["queued/bytes"], str(3 * size))
        self.assertEqual(self.peer.counters.dropped_qos0, 20 - 3 - sent)
        self.assertEqual(self.told()["dropped/qos0"], str(20 - 3 - sent))
        self.assertEqual(len(self.here.take()), 20)
        self.confirm()
        self.assertEqual(
            (self.peer.counters.messages_sent, self.peer.outgoing.queued_bytes_qos0), (sent + 3, 0)
        )

    def test_the_window_bounds_what_is_on_its_way(self) -> None:
        self.limits.window_bytes = 4000
        for pid in range(1, 21):
            self.publish(self.five, 1, pid, bytes(1000))
        self.assertLess(self.peer.outgoing.under_way_bytes, 4000 + 1100)
        self.assertEqual(self.peer.outgoing.queued, 20)
        for _ in range(20):
            self.confirm()
        self.assertEqual((self.peer.outgoing.queued, self.peer.outgoing.under_way_bytes), (0, 0))
        self.assertEqual(len(self.five.take()), 20)

    def test_when_the_link_breaks_qos_0_is_dropped(self) -> None:
        self.limits.window_bytes = 1
        for _ in range(5):
            self.publish(self.five, 0, 0)
        waiting = 5 - self.peer.counters.messages_sent
        self.assertGreater(waiting, 0)
        self.peer.unlinked()
        self.assertEqual(self.peer.counters.dropped_qos0, waiting)
        self.assertEqual(self.told()["queued/bytes"], "0")
