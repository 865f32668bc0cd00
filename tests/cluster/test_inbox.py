"""Messages of other nodes come as fast as the store of this one takes them, and not faster.

Else each batch is larger than the one before, as it gathers for as long as that takes, and clients
get nothing meanwhile.
"""

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.core.channel_records import record_of
from mhub.core.journal import FULL
from mhub.wire.primitives import read_u64, u64
from mhub.wire.publish import Publish, topic_field
from tests.cluster.far import Far, Here
from tests.core.disk import Disk
from tests.helpers import packets as p

FRAME = 500
"""Messages in a frame of these tests."""

MANY = 40
"""Frames, with five times as many messages as a batch should have."""


class Case(SynchronousTestCase):
    """Node a with a store, a session of ann's there, and node b, which has messages for it."""

    def setUp(self) -> None:
        self.here = Here()
        self.disk = Disk(self.here.world)
        self.sent = 0
        self.ann = self.here.world.open(4, max_inflight=FRAME)
        self.ann.send(p.connect("ann", clean=False), p.subscribe(1, ("t", 2)))
        self.disk.settle()
        self.ann.take()
        self.far = self.here.link()
        self.disk.settle()
        self.far.took(frames.CONFIRM)

    def fill(self) -> None:
        """Until frames wait."""
        for _ in range(MANY):
            if self.here.peers.deferred:
                return
            self.frame()
        self.fail("nothing waits")

    def frame(self, far: Far | None = None, qos: int = 1) -> None:
        """The next messages, in a frame."""
        first = self.sent + 1 if qos else 0
        records = b""
        for _ in range(FRAME):
            self.sent += 1
            message = Publish(b"t", b"%d" % self.sent, qos, False)
            message.topic_field = topic_field(b"t")
            records += record_of(message, True, None, 0.0)
        (far or self.far).give(frames.PUBLISHES, u64(first) + records)

    def confirmed(self) -> list[tuple[int, int]]:
        """Frames and messages that the other side knows to be here."""
        bodies = self.far.took(frames.CONFIRM)
        return [(read_u64(body, 0)[0], read_u64(body, 8)[0]) for body in bodies]

    def answer(self) -> list[int]:
        """What ann got, which she acknowledges."""
        found = self.ann.take()
        for packet in found:
            self.ann.send(p.puback(packet.pid))
        return [int(packet.payload) for packet in found]


class Store(Case):
    def test_no_batch_grows_with_the_time_that_the_one_before_takes(self) -> None:
        self.here.world.hub.detach(self.ann.connection)
        sizes = []
        for _ in range(MANY):
            self.frame()
        for _ in range(MANY):
            if self.disk.batch is not None:
                sizes.append(len(self.disk.batch.deliveries))
            self.disk.step()
        self.assertEqual(sum(sizes), MANY * FRAME)
        self.assertLessEqual(max(sizes), FULL + FRAME)

    def test_a_client_gets_what_is_safe_while_the_rest_is_not(self) -> None:
        """However many there are, the store has only so many to take before the next delivery."""
        for _ in range(MANY):
            self.frame()
        came = []
        longest = since = 0
        for _ in range(10 * MANY):
            found = self.answer()
            came += found
            if found:
                since = 0
            elif self.disk.batch is not None and not self.disk.asked:
                since += len(self.disk.batch.deliveries)
            longest = max(longest, since)
            self.disk.step()
        self.assertEqual(came, list(range(1, MANY * FRAME + 1)))
        self.assertLessEqual(longest, FULL + FRAME)

    def test_nothing_waits_for_a_store_that_keeps_up(self) -> None:
        for _ in range(MANY):
            self.frame()
            self.disk.settle()
        self.assertFalse(self.here.peers.deferred)
        self.assertEqual(self.confirmed()[-1], (MANY, MANY * FRAME))

    def test_nor_for_one_that_fails(self) -> None:
        """What others send is bounded by them, and QoS 0 does not need a store."""
        self.here.world.hub.storage.state = "failing: no space left"
        for _ in range(MANY):
            self.frame()
        self.assertEqual(self.here.node.members["b"].peer.incoming.last_received, MANY * FRAME)

    def test_if_it_begins_to_fail_what_waits_goes_on(self) -> None:
        for _ in range(MANY):
            self.frame()
        self.here.world.hub.storage.state = "failing: no space left"
        self.here.node.tick(self.here.world.now)
        self.assertEqual(self.here.node.members["b"].peer.incoming.last_received, MANY * FRAME)


class Order(Case):
    def setUp(self) -> None:
        super().setUp()
        self.fill()
        self.confirmed()
        self.waits = self.sent

    def test_what_comes_behind_a_frame_that_waits_waits_too(self) -> None:
        self.far.say(frames.TABLE, at=-2, to=1, number=1, set=[["ft/#", 3]])
        self.assertFalse(self.here.node.members["b"].has_table)
        self.disk.settle()
        self.assertTrue(self.here.node.members["b"].has_table)

    def test_signs_of_life_do_not(self) -> None:
        self.far.say(frames.PING, at=7, registry="")
        self.assertEqual(self.far.told(frames.PONG), [{"at": 7, "registry": ""}])

    def test_what_waits_does_not_count_as_received(self) -> None:
        """So the other side does not send more than its window."""
        self.frame()
        self.assertEqual(self.confirmed(), [])
        count = self.here.node.members["b"].peer.incoming.frames_received
        self.assertEqual(count, (self.waits - FRAME) // FRAME)
        self.disk.settle()
        self.assertEqual(self.confirmed()[-1], (count + 2, self.sent))

    def test_qos_0_alone_starts_no_wait(self) -> None:
        self.disk.settle()
        for _ in range(MANY):
            if not self.here.world.hub.require_journal().is_full():
                self.frame()
        self.assertTrue(self.here.world.hub.require_journal().is_full())
        self.assertFalse(self.here.peers.deferred)
        self.frame(qos=0)
        self.assertFalse(self.here.peers.deferred)

    def test_each_node_has_its_turn(self) -> None:
        other = Far(self.here, "c")
        self.here.meet(other)
        for _ in range(20):
            self.frame()
        sent, self.sent = self.sent, 0
        for _ in range(20):
            self.frame(other)
        members = self.here.node.members
        for _ in range(4):
            self.disk.step()
        behind = [
            sent - members["b"].peer.incoming.last_received,
            20 * FRAME - members["c"].peer.incoming.last_received,
        ]
        self.assertLess(max(behind), 20 * FRAME)
        self.disk.settle()
        self.assertEqual(members["b"].peer.incoming.last_received, sent)
        self.assertEqual(members["c"].peer.incoming.last_received, 20 * FRAME)


class Links(Case):
    def setUp(self) -> None:
        super().setUp()
        self.fill()

    def test_what_came_before_the_end_of_a_link_is_taken(self) -> None:
        self.here.node.lost(self.far, "gone")
        self.assertEqual(self.here.node.members["b"].peer.incoming.last_received, self.sent)
        self.assertEqual(self.here.state(), "down")

    def test_a_frame_that_cannot_be_understood_ends_the_link(self) -> None:
        self.far.give(frames.TABLE, b"no JSON")
        self.frame()
        self.disk.settle()
        self.assertIn("cannot be understood", self.far.closed)
        self.assertEqual(self.here.node.members["b"].peer.incoming.last_received, self.sent - FRAME)

    def test_a_link_in_the_place_of_another_brings_again_what_waited(self) -> None:
        heard = self.here.node.members["b"].peer.incoming.last_received
        self.here.link(instance="b2")
        self.disk.settle()
        peer = self.here.node.members["b"].peer
        self.assertEqual(
            (heard, peer.incoming.last_received), (self.sent - FRAME, 0)
        )  # as of its new channel

    def test_a_farewell_comes_behind_what_it_follows(self) -> None:
        self.far.give(frames.LEAVE, pack())
        self.here.node.lost(self.far, "gone")
        self.assertNotIn("b", self.here.node.members)
        self.disk.settle()
        came = []
        for _ in range(MANY):
            came += self.answer()
            self.disk.settle()
        self.assertEqual(came, list(range(1, self.sent + 1)))
