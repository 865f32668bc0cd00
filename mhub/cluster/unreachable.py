"""What the log is told of addresses where no node answers, or one that does not want us.

A wrong address or a firewall makes a cluster of one node, which serves its clients as if nothing
were wrong.  So a warning says which address it is and why: when it begins, when the reason becomes
another one, and now and then while it lasts.  A list may be long, and a reason may change with each
attempt: not more than MOST warnings come in PERIOD_S, and how many were left out is said.

A node that has been linked is known to be down, which was logged: of that one there is no warning
before it is dead.
"""

from typing import Final

from mhub.cluster.dials import Dial

REMIND_S: Final = 600.0
"""How often it is said again while it lasts."""

PERIOD_S: Final = 60.0
MOST: Final = 10


class Unreachable:
    def __init__(self, dead_s: float) -> None:
        self._dead_s = dead_s
        self._said: dict[str, tuple[str, float]] = {}  # address -> reason, when
        self._period_began = 0.0
        self._count = 0
        self._left_out = 0

    def failed(self, dial: Dial, now: float) -> list[str]:
        """A call has failed, the dial knows why and since when; what there is to be said of it."""
        if dial.member and now - dial.failing_since < self._dead_s:
            return []
        reason, said_at = self._said.get(dial.address, ("", now))
        if reason == dial.reason and now - said_at < REMIND_S:
            return []
        self._said[dial.address] = (dial.reason, now)
        texts = self._begin_period(now)
        self._count += 1
        if self._count > MOST:
            self._left_out += 1
            return texts
        node = f"node {dial.member} at {dial.address}" if dial.member else dial.address
        since = ""
        if reason:
            attempts = f"{dial.failures} attempts"
            since = f" ({attempts} in {now - dial.failing_since:.0f} s)"
        return [*texts, f"no link with {node}: {dial.reason}{since}"]

    def _begin_period(self, now: float) -> list[str]:
        if now - self._period_began < PERIOD_S:
            return []
        left_out, self._left_out = self._left_out, 0
        self._period_began = now
        self._count = 0
        if not left_out:
            return []
        return [
            f"{left_out} more warnings about nodes that cannot be reached were left out:"
            " `mhub ctl cluster status` lists them all"
        ]

    def forget_others(self, addresses: set[str]) -> None:
        """Only of these something may have to be said again: the rest was reached, or is gone."""
        for address in [each for each in self._said if each not in addresses]:
            del self._said[address]
