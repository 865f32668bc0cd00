"""MQTT 5 properties: what each one is, where it may stand, how it is read and written.

PUBLISH has its own reader in `mhub.wire.publish`, because it forwards most of them as they came.
"""

from typing import Final

from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import (
    BYTES,
    data_field,
    malformed,
    read_data,
    read_text,
    read_u8,
    read_u16,
    read_u32,
    read_varint,
    text_field,
    u16,
    u32,
    varint,
)
from mhub.wire.reasons import PROTOCOL_ERROR

PAYLOAD_FORMAT: Final = 0x01
MESSAGE_EXPIRY: Final = 0x02
CONTENT_TYPE: Final = 0x03
RESPONSE_TOPIC: Final = 0x08
CORRELATION_DATA: Final = 0x09
SUBSCRIPTION_ID: Final = 0x0B
SESSION_EXPIRY: Final = 0x11
ASSIGNED_CLIENT_ID: Final = 0x12
SERVER_KEEP_ALIVE: Final = 0x13
AUTH_METHOD: Final = 0x15
AUTH_DATA: Final = 0x16
REQUEST_PROBLEM_INFO: Final = 0x17
WILL_DELAY: Final = 0x18
REQUEST_RESPONSE_INFO: Final = 0x19
RESPONSE_INFO: Final = 0x1A
SERVER_REFERENCE: Final = 0x1C
REASON_STRING: Final = 0x1F
RECEIVE_MAXIMUM: Final = 0x21
TOPIC_ALIAS_MAXIMUM: Final = 0x22
TOPIC_ALIAS: Final = 0x23
MAXIMUM_QOS: Final = 0x24
RETAIN_AVAILABLE: Final = 0x25
USER_PROPERTY: Final = 0x26
MAXIMUM_PACKET_SIZE: Final = 0x27
WILDCARD_AVAILABLE: Final = 0x28
SUBSCRIPTION_ID_AVAILABLE: Final = 0x29
SHARED_AVAILABLE: Final = 0x2A

BYTE: Final = 0
U16: Final = 1
U32: Final = 2
VARINT: Final = 3
TEXT: Final = 4
DATA: Final = 5
PAIR: Final = 6

KINDS: Final[dict[int, int]] = {
    PAYLOAD_FORMAT: BYTE,
    MESSAGE_EXPIRY: U32,
    CONTENT_TYPE: TEXT,
    RESPONSE_TOPIC: TEXT,
    CORRELATION_DATA: DATA,
    SUBSCRIPTION_ID: VARINT,
    SESSION_EXPIRY: U32,
    ASSIGNED_CLIENT_ID: TEXT,
    SERVER_KEEP_ALIVE: U16,
    AUTH_METHOD: TEXT,
    AUTH_DATA: DATA,
    REQUEST_PROBLEM_INFO: BYTE,
    WILL_DELAY: U32,
    REQUEST_RESPONSE_INFO: BYTE,
    RESPONSE_INFO: TEXT,
    SERVER_REFERENCE: TEXT,
    REASON_STRING: TEXT,
    RECEIVE_MAXIMUM: U16,
    TOPIC_ALIAS_MAXIMUM: U16,
    TOPIC_ALIAS: U16,
    MAXIMUM_QOS: BYTE,
    RETAIN_AVAILABLE: BYTE,
    USER_PROPERTY: PAIR,
    MAXIMUM_PACKET_SIZE: U32,
    WILDCARD_AVAILABLE: BYTE,
    SUBSCRIPTION_ID_AVAILABLE: BYTE,
    SHARED_AVAILABLE: BYTE,
}

# What a client may send, per place.
IN_CONNECT: Final = frozenset(
    {
        SESSION_EXPIRY,
        AUTH_METHOD,
        AUTH_DATA,
        REQUEST_PROBLEM_INFO,
        REQUEST_RESPONSE_INFO,
        RECEIVE_MAXIMUM,
        TOPIC_ALIAS_MAXIMUM,
        USER_PROPERTY,
        MAXIMUM_PACKET_SIZE,
    }
)
IN_ACK: Final = frozenset({REASON_STRING, USER_PROPERTY})
IN_SUBSCRIBE: Final = frozenset({SUBSCRIPTION_ID, USER_PROPERTY})
IN_UNSUBSCRIBE: Final = frozenset({USER_PROPERTY})
IN_DISCONNECT: Final = frozenset({SESSION_EXPIRY, REASON_STRING, USER_PROPERTY, SERVER_REFERENCE})
IN_AUTH: Final = frozenset({AUTH_METHOD, AUTH_DATA, REASON_STRING, USER_PROPERTY})

NOT_ZERO: Final = frozenset({RECEIVE_MAXIMUM, MAXIMUM_PACKET_SIZE, SUBSCRIPTION_ID, TOPIC_ALIAS})


class Properties:
    """What one packet carried; User Properties are checked, but nobody here asks for them."""

    def __init__(self) -> None:
        self.numbers: dict[int, int] = {}
        self.texts: dict[int, str] = {}
        self.binary: dict[int, bytes] = {}

    def number(self, identifier: int, default: int) -> int:
        return self.numbers.get(identifier, default)

    def has(self, identifier: int) -> bool:
        return identifier in self.numbers or identifier in self.texts or identifier in self.binary


NONE: Final = Properties()
"""For packets without properties: shared, never changed."""


def check_place(identifier: int, allowed: frozenset[int]) -> None:
    if identifier not in KINDS:
        raise malformed(f"0x{identifier:02x} is not a property")
    if identifier not in allowed:  # section 2.2.2.2 calls this malformed
        raise malformed(f"property 0x{identifier:02x} is not allowed in this packet")


def repeated(identifier: int) -> ProtocolFault:
    return ProtocolFault(PROTOCOL_ERROR, f"property 0x{identifier:02x} appears twice")


def check_number(identifier: int, value: int) -> None:
    if KINDS[identifier] == BYTE and value > 1:
        raise ProtocolFault(PROTOCOL_ERROR, f"property 0x{identifier:02x} must be 0 or 1")
    if value == 0 and identifier in NOT_ZERO:
        raise ProtocolFault(PROTOCOL_ERROR, f"property 0x{identifier:02x} must not be 0")


def read_number(data: bytes, pos: int, end: int, kind: int) -> tuple[int, int]:
    if kind == BYTE:
        return read_u8(data, pos, end)
    if kind == U16:
        return read_u16(data, pos, end)
    if kind == U32:
        return read_u32(data, pos, end)
    return read_varint(data, pos, end)


def span(data: bytes, pos: int, end: int) -> tuple[int, int]:
    """The property length at pos: (where the properties begin, where they end)."""
    size, start = read_varint(data, pos, end)
    if start + size > end:
        raise malformed("the properties are longer than the packet")
    return start, start + size


def read(data: bytes, pos: int, end: int, allowed: frozenset[int]) -> tuple[Properties, int]:
    """Length and properties at pos; the position behind them."""
    pos, stop = span(data, pos, end)
    if pos == stop:
        return NONE, stop
    found = Properties()
    while pos < stop:
        identifier, pos = read_varint(data, pos, stop)
        check_place(identifier, allowed)
        kind = KINDS[identifier]
        if kind == PAIR:
            _, pos = read_text(data, pos, stop)
            _, pos = read_text(data, pos, stop)
            continue
        if found.has(identifier):
            raise repeated(identifier)
        if kind == TEXT:
            found.texts[identifier], pos = read_text(data, pos, stop)
        elif kind == DATA:
            found.binary[identifier], pos = read_data(data, pos, stop)
        else:
            number, pos = read_number(data, pos, stop, kind)
            check_number(identifier, number)
            found.numbers[identifier] = number
    return found, stop


def number(identifier: int, value: int) -> bytes:
    """One numeric property, ready to send."""
    kind = KINDS[identifier]
    head = BYTES[identifier]
    if kind == BYTE:
        return head + BYTES[value]
    if kind == U16:
        return head + u16(value)
    if kind == U32:
        return head + u32(value)
    return head + varint(value)


def text(identifier: int, value: str) -> bytes:
    return BYTES[identifier] + text_field(value)


def binary(identifier: int, value: bytes) -> bytes:
    return BYTES[identifier] + data_field(value)


def block(properties: bytes) -> bytes:
    """A property list with its length in front; empty ones are a single 0 [MQTT-2.2.2-1]."""
    return varint(len(properties)) + properties
