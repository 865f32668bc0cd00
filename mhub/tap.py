"""The one place where everything is wired, for `mhub run` and for `twistd mhub`.

configuration -> hub (core) -> net service (listeners)
                     |          cluster service (peers)
                 writer -> store, and those of nodes that this one takes over from

The listeners are bound while the process may still do that, and opened when the store has given the
hub what it had.  All that can be known to be wrong before the reactor runs is a `StartError`.
"""

import atexit
import gc
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from twisted.application.internet import TimerService
from twisted.application.service import MultiService
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ReactorNotRunning
from twisted.internet.threads import deferToThreadPool
from twisted.logger import ILogObserver, globalLogPublisher
from twisted.python.failure import Failure

from mhub import build
from mhub.access.access import Access
from mhub.access.policy import PolicyError
from mhub.access.service import AccessService, only_registry
from mhub.admin.service import AdminListenError
from mhub.admin.wiring import AdminSide, Surroundings
from mhub.auth.chain import Chain
from mhub.auth.guard import SWEEP_S, LoginGuard
from mhub.auth.reload import Authenticators
from mhub.auth.wiring import make_chain, make_passwords
from mhub.cluster.failover import Failovers, Place
from mhub.cluster.service import ClusterError, ClusterService
from mhub.config import ConfigError, Settings, load, parse
from mhub.config.admin import LISTENER
from mhub.control.contract import ControlError
from mhub.control.server import ControlService
from mhub.core.events import Events
from mhub.core.hub import Hub
from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.records import Batch
from mhub.influx.http import InfluxHttp
from mhub.influx.push import Push
from mhub.log import logger, set_level
from mhub.log.destination import Destination, LogError, limit_rate
from mhub.log.events import EventLog
from mhub.log.recent import Recent
from mhub.net.listen import ListenError
from mhub.net.service import NetService
from mhub.net.tls import TlsContexts, TlsError
from mhub.operations.contract import (
    AuthenticatorStatus,
    ListenerStatus,
    OperationError,
    PushStatus,
    Say,
)
from mhub.operations.monitor import TICK_S
from mhub.operations.operations import Operations
from mhub.operations.questions import respond
from mhub.operations.slices import Pauses
from mhub.operations.traces import Traces
from mhub.presence.service import PresenceService
from mhub.process import descriptors, threads
from mhub.process.hangup import Hangup
from mhub.process.hub_settings import hub_settings
from mhub.process.parts import AccessPart, ClusterPart, LimitsPart, LogPart
from mhub.process.reload import Reload
from mhub.process.signals import Signals
from mhub.process.steering import BrokerSteering
from mhub.process.twistd import Options, console, exit_status, fault_in
from mhub.store.contract import Store, StoreBroken, StoreError, StoreTaken
from mhub.store.make import fault_of, make_shared, make_store
from mhub.store.writer import StoreWriter

NO_FILE: Final = "no file"
"""What errors say in the place of a configuration's name, where there is none."""


REFUSALS: Final = (ListenError, TlsError, PolicyError, ConfigError, LogError)
"""What makes parts of the broker refuse a reload."""


class StartError(Exception):
    """The broker cannot start; the text says why."""


class Broker(MultiService):
    """Everything that runs, and what belongs to the process as a whole: log and signals."""

    def __init__(self, settings: Settings, reactor: Any, signals: Signals) -> None:
        super().__init__()
        self._log = logger("broker")
        self._reactor = reactor
        self._signals = signals
        # For later, when twistd may have changed the directory.
        self._file = os.path.abspath(settings.file) if settings.file != NO_FILE else ""
        self.reloading = Reload(settings, self._read_file if self._file else None, REFUSALS)
        self.console: Callable[[str], None] | None = None  # shows something to who has started it
        self.failed = False  # it ends because it cannot go on: the exit status is not 0
        self._bound = False
        self._stopping = False
        self._warnings = settings.warnings
        self._open_files = descriptors.raise_limit()  # while twistd has not changed the user
        self.destination = Destination(settings.log)
        self.recent = Recent()
        globalLogPublisher.addObserver(self.recent)  # type: ignore[arg-type]
        limit_rate(settings.log, reactor)
        self.hub = Hub(
            hub_settings(settings),
            Events([EventLog()], settings.log.summary_s),
            lambda: secrets.token_hex(10),
            time.monotonic(),
        )
        self.hub.unix_time = time.time
        self.passwords = make_passwords(settings.passwords, self.hub, reactor)
        self._guard = self._make_guard(settings)
        self.authenticating = Authenticators(
            self.hub,
            self.passwords,
            self._guard,
            reactor,
            time.monotonic,
            make_chain(settings, self.hub, self.passwords, reactor, time.monotonic),
        )
        self.authenticating.on_change = lambda old: self.admin.chain_changed(old, self.chain)
        # Not the reactor's clock, which jumps when the time of day is set.
        self.net = NetService(settings, self.hub, reactor, time.monotonic)
        self.net.setServiceParent(self)
        self.hub.wake = self.net.wake
        self.cluster: ClusterService | None = None
        if settings.cluster is not None:
            self.cluster = ClusterService(
                settings.cluster,
                self.hub,
                reactor,
                time.monotonic,
                self._limits_of,
            )
        self.store_name = settings.store.kind
        self.access = AccessService(
            settings.access,
            self.hub,
            reactor,
            self.settle,
            only_registry(settings.auth),
        )
        self._pause = Pauses(reactor, self.net.turn, time.monotonic)
        self.operations = Operations(
            self.hub,
            self,
            time.monotonic,
            self._pause,
            Access(
                self.hub.registry,
                self.access,
                self.passwords,
                time.monotonic,
                time.time,
                self.settle,
                self.hub.events,
                self._pause,
            ),
        )
        self._push: Push | None = None
        self._measure(settings)
        if self.cluster is not None:
            self.cluster.serve(lambda name, given: respond(self.operations, name, given))
        self.presence = self._make_presence(settings)
        self.admin = self._make_admin(settings)
        self._make_steering(reactor)
        if settings.control.path:
            ControlService(
                settings.control.path,
                settings.control.mode,
                self.admin.app.klein(is_local=True),
                self.admin.app.stop,
                reactor,
                required=settings.control.required,
            ).setServiceParent(self)
        self.writer: StoreWriter | None = None
        self.failovers: Failovers | None = None
        if settings.store.kind != "memory":
            store = self._make_store()
            self.store_name = store.name
            self.writer = StoreWriter(
                store,
                self.hub,
                reactor,
                time.monotonic,
                settings.store.retry_s,
            )

    def _make_admin(self, settings: Settings) -> AdminSide:
        made = AdminSide(
            settings,
            Surroundings(
                self.hub,
                self.operations,
                self.access,
                self.passwords,
                self._reactor,
                self.settle,
                lambda: self._limits_of(LISTENER),
                self.net.web_sockets,
                lambda tls: TlsContexts(tls, ("http/1.1",)),
            ),
        )
        if made.service is not None:
            made.service.setServiceParent(self)
        return made

    def _measure(self, settings: Settings) -> None:
        """What happens each second, and what is sent elsewhere."""
        reactor = self._reactor
        timers = [TimerService(TICK_S, self.operations.monitor.tick)]
        influx = settings.influx
        if influx is not None:
            post = InfluxHttp(influx, reactor)
            operations = self.operations
            self._push = Push(influx, operations.numbers, self.hub.events, post, operations.slices)
            timers.append(TimerService(influx.interval_s, self._push.tick))
        for timer in timers:
            timer.clock = reactor
            timer.setServiceParent(self)

    def _make_presence(self, settings: Settings) -> PresenceService | None:
        if not settings.presence.enabled:
            return None
        made = PresenceService(
            settings.presence,
            self.hub,
            self.cluster,
            self._reactor,
            time.monotonic,
            time.time,
            self.settle,
            settings.cluster.suspect_s if settings.cluster is not None else 0.0,
        )
        made.setServiceParent(self)
        self.operations.everywhere.known_presence = made.publisher.known
        return made

    def _make_guard(self, settings: Settings) -> LoginGuard:
        """Bans, and what failed logins lead to."""
        reactor = self._reactor
        guard = LoginGuard(
            settings.guard,
            self.hub,
            time.time,
            lambda call: reactor.callLater(0.0, call),
            self.settle,
        )
        self.hub.admission.guard = guard
        self.hub.events.sinks.append(guard)
        sweep = TimerService(SWEEP_S, guard.sweep)
        sweep.clock = reactor
        sweep.setServiceParent(self)
        return guard

    def _make_steering(self, reactor: Any) -> None:
        """What operators can change: reload, listeners, log, traces."""
        traces = Traces(self.hub, time.monotonic, reactor)
        self.steering = BrokerSteering(
            self.reloading,
            self.net,
            traces,
            self.recent,
            reactor,
            lambda job: deferToThreadPool(reactor, reactor.getThreadPool(), job),
            self._file,
            self._why_no_reload,
        )
        self.operations.steering = self.steering
        self._hangup = Hangup(
            self._file,
            self.steering,
            self.destination.reopen,
            lambda: self.state() == "starting" and not self._stopping,
            reactor,
        )
        for part in (
            self.net.part,
            LimitsPart(self.hub, self.net, hub_settings),
            LogPart(self.destination, self.hub, reactor),
            self.authenticating,
            AccessPart(self.access, self.hub, hub_settings),
            ClusterPart(self.cluster),
            self.admin,
        ):
            self.reloading.add(part)

    @property
    def _settings(self) -> Settings:
        """Those in force."""
        return self.reloading.settings

    @property
    def chain(self) -> Chain | None:
        """The authenticators in force."""
        return self.authenticating.chain

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

    def setServiceParent(self, parent: Any) -> None:
        """twistd's application: it logs to where the configuration says, if that says anything."""
        if self._settings.log.to and hasattr(parent, "setComponent"):
            parent.setComponent(ILogObserver, self.destination)
        super().setServiceParent(parent)

    def bind(self) -> None:
        """Bind all sockets.  Raises StartError.

        Not left to privilegedStartService(): in the background twistd calls that where nobody can
        read what is wrong, and its parent, which waits to be told, hears of an Exception the first
        100 bytes of its text, and of SystemExit nothing at all.
        """
        try:
            super().privilegedStartService()
        except (ListenError, TlsError, ControlError, AdminListenError) as error:
            raise StartError(str(error)) from error
        self._bound = True

    def privilegedStartService(self) -> None:
        if not self._bound:
            self.bind()

    def startService(self) -> None:
        self._log.info("{build}", build=build.describe())
        self._report_open_files()
        for warning in self._warnings:
            self._log.warn("{warning}", warning=warning)
        super().startService()
        threads.make_daemonic(self._reactor)
        self._reactor.callWhenRunning(self._begin)

    def _report_open_files(self) -> None:
        found = self._open_files
        self._log.info(
            "open files: {limit}{raised}",
            limit=f"at most {found.limit}" if found.limit else "no limit",
            raised=f", raised from {found.before}" if found.before != found.limit else "",
        )
        warning = descriptors.warning(self._settings, found.limit)
        if warning:
            self._log.warn("{warning}", warning=warning)

    def _begin(self) -> None:
        self._signals.catch()  # twistd's reactor has just put its own handlers in the place of ours
        self._signals.serve(self._on_stop, self._hangup.on_signal)
        Deferred.fromCoroutine(self._open()).addErrback(self._not_opened)

    async def _open(self) -> None:
        """Let clients in, once what they left here is back.  A stop may come at each `await`."""
        if self._signals.stopped_by:
            return
        if self.writer is not None:
            store = self._settings.store
            clock_offset_s = time.time() - time.monotonic()
            journal = Journal(clock_offset_s, store.queue_window, store.max_pending_bytes)
            try:
                await self.writer.open(time.time(), journal, self._limits_of)
            except StoreBroken as error:
                self._give_up(error)
                return
        if self.failovers is not None and not self._stopping:
            await self.failovers.start()
        if self.cluster is not None and not self._stopping:
            try:
                await self.cluster.join()
            except ClusterError as error:
                self._give_up(error)
                return
        if self._stopping:
            return
        # The registry is what the store and the other nodes have.
        self.access.start()
        # What is there now stays: no garbage collection need look at it again.
        gc.collect()
        gc.freeze()
        # Messages are in no cycles, but make Python look for some: with its own 700 that is 6 % of
        # the CPU of a node whose messages wait for another one.
        gc.set_threshold(10_000, 20, 50)
        if self.chain is not None:
            self.chain.start()
        self.net.open()
        if self.presence is not None:
            self.presence.open()
        await self.admin.open(self.chain, self.console)
        await self._hangup.started()

    def _not_opened(self, failure: Failure) -> None:
        if self._stopping and failure.check(CancelledError, StoreError):
            return  # what was waited for was taken away
        self._log.failure("a defect in mhub, please report it", failure)
        self._give_up("the broker cannot start because of this defect")

    def _taken(self, error: StoreTaken) -> None:
        """Another node has taken over what is here, as if this one were dead: so it has to be.

        What it has is older by now.  It may start again, and then joins as a new node.
        """
        if self.failed:
            return
        self.hub.taken_over = True
        if self.cluster is not None:
            self.cluster.node.close()
        if self.writer is not None:
            self.writer.give_up()
        self._give_up(
            f"this node was considered dead, and another one has taken over its sessions: it stops,"
            f" and can be started again. {error}"
        )

    def _give_up(self, error: Exception | str) -> None:
        if self.failed or self._stopping:
            return
        self.failed = True
        self._log.critical("{error}", error=error)
        self._stop_reactor()

    def limits(self) -> tuple[Limits, Mapping[str, Limits]]:
        listeners = {listener.name: listener.limits for listener in self._settings.listeners}
        return self._settings.limits, listeners

    def _limits_of(self, name: str) -> Limits:
        for listener in self._settings.listeners:
            if listener.name == name:
                return listener.limits
        return self._settings.limits

    def stopService(self) -> Deferred[None]:
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        """The clients first: the store still takes what their going changes."""
        self._stopping = True
        self.steering.stop()
        globalLogPublisher.removeObserver(self.recent)  # type: ignore[arg-type]
        self.admin.stop()
        self.access.stop()
        self.operations.monitor.stop()
        if self._push is not None:
            await self._push.stop()
        await super().stopService()
        await self.authenticating.stop(self._settings.net.shutdown_timeout_s)
        self.passwords.stop()
        if self.failovers is not None:
            await self.failovers.stop()
        if self.cluster is not None:
            await self.cluster.stopService()
        if self.writer is not None:
            await self.writer.close(self._settings.net.shutdown_timeout_s)
        threads.abandon_busy(self._reactor)

    # What operations need of it

    def state(self) -> str:
        if self.hub.stopping or self.failed:
            return "stopping"
        if self.hub.redirect is not None:
            return "leaving"
        return "running" if self.net.is_open else "starting"

    def listeners(self) -> list[ListenerStatus]:
        return self.net.listeners()

    def authenticators(self) -> list[AuthenticatorStatus]:
        return self.chain.status() if self.chain is not None else []

    def pushes(self) -> list[PushStatus]:
        return [self._push.status()] if self._push is not None else []

    def snapshot(self) -> AsyncGenerator[Batch, None] | None:
        if self.writer is None:
            return None
        return self.writer.snapshot()

    def settle(self) -> None:
        self.hub.flush()
        self.net.wake()

    async def leave(self, say: Say) -> dict[str, int]:
        """Out of the cluster for good, and stop."""
        cluster = self.cluster
        assert cluster is not None
        self.net.close_listeners()
        if self.failovers is not None:
            await self.failovers.stop()
        result = await cluster.leave(say)
        self._log.info("left the cluster, stopping")
        self._reactor.callLater(0.5, self._stop_reactor)
        return result

    # Reload

    def _why_no_reload(self) -> str:
        state = self.state()
        return "" if state == "running" else f"the broker is {state}: it cannot reload now"

    async def _read_file(self) -> Settings:
        """In a thread: a large file of rules takes a while."""
        pool = self._reactor.getThreadPool()
        settings: Settings = await deferToThreadPool(self._reactor, pool, load, self._file)
        why_not = self._why_no_reload()  # meanwhile
        if why_not:
            raise OperationError(why_not)
        warning = descriptors.warning(settings, self._open_files.limit)
        return replace(settings, warnings=(*settings.warnings, warning)) if warning else settings

    def _on_stop(self, name: str) -> None:
        self._log.info("stopping: {name}", name=name)
        self._reactor.callFromThread(self._stop_reactor)

    def _stop_reactor(self) -> None:
        try:
            self._reactor.stop()
        except ReactorNotRunning:
            pass  # it is being stopped already


def make_broker(config: str | None, signals: Signals, is_elsewhere: bool = False) -> Broker:
    """Everything but the start itself, with all sockets bound.  Raises StartError.

    `is_elsewhere`: with another root directory, so that the store cannot be looked at yet.
    """
    from twisted.internet import reactor

    try:
        settings = load(config) if config else _defaults()
        set_level(settings.log.level)
        fault = "" if is_elsewhere else fault_of(settings)
        if fault:
            raise StartError(f"{config}: {fault}" if config else fault)
        broker = Broker(settings, reactor, signals)
    except LogError as error:
        raise StartError(f"{config}: {error}" if config else str(error)) from error
    except (ConfigError, ClusterError, StoreBroken) as error:
        raise StartError(str(error)) from error
    except PolicyError as error:  # which load() has not seen: the file has just changed
        raise StartError(f"access.policy: {error}") from error
    broker.bind()
    return broker


def _defaults() -> Settings:
    try:
        return parse("", NO_FILE)
    except OSError as error:
        # Where the store would be; load() has said so of a file that cannot be found there.
        raise StartError(f"the working directory: {error.strerror}") from error


def makeService(options: Options) -> Broker:
    signals = Signals()
    signals.catch()
    try:
        twistd: Mapping[str, Any] = options.parent or {}
        fault = fault_in(twistd)
        if fault:
            raise StartError(fault)
        broker = make_broker(options["config"], signals, bool(twistd.get("chroot")))
    except StartError as error:
        sys.exit(str(error))
    if signals.stopped_by:
        sys.exit(0)
    if twistd.get("nodaemon"):
        broker.console = console()
    atexit.register(exit_status, lambda: broker.failed)
    return broker
