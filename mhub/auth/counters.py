"""How often something happened lately, for any number of keys, in bounded memory.

The keys are what strangers send: names, addresses.  Whoever wants to guess a password must not be
able to make the broker forget how often it has tried, by filling the memory with other keys.  So,
as in the algorithm Space-Saving (Metwally, Agrawal, El Abbadi 2005), where there is no room the key
with the lowest count goes, and **what comes after it begins with that count**, the floor.

Invariant: what is not here has had at most `floor` events in the window.  It holds because a key
goes with a count, which the floor is raised to, and with nothing else; and because the floor is in
force until a window has passed since the last key went.  So a count is never lower than the truth.
It can be higher: the floor rises by one when as many keys have come as there is room for, so it is
at most (events in the window) / (room).  A flood of that size, with the defaults some hundred
failures in each second for ten minutes, makes the broker stricter, not more forgetful.

Keys are kept as digests: a name may have 65,535 bytes.

    levels[n]   the keys with n events -> when the last one was, in the order of that time
    level_of    where a key is

Both orders make everything O(1): an event moves its key to the end of the next level, what is too
old stands at the front of its level, and so does what goes first.
"""

from hashlib import blake2b
from typing import Final

DIGEST_SIZE: Final = 16


def digest(*parts: str) -> bytes:
    # Length first: no two lists of parts look the same.
    text = "".join(f"{len(part)}:{part}" for part in parts)
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_SIZE).digest()


class Counters:
    """Counts up to a threshold; each count ends `window_s` after its last event."""

    def __init__(self, threshold: int, window_s: float, most: int) -> None:
        self.threshold = threshold
        self.window_s = window_s
        self.most = most
        self.evicted = 0
        self.floor = 0
        self.floor_at = 0.0  # when a key went last
        self.levels: list[dict[bytes, float]] = [{} for _ in range(threshold)]
        self.level_of: dict[bytes, int] = {}

    def add(self, key: bytes, now: float) -> bool:
        """One more; whether that reaches the threshold, where the key begins anew."""
        self._expire(now)
        level = self.level_of.pop(key, None)
        if level is not None:
            del self.levels[level][key]
            count = level + 1
        else:
            if len(self.level_of) >= self.most and self.floor + 1 < self.threshold:
                self._evict(now)
            count = self.floor + 1
        if count >= self.threshold:
            return True
        self.levels[count][key] = now
        self.level_of[key] = count
        return False

    def forget(self, key: bytes) -> None:
        level = self.level_of.pop(key, None)
        if level is not None:
            del self.levels[level][key]

    def __len__(self) -> int:
        return len(self.level_of)

    def _expire(self, now: float) -> None:
        before = now - self.window_s
        if self.floor_at <= before:
            self.floor = 0
        for level in self.levels:
            while level:
                oldest = next(iter(level))
                if level[oldest] > before:
                    break
                del level[oldest]
                del self.level_of[oldest]

    def _evict(self, now: float) -> None:
        for count, level in enumerate(self.levels):
            if level:
                oldest = next(iter(level))
                del level[oldest]
                del self.level_of[oldest]
                self.evicted += 1
                self.floor = max(self.floor, count)
                self.floor_at = now
                return
