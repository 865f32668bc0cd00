"""PUBLISH both ways: the message itself.

A `Publish` is decoded once and then shared by every session that it goes to; no session changes it.
Properties that a broker forwards unaltered (MQTT-3.3.2-4, -15 to -18, -20) stay raw bytes in their
given order.  Only three of them matter here: the topic alias belongs to one connection and is cut
out, the message expiry is rewritten when time has passed, subscription identifiers are added for
each receiver.

Frames are put together with `b"%b…" %`, which the compiled build turns into one allocation.
"""

from typing import Final

from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import (
    BYTES,
    malformed,
    read_data,
    read_text,
    read_u16,
    read_u32,
    read_varint,
    u16,
    u32,
    varint,
)
from mhub.wire.properties import (
    CONTENT_TYPE,
    CORRELATION_DATA,
    MESSAGE_EXPIRY,
    PAYLOAD_FORMAT,
    RESPONSE_TOPIC,
    SUBSCRIPTION_ID,
    TOPIC_ALIAS,
    USER_PROPERTY,
    WILL_DELAY,
    check_number,
    check_place,
    repeated,
    span,
)
from mhub.wire.reasons import (
    PACKET_TOO_LARGE,
    PAYLOAD_FORMAT_INVALID,
    PROTOCOL_ERROR,
    TOPIC_ALIAS_INVALID,
)
from mhub.wire.topics import check_name_form

IN_PUBLISH: Final = frozenset(
    {
        PAYLOAD_FORMAT,
        MESSAGE_EXPIRY,
        CONTENT_TYPE,
        RESPONSE_TOPIC,
        CORRELATION_DATA,
        TOPIC_ALIAS,
        USER_PROPERTY,
    }
)
IN_WILL: Final = frozenset(
    {
        PAYLOAD_FORMAT,
        MESSAGE_EXPIRY,
        CONTENT_TYPE,
        RESPONSE_TOPIC,
        CORRELATION_DATA,
        WILL_DELAY,
        USER_PROPERTY,
    }
)


class Publish:
    """One application message."""

    def __init__(self, topic_data: bytes, payload: bytes, qos: int, retain: bool) -> None:
        self.topic_data = topic_data
        self.topic = ""  # the same as text, and
        self.topic_field = b""  # as it stands in a packet: both come from routing
        self.payload = payload
        self.qos = qos
        self.retain = retain
        self.dup = False
        self.pid = 0  # the sender's packet id
        self.alias = 0  # the sender's topic alias
        self.properties = b""  # to forward, without length
        self.expiry_s = -1  # as received; -1: none
        self.expiry_at = -1  # where its four bytes stand in `properties`
        self.expires_at = 0.0  # on the hub's clock; 0: never
        self.sender = ""  # client id, for No Local
        self.slot = -1  # of a retained one: its place among them (`mhub.core.slots`)
        self.owner = ""  # of a retained one: whose it is (`mhub.core.accounts`); "": nobody's
        self.frame_v3: bytes | None = None  # QoS 0, RETAIN 0, made once for a whole fan-out
        self.frame_v5: bytes | None = None
        self.hlc = 0  # when it was retained, on the cluster's clock; 0: there is no cluster
        self.journaled = False  # it is in the store while it is on its way to a peer
        self.shared = False  # it goes to several receivers
        self.tracker: object | None = None  # what the journal knows of it, if it has to do with it


class PublishProperties:
    """What the reader of PUBLISH and Will properties found."""

    def __init__(self) -> None:
        self.raw = b""
        self.alias = 0
        self.expiry_s = -1
        self.expiry_at = -1
        self.text_payload = False
        self.will_delay_s = 0


def decode(
    data: bytes, first: int, pos: int, end: int, version: int, max_properties: int
) -> Publish:
    """The PUBLISH whose body is data[pos:end]; `first` is its first byte."""
    qos = first >> 1 & 3
    if qos == 3:
        raise malformed("QoS 3 does not exist")  # [MQTT-3.3.1-4]
    if qos == 0 and first & 0x08 and version != 3:  # in MQTT 3.1 it has no meaning there
        raise malformed("DUP is set on a QoS 0 message")  # [MQTT-3.3.1-2]
    if pos + 2 > end:
        raise malformed("PUBLISH without a topic name")
    start = pos + 2
    pos = start + (data[pos] << 8 | data[pos + 1])
    if pos > end:
        raise malformed("the topic name is longer than the packet")
    topic_data = data[start:pos]
    pid = 0
    if qos:
        pid, pos = read_u16(data, pos, end)
        if pid == 0:
            raise ProtocolFault(PROTOCOL_ERROR, "packet id 0")  # [MQTT-2.2.1-3]
    if version < 5:
        message = Publish(topic_data, data[pos:end], qos, (first & 1) != 0)
    elif pos < end and data[pos] == 0:
        message = Publish(topic_data, data[pos + 1 : end], qos, (first & 1) != 0)
    else:
        start = pos
        _, stop = span(data, pos, end)
        if stop - start > max_properties:
            raise ProtocolFault(
                PACKET_TOO_LARGE,
                f"properties of {stop - start} bytes, at most {max_properties} are allowed",
            )
        found, pos = read_properties(data, pos, end, IN_PUBLISH)
        message = Publish(topic_data, data[pos:end], qos, (first & 1) != 0)
        message.alias = found.alias
        _adopt(message, found)
    message.dup = (first & 0x08) != 0
    message.pid = pid
    return message


def _adopt(message: Publish, found: PublishProperties) -> None:
    message.properties = found.raw
    message.expiry_s = found.expiry_s
    message.expiry_at = found.expiry_at
    if found.text_payload:
        try:
            message.payload.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ProtocolFault(
                PAYLOAD_FORMAT_INVALID, "the payload is declared as text but is not UTF-8"
            ) from error


def will(
    topic_data: bytes, payload: bytes, qos: int, retain: bool, found: PublishProperties
) -> Publish:
    """The message that a CONNECT leaves behind."""
    message = Publish(topic_data, payload, qos, retain)
    _adopt(message, found)
    return message


def read_properties(
    data: bytes, pos: int, end: int, allowed: frozenset[int]
) -> tuple[PublishProperties, int]:
    """Properties of a PUBLISH or a Will, checked, with what is to be forwarded as raw bytes."""
    pos, stop = span(data, pos, end)
    found = PublishProperties()
    seen = 0  # a bit for each identifier met
    kept_from = pos
    while pos < stop:
        here = pos
        identifier, pos = read_varint(data, pos, stop)
        if identifier == SUBSCRIPTION_ID and allowed is IN_PUBLISH:  # [MQTT-3.3.4-6]
            raise ProtocolFault(PROTOCOL_ERROR, "subscription identifiers come from servers only")
        check_place(identifier, allowed)
        if identifier == USER_PROPERTY:
            _, pos = read_text(data, pos, stop)
            _, pos = read_text(data, pos, stop)
            continue
        if seen >> identifier & 1:
            raise repeated(identifier)
        seen |= 1 << identifier
        if identifier == MESSAGE_EXPIRY:
            found.expiry_at = len(found.raw) + pos - kept_from
            found.expiry_s, pos = read_u32(data, pos, stop)
        elif identifier in (TOPIC_ALIAS, WILL_DELAY):
            found.raw += data[kept_from:here]
            pos = _read_private(data, pos, stop, identifier, found)
            kept_from = pos
        elif identifier == PAYLOAD_FORMAT:
            if pos >= stop:
                raise malformed("the packet ends inside a property")
            check_number(identifier, data[pos])
            found.text_payload = data[pos] == 1
            pos += 1
        elif identifier == CORRELATION_DATA:
            _, pos = read_data(data, pos, stop)
        else:
            text, pos = read_text(data, pos, stop)
            if identifier == RESPONSE_TOPIC:  # [MQTT-3.3.2-14]
                check_name_form(text, "response topic")
    found.raw += data[kept_from:stop]
    return found, stop


def _read_private(
    data: bytes, pos: int, stop: int, identifier: int, found: PublishProperties
) -> int:
    """Topic alias or will delay: for the server only, not forwarded."""
    if identifier == WILL_DELAY:
        found.will_delay_s, pos = read_u32(data, pos, stop)
        return pos
    found.alias, pos = read_u16(data, pos, stop)
    if found.alias == 0:
        raise ProtocolFault(TOPIC_ALIAS_INVALID, "topic alias 0")  # [MQTT-3.3.2-8]
    return pos


def topic_field(topic_data: bytes) -> bytes:
    """A topic name as it stands in a PUBLISH: length and text."""
    return u16(len(topic_data)) + topic_data


def encode_v3(first: int, topic: bytes, pid: int, payload: bytes, follows: int) -> bytes:
    """A PUBLISH of MQTT 3.1 or 3.1.1; `topic` is a topic_field().

    `follows` bytes of the payload are sent behind it, so that a large one need not be copied.
    """
    size = len(topic) + len(payload) + follows
    if pid == 0:
        length = BYTES[size] if size < 0x80 else varint(size)
        return b"%b%b%b%b" % (BYTES[first], length, topic, payload)
    size += 2
    length = BYTES[size] if size < 0x80 else varint(size)
    return b"%b%b%b%b%b%b" % (
        BYTES[first],
        length,
        topic,
        BYTES[pid >> 8],
        BYTES[pid & 0xFF],
        payload,
    )


def encode_v5(
    first: int, topic: bytes, pid: int, properties: bytes, payload: bytes, follows: int
) -> bytes:
    """The same for MQTT 5; `properties` come without their length."""
    size = len(topic) + len(payload) + len(properties) + follows
    property_length = varint(len(properties))
    size += len(property_length)
    if pid == 0:
        length = BYTES[size] if size < 0x80 else varint(size)
        return b"%b%b%b%b%b%b" % (
            BYTES[first],
            length,
            topic,
            property_length,
            properties,
            payload,
        )
    size += 2
    length = BYTES[size] if size < 0x80 else varint(size)
    return b"%b%b%b%b%b%b%b%b" % (
        BYTES[first],
        length,
        topic,
        BYTES[pid >> 8],
        BYTES[pid & 0xFF],
        property_length,
        properties,
        payload,
    )


def with_expiry(message: Publish, now: float) -> bytes:
    """The properties to forward, with the time that is left [MQTT-3.3.2-6]."""
    if message.expiry_at < 0 or message.expires_at == 0.0:
        return message.properties
    left = min(max(int(message.expires_at - now + 0.5), 0), message.expiry_s)
    at = message.expiry_at
    return message.properties[:at] + u32(left) + message.properties[at + 4 :]
