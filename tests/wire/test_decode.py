"""Packets from clients: what they say, at any split, and the reason why others are refused."""

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.wire import decode, reasons
from mhub.wire.errors import ProtocolFault
from tests.fuzz import bank, portrait
from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.helpers.splits import one_by_one, steady

VECTORS = [vector for vector in bank.ALL if vector.data[0] >> 4 != 3]


def one(data: bytes, version: int = 4) -> object:
    """What the only packet of data says."""
    found = portrait.stream(data, version)
    assert len(found) == 1, found
    return found[0][1]


class Frames(TestCase):
    LENGTHS = (0, 1, 127, 128, 16_383, 16_384, 2_097_151, 2_097_152, 268_435_455)

    def test_every_length_of_the_length(self) -> None:
        for length in self.LENGTHS:
            head = p.frame(0xC0, b"", length)
            self.assertEqual(decode.frame(head, 0, len(head)), (len(head), len(head) + length))

    def test_nothing_is_said_before_the_length_is_there(self) -> None:
        for length in self.LENGTHS:
            head = p.frame(0xC0, b"", length)
            for size in range(1, len(head)):
                self.assertEqual(decode.frame(head, 0, size), (0, 0))

    def test_amid_other_bytes(self) -> None:
        data = b"\xff\xff\xff" + p.frame(0x30, bytes(300)) + b"\xff"
        self.assertEqual(decode.frame(data, 3, len(data)), (6, 306))

    def test_no_fifth_byte(self) -> None:
        """It is refused as soon as the fourth byte promises one."""
        with self.assertRaises(ProtocolFault) as caught:
            decode.frame(b"\xc0\x80\x80\x80\x80", 0, 5)
        self.assertEqual(caught.exception.reason, reasons.MALFORMED_PACKET)

    def test_a_stream_is_cut_where_its_packets_end(self) -> None:
        packets = [p.pingreq(), p.publish("t", bytes(200)), p.puback(1), p.disconnect()]
        found = portrait.stream(b"".join(packets), 4)
        self.assertEqual(
            [kind for kind, _ in found], ["PINGREQ", "PUBLISH", "PUBACK", "DISCONNECT"]
        )


class Bank(TestCase):
    # What the decoder lets through, since the connection or the hub knows better.
    LATER = ("flags", "second CONNECT", "from a client", "type 0", "bad filter", "empty filter")
    LATER += ("empty share", "unknown method", "late expiry", "AUTH")

    def outcome(self, data: bytes, version: int) -> int:
        last = portrait.stream(data, version)[-1]
        return int(last[1]) if last[0] == "fault" else 0

    def test_right_ones_are_read_and_wrong_ones_refused(self) -> None:
        wrong = {
            (vector.name, vector.version): reason
            for vector in VECTORS
            if (reason := self.outcome(vector.data, vector.version)) != self.expected(vector)
        }
        self.assertEqual(wrong, {})

    def expected(self, vector: bank.Vector) -> int:
        return 0 if any(word in vector.name for word in self.LATER) else vector.reason

    def test_with_a_tail(self) -> None:
        """What stands behind a packet changes nothing in it."""
        for vector in VECTORS:
            alone = portrait.stream(vector.data, vector.version)
            if alone[-1][0] == "fault":
                continue
            tailed = portrait.stream(vector.data + p.pingreq(), vector.version)
            self.assertEqual(tailed, [*alone, ("PINGREQ", None)], vector.name)

    def test_cut_off_bodies(self) -> None:
        """A body that ends early is a shorter packet or a clean fault."""
        for vector in VECTORS:
            first, body = p.split(vector.data)
            for size in range(len(body)):
                portrait.stream(p.frame(first, body[:size]), vector.version)

    def test_byte_by_byte_there_is_always_more_to_come(self) -> None:
        for vector in VECTORS:
            so_far = b""
            for byte in one_by_one(vector.data)[:-1]:
                so_far += byte
                last = portrait.stream(so_far, vector.version)[-1]
                if last[0] != "more":  # only a length that cannot be
                    self.assertEqual(last[:2], ("fault", vector.reason), vector.name)
                    break


class Connects(TestCase):
    def test_everything_in_a_connect(self) -> None:
        props = [(Prop.RECEIVE_MAXIMUM, 5), (Prop.AUTH_METHOD, "m"), (Prop.AUTH_DATA, b"\0d")]
        will = ("w/t", b"\0bye", 1, True, [(Prop.WILL_DELAY, 30), (Prop.MESSAGE_EXPIRY, 7)])
        found = one(p.connect("id", 5, False, 513, "us", b"\0pw", will, props))
        assert isinstance(found, dict)
        will_found = found.pop("will")
        self.assertEqual(
            found,
            {
                "version": 5,
                "client_id": "id",
                "clean": False,
                "keepalive_s": 513,
                "username": "us",
                "password": b"\0pw",
                "will_delay_s": 30,
                "properties": {
                    "numbers": {Prop.RECEIVE_MAXIMUM: 5},
                    "texts": {Prop.AUTH_METHOD: "m"},
                    "binary": {Prop.AUTH_DATA: b"\0d"},
                },
            },
        )
        expected = {"topic_data": b"w/t", "payload": b"\0bye", "qos": 1, "retain": True}
        expected |= {"expiry_s": 7, "properties": p.properties([(Prop.MESSAGE_EXPIRY, 7)])[1:]}
        self.assertEqual({name: will_found[name] for name in expected}, expected)

    def test_what_is_not_given(self) -> None:
        for version in (3, 4, 5):
            found = one(p.connect("", version))
            assert isinstance(found, dict)
            self.assertEqual((found["username"], found["password"], found["will"]), (None,) * 3)
            self.assertEqual(found["client_id"], "")

    def test_an_empty_user_name_is_not_none(self) -> None:
        found = one(p.connect("c", 4, username="", password=b""))
        assert isinstance(found, dict)
        self.assertEqual((found["username"], found["password"]), ("", b""))

    def test_versions(self) -> None:
        """Name and level together; an unknown level is for the caller to answer, and how."""
        known = {("MQTT", 4): 4, ("MQTT", 5): 5, ("MQIsdp", 3): 3}
        above = {("MQTT", level) for level in range(6, 256) if level not in (0x83, 0x84)}
        for name in ("MQTT", "MQIsdp"):
            for level in range(256):
                body = p.utf8(name) + bytes([level])
                pair = (name, level)
                expected = (known.get(pair, 5 if pair in above else 4), pair in known, len(body))
                self.assertEqual(decode.connect_version(body, 0, len(body)), expected, pair)

    def test_another_protocol(self) -> None:
        for name in ("", "mqtt", "MQTTX", "MQTT\0", "x" * 65535):
            body = p.utf8(name) + b"\x04"
            with self.assertRaises(ProtocolFault) as caught:
                decode.connect_version(body, 0, len(body))
            self.assertEqual(caught.exception.reason, reasons.UNSUPPORTED_VERSION)
            self.assertLess(len(caught.exception.text), 100)

    def test_a_password_alone(self) -> None:
        """MQTT 5 allows it, [MQTT-3.1.2-22] of 3.1.1 does not."""
        found = one(p.connect("c", 5, password=b"pw"))
        assert isinstance(found, dict)
        self.assertEqual((found["username"], found["password"]), (None, b"pw"))
        self.assertEqual(portrait.stream(p.connect("c", 4, password=b"pw"), 4)[0][0], "fault")


class Others(TestCase):
    def test_subscribe(self) -> None:
        options = p.options(1, no_local=True, as_published=True, handling=2)
        found = one(
            p.subscribe(
                513, ("a/#", options), ("é", 2), props=[(Prop.SUBSCRIPTION_ID, 300)], version=5
            ),
            5,
        )
        plain = {"no_local": False, "retain_as_published": False, "retain_handling": 0}
        rich = {"no_local": True, "retain_as_published": True, "retain_handling": 2}
        self.assertEqual(
            found,
            {
                "pid": 513,
                "subscription_id": 300,
                "requests": [
                    {"topic_filter": "a/#", "qos": 1, **rich},
                    {"topic_filter": "é", "qos": 2, **plain},
                ],
            },
        )

    def test_unsubscribe(self) -> None:
        for version in (3, 4, 5):
            found = one(p.unsubscribe(9, "a", "b/+", version=version), version)
            self.assertEqual(found, {"pid": 9, "filters": ["a", "b/+"]})

    def test_acknowledgements(self) -> None:
        for first in (0x40, 0x50, 0x62, 0x70):
            for version in (3, 4, 5):
                self.assertEqual(one(p.frame(first, b"\x02\x01"), version), (0x0201, 0))
        self.assertEqual(one(p.pubrec(7, 0x97), 5), (7, 0x97))
        self.assertEqual(one(p.pubrel(7, 0x92), 5), (7, 0x92))

    def test_reasons_belong_to_their_packet(self) -> None:
        """[MQTT-3.4.2-1], [MQTT-3.5.2-1], [MQTT-3.6.2-1], [MQTT-3.7.2-1], [MQTT-3.14.2-1]"""
        publish_replies = {0, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99}
        disconnects = {0, 4, *range(0x80, 0x84), 0x90, *range(0x93, 0x9A)}
        for first, allowed in (
            *((0x40, publish_replies), (0x50, publish_replies)),
            *((0x62, {0, 0x92}), (0x70, {0, 0x92})),
        ):
            accepted = {
                reason
                for reason in range(256)
                if portrait.stream(p.frame(first, b"\0\x01" + bytes([reason])), 5)[0][0] != "fault"
            }
            self.assertEqual(accepted, allowed)
        accepted = {
            reason
            for reason in range(256)
            if portrait.stream(p.disconnect(reason), 5)[0][0] != "fault"
        }
        self.assertEqual(accepted, disconnects)

    def test_disconnect(self) -> None:
        self.assertEqual(one(p.disconnect(), 5), {"reason": 0, "session_expiry_s": -1})
        found = one(p.disconnect(4, [(Prop.SESSION_EXPIRY, 0)]), 5)
        self.assertEqual(found, {"reason": 4, "session_expiry_s": 0})

    def test_auth(self) -> None:
        props = [(Prop.AUTH_METHOD, "m"), (Prop.AUTH_DATA, b"\0")]
        found = one(p.auth(0x18, props), 5)
        self.assertEqual(found, {"reason": 0x18, "method": "m", "data": b"\0"})
        for reason in {*range(256)} - {0x18, 0x19}:
            self.assertEqual(portrait.stream(p.auth(reason, props), 5)[0][:2], ("fault", 0x82))


class AnyBytes(TestCase):
    @given(st.integers(0, 255), st.binary(max_size=60), st.sampled_from([3, 4, 5]))
    @steady
    def test_any_body_gives_a_packet_or_a_fault(
        self, first: int, body: bytes, version: int
    ) -> None:
        found = portrait.stream(p.frame(first, body), version)
        self.assertEqual(len(found), 1)
