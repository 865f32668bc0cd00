"""The numbers of one moment as metric families of prometheus-client.

A custom collector in parts: whoever renders the families can pause between them.  Names that are
not of mhub (`process_…`, `python_gc_…`) are those that the client library has for them.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric as Family

from mhub import __version__, build
from mhub.admin.metrics.names import DOCS, NAMES
from mhub.core.metrics import BROKER, CLUSTER, COUNTER, GAUGE, Metric
from mhub.operations.numbers import Durations, Numbers
from mhub.operations.process_numbers import start_time

STARTED: Final = start_time()


def families(numbers: Numbers, with_version: bool) -> Iterator[Family]:
    """All of them, each name once."""
    if with_version:
        yield _one("mhub_build", "info", "the version that runs, and how it was built").of(
            1, "_info", version=__version__, build=build.kind()
        )
    yield from _core(numbers, BROKER)
    if numbers.node:
        yield from _core(numbers, CLUSTER)
        yield from _links(numbers)
    yield from _state(numbers)
    yield from _listeners(numbers)
    yield from _authenticators(numbers)
    yield from _pushes(numbers)
    yield _histogram(
        "mhub_store_commit_seconds",
        "how long a batch took to be stored, with all tries that it needed",
        numbers.commits,
    )
    yield _histogram(
        "mhub_loop_lateness_seconds",
        "by how much the event loop was late, measured four times a second",
        numbers.lateness,
    )
    yield from _process(numbers)


class _Family(Family):
    """One that is written in a line."""

    def of(self, value: float, suffix: str = "", **labels: str) -> "_Family":
        self.add_sample(self.name + suffix, labels, value)
        return self


def _one(name: str, kind: str, doc: str, unit: str = "") -> _Family:
    return _Family(name, _sentence(doc), kind, unit)


def _gauge(name: str, doc: str, unit: str = "") -> _Family:
    return _one(name, "gauge", doc, unit)


def _counter(name: str, doc: str, unit: str = "") -> _Family:
    return _one(name, "counter", doc, unit)


def _sentence(doc: str) -> str:
    text = doc.replace("`", "")
    return text[:1].upper() + text[1:] + "."


def _core(numbers: Numbers, metrics: Iterable[Metric]) -> Iterator[Family]:
    """What the core counts; those that differ in a label only are one family."""
    made: dict[str, _Family] = {}
    for metric in metrics:
        exposed = NAMES.get(metric.name)
        if exposed is None:
            continue
        family = made.get(exposed.name)
        if family is None:
            doc = DOCS.get(exposed.name, metric.doc)
            kind = "counter" if metric.kind == COUNTER else GAUGE
            family = made[exposed.name] = _one(exposed.name, kind, doc, exposed.unit)
        labels = {exposed.label: exposed.value} if exposed.label else {}
        suffix = "_total" if metric.kind == COUNTER else ""
        family.of(numbers.count(metric.name), suffix, **labels)
    yield from made.values()


def _state(numbers: Numbers) -> Iterator[Family]:
    values = numbers.values
    yield _gauge("mhub_ready", "whether load balancers should send clients here").of(
        numbers.ready == "ready"
    )
    yield _gauge("mhub_store_up", "whether the store does what it is asked").of(
        not str(values["store/state"]).startswith("failing")
    )
    yield _gauge("mhub_overloaded", "whether the broker is late and refuses new clients").of(
        values["overload/state"] == "late"
    )


def _listeners(numbers: Numbers) -> Iterator[Family]:
    now = _gauge("mhub_listener_connections", "open connections of a listener")
    most = _gauge("mhub_listener_connections_limit", "how many it may have, if that is set")
    accepted = _counter("mhub_listener_connections_accepted", "connections a listener accepted")
    for each in numbers.listeners:
        now.of(each.connections, listener=each.name)
        accepted.of(each.accepted, "_total", listener=each.name)
        if each.max_connections:
            most.of(each.max_connections, listener=each.name)
    yield from (now, most, accepted)


def _authenticators(numbers: Numbers) -> Iterator[Family]:
    up = _gauge("mhub_authenticator_up", "whether an authenticator can tell who clients are")
    answers = _counter("mhub_authenticator_answers", "what an authenticator has said of clients")
    for each in numbers.authenticators:
        up.of(not each.state.startswith("failing"), authenticator=each.name)
        for answer, count in (
            ("accepted", each.accepted),
            ("refused", each.refused),
            ("passed_on", each.passed_on),
            ("error", each.errors),
        ):
            answers.of(count, "_total", authenticator=each.name, answer=answer)
    if numbers.authenticators:
        yield from (up, answers)


def _links(numbers: Numbers) -> Iterator[Family]:
    up = _gauge("mhub_cluster_link_up", "whether there is a link to a node")
    latency = _gauge("mhub_cluster_link_latency_seconds", "round trip to a node", "seconds")
    queued = _gauge("mhub_cluster_link_queued_messages", "messages that wait for a node")
    size = _gauge("mhub_cluster_link_queued_bytes", "size of what waits for a node", "bytes")
    sent = _counter("mhub_cluster_link_messages_sent", "messages sent to a node")
    received = _counter("mhub_cluster_link_messages_received", "messages received from a node")
    dropped = _counter("mhub_cluster_link_messages_dropped", "messages that a node did not get")
    for each in numbers.links:
        up.of(each.state == "up", node=each.node)
        if each.latency_s is not None:
            latency.of(each.latency_s, node=each.node)
        queued.of(each.queued_messages, node=each.node)
        size.of(each.queued_bytes, node=each.node)
        sent.of(each.sent, "_total", node=each.node)
        received.of(each.received, "_total", node=each.node)
        dropped.of(each.dropped, "_total", node=each.node)
    yield from (up, latency, queued, size, sent, received, dropped)


def _pushes(numbers: Numbers) -> Iterator[Family]:
    if not numbers.pushes:
        return
    up = _gauge("mhub_push_up", "whether the server takes the numbers that are pushed to it")
    sent = _counter("mhub_push_points_sent", "points that the server has taken")
    dropped = _counter("mhub_push_points_dropped", "points that the server never got")
    failures = _counter("mhub_push_failures", "requests to the server that failed")
    waiting = _gauge("mhub_push_points_waiting", "points that the server has not got yet")
    for each in numbers.pushes:
        up.of(each.state == "ok", server=each.name)
        sent.of(each.sent, "_total", server=each.name)
        dropped.of(each.dropped, "_total", server=each.name)
        failures.of(each.failures, "_total", server=each.name)
        waiting.of(each.waiting, server=each.name)
    yield from (up, sent, dropped, failures, waiting)


def _histogram(name: str, doc: str, durations: Durations) -> Family:
    family = _one(name, "histogram", doc, "seconds")
    total = 0
    for bound_s, count in zip(durations.bounds_s, durations.counts, strict=False):
        total += count
        family.of(total, "_bucket", le=f"{bound_s:g}")
    family.of(durations.count, "_bucket", le="+Inf")
    family.of(durations.count, "_count")
    return family.of(durations.total_s, "_sum")


def _process(numbers: Numbers) -> Iterator[Family]:
    process = numbers.process
    yield _counter("process_cpu_seconds", "user and system CPU time", "seconds").of(
        process.cpu_s, "_total"
    )
    yield _gauge("process_resident_memory_bytes", "resident memory", "bytes").of(
        process.resident_bytes
    )
    yield _gauge("process_virtual_memory_bytes", "virtual memory", "bytes").of(
        process.virtual_bytes
    )
    if STARTED:
        yield _gauge("process_start_time_seconds", "when the process began", "seconds").of(STARTED)
    if process.open_files is not None:
        yield _gauge("process_open_fds", "open file descriptors").of(process.open_files)
    if process.max_open_files is not None:
        yield _gauge("process_max_fds", "the limit of open file descriptors").of(
            process.max_open_files
        )
    for name, doc, counts in (
        ("python_gc_collections", "collections of garbage", process.gc_collections),
        ("python_gc_objects_collected", "objects collected", process.gc_collected),
        (
            "python_gc_objects_uncollectable",
            "objects found to be uncollectable",
            process.gc_uncollectable,
        ),
    ):
        family = _counter(name, doc)
        for generation, count in enumerate(counts):
            family.of(count, "_total", generation=str(generation))
        yield family
