"""A scan to its end, in slices."""

from typing import Final, Protocol

from mhub.core.scan import Glob
from mhub.operations.contract import BadArgument
from mhub.operations.slices import Slices

PORTION: Final = 50
"""Slots that are looked at between two looks at the clock: 0.01 ms, 0.05 ms if not compiled."""

RESULTS: Final = 3
"""Results that are made between two looks at the clock: some 0.02 ms."""

LONGEST_MATCH: Final = 256
"""Characters of a pattern: to compile one takes 10 ms then, seconds if it is ten times as long."""


class Scan(Protocol):
    def step(self, most: int) -> bool:
        """Look at so many; False: that was all."""


async def walk(scan: Scan, slices: Slices) -> None:
    more = True
    while more:
        more = scan.step(PORTION)
        await slices.pause_if_due()


def glob_of(match: str, name: str = "match") -> Glob | None:
    """Raises BadArgument."""
    if len(match) > LONGEST_MATCH:
        raise BadArgument(f"{name}: expected at most {LONGEST_MATCH} characters")
    return Glob(match) if match else None
