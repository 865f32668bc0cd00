"""MQTT 5, chapters 3.8 and 3.9: SUBSCRIBE and SUBACK."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import NOT_UTF8, Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Prop

SUBACK_REASONS = {0, 1, 2, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2}


class Format(Mqtt5Case):
    @statement("5", "MQTT-3.8.1-1", "MQTT-2.1.3-1")
    def test_flags_are_0010(self) -> None:
        """Any other value closes."""
        _, body = p.split(p5.subscribe(1, ("t", 0)))
        for flags in {*range(16)} - {2}:
            with self.case(flags):
                self.cut_off(self.connect(), p.frame(0x80 | flags, body), Reason.MALFORMED)

    @statement("5", "MQTT-3.8.3-1")
    def test_filters_are_utf8(self) -> None:
        """Each of them."""
        for text in (*NOT_UTF8, b"\0"):
            with self.case(text):
                packet = p5.subscribe(1, ("fine", 0), (text, 0))
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.8.3-2")
    def test_at_least_one_filter(self) -> None:
        """A SUBSCRIBE for nothing is a Protocol Error."""
        self.cut_off(self.connect(), p5.subscribe(1), Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-3.8.3-2")
    def test_every_filter_has_its_options(self) -> None:
        """A SUBSCRIBE that ends before them is malformed."""
        _, body = p.split(p5.subscribe(1, ("topic", 0)))
        for cut in (1, 2, 6):
            with self.case(cut):
                self.cut_off(self.connect(), p.frame(0x82, body[:-cut]), Reason.MALFORMED)

    @statement("5", "MQTT-3.8.3-5")
    def test_reserved_option_bits_are_malformed(self) -> None:
        """Bits 6 and 7 are 0."""
        for options in (0x40, 0x80, 0xC0, 0x41):
            with self.case(options):
                packet = p5.subscribe(1, ("t", options))
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    def test_qos_3_is_a_protocol_error(self) -> None:
        """Maximum QoS is 0, 1 or 2."""
        self.cut_off(self.connect(), p5.subscribe(1, ("t", 3)), Reason.PROTOCOL_ERROR)

    def test_nothing_of_a_wrong_subscribe_takes_effect(self) -> None:
        """Not even the filters that stand before the mistake."""
        client = self.resume()
        self.cut_off(client, p5.subscribe(1, ("good", 1), ("t", 0xC0)), Reason.MALFORMED)
        self.connect("sender").publish("good", "x", 1)
        self.resume().expect_nothing()

    def test_subscription_identifier(self) -> None:
        """From 1 to 268435455, once; 0 and more than one are Protocol Errors."""
        client = self.connect()
        for number in (1, 127, 128, 268_435_455):
            client.subscribe("t", props=[(Prop.SUBSCRIPTION_ID, number)], granted=0)
        for props in (
            [(Prop.SUBSCRIPTION_ID, 0)],
            [(Prop.SUBSCRIPTION_ID, 1), (Prop.SUBSCRIPTION_ID, 2)],
        ):
            with self.case(props):
                packet = p5.subscribe(1, ("t", 0), props=props)
                self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)

    def test_user_properties_are_taken(self) -> None:
        """Any number of them, beside an identifier."""
        pair = (Prop.USER_PROPERTY, ("a", "b"))
        props = [pair, (Prop.SUBSCRIPTION_ID, 3), pair]
        self.connect().subscribe("t", props=props, granted=0)


class NoLocal(Mqtt5Case):
    @statement("5", "MQTT-3.8.3-3")
    def test_own_messages_do_not_come_back(self) -> None:
        """Those of others do, and others get mine."""
        client = self.connect()
        client.subscribe("t", options=p.options(2, no_local=True))
        other = self.connect("other")
        other.subscribe("t", 2)
        for qos in (0, 1, 2):
            client.publish("t", "mine", qos)
            other.expect("PUBLISH", payload=b"mine")
            client.expect_nothing()
            other.publish("t", "theirs", qos)
            client.expect("PUBLISH", payload=b"theirs")
            other.expect("PUBLISH", payload=b"theirs")

    @statement("5", "MQTT-3.8.3-3")
    def test_the_client_id_decides_not_the_connection(self) -> None:
        """What I published before I came back is still mine."""
        client = self.resume()
        client.subscribe("t", options=p.options(1, no_local=True))
        client.send(p5.publish("t", b"mine", 1, 1), p.disconnect())
        self.resume().expect_nothing()

    @statement("5", "MQTT-3.8.3-3")
    def test_another_subscription_without_it_delivers(self) -> None:
        """No Local is an option of one subscription."""
        client = self.connect()
        props = [(Prop.SUBSCRIPTION_ID, 1)]
        client.subscribe("a/+", options=p.options(2, no_local=True), props=props)
        client.subscribe("a/#", 1, props=[(Prop.SUBSCRIPTION_ID, 2)])
        client.publish("a/b", "mine", 2)
        packet = client.expect("PUBLISH", qos=1)
        self.assertEqual([2], packet.all_props(Prop.SUBSCRIPTION_ID))
        client.expect_nothing()

    @statement("5", "MQTT-3.8.3-4")
    def test_no_local_on_a_shared_subscription_is_a_protocol_error(self) -> None:
        """A group cannot leave a message to nobody."""
        packet = p5.subscribe(1, ("$share/g/t", p.options(no_local=True)))
        self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)


class Answer(Mqtt5Case):
    @statement("5", "MQTT-3.8.4-1", "MQTT-3.8.4-5", "MQTT-3.8.4-6", "MQTT-3.8.4-7", "MQTT-3.9.3-1")
    def test_one_suback_with_a_code_for_each_filter_in_order(self) -> None:
        """The granted QoS of the first filter comes first."""
        client = self.connect()
        client.send(p5.subscribe(77, ("a", 2), ("b", 0), ("c/#", 1), ("a", 1), ("d", 2)))
        client.expect("SUBACK", pid=77, reasons=[2, 0, 1, 1, 2])
        client.expect_nothing()

    @statement("5", "MQTT-3.9.3-1", "MQTT-3.9.3-2", "MQTT-3.8.4-7")
    def test_failures_stand_in_their_place(self) -> None:
        """A filter that is refused does not harm its neighbours."""
        self.start(wildcard_subscriptions=False, shared_subscriptions=False)
        client = self.connect()
        client.send(p5.subscribe(1, ("a", 1), ("#", 2), ("b", 2), ("$share/g/t", 0), ("c", 0)))
        suback = client.expect("SUBACK", reasons=[1, 0xA2, 2, 0x9E, 0])
        self.assertLessEqual(set(suback.reasons), SUBACK_REASONS)
        for topic in ("a", "b", "c", "t"):
            client.publish(topic)
        for topic in ("a", "b", "c"):
            client.expect("PUBLISH", topic=topic)
        client.expect_nothing()

    def test_too_many_subscriptions(self) -> None:
        """0x97 for each one above the bound; replacing one is still possible."""
        self.start(max_subscriptions=2)
        client = self.connect()
        client.send(p5.subscribe(1, ("a", 0), ("b", 0), ("c", 0), ("a", 1)))
        client.expect("SUBACK", reasons=[0, 0, Reason.QUOTA_EXCEEDED, 1])

    @statement("5", "MQTT-3.8.4-8")
    def test_delivery_qos_is_the_lower_of_both(self) -> None:
        """That of the message and that of the subscription."""
        client = self.connect()
        for granted in (0, 1, 2):
            client.subscribe(f"granted/{granted}", granted, granted=granted)
        sender = self.connect("sender")
        for granted in (0, 1, 2):
            for published in (0, 1, 2):
                sender.publish(f"granted/{granted}", "x", published)
                client.expect("PUBLISH", qos=min(granted, published))

    @statement("5", "MQTT-3.8.4-8")
    def test_delivery_qos_of_retained_messages(self) -> None:
        """The same rule."""
        sender = self.connect("sender")
        for qos in (0, 1, 2):
            sender.publish(f"kept/{qos}", "x", qos, retain=True)
        client = self.connect()
        for granted in (0, 1, 2):
            client.subscribe("kept/+", granted)
            found = sorted((packet.topic, packet.qos) for packet in client.drain())
            self.assertEqual([(f"kept/{qos}", min(qos, granted)) for qos in (0, 1, 2)], found)

    @statement("5", "MQTT-3.8.4-5")
    def test_many_filters_in_one_subscribe(self) -> None:
        """Each one works as if it had come alone."""
        client = self.connect()
        client.send(p5.subscribe(1, *((f"many/{number}", 1) for number in range(200))))
        client.expect("SUBACK", reasons=[1] * 200)
        sender = self.connect("sender")
        for number in (0, 99, 199):
            sender.publish(f"many/{number}")
            client.expect("PUBLISH", topic=f"many/{number}")

    def test_suback_comes_before_the_retained_messages(self) -> None:
        """Not required, but what clients wait for."""
        self.connect("sender").publish("t", "x", retain=True)
        client = self.connect()
        client.send(p5.subscribe(1, ("t", 0)))
        client.expect("SUBACK")
        client.expect("PUBLISH", retain=True)


class Again(Mqtt5Case):
    @statement("5", "MQTT-3.8.4-3")
    def test_the_same_filter_replaces_the_subscription(self) -> None:
        """One copy of each message, with the options that came last."""
        client = self.connect()
        sender = self.connect("sender")
        for qos in (0, 2, 1):
            client.subscribe("t/+", qos, granted=qos)
            sender.publish("t/x", "x", 2)
            client.expect("PUBLISH", qos=qos)
            client.expect_nothing()
        self.assertEqual([0], client.unsubscribe("t/+").reasons)
        sender.publish("t/x", "x")
        client.expect_nothing()

    @statement("5", "MQTT-3.8.4-3")
    def test_a_filter_that_matches_the_same_topics_is_another_one(self) -> None:
        """Filters are compared as they are written."""
        client = self.connect()
        client.subscribe("t", 1)
        client.subscribe("+", 0)
        self.assertEqual([0], client.unsubscribe("+").reasons)
        client.publish("t", "x", 1)
        client.take("PUBLISH", qos=1)

    @statement("5", "MQTT-3.8.4-4")
    def test_nothing_is_lost_in_the_change(self) -> None:
        """Messages around and between the SUBSCRIBEs all arrive, in order."""
        client = self.connect()
        client.subscribe("t", 1)
        for number in range(10):
            client.send(
                p5.publish("t", str(number), 1, 100 + number),
                p5.subscribe(200 + number, ("t", 1)),
            )
        found = [packet.payload for packet in client.drain() if packet.type == "PUBLISH"]
        self.assertEqual([str(number).encode() for number in range(10)], found)

    @statement("5", "MQTT-3.8.4-4", "MQTT-3.3.1-9")
    def test_retained_messages_come_again(self) -> None:
        """Retain Handling 0 at every SUBSCRIBE."""
        self.connect("sender").publish("t", "kept", retain=True)
        client = self.connect()
        for _ in range(2):
            client.subscribe("t")
            client.expect("PUBLISH", payload=b"kept", retain=True)
            client.expect_nothing()
