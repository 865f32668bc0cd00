"""Not more lines of a kind than somebody can read: a storm must not drown what matters.

Each kind has a bucket of tokens: so many lines at once, then so many a second.  Those beyond are
counted, and their number is one line, `interval_s` after the first of them.
"""

from collections.abc import Callable
from typing import Any


class Bucket:
    def __init__(self, tokens: float, now: float) -> None:
        self.tokens = tokens
        self.filled_at = now
        self.hidden = 0  # lines that were left out since the last one that tells of them


class RateLimit:
    """`clock` is a reactor; `tell` is called with kind, level and how many were left out."""

    def __init__(
        self,
        per_s: float,
        burst: int,
        interval_s: float,
        clock: Any,
        tell: Callable[[str, str, int], None],
    ) -> None:
        self._per_s = per_s
        self._burst = burst
        self._interval_s = interval_s
        self._clock = clock
        self._tell = tell
        self._buckets: dict[str, Bucket] = {}  # as many as there are kinds, which the code names

    def admits(self, kind: str, level: str) -> bool:
        """Whether one more line of a kind is written; if not, it is counted."""
        now = self._clock.seconds()
        bucket = self._buckets.get(kind)
        if bucket is None:
            bucket = self._buckets[kind] = Bucket(float(self._burst), now)
        new = (now - bucket.filled_at) * self._per_s
        # A clock that was set back gives nothing, and takes nothing.
        bucket.tokens = min(float(self._burst), bucket.tokens + max(new, 0.0))
        bucket.filled_at = now
        if bucket.tokens >= 1.0:
            bucket.tokens -= 1.0
            return True
        if not bucket.hidden:
            self._clock.callLater(self._interval_s, self._report, kind, level)
        bucket.hidden += 1
        return False

    def _report(self, kind: str, level: str) -> None:
        bucket = self._buckets[kind]
        hidden, bucket.hidden = bucket.hidden, 0
        self._tell(kind, level, hidden)
