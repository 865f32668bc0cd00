"""docs/prometheus and docs/grafana: rules that work, and no metric or label that there is not."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mhub.admin.metrics.families import families
from tests.admin.metrics.moment import everything

ROOT = Path(__file__).absolute().parents[3]
RULES = ROOT / "docs" / "prometheus" / "mhub.rules.yml"
DASHBOARD = ROOT / "docs" / "grafana" / "mhub.json"
TESTS = Path(__file__).absolute().parent / "rules_test.yml"

SCRAPER = {"job", "instance"}
"""Labels that Prometheus adds."""


def exposed() -> dict[str, set[str]]:
    """Each name that is scraped, with its labels."""
    found: dict[str, set[str]] = {"up": set()}
    for family in families(everything(), True):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    # A kernel that does not tell has no number of open files.
    found.setdefault("process_open_fds", set())
    return found


def expressions() -> Iterator[str]:
    dashboard = json.loads(DASHBOARD.read_text("utf-8"))
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            yield variable["query"]["query"]
    for line in RULES.read_text("utf-8").splitlines():
        if line.strip().startswith("expr:"):
            yield line.partition("expr:")[2].strip()


class NameTests(SynchronousTestCase):
    def test_every_metric_exists(self) -> None:
        known = exposed()
        found = list(expressions())
        self.assertGreater(len(found), 60)
        for expression in found:
            names = re.findall(r"\b(?:mhub|process|python)_\w+|\bup\b", expression)
            self.assertNotEqual(names, [], expression)
            for name in names:
                self.assertIn(name, known, expression)

    def test_every_label_exists(self) -> None:
        known = exposed()
        for expression in expressions():
            of: set[str] = set(SCRAPER)
            for name in re.findall(r"\b(?:mhub|process)_\w+", expression):
                of |= known[name]
            labels = set(re.findall(r"(\w+)=~?\"", expression))
            for group in re.findall(r"\bby \(([^)]*)\)", expression):
                labels |= {label.strip() for label in group.split(",")}
            self.assertLessEqual(labels, of, expression)

    def test_each_panel_has_a_place_of_its_own(self) -> None:
        taken: set[tuple[int, int]] = set()
        ids = []
        for panel in json.loads(DASHBOARD.read_text("utf-8"))["panels"]:
            ids.append(panel["id"])
            at = panel["gridPos"]
            self.assertLessEqual(at["x"] + at["w"], 24)
            cells = {
                (x, y)
                for x in range(at["x"], at["x"] + at["w"])
                for y in range(at["y"], at["y"] + at["h"])
            }
            self.assertEqual(taken & cells, set(), panel["title"])
            taken |= cells
        self.assertEqual(len(ids), len(set(ids)))

    def test_every_alert_is_tested(self) -> None:
        alerts = re.findall(r"- alert: (\w+)", RULES.read_text("utf-8"))
        tested = re.findall(r'alertname="(\w+)"', TESTS.read_text("utf-8"))
        self.assertEqual(set(alerts), set(tested))
        self.assertEqual(len(alerts), len(set(alerts)))


class PromtoolTests(SynchronousTestCase):
    def setUp(self) -> None:
        if shutil.which("promtool") is None:
            raise SkipTest("promtool is not there: install prometheus")

    def run_tool(self, *words: str) -> None:
        done = subprocess.run(["promtool", *words], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_check_rules(self) -> None:
        self.run_tool("check", "rules", str(RULES))

    def test_rules(self) -> None:
        self.run_tool("test", "rules", str(TESTS))
