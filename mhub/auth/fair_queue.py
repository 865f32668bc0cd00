"""A queue in which whoever sends much waits behind itself.

Each key (the address of a client) has a queue of its own; they are served in turn.  When all places
are taken, one is taken from the longest queue for a key that has fewer.
"""

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class FairQueue(Generic[T]):
    def __init__(self) -> None:
        self._queues: dict[str, deque[T]] = {}  # in the order in which they are served; none empty
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, key: str, item: T) -> None:
        self._queues.setdefault(key, deque()).append(item)
        self._size += 1

    def pop(self) -> T:
        """The next one; its key is behind all others then."""
        key = next(iter(self._queues))
        queue = self._queues.pop(key)
        if len(queue) > 1:
            self._queues[key] = queue
        self._size -= 1
        return queue.popleft()

    def give_way(self, key: str) -> T | None:
        """Take out the last one of the longest queue, if `key` has fewer even with one more."""
        if not self._queues:
            return None
        longest = max(self._queues, key=lambda each: len(self._queues[each]))
        own = self._queues.get(key)
        if len(self._queues[longest]) <= (len(own) if own is not None else 0) + 1:
            return None
        self._size -= 1
        return self._queues[longest].pop()

    def remove(self, key: str, item: T) -> bool:
        """Whether it was there."""
        queue = self._queues.get(key)
        if queue is None or item not in queue:
            return False
        queue.remove(item)
        self._size -= 1
        if not queue:
            del self._queues[key]
        return True

    def clear(self) -> list[T]:
        """Take all out."""
        items = [item for queue in self._queues.values() for item in queue]
        self._queues.clear()
        self._size = 0
        return items
