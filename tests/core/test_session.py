"""What waits for a client: bounded queue, window, order, packet ids, and again after a break."""

from typing import Any
from unittest import TestCase

from mhub.core.connection import ENOUGH
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class Case(TestCase):
    def build(self, **options: Any) -> None:
        """A publisher, and a subscriber to t at QoS 2 whose session outlives its connection."""
        self.world = World(**options)
        self.publisher = self.world.client("publisher", limits={"queue_full": "drop-newest"})
        self.subscriber = self.back()
        self.subscriber.subscribe("t", 2)

    def back(self, **connect: Any) -> Client:
        props = [*KEPT, *connect.pop("props", [])]
        return self.world.client("s", 5, clean=False, props=props, **connect)

    def publish(self, *payloads: int, qos: int = 1, size: int = 0) -> None:
        for number in payloads:
            self.publisher.publish("t", (b"%d" % number).ljust(size), qos)

    def numbers(self, client: Client | None = None) -> list[int]:
        return [int(payload) for payload in (client or self.subscriber).payloads()]

    def away(self) -> None:
        self.subscriber.take()
        self.subscriber.lose()

    def queued(self) -> list[int]:
        return [int(delivery.message.payload) for delivery in self.subscriber.session.queue or ()]


class Bounds(Case):
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
        self.assertLessEqual(self.subscriber.session.queued_bytes, 350)

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
        session = client.session
        self.assertEqual((session.queue, session.queued_bytes, session.queued_qos0), (None, 0, 0))


class Disconnecting(Case):
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


class QoS0(Case):
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


class Window(Case):
    def test_not_more_than_the_receive_maximum(self) -> None:
        """[MQTT-3.3.4-9]; the next leaves with each acknowledgement."""
        self.build()
        self.away()
        self.publish(*range(5))
        client = self.back(props=[(Prop.RECEIVE_MAXIMUM, 2)])
        first, second = client.take()
        self.assertEqual(len(client.session.inflight), 2)
        client.send(p.puback(second.pid or 0))
        self.assertEqual(self.numbers(client), [2])
        client.send(p.puback(first.pid or 0))
        self.assertEqual(self.numbers(client), [3])

    def test_not_more_than_configured(self) -> None:
        self.build(max_inflight=3)
        self.publish(*range(5))
        self.assertEqual(self.numbers(), [0, 1, 2])

    def test_a_qos_2_delivery_takes_its_place_until_pubcomp(self) -> None:
        self.build(max_inflight=1)
        self.publish(0, 1, qos=2)
        packet = self.subscriber.next("PUBLISH")
        pid = packet.pid or 0
        self.subscriber.send(p.pubrec(pid))
        self.assertEqual([packet.type for packet in self.subscriber.take()], ["PUBREL"])
        self.subscriber.send(p.pubcomp(pid))
        self.assertEqual(self.numbers(), [1])

    def test_a_refused_qos_2_delivery_is_over(self) -> None:
        """[MQTT-4.4.0-2]: PUBREC with an error"""
        self.build(max_inflight=1)
        self.publish(0, 1, qos=2)
        packet = self.subscriber.next("PUBLISH")
        self.subscriber.send(p.pubrec(packet.pid or 0, 0x80))
        self.assertEqual(self.numbers(), [1])

    def test_qos_0_passes_a_full_window(self) -> None:
        self.build(max_inflight=1)
        self.publish(0, 1)
        self.publish(2, qos=0)
        self.assertEqual(self.numbers(), [0, 2])

    def test_acknowledgements_of_nothing_change_nothing(self) -> None:
        self.build(max_inflight=1)
        self.publish(0, 1)
        pid = self.subscriber.next("PUBLISH").pid or 0
        self.subscriber.send(p.puback(pid + 1), p.pubcomp(pid), p.pubcomp(pid + 1))
        self.assertEqual(self.subscriber.take(), [])
        self.subscriber.send(p.pubrec(pid))  # of a QoS 1 delivery
        self.assertEqual([(x.type, x.reason) for x in self.subscriber.take()], [("PUBREL", 0x92)])
        self.assertEqual(len(self.subscriber.session.inflight), 1)

    def test_a_puback_does_not_end_a_delivery_of_qos_2(self) -> None:
        self.build(max_inflight=1)
        self.publish(0, 1, qos=2)
        pid = self.subscriber.next("PUBLISH").pid or 0
        self.subscriber.send(p.puback(pid))
        self.assertEqual(self.subscriber.take(), [])
        self.subscriber.send(p.pubrec(pid))
        self.assertEqual([(x.type, x.reason) for x in self.subscriber.take()], [("PUBREL", 0)])


class PacketIds(Case):
    def test_they_wrap_around_past_those_in_use(self) -> None:
        """[MQTT-2.2.1-3]: never 0, never one that is not yet acknowledged."""
        self.build(max_inflight=10)
        session = self.subscriber.session
        self.publish(0, 1)
        session.last_pid = 65534
        self.publish(2, 3, 4)
        pids = [packet.pid for packet in self.subscriber.take()]
        self.assertEqual(pids, [1, 2, 65535, 3, 4])

    def test_the_last_one_is_used_though_the_one_before_is_taken(self) -> None:
        self.build(max_inflight=10)
        session = self.subscriber.session
        for number in range(2):
            session.last_pid = 65533
            self.publish(number)
        self.assertEqual([packet.pid for packet in self.subscriber.take()], [65534, 65535])

    def test_all_of_them_in_use(self) -> None:
        """A window as wide as there are ids: the last one is found, and then the queue fills."""
        self.build(max_inflight=65535)
        session = self.subscriber.session
        self.publish(0)
        (delivery,) = session.inflight.values()
        for pid in range(1, 65536):
            if pid != 40_000:
                session.inflight[pid] = delivery
        session.outstanding = 65534
        self.subscriber.take()
        self.publish(1)
        self.assertEqual([packet.pid for packet in self.subscriber.take()], [40_000])
        self.publish(2)
        self.assertEqual(self.queued(), [2])
        self.subscriber.send(p.puback(7))
        self.assertEqual([packet.pid for packet in self.subscriber.take()], [7])


class Again(Case):
    """After a break: what was not acknowledged is sent again, as it was, in its order."""

    def flags(self, packets: list[Packet]) -> list[tuple[str, int | None, bool]]:
        return [(packet.type, packet.pid, packet.dup) for packet in packets]

    def test_in_the_first_order_with_dup_and_the_old_ids(self) -> None:
        """[MQTT-4.4.0-1], [MQTT-4.6.0-1]"""
        self.build()
        self.publish(0, 1, 2)
        pids = [packet.pid for packet in self.subscriber.take()]
        self.subscriber.send(p.puback(pids[1] or 0))
        self.subscriber.lose()
        self.publish(3)
        packets = self.back().take()
        self.assertEqual([int(packet.payload) for packet in packets], [0, 2, 3])
        expected = [("PUBLISH", pids[0], True), ("PUBLISH", pids[2], True)]
        self.assertEqual(self.flags(packets)[:2], expected)
        self.assertEqual(self.flags(packets)[2][2], False)

    def test_never_without_a_break(self) -> None:
        """[MQTT-4.4.0-1]: at no other time"""
        self.build()
        self.publish(0)
        self.subscriber.take()
        self.world.wait(3600, steps=10)
        self.assertEqual(self.subscriber.take(), [])

    def test_released_ones_continue_with_pubrel(self) -> None:
        self.build()
        self.publish(0, 1, qos=2)
        first, second = self.subscriber.take()
        self.subscriber.send(p.pubrec(first.pid or 0))
        self.away()
        packets = self.back().take()
        found = sorted(self.flags(packets))
        self.assertEqual(found, [("PUBLISH", second.pid, True), ("PUBREL", first.pid, False)])

    def test_pubrels_in_the_order_of_the_pubrecs(self) -> None:
        """[MQTT-4.6.0-4]"""
        self.build()
        self.publish(0, 1, 2, qos=2)
        pids = [packet.pid or 0 for packet in self.subscriber.take()]
        for pid in (pids[2], pids[0], pids[1]):
            self.subscriber.send(p.pubrec(pid))
        self.away()
        packets = self.back().take()
        self.assertEqual([each.type for each in packets], ["PUBREL"] * 3)
        self.assertEqual([each.pid for each in packets], [pids[2], pids[0], pids[1]])

    def test_within_a_smaller_window(self) -> None:
        self.build()
        self.publish(*range(5))
        self.away()
        client = self.back(props=[(Prop.RECEIVE_MAXIMUM, 2)])
        seen = []
        for _ in range(5):
            packet = client.next("PUBLISH")
            seen.append(int(packet.payload))
            client.send(p.puback(packet.pid or 0))
        self.assertEqual(seen, [0, 1, 2, 3, 4])

    def test_an_acknowledgement_of_what_was_not_sent_again_yet_makes_no_room(self) -> None:
        """[MQTT-3.3.4-9]: the window is that of the new connection."""
        self.build()
        self.publish(*range(4))
        pids = [packet.pid or 0 for packet in self.subscriber.take()]
        self.subscriber.lose()
        client = self.back(props=[(Prop.RECEIVE_MAXIMUM, 2)])
        self.assertEqual(self.numbers(client), [0, 1])
        client.send(p.puback(pids[2]))  # it had come before the break
        self.assertEqual(client.take(), [])
        client.send(p.puback(pids[0]))
        self.assertEqual(self.numbers(client), [3])

    def test_in_portions_and_before_anything_newer(self) -> None:
        self.build(portion=2)
        self.publish(*range(5))
        self.away()
        client = self.back()
        self.publish(5)
        self.assertGreater(self.world.settle(), 1)
        self.assertEqual(self.numbers(client), [0, 1, 2, 3, 4, 5])

    def test_one_that_is_too_large_now_is_let_go(self) -> None:
        """[MQTT-3.1.2-25]"""
        self.build()
        self.publish(0, size=200)
        self.publish(1)
        self.away()
        client = self.back(props=[(Prop.MAXIMUM_PACKET_SIZE, 100)])
        self.assertEqual(self.numbers(client), [1])
        self.assertEqual(self.world.stats.dropped_too_large, 1)
        self.assertEqual(len(client.session.inflight), 1)

    def test_a_clean_start_gets_none_of_it(self) -> None:
        self.build()
        self.publish(0)
        self.away()
        client = self.world.client("s", 5)
        self.assertEqual(client.take(), [])
        self.assertFalse(client.connack and client.connack.session_present)


class Pumping(Case):
    def test_a_portion_a_turn(self) -> None:
        self.build(portion=3)
        self.away()
        self.publish(*range(8))
        client = self.back()
        self.assertEqual(self.numbers(client), [0, 1, 2])
        self.world.turn()
        self.assertEqual(self.numbers(client), [3, 4, 5])
        self.world.turn()
        self.assertEqual(self.numbers(client), [6, 7])
        self.assertEqual(self.world.hub.unfinished, [])

    def test_nothing_into_a_blocked_outlet(self) -> None:
        self.build(portion=3)
        self.away()
        self.publish(*range(8))
        client = self.world.open(5)
        client.outlet.full = True
        client.send(p.connect("s", 5, False, props=KEPT))
        self.world.settle()
        self.assertEqual(len(client.take()), 1 + 3)
        client.unblock()
        self.world.settle()
        self.assertEqual(self.numbers(client), [3, 4, 5, 6, 7])

    def test_large_messages_in_small_portions(self) -> None:
        """A portion counts bytes as well: not all that waits is put into memory at once."""
        self.build(max_packet_size=1 << 20)
        self.away()
        size = ENOUGH // 4
        self.publish(*range(12), size=size)
        client = self.back()
        self.assertLessEqual(len(client.outlet.data), 5 * (size + 100))
        client.outlet.full = True
        self.world.settle()
        self.assertLessEqual(len(client.outlet.data), 10 * (size + 100))
        client.unblock()
        self.world.settle()
        self.assertEqual(self.numbers(client), [*range(12)])

    def test_expired_while_they_waited(self) -> None:
        """[MQTT-3.3.2-5]; and those that are left carry the time that is left."""
        self.build()
        self.away()
        publisher = self.world.client("five", 5)
        for number, expiry in enumerate((10, 60)):
            props = [(Prop.MESSAGE_EXPIRY, expiry)]
            publisher.publish("t", b"%d" % number, 1, props=props)
        self.world.wait(20)
        (packet,) = self.back().take()
        self.assertEqual((packet.payload, packet.prop(Prop.MESSAGE_EXPIRY)), (b"1", 40))
        self.assertEqual(self.world.stats.dropped_expired, 1)

    def test_at_the_moment_of_its_expiry_a_message_is_not_sent(self) -> None:
        """Nor with an expiry of 0, which is the moment at which it came."""
        self.build()
        self.away()
        publisher = self.world.client("five", 5)
        publisher.publish("t", b"1", 1, props=[(Prop.MESSAGE_EXPIRY, 10)])
        self.world.wait(10)
        publisher.publish("t", b"2", 1, props=[(Prop.MESSAGE_EXPIRY, 0)])
        self.assertEqual(self.back().take(), [])

    def test_the_work_of_a_turn_is_bounded_for_all_together(self) -> None:
        """Each client has its portion, but not all of them in the same turn."""
        world = World(work_per_turn=10, portion=10)
        for name in "abc":
            client = world.client(name, clean=False)
            client.subscribe("t", 1)
            client.lose()
        publisher = world.client("publisher")
        for number in range(20):
            publisher.publish("t", b"%d" % number, 1)
            world.settle()
        back = [world.client(name, clean=False) for name in "abc"]
        turns = []
        for _ in range(4):
            turns.append([len(client.take()) for client in back])
            world.turn()
        self.assertEqual(turns, [[10, 10, 10], [10, 0, 0], [0, 10, 0], [0, 0, 10]])


class Retained(Case):
    """The retained messages of a new subscription."""

    def build(self, **options: Any) -> None:
        super().build(**options)
        for number in range(7):
            self.publisher.publish(f"r/{number}", b"%d" % number, 1, retain=True)

    def test_in_portions_behind_the_suback(self) -> None:
        self.build(portion=3)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.subscriber.next("SUBACK")
        self.assertEqual(len(self.numbers()), 3)
        self.world.settle()
        self.assertEqual(len(self.numbers()), 4)

    def test_before_newer_messages(self) -> None:
        self.build(portion=1)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.publisher.publish("r/6", b"99")
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5, 6, 99])

    def test_any_number_of_times_they_take_no_room(self) -> None:
        """A client that subscribes again and again and does not read fills no memory."""
        self.build(max_control_size=1 << 20)
        self.subscriber.outlet.full = True
        self.subscriber.send(p.pingreq())
        session = self.subscriber.session
        before = len(self.subscriber.outlet.data)
        for _ in range(15):
            self.subscriber.feed(p.subscribe(5, *[("r/#", 0)] * 5000, version=5))
            self.world.hub.flush()
        waiting = sum(len(feed.messages or ()) for feed in session.feeds or ())
        self.assertLess(len(session.queue or ()) + waiting, 250_000)
        self.assertEqual(len(self.subscriber.outlet.data), before)
        self.assertFalse(self.subscriber.outlet.reading)

    def test_no_more_bytes_than_a_turn_may_have(self) -> None:
        size = ENOUGH // 4
        super().build(max_packet_size=2 * size)
        for number in range(12):
            self.publisher.publish(f"r/{number:02}", (b"%d" % number).ljust(size), 1, retain=True)
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.subscriber.next("SUBACK")
        self.assertLessEqual(len(self.subscriber.outlet.data), 5 * (size + 100))
        self.world.settle()
        self.assertEqual(self.numbers(), [*range(12)])

    def test_sending_them_is_work(self) -> None:
        """A turn that has sent as many as it may leaves the next SUBSCRIBE to the next turn."""
        self.build(work_per_turn=7, portion=7)
        clients = (self.subscriber, self.world.client("other"))
        for client in clients:
            client.feed(p.subscribe(5, ("r/#", 0), version=client.version))
        self.world.hub.flush()
        self.assertEqual([len(client.take()) for client in clients], [8, 0])
        self.world.settle()
        self.assertEqual([len(client.take()) for client in clients], [0, 8])

    def test_those_that_expire_while_they_wait_do_not_come(self) -> None:
        """At the moment of their expiry they are gone; they are counted."""
        self.build(portion=1)
        five = self.world.client("five", 5)
        five.publish("r/6", b"6", retain=True, props=[(Prop.MESSAGE_EXPIRY, 10)])
        self.subscriber.send(p.subscribe(5, ("r/#", 0), version=5))
        self.world.now += 10
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1, 2, 3, 4, 5])
        self.assertEqual(self.world.stats.dropped_expired, 1)

    def test_within_the_window(self) -> None:
        self.build(max_inflight=2)
        self.subscriber.send(p.subscribe(5, ("r/#", 1), version=5))
        self.world.settle()
        self.subscriber.next("SUBACK")
        self.assertEqual(self.numbers(), [0, 1])
        self.subscriber.send(p.puback(1), p.puback(2))
        self.world.settle()
        self.assertEqual(self.numbers(), [2, 3])
