"""What waits for a client: a bounded queue, of which a part may be in the store alone."""

from typing import Any
from unittest import TestCase

from mhub.core.delivery import Delivery
from mhub.core.outgoing import OutgoingQueue, QueueTotal
from mhub.core.records import DeliveryRecord
from mhub.wire.publish import Publish
from tests.core.subscriber import KEPT, SubscriberCase
from tests.core.test_journal import DiskCase
from tests.core.world import World
from tests.helpers import packets as p


class Bounds(SubscriberCase):
    """The queue at its bounds, for each policy; the client is away."""

    def fill(self, policy: str, **limits: Any) -> None:
        self.build(queue_full=policy, **limits)
        self.away()

    def dropped(self) -> int:
        return int(self.world.stats.dropped_queue_full)

    def test_drop_newest(self) -> None:
        self.fill("drop-newest", max_queued_messages=3)
        self.publish(*range(5))
        self.assertEqual((self.queued(), self.dropped()), ([0, 1, 2], 2))

    def test_drop_oldest(self) -> None:
        self.fill("drop-oldest", max_queued_messages=3)
        self.publish(*range(5))
        self.assertEqual((self.queued(), self.dropped()), ([2, 3, 4], 2))

    def test_disconnect_drops_the_newest_of_one_that_is_away(self) -> None:
        self.fill("disconnect", max_queued_messages=3)
        self.publish(*range(5))
        self.assertEqual((self.queued(), self.dropped()), ([0, 1, 2], 2))

    def test_bytes_drop_newest(self) -> None:
        self.fill("drop-newest", max_queued_bytes=350)
        self.publish(*range(5), size=100)
        self.assertEqual((self.queued(), self.dropped()), ([0, 1, 2], 2))
        self.assertLessEqual(self.world.hub.queues.size_bytes, 350)

    def test_bytes_drop_as_many_of_the_oldest_as_it_takes(self) -> None:
        self.fill("drop-oldest", max_queued_bytes=350)
        self.publish(0, 1, 2, size=100)
        self.publish(3, size=220)
        self.assertEqual((self.queued(), self.dropped()), ([2, 3], 2))

    def test_no_bound(self) -> None:
        self.fill("drop-newest", max_queued_messages=0, max_queued_bytes=0)
        self.publish(*range(200), size=100)
        self.assertEqual((self.queued(), self.dropped()), ([*range(200)], 0))

    def test_one_message_larger_than_the_bound_waits_alone(self) -> None:
        """A bound on bytes below the packet size must not swallow every large message."""
        self.fill("drop-newest", max_queued_bytes=50)
        self.publish(0, 1, size=100)
        self.assertEqual((self.queued(), self.dropped()), ([0], 1))

    def test_exactly_as_many_bytes_as_allowed(self) -> None:
        self.fill("drop-newest", max_queued_bytes=3 * (100 + len("t")))
        self.publish(*range(4), size=100)
        self.assertEqual((self.queued(), self.dropped()), ([0, 1, 2], 1))

    def test_no_bound_for_all_together(self) -> None:
        self.fill("drop-newest", max_queued_bytes_total=0)
        self.publish(*range(5))
        self.assertEqual((self.queued(), self.dropped()), ([*range(5)], 0))

    def test_the_bounds_are_those_of_the_listener_it_came_by_last(self) -> None:
        self.fill("drop-newest", max_queued_messages=5)
        self.subscriber = self.back(limits={"max_queued_messages": 2})
        self.away()
        self.publish(*range(5))
        self.assertEqual((self.queued(), self.dropped()), ([0, 1], 3))

    def test_counts_go_back_to_nothing(self) -> None:
        self.fill("drop-oldest", max_queued_messages=3)
        self.publish(*range(5), size=10)
        client = self.back()
        self.assertEqual((client.session.queue, self.world.hub.queues.size_bytes), (None, 0))


class Disconnecting(SubscriberCase):
    """A connected client that does not keep up, where the policy is to let it go."""

    def test_it_is_told_and_goes(self) -> None:
        self.build(queue_full="disconnect", max_queued_messages=3, max_inflight=1)
        self.publish(*range(5))
        packets = self.subscriber.take()
        self.assertEqual([packet.type for packet in packets], ["PUBLISH", "DISCONNECT"])
        self.assertEqual(packets[-1].reason, 0x97)
        self.assertTrue(self.subscriber.closed)
        self.assertEqual(self.world.stats.dropped_queue_full, 1)

    def test_what_was_queued_is_there_when_it_comes_back(self) -> None:
        self.build(queue_full="disconnect", max_queued_messages=3, max_inflight=1)
        self.publish(*range(5))
        client = self.back()
        for expected in range(4):
            packet = client.next("PUBLISH")
            self.assertEqual(packet.payload, b"%d" % expected)
            client.send(p.puback(packet.pid or 0))

    def test_qos_0_lets_nobody_go(self) -> None:
        """QoS 0 is dropped and counted: a publisher of it may be faster than any client."""
        self.build(queue_full="disconnect", max_queued_messages=3)
        self.subscriber.outlet.full = True
        self.publish(*range(10), qos=0)
        self.assertFalse(self.subscriber.closed)
        self.assertEqual((self.queued(), self.world.stats.dropped_queue_full), ([1, 2, 3], 6))

    def test_a_client_that_fills_its_own_queue(self) -> None:
        """It publishes to itself: after its DISCONNECT not one byte is written."""
        world = World(queue_full="disconnect", max_inflight=1, max_queued_messages=1)
        client = world.client("c", 5)
        client.subscribe("t", 1)
        for number in range(1, 9):
            client.send(p.publish("t", b"x", 1, number, version=5))
        self.assertEqual(client.take()[-1].type, "DISCONNECT")

    def test_many_with_wills_on_the_topic_that_fills_them(self) -> None:
        """The will of each fills the next one's queue: that must not become a recursion."""
        world = World(queue_full="disconnect", max_inflight=1, max_queued_messages=1)
        clients = []
        for number in range(300):
            will = ("t", b"gone", 1)
            client = world.client(f"c{number}", 5, clean=False, will=will, props=KEPT)
            client.subscribe("t", 1)
            clients.append(client)
        publisher = world.client("publisher")
        for _ in range(3):
            publisher.publish("t", b"x", 1)
        self.assertTrue(all(client.closed for client in clients))
        self.assertEqual(world.stats.wills_published, 300)


class QoS0(SubscriberCase):
    def test_dropped_while_away(self) -> None:
        self.build()
        self.away()
        self.publish(1, 2, qos=0)
        self.assertEqual((self.queued(), self.world.stats.dropped_offline), ([], 2))

    def test_kept_while_away_if_so_configured(self) -> None:
        self.build(queue_qos0_offline=True)
        self.away()
        self.publish(1, 2, qos=0)
        self.assertEqual(self.numbers(self.back()), [1, 2])
        self.assertEqual(self.world.stats.dropped_offline, 0)

    def test_a_qos_0_message_gives_way_where_the_oldest_go(self) -> None:
        """It must not push out what is to be delivered for certain."""
        self.build(queue_full="drop-oldest", max_queued_messages=2)
        self.subscriber.outlet.full = True
        self.publish(0)
        self.publish(1, 2)
        self.publish(3, qos=0)
        self.assertEqual((self.queued(), self.world.stats.dropped_queue_full), ([1, 2], 1))

    def test_order_is_kept_behind_those_that_wait(self) -> None:
        self.build()
        self.subscriber.outlet.full = True
        self.publish(*range(4), qos=0)
        self.subscriber.outlet.full = False
        self.subscriber.connection.writable(self.world.now)
        self.publish(4, qos=0)
        self.world.settle()
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4])


class Paging(DiskCase):
    """Of a long queue most is in the store alone."""

    def fill(self, count: int) -> None:
        self.subscriber("away", "t", 1).lose()
        self.disk.settle()
        sender = self.world.client("pub")
        for number in range(count):
            sender.publish("t", b"%d" % number, 1)
            self.disk.settle()

    def drain(self) -> list[bytes]:
        client = self.join("away")
        found = []
        while packets := client.take():
            for packet in packets:
                found.append(packet.payload)
                client.send(p.puback(packet.pid))
            self.disk.settle()
        return found

    def test_only_a_window_of_a_long_queue_is_in_memory(self) -> None:
        self.fill(100)
        session = self.world.hub.sessions["away"]
        assert session.queue is not None
        self.assertEqual((len(session.queue.deliveries), session.queue.paged_out), (4, 96))

    def test_a_long_queue_comes_in_order(self) -> None:
        self.fill(100)
        self.assertEqual(self.drain(), [b"%d" % number for number in range(100)])
        self.assertEqual(self.disk.store.deliveries, {})
        queues = self.world.hub.queues
        self.assertEqual((queues.size_bytes, queues.messages), (0, 0))

    def test_and_after_a_crash(self) -> None:
        self.fill(100)
        self.crash()
        self.assertEqual(self.world.hub.sessions["away"].queued(), 100)
        self.assertEqual(self.drain(), [b"%d" % number for number in range(100)])
        queues = self.world.hub.queues
        self.assertEqual((queues.size_bytes, queues.messages), (0, 0))

    def test_new_messages_come_behind_those_in_the_store(self) -> None:
        self.fill(20)
        client = self.join("away")
        found = []
        number = 20
        while packets := client.take():
            for packet in packets:
                found.append(packet.payload)
                if number < 40:
                    self.world.client("pub").publish("t", b"%d" % number, 1)
                    number += 1
                client.send(p.puback(packet.pid))
            self.disk.settle()
        self.assertEqual(found, [b"%d" % n for n in range(40)])

    def test_the_oldest_are_dropped_where_that_is_wanted(self) -> None:
        self.start(queue_full="drop-oldest", max_queued_messages=10)
        self.fill(50)
        self.assertEqual(self.drain(), [b"%d" % number for number in range(40, 50)])
        self.assertEqual(self.world.stats.dropped_queue_full, 40)

    def test_all_queues_together_have_a_bound(self) -> None:
        self.start(max_queued_bytes_total=20)
        self.fill(50)
        self.assertEqual(self.world.hub.sessions["away"].queued(), 10)
        self.assertEqual(self.world.stats.dropped_queue_full, 40)

    def test_a_shared_subscribers_queue_is_at_hand_after_a_crash_and_keeps_its_order(self) -> None:
        self.subscriber("away", "$share/g/t", 1).lose()
        self.disk.settle()
        for number in range(30):
            self.world.client("pub").publish("t", b"%d" % number, 1)
        self.disk.settle()
        self.crash()
        self.world.client("pub").publish("t", b"30", 1)  # before any of it came back
        self.disk.settle()
        self.assertEqual(self.world.hub.sessions["away"].queue.paged_out, 0)
        self.assertEqual(self.drain(), [b"%d" % number for number in range(31)])

    def test_what_the_store_has_lost_is_told_and_not_waited_for(self) -> None:
        self.fill(20)
        self.crash()
        self.disk.store.deliveries.clear()
        said: list[str] = []
        self.world.diary.crashed = lambda what, error: said.append(what)  # type: ignore[method-assign]
        self.assertEqual(self.drain(), [])
        self.assertEqual((len(said), self.world.hub.queues.size_bytes), (1, 0))


class Count(TestCase):
    """The bytes of a queue are counted once, for itself and for all together."""

    def setUp(self) -> None:
        self.total = QueueTotal(0)
        self.queue = OutgoingQueue(self.total)
        self.put(b"12345")
        self.queue.page_out(3, 300)

    def put(self, payload: bytes) -> None:
        delivery = Delivery(Publish(b"t", payload, 1, False), 1, False, b"")
        self.queue.append(delivery, delivery.size_bytes())

    def test_paged_out_or_not(self) -> None:
        self.assertEqual((len(self.queue), self.queue.size_bytes), (4, 306))
        self.assertEqual(self.total.size_bytes, 306)

    def test_what_comes_back_from_the_store_is_as_large_as_before(self) -> None:
        record = DeliveryRecord(1, 7)
        record.size_bytes = 100
        self.queue.page_in(record)
        self.put(bytes(99))
        self.assertEqual((self.queue.paged_out, self.queue.tail_seq), (2, 7))
        self.assertEqual((self.queue.size_bytes, self.total.size_bytes), (306, 306))

    def test_what_the_store_has_lost_takes_no_room(self) -> None:
        """Else the bound would be nearer with each queue that was lost."""
        self.queue.give_up_paged_out()
        self.assertEqual((len(self.queue), self.queue.size_bytes), (1, 6))
        self.assertEqual(self.total.size_bytes, 6)

    def test_nothing_is_left_of_it(self) -> None:
        self.queue.forget()
        self.queue.forget()
        self.assertEqual(self.total.size_bytes, 0)

    def test_it_is_over_when_nothing_is_on_its_way(self) -> None:
        """The answer to a question that is under way is for this queue, and for no later one."""
        self.queue.give_up_paged_out()
        self.queue.loading = True
        self.queue.take()
        self.assertFalse(self.queue.is_over())
        self.queue.loading = False
        self.assertTrue(self.queue.is_over())
