"""The broker watches itself: history, live numbers, what happened lately, and whether it is ready.

    TimerService, each second -> tick() -> history, and live numbers while somebody watches

Operations has a Monitor, and hands calls on to it.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from mhub import __version__, build
from mhub.core.hub import Hub
from mhub.core.overload import Peak
from mhub.operations.activity import Activity, DenialList, EventFilter, EventPage
from mhub.operations.contract import Surroundings
from mhub.operations.history import History, Recorder
from mhub.operations.live import LiveWatch, Ticker
from mhub.operations.numbers import Numbers, read_numbers
from mhub.operations.readiness import Health, Readiness, health, readiness
from mhub.operations.series import Sampler
from mhub.operations.slices import Slices
from mhub.operations.stats import Stats, stats

TICK_S: Final = 1.0


class Monitor:
    def __init__(
        self,
        hub: Hub,
        surroundings: Surroundings,
        clock: Callable[[], float],
        unix_time: Callable[[], float],
        pause: Callable[[], Awaitable[object]],
    ) -> None:
        """`clock` is the hub's; pause() is as for Slices."""
        self._hub = hub
        self._around = surroundings
        self._clock = clock
        self._time = unix_time
        self._pause = pause
        self._build = build.kind()
        self._activity = Activity(unix_time)
        hub.events.sinks.append(self._activity)
        peak = Peak()
        hub.overload.peaks.append(peak)
        self._recorder = Recorder(Sampler(peak))
        self._ticker = Ticker(hub.overload.peaks)

    def tick(self) -> None:
        """Each second."""
        if self._ticker.is_watched:
            numbers = self.numbers()
            point = self._recorder.tick(numbers.time, lambda: numbers)
            self._ticker.tick(numbers, point, self._activity.seq)
        else:
            self._recorder.tick(self._time(), self.numbers)

    def stop(self) -> None:
        self._ticker.close()

    def numbers(self) -> Numbers:
        return read_numbers(self._hub, self._around, self._clock(), self._time())

    def stats(self) -> Stats:
        return stats(self._hub, self.numbers(), __version__, self._build)

    async def history(self, names: tuple[str, ...], span: str) -> History:
        slices = Slices(self._clock, self._pause)
        return await self._recorder.read(names, span, self._time(), slices.pause_if_due)

    def live(self) -> LiveWatch:
        return self._ticker.watch()

    def events(self, after: int, wanted: EventFilter, limit: int) -> EventPage:
        return self._activity.page(after, wanted, limit)

    def denials(self, limit: int) -> DenialList:
        return self._activity.denials(limit)

    def ready(self) -> Readiness:
        return readiness(self._hub, self._around)

    def health(self) -> Health:
        return health(self._around)
