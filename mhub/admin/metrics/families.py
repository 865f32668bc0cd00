"""The numbers of one moment as metric families of prometheus-client.

A custom collector in parts: each family is made when it is asked for, so whoever renders them can
pause in between.  Names that are
not of mhub (`process_…`, `python_gc_…`) are those that the client library has for them.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from prometheus_client.core import Metric as Family

from mhub import __version__, build
from mhub.admin.metrics.names import DOCS, NAMES
from mhub.core.metrics import BROKER, CLUSTER, COUNTER, GAUGE, Metric
from mhub.operations.numbers import Durations, LinkNumbers, Numbers
from mhub.operations.process_numbers import start_time

STARTED: Final = start_time()

BUILD: Final = build.kind()


def families(numbers: Numbers, with_version: bool) -> Iterator[Family]:
    """All of them, each name once."""
    if with_version:
        yield _one("mhub_build", "info", "the version that runs, and how it was built").of(
            1, "_info", version=__version__, build=BUILD
        )
    yield from _core(numbers, OF_BROKER)
    if numbers.node:
        yield from _core(numbers, OF_CLUSTER)
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


def _groups(metrics: Iterable[Metric]) -> list[tuple[str, str, str, str, list[str]]]:
    """Name, kind, text and unit of each family of the core, and the metrics that are in it."""
    made: dict[str, tuple[str, str, str, str, list[str]]] = {}
    for metric in metrics:
        exposed = NAMES.get(metric.name)
        if exposed is not None:
            doc = DOCS.get(exposed.name, metric.doc)
            kind = "counter" if metric.kind == COUNTER else GAUGE
            group = made.setdefault(exposed.name, (exposed.name, kind, doc, exposed.unit, []))
            group[4].append(metric.name)
    return list(made.values())


OF_BROKER: Final = _groups(BROKER)
OF_CLUSTER: Final = _groups(CLUSTER)


def _core(numbers: Numbers, groups: list[tuple[str, str, str, str, list[str]]]) -> Iterator[Family]:
    """What the core counts; those that differ in a label only are one family."""
    for name, kind, doc, unit, metrics in groups:
        family = _one(name, kind, doc, unit)
        suffix = "_total" if kind == "counter" else ""
        for metric in metrics:
            exposed = NAMES[metric]
            labels = {exposed.label: exposed.value} if exposed.label else {}
            family.of(numbers.count(metric), suffix, **labels)
        yield family


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
    for each in numbers.listeners:
        now.of(each.connections, listener=each.name)
    yield now
    most = _gauge("mhub_listener_connections_limit", "how many it may have, if that is set")
    for each in numbers.listeners:
        if each.max_connections:
            most.of(each.max_connections, listener=each.name)
    yield most
    accepted = _counter("mhub_listener_connections_accepted", "connections a listener accepted")
    for each in numbers.listeners:
        accepted.of(each.accepted, "_total", listener=each.name)
    yield accepted


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


LINKS: Final[tuple[tuple[_Family, Callable[[LinkNumbers], float | None]], ...]] = (
    (
        _gauge("mhub_cluster_link_up", "whether there is a link to a node"),
        lambda link: link.state == "up",
    ),
    (
        _gauge("mhub_cluster_link_latency_seconds", "round trip to a node", "seconds"),
        lambda link: link.latency_s,
    ),
    (
        _gauge("mhub_cluster_link_queued_messages", "messages that wait for a node"),
        lambda link: link.queued_messages,
    ),
    (
        _gauge("mhub_cluster_link_queued_bytes", "size of what waits for a node", "bytes"),
        lambda link: link.queued_bytes,
    ),
    (
        _counter("mhub_cluster_link_messages_sent", "messages sent to a node"),
        lambda link: link.sent,
    ),
    (
        _counter("mhub_cluster_link_messages_received", "messages received from a node"),
        lambda link: link.received,
    ),
    (
        _counter("mhub_cluster_link_messages_dropped", "messages that a node did not get"),
        lambda link: link.dropped,
    ),
)
"""What is told of each link: a family without samples, and where its values are."""


def _links(numbers: Numbers) -> Iterator[Family]:
    for empty, read in LINKS:
        family = _Family(empty.name, empty.documentation, empty.type, empty.unit)
        suffix = "_total" if empty.type == "counter" else ""
        for link in numbers.links:
            value = read(link)
            if value is not None:
                family.of(value, suffix, node=link.node)
        yield family


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
