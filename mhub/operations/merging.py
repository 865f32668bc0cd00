"""Pages of several nodes as one page.

Each node gives its items in the same order: by a value and a name, ascending or descending.  The
first of all of them are taken, one by one; a node whose page is used up is asked for the next one.
So pages are small and few, whatever the clients of a node are called.

A cursor says behind which value and name a page begins, and nothing of a node: so the cursor of the
last item that was taken goes on at all nodes.  Items with the same value and name, as those of a
client that is just moving, are therefore never on two pages: the last one brings the others with
it.
"""

from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Final

from mhub.operations.contract import OperationError
from mhub.operations.slices import Slices

PORTION: Final = 250
"""Items that a node is asked for at a time: to read 250 clients takes less than a millisecond."""

LOOK: Final = 50
"""Items that are taken between two looks at the clock."""

Key = tuple[float, str]

Asking = Coroutine[Any, Any, Any]

Fetch = Callable[[str, int], Asking]
"""The page of a node behind a cursor, with so many items; it is asked for at once.

Raises OperationError, when it is awaited."""


class Order:
    def __init__(self, descending: bool, by_name: bool) -> None:
        self._is_reverse = descending and by_name  # else values descend, and names ascend
        self._sign = -1.0 if descending else 1.0

    def first(self, sources: "list[Source]") -> "Source":
        """The one that has the next item."""
        if self._is_reverse:
            return max(sources, key=lambda source: source.key()[1])
        return min(sources, key=self._rank)

    def _rank(self, source: "Source") -> Key:
        value, name = source.key()
        return self._sign * value, name


class Source:
    """The items of one node."""

    def __init__(
        self,
        node: str,
        fetch: Fetch,
        items_of: Callable[[Any], tuple[Any, ...]],
        key_of: Callable[[Any], Key],
        cursor: str,
        is_here: bool,
    ) -> None:
        self.node = node
        self._is_here = is_here
        self.page: Any = None  # the last one
        self.failed = False
        self._fetch = fetch
        self._items_of = items_of
        self.key_of = key_of
        self._cursor = cursor
        self._items: deque[Any] = deque()
        self._waiting: Asking | None = None
        self.has_more = True

    def begin(self, limit: int, is_alone: bool = False) -> None:
        """Ask for the next page, if the last one is used up and there is one.

        `is_alone`: all of it will be taken, so that it may be as long as is wanted.
        """
        if not self._items and self.has_more:
            self._waiting = self._fetch(self._cursor, limit if is_alone else min(limit, PORTION))

    async def wait(self) -> None:
        """Until it is there."""
        waiting, self._waiting = self._waiting, None
        if waiting is None:
            return
        try:
            self.page = await waiting
        except OperationError:
            if self._is_here:
                raise  # what is asked for makes no sense
            self.failed = True
            self.has_more = False
            return
        self._items.extend(self._items_of(self.page))
        self._cursor = self.page.next
        self.has_more = bool(self._cursor)

    def close(self) -> None:
        """Nobody waits for it any more."""
        if self._waiting is not None:
            self._waiting.close()

    def has_item(self) -> bool:
        return bool(self._items)

    def key(self) -> Key:
        return self.key_of(self._items[0])

    def take(self) -> Any:
        return self._items.popleft()

    def take_all(self) -> list[Any]:
        found = list(self._items)
        self._items.clear()
        return found

    def left(self) -> int:
        """Items that were not taken, as far as it is known."""
        return len(self._items) + getattr(self.page, "left", 0)


class Merged:
    """The first items of all sources."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.last: Key | None = None  # of these
        self.has_more = False


async def merge(sources: list[Source], order: Order, limit: int, slices: Slices) -> Merged:
    try:
        return await _merge(sources, order, limit, slices)
    finally:
        for source in sources:
            source.close()


async def _merge(sources: list[Source], order: Order, limit: int, slices: Slices) -> Merged:
    merged = Merged()
    if len(sources) == 1:
        return await _take_all(sources[0], limit)
    while True:
        missing = max(limit - len(merged.items), 1)
        for source in sources:
            source.begin(missing)
        for source in sources:
            await source.wait()
        ready = [source for source in sources if source.has_item()]
        if not ready:
            return merged
        source = order.first(ready)
        key = source.key()
        if len(merged.items) >= limit and key != merged.last:
            merged.has_more = True
            return merged
        merged.items.append(source.take())
        merged.last = key
        if len(merged.items) % LOOK == 0:
            await slices.pause_if_due()


async def _take_all(source: Source, limit: int) -> Merged:
    """The page of the only node: there is nothing to merge it with."""
    merged = Merged()
    while len(merged.items) < limit and source.has_more:
        source.begin(limit - len(merged.items), is_alone=True)
        await source.wait()
        merged.items += source.take_all()
    if merged.items:
        merged.last = source.key_of(merged.items[-1])
    merged.has_more = source.has_more
    return merged
