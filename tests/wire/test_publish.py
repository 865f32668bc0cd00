"""PUBLISH both ways: nothing is lost on the way, and only what belongs to one hop changes."""

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.wire import publish, reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.properties import SUBSCRIPTION_ID, number
from mhub.wire.publish import IN_WILL, Publish
from tests.fuzz import portrait
from tests.fuzz.bank import PACKETS, Vector
from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.helpers.splits import steady

VECTORS = [vector for vector in PACKETS if vector.data[0] >> 4 == 3]
MAX = portrait.MAX_PROPERTIES


def decode(data: bytes, version: int) -> Publish:
    """Alone, and amid other bytes with the same outcome."""
    first, body = p.split(data)
    message = publish.decode(body, first, 0, len(body), version, MAX)
    amid = publish.decode(b"\xff\xff" + body + b"\xff", first, 2, 2 + len(body), version, MAX)
    assert portrait.of_publish(amid) == portrait.of_publish(message)
    return message


def forward(message: Publish, version: int, qos: int = 0, pid: int = 0, **more: Any) -> bytes:
    """The message as a broker sends it on."""
    topic = publish.topic_field(message.topic_data)
    first = 0x30 | qos << 1
    if version < 5:
        return publish.encode_v3(first, topic, pid, message.payload, 0)
    properties = message.properties + more.get("ids", b"")
    return publish.encode_v5(first, topic, pid, properties, message.payload, 0)


class Decoding(TestCase):
    def test_fields_of_a_message(self) -> None:
        for version in (3, 4, 5):
            message = decode(p.publish("t/é", b"\0x", 2, 513, True, True, version=version), version)
            found = portrait.of_publish(message)
            expected = {"topic_data": "t/é".encode(), "payload": b"\0x", "qos": 2, "retain": True}
            expected |= {"dup": True, "pid": 513, "properties": b"", "alias": 0, "expiry_s": -1}
            self.assertEqual({name: found[name] for name in expected}, expected)

    def test_the_bank(self) -> None:
        """Right ones are decoded, wrong ones refused with their reason, or later by routing."""
        wrong = {
            (vector.name, vector.version): reason
            for vector in VECTORS
            if (reason := self.reason(vector.data, vector.version)) != self.expected(vector)
        }
        self.assertEqual(wrong, {})

    def expected(self, vector: Vector) -> int:
        # The topic is not looked at before routing, an alias not before its connection.
        later = ("wildcard", "UTF-8", "U+0000", "alias too large", "without name")
        return 0 if any(word in vector.name for word in later) else vector.reason

    def reason(self, data: bytes, version: int) -> int:
        try:
            decode(data, version)
        except ProtocolFault as fault:
            return fault.reason
        return 0

    def test_cut_off_at_every_byte(self) -> None:
        """A shorter body is a shorter payload or a fault, never anything else."""
        props = [(Prop.MESSAGE_EXPIRY, 5), (Prop.USER_PROPERTY, ("k", "v")), (Prop.TOPIC_ALIAS, 3)]
        for version in (4, 5):
            whole = p.publish("topic", b"", 1, 9, props=props, version=version)
            first, body = p.split(whole)
            for size in range(len(body)):
                with self.assertRaises(ProtocolFault):
                    publish.decode(body, first, 0, size, version, MAX)

    def test_the_topic_alias_stays_behind(self) -> None:
        """[MQTT-3.3.2-7]: it belongs to one connection; what stands around it is kept in order."""
        before = [(Prop.CONTENT_TYPE, "a/b")]
        behind = [(Prop.USER_PROPERTY, ("k", "v")), (Prop.PAYLOAD_FORMAT, 1)]
        message = decode(
            p.publish("t", b"x", props=[*before, (Prop.TOPIC_ALIAS, 7), *behind], version=5), 5
        )
        self.assertEqual(message.alias, 7)
        self.assertEqual(message.properties, p.properties([*before, *behind])[1:])

    def test_properties_are_bounded(self) -> None:
        props = [(Prop.USER_PROPERTY, ("k", "v" * 40))]
        body = p.split(p.publish("t", b"x", props=props, version=5))[1]
        size = len(p.properties(props))
        publish.decode(body, 0x30, 0, len(body), 5, size)
        with self.assertRaises(ProtocolFault) as caught:
            publish.decode(body, 0x30, 0, len(body), 5, size - 1)
        self.assertEqual(caught.exception.reason, reasons.PACKET_TOO_LARGE)

    def test_where_the_expiry_stands(self) -> None:
        for around in ([], [(Prop.TOPIC_ALIAS, 7)], [(Prop.CONTENT_TYPE, "a/b")]):
            props = [*around, (Prop.MESSAGE_EXPIRY, 0x01020304), (Prop.PAYLOAD_FORMAT, 0)]
            message = decode(p.publish("t", b"x", props=props, version=5), 5)
            self.assertEqual(message.expiry_s, 0x01020304)
            at = message.expiry_at
            self.assertEqual(message.properties[at : at + 4], b"\x01\x02\x03\x04")

    @given(st.integers(0, 15), st.binary(max_size=40), st.sampled_from([3, 4, 5]))
    @steady
    def test_any_body_gives_a_message_or_a_fault(
        self, flags: int, body: bytes, version: int
    ) -> None:
        try:
            message = publish.decode(body, 0x30 | flags, 0, len(body), version, MAX)
        except ProtocolFault:
            return
        self.assertLessEqual(len(message.topic_data) + len(message.payload), len(body))


PROPERTIES = st.lists(
    st.one_of(
        st.tuples(st.just(Prop.USER_PROPERTY), st.tuples(st.text("ab", max_size=3), st.just("v"))),
        st.tuples(st.just(Prop.CONTENT_TYPE), st.text("a/", max_size=4)),
        st.tuples(st.just(Prop.RESPONSE_TOPIC), st.text("a/", min_size=1, max_size=4)),
        st.tuples(st.just(Prop.CORRELATION_DATA), st.binary(max_size=4)),
        st.tuples(st.just(Prop.MESSAGE_EXPIRY), st.integers(0, 0xFFFFFFFF)),
        st.tuples(st.just(Prop.TOPIC_ALIAS), st.integers(1, 65535)),
    ),
    max_size=6,
    unique_by=lambda item: item[0] if item[0] != Prop.USER_PROPERTY else object(),
)


class Forwarding(TestCase):
    @given(
        st.text("ab/é", min_size=1, max_size=20),
        st.binary(max_size=300),
        PROPERTIES,
        st.integers(0, 2),
        st.sampled_from([3, 4, 5]),
    )
    @steady
    def test_what_came_in_goes_out(
        self, topic: str, payload: bytes, props: list[Any], qos: int, version: int
    ) -> None:
        """Topic, payload and, in version 5, all properties but the alias, as an independent
        decoder reads them."""
        pid = 77 if qos else None
        message = decode(p.publish(topic, payload, 1, 5, props=props, version=version), version)
        first, body = p.split(forward(message, version, qos, pid or 0))
        found = p.decode(first, body, version)
        self.assertEqual(
            (found.topic, found.payload, found.qos, found.pid), (topic, payload, qos, pid)
        )
        kept = [item for item in props if item[0] != Prop.TOPIC_ALIAS] if version == 5 else []
        self.assertEqual(found.props, kept)

    def test_remaining_lengths_around_every_limit(self) -> None:
        for version in (4, 5):
            for qos in (0, 1):
                for size in (*range(110, 135), *range(16_370, 16_390)):
                    message = Publish(b"t", bytes(size), qos, False)
                    first, body = p.split(forward(message, version, qos, qos))
                    self.assertEqual(p.decode(first, body, version).payload, bytes(size))

    def test_a_large_payload_may_follow_its_head(self) -> None:
        """Head and payload apart give the same bytes as together."""
        topic = publish.topic_field(b"t/opic")
        for size in (0, 100, 127, 128, 20_000, 3_000_000):
            payload = bytes(size)
            for first, pid in ((0x30, 0), (0x33, 258)):
                whole = publish.encode_v3(first, topic, pid, payload, 0)
                head = publish.encode_v3(first, topic, pid, b"", size)
                self.assertEqual(head + payload, whole)
                whole = publish.encode_v5(first, topic, pid, b"\x01\x01", payload, 0)
                head = publish.encode_v5(first, topic, pid, b"\x01\x01", b"", size)
                self.assertEqual(head + payload, whole)

    def test_subscription_identifiers_are_added(self) -> None:
        message = decode(p.publish("t", b"x", props=[(Prop.CONTENT_TYPE, "c")], version=5), 5)
        ids = number(SUBSCRIPTION_ID, 1) + number(SUBSCRIPTION_ID, 300)
        first, body = p.split(forward(message, 5, ids=ids))
        found = p.decode(first, body, 5)
        self.assertEqual(found.all_props(Prop.SUBSCRIPTION_ID), [1, 300])
        self.assertEqual(found.prop(Prop.CONTENT_TYPE), "c")


class Expiry(TestCase):
    def message(self, seconds: int, since: float) -> Publish:
        props = [(Prop.TOPIC_ALIAS, 2), (Prop.MESSAGE_EXPIRY, seconds), (Prop.CONTENT_TYPE, "c")]
        message = decode(p.publish("t", b"x", props=props, version=5), 5)
        message.expires_at = since + seconds
        return message

    def left(self, message: Publish, now: float) -> int:
        frame = publish.encode_v5(
            0x30, publish.topic_field(b"t"), 0, publish.with_expiry(message, now), b"x", 0
        )
        found = p.decode(*p.split(frame), 5)
        self.assertEqual(found.prop(Prop.CONTENT_TYPE), "c")
        left = found.prop(Prop.MESSAGE_EXPIRY)
        assert isinstance(left, int)
        return left

    def test_the_time_that_is_left_is_forwarded(self) -> None:
        """[MQTT-3.3.2-6]"""
        message = self.message(60, 1000.0)
        self.assertEqual(self.left(message, 1000.0), 60)
        self.assertEqual(self.left(message, 1012.0), 48)
        self.assertEqual(self.left(message, 1060.0), 0)

    def test_never_less_than_nothing(self) -> None:
        self.assertEqual(self.left(self.message(60, 1000.0), 2000.0), 0)

    def test_a_clock_that_is_set_back_makes_no_message_live_longer(self) -> None:
        for seconds in (60, 0xFFFFFFFF):
            self.assertEqual(self.left(self.message(seconds, 1000.0), 900.0), seconds)

    def test_a_message_without_expiry_is_forwarded_as_it_is(self) -> None:
        message = decode(p.publish("t", b"x", props=[(Prop.CONTENT_TYPE, "c")], version=5), 5)
        self.assertIs(publish.with_expiry(message, 5.0), message.properties)


class Wills(TestCase):
    def test_a_will_keeps_its_properties_but_the_delay(self) -> None:
        props = [(Prop.WILL_DELAY, 30), (Prop.MESSAGE_EXPIRY, 9), (Prop.CONTENT_TYPE, "c")]
        block = p.properties(props)
        found, behind = publish.read_properties(block, 0, len(block), IN_WILL)
        will = publish.will(b"w", b"bye", 1, True, found)
        self.assertEqual((behind, found.will_delay_s, will.expiry_s), (len(block), 30, 9))
        self.assertEqual(will.properties, p.properties(props[1:])[1:])

    def test_a_will_that_is_not_the_text_it_claims(self) -> None:
        block = p.properties([(Prop.PAYLOAD_FORMAT, 1)])
        found, _ = publish.read_properties(block, 0, len(block), IN_WILL)
        with self.assertRaises(ProtocolFault) as caught:
            publish.will(b"w", b"\xff", 0, False, found)
        self.assertEqual(caught.exception.reason, reasons.PAYLOAD_FORMAT_INVALID)

    def test_no_topic_alias_in_a_will(self) -> None:
        block = p.properties([(Prop.TOPIC_ALIAS, 1)])
        with self.assertRaises(ProtocolFault) as caught:
            publish.read_properties(block, 0, len(block), IN_WILL)
        self.assertEqual(caught.exception.reason, reasons.MALFORMED_PACKET)
