"""MQTT 5, chapters 3.10 to 3.12: UNSUBSCRIBE, UNSUBACK, PINGREQ and PINGRESP."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import NOT_UTF8, Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Format(Mqtt5Case):
    @statement("5", "MQTT-3.10.1-1", "MQTT-2.1.3-1")
    def test_flags_are_0010(self) -> None:
        """Any other value closes."""
        _, body = p.split(p5.unsubscribe(1, "t"))
        for flags in {*range(16)} - {2}:
            with self.case(flags):
                self.cut_off(self.connect(), p.frame(0xA0 | flags, body), Reason.MALFORMED)

    @statement("5", "MQTT-3.10.3-1")
    def test_filters_are_utf8(self) -> None:
        """Each of them."""
        for text in (*NOT_UTF8, b"\0"):
            with self.case(text):
                packet = p5.unsubscribe(1, "fine", text)
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.10.3-2")
    def test_at_least_one_filter(self) -> None:
        """An UNSUBSCRIBE from nothing is a Protocol Error."""
        self.cut_off(self.connect(), p5.unsubscribe(1), Reason.PROTOCOL_ERROR)

    def test_truncated_filters_are_malformed(self) -> None:
        """A filter that is longer than the packet."""
        _, body = p.split(p5.unsubscribe(1, "topic"))
        for cut in (1, 6):
            with self.case(cut):
                self.cut_off(self.connect(), p.frame(0xA2, body[:-cut]), Reason.MALFORMED)

    def test_user_properties_are_taken(self) -> None:
        """Any number of them."""
        pair = (Prop.USER_PROPERTY, ("a", "b"))
        self.connect().unsubscribe("t", props=[pair, pair])


class Effect(Mqtt5Case):
    @statement("5", "MQTT-3.10.4-1")
    def test_filters_are_compared_as_they_are_written(self) -> None:
        """A wildcard does not take away what it matches, nor the other way round."""
        client = self.connect()
        client.send(p5.subscribe(1, ("a/b", 0), ("a/+", 0), ("A/b", 0)))
        client.expect("SUBACK")
        unsuback = client.unsubscribe("#", "a/#", "+/b", "a/B", "a")
        self.assertEqual([Reason.NO_SUBSCRIPTION_EXISTED] * 5, unsuback.reasons)
        self.assertEqual([0], client.unsubscribe("a/+").reasons)
        client.publish("a/b")
        client.expect("PUBLISH", topic="a/b")
        client.publish("a/c")
        client.publish("A/b")
        client.expect("PUBLISH", topic="A/b")

    @statement("5", "MQTT-3.10.4-2")
    def test_nothing_new_comes_after_it(self) -> None:
        """Neither to a client that is there nor into the queue of one that left."""
        client = self.resume()
        client.subscribe("t", 2)
        client.unsubscribe("t")
        sender = self.connect("sender")
        for qos in (0, 1, 2):
            sender.publish("t", "x", qos)
        client.expect_nothing()
        client.close()
        sender.publish("t", "x", 1)
        self.resume().expect_nothing()

    @statement("5", "MQTT-3.10.4-3")
    def test_deliveries_that_began_are_finished(self) -> None:
        """QoS 1 and 2 messages in flight go through their handshake, also after a reconnect."""
        client = self.resume()
        client.subscribe("t", 2)
        sender = self.connect("sender")
        for qos in (1, 2, 2):
            sender.publish("t", str(qos), qos)
        first, second, third = (client.expect("PUBLISH") for _ in range(3))
        client.unsubscribe("t")
        client.acknowledge(second)
        client.abort()
        client = self.resume()
        client.acknowledge(client.expect("PUBLISH", pid=first.pid, dup=True))
        client.acknowledge(client.expect("PUBLISH", pid=third.pid, dup=True))
        client.expect_nothing()

    @statement("5", "MQTT-3.10.4-4", "MQTT-3.10.4-5", "MQTT-3.10.4-6", "MQTT-3.11.3-1")
    def test_one_unsuback_with_a_code_for_each_filter_in_order(self) -> None:
        """0x00 where there was a subscription, 0x11 where there was none."""
        client = self.connect()
        client.send(p5.subscribe(1, ("a", 0), ("c", 0), ("d/#", 0)))
        client.expect("SUBACK")
        client.send(p5.unsubscribe(99, "a", "b", "c", "a", "d/#"))
        client.expect("UNSUBACK", pid=99, reasons=[0, 0x11, 0, 0x11, 0])
        client.expect_nothing()

    @statement("5", "MQTT-3.10.4-5", "MQTT-3.11.3-2")
    def test_unsuback_comes_even_if_nothing_matched(self) -> None:
        """With its packet id and 0x11."""
        client = self.connect()
        client.send(p5.unsubscribe(4711, "never"))
        client.expect("UNSUBACK", pid=4711, reasons=[Reason.NO_SUBSCRIPTION_EXISTED])

    @statement("5", "MQTT-3.11.3-2")
    def test_codes_are_of_the_list(self) -> None:
        """One for each filter, strange ones too."""
        client = self.connect()
        reasons = client.unsubscribe("$SYS/#", "$share/g/t", "a" * 1000).reasons
        self.assertEqual(3, len(reasons))
        self.assertLessEqual(set(reasons), {0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91})

    def test_wrong_filters_are_malformed(self) -> None:
        """As they are in a SUBSCRIBE."""
        for filter in ("a#", "#/a", "a+", "", "$share/g/", "$share//a", "$share/g/a#"):
            with self.case(filter):
                packet = p5.unsubscribe(1, "a", filter)
                self.cut_off(self.connect(), packet, Reason.MALFORMED)


class Ping(Mqtt5Case):
    @statement("5", "MQTT-3.12.4-1")
    def test_every_pingreq_is_answered(self) -> None:
        """One PINGRESP for each."""
        client = self.connect()
        client.send(p.pingreq() * 3)
        self.assertEqual(["PINGRESP"] * 3, [packet.type for packet in client.drain()])

    def test_a_pingreq_with_content_is_malformed(self) -> None:
        """There is nothing behind its header."""
        self.cut_off(self.connect(), p.frame(0xC0, b"x"), Reason.MALFORMED)
