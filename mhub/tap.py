"""`twistd mhub`: the one place where everything is wired.

configuration -> hub (core) -> net service (listeners)
                     |          cluster service (peers)
                 writer -> store, and those of nodes that this one takes over from

The listeners are bound while the process may still do that, and opened when the store has given the
hub what it had.
"""

import gc
import os
import secrets
import signal
import sys
import time
from collections.abc import AsyncGenerator
from typing import Any

from twisted.application.service import MultiService
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.python import usage

from mhub import __version__, build
from mhub.auth.scram import METHOD, ScramMethod
from mhub.cluster.failover import Failovers, Place
from mhub.cluster.service import ClusterError, ClusterService
from mhub.config import ConfigError, Settings, load, parse
from mhub.control.contract import ControlError
from mhub.control.server import ControlService
from mhub.core.hub import Hub, HubSettings
from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.records import Batch
from mhub.log import logger, set_level
from mhub.net.listen import ListenError
from mhub.net.report import Report
from mhub.net.service import NetService
from mhub.net.tls import TlsError
from mhub.operations.contract import ListenerStatus, Say
from mhub.operations.operations import Operations
from mhub.store.contract import Store, StoreBroken, StoreTaken
from mhub.store.make import make_shared, make_store
from mhub.store.writer import StoreWriter


class Options(usage.Options):
    """The command line of `twistd mhub`."""

    synopsis = "[--config FILE]"
    longdesc = "An MQTT broker. Without a configuration it listens on 127.0.0.1:1883."
    optParameters = (
        ("config", "c", None, "The configuration, a TOML file (docs/configuration.md)."),
    )

    def opt_version(self) -> None:
        """Show the version and which build runs, and exit."""
        print(build.describe())
        sys.exit(0)


def hub_settings(settings: Settings) -> HubSettings:
    wanted = HubSettings()
    wanted.version = __version__
    wanted.route_cache_size = settings.broker.route_cache_size
    wanted.max_retained_messages = settings.broker.max_retained_messages
    wanted.max_retained_bytes = settings.broker.max_retained_bytes
    wanted.max_queued_bytes_total = settings.broker.max_queued_bytes_total
    wanted.max_topic_levels = settings.broker.max_topic_levels
    wanted.work_per_turn = settings.net.deliveries_per_turn
    wanted.portion = settings.net.portion
    wanted.sys_interval_s = settings.sys.interval_s
    return wanted


class Broker(MultiService):
    """Everything that runs, and what belongs to the process as a whole: log and signals."""

    def __init__(self, settings: Settings, reactor: Any) -> None:
        super().__init__()
        self._log = logger("broker")
        self._reactor = reactor
        self._settings = settings
        self._warnings = settings.warnings
        report = Report(settings.listeners)
        self.hub = Hub(
            hub_settings(settings), report, lambda: secrets.token_hex(10), time.monotonic()
        )
        if settings.auth.scram is not None:
            self.hub.admission.methods[METHOD] = ScramMethod(settings.auth.scram.users_file)
        # Not the reactor's clock, which jumps when the time of day is set.
        self.net = NetService(settings, self.hub, report, reactor, time.monotonic)
        self.net.setServiceParent(self)
        self.cluster: ClusterService | None = None
        if settings.cluster is not None:
            self.cluster = ClusterService(
                settings.cluster,
                self.hub,
                reactor,
                time.monotonic,
                self._limits_of,
                self.net.wake,
            )
        self.store_name = settings.store.kind
        self.operations = Operations(
            self.hub, self, time.monotonic, lambda: deferLater(reactor, 0.0)
        )
        if settings.control.path:
            ControlService(
                settings.control.path,
                settings.control.mode,
                self.operations,
                reactor,
                required=settings.control.required,
            ).setServiceParent(self)
        self.writer: StoreWriter | None = None
        self.failovers: Failovers | None = None
        self._gives_up = False
        if settings.store.kind != "memory":
            store = self._make_store()
            self.store_name = store.name
            self.writer = StoreWriter(
                store,
                self.hub,
                reactor,
                time.monotonic,
                settings.store.retry_s,
                self.net.wake,
            )

    def _make_store(self) -> Store:
        settings = self._settings
        cluster = settings.cluster
        if cluster is None or self.cluster is None or not settings.store.is_shared:
            return make_store(settings, self._reactor)
        store = make_shared(settings, self._reactor, self._taken)
        if cluster.failover and cluster.sessions:
            wanted = hub_settings(settings)
            wanted.sys_interval_s = 0.0  # `$SYS` is this node's own
            self.failovers = Failovers(
                Place(
                    settings,
                    self.cluster,
                    store,
                    wanted,
                    self._limits_of,
                    self._reactor,
                    time.monotonic,
                )
            )
        return store

    def privilegedStartService(self) -> None:
        try:
            super().privilegedStartService()
        except (ListenError, TlsError, ControlError) as error:
            sys.exit(str(error))

    def startService(self) -> None:
        self._log.info("{build}", build=build.describe())
        for warning in self._warnings:
            self._log.warn("{warning}", warning=warning)
        super().startService()
        self._reactor.callWhenRunning(self._catch_signals)
        self._reactor.callWhenRunning(lambda: Deferred.fromCoroutine(self._open()))

    async def _open(self) -> None:
        """Let clients in, once what they left here is back."""
        if self.writer is not None:
            store = self._settings.store
            clock_offset_s = time.time() - time.monotonic()
            journal = Journal(clock_offset_s, store.queue_window, store.max_pending_bytes)
            try:
                await self.writer.open(time.time(), journal, self._limits_of)
            except StoreBroken as error:
                self._give_up(error)
                return
            except CancelledError:  # stopped meanwhile
                return
        if self.failovers is not None:
            await self.failovers.start()
        if self.cluster is not None:
            try:
                await self.cluster.join()
            except ClusterError as error:
                self._give_up(error)
                return
        # What is there now stays: no garbage collection need look at it again.
        gc.collect()
        gc.freeze()
        # Messages are in no cycles, but make Python look for some: with its own 700 that is 6 % of
        # the CPU of a node whose messages wait for another one.
        gc.set_threshold(10_000, 20, 50)
        self.net.open()

    def _taken(self, error: StoreTaken) -> None:
        """Another node has taken over what is here, as if this one were dead: so it has to be.

        What it has is older by now.  It may start again, and then joins as a new node.
        """
        if self._gives_up:
            return
        if self.cluster is not None:
            self.cluster.node.close()
        if self.writer is not None:
            self.writer.give_up()
        self._give_up(
            f"this node was taken for dead, and another one has taken over its sessions: it stops,"
            f" and can be started again. {error}"
        )

    def _give_up(self, error: Exception | str) -> None:
        if self._gives_up:
            return
        self._gives_up = True
        self._log.critical("{error}", error=error)
        self._reactor.addSystemEventTrigger("after", "shutdown", os._exit, 1)
        self._reactor.stop()

    def _limits_of(self, name: str) -> Limits:
        for listener in self._settings.listeners:
            if listener.name == name:
                return listener.limits
        return self._settings.limits

    def stopService(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        """The clients first: the store still takes what their going changes."""
        await super().stopService()
        if self.failovers is not None:
            await self.failovers.stop()
        if self.cluster is not None:
            await self.cluster.stopService()
        if self.writer is not None:
            await self.writer.close(self._settings.net.shutdown_timeout_s)

    def _catch_signals(self) -> None:
        """In the place of the reactor's handlers: twistd would end by the signal that stops it."""
        signal.signal(signal.SIGHUP, self._on_hangup)
        signal.signal(signal.SIGTERM, self._on_stop)
        signal.signal(signal.SIGINT, self._on_stop)

    # What operations need of it

    def state(self) -> str:
        if self.hub.stopping or self._gives_up:
            return "stopping"
        if self.hub.redirect is not None:
            return "leaving"
        return "running" if self.net.is_open else "starting"

    def listeners(self) -> list[ListenerStatus]:
        return self.net.listeners()

    def open_connections(self) -> int:
        return len(self.net.loop.links)

    def snapshot(self) -> AsyncGenerator[Batch, None] | None:
        if self.writer is None:
            return None
        return self.writer.snapshot()

    def settle(self) -> None:
        self.hub.flush()
        self.net.wake()

    async def leave(self, say: Say) -> dict[str, int]:
        cluster = self.cluster
        assert cluster is not None
        self.net.close_listeners()
        if self.failovers is not None:
            await self.failovers.stop()
        result = await cluster.leave(say)
        self._log.info("left the cluster, stopping")
        self._reactor.callLater(0.5, self._reactor.stop)
        return result

    def _on_hangup(self, number: int, frame: object) -> None:
        self._reactor.callFromThread(self._reload_certificates)

    def _reload_certificates(self) -> None:
        self.net.reload_certificates()
        if self.cluster is not None:
            self.cluster.reload_certificates()

    def _on_stop(self, number: int, frame: object) -> None:
        self._log.info("stopping: {name}", name=signal.Signals(number).name)
        # A second signal ends the process at once, as twistd does it.
        signal.signal(number, signal.SIG_DFL)
        self._reactor.callFromThread(self._reactor.stop)


def makeService(options: Options) -> Broker:
    from twisted.internet import reactor

    try:
        settings = load(options["config"]) if options["config"] else parse("", "no file")
    except ConfigError as error:
        sys.exit(str(error))
    set_level(settings.log.level)
    try:
        return Broker(settings, reactor)
    except ClusterError as error:
        sys.exit(str(error))
