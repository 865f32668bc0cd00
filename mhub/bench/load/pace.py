"""An open loop: when each message is due, whatever became of the ones before it.

Message i of a run is due at `start + i / rate`, and belongs to publisher `i % publishers`.  A
message that could not leave in time still carries the moment at which it was due, so a broker that
stands still for a second shows that second in its latency (no coordinated omission).  Times are
integers, in nanoseconds.
"""

from typing import Final

SECOND: Final = 1_000_000_000


class Pace:
    def __init__(self, rate: int, publishers: int, start: int, total: int) -> None:
        self.rate = rate
        self.publishers = publishers
        self.start = start
        self.total = total
        self._called = 0  # messages due at the last call of `call`

    def due(self, index: int) -> int:
        """When message `index` of the run is due."""
        return self.start + index * SECOND // self.rate

    def called(self, now: int) -> int:
        """How many messages of the run are due by `now`."""
        if now < self.start:
            return 0
        # +1: message 0 is due at the start itself.  The estimate can be one off by rounding.
        count = min((now - self.start) * self.rate // SECOND + 1, self.total)
        if count < self.total and self.due(count) <= now:
            count += 1
        return count

    def owed(self, publisher: int, called: int) -> int:
        """How many of the first `called` messages belong to `publisher`."""
        return (called - publisher + self.publishers - 1) // self.publishers

    def due_of(self, publisher: int, seq: int) -> int:
        """When message `seq` of `publisher` is due."""
        return self.due(seq * self.publishers + publisher)

    def late(self, now: int) -> int:
        """By how much the oldest message that became due since the last call was missed; or -1.

        This is the load side's own delay (its sleep, the scheduler): part of the latency."""
        called = self.called(now)
        if called <= self._called:
            return -1
        first = self._called
        self._called = called
        return now - self.due(first)

    def rest(self, now: int) -> int:
        """How long until the next message is due; 0 when one is, or when the run is over."""
        called = self.called(now)
        if called >= self.total:
            return 0
        return max(0, self.due(called) - now)
