"""Keys, and the tables and lists made of them.

A key is a dataclass field made with `setting(...)`: type, range, default and documentation stand
in one place, which the loader and the reference both read.  Tables and lists report about their
parts themselves, so that one mistake does not hide the next.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final, Generic, TypeVar

from mhub.config.kinds import Kind, Place
from mhub.config.mosquitto import renamed
from mhub.config.problems import Wrong, nearest

T = TypeVar("T")
S = TypeVar("S")

METADATA: Final = "mhub"


class ListOf(Kind[tuple[S, ...]]):
    def __init__(self, item: Kind[S], *, low: int = 0) -> None:
        self._item, self._low = item, low
        self.keys = item.keys
        self.name = f"list of: {item.name}"
        self.expected = (
            f"a list, each {item.expected}"
            if not low
            else f"a list that is not empty, each {item.expected}"
        )

    def read(self, value: object, place: Place) -> tuple[S, ...]:
        if not isinstance(value, list) or len(value) < self._low:
            raise Wrong(self.expected)
        items = (read_one(self._item, item, place.item(index)) for index, item in enumerate(value))
        return tuple(item for item in items if item is not None)

    def show(self, value: tuple[S, ...]) -> str:
        return "[" + ", ".join(self._item.show(item) for item in value) + "]"


@dataclass(frozen=True)
class Key(Generic[T]):
    """All there is to say about one key."""

    kind: Kind[T]
    doc: str
    default: object = None
    required: bool = False
    only: tuple[str, ...] = ()  # the transports that have this key; empty: all
    shown: str = ""  # the default in words, where it depends on other keys


def setting(
    kind: Kind[Any],
    default: S,
    doc: str,
    *,
    required: bool = False,
    only: tuple[str, ...] = (),
    shown: str = "",
) -> S:
    """A dataclass field that is a key of the file."""
    entry: Key[Any] = Key(kind, doc, default, required, only, shown)
    made: S = field(default=default, metadata={METADATA: entry})
    return made


def keys_of(cls: Any) -> dict[str, Key[Any]]:
    """The keys of a dataclass, in the order in which they are written there."""
    return {item.name: item.metadata[METADATA] for item in fields(cls) if METADATA in item.metadata}


class Table(Kind[dict[str, Any]]):
    """A table of known keys: gives those that are there and right."""

    name = "table"
    expected = "a table"

    def __init__(self, keys: Mapping[str, Key[Any]]) -> None:
        self.keys = keys

    def read(self, value: object, place: Place) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise Wrong(self.expected)
        found: dict[str, Any] = {}
        for name, given in value.items():
            if name not in self.keys:
                place.at(name).wrong(_unknown(name, self.keys))
                continue
            read = read_one(self.keys[name].kind, given, place.at(name))
            if read is not None:
                found[name] = read
        for name, entry in self.keys.items():
            if entry.required and name not in value:
                place.at(name).wrong(f"missing; expected {entry.kind.expected}")
        return found


class Record(Kind[T]):
    """A table whose keys are the fields of a dataclass: gives the dataclass."""

    name = "table"
    expected = "a table"

    def __init__(self, cls: Callable[..., T]) -> None:
        self._cls = cls
        self._table = Table(keys_of(cls))
        self.keys = self._table.keys

    def read(self, value: object, place: Place) -> T:
        return self._cls(**self._table.read(value, place))


def read_one(kind: Kind[T], value: object, place: Place) -> T | None:
    """The value converted, or None when it was wrong and the report has it."""
    try:
        return kind.read(value, place)
    except Wrong as wrong:
        hint = f" ({wrong.hint})" if wrong.hint else ""
        place.wrong(f"expected {wrong.expected}, found {kind.found(value)}{hint}")
        return None


def _unknown(name: str, known: Mapping[str, object]) -> str:
    # First mosquitto's names: the nearest key to `max_inflight_messages` is another one's.
    if ours := renamed(name):
        return f"unknown key; {ours}"
    if near := nearest(name, known):
        return f'unknown key; did you mean "{near}"?'
    return "unknown key; expected one of " + ", ".join(known)
