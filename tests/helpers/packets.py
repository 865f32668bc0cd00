"""MQTT packets for tests: an encoder that may lie and a decoder that believes nothing.

Independent of `mhub.wire` on purpose, so that a mistake in one does not hide in the other.  The
encoders build what a client sends, wrong packets too: every flag, length and body can be given
raw.  `decode` reads what a broker sends and raises `Malformed` for whatever the specification
does not allow in that version.  Versions are protocol levels: 3 (MQTT 3.1), 4 (3.1.1), 5.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

# By the number in the upper half of the first byte.
TYPES = (
    *("RESERVED", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"),
    *("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT"),
    "AUTH",
)

Text = str | bytes
Properties = bytes | Iterable[tuple[int, Any]]


class Malformed(Exception):
    """The broker sent something that the specification does not allow."""


class Prop(IntEnum):
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTH_METHOD = 0x15
    AUTH_DATA = 0x16
    REQUEST_PROBLEM_INFO = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE_INFO = 0x19
    RESPONSE_INFO = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_AVAILABLE = 0x28
    SUBSCRIPTION_ID_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


# How each property is written: the number of bytes of an integer, or the kind of the value.
KINDS: dict[int, int | str] = {
    Prop.PAYLOAD_FORMAT: 1,
    Prop.MESSAGE_EXPIRY: 4,
    Prop.CONTENT_TYPE: "text",
    Prop.RESPONSE_TOPIC: "text",
    Prop.CORRELATION_DATA: "binary",
    Prop.SUBSCRIPTION_ID: "varint",
    Prop.SESSION_EXPIRY: 4,
    Prop.ASSIGNED_CLIENT_ID: "text",
    Prop.SERVER_KEEP_ALIVE: 2,
    Prop.AUTH_METHOD: "text",
    Prop.AUTH_DATA: "binary",
    Prop.REQUEST_PROBLEM_INFO: 1,
    Prop.WILL_DELAY: 4,
    Prop.REQUEST_RESPONSE_INFO: 1,
    Prop.RESPONSE_INFO: "text",
    Prop.SERVER_REFERENCE: "text",
    Prop.REASON_STRING: "text",
    Prop.RECEIVE_MAXIMUM: 2,
    Prop.TOPIC_ALIAS_MAXIMUM: 2,
    Prop.TOPIC_ALIAS: 2,
    Prop.MAXIMUM_QOS: 1,
    Prop.RETAIN_AVAILABLE: 1,
    Prop.USER_PROPERTY: "pair",
    Prop.MAXIMUM_PACKET_SIZE: 4,
    Prop.WILDCARD_AVAILABLE: 1,
    Prop.SUBSCRIPTION_ID_AVAILABLE: 1,
    Prop.SHARED_AVAILABLE: 1,
}

# What a broker may put into each packet.
ALLOWED: dict[str, frozenset[int]] = {
    "CONNACK": frozenset(
        {
            Prop.SESSION_EXPIRY,
            Prop.RECEIVE_MAXIMUM,
            Prop.MAXIMUM_QOS,
            Prop.RETAIN_AVAILABLE,
            Prop.MAXIMUM_PACKET_SIZE,
            Prop.ASSIGNED_CLIENT_ID,
            Prop.TOPIC_ALIAS_MAXIMUM,
            Prop.REASON_STRING,
            Prop.USER_PROPERTY,
            Prop.WILDCARD_AVAILABLE,
            Prop.SUBSCRIPTION_ID_AVAILABLE,
            Prop.SHARED_AVAILABLE,
            Prop.SERVER_KEEP_ALIVE,
            Prop.RESPONSE_INFO,
            Prop.SERVER_REFERENCE,
            Prop.AUTH_METHOD,
            Prop.AUTH_DATA,
        }
    ),
    "PUBLISH": frozenset(
        {
            Prop.PAYLOAD_FORMAT,
            Prop.MESSAGE_EXPIRY,
            Prop.TOPIC_ALIAS,
            Prop.RESPONSE_TOPIC,
            Prop.CORRELATION_DATA,
            Prop.USER_PROPERTY,
            Prop.SUBSCRIPTION_ID,
            Prop.CONTENT_TYPE,
        }
    ),
    # Session Expiry Interval is the client's alone in DISCONNECT.
    "DISCONNECT": frozenset({Prop.REASON_STRING, Prop.USER_PROPERTY, Prop.SERVER_REFERENCE}),
    "AUTH": frozenset({Prop.AUTH_METHOD, Prop.AUTH_DATA, Prop.REASON_STRING, Prop.USER_PROPERTY}),
}
_ACK_PROPERTIES = frozenset({Prop.REASON_STRING, Prop.USER_PROPERTY})
for _name in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBACK", "UNSUBACK"):
    ALLOWED[_name] = _ACK_PROPERTIES


# --- Building -------------------------------------------------------------------------------


def varint(n: int) -> bytes:
    """A Variable Byte Integer; numbers too large for four bytes give five, for tests of that."""
    out = bytearray()
    while True:
        n, low = divmod(n, 128)
        out.append(low | 0x80 if n else low)
        if not n:
            return bytes(out)


def frame(first_byte: int, body: bytes = b"", length: int | bytes | None = None) -> bytes:
    """A packet; `length` overrides the remaining length, as a number or as raw bytes."""
    if length is None:
        length = len(body)
    return bytes([first_byte]) + (length if isinstance(length, bytes) else varint(length)) + body


def split(packet: bytes) -> tuple[int, bytes]:
    """First byte and body of one encoded packet: to bend a right packet into a wrong one."""
    end = 1
    while packet[end] & 0x80:
        end += 1
    return packet[0], packet[end + 1 :]


def u16(n: int) -> bytes:
    return n.to_bytes(2, "big")


def utf8(value: Text) -> bytes:
    """A string with its length; bytes are taken as they are, valid UTF-8 or not."""
    data = value.encode() if isinstance(value, str) else value
    return u16(len(data)) + data


def property_value(kind: int | str, value: Any) -> bytes:
    if kind == "text" or kind == "binary":
        return utf8(value)
    if isinstance(value, bytes):
        return value  # Raw, for wrong values.
    if kind == "pair":
        return utf8(value[0]) + utf8(value[1])
    if kind == "varint":
        return varint(value)
    assert isinstance(kind, int)
    return int(value).to_bytes(kind, "big")


def properties(items: Properties | None) -> bytes:
    """A property block with its length.

    A value is an int, str, bytes or a pair, as the property asks.  Bytes given for an integer or a
    pair, or for an unknown id, go in raw; a block given as bytes has to bring its length.
    """
    if items is None:
        return b"\0"
    if isinstance(items, bytes):
        return items
    body = b"".join(
        varint(key) + (property_value(KINDS[key], value) if key in KINDS else value)
        for key, value in items
    )
    return varint(len(body)) + body


def connect(
    client_id: Text = "c",
    version: int = 4,
    clean: bool = True,
    keepalive: int = 0,
    username: Text | None = None,
    password: Text | None = None,
    will: Sequence[Any] | None = None,
    props: Properties | None = None,
    flags: int | None = None,
    name: Text | None = None,
) -> bytes:
    """CONNECT; `will` is (topic, payload, qos, retain, props), the last three optional.

    `flags` overrides the flags byte, `name` the protocol name; the fields stay as given.
    """
    bits = 0x02 if clean else 0
    payload = utf8(client_id)
    if will is not None:
        topic, message, qos, retain, will_props = (*will, *(0, False, None)[len(will) - 2 :])
        bits |= 0x04 | qos << 3 | (0x20 if retain else 0)
        payload += properties(will_props) if version >= 5 else b""
        payload += utf8(topic) + utf8(message)
    if username is not None:
        bits |= 0x80
        payload += utf8(username)
    if password is not None:
        bits |= 0x40
        payload += utf8(password)
    if name is None:
        name = "MQIsdp" if version == 3 else "MQTT"
    head = utf8(name) + bytes([version, bits if flags is None else flags]) + u16(keepalive)
    return frame(0x10, head + (properties(props) if version >= 5 else b"") + payload)


def publish(
    topic: Text,
    payload: Text = b"",
    qos: int = 0,
    pid: int | None = None,
    retain: bool = False,
    dup: bool = False,
    props: Properties | None = None,
    version: int = 4,
) -> bytes:
    """PUBLISH; the packet id is written whenever one is given, whatever the QoS."""
    if isinstance(payload, str):
        payload = payload.encode()
    body = utf8(topic) + (b"" if pid is None else u16(pid))
    body += properties(props) if version >= 5 else b""
    return frame(0x30 | dup << 3 | qos << 1 | retain, body + payload)


def _ack(first_byte: int, pid: int, reason: int | None, props: Properties | None) -> bytes:
    body = u16(pid)
    if reason is not None or props is not None:
        body += bytes([reason or 0])
    return frame(first_byte, body + (b"" if props is None else properties(props)))


def puback(pid: int, reason: int | None = None, props: Properties | None = None) -> bytes:
    return _ack(0x40, pid, reason, props)


def pubrec(pid: int, reason: int | None = None, props: Properties | None = None) -> bytes:
    return _ack(0x50, pid, reason, props)


def pubrel(pid: int, reason: int | None = None, props: Properties | None = None) -> bytes:
    return _ack(0x62, pid, reason, props)


def pubcomp(pid: int, reason: int | None = None, props: Properties | None = None) -> bytes:
    return _ack(0x70, pid, reason, props)


def options(
    qos: int = 0, no_local: bool = False, as_published: bool = False, handling: int = 0
) -> int:
    """The options byte of a version 5 subscription."""
    return qos | no_local << 2 | as_published << 3 | handling << 4


def subscribe(
    pid: int,
    *filters: tuple[Text, int],
    props: Properties | None = None,
    version: int = 4,
) -> bytes:
    body = u16(pid) + (properties(props) if version >= 5 else b"")
    return frame(0x82, body + b"".join(utf8(text) + bytes([opts]) for text, opts in filters))


def unsubscribe(
    pid: int, *filters: Text, props: Properties | None = None, version: int = 4
) -> bytes:
    body = u16(pid) + (properties(props) if version >= 5 else b"")
    return frame(0xA2, body + b"".join(map(utf8, filters)))


def pingreq() -> bytes:
    return frame(0xC0)


def disconnect(reason: int | None = None, props: Properties | None = None) -> bytes:
    if reason is None and props is None:
        return frame(0xE0)
    return frame(0xE0, bytes([reason or 0]) + (b"" if props is None else properties(props)))


def auth(reason: int | None = None, props: Properties | None = None) -> bytes:
    if reason is None and props is None:
        return frame(0xF0)
    return frame(0xF0, bytes([reason or 0]) + (b"" if props is None else properties(props)))


# --- Reading --------------------------------------------------------------------------------


@dataclass
class Packet:
    """A packet from the broker; fields that its type does not have keep their defaults."""

    type: str
    flags: int
    body: bytes
    dup: bool = False
    qos: int = 0
    retain: bool = False
    pid: int | None = None
    topic: str | None = None
    payload: bytes = b""
    reason: int | None = None
    reasons: list[int] = field(default_factory=list)
    session_present: bool = False
    props: list[tuple[int, Any]] = field(default_factory=list)

    def prop(self, key: int, default: Any = None) -> Any:
        """The value of the first property of that kind."""
        return next((value for name, value in self.props if name == key), default)

    def all_props(self, key: int) -> list[Any]:
        """Every value of a property that may be repeated, in order."""
        return [value for name, value in self.props if name == key]

    @property
    def size(self) -> int:
        """The size of the whole packet on the wire."""
        return 1 + len(varint(len(self.body))) + len(self.body)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def take(self, count: int) -> bytes:
        if self.at + count > len(self.data):
            raise Malformed(f"packet ends early: {self.data!r}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size), "big")

    def binary(self) -> bytes:
        return self.take(self.number(2))

    def text(self) -> str:
        data = self.binary()
        try:
            value = data.decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed(f"not UTF-8: {data!r}") from None
        if "\0" in value:
            raise Malformed(f"U+0000 in {data!r}")
        return value

    def varint(self) -> int:
        start, value = self.at, 0
        for shift in (0, 7, 14, 21):
            byte = self.number(1)
            value |= (byte & 0x7F) << shift
            if not byte & 0x80:
                if self.data[start : self.at] != varint(value):
                    raise Malformed("a Variable Byte Integer longer than needed")
                return value
        raise Malformed("a Variable Byte Integer of five bytes")

    def rest(self) -> bytes:
        return self.take(len(self.data) - self.at)

    @property
    def more(self) -> bool:
        return self.at < len(self.data)

    def value(self, kind: int | str) -> Any:
        if kind == "text":
            return self.text()
        if kind == "binary":
            return self.binary()
        if kind == "pair":
            return self.text(), self.text()
        if kind == "varint":
            return self.varint()
        assert isinstance(kind, int)
        return self.number(kind)


def _properties(reader: _Reader, type_name: str) -> list[tuple[int, Any]]:
    block = _Reader(reader.take(reader.varint()))
    found: list[tuple[int, Any]] = []
    while block.more:
        key = block.varint()
        if key not in ALLOWED[type_name]:
            raise Malformed(f"property {key:#x} in {type_name}")
        # [MQTT 5, 2.2.2.2] and [3.3.2.3.8]: only these two may stand there more than once.
        repeats = key == Prop.USER_PROPERTY or (
            key == Prop.SUBSCRIPTION_ID and type_name == "PUBLISH"
        )
        if not repeats and any(key == name for name, _ in found):
            raise Malformed(f"property {key:#x} twice in {type_name}")
        found.append((Prop(key), block.value(KINDS[key])))
    return found


def _reason_and_properties(reader: _Reader, packet: Packet, version: int) -> None:
    """The tail of acknowledgements, DISCONNECT and AUTH in version 5: both parts optional."""
    if version < 5:
        return
    packet.reason = reader.number(1) if reader.more else 0
    if reader.more:
        packet.props = _properties(reader, packet.type)


def _decode_publish(packet: Packet, reader: _Reader, version: int) -> None:
    packet.dup = bool(packet.flags & 8)
    packet.qos = packet.flags >> 1 & 3
    packet.retain = bool(packet.flags & 1)
    if packet.qos == 3:
        raise Malformed("PUBLISH with QoS 3")
    if packet.dup and not packet.qos:
        raise Malformed("PUBLISH with QoS 0 and DUP")
    packet.topic = reader.text()
    if "+" in packet.topic or "#" in packet.topic:
        raise Malformed(f"wildcard in the topic {packet.topic!r}")
    if packet.qos:
        packet.pid = reader.number(2)
    if version >= 5:
        packet.props = _properties(reader, "PUBLISH")
    if not packet.topic and packet.prop(Prop.TOPIC_ALIAS) is None:
        raise Malformed("PUBLISH without a topic")
    packet.payload = reader.rest()


def _decode_connack(packet: Packet, reader: _Reader, version: int) -> None:
    acknowledge = reader.number(1)
    # In 3.1 this byte is reserved: a broker leaves it 0.
    if acknowledge > 1 or (version == 3 and acknowledge):
        raise Malformed(f"CONNACK with acknowledge flags {acknowledge:#x}")
    packet.session_present = acknowledge == 1
    packet.reason = reader.number(1)
    if version < 5 and packet.reason > 5:
        raise Malformed(f"CONNACK with return code {packet.reason}")
    if version >= 5 and reader.more:
        packet.props = _properties(reader, "CONNACK")


def decode(first_byte: int, body: bytes, version: int = 4) -> Packet:
    """The packet that a broker sent, or `Malformed`."""
    name = TYPES[first_byte >> 4]
    packet = Packet(name, first_byte & 0x0F, body)
    reader = _Reader(body)
    if name != "PUBLISH" and packet.flags != (2 if name == "PUBREL" else 0):
        raise Malformed(f"{name} with flags {packet.flags:#x}")
    if name == "CONNACK":
        _decode_connack(packet, reader, version)
    elif name == "PUBLISH":
        _decode_publish(packet, reader, version)
    elif name in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP"):
        packet.pid = reader.number(2)
        _reason_and_properties(reader, packet, version)
    elif name in ("SUBACK", "UNSUBACK"):
        packet.pid = reader.number(2)
        if version >= 5:
            packet.props = _properties(reader, name)
        if name == "SUBACK" or version >= 5:
            packet.reasons = list(reader.rest())
        if name == "SUBACK" and version < 5 and set(packet.reasons) - {0, 1, 2, 0x80}:
            raise Malformed(f"SUBACK with {packet.reasons}")
    elif name in ("DISCONNECT", "AUTH") and version >= 5:
        _reason_and_properties(reader, packet, version)
    elif name != "PINGRESP":
        raise Malformed(f"{name} from a broker")
    if packet.pid == 0:
        raise Malformed(f"{name} with packet id 0")
    if reader.more:
        raise Malformed(f"{name} with more than it holds: {body!r}")
    return packet
