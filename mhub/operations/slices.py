"""Long work in slices: after a few milliseconds the reactor has its turn, then the work goes on."""

from collections.abc import Awaitable, Callable, Generator
from typing import Final, TypeVar

SLICE_S: Final = 0.001
"""On top comes the piece of work that is at hand when it is over: for pages of 100 items up to 0.8
ms, for pages of 1,000, whose first ones are sorted at a stretch, some 3 ms."""

T = TypeVar("T")


class Slices:
    """Asked now and then by the work, between two pieces of it.

    `pause()` gives an awaitable that comes back when everything else has had its turn.
    """

    def __init__(
        self,
        clock: Callable[[], float],
        pause: Callable[[], Awaitable[object]],
        slice_s: float = SLICE_S,
    ) -> None:
        """`slice_s` is less where the pieces take long, as a slice ends with the piece at hand."""
        self._clock = clock
        self._pause = pause
        self._slice_s = slice_s
        self._until = clock() + slice_s

    async def through(self, steps: Generator[None, None, T]) -> T:
        """What a generator comes to that yields between two pieces of its work."""
        while True:
            try:
                next(steps)
            except StopIteration as stop:
                found: T = stop.value
                return found
            await self.pause_if_due()

    async def pause_if_due(self) -> None:
        if self._clock() >= self._until:
            await self._pause()
            self._until = self._clock() + self._slice_s
