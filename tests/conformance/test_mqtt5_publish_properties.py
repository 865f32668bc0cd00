"""MQTT 5, chapter 3.3.2: the topic and the properties of a PUBLISH."""

from typing import Any

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import NOT_UTF8, Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop


class Topic(Mqtt5Case):
    @statement("5", "MQTT-3.3.2-1")
    def test_topic_comes_first_and_is_utf8(self) -> None:
        """Anything else is malformed, and a topic longer than its packet too."""
        for packet in (
            *(p5.publish(text, b"x") for text in NOT_UTF8),
            p.frame(0x30),
            p.frame(0x30, b"\0"),
            p.frame(0x30, b"\0\2t"),
            p.frame(0x32, b"\0\1t\0"),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.MALFORMED)
        client = self.connect()
        client.subscribe("größe/+")
        client.publish("größe/温度", b"x")
        client.expect("PUBLISH", topic="größe/温度")

    @statement("5", "MQTT-3.3.2-2", "MQTT-4.7.0-1")
    def test_wildcards_in_a_topic_name_are_invalid(self) -> None:
        """Whatever the QoS, and wherever the wildcard stands."""
        watcher = self.watcher()
        for topic in ("#", "+", "a/#", "a/+/b", "a#", "a+b"):
            for qos in (0, 1, 2):
                with self.case(topic, qos):
                    packet = p5.publish(topic, b"x", qos, pid=1 if qos else None)
                    self.cut_off(self.connect(), packet, Reason.MALFORMED)
        watcher.expect_nothing()

    @statement("5", "MQTT-3.3.2-3")
    def test_delivered_topics_match_the_filter(self) -> None:
        """Each subscriber gets what its filter asks for and nothing else."""
        client = self.connect()
        client.subscribe("a/+/c")
        sender = self.connect("sender")
        for topic in ("a/b/c", "a/b", "a/b/c/d", "A/b/c", "a//c", "/a/b/c"):
            sender.publish(topic)
        client.expect("PUBLISH", topic="a/b/c")
        client.expect("PUBLISH", topic="a//c")
        client.expect_nothing()

    @statement("5", "MQTT-4.7.3-1")
    def test_empty_topic_without_alias_is_a_protocol_error(self) -> None:
        """Only an alias can stand in for a topic."""
        self.cut_off(self.connect(), p5.publish("", b"x"), Reason.PROTOCOL_ERROR)


class Forwarded(Mqtt5Case):
    def through(self, props: Any, payload: bytes = b"text", qos: int = 1) -> list[Packet]:
        """What three kinds of subscribers get: one that is there, one that was away, a late one."""
        away = self.resume("away")
        away.subscribe("t", options=p.options(1, handling=2))
        away.close()
        here = self.connect("here")
        here.subscribe("t", options=p.options(1, handling=2))
        self.connect("sender").publish("t", payload, qos, retain=True, props=props)
        late = self.connect("late")
        late.subscribe("t", 1)
        away = self.resume("away")
        found = [client.expect("PUBLISH") for client in (here, away, late)]
        away.acknowledge(found[1])
        return found

    def unchanged(self, *props: tuple[int, Any]) -> None:
        for packet in self.through(list(props)):
            self.assertCountEqual(props, packet.props)

    @statement("5", "MQTT-3.3.2-4")
    def test_payload_format_indicator(self) -> None:
        """0 and 1 are passed on as they came; none stays none."""
        self.unchanged((Prop.PAYLOAD_FORMAT, 0))
        self.unchanged((Prop.PAYLOAD_FORMAT, 1))
        self.unchanged()

    @statement("5", "MQTT-3.3.2-15")
    def test_response_topic(self) -> None:
        """The requester's choice reaches the responder."""
        self.unchanged((Prop.RESPONSE_TOPIC, "answers/to/ü"))

    @statement("5", "MQTT-3.3.2-16")
    def test_correlation_data(self) -> None:
        """Any bytes, none too."""
        for data in (b"", b"\0", bytes(range(256))):
            self.unchanged((Prop.CORRELATION_DATA, data))

    @statement("5", "MQTT-3.3.2-20")
    def test_content_type(self) -> None:
        """Free text."""
        self.unchanged((Prop.CONTENT_TYPE, "text/plain; charset=ü"))
        self.unchanged((Prop.CONTENT_TYPE, ""))

    @statement("5", "MQTT-3.3.2-17", "MQTT-3.3.2-18")
    def test_user_properties_in_their_order(self) -> None:
        """All of them, repeated names and empty values too."""
        pairs = [("b", "1"), ("a", "2"), ("b", "1"), ("", ""), ("b", "0"), ("ü", "ß")]
        for packet in self.through([(Prop.USER_PROPERTY, pair) for pair in pairs]):
            self.assertEqual(pairs, packet.all_props(Prop.USER_PROPERTY))

    def test_all_at_once(self) -> None:
        """Next to each other and in any order they stay what they are."""
        self.unchanged(
            (Prop.USER_PROPERTY, ("x", "1")),
            (Prop.CONTENT_TYPE, "c"),
            (Prop.CORRELATION_DATA, b"d"),
            (Prop.USER_PROPERTY, ("y", "2")),
            (Prop.RESPONSE_TOPIC, "r"),
            (Prop.PAYLOAD_FORMAT, 1),
        )

    def test_a_topic_alias_stays_behind(self) -> None:
        """It belongs to the publisher's connection, whatever stands around it."""
        props = [(Prop.CONTENT_TYPE, "c"), (Prop.TOPIC_ALIAS, 1), (Prop.PAYLOAD_FORMAT, 1)]
        for packet in self.through(props):
            self.assertCountEqual([props[0], props[2]], packet.props)
            self.assertEqual("t", packet.topic)

    def test_clients_of_version_3_get_the_message_without_them(self) -> None:
        """And what they publish reaches version 5 without any."""
        old = self.connect("old", version=4)
        old.subscribe("t")
        new = self.connect("new")
        new.subscribe("t")
        new.publish("t", "x", props=[(Prop.CONTENT_TYPE, "c"), (Prop.MESSAGE_EXPIRY, 9)])
        old.expect("PUBLISH", topic="t", payload=b"x")
        self.assertEqual("c", new.expect("PUBLISH").prop(Prop.CONTENT_TYPE))
        old.publish("t", "y")
        new.expect("PUBLISH", payload=b"y", props=[])


class Wrong(Mqtt5Case):
    @statement("5", "MQTT-3.3.2-13", "MQTT-3.3.2-19")
    def test_response_topic_and_content_type_are_utf8(self) -> None:
        """Anything else is malformed."""
        for text in (*NOT_UTF8, b"\0"):
            for key in (Prop.RESPONSE_TOPIC, Prop.CONTENT_TYPE):
                with self.case(text, key):
                    packet = p5.publish("t", props=[(key, text)])
                    self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.3.2-14")
    def test_response_topic_has_no_wildcard(self) -> None:
        """It is a topic to publish to."""
        for topic in ("#", "+", "a/+", "a/#"):
            with self.case(topic):
                packet = p5.publish("t", props=[(Prop.RESPONSE_TOPIC, topic)])
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    def test_payload_that_is_not_the_text_it_claims_to_be(self) -> None:
        """Payload Format Indicator 1 with other bytes than UTF-8 is refused with 0x99."""
        watcher = self.watcher()
        for payload in NOT_UTF8:
            for qos, answer in ((0, "DISCONNECT"), (1, "PUBACK"), (2, "PUBREC")):
                with self.case(payload, qos):
                    client = self.connect()
                    props = [(Prop.PAYLOAD_FORMAT, 1)]
                    client.send(p5.publish("t", payload, qos, 1 if qos else None, props=props))
                    packet = client.receive()
                    self.assertIn(packet.type, ("DISCONNECT", answer))
                    self.assertEqual(Reason.PAYLOAD_FORMAT, packet.reason)
        watcher.expect_nothing()

    def test_payload_format_0_promises_nothing(self) -> None:
        """Indicator 0 or none: any bytes."""
        watcher = self.watcher()
        client = self.connect()
        for props in ([], [(Prop.PAYLOAD_FORMAT, 0)]):
            client.publish("t", b"\xff\0", props=props)
            watcher.expect("PUBLISH", payload=b"\xff\0")

    @statement("5", "MQTT-3.3.4-6")
    def test_subscription_identifier_comes_from_servers_only(self) -> None:
        """A client's PUBLISH with one is a Protocol Error."""
        packet = p5.publish("t", props=[(Prop.SUBSCRIPTION_ID, 1)])
        self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)


class MessageExpiry(Mqtt5Case):
    @statement("5", "MQTT-3.3.2-6")
    def test_time_in_the_broker_is_taken_off(self) -> None:
        """A message that waited 40 of its 100 seconds has 60 left."""
        client = self.resume()
        client.subscribe("t", 1)
        client.close()
        self.connect("sender").publish("t", "x", 1, props=[(Prop.MESSAGE_EXPIRY, 100)])
        self.advance(40)
        packet = self.resume().expect("PUBLISH")
        self.assertEqual(60, packet.prop(Prop.MESSAGE_EXPIRY))

    @statement("5", "MQTT-3.3.2-6", "MQTT-3.3.2-18")
    def test_only_the_time_changes(self) -> None:
        """Wherever it stands among the properties, and whatever the broker takes out or adds."""
        client = self.resume(props=[(Prop.TOPIC_ALIAS_MAXIMUM, 5)])
        client.subscribe("t", 1, props=[(Prop.SUBSCRIPTION_ID, 3)])
        client.close()
        alias, expiry = (Prop.TOPIC_ALIAS, 1), (Prop.MESSAGE_EXPIRY, 100)
        first, last = (Prop.CONTENT_TYPE, "c"), (Prop.USER_PROPERTY, ("a", "b"))
        orders = (
            [expiry, alias, first, last],
            [alias, expiry, first, last],
            [first, alias, last, expiry],
            [first, expiry, last, alias],
        )
        sender = self.connect("sender")
        for props in orders:
            sender.publish("t", "x", 1, props=props)
        self.advance(40)
        client = self.resume(props=[(Prop.TOPIC_ALIAS_MAXIMUM, 5)])
        for _ in orders:
            packet = client.expect("PUBLISH")
            found = [item for item in packet.props if item[0] != Prop.TOPIC_ALIAS]
            wanted = [first, last, (Prop.MESSAGE_EXPIRY, 60), (Prop.SUBSCRIPTION_ID, 3)]
            self.assertCountEqual(wanted, found)

    @statement("5", "MQTT-3.3.2-6")
    def test_without_waiting_it_is_what_it_was(self) -> None:
        """Delivery at once forwards the value as it came, also the largest."""
        watcher = self.watcher()
        for expiry_s in (1, 100, 0xFFFFFFFF):
            self.connect("sender").publish("t", "x", props=[(Prop.MESSAGE_EXPIRY, expiry_s)])
            self.assertEqual(expiry_s, watcher.expect("PUBLISH").prop(Prop.MESSAGE_EXPIRY))

    @statement("5", "MQTT-3.3.2-5")
    def test_a_message_that_expired_in_the_queue_is_not_delivered(self) -> None:
        """What is still fresh is; what has no expiry stays for good."""
        client = self.resume()
        client.subscribe("t", 2)
        client.close()
        sender = self.connect("sender")
        for qos in (1, 2):
            sender.publish("t", "short", qos, props=[(Prop.MESSAGE_EXPIRY, 10)])
            sender.publish("t", "long", qos, props=[(Prop.MESSAGE_EXPIRY, 100)])
            sender.publish("t", "for ever", qos)
        self.advance(11)
        client = self.resume()
        for _ in range(2):
            client.expect("PUBLISH", payload=b"long")
            client.expect("PUBLISH", payload=b"for ever")
        client.expect_nothing()

    @statement("5", "MQTT-3.3.2-5")
    def test_a_message_that_expired_behind_a_full_window_is_not_delivered(self) -> None:
        """Delivery that had not begun, to a client that is connected."""
        client = self.connect(props=[(Prop.RECEIVE_MAXIMUM, 1)])
        client.subscribe("t", 1)
        sender = self.connect("sender")
        sender.publish("t", "in flight", 1, props=[(Prop.MESSAGE_EXPIRY, 10)])
        sender.publish("t", "waiting", 1, props=[(Prop.MESSAGE_EXPIRY, 10)])
        sender.publish("t", "patient", 1, props=[(Prop.MESSAGE_EXPIRY, 100)])
        first = client.expect("PUBLISH", payload=b"in flight")
        self.advance(11)
        client.acknowledge(first)
        packet = client.expect("PUBLISH", payload=b"patient")
        self.assertEqual(89, packet.prop(Prop.MESSAGE_EXPIRY))

    @statement("5", "MQTT-3.3.2-5", "MQTT-3.3.2-6")
    def test_retained_messages_expire(self) -> None:
        """While it is there a late subscriber sees the time that is left."""
        self.connect().publish("t", "x", retain=True, props=[(Prop.MESSAGE_EXPIRY, 100)])
        self.advance(70)
        client = self.connect("early")
        client.subscribe("t")
        self.assertEqual(30, client.expect("PUBLISH", retain=True).prop(Prop.MESSAGE_EXPIRY))
        self.advance(31)
        client = self.connect("late")
        client.subscribe("t")
        client.expect_nothing()

    @statement("5", "MQTT-4.3.3-7", "MQTT-3.3.2-5")
    def test_a_message_whose_delivery_began_does_not_expire(self) -> None:
        """QoS 2: what was sent once is sent again until it is acknowledged."""
        client = self.resume()
        client.subscribe("t", 2)
        props = [(Prop.MESSAGE_EXPIRY, 10)]
        self.connect("sender").publish("t", "x", 2, props=props)
        pid = client.expect("PUBLISH").pid
        client.abort()
        self.advance(20)
        client = self.resume()
        packet = client.expect("PUBLISH", pid=pid, dup=True, payload=b"x")
        client.acknowledge(packet)
