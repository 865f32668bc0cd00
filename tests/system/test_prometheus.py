"""A real Prometheus scrapes a broker: what it has then, and that rules and dashboard work there."""

import json
import re
import shutil
import socket
import subprocess
from collections.abc import Callable
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

from twisted.trial.unittest import SkipTest

from tests.admin.metrics.test_rules import RULES, expressions
from tests.system.case import BrokerCase, place
from tests.system.numbers import OPEN, admin_url
from tests.system.process import wait_until
from tests.system.raw import Raw

CONFIG = """
global:
  scrape_interval: 1s
  evaluation_interval: 1s
rule_files: ["{rules}"]
scrape_configs:
  - job_name: mhub
    static_configs: [{{ targets: ["{target}"] }}]
"""


class PrometheusTests(BrokerCase):
    def setUp(self) -> None:
        program = shutil.which("prometheus")
        if program is None or shutil.which("promtool") is None:
            raise SkipTest("prometheus is not there: install prometheus")
        self.broker = self.start(OPEN)
        self.url = admin_url(self.broker)
        directory = place(self)
        config = directory / "prometheus.yml"
        config.write_text(CONFIG.format(rules=RULES, target=self.url.removeprefix("http://")))
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.server = f"http://127.0.0.1:{port}"
        self.log = directory / "log"
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [
                    program,
                    f"--config.file={config}",
                    f"--storage.tsdb.path={directory}/data",
                    f"--web.listen-address=127.0.0.1:{port}",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def query(self, text: str) -> list[Any]:
        parameters = urlencode({"query": text})
        try:
            with urlopen(f"{self.server}/api/v1/query?{parameters}", timeout=10) as answer:
                return json.load(answer)["data"]["result"]
        except HTTPError as error:
            if error.code == 503:
                return []  # it has not started yet
            raise AssertionError(f"{text}: {error.read()!r}") from None
        except OSError:
            return []

    def value(self, text: str) -> float | None:
        found = self.query(text)
        return float(found[0]["value"][1]) if found else None

    def until(self, done: Callable[[], bool], what: str) -> None:
        try:
            wait_until(done, what)
        except AssertionError:
            with urlopen(f"{self.server}/api/v1/targets", timeout=10) as answer:
                targets = json.load(answer)["data"]["activeTargets"]
            raise AssertionError(f"{what}: {targets}\n{self.log.read_text()[-3000:]}") from None

    def test_two_scrapes(self) -> None:
        client = Raw(("127.0.0.1", self.broker.port))
        self.addCleanup(client.close)
        client.connect("c")
        self.until(lambda: self.value("mhub_clients_connected") == 1, "a first scrape")
        for _ in range(10):
            client.publish("t", b"x")
        self.until(lambda: self.value("mhub_messages_received_total") == 10, "a second scrape")
        scrapes = self.value("count_over_time(mhub_messages_received_total[1m])")
        self.assertGreaterEqual(scrapes or 0, 2)
        self.assertEqual(self.value('up{job="mhub"}'), 1)
        self.assertEqual(self.value("mhub_ready"), 1)
        found = self.query('mhub_listener_connections{listener="plain"}')
        self.assertEqual(found[0]["value"][1], "1")
        self.assertEqual(self.query("mhub_build_info"), [])  # nobody has logged in
        bytes_ = self.value("process_resident_memory_bytes{job='mhub'}")
        self.assertGreater(bytes_ or 0, 1 << 20)
        # What Prometheus has to say of names, types and units.
        parameters = urlencode({"metric": "mhub_received_bytes"})  # as OpenMetrics calls it
        with urlopen(f"{self.server}/api/v1/metadata?{parameters}", timeout=10) as answer:
            (metadata,) = json.load(answer)["data"]["mhub_received_bytes"]
        self.assertEqual((metadata["type"], metadata["unit"]), ("counter", "bytes"))
        self._rules_and_dashboard()

    def _rules_and_dashboard(self) -> None:
        for text in expressions():
            if not text.startswith("label_values("):
                text = text.replace("$__rate_interval", "1m").replace("$job", "mhub")
                self.query(re.sub(r"\$instance", ".*", text))  # raises if it cannot be read
        with urlopen(f"{self.server}/api/v1/rules", timeout=10) as answer:
            groups = json.load(answer)["data"]["groups"]
        rules = [rule for group in groups for rule in group["rules"]]
        self.assertGreater(len(rules), 20)
        self.assertEqual([rule["name"] for rule in rules if rule["health"] == "err"], [])
        self.assertEqual([rule["name"] for rule in rules if rule.get("state") == "firing"], [])

    def test_promtool_finds_no_fault(self) -> None:
        with urlopen(f"{self.url}/metrics", timeout=10) as answer:
            text = answer.read()
        done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, b"", b""))
