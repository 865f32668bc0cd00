"""Packets that a server sends, as an independent decoder reads them, within the client's size."""

from unittest import TestCase

from mhub.wire import encode, properties, reasons
from mhub.wire.packets import PUBACK, PUBCOMP, PUBREC, PUBREL
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop

WIDE = 1 << 28
TEXT = "the reason in words"


def read(frame: bytes, version: int) -> Packet:
    first, body = p.split(frame)
    packet = p.decode(first, body, version)
    assert packet.size == len(frame), "the remaining length is in its shortest form"
    return packet


class Acknowledgements(TestCase):
    NAMES = ((PUBACK, "PUBACK"), (PUBREC, "PUBREC"), (PUBREL, "PUBREL"), (PUBCOMP, "PUBCOMP"))

    def test_without_a_reason(self) -> None:
        for kind, name in self.NAMES:
            for version in (3, 4, 5):
                packet = read(encode.ack(kind, 0x0102, 0), version)
                self.assertEqual((packet.type, packet.pid), (name, 0x0102))
                self.assertEqual(packet.size, 4)

    def test_with_a_reason(self) -> None:
        for kind, name in self.NAMES:
            packet = read(encode.ack(kind, 65535, 0x92), 5)
            self.assertEqual((packet.type, packet.pid, packet.reason), (name, 65535, 0x92))

    def test_with_a_reason_in_words(self) -> None:
        for kind, name in self.NAMES:
            packet = read(encode.ack_explained(kind, 9, 0x97, TEXT, WIDE), 5)
            self.assertEqual((packet.type, packet.pid, packet.reason), (name, 9, 0x97))
            self.assertEqual(packet.prop(Prop.REASON_STRING), TEXT)

    def test_words_are_left_out_when_they_do_not_fit(self) -> None:
        """[MQTT-3.4.2-2] and its like"""
        whole = encode.ack_explained(PUBACK, 9, 0x97, TEXT, WIDE)
        self.assertEqual(encode.ack_explained(PUBACK, 9, 0x97, TEXT, len(whole)), whole)
        for room in (len(whole) - 1, 6, 5):
            packet = read(encode.ack_explained(PUBACK, 9, 0x97, TEXT, room), 5)
            self.assertLessEqual(packet.size, room)
            self.assertEqual((packet.reason, packet.props), (0x97, []))


class Connacks(TestCase):
    def test_before_version_5(self) -> None:
        self.assertEqual(encode.connack_v3(False, 0), b"\x20\x02\x00\x00")
        self.assertEqual(encode.connack_v3(True, 0), b"\x20\x02\x01\x00")
        self.assertEqual(encode.connack_v3(False, 5), b"\x20\x02\x00\x05")

    def test_version_5(self) -> None:
        props = properties.number(Prop.RECEIVE_MAXIMUM, 10)
        props += properties.text(Prop.ASSIGNED_CLIENT_ID, "é" * 100)
        packet = read(encode.connack_v5(True, 0, props), 5)
        self.assertTrue(packet.session_present)
        expected = [(Prop.RECEIVE_MAXIMUM, 10), (Prop.ASSIGNED_CLIENT_ID, "é" * 100)]
        self.assertEqual(packet.props, expected)

    def test_a_refusal_says_why_if_there_is_room(self) -> None:
        """[MQTT-3.2.2-6]: without Session Present; [MQTT-3.2.2-19]: within the packet size."""
        packet = read(encode.refusal_v5(0x87, TEXT, WIDE), 5)
        self.assertEqual((packet.session_present, packet.reason), (False, 0x87))
        self.assertEqual(packet.prop(Prop.REASON_STRING), TEXT)
        packet = read(encode.refusal_v5(0x87, TEXT, 20), 5)
        self.assertEqual((packet.reason, packet.props), (0x87, []))


class Subscriptions(TestCase):
    def test_suback(self) -> None:
        codes = bytes([0, 1, 2, 0x80])
        for version in (3, 4, 5):
            packet = read(encode.suback(7, codes, version, "", WIDE), version)
            self.assertEqual((packet.type, packet.pid, packet.reasons), ("SUBACK", 7, [*codes]))

    def test_suback_in_words(self) -> None:
        packet = read(encode.suback(7, b"\x97", 5, TEXT, WIDE), 5)
        self.assertEqual(packet.prop(Prop.REASON_STRING), TEXT)
        self.assertEqual(read(encode.suback(7, b"\x97", 5, TEXT, 10), 5).props, [])
        self.assertEqual(encode.suback(7, b"\x80", 4, TEXT, WIDE), b"\x90\x03\x00\x07\x80")

    def test_unsuback(self) -> None:
        self.assertEqual(encode.unsuback(7, b"\0\x11", 4), b"\xb0\x02\x00\x07")
        self.assertEqual(read(encode.unsuback(7, b"\0\x11", 5), 5).reasons, [0, 0x11])

    def test_more_codes_than_127(self) -> None:
        self.assertEqual(len(read(encode.suback(7, bytes(300), 5, "", WIDE), 5).reasons), 300)


class Ends(TestCase):
    def test_disconnect(self) -> None:
        packet = read(encode.disconnect(0x8E, TEXT, WIDE), 5)
        self.assertEqual((packet.type, packet.reason), ("DISCONNECT", 0x8E))
        self.assertEqual(packet.prop(Prop.REASON_STRING), TEXT)

    def test_disconnect_in_little_room(self) -> None:
        for room in (10, 4, 3):
            packet = read(encode.disconnect(0x8E, TEXT, room), 5)
            self.assertLessEqual(packet.size, room)
            self.assertEqual(packet.reason, 0x8E)

    def test_auth(self) -> None:
        packet = read(encode.auth(0x18, "method", b"\0data"), 5)
        self.assertEqual((packet.type, packet.reason), ("AUTH", 0x18))
        expected = [(Prop.AUTH_METHOD, "method"), (Prop.AUTH_DATA, b"\0data")]
        self.assertEqual(packet.props, expected)
        self.assertEqual(read(encode.auth(0, "m", b""), 5).props, [(Prop.AUTH_METHOD, "m")])

    def test_pingresp(self) -> None:
        self.assertEqual(read(encode.PINGRESP, 4).type, "PINGRESP")


class Reasons(TestCase):
    def test_every_code_has_a_name(self) -> None:
        codes = {
            value
            for name, value in vars(reasons).items()
            if name.isupper() and not name.startswith("V3_") and isinstance(value, int)
        }
        self.assertEqual(codes, set(reasons.NAMES))
        self.assertEqual(reasons.name(0x8E), "session taken over")

    def test_an_unknown_code_is_shown_as_a_number(self) -> None:
        self.assertEqual(reasons.name(0xFE), "reason 0xfe")

    def test_return_codes_of_old_versions(self) -> None:
        """[MQTT-3.2.2-4] to [MQTT-3.2.2-6]: only codes 1 to 5 exist."""
        self.assertEqual(set(reasons.V3_RETURN_CODES.values()), {1, 2, 3, 4, 5})
