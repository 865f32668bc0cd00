"""MQTT 5, chapters 1.5 and 2: strings, integers, flags, packet ids, the property block."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import NOT_UTF8, Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Strings(Mqtt5Case):
    def malformed(self, *texts: bytes) -> None:
        """None of these byte strings passes as a string, wherever one stands."""
        for text in texts:
            packets = {
                "topic": p5.publish(text),
                "filter": p5.subscribe(1, (text, 0)),
                "filter to leave": p5.unsubscribe(1, text),
                "content type": p5.publish("t", props=[(Prop.CONTENT_TYPE, text)]),
                "response topic": p5.publish("t", props=[(Prop.RESPONSE_TOPIC, text)]),
                "reason string": p.disconnect(0, [(Prop.REASON_STRING, text)]),
            }
            for where, packet in packets.items():
                with self.case(where, text):
                    self.cut_off(self.connect(), packet, Reason.MALFORMED)
            connects = {
                "client id": p5.connect(text),
                "will topic": p5.connect(will=(text, b"")),
                "user name": p5.connect(username=text),
                "method": p5.connect(props=[(Prop.AUTH_METHOD, text)]),
            }
            for where, packet in connects.items():
                with self.case(where, text):
                    self.refused(packet, Reason.MALFORMED)

    @statement("5", "MQTT-1.5.4-1")
    def test_ill_formed_utf8_is_malformed(self) -> None:
        """Surrogates, overlong forms and stray bytes are no strings, in whatever field."""
        self.malformed(*NOT_UTF8)

    @statement("5", "MQTT-1.5.4-2", "MQTT-4.7.3-2")
    def test_null_character_is_malformed(self) -> None:
        """U+0000 has no place in a string, a topic name or a filter."""
        self.malformed(b"\0", b"a\0b")

    @statement("5", "MQTT-1.5.4-3")
    def test_byte_order_mark_is_a_character_like_any_other(self) -> None:
        """EF BB BF stays in topics and properties and makes another topic of it."""
        client = self.connect()
        client.subscribe("\ufeffa")
        client.subscribe("b\ufeff")
        client.publish("a", "without")
        client.publish("\ufeffa", "first", props=[(Prop.CONTENT_TYPE, "\ufefftext")])
        client.publish("b\ufeff", "last")
        first = client.expect("PUBLISH", topic="\ufeffa", payload=b"first")
        self.assertEqual("\ufefftext", first.prop(Prop.CONTENT_TYPE))
        client.expect("PUBLISH", topic="b\ufeff", payload=b"last")
        client.expect_nothing()

    @statement("5", "MQTT-1.5.7-1")
    def test_both_halves_of_a_string_pair_are_strings(self) -> None:
        """Name and value of a User Property obey the rules for strings."""
        for text in (*NOT_UTF8, b"a\0"):
            for pair in ((text, "value"), ("name", text)):
                with self.case(pair):
                    packet = p5.publish("t", props=[(Prop.USER_PROPERTY, pair)])
                    self.cut_off(self.connect(), packet, Reason.MALFORMED)

    def test_every_other_character_is_fine(self) -> None:
        """Control characters, non-characters and four-byte characters travel unchanged."""
        client = self.connect()
        topic = "\x01 \x7f \u0085 \ufffe \uffff \U0001f600 \U0010ffff é"
        client.subscribe("+")
        client.publish(topic, b"x")
        client.expect("PUBLISH", topic=topic)


class VariableByteIntegers(Mqtt5Case):
    @statement("5", "MQTT-1.5.5-1")
    def test_longer_than_needed_is_malformed(self) -> None:
        """Lengths, property ids and Subscription Identifiers come in their shortest form."""
        topic = p.utf8("t")
        packets = {
            "remaining length": p.frame(0xC0, b"", b"\x80\x00"),
            "remaining length of a publish": p.frame(0x30, topic + b"\0x", b"\x85\x80\x00"),
            "property length": p5.publish("t", props=b"\x80\x00"),
            "property id": p5.publish("t", props=b"\x03\x81\x00\x01"),
            "subscription id": p5.subscribe(
                1, ("t", 0), props=[(Prop.SUBSCRIPTION_ID, b"\x81\x00")]
            ),
        }
        for where, packet in packets.items():
            with self.case(where):
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-1.5.5-1")
    def test_more_than_four_bytes_is_malformed(self) -> None:
        """A fifth byte is an error at once, without waiting for what it announces."""
        for packet in (
            p.frame(0x30, b"", b"\x80\x80\x80\x80\x01"),
            p.frame(0x30, b"", b"\xff\xff\xff\xff"),
            p5.publish("t", props=b"\x80\x80\x80\x80\x01"),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    def test_every_length_of_the_integer_works(self) -> None:
        """Packets of one, two and three length bytes pass, at the edges of each."""
        client = self.connect()
        client.subscribe("t")
        for size in (0, 123, 124, 125, 16_378, 16_379, 16_380, 100_000):
            client.publish("t", b"x" * size)
            self.assertEqual(size, len(client.expect("PUBLISH").payload))


class FixedHeader(Mqtt5Case):
    @statement("5", "MQTT-2.1.3-1")
    def test_reserved_flags_have_their_fixed_value(self) -> None:
        """Any other value in the low half of the first byte is malformed."""
        packets = {
            "PUBACK": p.puback(1),
            "PUBREC": p.pubrec(1),
            "PUBREL": p.pubrel(1),
            "PUBCOMP": p.pubcomp(1),
            "SUBSCRIBE": p5.subscribe(1, ("t", 0)),
            "UNSUBSCRIBE": p5.unsubscribe(1, "t"),
            "PINGREQ": p.pingreq(),
            "DISCONNECT": p.disconnect(),
            "AUTH": p.auth(0x18, [(Prop.AUTH_METHOD, "m")]),
        }
        for name, packet in packets.items():
            first, body = p.split(packet)
            for flags in {0, 1, 2, 4, 8, 15} - {first & 15}:
                with self.case(name, flags):
                    data = p.frame(first & 0xF0 | flags, body)
                    self.cut_off(self.connect(), data, Reason.MALFORMED)

    @statement("5", "MQTT-2.1.3-1", "MQTT-3.1.4-1")
    def test_reserved_flags_of_connect(self) -> None:
        """CONNECT with flags is not a CONNECT: the connection closes."""
        _, body = p.split(p5.connect())
        for flags in (1, 2, 4, 8):
            with self.case(flags):
                self.closed_at_connect(p.frame(0x10 | flags, body), Reason.MALFORMED)

    def test_packet_type_0_is_malformed(self) -> None:
        """Type 0 is forbidden."""
        self.cut_off(self.connect(), p.frame(0x00), Reason.MALFORMED)

    def test_packets_that_only_a_server_sends_are_an_error(self) -> None:
        """CONNACK, SUBACK, UNSUBACK and PINGRESP from a client end the connection."""
        for packet in (
            p.frame(0x20, b"\0\0\0"),
            p.frame(0x90, b"\0\1\0\0"),
            p.frame(0xB0, b"\0\1\0\0"),
            p.frame(0xD0),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)


class PacketIds(Mqtt5Case):
    @statement("5", "MQTT-2.2.1-2")
    def test_qos_0_has_no_packet_id(self) -> None:
        """What follows the topic of a QoS 0 message is its property block, both ways."""
        client = self.connect()
        client.subscribe("t")
        client.publish("t", b"\x01\x02", pid=None)
        client.expect("PUBLISH", body=p.utf8("t") + b"\0" + b"\x01\x02")

    @statement("5", "MQTT-2.2.1-3")
    def test_packet_id_0_is_an_error(self) -> None:
        """Requests and QoS 1 and 2 messages carry a packet id other than 0."""
        for packet in (
            p5.publish("t", qos=1, pid=0),
            p5.publish("t", qos=2, pid=0),
            p5.subscribe(0, ("t", 0)),
            p5.unsubscribe(0, "t"),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-2.2.1-4", "MQTT-4.3.2-1", "MQTT-4.3.3-1")
    def test_broker_takes_a_free_packet_id_for_each_message(self) -> None:
        """Unacknowledged messages have different ids, whatever their QoS."""
        client = self.connect()
        client.subscribe("t", 2)
        sender = self.connect("sender")
        for number in range(10):
            sender.publish("t", str(number), qos=1 + number % 2)
        ids = [client.expect("PUBLISH").pid for _ in range(10)]
        self.assertEqual(10, len(set(ids)))
        self.assertNotIn(0, ids)

    @statement("5", "MQTT-2.2.1-4")
    def test_packet_id_in_flight_is_skipped_when_the_counter_comes_around(self) -> None:
        """More messages than there are ids: the one that was never acknowledged keeps its id."""
        client = self.connect(props=[(Prop.RECEIVE_MAXIMUM, 65535)])
        client.subscribe("t", 1)
        sender = self.connect("sender")
        sender.publish("t", "held back", qos=1)
        held = client.expect("PUBLISH").pid
        batch = b"".join(p5.publish("t", qos=1, pid=pid) for pid in range(1, 100))
        for _ in range(65_535 // 99 + 2):
            sender.send(batch)
            ids = [client.expect("PUBLISH").pid for _ in range(99)]
            self.assertNotIn(held, ids)
            for _ in range(99):
                sender.expect("PUBACK")
            client.send(b"".join(p.puback(pid) for pid in ids if pid is not None))

    @statement("5", "MQTT-2.2.1-5")
    def test_acknowledgements_repeat_the_packet_id(self) -> None:
        """PUBACK, PUBREC and PUBCOMP, and PUBREL the other way, name their message."""
        client = self.connect()
        client.send(p5.publish("t", qos=1, pid=65535))
        client.expect("PUBACK", pid=65535)
        client.send(p5.publish("t", qos=2, pid=258))
        client.expect("PUBREC", pid=258)
        client.send(p.pubrel(258))
        client.expect("PUBCOMP", pid=258)
        client.subscribe("t", 2)
        self.connect("sender").publish("t", qos=2)
        pid = client.expect("PUBLISH", qos=2).pid
        assert pid is not None
        client.send(p.pubrec(pid))
        client.expect("PUBREL", pid=pid)

    @statement("5", "MQTT-2.2.1-6", "MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-3.10.4-5")
    def test_suback_and_unsuback_echo_the_packet_id(self) -> None:
        """The answer to a request has its id."""
        client = self.connect()
        for pid in (1, 255, 256, 65535):
            client.send(p5.subscribe(pid, ("t", 0)))
            client.expect("SUBACK", pid=pid)
            client.send(p5.unsubscribe(pid, "t"))
            client.expect("UNSUBACK", pid=pid)

    @statement("5", "MQTT-2.2.1-4")
    def test_packet_ids_of_both_directions_are_independent(self) -> None:
        """The same number may be in flight from the client and from the broker at once."""
        client = self.connect()
        client.subscribe("t", 2)
        self.connect("sender").publish("t", qos=2)
        pid = client.expect("PUBLISH").pid
        assert pid is not None
        client.send(p5.publish("other", qos=2, pid=pid))
        client.expect("PUBREC", pid=pid, reason=Reason.NO_MATCHING_SUBSCRIBERS)
        client.send(p.pubrec(pid), p.pubrel(pid))
        client.expect("PUBREL", pid=pid, reason=0)
        client.expect("PUBCOMP", pid=pid, reason=0)


class PropertyBlock(Mqtt5Case):
    @statement("5", "MQTT-2.2.2-1")
    def test_no_properties_are_written_as_length_0(self) -> None:
        """PUBLISH, SUBACK and UNSUBACK without properties have the byte 0 in their place."""
        client = self.connect(props=[(Prop.REQUEST_PROBLEM_INFO, 0)])
        client.send(p5.subscribe(1, ("t", 0)))
        client.expect("SUBACK", body=b"\0\1" + b"\0" + b"\0")
        client.publish("t", b"x")
        client.expect("PUBLISH", body=p.utf8("t") + b"\0" + b"x")
        client.send(p5.unsubscribe(2, "t"))
        client.expect("UNSUBACK", body=b"\0\2" + b"\0" + b"\0")

    @statement("5", "MQTT-2.2.2-1")
    def test_a_missing_property_length_is_malformed(self) -> None:
        """Where the block belongs, its length has to stand, if only as 0."""
        for packet in (
            p.frame(0x30, p.utf8("t")),
            p.frame(0x82, b"\0\1"),
            p.frame(0xA2, b"\0\1"),
        ):
            with self.case(packet):
                self.cut_off(self.connect(), packet, Reason.MALFORMED)

    def test_a_property_block_longer_than_the_packet_is_malformed(self) -> None:
        """Property Length and the ends of its properties stay inside of the packet."""
        for props in (b"\x7f", b"\x02\x01", b"\x03\x02\0\0", b"\x04\x03\0\x09x"):
            with self.case(props):
                packet = p.frame(0x30, p.utf8("t") + props)
                self.cut_off(self.connect(), packet, Reason.MALFORMED)
