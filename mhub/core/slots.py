"""Things that are walked through in portions, while some of them come and go.

A dictionary that changes cannot be gone through bit by bit, and to copy 200,000 keys takes
milliseconds in which nobody is served.  Here each thing has a place, its slot, as long as it is
there; whoever walks goes from slot to slot, at any pace.  A thing that stays for the whole walk is
seen exactly once.  One that comes meanwhile may be seen or not.

Slots that are free are used again, the last one first, so there are never more of them than there
were things at the same time.

The names are beside the things.  With 200,000 of them, what takes the time of a walk is not the
work but to have them come from memory, some 70 ns for each object that is looked at; most things
are told by their names.  A walk takes a slice of the list first: that touches all of them at once,
and the processor fetches several at a time.
"""

from typing import Final, Generic, TypeVar

T = TypeVar("T")

NOWHERE: Final = -1
"""The slot of what is in none."""


class Slots(Generic[T]):
    def __init__(self) -> None:
        self.items: list[T | None] = []  # None: the slot is free
        self.names: list[str] = []  # not empty, but for free slots
        self._free: list[int] = []

    def __len__(self) -> int:
        """How many there are, which is not how long a walk is."""
        return len(self.items) - len(self._free)

    def add(self, item: T, name: str) -> int:
        """The slot that it has from now on."""
        if self._free:
            slot = self._free.pop()
            self.items[slot] = item
            self.names[slot] = name
            return slot
        self.items.append(item)
        self.names.append(name)
        return len(self.items) - 1

    def replace(self, slot: int, item: T) -> None:
        """Another thing with the same name takes over a slot."""
        self.items[slot] = item

    def remove(self, slot: int) -> None:
        self.items[slot] = None
        self.names[slot] = ""
        self._free.append(slot)
