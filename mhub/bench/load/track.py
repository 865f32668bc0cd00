"""Number and order of the messages of one publisher, as one subscriber sees them.

The usual case, the next message in line, is one comparison in `Client.feed`.  Everything else comes
to `Track.unexpected`: a jump forward leaves a gap, a message out of a gap came out of order, and
anything else was there before.
"""

from bisect import bisect_right
from typing import Final

MOST_GAPS: Final = 65536
"""Gaps that a track remembers.  When a broker loses this many messages here and there the oldest
gaps are forgotten: should one of those messages come after all, it counts as a duplicate."""


class Source:
    """One publisher: what it sent, and how much of that is accounted for at its subscribers."""

    def __init__(self) -> None:
        self.sent = 0
        self.seen = 0


class Track:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.next = 0
        self.duplicated = 0
        self.disordered = 0
        self._starts: list[int] = []  # gaps, ascending: [start, end)
        self._ends: list[int] = []

    def unexpected(self, seq: int) -> bool:
        """Take a message that is not `next`; whether it is here for the first time."""
        if seq >= self.next:
            self._starts.append(self.next)
            self._ends.append(seq)
            if len(self._starts) > MOST_GAPS:
                del self._starts[: MOST_GAPS // 2]
                del self._ends[: MOST_GAPS // 2]
            # The gap counts as seen, or lost messages would close the publisher's window for good.
            self.source.seen += seq + 1 - self.next
            self.next = seq + 1
            return True
        if self._fill(seq):
            self.disordered += 1
            return True
        self.duplicated += 1
        return False

    def missing(self) -> int:
        """How many messages before the newest one have not come."""
        return sum(self._ends) - sum(self._starts)

    def _fill(self, seq: int) -> bool:
        i = bisect_right(self._starts, seq) - 1
        if i < 0 or seq >= self._ends[i]:
            return False
        start, end = self._starts[i], self._ends[i]
        if start == seq:
            if end == seq + 1:
                del self._starts[i], self._ends[i]
            else:
                self._starts[i] = seq + 1
        else:
            self._ends[i] = seq
            if end != seq + 1:
                self._starts.insert(i + 1, seq + 1)
                self._ends.insert(i + 1, end)
        return True
