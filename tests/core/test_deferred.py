"""Frames that wait for the store: in order, within a bound, and gone with their connection."""

from mhub.core.connection import DEFERRED_MOST
from tests.core.test_journal import DiskCase
from tests.core.world import Client
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Bound(DiskCase):
    """A client whose replies wait for the store is not read from without end."""

    def setUp(self) -> None:
        super().setUp()
        self.subscriber("away", "t", 1).lose()
        self.disk.settle()
        self.sender = self.world.client("pub", keepalive=10)
        self.pid = 0

    def publish(self, count: int) -> None:
        """So many messages in one read, each of which is to be stored."""
        pids = range(self.pid + 1, self.pid + count + 1)
        self.pid += count
        self.sender.send(b"".join(p.publish("t", b"x", 1, pid) for pid in pids))

    def pubacks(self) -> list[int | None]:
        found = self.sender.take()
        self.assertTrue(all(packet.type == "PUBACK" for packet in found), found)
        return [packet.pid for packet in found]

    def test_reading_pauses_when_so_many_replies_wait(self) -> None:
        self.publish(DEFERRED_MOST - 1)
        self.assertTrue(self.sender.outlet.reading)
        self.publish(1)
        self.assertFalse(self.sender.outlet.reading)

    def test_reading_goes_on_when_they_have_left(self) -> None:
        self.publish(DEFERRED_MOST)
        self.disk.settle()
        self.assertTrue(self.sender.outlet.reading)
        self.assertEqual(self.pubacks(), list(range(1, DEFERRED_MOST + 1)))

    def test_not_before_half_of_them_have(self) -> None:
        """Else it would be paused and resumed for each of them."""
        self.publish(DEFERRED_MOST // 4)  # this batch is under way, the next one has the others
        self.publish(DEFERRED_MOST - DEFERRED_MOST // 4)
        self.disk.step()
        self.world.settle()
        self.assertEqual(len(self.pubacks()), DEFERRED_MOST // 4)
        self.assertFalse(self.sender.outlet.reading)
        self.disk.step()
        self.world.settle()
        self.assertEqual(len(self.pubacks()), DEFERRED_MOST - DEFERRED_MOST // 4)
        self.assertTrue(self.sender.outlet.reading)

    def test_room_to_write_is_no_reason_to_read_on(self) -> None:
        self.sender.outlet.full = True
        self.sender.send(p.pingreq())
        self.publish(DEFERRED_MOST)
        self.sender.unblock()
        self.world.settle()
        self.assertFalse(self.sender.outlet.reading)
        self.disk.settle()
        self.assertTrue(self.sender.outlet.reading)

    def test_a_client_that_is_not_read_from_is_not_taken_for_dead(self) -> None:
        """Its PINGREQ may be there, and nobody looks."""
        self.publish(DEFERRED_MOST)
        self.world.wait(60, steps=60)
        self.assertFalse(self.sender.closed)
        self.disk.settle()
        self.world.wait(16)
        self.assertTrue(self.sender.closed)


class Batches(DiskCase):
    """Only one batch is under way to the store; what comes meanwhile is in the next one."""

    def test_a_reply_waits_for_its_own_batch(self) -> None:
        first, second = self.join("first"), self.join("second")
        first.send(p.subscribe(1, ("t", 1)))
        second.send(p.subscribe(2, ("t", 1)))
        self.disk.step()
        self.assertEqual((self.kinds(first), self.kinds(second)), (["SUBACK"], []))
        self.disk.step()
        self.assertEqual(self.kinds(second), ["SUBACK"])

    def test_each_of_two_replies_to_one_client_does(self) -> None:
        client = self.join("c")
        client.send(p.subscribe(1, ("t", 1)))
        client.send(p.unsubscribe(2, "t"))
        self.disk.step()
        self.assertEqual(self.kinds(client), ["SUBACK"])
        self.disk.step()
        self.assertEqual(self.kinds(client), ["UNSUBACK"])

    def test_a_reply_does_not_wait_for_the_next_tick(self) -> None:
        """That a message was acknowledged is not urgent until somebody waits for it."""
        client = self.subscriber("c", "t", 1)
        self.world.client("pub").publish("t", b"x", 1)
        self.disk.settle()
        client.send(p.puback(client.next("PUBLISH").pid or 0))
        self.assertFalse(self.disk.busy())
        client.send(p.pubrel(77))
        self.assertEqual(self.kinds(client), [])
        self.disk.step()
        self.assertEqual(self.kinds(client), ["PUBCOMP"])

    def test_nobody_is_asked_again_when_all_has_left(self) -> None:
        client = self.join("c")
        client.send(p.subscribe(1, ("t", 1)))
        self.disk.settle()
        self.assertEqual(list(self.world.hub.storage.holding), [])


class Messages(DiskCase):
    """Of QoS 2; the payload of a large one is written behind the head of its frame."""

    def setUp(self) -> None:
        super().setUp()
        self.client = self.subscriber("c", "t", 2)

    def publish(self, size: int) -> None:
        self.payload = b"x" * size
        self.world.client("pub").publish("t", self.payload, 2)
        self.assertEqual(self.client.take(), [])

    def test_a_large_one_waits_with_its_payload(self) -> None:
        self.publish(50_000)
        self.disk.settle()
        self.assertEqual(self.client.payloads(), [self.payload])

    def test_a_small_one_is_not_written_to_a_socket_that_is_full(self) -> None:
        self.check_full(10)

    def test_nor_is_a_large_one(self) -> None:
        self.check_full(50_000)

    def check_full(self, size: int) -> None:
        """The socket has become full while the message waited for the store."""
        self.publish(size)
        self.client.outlet.full = True
        self.client.send(p.pingreq())
        self.client.next("PINGRESP")
        self.disk.settle()
        self.assertEqual(self.client.take(), [])
        self.client.outlet.full = False
        self.client.unblock()
        self.assertEqual(self.client.payloads(), [self.payload])


class Order(DiskCase):
    """A frame that promises something does not overtake another one that does."""

    def test_a_reply_that_is_safe_already(self) -> None:
        """The PUBACK of a message that nobody has to keep, behind a SUBACK that waits."""
        client = self.join("c")
        client.send(p.subscribe(2, ("t", 1)), p.publish("other", b"y", 1, 3))
        self.assertEqual(client.take(), [])
        self.disk.settle()
        self.assertEqual(self.kinds(client), ["SUBACK", "PUBACK"])

    def test_a_message_that_is_sent_again(self) -> None:
        """Its packet id is safe for long; the reply before it is not."""
        client = self.two_in_flight()
        again = self.join("c", 5, props=[(Prop.SESSION_EXPIRY, 1000), (Prop.RECEIVE_MAXIMUM, 1)])
        first = again.next("PUBLISH")
        self.assertEqual((first.payload, client.closed), (b"1", True))
        # The SUBACK waits.  The PUBACK makes room for the second message, which need not.
        again.send(p.subscribe(9, ("u", 1), version=5), p.puback(first.pid or 0))
        self.assertEqual(again.take(), [])
        self.disk.settle()
        self.assertEqual(self.kinds(again), ["SUBACK", "PUBLISH"])

    def two_in_flight(self) -> Client:
        """A client that has acknowledged neither a message of QoS 1 nor one of QoS 2 behind it."""
        client = self.subscriber("c", "t", 2, 5)
        sender = self.world.client("pub")
        for qos in (1, 2):
            sender.publish("t", b"%d" % qos, qos)
        self.disk.settle()
        self.assertEqual(client.payloads(), [b"1", b"2"])
        client.lose()
        return client


class End(DiskCase):
    """A connection that ends while its output waits."""

    def test_what_is_not_safe_is_not_said_at_the_end_either(self) -> None:
        """A CONNACK would promise a session that a crash could still take away."""
        for version in (4, 5):
            client = self.world.open(version)
            kept = [(Prop.SESSION_EXPIRY, 1000)]
            client.send(p.connect("c", version, clean=False, props=kept))
            client.send(p.connect("c", version))  # a second CONNECT ends it
            self.assertEqual((client.closed, client.outlet.linger), (True, False))
            self.assertEqual(client.take(), [])
            self.disk.settle()
            self.assertEqual(client.take(), [])

    def test_a_connection_that_takes_its_place_waits_for_itself(self) -> None:
        first = self.world.open(4)
        first.send(p.connect("c", 4, clean=False))
        second = self.world.open(4)
        second.send(p.connect("c", 4, clean=False))
        self.assertEqual((first.take(), first.closed, second.take()), ([], True, []))
        self.disk.settle()
        self.assertEqual(self.kinds(second), ["CONNACK"])

    def test_replies_that_wait_are_not_written_after_the_end(self) -> None:
        self.subscriber("away", "t", 1).lose()
        self.disk.settle()
        sender = self.world.client("pub")
        sender.send(p.publish("t", b"x", 1, 1))
        sender.send(p.disconnect())
        self.disk.settle()
        self.assertEqual((sender.closed, sender.take()), (True, []))
