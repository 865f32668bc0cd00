"""Integers, strings and binary data: read as they were written, refused where MQTT refuses them."""

from collections.abc import Callable
from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.wire import primitives
from mhub.wire.errors import ProtocolFault
from mhub.wire.reasons import MALFORMED_PACKET
from tests.helpers.splits import steady

Reader = Callable[[bytes, int, int], tuple[Any, int]]


class Case(TestCase):
    def check(self, reader: Reader, data: bytes, value: object) -> None:
        """Read alone, amid other bytes, and cut off at every place: then it is malformed."""
        size = len(data)
        self.assertEqual(reader(data, 0, size), (value, size))
        self.assertEqual(reader(b"\xff\xff" + data + b"\xff\xff", 2, 2 + size), (value, 2 + size))
        for end in range(size):
            self.refuse(reader, data, end=end)

    def refuse(self, reader: Reader, data: bytes, end: int | None = None) -> None:
        with self.assertRaises(ProtocolFault) as caught:
            reader(data, 0, len(data) if end is None else end)
        self.assertEqual(caught.exception.reason, MALFORMED_PACKET)
        self.assertTrue(caught.exception.text)


class Integers(Case):
    def test_one_byte(self) -> None:
        self.check(primitives.read_u8, b"\x07", 7)

    def test_two_bytes_most_significant_first(self) -> None:
        self.check(primitives.read_u16, b"\x01\x02", 0x0102)
        self.check(primitives.read_u16, b"\xff\xff", 0xFFFF)

    def test_four_bytes_most_significant_first(self) -> None:
        self.check(primitives.read_u32, b"\x01\x02\x03\x04", 0x01020304)
        self.check(primitives.read_u32, b"\xff\xff\xff\xff", 0xFFFFFFFF)

    def test_written_and_read_again(self) -> None:
        for value in (0, 1, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF):
            self.check(primitives.read_u16, primitives.u16(value), value)
            self.check(primitives.read_u32, primitives.u32(value << 16), value << 16)


class VariableByteIntegers(Case):
    # MQTT 5, table 1-1: the least and the greatest number of each length.
    TABLE = (
        (0, b"\x00"),
        (127, b"\x7f"),
        (128, b"\x80\x01"),
        (16_383, b"\xff\x7f"),
        (16_384, b"\x80\x80\x01"),
        (2_097_151, b"\xff\xff\x7f"),
        (2_097_152, b"\x80\x80\x80\x01"),
        (268_435_455, b"\xff\xff\xff\x7f"),
    )

    def test_the_table_of_the_specification(self) -> None:
        for value, data in self.TABLE:
            self.check(primitives.read_varint, data, value)
            self.assertEqual(primitives.varint(value), data)

    def test_five_bytes_are_refused(self) -> None:
        self.refuse(primitives.read_varint, b"\x80\x80\x80\x80\x01")

    def test_only_the_shortest_form_is_read(self) -> None:
        """[MQTT-1.5.5-1]"""
        for data in (b"\x80\x00", b"\xff\x00", b"\x80\x80\x00", b"\x80\x80\x80\x00"):
            self.refuse(primitives.read_varint, data)

    def test_too_large_a_number_is_not_written(self) -> None:
        with self.assertRaises(ValueError):
            primitives.varint(primitives.MAX_VARINT + 1)

    @given(st.integers(0, primitives.MAX_VARINT))
    @steady
    def test_any_number_survives(self, value: int) -> None:
        data = primitives.varint(value)
        self.assertEqual(primitives.read_varint(data, 0, len(data)), (value, len(data)))


class Strings(Case):
    def test_binary_data(self) -> None:
        self.check(primitives.read_data, b"\x00\x00", b"")
        self.check(primitives.read_data, b"\x00\x03\x00\xff\x80", b"\x00\xff\x80")

    def test_text(self) -> None:
        self.check(primitives.read_text, b"\x00\x06a\xc3\xa9\xe2\x82\xac", "aé€")

    def test_text_and_data_are_written_with_their_length(self) -> None:
        self.assertEqual(primitives.text_field("é"), b"\x00\x02\xc3\xa9")
        self.assertEqual(primitives.data_field(bytes(300)), b"\x01\x2c" + bytes(300))

    def test_not_well_formed(self) -> None:
        """[MQTT-1.5.4-1]: overlong forms, surrogates, halves, and beyond U+10FFFF."""
        for raw in (
            *(b"\xff", b"\x80", b"\xc3", b"\xc0\x80", b"\xe0\x80\x80", b"\xed\xa0\x80"),
            *(b"\xed\xbf\xbf", b"\xf4\x90\x80\x80", b"a\xc3"),
        ):
            with self.assertRaises(ProtocolFault, msg=raw):
                primitives.text_of(raw)

    def test_no_null_character(self) -> None:
        """[MQTT-1.5.4-2]"""
        with self.assertRaises(ProtocolFault):
            primitives.text_of(b"a\0b")

    def test_a_byte_order_mark_stays(self) -> None:
        """[MQTT-1.5.4-3]"""
        self.assertEqual(primitives.text_of(b"\xef\xbb\xbfa"), "\ufeffa")

    def test_the_longest(self) -> None:
        data = primitives.data_field(b"x" * 65535)
        self.assertEqual(primitives.read_text(data, 0, len(data)), ("x" * 65535, 65537))


class AnyBytes(Case):
    READERS = (
        *(primitives.read_u8, primitives.read_u16, primitives.read_u32, primitives.read_varint),
        *(primitives.read_data, primitives.read_text),
    )

    @given(st.binary(max_size=12), st.integers(0, 12), st.integers(0, 12))
    @steady
    def test_a_value_within_bounds_or_a_fault(self, data: bytes, pos: int, size: int) -> None:
        """No reader looks beyond `end`, and none fails in another way."""
        end = min(pos + size, len(data))
        pos = min(pos, end)
        for reader in self.READERS:
            try:
                _, behind = reader(data, pos, end)
            except ProtocolFault:
                continue
            self.assertTrue(pos < behind <= end, reader)
            self.assertEqual(reader(data[:end], pos, end), reader(data, pos, end))
