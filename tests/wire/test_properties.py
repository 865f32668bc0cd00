"""MQTT 5 properties: each in its type and place, once, within its bounds."""

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.wire import properties
from mhub.wire.errors import ProtocolFault
from mhub.wire.properties import KINDS, NONE, Properties
from mhub.wire.reasons import MALFORMED_PACKET, PROTOCOL_ERROR
from tests.fuzz import portrait
from tests.helpers import packets as p
from tests.helpers import properties as independent
from tests.helpers.packets import Prop
from tests.helpers.splits import steady

EVERYTHING = frozenset(KINDS)
# What a client may send in which packet: what the code allows, and section 2.2.2.2's table.
PLACES = (
    (properties.IN_CONNECT, {0x11, 0x15, 0x16, 0x17, 0x19, 0x21, 0x22, 0x26, 0x27}),
    (properties.IN_ACK, {0x1F, 0x26}),
    (properties.IN_SUBSCRIBE, {0x0B, 0x26}),
    (properties.IN_UNSUBSCRIBE, {0x26}),
    (properties.IN_DISCONNECT, {0x11, 0x1C, 0x1F, 0x26}),
    (properties.IN_AUTH, {0x15, 0x16, 0x1F, 0x26}),
)


def sample(identifier: int) -> object:
    """A value that the property may have."""
    kind = KINDS[identifier]
    if kind == properties.TEXT:
        return "té"
    if kind == properties.DATA:
        return b"\0\xff"
    return ("k", "v") if kind == properties.PAIR else 1


def read(block: bytes, allowed: frozenset[int] = EVERYTHING) -> Properties:
    """The block alone, and again amid other bytes, with the same outcome."""
    found, behind = properties.read(block, 0, len(block), allowed)
    assert behind == len(block)
    amid, behind = properties.read(b"??" + block + b"??", 2, 2 + len(block), allowed)
    assert behind == 2 + len(block)
    assert portrait.of_properties(amid) == portrait.of_properties(found)
    return found


class Reading(TestCase):
    def test_every_property_in_its_type(self) -> None:
        for identifier in KINDS:
            value = sample(identifier)
            found = read(p.properties([(identifier, value)]))
            kept = {**found.numbers, **found.texts, **found.binary}
            if identifier != Prop.USER_PROPERTY:
                self.assertEqual(kept, {identifier: value})
                self.assertTrue(found.has(identifier))

    def test_the_table_of_types_is_that_of_the_specification(self) -> None:
        kinds = {1: properties.BYTE, 2: properties.U16, 4: properties.U32, "text": properties.TEXT}
        kinds |= {"varint": properties.VARINT, "binary": properties.DATA, "pair": properties.PAIR}
        expected = {int(key): kinds[kind] for key, kind in independent.KINDS.items()}
        self.assertEqual(KINDS, expected)

    def test_no_properties(self) -> None:
        self.assertIs(read(b"\0"), NONE)
        self.assertEqual(NONE.number(Prop.SESSION_EXPIRY, 7), 7)

    def test_numbers_at_their_ends(self) -> None:
        for value in (0, 1, 0xFFFFFFFF):
            found = read(p.properties([(Prop.SESSION_EXPIRY, value)]))
            self.assertEqual(found.number(Prop.SESSION_EXPIRY, 9), value)

    def test_a_block_of_more_than_127_bytes(self) -> None:
        found = read(p.properties([(Prop.REASON_STRING, "x" * 200)]))
        self.assertEqual(found.texts, {Prop.REASON_STRING: "x" * 200})


class Refusals(TestCase):
    def refuse(self, block: bytes, reason: int, allowed: frozenset[int] = EVERYTHING) -> None:
        with self.assertRaises(ProtocolFault) as caught:
            properties.read(block, 0, len(block), allowed)
        self.assertEqual(caught.exception.reason, reason, block)

    def test_every_property_only_where_it_belongs(self) -> None:
        """Section 2.2.2.2: one that is not meant for a packet makes it malformed."""
        for allowed, expected in PLACES:
            self.assertEqual(allowed, expected)
            for identifier in KINDS:
                block = p.properties([(identifier, sample(identifier))])
                if identifier in expected:
                    read(block, allowed)
                else:
                    self.refuse(block, MALFORMED_PACKET, allowed)

    def test_what_is_no_property(self) -> None:
        for identifier in {*range(256)} - EVERYTHING:
            self.refuse(p.properties([(identifier, b"\0\0\0\0")]), MALFORMED_PACKET)

    def test_none_twice(self) -> None:
        for identifier in EVERYTHING - {Prop.USER_PROPERTY}:
            pair = [(identifier, sample(identifier))] * 2
            self.refuse(p.properties(pair), PROTOCOL_ERROR)

    def test_user_properties_any_number_of_times(self) -> None:
        read(p.properties([(Prop.USER_PROPERTY, ("same", "same"))] * 50))

    def test_bytes_are_0_or_1(self) -> None:
        for identifier, kind in KINDS.items():
            if kind == properties.BYTE:
                read(p.properties([(identifier, 0)]))
                self.refuse(p.properties([(identifier, 2)]), PROTOCOL_ERROR)

    def test_what_must_not_be_0(self) -> None:
        for identifier in (
            *(Prop.RECEIVE_MAXIMUM, Prop.MAXIMUM_PACKET_SIZE, Prop.SUBSCRIPTION_ID),
            Prop.TOPIC_ALIAS,
        ):
            self.refuse(p.properties([(identifier, 0)]), PROTOCOL_ERROR)

    def test_cut_off_at_every_byte(self) -> None:
        """Shorter than its length says, or with a length that ends inside a property."""
        for identifier in KINDS:
            body = p.properties([(identifier, sample(identifier))])[1:]
            for size in range(1, len(body)):
                self.refuse(bytes([len(body)]) + body[:size], MALFORMED_PACKET)
                self.refuse(bytes([size]) + body, MALFORMED_PACKET)

    def test_bad_text(self) -> None:
        self.refuse(p.properties([(Prop.REASON_STRING, b"\xff")]), MALFORMED_PACKET)
        self.refuse(p.properties([(Prop.USER_PROPERTY, ("a\0", "b"))]), MALFORMED_PACKET)

    @given(st.binary(max_size=40))
    @steady
    def test_any_bytes_give_properties_or_a_fault(self, data: bytes) -> None:
        try:
            found, behind = properties.read(data, 0, len(data), EVERYTHING)
        except ProtocolFault:
            return
        self.assertLessEqual(behind, len(data))
        self.assertIsInstance(found, Properties)


class Writing(TestCase):
    def test_what_is_written_is_read_again(self) -> None:
        for identifier, kind in KINDS.items():
            value = sample(identifier)
            if kind == properties.TEXT:
                assert isinstance(value, str)
                written = properties.text(identifier, value)
            elif kind == properties.DATA:
                assert isinstance(value, bytes)
                written = properties.binary(identifier, value)
            elif kind == properties.PAIR:
                continue
            else:
                assert isinstance(value, int)
                written = properties.number(identifier, value)
            self.assertEqual(properties.block(written), p.properties([(identifier, value)]))

    def test_an_empty_block_is_one_zero(self) -> None:
        """[MQTT-2.2.2-1]"""
        self.assertEqual(properties.block(b""), b"\0")
