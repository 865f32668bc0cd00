"""No message is lost with a member of a shared group: the others get what it leaves undone."""

from tests.core.test_shared import KEPT, Case
from tests.core.world import Client, World
from tests.helpers import packets as p


class Redistribution(Case):
    def test_what_was_not_acknowledged_goes_to_the_others(self) -> None:
        """[MQTT-4.8.2-5]"""
        leaving, staying = self.member("leaving"), self.member("staying")
        self.publish(6)
        self.assertEqual(leaving.payloads(), [b"0", b"2", b"4"])
        self.assertEqual(staying.payloads(), [b"1", b"3", b"5"])
        leaving.lose()
        self.assertEqual(staying.payloads(), [b"0", b"2", b"4"])
        self.assertEqual(self.member("leaving").take(), [])

    def test_at_the_qos_of_the_message_not_above(self) -> None:
        leaving, staying = self.member("leaving"), self.member("staying", qos=2)
        self.publish(2)
        leaving.take()
        staying.take()
        leaving.lose()
        self.assertEqual([packet.qos for packet in staying.take()], [1])

    def test_what_was_acknowledged_stays_done(self) -> None:
        leaving, staying = self.member("leaving"), self.member("staying")
        self.publish(2)
        (packet,) = leaving.take()
        assert packet.pid is not None
        leaving.send(p.puback(packet.pid))
        staying.take()
        leaving.lose()
        self.assertEqual(staying.take(), [])

    def test_what_waited_in_the_queue_goes_along(self) -> None:
        leaving, staying = self.member("leaving"), self.member("staying")
        leaving.outlet.full = True
        staying.outlet.full = True
        self.publish(2)  # one each fills the outlets
        self.publish(4, start=2)
        staying.unblock()
        leaving.lose()
        self.assertEqual(sorted(staying.payloads()), [b"0", b"1", b"2", b"3", b"4", b"5"])

    def test_with_nobody_else_it_waits_for_its_session(self) -> None:
        only = self.member("only")
        self.publish(2)
        only.take()
        only.lose()
        again = self.member("only")
        packets = again.take()
        self.assertEqual([packet.payload for packet in packets], [b"0", b"1"])
        self.assertTrue(all(packet.dup for packet in packets))

    def test_a_qos_2_delivery_that_has_begun_stays(self) -> None:
        """[MQTT-4.8.2-4]"""
        leaving, staying = self.member("leaving", 2), self.member("staying", 2)
        self.publish(2, qos=2)
        (packet,) = leaving.take()
        assert packet.pid is not None
        staying.take()
        leaving.send(p.pubrec(packet.pid))
        leaving.lose()
        self.assertEqual(staying.take(), [])
        again = self.member("leaving")
        self.assertEqual([packet.type for packet in again.take()], ["PUBREL"])

    def test_a_session_that_ends_redistributes_even_to_those_away(self) -> None:
        away = self.member("away")
        away.lose()
        ending = self.world.client("ending", 5)
        ending.subscribe("$share/g/t", 1)
        self.publish(3)
        self.assertEqual(len(ending.payloads()), 3)
        ending.lose()
        self.assertEqual(self.member("away").payloads(), [b"0", b"1", b"2"])

    def test_unsubscribing_redistributes_what_was_not_sent(self) -> None:
        leaving, staying = self.member("leaving"), self.member("staying")
        leaving.outlet.full = True
        staying.outlet.full = True
        self.publish(6)
        leaving.send(p.unsubscribe(9, "$share/g/t", version=5))
        staying.unblock()
        self.assertIn(b"2", staying.payloads())
        leaving.unblock()
        self.assertEqual([packet.type for packet in leaving.take()], ["PUBLISH", "UNSUBACK"])

    def test_unsubscribing_redistributes_even_to_those_away(self) -> None:
        """The client that unsubscribed will not ask for it again."""
        self.member("away").lose()
        leaving = self.member("leaving")
        leaving.outlet.full = True
        leaving.send(p.pingreq())
        self.publish(2)
        leaving.send(p.unsubscribe(9, "$share/g/t", version=5))
        leaving.unblock()
        self.assertEqual([packet.type for packet in leaving.take()], ["PINGRESP", "UNSUBACK"])
        self.assertEqual(self.member("away").payloads(), [b"0", b"1"])

    def mixed(self) -> tuple[Client, Client]:
        """A member of two groups with a subscription of its own, for all of which messages wait;
        and another member of both groups.
        """
        leaving, staying = self.member("leaving"), self.world.client("staying", 5)
        leaving.subscribe("$share/h/other", 1)
        leaving.subscribe("own", 1)
        leaving.outlet.full = True
        leaving.send(p.pingreq())
        leaving.take()
        topics = ("own", "t", "other", "own", "t", "other", "own")
        for number, topic in enumerate(topics):
            self.publisher.publish(topic, b"%d" % number, 1)
        for topic_filter in ("$share/g/t", "$share/h/other"):
            staying.subscribe(topic_filter, 1)
        return leaving, staying

    def test_what_waits_for_other_subscriptions_stays_in_its_order(self) -> None:
        leaving, staying = self.mixed()
        leaving.lose()
        self.assertEqual(staying.payloads(), [b"1", b"2", b"4", b"5"])
        self.assertEqual(self.member("leaving").payloads(), [b"0", b"3", b"6"])

    def test_unsubscribing_redistributes_nothing_of_another_group(self) -> None:
        leaving, staying = self.mixed()
        leaving.send(p.unsubscribe(9, "$share/g/t", version=5))
        self.assertEqual(staying.payloads(), [b"1", b"4"])
        leaving.unblock()
        leaving.next("UNSUBACK")
        self.assertEqual(leaving.payloads(), [b"0", b"2", b"3", b"5", b"6"])

    def test_a_chain_of_members_with_full_queues_ends(self) -> None:
        """Each one that goes for its full queue fills the next; the messages stay bounded."""
        world = World(queue_full="disconnect", max_inflight=1, max_queued_messages=1)
        members = []
        for number in range(150):
            client = world.client(f"m{number}", 5, clean=False, props=KEPT)
            client.subscribe("$share/g/t", 1)
            members.append(client)
        publisher = world.client("p")
        for number in range(310):
            publisher.publish("t", b"%d" % number, 1)
        sessions = [member.session for member in members]
        self.assertTrue(all(len(session.queue or ()) <= 1 for session in sessions))
        self.assertTrue(all(len(session.inflight) <= 1 for session in sessions))
        self.assertFalse(publisher.closed)
