"""What the charts show: some 30 series, each a name, a unit, and how it is read from the numbers.

A sampler turns two readings into one value for each series: a gauge is the later reading, a rate is
what was counted in between by the seconds in between, a mean is one counter by another.  NaN says
that there is none, as of the store's latency where nothing was stored.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from mhub.core.overload import Peak
from mhub.operations.numbers import Numbers

NONE: Final = math.nan

Read = Callable[[Numbers], float]


@dataclass(frozen=True)
class Series:
    name: str
    unit: str
    doc: str
    read: Read  # what it is, or what is counted
    is_rate: bool = False
    by: Read | None = None  # of a mean: what the first counter is divided by
    is_peak: bool = False  # of several values the highest counts, not their mean


def _rate(name: str, unit: str, doc: str, *metrics: str) -> Series:
    return Series(
        name,
        f"{unit}/s",
        doc,
        lambda numbers: sum(numbers.count(each) for each in metrics),
        is_rate=True,
    )


def _gauge(name: str, unit: str, doc: str, metric: str) -> Series:
    return Series(name, unit, doc, lambda numbers: numbers.count(metric))


LATENESS: Final = "lateness_s"
"""The highest of an interval: it comes from the sampler's own Peak."""

SERIES: Final = (
    _rate("messages_in", "messages", "PUBLISH packets received", "publish/messages/received"),
    _rate("messages_out", "messages", "PUBLISH packets sent", "publish/messages/sent"),
    _rate("bytes_in", "bytes", "bytes received from clients", "bytes/received"),
    _rate("bytes_out", "bytes", "bytes sent to clients", "bytes/sent"),
    _rate("packets_in", "packets", "MQTT packets received", "messages/received"),
    _rate("packets_out", "packets", "MQTT packets sent", "messages/sent"),
    _rate("connects", "connections", "connections accepted", "connections/accepted"),
    _rate(
        "refused",
        "connections",
        "connections refused or rejected",
        "connections/refused",
        "connections/rejected",
    ),
    _rate("login_failures", "logins", "logins that failed", "connections/authentication_failures"),
    _rate(
        "dropped",
        "messages",
        "messages that clients or nodes did not get",
        "publish/messages/dropped",
        "dropped/rate",
        "dropped/retained_full",
        "cluster/dropped/qos0",
        "cluster/dropped/full",
    ),
    _rate(
        "denied",
        "denials",
        "what clients may not do: publish, subscribe, receive, connect",
        "publish/messages/denied",
        "subscriptions/refused",
        "access/receives_denied",
        "access/connects_denied",
    ),
    Series(
        "limited",
        "times/s",
        "how often a limit held a client back",
        lambda numbers: sum(
            numbers.count(name)
            for name in numbers.values
            if name.startswith("limited/") and name != "limited/now"
        ),
        is_rate=True,
    ),
    _gauge("connections", "connections", "open network connections", "connections/open"),
    _gauge("clients", "clients", "connected clients", "clients/connected"),
    _gauge("sessions", "sessions", "sessions, connected or not", "clients/total"),
    _gauge("subscriptions", "subscriptions", "subscriptions", "subscriptions/count"),
    _gauge("queued_messages", "messages", "messages that wait for clients", "queued/messages"),
    _gauge("queued_bytes", "bytes", "how much that is", "queued/bytes"),
    _gauge("retained", "messages", "retained messages", "retained messages/count"),
    _gauge("retained_bytes", "bytes", "memory that they take", "store/messages/bytes"),
    _gauge("store_pending_bytes", "bytes", "what waits to be stored", "store/pending"),
    Series(
        "store_commit_s",
        "seconds",
        "how long a batch took to be stored, on average",
        lambda numbers: numbers.commits.total_s,
        by=lambda numbers: numbers.commits.count,
    ),
    _gauge("cluster_up", "nodes", "other nodes that are linked", "cluster/members/up"),
    _gauge(
        "cluster_queued_messages",
        "messages",
        "messages that wait for other nodes",
        "cluster/queued/messages",
    ),
    _gauge("cluster_queued_bytes", "bytes", "how much that is", "cluster/queued/bytes"),
    _rate(
        "cluster_messages_in", "messages", "messages of other nodes", "cluster/messages/received"
    ),
    _rate("cluster_messages_out", "messages", "messages to other nodes", "cluster/messages/sent"),
    Series(
        "memory_bytes",
        "bytes",
        "resident memory of the process",
        lambda numbers: numbers.process.resident_bytes,
    ),
    Series(
        "cpu",
        "cores",
        "CPU time by time: 1 is all of one core",
        lambda numbers: numbers.process.cpu_s,
        is_rate=True,
    ),
    Series(
        LATENESS,
        "seconds",
        "by how much the event loop was late, at most",
        lambda numbers: NONE,
        is_peak=True,
    ),
)

NAMES: Final = tuple(series.name for series in SERIES)
INDEX: Final = {name: index for index, name in enumerate(NAMES)}


class Sampler:
    """One value for each of SERIES, of the time since the sample before."""

    def __init__(self, peak: Peak) -> None:
        self._peak = peak
        self._before: list[tuple[float, float]] = []
        self._before_at = 0.0

    def sample(self, numbers: Numbers, longest_s: float = math.inf) -> list[float]:
        """There are no rates the first time, or of more than `longest_s`: of most of that time it
        would not be known when it was."""
        elapsed_s = numbers.now - self._before_at
        read = [
            (series.read(numbers), series.by(numbers) if series.by is not None else 0.0)
            for series in SERIES
        ]
        before = self._before if 0 < elapsed_s <= longest_s else []
        self._before = read
        self._before_at = numbers.now
        peak_s = self._peak.take()
        found = []
        for index, series in enumerate(SERIES):
            value, by = read[index]
            if series.name == LATENESS:
                value = peak_s
            elif series.is_rate or series.by is not None:
                if before:
                    count = by - before[index][1] if series.by is not None else elapsed_s
                    value = (value - before[index][0]) / count if count else NONE
                else:
                    value = NONE
            found.append(value)
        return found


def by_name(values: list[float]) -> dict[str, float | None]:
    """A sample as JSON has it."""
    return {name: shown(value) for name, value in zip(NAMES, values, strict=True)}


def shown(value: float) -> float | None:
    """Six digits are as much as a chart can show; no value is null."""
    return None if value != value else float(f"{value:.6g}")
