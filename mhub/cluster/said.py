"""The fields of a frame from a peer, each read as what it has to be.

A peer is another release, or has a defect.  What it sends is read by this, by
`mhub.core.channel_records` and by `mhub.cluster.migration.reading`: they check types and bounds,
and raise ProtocolFault and nothing else.  So whatever else is raised while a frame is handled is a
defect of this node (`Node.handle`).
"""

from typing import Any, Final

from mhub.cluster.frames import unpack
from mhub.core.fields import CLOCK
from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import malformed

MOST: Final = (1 << 63) - 1
"""No number is larger: timestamps have 62 bits, in a table they are doubled."""

MOST_TIMESTAMP: Final = CLOCK.high


class Said:
    """The fields of a frame, each read as what it has to be; ProtocolFault if it is not that."""

    def __init__(self, body: bytes) -> None:
        self.fields = unpack(body)

    def has(self, name: str) -> bool:
        return name in self.fields

    def _get(self, name: str) -> Any:
        try:
            return self.fields[name]
        except KeyError:
            raise malformed(f"it has no {name!r}") from None

    def text(self, name: str) -> str:
        return as_text(self._get(name), name)

    def number(self, name: str, least: int = 0) -> int:
        return as_number(self._get(name), name, least)

    def timestamp(self, name: str) -> int:
        """An epoch of a session."""
        return as_timestamp(self._get(name), name)

    def real(self, name: str) -> float:
        found = self._get(name)
        if type(found) not in (int, float) or not -MOST <= found <= MOST:  # as no NaN is
            raise _wrong(name, "a number")
        return float(found)

    def flag(self, name: str) -> bool:
        found = self._get(name)
        if type(found) is not bool:
            raise _wrong(name, "true or false")
        return found

    def items(self, name: str) -> list[Any]:
        return as_list(self._get(name), name)

    def texts(self, name: str) -> list[str]:
        return [as_text(each, name) for each in self.items(name)]

    def numbers(self, name: str) -> list[int]:
        return [as_number(each, name) for each in self.items(name)]

    def pair(self, name: str, least: int = 0) -> tuple[str, int]:
        """A text and a number, in a list."""
        return as_pair(self._get(name), name, least)

    def pairs(self, name: str) -> list[tuple[str, int]]:
        return [as_pair(each, name) for each in self.items(name)]

    def by_name(self, name: str) -> dict[str, Any]:
        """An object; what is in it is still to be read."""
        found = self._get(name)
        if type(found) is not dict:
            raise _wrong(name, "an object")
        return {as_text(key, name): value for key, value in found.items()}


def as_text(value: Any, name: str) -> str:
    if type(value) is not str:
        raise _wrong(name, "a text")
    if not value.isascii():
        try:
            value.encode("utf-8")  # JSON can have halves of characters
        except UnicodeEncodeError:
            raise _wrong(name, "a text in UTF-8") from None
    return value


def as_number(value: Any, name: str, least: int = 0) -> int:
    if type(value) is not int or not least <= value <= MOST:
        raise _wrong(name, f"a number from {least} to {MOST}")
    return value


def as_timestamp(value: Any, name: str) -> int:
    if as_number(value, name) > MOST_TIMESTAMP:
        raise _wrong(name, "a timestamp")
    return int(value)


def as_list(value: Any, name: str) -> list[Any]:
    if type(value) is not list:
        raise _wrong(name, "a list")
    return value


def as_pair(value: Any, name: str, least: int = 0) -> tuple[str, int]:
    if type(value) is not list or len(value) != 2:
        raise _wrong(name, "a text and a number")
    return as_text(value[0], name), as_number(value[1], name, least)


def _wrong(name: str, expected: str) -> ProtocolFault:
    return malformed(f"its {name!r} is not {expected}")


def split(body: bytes) -> tuple[Said, bytes]:
    """What with_data() has put together."""
    head, _, data = body.partition(b"\n")
    return Said(head), data
