"""Long work in slices: after a few milliseconds the reactor has its turn, then the work goes on.

In between, MQTT clients need not wait for the end of a slice: each LOOK_S their sockets are looked
at, and those that have something are served (`Pauses`).
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

SLICE_S: Final = 0.001
"""On top comes the piece of work that is at hand when it is over: for pages of 100 items up to 0.8
ms, for pages of 1,000, whose first ones are sorted at a stretch, some 3 ms."""

LOOK_S: Final = 0.0001
"""A look at the sockets takes some 3 us if none of them has anything."""

T = TypeVar("T")


class Pauses:
    """Gives awaitables that come back when everything else has had its turn.

    turn() serves MQTT sockets, and may be called between two pieces of the work that has come back
    from such a pause, until it waits for something else: so long it is known to be called by the
    reactor itself, and not by something that the core does in the midst of a turn of its own.
    `stretch` is a number for that time, 0 outside of it.
    """

    def __init__(self, reactor: Any, turn: Callable[[], None]) -> None:
        self.turn = turn
        self.stretch = 0
        self._reactor = reactor
        self._stretches = 0

    def __call__(self) -> Deferred[None]:
        waiting: Deferred[None] = Deferred(lambda _: call.cancel())
        call = self._reactor.callLater(0.0, self._go_on, waiting)
        return waiting

    def _go_on(self, waiting: Deferred[None]) -> None:
        self._stretches += 1
        self.stretch = self._stretches
        try:
            waiting.callback(None)
        finally:
            self.stretch = 0


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
        self._pauses = pause if isinstance(pause, Pauses) else None
        self._slice_s = slice_s
        self._stretch = 0  # that of the last pause
        self._begin()

    def _begin(self) -> None:
        now = self._clock()
        self._until = now + self._slice_s
        self._look_at = self._until if self._pauses is None else now + LOOK_S

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
        now = self._clock()
        if now < self._look_at:
            return
        pauses = self._pauses
        if pauses is not None and now < self._until and self._stretch == pauses.stretch != 0:
            pauses.turn()
            self._look_at = self._clock() + LOOK_S
            return
        await self._pause()
        if pauses is not None:
            self._stretch = pauses.stretch
        self._begin()
