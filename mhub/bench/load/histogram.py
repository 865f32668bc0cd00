"""Latencies, counted log-linearly: constant memory, any range, less than 1 % error.

Each power of two is cut into 64 steps.  Values are whole nanoseconds; below 128 ns they are exact.
"""

from collections.abc import Iterator
from typing import Final

STEPS: Final = 64
_EXACT: Final = 2 * STEPS
_SHIFT: Final = 7  # bits of _EXACT - 1
_SLOTS: Final = STEPS * 60


class Histogram:
    def __init__(self) -> None:
        self.counts: list[int] = [0] * _SLOTS
        self.total = 0
        self.sum = 0
        self.max = 0

    def add(self, value: int, times: int = 1) -> None:
        """Count `value` nanoseconds, `times` over: a batch shares its time stamp."""
        if value < 0:  # clocks of two ends; here they are one, but a broker could alter payloads
            value = 0
        if value < _EXACT:
            slot = value
        else:
            exponent = value.bit_length() - _SHIFT
            slot = exponent * STEPS + (value >> exponent)
            if slot >= _SLOTS:
                slot = _SLOTS - 1
        self.counts[slot] += times
        self.total += times
        self.sum += value * times
        if value > self.max:
            self.max = value

    def quantile(self, part: float) -> float:
        """The value that `part` (0 to 1) of all counted values do not exceed; 0 when empty."""
        wanted = part * self.total
        seen = 0
        for slot, count in enumerate(self.counts):
            if count:
                seen += count
                if seen >= wanted:
                    return min(_middle(slot), float(self.max))
        return float(self.max)

    def mean(self) -> float:
        return self.sum / self.total if self.total else 0.0

    def filled(self) -> Iterator[tuple[float, int]]:
        """The slots that hold anything, as (value at the slot's middle, count), ascending."""
        for slot, count in enumerate(self.counts):
            if count:
                yield _middle(slot), count


def _middle(slot: int) -> float:
    if slot < _EXACT:
        return float(slot)
    exponent = slot // STEPS - 1
    return (slot % STEPS + STEPS + 0.5) * float(1 << exponent)
