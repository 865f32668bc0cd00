"""What a reload changes, besides listeners, authenticators and the admin side, which
have modules of their own.

Each class is a Part of `mhub.process.reload`.
"""

from typing import Any, Protocol

from twisted.logger import globalLogPublisher

from mhub.access.service import AccessService, only_registry
from mhub.config import Settings
from mhub.config.cluster import ClusterSettings
from mhub.config.reloadable import ACCESS, CLUSTER, LIMITS, LOG
from mhub.core.hub import Hub, HubSettings
from mhub.log import set_level
from mhub.log.destination import Destination, is_same_output, limit_rate, make_output
from mhub.process.reload import Change, Prepared


class Net(Protocol):
    def set_limits(self, settings: Settings) -> None: ...


class LimitsPart:
    """`[limits]` for the broker as a whole, `[sys]`, `[net]`: plain numbers."""

    name = LIMITS

    def __init__(self, hub: Hub, net: Net, hub_settings: Any) -> None:
        """`hub_settings` makes HubSettings from Settings."""
        self._hub = hub
        self._net = net
        self._hub_settings = hub_settings

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        wanted: HubSettings = self._hub_settings(new)
        return Change(lambda: self._take(old, new, wanted))

    def _take(self, old: Settings, new: Settings, wanted: HubSettings) -> None:
        hub = self._hub
        hub.max_sessions = wanted.max_sessions
        hub.retained.max_messages = wanted.max_retained_messages
        hub.retained.max_bytes = wanted.max_retained_bytes
        hub.queues.most_bytes = wanted.max_queued_bytes_total
        hub.partials.most_bytes = wanted.max_partial_bytes
        hub.work_per_turn = wanted.work_per_turn
        hub.portion = wanted.portion
        hub.overload.limit_s = wanted.overload_drift_s
        router = hub.router
        router.max_patterns = wanted.max_wildcard_patterns
        if router.cache_size != wanted.route_cache_size:
            router.cache_size = wanted.route_cache_size
            router.forget_all()
        if router.max_levels != wanted.max_topic_levels:
            router.max_levels = wanted.max_topic_levels
            # Whether topics of a connection are counted follows from both.
            for listener in new.listeners:
                hub.listener_limits.put(listener.name, listener.limits)
            hub.quotas_changed(None)
        if hub.sys.interval_s != wanted.sys_interval_s:
            hub.sys.interval_s = wanted.sys_interval_s
            hub.sys.due_at = hub.now
        self._net.set_limits(new)


class LogPart:
    name = LOG

    def __init__(self, destination: Destination, hub: Hub, reactor: Any) -> None:
        self._destination = destination
        self._hub = hub
        self._reactor = reactor

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        """Raises LogError."""
        output = None if is_same_output(old.log, new.log) else make_output(new.log)
        discard = (lambda: None) if output is None else output.close
        return Change(lambda: self._take(old, new, output), discard)

    def _take(self, old: Settings, new: Settings, output: Any) -> None:
        before, after = old.log, new.log
        self._destination.take(after, output)
        if after.to and not before.to:
            # twistd's own log was enough so far, and goes on; for `mhub run` this changes nothing.
            globalLogPublisher.addObserver(self._destination)  # type: ignore[arg-type]
        if after.level != before.level:
            set_level(after.level)
        if (after.rate, after.burst, after.summary_s) != (
            before.rate,
            before.burst,
            before.summary_s,
        ):
            limit_rate(after, self._reactor)
            self._hub.events.interval_s = after.summary_s


class AccessPart:
    name = ACCESS

    def __init__(self, access: AccessService, hub: Hub, hub_settings: Any) -> None:
        self._access = access
        self._hub = hub
        self._hub_settings = hub_settings

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        """Raises PolicyError."""
        wanted: HubSettings = self._hub_settings(new)
        take = self._access.prepare(new.access, only_registry(new.auth))

        def apply() -> None:
            hub = self._hub
            hub.denied_publish = wanted.denied_publish
            hub.tell_withdrawn = wanted.tell_withdrawn
            hub.publish_cache_size = wanted.publish_cache_size
            take()

        return Change(apply)


class Node(Protocol):
    def prepare(self, new: ClusterSettings) -> Any: ...


class ClusterPart:
    name = CLUSTER

    def __init__(self, service: Node | None) -> None:
        self._service = service

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        """Raises ClusterError."""
        if self._service is None or new.cluster is None:
            return Change(lambda: None)
        return Change(self._service.prepare(new.cluster))
