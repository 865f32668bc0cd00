"""Back-pressure and fairness: a slow or busy client is its own problem, and of bounded size."""

from unittest import TestCase

from mhub.core.connection import ENOUGH, TURN, UNREAD, UNREAD_BYTES
from tests.core.world import Client, World
from tests.helpers import packets as p


class Blocked(TestCase):
    """A client that does not read."""

    def setUp(self) -> None:
        self.world = World()
        self.publisher = self.world.client("publisher")
        self.slow = self.world.client("slow")
        self.slow.subscribe("t", 1)
        self.slow.outlet.full = True
        self.slow.send(p.pingreq())
        self.slow.next("PINGRESP")

    def test_messages_wait_in_its_queue(self) -> None:
        for qos in (0, 1):
            self.publisher.publish("t", b"%d" % qos, qos)
        self.assertEqual(self.slow.take(), [])
        self.assertEqual(len(self.slow.session.queue or ()), 2)
        self.slow.unblock()
        self.assertEqual(self.slow.payloads(), [b"0", b"1"])

    def test_others_do_not_notice(self) -> None:
        fast = self.world.client("fast")
        fast.subscribe("t", 1)
        for number in range(50):
            self.publisher.publish("t", b"%d" % number, 1)
        self.assertEqual(len(fast.payloads()), 50)
        self.assertEqual(len(self.publisher.take()), 50)
        self.assertTrue(self.publisher.outlet.reading)

    def test_replies_are_held_and_beyond_a_bound_it_is_not_read_from(self) -> None:
        pings = 1000
        while self.slow.outlet.reading:
            self.slow.send(p.pingreq() * pings)
            self.assertLess(self.slow.connection.unread_bytes, 2 * UNREAD_BYTES)
        held = sum(map(len, self.slow.connection.out))
        self.assertGreater(held, UNREAD_BYTES)
        self.assertLess(held, UNREAD_BYTES + 2 * pings * 2)
        self.slow.unblock()
        self.assertTrue(self.slow.outlet.reading)
        self.assertEqual(len(self.slow.outlet.data), held)

    def test_the_bound_is_the_same_each_time(self) -> None:
        for _ in range(3):
            self.slow.outlet.full = True
            self.slow.send(p.pingreq())
            self.slow.send(p.pingreq() * (UNREAD_BYTES // 4))
            self.assertTrue(self.slow.outlet.reading)
            self.slow.unblock()

    def test_it_goes_on_when_there_is_room_again(self) -> None:
        self.slow.send(p.pingreq() * 40_000)
        self.slow.unblock()
        self.assertEqual(len(self.slow.take()), 40_000)
        self.slow.send(p.pingreq())
        self.assertEqual(len(self.slow.take()), 1)

    def test_room_for_a_moment_only(self) -> None:
        """The outlet takes one write and is full again: order and bounds hold all the same."""
        for number in range(20):
            self.publisher.publish("t", b"%d" % number, 1)
        for _ in range(30):
            self.slow.connection.writable(self.world.now)  # stays full after each write
            self.world.hub.flush()
        self.world.settle()
        self.assertEqual(self.slow.payloads(), [b"%d" % number for number in range(20)])

    def test_it_is_told_when_it_has_to_go(self) -> None:
        """What is held, and the last words, are left to the outlet: it can buffer that much."""
        world = World()
        slow = world.client("slow", 5)
        slow.outlet.full = True
        slow.send(p.pingreq())
        slow.send(p.pingreq())
        world.client("slow", 5)
        types = [packet.type for packet in slow.take()]
        self.assertEqual(types, ["PINGRESP", "PINGRESP", "DISCONNECT"])

    def test_large_messages_are_not_gathered(self) -> None:
        """Within one turn only so many bytes are put together for one client."""
        world = World(max_queued_bytes=100 * ENOUGH)
        publisher, subscriber = world.client("publisher"), world.client("subscriber")
        subscriber.subscribe("t")
        big = p.publish("t", bytes(ENOUGH // 2))
        publisher.feed(*[big] * 20)
        gathered = sum(map(len, subscriber.connection.out))
        self.assertLessEqual(gathered, 2 * len(big))
        subscriber.outlet.full = True
        world.hub.flush()
        world.settle()
        self.assertLessEqual(len(subscriber.outlet.data), 2 * len(big))
        subscriber.unblock()
        world.settle()
        self.assertEqual(len(subscriber.take()), 20)

    def large(self) -> tuple[World, Client]:
        """A client whose socket is full after the first write, and three large messages for it."""
        world = World()
        publisher, subscriber = world.client("publisher"), world.client("subscriber", 5)
        subscriber.subscribe("t", 1)
        subscriber.outlet.full = True
        publisher.send(*(p.publish("t", bytes(100_000), 1, pid) for pid in (1, 2, 3)))
        return world, subscriber

    def test_a_full_socket_is_not_written_to(self) -> None:
        """Large payloads are written one by one: the first that does not fit is the last."""
        _, subscriber = self.large()
        self.assertLess(len(subscriber.outlet.data), 100_000)
        subscriber.unblock()
        self.assertEqual([len(each) for each in subscriber.payloads()], [100_000] * 3)

    def test_large_messages_are_not_written_to_a_full_socket_at_the_end_either(self) -> None:
        world, subscriber = self.large()
        before = len(subscriber.outlet.data)
        world.client("subscriber", 5)
        self.assertEqual((subscriber.closed, len(subscriber.outlet.data)), (True, before))

    def test_a_large_payload_is_not_torn_from_its_head(self) -> None:
        """Head and payload of a large QoS 1 message are written apart; no reply comes between."""
        world = World()
        publisher, subscriber = world.client("publisher"), world.client("subscriber")
        subscriber.subscribe("t", 1)
        subscriber.outlet.full = True
        publisher.publish("t", bytes(100_000), 1)
        subscriber.send(p.pingreq())
        publisher.publish("t", b"x")
        for _ in range(5):
            subscriber.connection.writable(world.now)
            world.hub.flush()
        types = [packet.type for packet in subscriber.take()]
        self.assertEqual(types, ["PUBLISH", "PINGRESP", "PUBLISH"])


class Budget(TestCase):
    """What one turn does is bounded; the rest is done in the next ones, in turn."""

    def busy(self, count: int, name: str, world: World) -> Client:
        client = world.client(name)
        topic = f"t/{name}"
        client.feed(b"".join(p.publish(topic, b"%d" % number) for number in range(count)))
        return client

    def test_a_busy_publisher_is_put_off(self) -> None:
        world = World(work_per_turn=10)
        subscriber = world.client("subscriber")
        subscriber.subscribe("t/#")
        busy = self.busy(100, "busy", world)
        self.assertEqual(len(subscriber.connection.out), 10)
        self.assertFalse(busy.outlet.reading)
        world.hub.flush()
        self.assertEqual(world.settle(), 9)
        expected = [b"%d" % number for number in range(100)]
        self.assertEqual(subscriber.payloads(), expected)
        self.assertTrue(busy.outlet.reading)

    def test_two_busy_publishers_take_turns(self) -> None:
        world = World(work_per_turn=10)
        subscriber = world.client("subscriber")
        subscriber.subscribe("t/#")
        for name in "ab":
            self.busy(100, name, world)
            world.hub.flush()
        shares = []
        while world.hub.unfinished:
            world.turn()
            topics = [packet.topic for packet in subscriber.take()]
            shares.append(topics.count("t/a") - topics.count("t/b"))
        self.assertLessEqual(max(abs(sum(shares[:at])) for at in range(len(shares))), 30)

    def test_others_come_through_at_once(self) -> None:
        world = World(work_per_turn=10)
        subscriber = world.client("subscriber")
        subscriber.subscribe("t/#")
        self.busy(1000, "busy", world)
        world.hub.flush()
        calm = world.client("calm")
        calm.publish("t/calm", b"", 1)
        self.assertEqual([packet.type for packet in calm.take()], ["PUBACK"])
        self.assertIn("t/calm", [packet.topic for packet in subscriber.take()])

    def test_a_fan_out_counts_for_each_receiver(self) -> None:
        world = World(work_per_turn=100)
        subscribers = [world.client(f"s{number}") for number in range(50)]
        for subscriber in subscribers:
            subscriber.subscribe("t/#")
        self.busy(10, "busy", world)
        self.assertEqual(len(subscribers[0].connection.out), 2)
        world.hub.flush()
        world.settle()
        self.assertEqual([len(each.payloads()) for each in subscribers], [10] * 50)

    def test_messages_that_are_queued_are_work_too(self) -> None:
        world = World(work_per_turn=10)
        away = world.client("away", clean=False)
        away.subscribe("t/#", 1)
        away.lose()
        client = world.client("busy")
        client.feed(b"".join(p.publish("t/x", b"x", 1, pid) for pid in range(1, 101)))
        self.assertLessEqual(len(away.session.queue or ()), 11)

    def test_messages_that_are_dropped_are_work_too(self) -> None:
        world = World(work_per_turn=10, max_queued_messages=1)
        for number in range(5):
            full = world.client(f"full{number}")
            full.subscribe("t/#")
            full.outlet.full = True
            full.send(p.pingreq())
        self.busy(100, "busy", world)
        self.assertLessEqual(world.stats.dropped_queue_full, 15)

    def test_messages_for_nobody_present_are_work_too(self) -> None:
        world = World(work_per_turn=10)
        for number in range(5):
            away = world.client(f"away{number}", clean=False)
            away.subscribe("t/#")
            away.lose()
        self.busy(100, "busy", world)
        self.assertLessEqual(world.stats.dropped_offline, 15)

    def test_put_off_bytes_are_not_handled_after_the_end(self) -> None:
        world = World(work_per_turn=10)
        world.client("subscriber").subscribe("t/#")
        busy = self.busy(100, "busy", world)
        received = world.stats.publish_received
        busy.lose()
        world.settle()
        self.assertEqual(world.stats.publish_received, received)
        self.assertIsNone(busy.connection.partial)

    def test_room_to_write_is_no_reason_to_read_on(self) -> None:
        """Bytes that are put off are worked off first: they must not gather turn by turn."""
        world = World(work_per_turn=10)
        world.client("subscriber").subscribe("t/#")
        busy = self.busy(1000, "busy", world)
        for _ in range(5):
            busy.connection.blocked = True
            busy.connection.writable(world.now)
            self.assertFalse(busy.outlet.reading)
            world.hub.flush()
            world.turn()
        world.settle()
        self.assertTrue(busy.outlet.reading)

    def test_paused_for_both_reasons(self) -> None:
        """Put off and blocked at once: it is read from again only when neither holds."""
        world = World(work_per_turn=10)
        world.client("subscriber").subscribe("t/#")
        busy = world.client("busy")
        busy.outlet.full = True
        busy.send(p.pingreq())
        busy.feed(
            p.pingreq() * UNREAD_BYTES,
            b"".join(p.publish("t/x", b"x", 1, pid) for pid in range(1, 51)),
        )
        world.hub.flush()
        world.settle()
        self.assertFalse(busy.outlet.reading)
        busy.unblock()
        world.settle()
        self.assertTrue(busy.outlet.reading)
        types = [packet.type for packet in busy.take()]
        self.assertEqual(types.count("PUBACK"), 50)
        self.assertEqual(types.count("PINGRESP"), 1 + UNREAD_BYTES)


class Reasons(TestCase):
    """Why nothing is read from a client: each reason comes and goes by itself."""

    def setUp(self) -> None:
        self.world = World(work_per_turn=10)
        self.world.client("subscriber").subscribe("t/#")
        self.client = self.world.client("busy")
        self.connection = self.client.connection

    def publishes(self, count: int) -> bytes:
        return b"".join(p.publish("t/x", b"x", 1, pid) for pid in range(1, count + 1))

    def test_none(self) -> None:
        self.client.send(self.publishes(3))
        self.assertEqual(self.connection.paused, 0)

    def test_the_turn(self) -> None:
        self.client.feed(self.publishes(50))
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (TURN, False))
        self.world.hub.flush()
        self.world.settle()
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (0, True))

    def test_replies_that_are_not_read(self) -> None:
        self.client.outlet.full = True
        self.client.send(p.pingreq())
        self.client.send(p.pingreq() * UNREAD_BYTES)
        self.assertEqual(self.connection.paused, UNREAD)
        self.client.unblock()
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (0, True))

    def test_two_at_once(self) -> None:
        self.client.outlet.full = True
        self.client.send(p.pingreq())
        self.client.feed(p.pingreq() * UNREAD_BYTES, self.publishes(50))
        self.assertEqual(self.connection.paused, UNREAD | TURN)
        self.client.outlet.full = False
        self.connection.writable(self.world.now)
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (TURN, False))
        self.world.hub.flush()
        self.world.settle()
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (0, True))

    def test_a_full_socket_is_waited_for(self) -> None:
        """When it was to be read from again, but its socket has no room."""
        self.client.feed(self.publishes(50))
        self.client.outlet.full = True
        self.world.hub.flush()
        self.world.settle()
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (UNREAD, False))
        self.client.unblock()
        self.assertEqual((self.connection.paused, self.client.outlet.reading), (0, True))


class Writes(TestCase):
    def test_one_write_a_turn(self) -> None:
        """Everything that a turn brings to a client leaves in one write."""
        world = World()
        subscriber = world.client("subscriber")
        subscriber.subscribe("t", 1)
        publisher = world.client("publisher")
        before = len(subscriber.outlet.writes)
        publisher.send(*(p.publish("t", b"x", 1, pid) for pid in range(1, 31)))
        self.assertEqual(len(subscriber.outlet.writes) - before, 1)
        self.assertEqual(len(publisher.outlet.writes), 2)
        self.assertEqual(len(subscriber.payloads()), 30)

    def test_a_fan_out_shares_one_frame(self) -> None:
        world = World()
        subscribers = [
            world.client(f"s{number}", version=version)
            for number, version in enumerate((3, 4, 4, 5, 5))
        ]
        for subscriber in subscribers:
            subscriber.subscribe("t")
        publisher = world.client("publisher")
        publisher.feed(p.publish("t", b"payload"))
        frames = [subscriber.connection.out[-1] for subscriber in subscribers]
        self.assertEqual(len({id(frame) for frame in frames[:3]}), 1)
        self.assertEqual(len({id(frame) for frame in frames[3:]}), 1)
        world.hub.flush()
        for subscriber in subscribers:
            self.assertEqual(subscriber.payloads(), [b"payload"])

    def test_a_client_that_vanishes_in_the_flush(self) -> None:
        """Its outlet finds the connection gone: its will still reaches the others in that flush."""
        world = World()
        watcher = world.client("watcher")
        watcher.subscribe("will")
        gone = world.client("gone", will=("will", b"bye"))
        gone.subscribe("t")

        def vanish() -> None:
            gone.outlet.closed = True
            gone.connection.lost("reset by peer")

        gone.outlet.on_write = vanish
        world.client("publisher").publish("t")
        self.assertEqual(watcher.payloads(), [b"bye"])
        self.assertNotIn("gone", world.hub.sessions)
