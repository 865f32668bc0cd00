"""What each metric of `mhub.core.metrics` is called in Prometheus.

Names follow its conventions: the prefix, base units at the end, `_total` for counters (which the
client library adds).  What only differs in its cause is one name with a label, and each label has
a bounded set of values: causes, limits and states that stand in this file, listeners and
authenticators of the configuration, nodes of the cluster.  A name that is here stays as it is.

Not here is what can be computed from the others, and what is text.  How often each rule has denied
something is left to `$SYS` and `/stats`: 1,000 label values that come and go with a policy are more
than a number that nobody plots is worth.
"""

from dataclasses import dataclass
from typing import Final

from mhub.core.events import LIMITS


@dataclass(frozen=True)
class Exposed:
    name: str  # of a counter without `_total`
    label: str = ""
    value: str = ""  # of the label
    unit: str = ""  # "bytes" or "seconds", which the name ends with


def _bytes(name: str) -> Exposed:
    return Exposed(name, unit="bytes")


_DROPPED: Final = "mhub_messages_dropped"
_DENIED: Final = "mhub_denials"
_REFUSED: Final = "mhub_connects_refused"
_BACKENDS: Final = "mhub_authentication_backends"
_STRANGERS: Final = "mhub_cluster_strangers_closed"

DOCS: Final = {
    _DROPPED: "messages that a client did not get, or that were not taken from one, by cause",
    _DENIED: "what clients may not do, by what they wanted",
    _REFUSED: "CONNECTs refused, for those reasons that are counted",
    "mhub_limited": "how often each limit has held a client back, or refused something",
    "mhub_cluster_sessions": "sessions between nodes, by what becomes of them",
    "mhub_cluster_messages_dropped": "messages that another node did not get, by cause",
    _STRANGERS: "connections to the peer port that did not become links, by cause",
    "mhub_queued_messages": "messages that wait for clients",
    "mhub_queued_bytes": "size of the messages that wait for clients",
    "mhub_cluster_queued_bytes": "size of the messages that wait for other nodes",
    "mhub_subscriptions_refused_patterns": (
        "subscriptions refused because of limits.max_wildcard_patterns"
    ),
    "mhub_overloads": "how often the broker fell behind so far that it refused new clients",
    "mhub_cluster_messages_refused": (
        "QoS 1 and 2 messages that publishers were refused because another node's queue was full"
    ),
}
"""Of names that several metrics have in common, and where a text would need the one before it."""

NAMES: Final[dict[str, Exposed]] = {
    "clients/total": Exposed("mhub_sessions"),
    "clients/connected": Exposed("mhub_clients_connected"),
    "clients/maximum": Exposed("mhub_clients_connected_max"),
    "clients/expired": Exposed("mhub_sessions_expired"),
    "clients/taken_over": Exposed("mhub_connections_taken_over"),
    "clients/kicked": Exposed("mhub_clients_kicked"),
    "clients/banned": Exposed("mhub_clients_banned"),
    "bytes/received": _bytes("mhub_received_bytes"),
    "bytes/sent": _bytes("mhub_sent_bytes"),
    "messages/received": Exposed("mhub_packets_received"),
    "messages/sent": Exposed("mhub_packets_sent"),
    "publish/messages/received": Exposed("mhub_messages_received"),
    "publish/messages/sent": Exposed("mhub_messages_sent"),
    "publish/messages/denied": Exposed(_DENIED, "action", "publish"),
    "access/connects_denied": Exposed(_DENIED, "action", "connect"),
    "access/receives_denied": Exposed(_DENIED, "action", "receive"),
    "access/publishes_asked": Exposed("mhub_publish_decisions"),
    "publish/bytes/received": _bytes("mhub_payload_received_bytes"),
    "publish/bytes/sent": _bytes("mhub_payload_sent_bytes"),
    "publish/wills": Exposed("mhub_wills_published"),
    "retained messages/count": Exposed("mhub_retained_messages"),
    "store/messages/bytes": _bytes("mhub_retained_bytes"),
    "registry/entries": Exposed("mhub_registry_entries"),
    "subscriptions/count": Exposed("mhub_subscriptions"),
    "subscriptions/refused": Exposed("mhub_subscriptions_refused"),
    "subscriptions/refused_patterns": Exposed("mhub_subscriptions_refused_patterns"),
    "subscriptions/withdrawn": Exposed("mhub_subscriptions_withdrawn"),
    "shared_subscriptions/count": Exposed("mhub_shared_subscriptions"),
    "routes/cached": Exposed("mhub_routes_cached"),
    "routes/searched": Exposed("mhub_route_searches"),
    "queued/bytes": _bytes("mhub_queued_bytes"),
    "queued/messages": Exposed("mhub_queued_messages"),
    "partial/bytes": _bytes("mhub_partial_packets_bytes"),
    "refused/message_size": Exposed(_DROPPED, "cause", "message_size"),
    "dropped/queue_full": Exposed(_DROPPED, "cause", "queue_full"),
    "dropped/offline": Exposed(_DROPPED, "cause", "offline"),
    "dropped/expired": Exposed(_DROPPED, "cause", "expired"),
    "dropped/too_large": Exposed(_DROPPED, "cause", "too_large"),
    "dropped/unmounted": Exposed(_DROPPED, "cause", "unmounted"),
    "dropped/other_user": Exposed(_DROPPED, "cause", "other_user"),
    "dropped/rate": Exposed(_DROPPED, "cause", "rate"),
    "dropped/retained_full": Exposed("mhub_messages_not_retained"),
    "store/pending": _bytes("mhub_store_pending_bytes"),
    "store/commits": Exposed("mhub_store_commits"),
    "store/failures": Exposed("mhub_store_failures"),
    "store/behind": Exposed("mhub_store_behind"),
    "store/stalled": Exposed("mhub_store_stalled_clients"),
    "connections/open": Exposed("mhub_connections"),
    "connections/accepted": Exposed("mhub_connections_accepted"),
    "connections/refused": Exposed("mhub_connections_refused"),
    "connections/refused/sessions": Exposed(_REFUSED, "reason", "sessions"),
    "connections/refused/banned": Exposed(_REFUSED, "reason", "banned"),
    "connections/refused/locked_out": Exposed(_REFUSED, "reason", "locked_out"),
    "overload/refused": Exposed(_REFUSED, "reason", "overload"),
    "connections/rejected": Exposed("mhub_connections_rejected"),
    "connections/accept_failures": Exposed("mhub_accept_failures"),
    "connections/keepalive_timeouts": Exposed("mhub_keepalive_timeouts"),
    "connections/authentication_timeouts": Exposed("mhub_authentication_timeouts"),
    "authentication/succeeded": Exposed("mhub_logins"),
    "authentication/errors": Exposed("mhub_authentication_errors"),
    "authentication/passwords_checked": Exposed("mhub_passwords_checked"),
    "authentication/passwords_refused": Exposed("mhub_passwords_refused"),
    "connections/authentication_failures": Exposed("mhub_login_failures"),
    "authentication/backends/answers": Exposed(f"{_BACKENDS}_answers"),
    "authentication/backends/failures": Exposed(f"{_BACKENDS}_failures"),
    "authentication/backends/timeouts": Exposed(f"{_BACKENDS}_timeouts"),
    "authentication/backends/rejected": Exposed(f"{_BACKENDS}_rejected"),
    "authentication/backends/cached": Exposed(f"{_BACKENDS}_cached"),
    "connections/partial_full": Exposed("mhub_partial_packets_closed"),
    "connections/protocol_errors": Exposed("mhub_protocol_errors"),
    "guard/lockouts": Exposed("mhub_lockouts"),
    "guard/flapping": Exposed("mhub_flapping_bans"),
    "guard/evicted": Exposed("mhub_guard_evictions"),
    "guard/unstored": Exposed("mhub_guard_entries_unstored"),
    "defects": Exposed("mhub_defects"),
    **{f"limited/{limit}": Exposed("mhub_limited", "limit", limit) for limit in LIMITS},
    "limited/now": Exposed("mhub_limited_clients"),
    "overload/times": Exposed("mhub_overloads"),
    "cluster/members/up": Exposed("mhub_cluster_members_up"),
    "cluster/members/total": Exposed("mhub_cluster_members"),
    "cluster/routes": Exposed("mhub_cluster_routes"),
    "cluster/sessions/migrating": Exposed("mhub_cluster_sessions", "state", "migrating"),
    "cluster/sessions/waiting": Exposed("mhub_cluster_sessions", "state", "waiting"),
    "cluster/sessions/merging": Exposed("mhub_cluster_sessions", "state", "merging"),
    "cluster/sessions/held": Exposed("mhub_cluster_sessions", "state", "held"),
    "cluster/messages/sent": Exposed("mhub_cluster_messages_sent"),
    "cluster/messages/received": Exposed("mhub_cluster_messages_received"),
    "cluster/messages/doubled": Exposed("mhub_cluster_messages_doubled"),
    "cluster/queued/messages": Exposed("mhub_cluster_queued_messages"),
    "cluster/queued/bytes": _bytes("mhub_cluster_queued_bytes"),
    "cluster/registry/tombstones": Exposed("mhub_registry_tombstones"),
    "cluster/registry/refused": Exposed("mhub_registry_entries_refused"),
    "cluster/dropped/qos0": Exposed("mhub_cluster_messages_dropped", "cause", "qos0"),
    "cluster/dropped/full": Exposed("mhub_cluster_messages_dropped", "cause", "full"),
    "cluster/refused/full": Exposed("mhub_cluster_messages_refused"),
    "cluster/strangers/now": Exposed("mhub_cluster_strangers"),
    "cluster/strangers/evicted": Exposed(_STRANGERS, "cause", "evicted"),
    "cluster/strangers/rejected": Exposed(_STRANGERS, "cause", "rejected"),
    "cluster/strangers/wrong_secrets": Exposed(_STRANGERS, "cause", "wrong_secret"),
}

LEFT_OUT: Final = {
    "version": "mhub_build_info has it",
    "uptime": "process_start_time_seconds has it",
    "clients/disconnected": "mhub_sessions - mhub_clients_connected",
    "publish/messages/dropped": "the sum of some causes of mhub_messages_dropped_total",
    "registry/revision": "text",
    "store/state": "mhub_store_up has it",
    "overload/state": "mhub_overloaded has it",
    "overload/drift": "mhub_loop_lateness_seconds has it",
    "cluster/node": "text; the scraper has a name for each node",
}
"""What is not in NAMES, and why."""
