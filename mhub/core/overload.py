"""Whether the broker falls behind: then new clients are refused, and those who are here are served.

What is measured is drift, the time by which the loop is late (`mhub.net.loop`): a timer that comes
too late, or sockets that have something and are not reached.  A single long turn is no overload: a
collection of garbage, a process that was stopped for a while.  So it begins with the second
measurement in a row that is too high, and ends when all have been below half of the bound for
CALM_S, as a broker that has just caught up is the one to which everybody wants to connect.
"""

from typing import Final

from mhub.core.histogram import Histogram

CALM_S: Final = 2.0

LATENESS_S: Final[tuple[float, ...]] = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
)
"""The buckets of the drift, which is measured four times a second."""


class Peak:
    """The highest drift since somebody looked; each who looks has its own."""

    def __init__(self) -> None:
        self.highest_s = 0.0

    def take(self) -> float:
        highest_s = self.highest_s
        self.highest_s = 0.0
        return highest_s


class Overload:
    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s  # 0: never
        self.active = False
        self.drift_s = 0.0  # as it was measured last
        self.lateness = Histogram(LATENESS_S)
        self.peaks: list[Peak] = []
        self.began_at = 0.0
        self.refused = 0  # CONNECTs, since it began
        self._was_high = False
        self._calm_since = 0.0

    def measure(self, drift_s: float, now: float) -> bool:
        """Whether it begins or ends with this."""
        self.drift_s = drift_s
        self.lateness.observe(drift_s)
        for peak in self.peaks:
            if drift_s > peak.highest_s:
                peak.highest_s = drift_s
        if not self.limit_s:
            return False
        is_high = drift_s >= self.limit_s
        again = is_high and self._was_high
        self._was_high = is_high
        if not self.active:
            if again:
                self.active = True
                self.began_at = now
                self.refused = 0
                self._calm_since = 0.0
            return again
        if drift_s >= self.limit_s / 2:
            self._calm_since = 0.0
        elif not self._calm_since:
            self._calm_since = now
        elif now - self._calm_since >= CALM_S:
            self.active = False
        return not self.active
