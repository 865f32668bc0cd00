"""docs/monitoring.md names every metric, series and event as the code declares it.

`python -m tests.test_monitoring_docs --write` writes its tables anew.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import TestCase

from mhub.admin.metrics.families import families
from mhub.core.events import KINDS
from mhub.core.metrics import BROKER, CLUSTER, WINDOWS, Metric
from mhub.operations.history import Recorder
from mhub.operations.series import SERIES
from tests.admin.metrics.moment import everything
from tests.core.world import World

PAGE = Path(__file__).absolute().parent.parent / "docs" / "monitoring.md"
BEGIN = "<!-- {}: made by `python -m tests.test_monitoring_docs --write` -->\n"
END = "<!-- end of the {} -->\n"


def table(metrics: list[Metric]) -> Iterator[str]:
    yield from ["", "| topic | type | unit | meaning |", "| --- | --- | --- | --- |"]
    for metric in metrics:
        yield f"| `{metric.name}` | {metric.kind} | {metric.unit} | {metric.doc} |"


def topics() -> Iterator[str]:
    yield from table(BROKER)
    windows = ", ".join(f"`{window}`" for window, _ in WINDOWS)
    loads = ", ".join(f"`{metric.load}`" for metric in BROKER if metric.load)
    yield ""
    yield "Moving averages of how much was counted in a minute are `load/NAME/WINDOW`. NAME is"
    yield f"one of {loads};"
    yield f"WINDOW is one of {windows}."
    yield from ["", "A node of a [cluster](cluster.md) has these as well:"]
    yield from table(CLUSTER)


def exposed() -> Iterator[str]:
    """What /metrics has; those of a cluster and of pushes as well."""
    yield from ["", "| metric | type | labels | meaning |", "| --- | --- | --- | --- |"]
    for family in sorted(families(everything(), True), key=lambda each: each.name):
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = dict.fromkeys(
            label for sample in family.samples for label in sample.labels if label != "le"
        )
        shown = ", ".join(f"`{label}`" for label in labels)
        doc = family.documentation.rstrip(".")
        if doc.split()[0][1:].islower():  # unlike QoS and MQTT
            doc = doc[:1].lower() + doc[1:]
        yield f"| `{family.name}{suffix}` | {family.type} | {shown} | {doc} |"


def series() -> Iterator[str]:
    yield from ["", "| name | unit | meaning |", "| --- | --- | --- |"]
    for each in SERIES:
        yield f"| `{each.name}` | {each.unit} | {each.doc} |"


PARTS = {"metrics": topics, "exposition": exposed, "series": series}


def update(text: str) -> str:
    """`text` with what is between the marks made anew."""
    for name, lines in PARTS.items():
        begin, end = BEGIN.format(name), END.format(name)
        before, rest = text.split(begin)
        text = f"{before}{begin}" + "\n".join(lines()) + f"\n\n{end}{rest.split(end)[1]}"
    return text


class MonitoringTests(TestCase):
    def test_is_made_from_the_code(self) -> None:
        """After a change of a metric: python -m tests.test_monitoring_docs --write"""
        text = PAGE.read_text("utf-8")
        self.assertEqual(text, update(text))

    def test_every_event_is_described(self) -> None:
        text = PAGE.read_text("utf-8").partition("\n## Events\n")[2]
        rows = re.findall(r"^\| `(\w+)` \| (?:debug|info|warn|error|critical)", text, re.M)
        self.assertEqual(rows, list(KINDS))

    def test_the_memory_of_the_history(self) -> None:
        recorder = Recorder(None)  # type: ignore[arg-type]
        self.assertIn(f"{recorder.size_bytes() / 1000:.0f} kB", PAGE.read_text("utf-8"))

    def test_every_topic_that_is_published_is_declared(self) -> None:
        world = World(sys_interval_s=10.0)
        world.wait(11)
        names = {metric.name for metric in BROKER}
        names |= {f"load/{m.load}/{w}" for m in BROKER if m.load for w, _ in WINDOWS}
        self.assertEqual(set(world.hub.sys.said), names)
        self.assertEqual(len(names), len(BROKER) + 3 * len([m for m in BROKER if m.load]))


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    PAGE.write_text(update(PAGE.read_text("utf-8")), "utf-8")
