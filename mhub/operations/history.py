"""What the charts begin with: the series of the last hour, day and week, in memory.

    sample, each 5 s -> ring of 1 h -> mean of each minute -> ring of 1 day
                                    -> mean of 10 minutes  -> ring of 7 days

A ring is an array of single-precision floats for each series, as long as the span has periods, and
never grows: all of it takes some 380 kB (`size_bytes()`).  A period has a number, the time of day
by its length.  So a period in which nobody sampled, as the machine was suspended or the process
stopped, is a gap and not a line between its ends; and what is written after the clock was set back
replaces what it calls the future.

A period is written when it is over, at the first tick of the next one.  A tick that comes late by
more than a period writes what is known of the moment, and no rates; if the time of day has leapt,
as it does while a machine is suspended, it writes nothing.  A restart begins anew.
"""

import math
from array import array
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final

from mhub.operations.contract import BadArgument
from mhub.operations.numbers import Numbers
from mhub.operations.series import INDEX, NAMES, NONE, SERIES, Sampler, by_name, shown

STEP_S: Final = 5
SPANS: Final = {"1h": (STEP_S, 720), "1d": (60, 1440), "7d": (600, 1008)}
"""Seconds of a period, and how many of them are kept."""

PORTION: Final = 100
"""Values that are made ready between two looks at the clock: some 0.05 ms."""


@dataclass(frozen=True)
class HistoryPoint:
    """A period that has just ended."""

    time: float  # when it began
    step_s: int
    values: Mapping[str, float | None]  # by the names of the series


@dataclass(frozen=True)
class History:
    span: str
    start: float  # when the first period began; each value is of the `step_s` from its time on
    step_s: int
    series: Mapping[str, tuple[float | None, ...]]  # oldest first, all equally long; None: a gap
    units: Mapping[str, str]


class Ring:
    """The periods of one span."""

    def __init__(self, step_s: int, length: int) -> None:
        self.step_s = step_s
        self.length = length
        self._last = -1  # the number of the newest period; -1: there is none
        self._columns = [array("f", [NONE]) * length for _ in SERIES]

    def put(self, period: int, values: list[float]) -> None:
        if period <= self._last:  # the clock was set back
            self._blank(max(period, self._last - self.length + 1), self._last)
        elif self._last >= 0:
            self._blank(max(self._last + 1, period - self.length + 1), period - 1)
        self._last = period
        place = period % self.length
        for column, value in zip(self._columns, values, strict=True):
            column[place] = value

    def read(self, index: int, end: int) -> list[float]:
        """The values of one series up to the period before `end`."""
        column = self._columns[index]
        newest = self._last
        oldest = newest - self.length
        return [
            column[period % self.length] if oldest < period <= newest else NONE
            for period in range(end - self.length, end)
        ]

    def size_bytes(self) -> int:
        return sum(column.itemsize * len(column) for column in self._columns)

    def _blank(self, first: int, last: int) -> None:
        for period in range(first, last + 1):
            place = period % self.length
            for column in self._columns:
                column[place] = NONE


class Fold:
    """Gathers samples until their longer period is over: means, and peaks as what they are."""

    def __init__(self, ring: Ring) -> None:
        self._ring = ring
        self._period = -1
        self._begin()

    def add(self, began_at: int, values: list[float]) -> None:
        period = began_at // self._ring.step_s
        if period != self._period:
            if self._period >= 0:
                self._ring.put(self._period, self._folded())
            self._period = period
            self._begin()
        for index, value in enumerate(values):
            if value == value:
                self._sums[index] += value
                self._counts[index] += 1
                self._highest[index] = max(self._highest[index], value)

    def _begin(self) -> None:
        self._sums = [0.0] * len(SERIES)
        self._counts = [0] * len(SERIES)
        self._highest = [-math.inf] * len(SERIES)

    def _folded(self) -> list[float]:
        return [
            NONE if not count else self._highest[index] if series.is_peak else total / count
            for index, (series, total, count) in enumerate(
                zip(SERIES, self._sums, self._counts, strict=True)
            )
        ]


class Recorder:
    """Writes the history, driven by a tick each second."""

    def __init__(self, sampler: Sampler) -> None:
        self._sampler = sampler
        self._rings = {span: Ring(*size) for span, size in SPANS.items()}
        self._folds = [Fold(ring) for span, ring in self._rings.items() if span != "1h"]
        self._period = -1
        self._offset = (
            0.0  # of the time of day from the hub's clock, which a suspended machine stops
        )

    def tick(self, unix: float, read: Callable[[], Numbers]) -> HistoryPoint | None:
        """The period that has just ended, if one has."""
        period = int(unix // STEP_S)
        if period == self._period:
            return None
        numbers = read()
        is_first = self._period < 0
        offset = unix - numbers.now
        is_leap = offset - self._offset >= STEP_S
        self._period = period
        self._offset = offset
        values = self._sampler.sample(numbers, 2.0 * STEP_S)
        if is_first or is_leap:
            return None  # of the period before it not even a part was seen
        ended = period - 1
        self._rings["1h"].put(ended, values)
        for fold in self._folds:
            fold.add(ended * STEP_S, values)
        return HistoryPoint(float(ended * STEP_S), STEP_S, by_name(values))

    async def read(
        self, names: tuple[str, ...], span: str, unix: float, pause: Callable[[], Awaitable[object]]
    ) -> History:
        """The span up to now; pause() is called between portions, as for Slices.pause_if_due()."""
        ring = self._rings.get(span)
        if ring is None:
            raise BadArgument(f"span: expected one of {', '.join(SPANS)}")
        unknown = [name for name in names if name not in INDEX]
        if unknown:
            raise BadArgument(
                f"unknown series {unknown[0][:40]!r}; expected some of {', '.join(NAMES)}"
            )
        wanted = names or NAMES
        end = int(unix // ring.step_s)
        found = {}
        for name in wanted:
            values = ring.read(INDEX[name], end)
            told: list[float | None] = []
            for begin in range(0, len(values), PORTION):
                await pause()
                told += map(shown, values[begin : begin + PORTION])
            found[name] = tuple(told)
        return History(
            span=span,
            start=float((end - ring.length) * ring.step_s),
            step_s=ring.step_s,
            series=found,
            units={name: SERIES[INDEX[name]].unit for name in wanted},
        )

    def size_bytes(self) -> int:
        """What the rings take, which is all that it can come to."""
        return sum(ring.size_bytes() for ring in self._rings.values())
