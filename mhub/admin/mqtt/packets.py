"""MQTT 5 from the client's side: packets to send, and those that a broker sends.

The broker is the core of this very process: what it sends is trusted to be well-formed, and a
mistake is a ProtocolFault all the same.
"""

from dataclasses import dataclass
from typing import Any, Final

from mhub.admin.mqtt.message import Message
from mhub.wire import encode, properties, reasons
from mhub.wire.packets import CONNECT, SUBSCRIBE, UNSUBSCRIBE, V5
from mhub.wire.primitives import (
    BYTES,
    malformed,
    read_data,
    read_text,
    read_u8,
    read_u16,
    read_varint,
    text_field,
    u16,
)
from mhub.wire.publish import Publish, encode_v5, topic_field, with_expiry

ANY: Final = frozenset(properties.KINDS)

NO_RETAINED: Final = 0x20
"""Option of a subscription: no retained messages."""

IF_NEW: Final = 0x10
"""Option of a subscription: retained messages only if there was none to this filter."""

DISCONNECT: Final = b"\xe0\x00"
END_SESSION: Final = b"\xe0\x07\x00\x05\x11\x00\x00\x00\x00"
"""DISCONNECT with a Session Expiry Interval of 0."""


@dataclass(frozen=True)
class Received:
    """A message that came."""

    message: Message
    pid: int  # 0: QoS 0
    dup: bool
    size_bytes: int  # of the packet


@dataclass(frozen=True)
class Welcome:
    """A CONNACK."""

    reason: int
    text: str
    session_present: bool
    receive_maximum: int


@dataclass(frozen=True)
class Reply:
    """PUBACK, PUBREC, PUBREL, PUBCOMP, SUBACK, UNSUBACK or DISCONNECT."""

    pid: int
    reason: int
    text: str = ""
    codes: bytes = b""


def connect(client_id: str, user: str, clean: bool, expiry_s: int, receive_maximum: int) -> bytes:
    given = properties.number(properties.RECEIVE_MAXIMUM, receive_maximum)
    if expiry_s:
        given += properties.number(properties.SESSION_EXPIRY, expiry_s)
    flags = 0x80 | (0x02 if clean else 0)
    body = text_field("MQTT") + BYTES[V5] + BYTES[flags] + u16(0) + properties.block(given)
    return encode.packet(CONNECT << 4, body + text_field(client_id) + text_field(user))


def publish(message: Message, pid: int) -> bytes:
    first = 0x30 | message.qos << 1 | (1 if message.retain else 0)
    topic = topic_field(message.topic.encode("utf-8"))
    return encode_v5(first, topic, pid, properties_of(message), message.payload, 0)


def properties_of(message: Message) -> bytes:
    parts = []
    if message.payload_format is not None:
        parts.append(properties.number(properties.PAYLOAD_FORMAT, message.payload_format))
    if message.message_expiry_s is not None:
        parts.append(properties.number(properties.MESSAGE_EXPIRY, message.message_expiry_s))
    if message.content_type is not None:
        parts.append(properties.text(properties.CONTENT_TYPE, message.content_type))
    if message.response_topic is not None:
        parts.append(properties.text(properties.RESPONSE_TOPIC, message.response_topic))
    if message.correlation_data is not None:
        parts.append(properties.binary(properties.CORRELATION_DATA, message.correlation_data))
    for name, value in message.user_properties:
        parts.append(BYTES[properties.USER_PROPERTY] + text_field(name) + text_field(value))
    return b"".join(parts)


def subscribe(pid: int, filters: list[str], options: int) -> bytes:
    body = u16(pid) + b"\0" + b"".join(text_field(each) + BYTES[options] for each in filters)
    return encode.packet(SUBSCRIBE << 4 | 2, body)


def unsubscribe(pid: int, filters: list[str]) -> bytes:
    body = u16(pid) + b"\0" + b"".join(text_field(each) for each in filters)
    return encode.packet(UNSUBSCRIBE << 4 | 2, body)


# What comes: `data` is one packet, whose body begins at `pos`


def read_connack(data: bytes, pos: int) -> Welcome:
    end = len(data)
    flags, pos = read_u8(data, pos, end)
    reason, pos = read_u8(data, pos, end)
    given, _ = properties.read(data, pos, end, ANY)
    return Welcome(
        reason,
        given.texts.get(properties.REASON_STRING, ""),
        flags == 1,
        given.number(properties.RECEIVE_MAXIMUM, 65535),
    )


def read_ack(data: bytes, pos: int) -> Reply:
    end = len(data)
    pid, pos = read_u16(data, pos, end)
    return _with_reason(data, pos, pid)


def read_disconnect(data: bytes, pos: int) -> Reply:
    return _with_reason(data, pos, 0)


def _with_reason(data: bytes, pos: int, pid: int) -> Reply:
    end = len(data)
    if pos == end:
        return Reply(pid, reasons.SUCCESS)
    reason, pos = read_u8(data, pos, end)
    return Reply(pid, reason, _reason_string(data, pos)[0])


def _reason_string(data: bytes, pos: int) -> tuple[str, int]:
    if pos == len(data):
        return "", pos
    given, pos = properties.read(data, pos, len(data), ANY)
    return given.texts.get(properties.REASON_STRING, ""), pos


def read_suback(data: bytes, pos: int) -> Reply:
    """SUBACK or UNSUBACK."""
    pid, pos = read_u16(data, pos, len(data))
    text, pos = _reason_string(data, pos)
    return Reply(pid, reasons.SUCCESS, text, data[pos:])


def read_publish(data: bytes, pos: int) -> Received:
    end = len(data)
    qos = data[0] >> 1 & 3
    topic, pos = read_text(data, pos, end)
    pid = 0
    if qos:
        pid, pos = read_u16(data, pos, end)
    given, stop = _read_properties(data, pos)
    message = Message(topic=topic, payload=data[stop:], qos=qos, retain=data[0] & 1 == 1, **given)
    return Received(message, pid, data[0] & 8 != 0, end)


def kept_message(kept: Publish, topic: str, now: float) -> Message:
    """A message of the core's, such as a retained one; `topic` is what the caller knows it as."""
    given, _ = _read_properties(properties.block(with_expiry(kept, now)), 0)
    return Message(topic=topic, payload=kept.payload, qos=kept.qos, retain=kept.retain, **given)


def _read_properties(data: bytes, pos: int) -> tuple[dict[str, Any], int]:
    """Those of a PUBLISH, as arguments of Message, and where they end."""
    pos, stop = properties.span(data, pos, len(data))
    found: dict[str, Any] = {}
    pairs: list[tuple[str, str]] = []
    while pos < stop:
        identifier, pos = read_varint(data, pos, stop)
        kind = properties.KINDS.get(identifier)
        if kind is None:
            raise malformed(f"0x{identifier:02x} is not a property")
        value: object
        if kind == properties.PAIR:
            name, pos = read_text(data, pos, stop)
            text, pos = read_text(data, pos, stop)
            pairs.append((name, text))
            continue
        if kind == properties.TEXT:
            value, pos = read_text(data, pos, stop)
        elif kind == properties.DATA:
            value, pos = read_data(data, pos, stop)
        else:
            value, pos = properties.read_number(data, pos, stop, kind)
        if identifier in FIELDS:
            found[FIELDS[identifier]] = value
    if pairs:
        found["user_properties"] = tuple(pairs)
    return found, stop


FIELDS: Final = {
    properties.PAYLOAD_FORMAT: "payload_format",
    properties.MESSAGE_EXPIRY: "message_expiry_s",
    properties.CONTENT_TYPE: "content_type",
    properties.RESPONSE_TOPIC: "response_topic",
    properties.CORRELATION_DATA: "correlation_data",
}
