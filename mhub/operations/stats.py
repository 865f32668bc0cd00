"""`/stats`: the numbers of a broker as one JSON object, for people and for programs of their own.

Counters are since the start of the process; `rates` are moving averages over 1, 5 and 15 minutes,
per second.  What each client does is not here: the list of clients has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mhub.core.events import LIMITS
from mhub.core.hub import Hub
from mhub.core.metrics import DENIED_BY, WINDOWS
from mhub.operations.contract import AuthenticatorStatus, ListenerStatus, PushStatus
from mhub.operations.numbers import Durations, LinkNumbers, Numbers
from mhub.operations.process_numbers import ProcessNumbers

CLIENTS: Final = "/admin/v1/clients"
"""Where the numbers of each client are."""

MOST_RULES: Final = 50
"""Rules whose denials are listed; those with the most of them."""

RATES: Final = {
    "messages_in": "publish/received",
    "messages_out": "publish/sent",
    "bytes_in": "bytes/received",
    "bytes_out": "bytes/sent",
    "packets_in": "messages/received",
    "packets_out": "messages/sent",
    "dropped": "publish/dropped",
    "connects": "connections",
}
"""The names of the charts' series, and of the moving averages."""

DROPS: Final = (
    *("queue_full", "offline", "expired", "too_large", "unmounted", "other_user"),
    *("retained_full", "rate"),
)


@dataclass(frozen=True)
class Rates:
    """Per second, over so many minutes."""

    per_s_1min: float
    per_s_5min: float
    per_s_15min: float


@dataclass(frozen=True)
class ConnectionStats:
    open: int
    accepted: int
    refused: int
    refused_sessions: int
    refused_banned: int
    refused_locked_out: int
    refused_overload: int
    rejected: int
    accept_failures: int
    keepalive_timeouts: int
    protocol_errors: int
    partial_full: int
    taken_over: int
    kicked: int
    banned: int


@dataclass(frozen=True)
class SessionStats:
    total: int
    connected: int
    disconnected: int
    connected_most: int
    expired: int
    subscriptions: int
    shared_subscriptions: int
    subscriptions_refused: int
    subscriptions_withdrawn: int


@dataclass(frozen=True)
class MessageStats:
    received: int
    sent: int
    received_bytes: int  # of payloads
    sent_bytes: int
    packets_received: int
    packets_sent: int
    network_bytes_received: int  # as MQTT
    network_bytes_sent: int
    wills: int
    dropped: int
    dropped_by_cause: Mapping[str, int]
    queued: int
    queued_bytes: int
    max_queued_bytes: int  # 0: any number
    retained: int  # with those under $SYS
    retained_bytes: int


@dataclass(frozen=True)
class StoreStats:
    state: str  # "none", "ok", or "failing: " and why
    pending_bytes: int
    commits: int
    failures: int
    behind: int
    stalled: int
    commit_s: Durations


@dataclass(frozen=True)
class AccessStats:
    publishes_denied: int
    receives_denied: int
    connects_denied: int
    denied_by_rule: Mapping[str, int]  # those with the most
    logins: int
    login_failures: int
    login_errors: int
    lockouts: int
    flapping: int
    authenticators: tuple[AuthenticatorStatus, ...]


@dataclass(frozen=True)
class ClusterStats:
    node: str
    members_up: int
    members: int
    sessions: Mapping[str, int]  # by what becomes of them: migrating, waiting, merging, held
    sent: int
    received: int
    doubled: int
    queued_messages: int
    queued_bytes: int
    dropped_qos0: int
    dropped_full: int
    refused_full: int
    links: tuple[LinkNumbers, ...]


@dataclass(frozen=True)
class LoopStats:
    state: str  # "ok", or "late": then nobody can connect
    lateness_s: Durations
    overloads: int


@dataclass(frozen=True)
class Stats:
    time: float
    version: str
    build: str
    state: str
    ready: str
    uptime_s: float
    started_at: float
    rates: Mapping[str, Rates]  # those of RATES
    listeners: tuple[ListenerStatus, ...]
    connections: ConnectionStats
    sessions: SessionStats
    messages: MessageStats
    store: StoreStats
    access: AccessStats
    limited: Mapping[str, int]  # how often each limit held a client back
    limited_now: int
    cluster: ClusterStats | None
    loop: LoopStats
    process: ProcessNumbers
    pushes: tuple[PushStatus, ...]
    defects: int
    clients: str  # where the numbers of each client are


def stats(hub: Hub, numbers: Numbers, version: str, build: str) -> Stats:
    count = numbers.count
    return Stats(
        time=numbers.time,
        version=version,
        build=build,
        state=numbers.state,
        ready=numbers.ready,
        uptime_s=numbers.uptime_s,
        started_at=round(numbers.time - numbers.uptime_s, 3),
        rates={name: _rates(numbers, load) for name, load in RATES.items()},
        listeners=numbers.listeners,
        connections=_connections(numbers),
        sessions=SessionStats(
            total=count("clients/total"),
            connected=count("clients/connected"),
            disconnected=count("clients/disconnected"),
            connected_most=count("clients/maximum"),
            expired=count("clients/expired"),
            subscriptions=count("subscriptions/count"),
            shared_subscriptions=count("shared_subscriptions/count"),
            subscriptions_refused=count("subscriptions/refused"),
            subscriptions_withdrawn=count("subscriptions/withdrawn"),
        ),
        messages=_messages(hub, numbers),
        store=StoreStats(
            state=str(numbers.values["store/state"]),
            pending_bytes=count("store/pending"),
            commits=count("store/commits"),
            failures=count("store/failures"),
            behind=count("store/behind"),
            stalled=count("store/stalled"),
            commit_s=numbers.commits,
        ),
        access=_access(numbers),
        limited={name: count(f"limited/{name}") for name in LIMITS},
        limited_now=count("limited/now"),
        cluster=_cluster(numbers) if numbers.node else None,
        loop=LoopStats(
            state=str(numbers.values["overload/state"]),
            lateness_s=numbers.lateness,
            overloads=count("overload/times"),
        ),
        process=numbers.process,
        pushes=numbers.pushes,
        defects=count("defects"),
        clients=CLIENTS,
    )


def _rates(numbers: Numbers, load: str) -> Rates:
    found = [numbers.values.get(f"load/{load}/{window}", 0.0) for window, _ in WINDOWS]
    return Rates(*[round(float(value) / 60, 3) for value in found])


def _connections(numbers: Numbers) -> ConnectionStats:
    count = numbers.count
    return ConnectionStats(
        open=count("connections/open"),
        accepted=count("connections/accepted"),
        refused=count("connections/refused"),
        refused_sessions=count("connections/refused/sessions"),
        refused_banned=count("connections/refused/banned"),
        refused_locked_out=count("connections/refused/locked_out"),
        refused_overload=count("overload/refused"),
        rejected=count("connections/rejected"),
        accept_failures=count("connections/accept_failures"),
        keepalive_timeouts=count("connections/keepalive_timeouts"),
        protocol_errors=count("connections/protocol_errors"),
        partial_full=count("connections/partial_full"),
        taken_over=count("clients/taken_over"),
        kicked=count("clients/kicked"),
        banned=count("clients/banned"),
    )


def _messages(hub: Hub, numbers: Numbers) -> MessageStats:
    count = numbers.count
    return MessageStats(
        received=count("publish/messages/received"),
        sent=count("publish/messages/sent"),
        received_bytes=count("publish/bytes/received"),
        sent_bytes=count("publish/bytes/sent"),
        packets_received=count("messages/received"),
        packets_sent=count("messages/sent"),
        network_bytes_received=count("bytes/received"),
        network_bytes_sent=count("bytes/sent"),
        wills=count("publish/wills"),
        dropped=count("publish/messages/dropped"),
        dropped_by_cause={
            **{cause: count(f"dropped/{cause}") for cause in DROPS},
            "message_size": count("refused/message_size"),
        },
        queued=count("queued/messages"),
        queued_bytes=count("queued/bytes"),
        max_queued_bytes=hub.queues.most_bytes,
        retained=count("retained messages/count"),
        retained_bytes=count("store/messages/bytes"),
    )


def _access(numbers: Numbers) -> AccessStats:
    count = numbers.count
    rules = {
        name.removeprefix(DENIED_BY): count(name)
        for name in numbers.values
        if name.startswith(DENIED_BY)
    }
    most = sorted(rules.items(), key=lambda item: (-item[1], item[0]))[:MOST_RULES]
    return AccessStats(
        publishes_denied=count("publish/messages/denied"),
        receives_denied=count("access/receives_denied"),
        connects_denied=count("access/connects_denied"),
        denied_by_rule=dict(most),
        logins=count("authentication/succeeded"),
        login_failures=count("connections/authentication_failures"),
        login_errors=count("authentication/errors"),
        lockouts=count("guard/lockouts"),
        flapping=count("guard/flapping"),
        authenticators=numbers.authenticators,
    )


def _cluster(numbers: Numbers) -> ClusterStats:
    count = numbers.count
    states = ("migrating", "waiting", "merging", "held")
    return ClusterStats(
        node=numbers.node,
        members_up=count("cluster/members/up"),
        members=count("cluster/members/total"),
        sessions={state: count(f"cluster/sessions/{state}") for state in states},
        sent=count("cluster/messages/sent"),
        received=count("cluster/messages/received"),
        doubled=count("cluster/messages/doubled"),
        queued_messages=count("cluster/queued/messages"),
        queued_bytes=count("cluster/queued/bytes"),
        dropped_qos0=count("cluster/dropped/qos0"),
        dropped_full=count("cluster/dropped/full"),
        refused_full=count("cluster/refused/full"),
        links=numbers.links,
    )
