"""Packets of a traced connection as events: cut out of its bytes, and told what they say.

Only the beginning of a packet is kept, so a trace needs little memory however long packets are.
Passwords cannot get into a trace: of CONNECT and AUTH nothing but type, size and reason is told.
"""

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from mhub.wire import packets as kinds

KEPT: Final = 4096
"""Bytes of a packet that are looked at, besides the payload that was asked for."""

LONGEST_NAME: Final = 1024
MOST_NAMES: Final = 100

_ACKS: Final = (kinds.PUBACK, kinds.PUBREC, kinds.PUBREL, kinds.PUBCOMP)
_SIZES: Final = {0x01: 1, 0x02: 4, 0x23: 2}  # of properties of a PUBLISH, where it is fixed
_ALIAS: Final = 0x23


@dataclass(frozen=True)
class Frame:
    first: int
    size: int  # of the whole packet
    body: bytes  # or the beginning of it
    header: int  # bytes before the body


class FrameReader:
    """Bytes in any portions -> frames."""

    def __init__(self, kept: int) -> None:
        self._kept = kept
        self._head = bytearray()  # type and length, until they are complete
        self._body = bytearray()
        self._left = 0  # bytes of the body that are still to come
        self._size = 0
        self.is_lost = False  # these are no packets

    def feed(self, data: bytes) -> Iterator[Frame]:
        at = 0
        while at < len(data) and not self.is_lost:
            if not self._size:
                self._head.append(data[at])
                at += 1
                if len(self._head) > 1 and self._head[-1] < 0x80:
                    self._begin()
                elif len(self._head) > 5:
                    self.is_lost = True
                    return
            else:
                part = data[at : at + self._left]
                at += len(part)
                self._left -= len(part)
                self._body += part[: max(0, self._kept - len(self._body))]
            if self._size and not self._left:
                header = len(self._head)
                yield Frame(self._head[0], self._size, bytes(self._body), header)
                self._head, self._body, self._size = bytearray(), bytearray(), 0

    def _begin(self) -> None:
        length = 0
        for shift, byte in enumerate(self._head[1:]):
            length |= (byte & 0x7F) << 7 * shift
        self._left = length
        self._size = length + len(self._head)


def describe(frame: Frame, version: int, payload_bytes: int, aliases: dict[int, str]) -> Any:
    """The fields of a TraceEvent that a packet gives.  Never raises; `aliases` learns."""
    kind = frame.first >> 4
    found: dict[str, Any] = {"packet": kinds.NAMES[kind], "size_bytes": frame.size}
    try:
        if kind == kinds.PUBLISH:
            _publish(found, frame, version, payload_bytes, aliases)
        elif kind in _ACKS:
            found["packet_id"] = _number(frame.body, 0)
            if len(frame.body) > 2:
                found["reasons"] = (frame.body[2],)
        elif kind in (kinds.SUBSCRIBE, kinds.UNSUBSCRIBE):
            found["packet_id"] = _number(frame.body, 0)
            at = _behind_properties(frame.body, 2, version)
            found["filters"] = _filters(frame.body, at, 1 if kind == kinds.SUBSCRIBE else 0)
        elif kind in (kinds.SUBACK, kinds.UNSUBACK):
            found["packet_id"] = _number(frame.body, 0)
            at = _behind_properties(frame.body, 2, version)
            found["reasons"] = tuple(frame.body[at : at + MOST_NAMES])
        elif kind == kinds.CONNACK:
            found["reasons"] = (frame.body[1],)
        elif kind in (kinds.DISCONNECT, kinds.AUTH) and frame.body:
            found["reasons"] = (frame.body[0],)
    except (IndexError, ValueError):
        found["text"] = "not all of it could be read"
    return found


def preview(payload: bytes, most: int) -> str | None:
    return b64encode(payload[:most]).decode("ascii") if most else None


def _publish(
    found: dict[str, Any], frame: Frame, version: int, most: int, aliases: dict[int, str]
) -> None:
    first, body = frame.first, frame.body
    found["qos"] = first >> 1 & 3
    found["retain"] = bool(first & 1)
    found["dup"] = bool(first & 8)
    size = _number(body, 0)
    topic = body[2 : 2 + size].decode("utf-8", "replace")
    at = 2 + size
    if found["qos"]:
        found["packet_id"] = _number(body, at)
        at += 2
    if version == kinds.V5:
        alias = _alias(body, at)
        if alias and topic:
            aliases[alias] = topic
        elif alias:
            topic = aliases.get(alias, f"(alias {alias})")
        at = _behind_properties(body, at, version)
    found["topic"] = shorten(topic)
    found["payload_bytes"] = frame.size - frame.header - at
    found["payload"] = preview(body[at:], most)


def shorten(text: str) -> str:
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _number(data: bytes, at: int) -> int:
    return data[at] << 8 | data[at + 1]


def _variable(data: bytes, at: int) -> tuple[int, int]:
    """A Variable Byte Integer, and where it ends."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _behind_properties(data: bytes, at: int, version: int) -> int:
    if version < kinds.V5:
        return at
    length, at = _variable(data, at)
    return at + length


def _alias(data: bytes, at: int) -> int:
    """The topic alias among the properties of a PUBLISH; 0 if there is none."""
    length, at = _variable(data, at)
    end = at + length
    while at < end:
        identifier = data[at]
        at += 1
        if identifier == _ALIAS:
            return _number(data, at)
        if identifier in _SIZES:
            at += _SIZES[identifier]
        elif identifier == 0x0B:
            _, at = _variable(data, at)
        else:  # texts, or data; a user property has two
            for _ in range(2 if identifier == 0x26 else 1):
                at += 2 + _number(data, at)
    return 0


def _filters(data: bytes, at: int, options: int) -> tuple[str, ...]:
    found: list[str] = []
    while at + 2 <= len(data) and len(found) < MOST_NAMES:
        size = _number(data, at)
        found.append(shorten(data[at + 2 : at + 2 + size].decode("utf-8", "replace")))
        at += 2 + size + options
    return tuple(found)
