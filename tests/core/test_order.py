"""Messages to one client keep their order: what is new waits behind what waits already."""

from typing import Any

from mhub.core.connection import ENOUGH
from tests.core.subscriber import SubscriberCase
from tests.core.test_journal import DiskCase
from tests.core.world import Client
from tests.helpers import packets as p


class BehindTheQueue(SubscriberCase):
    """The socket has room again, and a part of the queue is still to be sent."""

    def begun(self, qos: int, **options: Any) -> None:
        """Of the messages 0 to 5 the first ones have been sent, in portions of two."""
        self.build(portion=2, **options)
        self.subscriber.outlet.full = True
        self.publish(*range(6), qos=qos)
        self.subscriber.unblock()
        self.assertLess(len(self.subscriber.session.queue or ()), 5)
        self.assertTrue(self.subscriber.session.queue)

    def test_qos_0_does_not_overtake_qos_0(self) -> None:
        self.begun(0)
        self.publish(6, qos=0)
        self.world.settle()
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5, 6])

    def test_qos_1_does_not_overtake_qos_1(self) -> None:
        """[MQTT-4.6.0-6]"""
        self.begun(1)
        self.publish(6)
        self.world.settle()
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5, 6])

    def test_qos_2_does_not_overtake_qos_2(self) -> None:
        self.begun(2)
        self.publish(6, qos=2)
        self.world.settle()
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5, 6])

    def test_when_it_is_empty_messages_leave_in_their_own_turn_again(self) -> None:
        for qos in (0, 1, 2):
            self.begun(qos)
            self.world.settle()
            self.subscriber.take()
            self.publish(7, qos=qos)
            self.assertEqual(self.numbers(), [7])

    def test_a_full_window_holds_back_no_qos_0(self) -> None:
        """As many as there are, though a turn sends but one of them."""
        self.build(portion=1, max_inflight=1)
        self.publish(0)
        self.subscriber.outlet.full = True
        self.publish(1, 2, 3, 4, qos=0)
        self.subscriber.unblock()
        self.world.settle()
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4])


class BehindThoseSentAgain(SubscriberCase):
    """After a break: what was in flight, then retained messages, then the queue."""

    def test_retained_messages_that_were_on_their_way(self) -> None:
        self.build(portion=1)
        for number in range(5):
            self.publisher.publish(f"r/{number}", b"%d" % number, 1, retain=True)
        self.subscriber.send(p.subscribe(5, ("r/#", 1), version=5))
        self.world.turn()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1])
        self.away()
        self.publisher.publish("r/4", b"99", 1)
        client = self.back()
        self.world.settle()
        packets = client.take()
        self.assertEqual([int(each.payload) for each in packets], [0, 1, 2, 3, 4, 99])
        self.assertEqual([each.dup for each in packets], [True, True, *[False] * 4])

    def test_all_of_them_share_one_portion(self) -> None:
        self.build(portion=3)
        self.publish(0, 1)
        self.away()
        self.publish(2, 3, 4, 5)
        client = self.back()
        self.assertEqual(self.numbers(client), [0, 1, 2])
        self.world.turn()
        self.assertEqual(self.numbers(client), [3, 4, 5])

    def test_no_more_bytes_of_them_than_a_turn_may_have(self) -> None:
        size = ENOUGH // 4
        self.build(max_packet_size=2 * size)
        self.publish(*range(12), size=size)
        self.world.settle()
        self.away()
        client = self.back()
        self.assertLessEqual(len(client.outlet.data), 5 * (size + 100))
        self.world.settle()
        self.assertEqual(self.numbers(client), [*range(12)])


class BehindRetainedOnes(SubscriberCase):
    """The retained messages of a new subscription come before anything newer of their topics."""

    def newer(self, qos: int, **options: Any) -> list[int]:
        """What comes if 99 is published while the retained 0 to 4 are on their way."""
        self.build(**options)
        for number in range(5):
            self.publisher.publish(f"r/{number}", b"%d" % number, 2, retain=True)
        self.subscriber.send(p.subscribe(5, ("r/#", qos), version=5))
        self.publisher.publish("r/4", b"99", qos)
        self.world.settle()
        self.subscriber.next("SUBACK")
        return self.numbers()

    def test_at_each_qos(self) -> None:
        for qos in (0, 1, 2):
            self.assertEqual(self.newer(qos, portion=1), [0, 1, 2, 3, 4, 99])

    def test_if_the_window_holds_them_back(self) -> None:
        """QoS 0 needs no place in the window, and is not sent before them for that."""
        self.build(max_inflight=1)
        for number in range(3):
            self.publisher.publish(f"r/{number}", b"%d" % number, 1, retain=True)
        self.subscriber.send(p.subscribe(5, ("r/#", 1), version=5))
        self.publisher.publish("r/2", b"99", 0)
        self.world.settle()
        self.subscriber.next("SUBACK")
        seen = []
        while packets := self.subscriber.take():
            for packet in packets:
                seen.append(int(packet.payload))
                if packet.pid:
                    self.subscriber.send(p.puback(packet.pid))
            self.world.settle()
        self.assertEqual(seen, [0, 1, 2, 99])

    def test_those_of_qos_0_need_no_place_in_the_window(self) -> None:
        self.build(max_inflight=1, portion=1)
        self.publish(0)
        for number in range(3):
            self.publisher.publish(f"r/{number}", b"%d" % number, 1, retain=True)
        self.assertEqual(self.numbers(), [0])
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1, 2])

    def test_they_share_one_portion_with_the_queue(self) -> None:
        self.build(portion=3)
        for number in range(2):
            self.publisher.publish(f"r/{number}", b"%d" % number, 0, retain=True)
        self.subscriber.outlet.full = True
        self.publish(*range(10, 16), qos=0)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.assertEqual(self.numbers(), [10])
        self.subscriber.unblock()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1, 11])

    def test_if_they_are_looked_up_later(self) -> None:
        """A subscription that came in a turn with too much work."""
        for qos in (0, 1):
            self.assertEqual(self.newer(qos, portion=1, work_per_turn=2), [0, 1, 2, 3, 4, 99])


class BehindTheStore(DiskCase):
    """Of a long queue all but the first part is in the store alone."""

    def back(self) -> tuple[Client, list[Any]]:
        """0 to 9 wait, 4 in memory; the client is back and has these, the others are being read."""
        self.subscriber("away", "t", 1).lose()
        self.publish(*range(10))
        self.disk.settle()
        client = self.world.open(4)
        client.send(p.connect("away", 4, clean=False))
        asked, self.disk.asked = self.disk.asked, []
        self.disk.settle()
        client.next("CONNACK")
        self.assertEqual(client.payloads(), [b"0", b"1", b"2", b"3"])
        return client, asked

    def publish(self, *numbers: int, qos: int = 1) -> None:
        sender = self.world.client("pub")
        for number in numbers:
            sender.publish("t", b"%d" % number, qos)

    def test_a_new_message_does_not_overtake_what_is_being_read(self) -> None:
        client, asked = self.back()
        self.publish(10)
        self.disk.settle()
        self.assertEqual(client.take(), [])
        self.disk.asked = asked
        self.disk.settle()
        self.assertEqual(client.payloads(), [b"%d" % number for number in range(4, 11)])
