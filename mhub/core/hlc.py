"""The cluster's clock: later events have higher timestamps, on whichever node they happen.

A hybrid logical clock: the time since 1970 in units of 1/4096 ms, then a mark of the node.  It
follows the time of day, but never goes back, and is always ahead of every timestamp it has seen.
So what a node does because of something that it was told is later than that, however wrong the
clocks of the machines are.  Clients go from node to node in less than a millisecond: where the
clocks agree, that fine is the order of their CONNECTs.
"""

from typing import Final
from zlib import crc32

FRACTION_BITS: Final = 12
MARK_BITS: Final = 8
LOW_BITS: Final = FRACTION_BITS + MARK_BITS
UNITS: Final = 1000.0 * (1 << FRACTION_BITS)
STEP: Final = 1 << MARK_BITS

NOTE: Final = "clock"
"""The note with a timestamp that none before the next restart reaches."""

AHEAD: Final = 10_000 << LOW_BITS
"""Ten seconds: so rarely is it noted."""


class Clock:
    """Timestamps fit into 62 bits: small integers, also in the compiled build."""

    def __init__(self, node: str, offset_s: float) -> None:
        self.offset_s = offset_s  # the hub's clock plus this is the time of day
        self.mark = crc32(node.encode("utf-8")) & (STEP - 1)  # no two nodes give the same timestamp
        self.last = self.mark
        self.reserved = 0  # as the store has it

    def at(self, now: float) -> int:
        """The time as a timestamp, which is nobody's."""
        return max(int((now + self.offset_s) * UNITS) << MARK_BITS, self.last)

    def timestamp(self, now: float) -> int:
        """A timestamp that is higher than all so far."""
        wall = int((now + self.offset_s) * UNITS) << MARK_BITS | self.mark
        self.last = wall if wall > self.last else self.last + STEP
        return self.last

    def reserve(self) -> int:
        """A timestamp to note: none is reached until the next one is."""
        self.reserved = self.last + AHEAD
        return self.reserved

    def saw(self, timestamp: int) -> None:
        """A timestamp of another node came: ours are higher from now on."""
        if timestamp > self.last:
            self.last = timestamp - timestamp % STEP + self.mark
