"""The exposition: every metric once, by Prometheus' conventions, in both formats."""

import re
import shutil
import subprocess
from dataclasses import replace

from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mhub import __version__
from mhub.admin.metrics.exposition import OPEN_METRICS, TEXT, expose, media_type
from mhub.admin.metrics.families import families
from mhub.admin.metrics.names import LEFT_OUT, NAMES
from mhub.core.metrics import BROKER, CLUSTER
from mhub.core.metrics import TEXT as TEXT_KIND
from mhub.operations.numbers import Numbers
from tests.admin.metrics.moment import alone, everything
from tests.operations.around import Pauses


class Case(SynchronousTestCase):
    def expose(self, numbers: Numbers, kind: str = TEXT, with_version: bool = True) -> str:
        self.pauses = Pauses()
        made = expose(numbers, kind, with_version, self.pauses)
        return self.successResultOf(Deferred.fromCoroutine(made)).decode("utf-8")


class NameTests(Case):
    def test_every_metric_has_a_name_or_a_reason_not_to(self) -> None:
        known = [metric.name for metric in (*BROKER, *CLUSTER)]
        self.assertEqual(sorted([*NAMES, *LEFT_OUT]), sorted(known))

    def test_what_has_one_name_is_of_one_kind(self) -> None:
        kinds: dict[str, set[str]] = {}
        labels: dict[str, set[str]] = {}
        values: list[tuple[str, str]] = []
        for metric in (*BROKER, *CLUSTER):
            exposed = NAMES.get(metric.name)
            if exposed is not None:
                self.assertNotEqual(metric.kind, TEXT_KIND)
                kinds.setdefault(exposed.name, set()).add(metric.kind)
                labels.setdefault(exposed.name, set()).add(exposed.label)
                values.append((exposed.name, exposed.value))
        self.assertEqual({name for name, of in kinds.items() if len(of) > 1}, set())
        self.assertEqual({name for name, of in labels.items() if len(of) > 1}, set())
        self.assertEqual(len(values), len(set(values)))

    def test_units(self) -> None:
        for metric in (*BROKER, *CLUSTER):
            exposed = NAMES.get(metric.name)
            if exposed is not None:
                self.assertEqual(exposed.unit == "bytes", metric.unit == "bytes", metric.name)
                self.assertTrue(exposed.name.endswith(exposed.unit))
                self.assertRegex(exposed.name, r"^mhub_[a-z0-9_]+$")
                self.assertFalse(exposed.name.endswith("_total"))

    def test_labels_are_bounded(self) -> None:
        """Listeners, authenticators and servers of the configuration, nodes, and fixed words."""
        found = {
            label
            for family in families(everything(), True)
            for sample in family.samples
            for label in sample.labels
        }
        configured = {"listener", "authenticator", "server", "node"}
        fixed = {"cause", "action", "reason", "limit", "state", "answer", "le", "generation"}
        self.assertEqual(found, configured | fixed | {"version", "build"})


class ExpositionTests(Case):
    def test_values(self) -> None:
        text = self.expose(everything())
        for line in (
            "mhub_messages_received_total 1.0",
            "# TYPE mhub_messages_received_total counter",
            "mhub_clients_connected 1.0",
            'mhub_messages_dropped_total{cause="queue_full"} 0.0',
            'mhub_limited_total{limit="max_bytes_per_s"} 0.0',
            'mhub_listener_connections{listener="tcp-1884"} 1.0',
            'mhub_listener_connections_accepted_total{listener="tcp-1883"} 7.0',
            'mhub_authenticator_up{authenticator="we\\"ird\\\\name"} 0.0',
            'mhub_cluster_link_up{node="n0"} 0.0',
            'mhub_cluster_link_latency_seconds{node="n1"} 0.0015',
            'mhub_store_commit_seconds_bucket{le="0.001"} 1.0',
            'mhub_store_commit_seconds_bucket{le="10"} 1.0',
            'mhub_store_commit_seconds_bucket{le="+Inf"} 2.0',
            "mhub_store_commit_seconds_sum 20.0007",
            'mhub_loop_lateness_seconds_bucket{le="0.025"} 1.0',
            "mhub_ready 1.0",
            "mhub_store_up 1.0",
            'mhub_push_up{server="influx"} 0.0',
        ):
            self.assertIn(f"\n{line}\n", text)
        for name in ("process_cpu_seconds_total", "process_resident_memory_bytes"):
            self.assertRegex(text, rf"(?m)^{name} [0-9.e+]+$")

    def test_each_name_once(self) -> None:
        heads = re.findall(r"^# TYPE (\S+)", self.expose(everything()), re.M)
        self.assertEqual(len(heads), len(set(heads)))

    def test_the_version_is_for_those_who_are_logged_in(self) -> None:
        self.assertIn(f'version="{__version__}"', self.expose(everything()))
        text = self.expose(everything(), with_version=False)
        self.assertNotIn(__version__, text)
        self.assertNotIn("python_info", text)

    def test_both_formats_say_the_same(self) -> None:
        numbers = everything()
        text = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in parse_text(self.expose(numbers))
            for sample in family.samples
        }
        opened = {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in parse_open(self.expose(numbers, OPEN_METRICS))
            for sample in family.samples
        }
        self.assertEqual(text, opened)
        self.assertGreater(len(text), 150)

    def test_without_a_cluster(self) -> None:
        self.assertNotIn("mhub_cluster", self.expose(alone()))

    def test_what_does_not_work(self) -> None:
        numbers = everything()
        values = {**numbers.values, "store/state": "failing: disk", "overload/state": "late"}
        text = self.expose(replace(numbers, values=values, ready="store"))
        self.assertIn("\nmhub_store_up 0.0\n", text)
        self.assertIn("\nmhub_overloaded 1.0\n", text)
        self.assertIn("\nmhub_ready 0.0\n", text)
        self.assertNotIn("disk", text)

    def test_many_listeners_and_nodes_are_written_in_slices(self) -> None:
        numbers = everything(1000, 1000)
        text = self.expose(numbers)
        self.assertGreater(self.pauses.count, 50)
        self.assertEqual(text.count("# TYPE mhub_listener_connections gauge\n"), 1)
        self.assertEqual(text.count("\nmhub_listener_connections{"), 1000)
        families = list(parse_open(self.expose(numbers, OPEN_METRICS)))
        found = [each for each in families if each.name == "mhub_cluster_link_messages_sent"]
        self.assertEqual([len(each.samples) for each in found], [1000])


class NegotiationTests(SynchronousTestCase):
    def test_prometheus_asks_for_open_metrics(self) -> None:
        accept = (
            "application/openmetrics-text;version=1.0.0,application/openmetrics-text;"
            "version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
        )
        self.assertEqual(media_type(accept), OPEN_METRICS)

    def test_everybody_else_gets_text(self) -> None:
        for accept in ("", "*/*", "text/html", "application/openmetrics-text;q=0", ";,=;", "\xff"):
            self.assertEqual(media_type(accept), TEXT, accept)


class PromtoolTests(Case):
    """Debian's package `prometheus` has it."""

    def setUp(self) -> None:
        if shutil.which("promtool") is None:
            raise SkipTest("promtool is not there: install prometheus")

    def check(self, numbers: Numbers) -> None:
        done = subprocess.run(
            ["promtool", "check", "metrics"],
            input=self.expose(numbers),
            capture_output=True,
            text=True,
        )
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_everything(self) -> None:
        self.check(everything())

    def test_a_broker_that_has_just_started(self) -> None:
        self.check(alone())
