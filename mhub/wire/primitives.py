"""Integers, strings and binary data as MQTT writes them.

Readers take the whole buffer and a position and never look beyond `end`; each returns its value and
the position behind it.  Tuples of fixed length cost nothing in the compiled build.
"""

from typing import Final

from mhub.wire.errors import ProtocolFault
from mhub.wire.reasons import MALFORMED_PACKET

BYTES: Final[list[bytes]] = [bytes([value]) for value in range(256)]
"""Every one-byte string, so that encoders join shared objects instead of making new ones."""

MAX_VARINT: Final = 268_435_455


def malformed(text: str) -> ProtocolFault:
    return ProtocolFault(MALFORMED_PACKET, text)


def read_u8(data: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos >= end:
        raise malformed("the packet ends inside a field")
    return data[pos], pos + 1


def read_u16(data: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos + 2 > end:
        raise malformed("the packet ends inside a two-byte integer")
    return data[pos] << 8 | data[pos + 1], pos + 2


def read_u32(data: bytes, pos: int, end: int) -> tuple[int, int]:
    if pos + 4 > end:
        raise malformed("the packet ends inside a four-byte integer")
    value = data[pos] << 24 | data[pos + 1] << 16 | data[pos + 2] << 8 | data[pos + 3]
    return value, pos + 4


def read_varint(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """A Variable Byte Integer in its shortest form [MQTT-1.5.5-1]."""
    value = 0
    shift = 0
    while pos < end:
        byte = data[pos]
        pos += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            if byte == 0 and shift:
                raise malformed("a variable byte integer is longer than it needs to be")
            return value, pos
        shift += 7
        if shift > 21:
            raise malformed("a variable byte integer has more than four bytes")
    raise malformed("the packet ends inside a variable byte integer")


def read_data(data: bytes, pos: int, end: int) -> tuple[bytes, int]:
    size, pos = read_u16(data, pos, end)
    if pos + size > end:
        raise malformed("the packet ends inside a string or binary field")
    return data[pos : pos + size], pos + size


def read_text(data: bytes, pos: int, end: int) -> tuple[str, int]:
    raw, pos = read_data(data, pos, end)
    return text_of(raw), pos


def text_of(raw: bytes) -> str:
    """Well-formed UTF-8 without U+0000; U+FEFF stays [MQTT-1.5.4-1, MQTT-1.5.4-2, MQTT-1.5.4-3]."""
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise malformed("a string is not well-formed UTF-8") from error
    if "\0" in text:
        raise malformed("a string contains U+0000")
    return text


def u16(value: int) -> bytes:
    return BYTES[value >> 8] + BYTES[value & 0xFF]


def u32(value: int) -> bytes:
    return value.to_bytes(4, "big")


def u64(value: int) -> bytes:
    """Eight bytes, which no packet of MQTT has: for stores and peers."""
    return value.to_bytes(8, "big")


def read_u64(data: bytes, pos: int) -> tuple[int, int]:
    if pos + 8 > len(data):
        raise malformed("the data ends inside an eight-byte integer")
    return int.from_bytes(data[pos : pos + 8], "big"), pos + 8


def varint(value: int) -> bytes:
    if value < 0x80:
        return BYTES[value]
    if value < 0x4000:
        return BYTES[value & 0x7F | 0x80] + BYTES[value >> 7]
    if value > MAX_VARINT:
        raise ValueError(f"{value} does not fit into a variable byte integer")
    parts = [value & 0x7F | 0x80, value >> 7 & 0x7F]
    value >>= 14
    while value:
        parts[-1] |= 0x80
        parts.append(value & 0x7F)
        value >>= 7
    return bytes(parts)


def data_field(value: bytes) -> bytes:
    return u16(len(value)) + value


def text_field(value: str) -> bytes:
    return data_field(value.encode("utf-8"))
