"""The fields of a record, written down once.

A `Shape` stands beside each record class of `mhub.core.records` and lists its fields in order.
What stores, exports and links make of a record is derived from it: columns, hashes, lines of JSON,
bytes.  The classes themselves stay plain, as the hub makes a DeliveryRecord for every message:
nothing in here is on that path.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")


class Kind:
    """What values a field has; integers are from `low` to `high`."""

    def __init__(self, name: str, code: str, empty: object, low: int = 0, high: int = 0) -> None:
        self.name = name
        self.code = code  # of the struct module: the number itself, or the size of text and data
        self.empty = empty
        self.low = low
        self.high = high


def _integer(code: str, low: int, high: int) -> Kind:
    return Kind("integer", code, 0, low, high)


# Lua has no integers beyond 2**53, and there are tools that read JSON and round.
NUMBER: Final = _integer("Q", 1, (1 << 53) - 1)
COUNT: Final = _integer("Q", 0, (1 << 53) - 1)
U16: Final = _integer("H", 0, 0xFFFF)
U28: Final = _integer("I", 0, 0xFFFFFFF)
U32: Final = _integer("I", 0, 0xFFFFFFFF)
QOS: Final = _integer("B", 0, 2)
CLOCK: Final = Kind("clock", "Q", 0, 0, (1 << 62) - 1)
"""A time of the cluster's clock, `mhub.core.hlc`: an integer, as text where numbers are rounded."""

FLAG: Final = Kind("flag", "?", False)
TIME: Final = Kind("time", "d", 0.0)
TEXT: Final = Kind("text", "I", "")
DATA: Final = Kind("data", "I", b"")
BODY: Final = Kind("body", "I", b"")
"""A message, as records.message() makes bytes of it; or nothing."""


class Field:
    def __init__(self, name: str, kind: Kind, default: object) -> None:
        self.name = name
        self.kind = kind
        self.default = default


class Shape(Generic[T]):
    """The table of a record's fields; the first two are what its class is made with."""

    def __init__(self, make: Callable[..., T], *fields: tuple[str, Kind]) -> None:
        self.make = make
        # The class itself says what the defaults are.
        blank = make(fields[0][1].empty, fields[1][1].empty)
        self.fields = [Field(name, kind, getattr(blank, name)) for name, kind in fields]
        self.names = tuple([name for name, _ in fields])
        self.values: Callable[[T], tuple[Any, ...]] = attrgetter(*self.names)

    def record(self, values: Sequence[Any]) -> T:
        """A record with these values, in the order of the fields; flags may be integers."""
        record = self.make(values[0], values[1])
        for n in range(2, len(self.fields)):
            field = self.fields[n]
            setattr(record, field.name, bool(values[n]) if field.kind is FLAG else values[n])
        return record

    def copy(self, record: T) -> T:
        """Field by field, as copy.copy() brings back an empty object where records are compiled."""
        return self.record(self.values(record))
