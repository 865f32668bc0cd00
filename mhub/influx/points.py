"""The numbers of one moment as points: measurement, tags, fields.

    PREFIX                 what the core counts, each metric a field; one point
    PREFIX_process         memory, CPU, descriptors; one point
    PREFIX_listener        a point for each, and so on
    PREFIX_authenticator
    PREFIX_link            to another node

A field is called as the metric is, with `_` for what is no letter or digit.  Denials by rule and
moving averages are left out, the first as they would be fields without a bound, the second as the
server can compute them.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from mhub.core.metrics import BROKER, CLUSTER, TEXT
from mhub.influx.lines import Field
from mhub.operations.numbers import Numbers

Point = tuple[str, dict[str, str], dict[str, Field]]

FIELDS: Final = {
    metric.name: re.sub("[^a-z0-9]", "_", metric.name)
    for metric in (*BROKER, *CLUSTER)
    if metric.kind != TEXT
}


def points(numbers: Numbers, prefix: str, tags: Mapping[str, str]) -> Iterator[Point]:
    """`tags` go with each point, and the name of the node if there is one."""
    common = {"node": numbers.node, **tags} if numbers.node else dict(tags)
    values = numbers.values
    fields: dict[str, Field] = {
        field: numbers.count(name) for name, field in FIELDS.items() if name in values
    }
    fields.update(
        ready=numbers.ready == "ready",
        state=numbers.ready,
        store_up=not str(values["store/state"]).startswith("failing"),
        overloaded=values["overload/state"] == "late",
        store_commit_seconds_count=numbers.commits.count,
        store_commit_seconds_sum=numbers.commits.total_s,
        loop_lateness_seconds_count=numbers.lateness.count,
        loop_lateness_seconds_sum=numbers.lateness.total_s,
    )
    yield prefix, common, fields
    yield f"{prefix}_process", common, _process(numbers)
    for listener in numbers.listeners:
        yield (
            f"{prefix}_listener",
            {**common, "listener": listener.name},
            {"connections": listener.connections, "accepted": listener.accepted},
        )
    for each in numbers.authenticators:
        yield (
            f"{prefix}_authenticator",
            {**common, "authenticator": each.name},
            {
                "up": not each.state.startswith("failing"),
                "accepted": each.accepted,
                "refused": each.refused,
                "passed_on": each.passed_on,
                "errors": each.errors,
            },
        )
    yield from _links(numbers, prefix, common)


def _process(numbers: Numbers) -> dict[str, Field]:
    process = numbers.process
    fields: dict[str, Field] = {
        "cpu_s": process.cpu_s,
        "resident_bytes": process.resident_bytes,
        "virtual_bytes": process.virtual_bytes,
        "gc_collections": sum(process.gc_collections),
    }
    if process.open_files is not None:
        fields["open_files"] = process.open_files
    return fields


def _links(numbers: Numbers, prefix: str, common: dict[str, str]) -> Iterator[Point]:
    for link in numbers.links:
        fields: dict[str, Field] = {
            "up": link.state == "up",
            "queued_messages": link.queued_messages,
            "queued_bytes": link.queued_bytes,
            "sent": link.sent,
            "received": link.received,
            "dropped": link.dropped,
        }
        if link.latency_s is not None:
            fields["latency_s"] = link.latency_s
        yield f"{prefix}_link", {**common, "peer": link.node}, fields
