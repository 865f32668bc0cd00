"""Eclipse Paho's interoperability suites for MQTT 3.1.1 and 5, see docs/interoperability.md.

They are not part of this project: MHUB_PAHO_TESTING names a copy of eclipse-paho/paho.mqtt.testing.
They take four minutes, most of them asleep.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SkipTest

from tests.interop import runner
from tests.system.case import BrokerCase

HERE = Path(__file__).resolve().parent
LONGEST_RUN_S = 600
SUITES = {"client_test": 11, "client_test5": 27}
"""How many tests there are, so that none is missed."""

CONFIG = """
[limits]
max_keepalive_s = 60  # what test_server_keep_alive wants to be told
"""


def copy() -> Path:
    """The directory of the suites."""
    given = os.environ.get("MHUB_PAHO_TESTING")
    if not given:
        raise SkipTest("MHUB_PAHO_TESTING does not name a copy of eclipse-paho/paho.mqtt.testing")
    for directory in (Path(given, "interoperability"), Path(given)):
        if (directory / "client_test5.py").exists():
            return directory.resolve()
    raise SkipTest(f"no interoperability/client_test5.py in MHUB_PAHO_TESTING={given}")


class PahoTests(BrokerCase):
    def run_suite(self, name: str) -> None:
        suites = copy()
        broker = self.start(CONFIG, application=HERE / "broker.tac")
        command = [sys.executable, runner.__file__, str(suites), name, "127.0.0.1"]
        done = subprocess.run(
            [*command, str(broker.port)],
            capture_output=True,
            text=True,
            timeout=LONGEST_RUN_S,
        )
        verdicts = [json.loads(line) for line in done.stdout.splitlines()]
        failed = [f"{v['test']}: {v['text']}" for v in verdicts if v["verdict"] != "passed"]
        self.assertEqual([], failed, "\n".join([*failed, done.stderr[-3000:]]))
        self.assertEqual(SUITES[name], len(verdicts), done.stderr[-3000:])

    def test_mqtt_3_1_1(self) -> None:
        self.run_suite("client_test")

    def test_mqtt_5(self) -> None:
        self.run_suite("client_test5")
