"""MQTT 3.1.1, chapters 1 and 2: strings, fixed headers, remaining length, packet ids."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p

ILL_FORMED = {
    "a lone continuation byte": b"a\x80",
    "a sequence cut short": b"a\xe2\x82",
    "an overlong slash": b"a\xc0\xaf",
    "a high surrogate": b"a\xed\xa0\x80",
    "a low surrogate": b"a\xed\xbf\xbf",
    "a surrogate pair": b"\xed\xa0\xbd\xed\xb8\x80",
    "beyond U+10FFFF": b"\xf4\x90\x80\x80",
    "the byte FF": b"\xff",
}


class Strings(ProtocolCase):
    @statement("3.1.1", "MQTT-1.5.3-1", "MQTT-3.3.2-1")
    def test_ill_formed_utf8_in_a_topic_closes(self) -> None:
        """Whoever sends a topic that is not UTF-8 is cut off."""
        for what, text in ILL_FORMED.items():
            self.assert_closes(p.publish(text, b"x"), what)

    @statement("3.1.1", "MQTT-1.5.3-1", "MQTT-3.8.3-1")
    def test_ill_formed_utf8_in_a_subscription_closes(self) -> None:
        """A filter that is not UTF-8 cuts the client off, wherever it stands in the list."""
        for what, text in ILL_FORMED.items():
            self.assert_closes(p.subscribe(1, (text, 0)), what)
        self.assert_closes(p.subscribe(1, ("fine", 0), (b"a\xff", 0)))

    @statement("3.1.1", "MQTT-1.5.3-1", "MQTT-3.10.3-1")
    def test_ill_formed_utf8_in_an_unsubscribe_closes(self) -> None:
        """A filter to unsubscribe has to be UTF-8, too."""
        for what, text in ILL_FORMED.items():
            self.assert_closes(p.unsubscribe(1, text), what)
        self.assert_closes(p.unsubscribe(1, "fine", b"a\xff"))

    @statement("3.1.1", "MQTT-1.5.3-1", "MQTT-3.1.3-4", "MQTT-3.1.3-10", "MQTT-3.1.3-11")
    def test_ill_formed_utf8_in_connect_closes(self) -> None:
        """Client id, will topic and user name are UTF-8, or there is no connection."""
        for what, text in ILL_FORMED.items():
            self.assert_connect_closes(p.connect(text), f"client id with {what}")
            self.assert_connect_closes(p.connect(will=(text, b"")), f"will topic with {what}")
            self.assert_connect_closes(p.connect(username=text), f"user name with {what}")

    @statement("3.1.1", "MQTT-1.5.3-2", "MQTT-4.7.3-2")
    def test_null_character_in_a_topic_or_filter_closes(self) -> None:
        """U+0000 may not occur in a topic name or filter."""
        for text in ("\0", "a\0b", "a/\0", "\0a"):
            self.assert_closes(p.publish(text, b"x"))
            self.assert_closes(p.subscribe(1, (text, 0)))
            self.assert_closes(p.unsubscribe(1, text))

    @statement("3.1.1", "MQTT-1.5.3-2")
    def test_null_character_in_connect_closes(self) -> None:
        """U+0000 may not occur in a string of CONNECT."""
        self.assert_connect_closes(p.connect("a\0b"))
        self.assert_connect_closes(p.connect(will=("a\0b", b"")))
        self.assert_connect_closes(p.connect(username="a\0b"))

    @statement("3.1.1", "MQTT-1.5.3-3")
    def test_byte_order_mark_is_kept(self) -> None:
        """EF BB BF is a character like any other: it is kept and it counts in matching."""
        marked = "\ufefftopic/\ufeff"
        client = self.subscriber(marked, "topic/+")
        client.publish(marked, b"marked")
        packet = client.expect("PUBLISH", topic=marked, payload=b"marked")
        self.assertIn(b"\xef\xbb\xbftopic/\xef\xbb\xbf", packet.body)
        client.publish("topic/\ufeff", b"plain")
        client.expect("PUBLISH", topic="topic/\ufeff", payload=b"plain")
        client.expect_nothing()

    def test_strings_of_every_width_pass_unchanged(self) -> None:
        """One to four bytes a character, spaces included."""
        client = self.subscriber("#")
        for topic in ("é/ß", "温度/東京", "🛰/🌍", " ", "a b/ c"):
            client.publish(topic, topic)
            client.expect("PUBLISH", topic=topic, payload=topic.encode())

    def test_longest_topic_passes(self) -> None:
        """A topic may fill its two-byte length."""
        client = self.subscriber("#")
        topic = "x" * 65535
        client.publish(topic, b"p")
        client.expect("PUBLISH", topic=topic, payload=b"p")


class FixedHeader(ProtocolCase):
    @statement("3.1.1", "MQTT-2.2.2-1", "MQTT-2.2.2-2")
    def test_wrong_flags_close(self) -> None:
        """Each packet type has its flags; any other value of them ends the connection."""
        right = {
            p.puback(1): 0,
            p.pubrec(1): 0,
            p.pubrel(1): 2,
            p.pubcomp(1): 0,
            p.subscribe(1, ("a", 0)): 2,
            p.unsubscribe(1, "a"): 2,
            p.pingreq(): 0,
            p.disconnect(): 0,
        }
        for packet, flags in right.items():
            first, body = p.split(packet)
            for wrong in set(range(16)) - {flags}:
                byte = first & 0xF0 | wrong
                self.assert_closes(p.frame(byte, body), f"first byte {byte:#x}")

    @statement("3.1.1", "MQTT-2.2.2-1", "MQTT-2.2.2-2")
    def test_connect_with_wrong_flags_closes(self) -> None:
        """CONNECT has no flags in its first byte."""
        for wrong in range(1, 16):
            self.assert_connect_closes(p.frame(0x10 | wrong, p.split(p.connect())[1]))

    @statement("3.1.1", "MQTT-2.2.2-1")
    def test_packets_of_the_broker_have_the_right_flags(self) -> None:
        """PUBREL has 0010, all others but PUBLISH 0000."""
        client = self.connect()
        seen = [client.connack, client.subscribe("a", 2)]
        client.send(p.publish("a", b"2", qos=2, pid=9))
        seen += [client.take("PUBREC")]
        client.send(p.pubrel(9))
        seen += [client.take("PUBCOMP")]
        publish = client.take("PUBLISH", qos=2)
        client.send(p.pubrec(publish.pid or 0), p.pingreq())
        seen += [client.take("PINGRESP"), client.unsubscribe("a")]
        seen += [client.publish("a", b"1", qos=1)]
        self.assertEqual({0}, {packet.flags for packet in seen if packet})
        client.take("PUBREL", flags=2)

    @statement("3.1.1", "MQTT-4.8.0-1")
    def test_reserved_types_close(self) -> None:
        """Types 0 and 15 are not MQTT 3.1.1."""
        for first in (0x00, 0x02, 0x0F, 0xF0, 0xF2, 0xFF):
            self.assert_closes(p.frame(first), f"first byte {first:#x}")
            self.assert_closes(p.frame(first, b"\0\1"), f"first byte {first:#x}")
            self.assert_connect_closes(p.frame(first, b"\0\1"), f"first byte {first:#x}")

    @statement("3.1.1", "MQTT-4.8.0-1")
    def test_packets_that_only_a_broker_sends_close(self) -> None:
        """A client has no CONNACK, SUBACK, UNSUBACK or PINGRESP to send."""
        for packet in (
            p.frame(0x20, b"\0\0"),
            p.frame(0x90, b"\0\1\0"),
            p.frame(0xB0, b"\0\1"),
            p.frame(0xD0),
        ):
            self.assert_closes(packet)

    def test_other_clients_do_not_notice_a_violation(self) -> None:
        """Only the connection that the violation came in on is closed."""
        other = self.subscriber("a")
        self.assert_closes(p.frame(0xF0))
        self.assert_works(other)


class RemainingLength(ProtocolCase):
    @statement("3.1.1", "MQTT-4.8.0-1")
    def test_length_of_five_bytes_closes(self) -> None:
        """The remaining length has at most four bytes: the fourth may not say "more"."""
        for length in (b"\x80\x80\x80\x80\x01", b"\xff\xff\xff\xff\x7f", b"\xff\xff\xff\xff"):
            self.assert_closes(p.frame(0x30, length=length))
            self.assert_connect_closes(p.frame(0x10, length=length))

    def test_lengths_at_the_borders_of_their_encoding(self) -> None:
        """One, two, three and four bytes of remaining length are read and written."""
        client = self.subscriber("t")
        for length in (127, 128, 16_383, 16_384, 2_097_151, 2_097_152):
            payload = b"x" * (length - 3)
            client.publish("t", payload)
            packet = client.expect("PUBLISH", topic="t")
            self.assertEqual(length, len(packet.body))
            self.assertEqual(payload, packet.payload)

    def test_packet_in_any_pieces(self) -> None:
        """How TCP cuts the stream makes no difference."""
        client = self.open()
        stream = (
            p.connect("c")
            + p.subscribe(1, ("t", 1))
            + p.publish("t", b"x" * 130, qos=1, pid=5)
            + p.pingreq()
        )
        client.send_slowly(stream)
        client.expect("CONNACK", reason=0)
        client.expect("SUBACK", pid=1, reasons=[1])
        client.take("PUBLISH", payload=b"x" * 130)
        client.take("PUBACK", pid=5)
        client.expect("PINGRESP")
        client.expect_nothing()

    def test_many_packets_in_one_piece(self) -> None:
        """All packets of one read are handled, in order."""
        client = self.open()
        client.send(
            p.connect("c"),
            p.subscribe(1, ("t", 0)),
            b"".join(p.publish("t", str(number)) for number in range(500)),
            p.pingreq(),
        )
        client.expect("CONNACK", reason=0)
        client.expect("SUBACK")
        for number in range(500):
            client.expect("PUBLISH", payload=str(number).encode())
        client.expect("PINGRESP")

    @statement("3.1.1", "MQTT-4.8.0-1")
    def test_packet_too_short_for_its_fields_closes(self) -> None:
        """A body that ends inside a field is malformed."""
        for first in (0x40, 0x50, 0x62, 0x70, 0x82, 0xA2):
            for body in (b"", b"\0"):
                self.assert_closes(p.frame(first, body), f"{first:#x} with {body!r}")
        self.assert_closes(p.frame(0x30))
        self.assert_closes(p.frame(0x30, b"\0"))
        self.assert_closes(p.frame(0x30, b"\0\5top"))
        self.assert_closes(p.frame(0x32, b"\0\1t"))
        self.assert_closes(p.frame(0x32, b"\0\1t\0"))
        self.assert_closes(p.frame(0x82, b"\0\1\0\5top"))
        self.assert_closes(p.frame(0x82, b"\0\1\0\1t"), "a filter without its QoS")
        self.assert_closes(p.frame(0xA2, b"\0\1\0\5top"))
        self.assert_closes(p.frame(0xA2, b"\0\1\0"))

    @statement("3.1.1", "MQTT-4.8.0-1")
    def test_packet_longer_than_its_fields_closes(self) -> None:
        """Bytes behind the last field are malformed; that includes version 5's reason codes."""
        for packet in (
            p.puback(1),
            p.pubrec(1),
            p.pubrel(1),
            p.pubcomp(1),
            p.pingreq(),
            p.disconnect(),
        ):
            first, body = p.split(packet)
            self.assert_closes(p.frame(first, body + b"\0"))
            self.assert_closes(p.frame(first, body + b"\0\0"))
        self.assert_connect_closes(p.frame(0x10, p.split(p.connect())[1] + b"\0"))


class PacketIds(ProtocolCase):
    @statement("3.1.1", "MQTT-2.3.1-1", "MQTT-4.8.0-1")
    def test_packet_id_zero_closes(self) -> None:
        """Packet id 0 is none."""
        self.assert_closes(p.publish("a", b"", qos=1, pid=0))
        self.assert_closes(p.publish("a", b"", qos=2, pid=0))
        self.assert_closes(p.subscribe(0, ("a", 0)))
        self.assert_closes(p.unsubscribe(0, "a"))
        for ack in (p.puback, p.pubrec, p.pubrel, p.pubcomp):
            self.assert_closes(ack(0), ack.__name__)

    @statement("3.1.1", "MQTT-2.3.1-5")
    def test_qos_0_has_no_packet_id(self) -> None:
        """What stands behind the topic of a QoS 0 PUBLISH is payload, both ways."""
        client = self.subscriber("t")
        client.send(p.publish("t", b"rest", pid=0x4142))
        packet = client.expect("PUBLISH", qos=0, payload=b"ABrest")
        self.assertEqual(p.utf8("t") + b"ABrest", packet.body)

    @statement("3.1.1", "MQTT-2.3.1-6")
    def test_acknowledgements_repeat_the_packet_id(self) -> None:
        """PUBACK, PUBREC, PUBCOMP and PUBREL carry the id of their PUBLISH."""
        client = self.connect()
        for pid in (1, 255, 256, 65535):
            client.send(p.publish("t", b"", qos=1, pid=pid))
            client.expect("PUBACK", pid=pid)
            client.send(p.publish("t", b"", qos=2, pid=pid))
            client.expect("PUBREC", pid=pid)
            client.send(p.pubrel(pid))
            client.expect("PUBCOMP", pid=pid)
        client.subscribe("t", 2)
        client.publish("t", b"back", qos=2)
        packet = client.expect("PUBLISH", qos=2)
        client.send(p.pubrec(packet.pid or 0))
        client.expect("PUBREL", pid=packet.pid)

    @statement("3.1.1", "MQTT-2.3.1-7", "MQTT-3.8.4-2", "MQTT-3.10.4-4")
    def test_suback_and_unsuback_echo_the_packet_id(self) -> None:
        """The answer to SUBSCRIBE and UNSUBSCRIBE has the id of the request."""
        client = self.connect()
        for pid in (1, 255, 256, 65535):
            client.send(p.subscribe(pid, ("a", 0)))
            client.expect("SUBACK", pid=pid)
            client.send(p.unsubscribe(pid, "a"))
            client.expect("UNSUBACK", pid=pid)

    @statement("3.1.1", "MQTT-2.3.1-4", "MQTT-4.3.2-1")
    def test_ids_in_flight_are_distinct(self) -> None:
        """The broker gives a new message an id that no unacknowledged one has."""
        client = self.subscriber("t", qos=2)
        for number in range(20):
            client.publish("t", b"", qos=1 + number % 2)
        first = [client.take("PUBLISH").pid for _ in range(20)]
        self.assertEqual(20, len(set(first)))

    @statement("3.1.1", "MQTT-2.3.1-4")
    def test_id_is_not_reused_before_its_acknowledgement(self) -> None:
        """When the ids wrap around, the one still in flight is left out, and so is 0."""
        self.start(max_inflight=6000)
        client = self.subscriber("t", qos=1)
        publisher = self.connect("pub")
        publisher.publish("t", b"held", qos=1)
        held = client.expect("PUBLISH", payload=b"held").pid
        for _ in range(14):
            publisher.send(b"".join(p.publish("t", b"", qos=1, pid=n) for n in range(1, 5001)))
            got = [client.expect("PUBLISH").pid or 0 for _ in range(5000)]
            self.assertNotIn(held, got)
            self.assertEqual(5000, len(set(got)))
            client.send(b"".join(map(p.puback, got)))
            self.assertEqual(5000, len(publisher.drain()))

    def test_ids_of_both_directions_are_independent(self) -> None:
        """The client's id 1 and the broker's id 1 are two different messages."""
        client = self.subscriber("t", qos=2)
        client.send(p.publish("t", b"one", qos=2, pid=1), p.pubrel(1))
        one = client.take("PUBLISH", payload=b"one")
        client.send(p.pubrec(one.pid or 0))
        client.take("PUBREL", pid=one.pid)
        client.send(p.publish("t", b"two", qos=2, pid=one.pid))
        client.take("PUBREC", pid=one.pid)
        client.send(p.pubcomp(one.pid or 0), p.pubrel(one.pid or 0))
        client.take("PUBCOMP", pid=one.pid)
        client.take("PUBLISH", payload=b"two")
