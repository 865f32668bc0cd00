"""How long something takes, as counts in fixed buckets: one look-up and one addition each time.

Buckets make averages and percentiles of any stretch of time out of two readings, and so many
numbers are all there ever are of them.
"""

from bisect import bisect_left


class Histogram:
    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds  # the upper ends of the buckets, which they include
        self.counts = [0] * (len(bounds) + 1)  # the last bucket has no end
        self.total_s = 0.0

    def observe(self, value_s: float) -> None:
        self.counts[bisect_left(self.bounds, value_s)] += 1
        self.total_s += value_s

    def count(self) -> int:
        return sum(self.counts)
