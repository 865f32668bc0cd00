"""The numbers of each second, for as many as watch: read once, and only while somebody does.

    monitor's tick -> Ticker.tick() -> the same Live to each LiveWatch -> `async for live in watch`

A watcher that is slow misses seconds: what waits for it is one Live, the newest, which says how
many it has missed.  So nobody holds more than that, however slow the network is.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from twisted.internet.defer import Deferred

from mhub.core.overload import Peak
from mhub.operations.contract import LimitReached, ListenerStatus
from mhub.operations.history import HistoryPoint
from mhub.operations.numbers import LinkNumbers, Numbers
from mhub.operations.series import Sampler, by_name

MOST_WATCHERS: Final = 100

TOTALS: Final = {
    "messages_in": "publish/messages/received",
    "messages_out": "publish/messages/sent",
    "bytes_in": "bytes/received",
    "bytes_out": "bytes/sent",
    "connects": "connections/accepted",
    "refused": "connections/refused",
    "rejected": "connections/rejected",
    "login_failures": "connections/authentication_failures",
    "dropped": "publish/messages/dropped",
    "publish_denied": "publish/messages/denied",
    "clients_most": "clients/maximum",
    "defects": "defects",
}
"""Since the start; the names are those of the series, where there is one."""


@dataclass(frozen=True)
class Live:
    time: float
    node: str  # "": there is no cluster
    state: str  # as in Status
    ready: str  # as in Readiness
    uptime_s: float
    values: Mapping[str, float | None]  # each series, over the last second or so
    totals: Mapping[str, int]  # since the start
    store_state: str  # "none", "ok", or "failing: " and why
    listeners: tuple[ListenerStatus, ...]
    links: tuple[LinkNumbers, ...]  # to the other nodes
    point: HistoryPoint | None  # a period of the history that has just ended
    last_event: int  # the sequence number: there are new events if it grows


class LiveWatch:
    """One that watches.  Call close() when it goes."""

    def __init__(self, ended: "Callable[[LiveWatch], None]") -> None:
        self.missed = 0  # seconds, since it began
        self._ended = ended
        self._newest: Live | None = None
        self._waiting: Deferred[Live] | None = None
        self.is_closed = False

    def __aiter__(self) -> "LiveWatch":
        return self

    async def __anext__(self) -> Live:
        if self._newest is not None:
            newest, self._newest = self._newest, None
            return newest
        if self.is_closed:
            raise StopAsyncIteration
        self._waiting = Deferred()
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def give(self, live: Live) -> None:
        waiting = self._waiting
        if waiting is not None and not waiting.called:
            waiting.callback(live)
            return
        if self._newest is not None:
            self.missed += 1
        self._newest = live

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True
        self._ended(self)
        if self._waiting is not None and not self._waiting.called:
            self._waiting.errback(StopAsyncIteration())


class Ticker:
    """Makes a Live each second, while there are watchers."""

    def __init__(self, peaks: list[Peak]) -> None:
        self._peaks = peaks
        self._peak = Peak()
        self._sampler = Sampler(self._peak)
        self._watchers: list[LiveWatch] = []

    def watch(self) -> LiveWatch:
        if len(self._watchers) >= MOST_WATCHERS:
            raise LimitReached(f"{MOST_WATCHERS} watch the live numbers already; close some")
        if not self._watchers:
            # What was counted while nobody watched belongs to no second.
            self._sampler = Sampler(self._peak)
            self._peak.take()
            self._peaks.append(self._peak)
        watch = LiveWatch(self._end)
        self._watchers.append(watch)
        return watch

    @property
    def is_watched(self) -> bool:
        return bool(self._watchers)

    def tick(self, numbers: Numbers, point: HistoryPoint | None, last_event: int) -> None:
        live = Live(
            time=numbers.time,
            node=numbers.node,
            state=numbers.state,
            ready=numbers.ready,
            uptime_s=numbers.uptime_s,
            values=by_name(self._sampler.sample(numbers)),
            totals={name: numbers.count(metric) for name, metric in TOTALS.items()},
            store_state=str(numbers.values["store/state"]),
            listeners=numbers.listeners,
            links=numbers.links,
            point=point,
            last_event=last_event,
        )
        for watch in list(self._watchers):
            watch.give(live)

    def close(self) -> None:
        """The broker stops: nobody waits for what does not come."""
        for watch in list(self._watchers):
            watch.close()

    def _end(self, watch: LiveWatch) -> None:
        self._watchers.remove(watch)
        if not self._watchers:
            self._peaks.remove(self._peak)
