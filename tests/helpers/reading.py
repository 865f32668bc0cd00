"""Reads what a broker sends, and believes nothing: the decoder of the tests.

`decode` raises `Malformed` for whatever the specification does not allow in that version.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.helpers.properties import ALLOWED, KINDS, Prop, varint

# By the number in the upper half of the first byte.
TYPES = (
    *("RESERVED", "CONNECT", "CONNACK", "PUBLISH", "PUBACK", "PUBREC", "PUBREL", "PUBCOMP"),
    *("SUBSCRIBE", "SUBACK", "UNSUBSCRIBE", "UNSUBACK", "PINGREQ", "PINGRESP", "DISCONNECT"),
    "AUTH",
)


class Malformed(Exception):
    """The broker sent something that the specification does not allow."""


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
