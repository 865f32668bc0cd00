"""The $SYS topics: what the broker says about itself, as retained messages.

Published every `interval_s`, and only those that have changed.  Loads are moving averages over
1, 5 and 15 minutes, as Mosquitto's users know them.
"""

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mhub.core.hub import Hub
    from mhub.core.peers import Peers

WINDOWS: Final = (("1min", 60.0), ("5min", 300.0), ("15min", 900.0))


class Load:
    """How often something happens, per minute, over one window."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.per_minute = 0.0

    def update(self, count: int, elapsed_s: float) -> None:
        weight = math.exp(-elapsed_s / self.window_s)
        self.per_minute = self.per_minute * weight + count * 60.0 / elapsed_s * (1.0 - weight)


class SysTopics:
    def __init__(self, hub: "Hub", interval_s: float, version: str, now: float) -> None:
        self.hub = hub
        self.interval_s = interval_s
        self.version = version
        self.started_at = now
        self.last_at = now
        self.due_at = now  # the first ones come with the first tick
        self.said: dict[str, str] = {}
        self.loads: dict[str, list[Load]] = {}
        self.counted: dict[str, int] = {}

    def tick(self, now: float) -> None:
        if not self.interval_s or now < self.due_at:
            return
        self.due_at = now + self.interval_s
        for name, value in self.values(now).items():
            self._say("$SYS/broker/" + name, value)
        if self.hub.peers is not None:
            for name, value in self.cluster_values(self.hub.peers).items():
                self._say("$SYS/broker/cluster/" + name, value)
        self._say_loads(now)
        self.last_at = now

    def _say(self, topic: str, value: str) -> None:
        if self.said.get(topic) != value:
            self.said[topic] = value
            self.hub.publish_local(topic, value.encode("utf-8"), True)

    def values(self, now: float) -> dict[str, str]:
        hub = self.hub
        stats = hub.stats
        total = len(hub.sessions)
        dropped = (
            stats.dropped_queue_full
            + stats.dropped_offline
            + stats.dropped_expired
            + stats.dropped_too_large
            + stats.dropped_unmounted
        )
        return {
            "version": "mhub " + self.version,
            "uptime": f"{now - self.started_at:.0f} seconds",
            "clients/total": str(total),
            "clients/connected": str(hub.connected),
            "clients/disconnected": str(total - hub.connected),
            "clients/maximum": str(stats.clients_maximum),
            "clients/expired": str(stats.sessions_expired),
            "bytes/received": str(stats.bytes_received),
            "bytes/sent": str(stats.bytes_sent),
            "messages/received": str(stats.packets_received),
            "messages/sent": str(stats.packets_sent),
            "publish/messages/received": str(stats.publish_received),
            "publish/messages/sent": str(stats.publish_sent),
            "publish/messages/dropped": str(dropped),
            "publish/bytes/received": str(stats.publish_bytes_received),
            "publish/bytes/sent": str(stats.publish_bytes_sent),
            "retained messages/count": str(len(hub.retained)),
            "store/messages/bytes": str(hub.retained.size_bytes),
            "subscriptions/count": str(hub.router.subscriptions),
            "subscriptions/refused": str(stats.subscriptions_refused),
            "subscriptions/refused_patterns": str(stats.subscriptions_refused_patterns),
            "shared_subscriptions/count": str(hub.router.shared_subscriptions),
            "dropped/queue_full": str(stats.dropped_queue_full),
            "dropped/offline": str(stats.dropped_offline),
            "dropped/expired": str(stats.dropped_expired),
            "dropped/too_large": str(stats.dropped_too_large),
            "dropped/unmounted": str(stats.dropped_unmounted),
            "dropped/retained_full": str(stats.dropped_retained_full),
            "refused/message_size": str(stats.publish_refused_size),
            "store/state": hub.storage.state,
            "store/pending": str(hub.journal.pending_bytes() if hub.journal is not None else 0),
            "store/commits": str(stats.store_commits),
            "store/failures": str(stats.store_failures),
            "store/behind": str(stats.store_behind),
            "queued/bytes": str(hub.queues.size_bytes),
            "partial/bytes": str(hub.partials.size_bytes),
            "connections/partial_full": str(stats.disconnected_partial),
            "connections/accepted": str(stats.connections_accepted),
            "connections/refused": str(stats.connections_refused),
            "connections/refused/sessions": str(stats.sessions_refused),
            "connections/rejected": str(stats.connections_rejected),
            "connections/kicked": str(stats.clients_kicked),
            "connections/keepalive_timeouts": str(stats.keepalive_timeouts),
            "connections/authentication_timeouts": str(stats.authentication_timeouts),
            "connections/protocol_errors": str(stats.protocol_errors),
        }

    def cluster_values(self, peers: "Peers") -> dict[str, str]:
        """What a node of a cluster says; messages are those of all links together."""
        up = queued = queued_bytes = 0
        counters = peers.counters()
        for peer in peers.all:
            up += 1 if peer.up else 0
            queued += peer.outgoing.queued
            queued_bytes += peer.outgoing.queued_bytes + peer.outgoing.queued_bytes_qos0
        numbers = peers.neighbours.session_numbers()
        return {
            **{f"sessions/{name}": str(number) for name, number in numbers.items()},
            "node": peers.node,
            "members/up": str(up),
            "members/total": str(len(peers.all)),
            "routes": str(peers.table.routes),
            "messages/sent": str(counters.messages_sent),
            "messages/received": str(counters.messages_received),
            "messages/doubled": str(counters.messages_doubled),
            "dropped/qos0": str(counters.dropped_qos0),
            "dropped/full": str(counters.dropped_full),
            "refused/full": str(self.hub.stats.publish_refused_peer),
            "queued/messages": str(queued),
            "queued/bytes": str(queued_bytes),
        }

    def _say_loads(self, now: float) -> None:
        elapsed_s = now - self.last_at
        if elapsed_s <= 0:
            return
        stats = self.hub.stats
        counters = {
            "messages/received": stats.packets_received,
            "messages/sent": stats.packets_sent,
            "publish/received": stats.publish_received,
            "publish/sent": stats.publish_sent,
            "bytes/received": stats.bytes_received,
            "bytes/sent": stats.bytes_sent,
            "connections": stats.connections_accepted,
        }
        for name, count in counters.items():
            loads = self.loads.get(name)
            if loads is None:
                loads = [Load(window_s) for _, window_s in WINDOWS]
                self.loads[name] = loads
            new = count - self.counted.get(name, 0)
            self.counted[name] = count
            for load, (window, _) in zip(loads, WINDOWS, strict=True):
                load.update(new, elapsed_s)
                self._say(f"$SYS/broker/load/{name}/{window}", f"{load.per_minute:.2f}")
