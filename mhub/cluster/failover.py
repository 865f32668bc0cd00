"""A node that is gone starts again inside of another one, to give away what it had.

All nodes keep their state in one shared store, each its own.  When the lease of a node
lapses, one of the others takes it, and runs that node a second time in its own process: a hub with
what the store has, without listeners, which calls all others, as if the node had been restarted.

    claim the lease -> open the store -> link with all -> sessions migrate to where their clients
    are, those of clients that are nowhere are offered to the others -> LEAVE -> give the lease back

The channels go on with their numbers, so nothing is lost and nothing comes twice.  The node itself
waits for the lease if it is started meanwhile, and then joins without sessions.  What cannot be
moved, as a third node cannot be reached, stays in the store for the next try.
"""

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import LoopingCall, deferLater
from twisted.python.failure import Failure

from mhub.cluster.detector import FailedNodeDetector
from mhub.cluster.drain import LEFT, STUCK, Drain
from mhub.cluster.service import ClusterService
from mhub.config import Settings
from mhub.core.events import Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.timers import SLOTS_PER_SECOND
from mhub.log import logger
from mhub.log.events import EventLog
from mhub.store.contract import SharedStore, StoreBroken, StoreError, StoreTaken
from mhub.store.writer import StoreWriter

LOOK_S: Final = 0.25
"""How often to look whether somebody is gone."""

STEP_S: Final = 0.1
"""How often to look how far a node is drained."""

GOODBYE_S: Final = 0.2
"""How long the last frames may take."""


class Place:
    """What a failed node needs of the process that it is started again in."""

    def __init__(
        self,
        settings: Settings,
        cluster: ClusterService,
        store: SharedStore,
        hub_settings: HubSettings,
        limits_of: Callable[[str], Limits],
        reactor: Any,
        clock: Callable[[], float],
    ) -> None:
        self.settings = settings
        self.cluster = cluster
        self.store = store
        self.hub_settings = hub_settings
        self.limits_of = limits_of
        self.reactor = reactor
        self.clock = clock


class Failovers:
    """The failed nodes that this one takes over from."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._log = logger("cluster")
        self._detector = FailedNodeDetector(place.cluster.node, place.store.lease_s, Random())
        self._running: dict[str, Failover] = {}
        self._looks = LoopingCall(self._look)
        self._looks.clock = place.reactor

    async def start(self) -> None:
        """Once the store is open, and before this node says who it is."""
        place = self._place
        try:
            word = await place.store.identity()
        except StoreError as error:
            self._log.warn("failover is not possible: {error}", error=error)
            return
        place.cluster.node.settings.shared_store = word
        self._looks.start(LOOK_S)

    async def stop(self) -> None:
        """Give all leases back; the stores keep what is in them."""
        if self._looks.running:
            self._looks.stop()
        for failover in list(self._running.values()):
            await failover.stop()

    def _look(self) -> None:
        if not self._place.cluster.is_ready:
            # A failed node that is started here could not call this one yet; nor are there rules by
            # which its wills could be judged, before this node has what the others have.
            return
        for name in self._detector.due(self._place.clock()):
            Deferred.fromCoroutine(self._try(name)).addErrback(self._defect, name)

    async def _try(self, name: str) -> None:
        place = self._place
        failover = self._running[name] = Failover(name, place)
        try:
            await failover.claim()
        except StoreBroken as error:
            self._log.warn("cannot take over from node {name}: {error}", name=name, error=error)
            self._detector.ended(name, place.clock())
        except (StoreError, CancelledError):  # somebody has the lease
            self._detector.failed(name, place.clock())
        else:
            await failover.run()
            self._detector.ended(name, place.clock())
        finally:
            await failover.close()
            del self._running[name]

    def _defect(self, failure: Failure, name: str) -> None:
        self._log.failure("a defect in the failover for {name}", failure, name=name)
        self._detector.ended(name, self._place.clock())


class Failover:
    """One node, for as long as somebody else has to be it."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self._place = place
        self._log = logger("cluster", name)
        self._stopping = False
        self._over: Deferred[None] = Deferred()
        self._store = place.store.beside(name, place.cluster.node.name, self._taken)
        self._writer: StoreWriter | None = None
        self._cluster: ClusterService | None = None
        self._ticks = LoopingCall(self._tick)
        self._ticks.clock = place.reactor

    async def claim(self) -> None:
        """StoreError: it is not to be had, or not now."""
        await self._store.claim()

    async def run(self) -> None:
        log = self._log
        log.info(
            "node {name} is gone: node {host} takes over from it",
            name=self.name,
            host=self._place.cluster.node.name,
        )
        try:
            await self._open()
            await self._drain()
        except StoreError as error:
            log.warn("cannot take over from node {name}: {error}", name=self.name, error=error)
        except CancelledError:
            pass  # stopped meanwhile

    async def stop(self) -> None:
        """The process ends."""
        self._stopping = True
        if self._writer is None:
            await self._store.close()
        await self._over

    async def close(self) -> None:
        """Let go of everything; what is in the store stays there."""
        if self._ticks.running:
            self._ticks.stop()
        if self._cluster is not None:
            await self._cluster.stopService()
        if self._writer is not None:
            await self._writer.close(self._place.settings.net.shutdown_timeout_s)
        else:
            await self._store.close()
        self._over.callback(None)

    def _taken(self, error: StoreTaken) -> None:
        """Somebody else has the lease: this process has slept."""
        if self._stopping:
            return
        self._stopping = True
        if self._writer is not None:
            self._writer.give_up()
        if self._cluster is not None:
            self._cluster.node.close()
        self._log.warn(
            "failover for node {name} was given up: {error}", name=self.name, error=error
        )

    # The node

    async def _open(self) -> None:
        """As at the start of a node."""
        place = self._place
        settings = place.settings
        now = place.clock()
        hub = Hub(
            place.hub_settings, Events([EventLog(self.name)]), lambda: secrets.token_hex(10), now
        )
        hub.judge_wills_as(place.cluster.node.hub)
        cluster = ClusterService(
            self._cluster_settings(),
            hub,
            place.reactor,
            place.clock,
            place.limits_of,
            place.cluster,
        )
        cluster.node.settings.shared_store = place.cluster.node.settings.shared_store
        writer = StoreWriter(
            self._store,
            hub,
            place.reactor,
            place.clock,
            settings.store.retry_s,
            self.name,
        )
        journal = Journal(
            time.time() - now, settings.store.queue_window, settings.store.max_pending_bytes
        )
        await writer.open(time.time(), journal, place.limits_of, once=True)
        self._hub, self._writer, self._cluster = hub, writer, cluster
        self._ticks.start(1.0 / SLOTS_PER_SECOND)
        cluster.enter()

    def _cluster_settings(self) -> Any:
        """It says that it is where the node was: there it will be looked for when it is back."""
        place = self._place
        ours = place.settings.cluster
        assert ours is not None
        host = place.cluster.node
        theirs = host.members[self.name].address if self.name in host.members else ""
        near = {address for address in host.addresses() if address not in ("", theirs)}
        near.discard(host.settings.address)
        peers = (place.cluster.near, *sorted(near))
        return replace(ours, node=self.name, advertise=theirs, peers=peers, srv="", dns=())

    def _tick(self) -> None:
        try:
            self._hub.tick(self._place.clock())
            self._hub.flush()
        except Exception:
            self._log.failure("a defect in the clock of a failover")

    async def _drain(self) -> None:
        assert self._cluster is not None
        drain = Drain(self._cluster.node, self._place.cluster.node)
        while not self._stopping:
            came_to = drain.step()
            self._hub.flush()
            if came_to == LEFT:
                await deferLater(self._place.reactor, GOODBYE_S)
                self._log.info(
                    "everything that node {name} had was handed over to other nodes", name=self.name
                )
                return
            if came_to == STUCK:
                self._log.warn(
                    "not everything that node {name} had could be handed over; the rest stays in"
                    " its store: {what}",
                    name=self.name,
                    what=drain.left(),
                )
                return
            await deferLater(self._place.reactor, STEP_S)
