"""MQTT packets for tests: an encoder that may lie; `reading` has the decoder, used from here, too.

Independent of `mhub.wire` on purpose, so that a mistake in one does not hide in the other.  The
encoders build what a client sends, wrong packets too: every flag, length and body can be given
raw.  Versions are protocol levels: 3 (MQTT 3.1), 4 (3.1.1), 5.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from tests.helpers.properties import KINDS
from tests.helpers.properties import Prop as Prop
from tests.helpers.properties import varint as varint
from tests.helpers.reading import TYPES as TYPES
from tests.helpers.reading import Malformed as Malformed
from tests.helpers.reading import Packet as Packet
from tests.helpers.reading import decode as decode

Text = str | bytes
Properties = bytes | Iterable[tuple[int, Any]]


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
