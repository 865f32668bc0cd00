"""The publisher of presence under Twisted: its clock, and questions to other nodes."""

from collections.abc import Callable
from typing import Any, Final

from twisted.application.service import Service
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall
from twisted.python.failure import Failure

from mhub.config.presence import PresenceSettings
from mhub.core.hub import Hub
from mhub.log import logger
from mhub.operations.contract import Cluster, OperationError, TimedOut, Unavailable
from mhub.operations.questions import result_of
from mhub.presence.publisher import Fetched, Publisher

EVERY_S: Final = 0.25
"""How long a change waits at most until it is looked at."""

PAUSE_S: Final = 0.01
"""Between two steps, so that they take a fifth of the reactor's time at most."""

WITHIN_S: Final = 5.0
"""How long another node may take to answer."""


class PresenceService(Service):
    name = "presence"

    def __init__(
        self,
        settings: PresenceSettings,
        hub: Hub,
        cluster: Cluster | None,
        reactor: Any,
        clock: Callable[[], float],
        unix_time: Callable[[], float],
        settle: Callable[[], None],
        patience_s: float,
    ) -> None:
        self._hub = hub
        self._cluster = cluster
        self._reactor = reactor
        self._clock = clock
        self._settle = settle
        self._log = logger("presence")
        self._next: Any = None
        self._asked: set[Deferred[Any]] = set()
        self.publisher = Publisher(hub, settings.prefix, unix_time, patience_s, self._fetch)
        self._ticks = LoopingCall(self._step)
        self._ticks.clock = reactor

    def open(self) -> None:
        """The hub has what the store had, and clients come in."""
        self._hub.events.sinks.append(self.publisher)
        if self._cluster is not None:
            self._cluster.watch_clients(self.publisher.touch)
        self._ticks.start(EVERY_S)

    def stopService(self) -> None:
        super().stopService()  # type: ignore[no-untyped-call]
        if self._ticks.running:
            self._ticks.stop()
        if self._next is not None and self._next.active():
            self._next.cancel()
        for asked in list(self._asked):
            asked.cancel()

    def _step(self) -> None:
        if self._next is not None and self._next.active():
            self._next.cancel()
        now = self._clock()
        self._hub.now = now
        try:
            is_more = self.publisher.step(now)
            self._settle()
        except Exception:
            self._log.failure("a defect in presence")
            return
        if is_more:
            self._soon()

    def _soon(self) -> None:
        if self.running and (self._next is None or not self._next.active()):
            self._next = self._reactor.callLater(PAUSE_S, self._step)

    def _fetch(self, node: str, client_ids: list[str], fetched: Fetched) -> None:
        asked = Deferred.fromCoroutine(self._ask(node, client_ids, fetched))
        self._asked.add(asked)
        asked.addErrback(self._failed)
        asked.addBoth(lambda _: self._asked.discard(asked))

    async def _ask(self, node: str, client_ids: list[str], fetched: Fetched) -> None:
        assert self._cluster is not None
        reply = await self._cluster.ask(node, "held", {"client_ids": client_ids}, WITHIN_S)
        try:
            found = result_of("held", reply)
        except (TimedOut, Unavailable):
            fetched(None, True)
            return
        except OperationError:
            fetched(None, False)
            return
        fetched(found, False)
        self._soon()

    def _failed(self, failure: Failure) -> None:
        if not isinstance(failure.value, CancelledError):
            self._log.failure("a defect in presence", failure)
