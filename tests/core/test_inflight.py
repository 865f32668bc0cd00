"""What is in flight to a client: window, packet ids, and again after a break."""

from tests.core.subscriber import SubscriberCase
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop


class Window(SubscriberCase):
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
        self.subscriber.send(p.puback(pid + 1), p.pubcomp(pid + 1))
        self.assertEqual(self.subscriber.take(), [])
        self.subscriber.send(p.pubrec(pid + 1))
        self.assertEqual([(x.type, x.reason) for x in self.subscriber.take()], [("PUBREL", 0x92)])
        self.assertEqual(len(self.subscriber.session.inflight), 1)
        self.assertEqual(self.world.stats.protocol_errors, 0)

    def test_a_refusal_of_nothing_gets_no_pubrel(self) -> None:
        self.build()
        self.subscriber.send(p.pubrec(7, 0x80))
        self.assertEqual(self.subscriber.take(), [])
        self.assertEqual(self.world.stats.protocol_errors, 0)


class Bytes(SubscriberCase):
    """max_inflight_bytes: how much payload is on its way."""

    def test_the_next_waits_once_it_is_reached(self) -> None:
        self.build(max_inflight_bytes=100)
        self.publish(*range(5), size=50)
        first, second = self.subscriber.take()
        self.assertEqual(self.queued(), [2, 3, 4])
        self.subscriber.send(p.puback(first.pid or 0))
        self.assertEqual(self.numbers(), [2])
        self.subscriber.send(p.puback(second.pid or 0))
        self.assertEqual(self.numbers(), [3])

    def test_one_that_is_larger_goes_alone(self) -> None:
        self.build(max_inflight_bytes=100)
        self.publish(0, size=500)
        self.publish(1, qos=2)
        (large,) = self.subscriber.take()
        self.subscriber.send(p.puback(large.pid or 0))
        self.assertEqual(self.numbers(), [1])

    def test_qos_0_does_not_count(self) -> None:
        self.build(max_inflight_bytes=100)
        self.publish(0, 1, size=500, qos=0)
        self.publish(2, size=100)
        self.publish(3, size=500, qos=0)
        self.publish(4)
        self.assertEqual(self.numbers(), [0, 1, 2, 3])

    def test_a_qos_2_delivery_counts_until_pubcomp(self) -> None:
        self.build(max_inflight_bytes=100)
        self.publish(0, 1, size=100, qos=2)
        pid = self.subscriber.next("PUBLISH").pid or 0
        self.subscriber.send(p.pubrec(pid))
        self.assertEqual([packet.type for packet in self.subscriber.take()], ["PUBREL"])
        self.subscriber.send(p.pubcomp(pid))
        self.assertEqual(self.numbers(), [1])

    def test_after_a_break_it_counts_anew(self) -> None:
        self.build(max_inflight_bytes=100)
        self.publish(*range(4), size=50)
        self.away()
        client = self.back()
        seen = []
        for count in (2, 1, 1, 0):
            packets = client.take()
            self.assertEqual(len(packets), count)
            seen += packets
            client.send(p.puback(seen.pop(0).pid or 0))
        self.assertEqual(client.session.inflight.outstanding_bytes, 0)

    def test_it_is_that_of_the_listener_where_the_client_is(self) -> None:
        self.build(max_inflight_bytes=100)
        self.away()
        self.publish(*range(4), size=100)
        self.assertEqual(self.numbers(self.back(limits={"max_inflight_bytes": 0})), [0, 1, 2, 3])


class WrongKind(SubscriberCase):
    """Acknowledgements that do not belong to their delivery end the connection, and only that."""

    def pid(self, qos: int) -> int:
        self.publish(0, qos=qos)
        return self.subscriber.next("PUBLISH").pid or 0

    def assert_cut_off(self, data: bytes) -> None:
        self.subscriber.send(data)
        self.assertEqual(
            [(x.type, x.reason) for x in self.subscriber.take()], [("DISCONNECT", 0x82)]
        )
        self.assertEqual(self.world.stats.protocol_errors, 1)

    def assert_comes_again(self, pid: int) -> None:
        again = self.back().next("PUBLISH")
        self.assertEqual((again.pid, again.dup), (pid, True))

    def test_for_qos_1(self) -> None:
        for wrong in (p.pubrec, p.pubcomp):
            self.build()
            pid = self.pid(1)
            self.assert_cut_off(wrong(pid))
            self.assert_comes_again(pid)

    def test_for_qos_2(self) -> None:
        for wrong in (p.puback, p.pubcomp):
            self.build()
            pid = self.pid(2)
            self.assert_cut_off(wrong(pid))
            self.assert_comes_again(pid)

    def test_a_puback_after_pubrec(self) -> None:
        self.build()
        pid = self.pid(2)
        self.subscriber.send(p.pubrec(pid))
        self.subscriber.next("PUBREL")
        self.assert_cut_off(p.puback(pid))
        self.assertEqual(self.back().next("PUBREL").pid, pid)

    def test_a_second_pubrec_is_none(self) -> None:
        """The client has not seen the PUBREL: it gets another one."""
        self.build()
        pid = self.pid(2)
        self.subscriber.send(p.pubrec(pid), p.pubrec(pid))
        self.assertEqual([x.type for x in self.subscriber.take()], ["PUBREL"] * 2)
        self.subscriber.send(p.pubcomp(pid), p.pubcomp(pid), p.pubrec(pid))
        self.assertEqual([(x.type, x.reason) for x in self.subscriber.take()], [("PUBREL", 0x92)])
        self.assertEqual(self.world.stats.protocol_errors, 0)

    def test_late_ones_after_a_break_are_none(self) -> None:
        """What the client sent before the break may come once more, and meets nothing new."""
        self.build()
        self.publish(0)
        self.publish(1, qos=2)
        one, two = (packet.pid or 0 for packet in self.subscriber.take())
        self.subscriber.send(p.pubrec(two))
        self.away()
        client = self.back()
        client.take()
        client.send(p.puback(one), p.pubrec(two), p.pubcomp(two))
        self.publish(2, qos=2)
        self.publish(3)
        client.send(p.puback(one), p.pubcomp(two))
        self.assertEqual([x.type for x in client.take()], ["PUBREL", "PUBLISH", "PUBLISH"])
        self.assertEqual(self.world.stats.protocol_errors, 0)

    def test_that_of_a_message_which_became_too_large_is_none(self) -> None:
        self.build()
        self.publish(0, size=200)
        pid = self.subscriber.next("PUBLISH").pid or 0
        self.subscriber.lose()
        client = self.back(props=[(Prop.MAXIMUM_PACKET_SIZE, 100)])
        self.publish(1, qos=2)
        client.send(p.puback(pid))
        self.assertEqual(self.numbers(client), [1])
        self.assertEqual(self.world.stats.protocol_errors, 0)


class PacketIds(SubscriberCase):
    def test_they_wrap_around_past_those_in_use(self) -> None:
        """[MQTT-2.2.1-3]: never 0, never one that is not yet acknowledged."""
        self.build(max_inflight=10)
        session = self.subscriber.session
        self.publish(0, 1)
        session.inflight.last_pid = 65534
        self.publish(2, 3, 4)
        pids = [packet.pid for packet in self.subscriber.take()]
        self.assertEqual(pids, [1, 2, 65535, 3, 4])

    def test_the_last_one_is_used_though_the_one_before_is_taken(self) -> None:
        self.build(max_inflight=10)
        session = self.subscriber.session
        for number in range(2):
            session.inflight.last_pid = 65533
            self.publish(number)
        self.assertEqual([packet.pid for packet in self.subscriber.take()], [65534, 65535])

    def test_all_of_them_in_use(self) -> None:
        """A window as wide as there are ids: the last one is found, and then the queue fills."""
        self.build(max_inflight=65535)
        session = self.subscriber.session
        self.publish(0)
        (delivery,) = session.inflight.deliveries.values()
        for pid in range(1, 65536):
            if pid != 40_000:
                session.inflight.deliveries[pid] = delivery
        session.inflight.outstanding = 65534
        self.subscriber.take()
        self.publish(1)
        self.assertEqual([packet.pid for packet in self.subscriber.take()], [40_000])
        self.publish(2)
        self.assertEqual(self.queued(), [2])
        self.subscriber.send(p.puback(7))
        self.assertEqual([packet.pid for packet in self.subscriber.take()], [7])


class Again(SubscriberCase):
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

    def test_what_got_its_pubrec_meanwhile_is_not_sent_again(self) -> None:
        """[MQTT-4.3.3-6]: behind the PUBREL the client would take it for a new message."""
        self.build()
        self.publish(*range(3), qos=2)
        pids = [packet.pid or 0 for packet in self.subscriber.take()]
        self.subscriber.lose()
        client = self.back(props=[(Prop.RECEIVE_MAXIMUM, 1)])
        self.assertEqual(self.numbers(client), [0])
        client.send(p.pubrec(pids[1]))  # it had come before the break
        self.assertEqual(self.flags(client.take()), [("PUBREL", pids[1], False)])
        client.send(p.pubrec(pids[0]), p.pubcomp(pids[0]))
        expected = [("PUBREL", pids[0], False), ("PUBLISH", pids[2], True)]
        self.assertEqual(self.flags(client.take()), expected)

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
