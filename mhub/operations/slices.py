"""Long work in slices: after a few milliseconds the reactor has its turn, then the work goes on.

In between, MQTT clients need not wait for the end of a slice: each LOOK_S their sockets are looked
at, and those that have something are served (`Pauses`).
"""

from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

SLICE_S: Final = 0.001
"""On top comes the piece of work that is at hand when it is over, up to 0.4 ms."""

LOOK_S: Final = 0.00002
"""A look at the sockets takes some 3 us if none of them has anything."""

T = TypeVar("T")


class Pauses:
    """Gives awaitables that come back when everything else has had its turn.

    Work that has come back from such a pause may look() between two pieces, until it waits for
    something else: so long it is known to be called by the reactor itself, and not by something
    that the core does in the midst of a turn of its own.  `stretch` is a number for that time, 0
    outside of it and while the sockets are served.
    """

    def __init__(self, reactor: Any, turn: Callable[[], None], clock: Callable[[], float]) -> None:
        """turn() serves MQTT sockets."""
        self.stretch = 0
        self.began_at = 0.0  # the stretch
        self.looked_at = 0.0  # last in it
        self._reactor = reactor
        self._turn = turn
        self._clock = clock
        self._stretches = 0

    def __call__(self) -> Deferred[None]:
        waiting: Deferred[None] = Deferred(lambda _: call.active() and call.cancel())
        call = self._reactor.callLater(0.0, self._go_on, waiting)
        return waiting

    def _go_on(self, waiting: Deferred[None]) -> None:
        # The reactor may have come here without a look at the sockets.
        self._turn()
        if waiting.called:  # it was cancelled in that turn
            return
        self._stretches += 1
        self.stretch = self._stretches
        self.began_at = self.looked_at = self._clock()
        try:
            waiting.callback(None)
        finally:
            self.stretch = 0
            # So that the last piece does not add up with what the reactor does next.
            self._turn()

    def look(self) -> None:
        stretch, self.stretch = self.stretch, 0
        try:
            self._turn()
        finally:
            self.stretch = stretch
            self.looked_at = self._clock()


class Slices:
    """Asked now and then by the work, between two pieces of it.

    `pause()` gives an awaitable that comes back when everything else has had its turn.  All of a
    stretch is one slice, also if it is work of several parts with `Slices` of their own.
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
        self._stretch = 0  # in which the work goes on
        self._begin()

    def _begin(self) -> None:
        now = self._clock()
        pauses = self._pauses
        if pauses is None:
            self._due_at = self._until = now + self._slice_s
            return
        self._stretch = pauses.stretch
        self._due_at = now + LOOK_S
        self._until = (pauses.began_at if self._stretch else now) + self._slice_s

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
        pauses = self._pauses
        if pauses is not None and self._stretch == pauses.stretch != 0 and now < self._until:
            if now >= pauses.looked_at + LOOK_S:
                pauses.look()
        elif now >= self._due_at:
            await self._pause()
            self._begin()
