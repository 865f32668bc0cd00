"""All numbers of one moment, for whoever shows them: REST, Prometheus, InfluxDB, the charts.

What the core counts is declared in `mhub.core.metrics` and comes by those names.  What is around
it (listeners, authenticators, links to other nodes, the process) is added here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mhub.core.histogram import Histogram
from mhub.core.hub import Hub
from mhub.core.metrics import Value
from mhub.operations.contract import AuthenticatorStatus, ListenerStatus, PushStatus, Surroundings
from mhub.operations.process_numbers import ProcessNumbers, read_process
from mhub.operations.readiness import readiness


@dataclass(frozen=True)
class Durations:
    """How long something took, since the start."""

    bounds_s: tuple[float, ...]  # the upper ends of the buckets
    counts: tuple[int, ...]  # in each of them; one more, without an end
    total_s: float
    count: int


@dataclass(frozen=True)
class LinkNumbers:
    """Another node, and the messages to it and from it."""

    node: str
    state: str
    latency_s: float | None  # None: there is no link, or no answer yet
    queued_messages: int
    queued_bytes: int
    sent: int
    received: int
    dropped: int


@dataclass(frozen=True)
class Numbers:
    time: float  # of day
    now: float  # on the hub's clock
    uptime_s: float
    node: str  # "": there is no cluster
    state: str  # as in Status
    ready: str  # the word of Readiness
    values: Mapping[str, Value]  # by the names of `mhub.core.metrics`
    listeners: tuple[ListenerStatus, ...]
    authenticators: tuple[AuthenticatorStatus, ...]
    links: tuple[LinkNumbers, ...]
    process: ProcessNumbers
    commits: Durations
    lateness: Durations
    pushes: tuple[PushStatus, ...]

    def count(self, name: str) -> int:
        """A counter or a gauge of the core; 0 where there is none, as without a cluster."""
        value = self.values.get(name, 0)
        return value if isinstance(value, int) else 0


def read_numbers(hub: Hub, around: Surroundings, now: float, time: float) -> Numbers:
    peers = hub.peers
    return Numbers(
        time=round(time, 3),
        now=now,
        uptime_s=round(now - hub.started_at, 3),
        node=peers.node if peers is not None else "",
        state=around.state(),
        ready=readiness(hub, around).state,
        values=hub.metrics.snapshot(now),
        listeners=tuple(around.listeners()),
        authenticators=tuple(around.authenticators()),
        links=_links(around),
        process=read_process(),
        commits=durations(hub.storage.commits),
        lateness=durations(hub.overload.lateness),
        pushes=tuple(around.pushes()),
    )


def durations(histogram: Histogram) -> Durations:
    return Durations(
        tuple(histogram.bounds),
        tuple(histogram.counts),
        round(histogram.total_s, 6),
        histogram.count(),
    )


def _links(around: Surroundings) -> tuple[LinkNumbers, ...]:
    if around.cluster is None:
        return ()
    members: Any = around.cluster.status()["members"]
    return tuple(
        LinkNumbers(
            node=each["node"],
            state=each["state"],
            latency_s=None if each["latency_ms"] is None else each["latency_ms"] / 1000,
            queued_messages=each["queued_messages"],
            queued_bytes=each["queued_bytes"],
            sent=each["sent"],
            received=each["received"],
            dropped=each["dropped"],
        )
        for each in sorted(members, key=lambda member: str(member["node"]))
    )
