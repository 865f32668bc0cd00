"""Counters: plain integers that the core adds to, and `mhub.core.metrics` shows.

What is an event is counted by hearing of it: Stats is a sink.  What happens to messages and bytes
is counted where it happens.
"""

from typing import Final

from mhub.core import events

MOST_RULES: Final = 1000
"""Rules whose denials are counted one by one."""

OTHER_RULES: Final = "others"


class Stats:
    def __init__(self) -> None:
        self.connections_open = 0  # a gauge
        self.connections_accepted = 0
        self.connections_refused = 0  # by CONNACK, or for want of a CONNECT
        self.sessions_refused = 0  # by CONNACK, as there were enough
        self.connections_rejected = 0  # before MQTT: limits, strangers on the port
        self.accept_failures = 0  # the system gave a listener no connection
        self.clients_maximum = 0
        self.clients_kicked = 0  # by an operator
        self.sessions_taken_over = 0
        self.sessions_expired = 0
        self.keepalive_timeouts = 0
        self.authentication_timeouts = 0  # an authenticator did not answer
        self.authentications = 0  # users who proved who they are
        self.authentication_errors = 0  # an authenticator could not tell
        self.passwords_checked = 0
        self.passwords_refused = 0  # too many were waiting to be checked
        self.authentication_failures = 0  # whoever it was could not prove who it is
        self.refused_banned = 0  # by CONNACK
        self.refused_locked_out = 0  # by CONNACK
        self.clients_banned = 0  # disconnected, as a ban came
        self.lockouts = 0  # begun by this node
        self.flapping_bans = 0  # begun by this node
        self.guard_evicted = 0  # counters of failures that had to make room
        self.guard_unstored = 0  # lock-outs and bans that only this node knows of
        self.auth_backend_answers = 0  # of the servers that are asked about clients
        self.auth_backend_failures = 0  # of these servers, time-outs among them
        self.auth_backend_timeouts = 0  # clients that waited in vain for one of them
        self.auth_backend_rejected = 0  # clients for whom none was asked: circuit open, queue full
        self.auth_backend_cached = 0  # clients for whom none had to be asked
        self.protocol_errors = 0
        self.disconnected_partial = 0  # unfinished packets of all clients were at their bound
        self.bytes_received = 0
        self.bytes_sent = 0
        self.packets_received = 0
        self.packets_sent = 0
        self.publish_received = 0
        self.publish_sent = 0
        self.publish_bytes_received = 0
        self.publish_bytes_sent = 0
        self.publish_denied = 0  # not authorized
        self.publish_cache_misses = 0  # answers that a connection did not remember
        self.receive_denied = 0  # sessions left out of a route, and messages that were not sent
        self.connect_denied = 0  # not authorized, though it is known who they are
        self.denied_by_rule: dict[str, int] = {}
        self.publish_refused_size = 0  # the payload was longer than the listener allows
        self.dropped_queue_full = 0  # a session's queue was at its bound
        self.dropped_offline = 0  # QoS 0 for a session without connection
        self.dropped_expired = 0  # message expiry
        self.dropped_too_large = 0  # larger than the client takes
        self.dropped_unmounted = 0  # from before its session had another mount point
        self.dropped_other_user = 0  # of an older session of the client id, of another user
        self.dropped_retained_full = 0  # the retained messages were at their bound
        self.limited = [0] * len(events.LIMITS)  # how often each of them held a client back
        self.dropped_rate = 0  # QoS 0 that came, or was to go, faster than its client may
        self.overloads = 0  # how often the broker fell behind, so that
        self.refused_overload = 0  # so many CONNECTs were refused
        self.store_behind = 0  # how often publishers had to wait for the store
        self.store_failures = 0  # how often the store did not take a batch
        self.store_commits = 0
        self.subscriptions_refused = 0
        self.subscriptions_refused_patterns = 0  # of these: too many patterns of wildcards
        self.subscriptions_withdrawn = 0  # rights have changed
        self.wills_published = 0
        self.route_cache_misses = 0
        self.defects = 0  # of ours, that came to light

    def dropped(self) -> int:
        """Messages that clients did not get."""
        return (
            self.dropped_queue_full
            + self.dropped_offline
            + self.dropped_expired
            + self.dropped_too_large
            + self.dropped_unmounted
            + self.dropped_other_user
        )

    def emit(self, event: events.Event) -> None:
        kind = event.kind
        if kind == events.REFUSED:
            self.connections_refused += 1
        elif kind == events.REJECTED or kind == events.STRANGER:
            self.connections_rejected += 1
        elif kind == events.ACCEPT_FAILED:
            self.accept_failures += 1
        elif kind == events.TAKEN_OVER:
            self.sessions_taken_over += 1
        elif kind == events.KICKED:
            self.clients_kicked += 1
        elif kind == events.SESSION_EXPIRED:
            self.sessions_expired += 1
        elif kind == events.DENIED:
            self._count_rule(event.rule, event.count)
        elif kind == events.LOCKED_OUT:
            self.lockouts += 1
        elif kind == events.FLAPPING:
            self.flapping_bans += 1
        elif kind == events.CRASHED:
            self.defects += 1

    def _count_rule(self, rule: str, count: int) -> None:
        known = self.denied_by_rule
        for character in "/+#\0":  # it becomes a level of a topic
            rule = rule.replace(character, "_")
        if rule not in known and len(known) >= MOST_RULES:
            rule = OTHER_RULES
        if rule:
            known[rule] = known.get(rule, 0) + count


class PeerStats:
    """Of the messages to and from another node."""

    def __init__(self) -> None:
        self.messages_sent = 0
        self.messages_received = 0
        self.messages_doubled = 0
        self.dropped_qos0 = 0
        self.dropped_full = 0
        self.refused = 0  # messages that publishers were refused on its account

    def add(self, other: "PeerStats") -> None:
        self.messages_sent += other.messages_sent
        self.messages_received += other.messages_received
        self.messages_doubled += other.messages_doubled
        self.dropped_qos0 += other.dropped_qos0
        self.dropped_full += other.dropped_full
        self.refused += other.refused
