"""Every number that the broker shows, declared once: name, type, unit, meaning, where it is.

    $SYS        `mhub.core.sys` publishes them under `$SYS/broker/`, as text
    the docs    docs/monitoring.md has this table; a test compares the two

and so does whatever else shows them.  A name that Mosquitto has means what it means there.
"""

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from mhub.core.events import LIMITS

if TYPE_CHECKING:
    from mhub.core.hub import Hub

Value = int | float | str

COUNTER: Final = "counter"  # grows, from the start of the process on
GAUGE: Final = "gauge"
TEXT: Final = "text"

DENIED_BY: Final = "access/denied/"
"""Before the id of a rule: how often it has denied something."""

LOAD_S: Final = 5.0
"""How often the moving averages take in what was counted."""

WINDOWS: Final = (("1min", 60.0), ("5min", 300.0), ("15min", 900.0))


class Metric:
    def __init__(
        self,
        name: str,
        kind: str,
        unit: str,
        doc: str,
        read: "Callable[[Hub], Value]",
        load: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.unit = unit
        self.doc = doc
        self.read = read
        self.load = load  # the name of its moving average per minute, if it has one


# In functions, as mypy knows what a hub has only after it has read all of it.


def _clients() -> list[Metric]:
    """Clients and their sessions."""
    return [
        Metric(
            "version", TEXT, "", "the broker and its version", lambda hub: "mhub " + hub.version
        ),
        Metric(
            "uptime",
            GAUGE,
            "seconds",
            "time since the start",
            lambda hub: round(hub.now - hub.started_at),
        ),
        Metric(
            "clients/total",
            GAUGE,
            "clients",
            "clients that have a session here, connected or not",
            lambda hub: len(hub.sessions),
        ),
        Metric(
            "clients/connected",
            GAUGE,
            "clients",
            "clients that are connected",
            lambda h: h.connected,
        ),
        Metric(
            "clients/disconnected",
            GAUGE,
            "clients",
            "clients that are not connected, but have a session",
            lambda hub: len(hub.sessions) - hub.connected,
        ),
        Metric(
            "clients/maximum",
            GAUGE,
            "clients",
            "the most clients that were connected at a time",
            lambda hub: hub.stats.clients_maximum,
        ),
        Metric(
            "clients/expired",
            COUNTER,
            "sessions",
            "sessions that ended because their expiry interval had passed",
            lambda hub: hub.stats.sessions_expired,
        ),
        Metric(
            "clients/taken_over",
            COUNTER,
            "sessions",
            "connections closed because their client id connected again, here or on another node",
            lambda hub: hub.stats.sessions_taken_over,
        ),
        Metric(
            "clients/kicked",
            COUNTER,
            "clients",
            "clients that an operator disconnected",
            lambda hub: hub.stats.clients_kicked,
        ),
        Metric(
            "clients/banned",
            COUNTER,
            "clients",
            "clients that were disconnected because of a new ban",
            lambda hub: hub.stats.clients_banned,
        ),
    ]


def _traffic() -> list[Metric]:
    """What comes and goes."""
    return [
        Metric(
            "bytes/received",
            COUNTER,
            "bytes",
            "bytes received from clients, as MQTT (without TLS and WebSocket)",
            lambda hub: hub.stats.bytes_received,
            "bytes/received",
        ),
        Metric(
            "bytes/sent",
            COUNTER,
            "bytes",
            "bytes sent to clients, as MQTT",
            lambda hub: hub.stats.bytes_sent,
            "bytes/sent",
        ),
        Metric(
            "messages/received",
            COUNTER,
            "packets",
            "MQTT packets of all types received",
            lambda hub: hub.stats.packets_received,
            "messages/received",
        ),
        Metric(
            "messages/sent",
            COUNTER,
            "packets",
            "MQTT packets of all types sent",
            lambda hub: hub.stats.packets_sent,
            "messages/sent",
        ),
        Metric(
            "publish/messages/received",
            COUNTER,
            "messages",
            "PUBLISH packets received",
            lambda hub: hub.stats.publish_received,
            "publish/received",
        ),
        Metric(
            "publish/messages/sent",
            COUNTER,
            "messages",
            "PUBLISH packets sent",
            lambda hub: hub.stats.publish_sent,
            "publish/sent",
        ),
        Metric(
            "publish/messages/dropped",
            COUNTER,
            "messages",
            "messages that a client did not get: the sum of `dropped/queue_full`, `offline`,"
            " `expired`, `too_large`, `unmounted` and `other_user`",
            lambda hub: hub.stats.dropped(),
            "publish/dropped",
        ),
        Metric(
            "publish/messages/denied",
            COUNTER,
            "messages",
            "PUBLISH packets and wills that their sender was not authorized for",
            lambda hub: hub.stats.publish_denied,
        ),
        Metric(
            "access/connects_denied",
            COUNTER,
            "clients",
            "clients that proved who they are, and may not connect; or may not any longer",
            lambda hub: hub.stats.connect_denied,
        ),
        Metric(
            "access/receives_denied",
            COUNTER,
            "denials",
            "topics that a subscriber may not receive, counted where the subscribers of a topic are"
            " searched; and messages not sent that waited when the rights changed",
            lambda hub: hub.stats.receive_denied,
        ),
        Metric(
            "access/publishes_asked",
            COUNTER,
            "messages",
            "PUBLISH packets for which the rules had to be asked, as the connection did not"
            " remember the answer",
            lambda hub: hub.stats.publish_cache_misses,
        ),
        Metric(
            "publish/bytes/received",
            COUNTER,
            "bytes",
            "payloads of PUBLISH packets received",
            lambda hub: hub.stats.publish_bytes_received,
        ),
        Metric(
            "publish/bytes/sent",
            COUNTER,
            "bytes",
            "payloads of PUBLISH packets sent",
            lambda hub: hub.stats.publish_bytes_sent,
        ),
        Metric(
            "publish/wills",
            COUNTER,
            "messages",
            "wills that were published",
            lambda hub: hub.stats.wills_published,
        ),
    ]


def _messages() -> list[Metric]:
    """Subscriptions, what is kept in memory, and what is dropped."""
    return [
        Metric(
            "retained messages/count",
            GAUGE,
            "messages",
            "retained messages, those under `$SYS` among them",
            lambda hub: len(hub.retained),
        ),
        Metric(
            "store/messages/bytes",
            GAUGE,
            "bytes",
            "memory that retained messages take, about; those under `$SYS` do not count",
            lambda hub: hub.retained.size_bytes,
        ),
        Metric(
            "registry/revision",
            TEXT,
            "",
            "the revision of the registry (users, roles, rules, bans) that this node applies",
            lambda hub: hub.registry.revision,
        ),
        Metric(
            "registry/entries",
            GAUGE,
            "entries",
            "entries of the registry",
            lambda hub: len(hub.registry),
        ),
        Metric(
            "subscriptions/count",
            GAUGE,
            "subscriptions",
            "subscriptions, shared ones among them",
            lambda hub: hub.router.subscriptions,
        ),
        Metric(
            "subscriptions/refused",
            COUNTER,
            "subscriptions",
            "subscriptions that SUBACK refused",
            lambda hub: hub.stats.subscriptions_refused,
        ),
        Metric(
            "subscriptions/refused_patterns",
            COUNTER,
            "subscriptions",
            "those of them that were refused because of `limits.max_wildcard_patterns`",
            lambda hub: hub.stats.subscriptions_refused_patterns,
        ),
        Metric(
            "subscriptions/withdrawn",
            COUNTER,
            "subscriptions",
            "subscriptions removed because their client lost the right to them",
            lambda hub: hub.stats.subscriptions_withdrawn,
        ),
        Metric(
            "shared_subscriptions/count",
            GAUGE,
            "subscriptions",
            "shared subscriptions",
            lambda hub: hub.router.shared_subscriptions,
        ),
        Metric(
            "routes/cached",
            GAUGE,
            "topics",
            "topics whose subscribers are known without a search (`limits.route_cache_size`)",
            lambda hub: len(hub.router.cache),
        ),
        Metric(
            "routes/searched",
            COUNTER,
            "searches",
            "searches for the subscribers of a topic that was not cached",
            lambda hub: hub.stats.route_cache_misses,
        ),
        Metric(
            "queued/bytes",
            GAUGE,
            "bytes",
            "messages that wait for clients (`limits.max_queued_bytes_total`)",
            lambda hub: hub.queues.size_bytes,
        ),
        Metric(
            "queued/messages",
            GAUGE,
            "messages",
            "how many messages that is",
            lambda hub: hub.queues.messages,
        ),
        Metric(
            "partial/bytes",
            GAUGE,
            "bytes",
            "packets of which not all has come yet (`limits.max_partial_bytes`)",
            lambda hub: hub.partials.size_bytes,
        ),
        Metric(
            "refused/message_size",
            COUNTER,
            "messages",
            "messages dropped because their payload was longer than `limits.message_size_limit`",
            lambda hub: hub.stats.publish_refused_size,
        ),
        Metric(
            "dropped/queue_full",
            COUNTER,
            "messages",
            "messages dropped because the queue of their client was full",
            lambda hub: hub.stats.dropped_queue_full,
        ),
        Metric(
            "dropped/offline",
            COUNTER,
            "messages",
            "QoS 0 messages for clients that were not connected",
            lambda hub: hub.stats.dropped_offline,
        ),
        Metric(
            "dropped/expired",
            COUNTER,
            "messages",
            "messages that expired before they could be sent, retained ones among them",
            lambda hub: hub.stats.dropped_expired,
        ),
        Metric(
            "dropped/too_large",
            COUNTER,
            "messages",
            "messages larger than their client's Maximum Packet Size",
            lambda hub: hub.stats.dropped_too_large,
        ),
        Metric(
            "dropped/unmounted",
            COUNTER,
            "messages",
            "messages that waited for a session which has come back with another mount point",
            lambda hub: hub.stats.dropped_unmounted,
        ),
        Metric(
            "dropped/other_user",
            COUNTER,
            "messages",
            "messages that had waited for another user with the same client id, when the sessions"
            " of both were merged after nodes could not reach each other",
            lambda hub: hub.stats.dropped_other_user,
        ),
        Metric(
            "dropped/retained_full",
            COUNTER,
            "messages",
            "messages not retained because of `limits.max_retained_messages` or"
            " `max_retained_bytes`",
            lambda hub: hub.stats.dropped_retained_full,
        ),
    ]


def _store() -> list[Metric]:
    """The store."""
    return [
        Metric(
            "store/state",
            TEXT,
            "",
            "`none`, `ok`, or `failing:` and why",
            lambda hub: hub.storage.state,
        ),
        Metric(
            "store/pending",
            GAUGE,
            "bytes",
            "what waits to be stored (`store.max_pending_bytes`)",
            lambda hub: hub.journal.pending_bytes() if hub.journal is not None else 0,
        ),
        Metric(
            "store/commits",
            COUNTER,
            "batches",
            "batches that the store has taken",
            lambda hub: hub.stats.store_commits,
        ),
        Metric(
            "store/failures",
            COUNTER,
            "failures",
            "how often the store did not do what it was asked",
            lambda hub: hub.stats.store_failures,
        ),
        Metric(
            "store/behind",
            COUNTER,
            "times",
            "how often publishers of QoS 1 and 2 had to wait for the store",
            lambda hub: hub.stats.store_behind,
        ),
        Metric(
            "store/stalled",
            GAUGE,
            "clients",
            "publishers that wait for the store now",
            lambda hub: len(hub.storage.stalled),
        ),
    ]


def _connections() -> list[Metric]:
    """Network connections, and what goes wrong."""
    return [
        Metric(
            "connections/open",
            GAUGE,
            "connections",
            "network connections of clients, also those without a CONNECT yet",
            lambda hub: hub.stats.connections_open,
        ),
        Metric(
            "connections/accepted",
            COUNTER,
            "connections",
            "network connections accepted",
            lambda hub: hub.stats.connections_accepted,
            "connections",
        ),
        Metric(
            "connections/refused",
            COUNTER,
            "connections",
            "CONNECTs refused, and connections closed because no CONNECT came in time",
            lambda hub: hub.stats.connections_refused,
        ),
        Metric(
            "connections/refused/sessions",
            COUNTER,
            "connections",
            "those of them that were refused because of `max_sessions`",
            lambda hub: hub.stats.sessions_refused,
        ),
        Metric(
            "connections/refused/banned",
            COUNTER,
            "connections",
            "those of them that were refused because of a ban",
            lambda hub: hub.stats.refused_banned,
        ),
        Metric(
            "connections/refused/locked_out",
            COUNTER,
            "connections",
            "those of them that were refused because of a lock-out after failed logins",
            lambda hub: hub.stats.refused_locked_out,
        ),
        Metric(
            "connections/rejected",
            COUNTER,
            "connections",
            "connections closed before MQTT began: limits, failed handshakes, other protocols",
            lambda hub: hub.stats.connections_rejected,
        ),
        Metric(
            "connections/accept_failures",
            COUNTER,
            "failures",
            "how often the system gave a listener no connection (too many open files, say)",
            lambda hub: hub.stats.accept_failures,
        ),
        Metric(
            "connections/keepalive_timeouts",
            COUNTER,
            "connections",
            "connections closed because nothing came for 1.5 times their keep-alive",
            lambda hub: hub.stats.keepalive_timeouts,
        ),
        Metric(
            "connections/authentication_timeouts",
            COUNTER,
            "connections",
            "connections closed because an authenticator did not answer in time",
            lambda hub: hub.stats.authentication_timeouts,
        ),
        Metric(
            "authentication/succeeded",
            COUNTER,
            "logins",
            "users who have proved who they are",
            lambda hub: hub.stats.authentications,
        ),
        Metric(
            "authentication/errors",
            COUNTER,
            "questions",
            "how often an authenticator could not tell, as its server did not answer",
            lambda hub: hub.stats.authentication_errors,
        ),
        Metric(
            "authentication/passwords_checked",
            COUNTER,
            "passwords",
            "passwords that were checked or hashed",
            lambda hub: hub.stats.passwords_checked,
        ),
        Metric(
            "authentication/passwords_refused",
            COUNTER,
            "passwords",
            "passwords that were not checked because of `passwords.max_queued`",
            lambda hub: hub.stats.passwords_refused,
        ),
        Metric(
            "connections/authentication_failures",
            COUNTER,
            "logins",
            "logins that failed because the client could not prove who it is",
            lambda hub: hub.stats.authentication_failures,
        ),
        Metric(
            "authentication/backends/answers",
            COUNTER,
            "answers",
            "answers of the servers that are asked about clients",
            lambda hub: hub.stats.auth_backend_answers,
        ),
        Metric(
            "authentication/backends/failures",
            COUNTER,
            "failures",
            "questions to these servers that failed, or took longer than `timeout_s`",
            lambda hub: hub.stats.auth_backend_failures,
        ),
        Metric(
            "authentication/backends/timeouts",
            COUNTER,
            "clients",
            "clients refused because none of these servers answered within `timeout_s`",
            lambda hub: hub.stats.auth_backend_timeouts,
        ),
        Metric(
            "authentication/backends/rejected",
            COUNTER,
            "clients",
            "clients refused without a question, as a server did not answer"
            " others, or too many waited",
            lambda hub: hub.stats.auth_backend_rejected,
        ),
        Metric(
            "authentication/backends/cached",
            COUNTER,
            "clients",
            "clients for whom an answer was remembered",
            lambda hub: hub.stats.auth_backend_cached,
        ),
        Metric(
            "connections/partial_full",
            COUNTER,
            "connections",
            "connections closed because of `limits.max_partial_bytes`",
            lambda hub: hub.stats.disconnected_partial,
        ),
        Metric(
            "connections/protocol_errors",
            COUNTER,
            "connections",
            "connections closed because the client broke a rule or a limit",
            lambda hub: hub.stats.protocol_errors,
        ),
        Metric(
            "guard/lockouts",
            COUNTER,
            "lock-outs",
            "lock-outs that failed logins at this node have brought about",
            lambda hub: hub.stats.lockouts,
        ),
        Metric(
            "guard/flapping",
            COUNTER,
            "bans",
            "bans of clients that connected to this node again and again",
            lambda hub: hub.stats.flapping_bans,
        ),
        Metric(
            "guard/evicted",
            COUNTER,
            "counters",
            "counters of failed logins that had to make room for others (`guard.max_counters`)",
            lambda hub: hub.stats.guard_evicted,
        ),
        Metric(
            "guard/unstored",
            COUNTER,
            "entries",
            "lock-outs and bans of flapping clients that hold at this node only"
            " (`guard.max_entries`)",
            lambda hub: hub.stats.guard_unstored,
        ),
        Metric(
            "defects",
            COUNTER,
            "defects",
            "errors within mhub that closed a connection; the log has their tracebacks",
            lambda hub: hub.stats.defects,
        ),
    ]


LIMIT_UNITS: Final = {
    "_per_s": ("times", "how often clients were held back by"),
    "_connects_per_s": ("times", "how often connections had to wait, or were closed, because of"),
    "_connections": ("connections", "CONNECTs refused because of"),
    "_sessions": ("connections", "CONNECTs refused because of"),
    "_subscriptions": ("subscriptions", "subscriptions refused because of"),
    "_retained_messages": ("messages", "messages not retained because of"),
    "_topic_length": ("topics", "topics and filters refused because of"),
    "_topic_levels": ("topics", "topics and filters refused because of"),
}
"""What is counted of a limit, by how its name ends; the last one that fits."""


def _limited(limit: int) -> Metric:
    name = LIMITS[limit]
    unit, doc = [found for end, found in LIMIT_UNITS.items() if name.endswith(end)][-1]
    return Metric(
        f"limited/{name}",
        COUNTER,
        unit,
        f"{doc} `limits.{name}`",
        lambda hub: hub.stats.limited[limit],
    )


def _limits() -> list[Metric]:
    """Clients that have reached a limit, and a broker that has."""
    return [
        *[_limited(limit) for limit in range(len(LIMITS))],
        Metric(
            "limited/now",
            GAUGE,
            "clients",
            "clients that are not read from, or get no messages, until they may be faster again",
            lambda hub: hub.throttle.waiting(),
        ),
        Metric(
            "dropped/rate",
            COUNTER,
            "messages",
            "QoS 0 messages that came, or were to go, faster than their client may"
            ' (`over_… = "drop"`)',
            lambda hub: hub.stats.dropped_rate,
        ),
        Metric(
            "overload/state",
            TEXT,
            "",
            "`ok`, or `late`: then nobody can connect (`net.overload_drift_s`)",
            lambda hub: "late" if hub.overload.active else "ok",
        ),
        Metric(
            "overload/drift",
            GAUGE,
            "milliseconds",
            "by how much the broker is late",
            lambda hub: int(hub.overload.drift_s * 1000),
        ),
        Metric(
            "overload/times",
            COUNTER,
            "times",
            "how often it fell behind so far",
            lambda hub: hub.stats.overloads,
        ),
        Metric(
            "overload/refused",
            COUNTER,
            "connections",
            "CONNECTs that it refused meanwhile",
            lambda hub: hub.stats.refused_overload,
        ),
    ]


def _cluster() -> list[Metric]:
    """Other nodes; messages are those of all links together."""
    return [
        Metric(
            "cluster/node", TEXT, "", "the name of this node", lambda hub: hub.require_peers().node
        ),
        Metric(
            "cluster/members/up",
            GAUGE,
            "nodes",
            "other nodes that are linked",
            lambda hub: sum([1 for peer in hub.require_peers().all if peer.up]),
        ),
        Metric(
            "cluster/members/total",
            GAUGE,
            "nodes",
            "other nodes that are known",
            lambda hub: len(hub.require_peers().all),
        ),
        Metric(
            "cluster/routes",
            GAUGE,
            "filters",
            "filters that somebody here has subscribed to, as the others know them",
            lambda hub: hub.require_peers().table.routes,
        ),
        Metric(
            "cluster/sessions/migrating",
            GAUGE,
            "sessions",
            "sessions on their way from or to another node",
            lambda hub: _sessions(hub, "migrating"),
        ),
        Metric(
            "cluster/sessions/waiting",
            GAUGE,
            "sessions",
            "sessions that wait for messages of a node which cannot be reached",
            lambda hub: _sessions(hub, "waiting"),
        ),
        Metric(
            "cluster/sessions/merging",
            GAUGE,
            "sessions",
            "older sessions whose messages come to the newer one of their client",
            lambda hub: _sessions(hub, "merging"),
        ),
        Metric(
            "cluster/sessions/held",
            GAUGE,
            "sessions",
            "sessions that were given away and hold back confirmations until every node has"
            " switched",
            lambda hub: _sessions(hub, "held"),
        ),
        Metric(
            "cluster/messages/sent",
            COUNTER,
            "messages",
            "messages sent over all links",
            lambda hub: hub.require_peers().counters().messages_sent,
        ),
        Metric(
            "cluster/messages/received",
            COUNTER,
            "messages",
            "messages received over all links",
            lambda hub: hub.require_peers().counters().messages_received,
        ),
        Metric(
            "cluster/messages/doubled",
            COUNTER,
            "messages",
            "messages that came again after a link broke, and were known",
            lambda hub: hub.require_peers().counters().messages_doubled,
        ),
        Metric(
            "cluster/queued/messages",
            GAUGE,
            "messages",
            "messages that wait for other nodes, or are on their way to them",
            lambda hub: sum([peer.outgoing.queued for peer in hub.require_peers().all]),
        ),
        Metric(
            "cluster/queued/bytes",
            GAUGE,
            "bytes",
            "how much that is",
            lambda hub: sum(
                [
                    peer.outgoing.queued_bytes + peer.outgoing.queued_bytes_qos0
                    for peer in hub.require_peers().all
                ]
            ),
        ),
        Metric(
            "cluster/registry/tombstones",
            GAUGE,
            "deletions",
            "deletions in the registry that are remembered until every known node has them",
            lambda hub: len(hub.registry.tombstones),
        ),
        Metric(
            "cluster/registry/refused",
            COUNTER,
            "entries",
            "entries of the registry that a node which was away for long still had, and that were"
            " deleted meanwhile",
            lambda hub: hub.registry.refused,
        ),
        Metric(
            "cluster/dropped/qos0",
            COUNTER,
            "messages",
            "QoS 0 messages for a node that is not linked, or does not keep up",
            lambda hub: hub.require_peers().counters().dropped_qos0,
        ),
        Metric(
            "cluster/dropped/full",
            COUNTER,
            "messages",
            "QoS 1 and 2 messages that a node did not get because its queue was full: with"
            ' `queue_full = "drop"`, and in any case those for shared subscriptions there',
            lambda hub: hub.require_peers().counters().dropped_full,
        ),
        Metric(
            "cluster/refused/full",
            COUNTER,
            "messages",
            "QoS 1 and 2 messages that publishers were refused for the same reason, with"
            ' `queue_full = "refuse"`',
            lambda hub: hub.require_peers().counters().refused,
        ),
        Metric(
            "cluster/strangers/now",
            GAUGE,
            "connections",
            "connections to the peer port that have not logged in",
            lambda hub: _strangers(hub, "now"),
        ),
        Metric(
            "cluster/strangers/evicted",
            COUNTER,
            "connections",
            "those of them that were closed to make room (`cluster.max_strangers`,"
            " `cluster.max_strangers_per_address`)",
            lambda hub: _strangers(hub, "evicted"),
        ),
        Metric(
            "cluster/strangers/rejected",
            COUNTER,
            "connections",
            "connections to the peer port for which there was no room",
            lambda hub: _strangers(hub, "rejected"),
        ),
        Metric(
            "cluster/strangers/wrong_secrets",
            COUNTER,
            "logins",
            "logins to the peer port with a wrong secret",
            lambda hub: _strangers(hub, "wrong_secrets"),
        ),
    ]


def _strangers(hub: "Hub", what: str) -> int:
    return hub.require_peers().neighbours.stranger_numbers().get(what, 0)


def _sessions(hub: "Hub", state: str) -> int:
    return hub.require_peers().neighbours.session_numbers().get(state, 0)


BROKER: Final = [
    *_clients(),
    *_traffic(),
    *_messages(),
    *_store(),
    *_connections(),
    *_limits(),
]
"""Of each broker."""

CLUSTER: Final = _cluster()
"""Of a node of a cluster."""


class Load:
    """How often something happens, per minute, over one window."""

    def __init__(self, window_s: float) -> None:
        self.window_s = window_s
        self.per_minute = 0.0

    def update(self, count: int, elapsed_s: float) -> None:
        weight = math.exp(-elapsed_s / self.window_s)
        self.per_minute = self.per_minute * weight + count * 60.0 / elapsed_s * (1.0 - weight)


class Metrics:
    """The values of one hub."""

    def __init__(self, hub: "Hub", now: float) -> None:
        self.hub = hub
        self.loads: dict[str, list[Load]] = {}
        self.counted: dict[str, int] = {}
        self.last_at = now

    def snapshot(self, now: float) -> dict[str, Value]:
        """Every metric by its name.  Counters and gauges are numbers."""
        hub = self.hub
        hub.now = now
        found: dict[str, Value] = {}
        for metric in BROKER:
            found[metric.name] = metric.read(hub)
        if hub.peers is not None:
            for metric in CLUSTER:
                found[metric.name] = metric.read(hub)
        for rule, count in hub.stats.denied_by_rule.items():
            found[DENIED_BY + rule] = count
        for name, loads in self.loads.items():
            for load, (window, _) in zip(loads, WINDOWS, strict=True):
                found[f"load/{name}/{window}"] = load.per_minute
        return found

    def tick(self, now: float) -> None:
        """The moving averages take in what was counted since the last time, whoever reads them."""
        elapsed_s = now - self.last_at
        if elapsed_s < LOAD_S:
            return
        self.last_at = now
        for metric in BROKER:
            if not metric.load:
                continue
            loads = self.loads.get(metric.load)
            if loads is None:
                loads = [Load(window_s) for _, window_s in WINDOWS]
                self.loads[metric.load] = loads
            count = int(metric.read(self.hub))
            new = count - self.counted.get(metric.load, 0)
            self.counted[metric.load] = count
            for load in loads:
                load.update(new, elapsed_s)
