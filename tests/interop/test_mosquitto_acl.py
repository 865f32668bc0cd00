"""An acl_file decides the same in the real mosquitto and, imported, in mhub.

Both run as processes on free ports of loopback, a pair for each scenario of `acl_cases`, and the
same clients ask both.
"""

import shutil
import subprocess
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mhub.access.mosquitto_acl import import_mosquitto
from mhub.access.policy import write_csv
from tests.bench.mosquitto import PLACES, free_port
from tests.interop.acl_cases import DIFFERENCES, SCENARIOS, Scenario
from tests.interop.acl_clients import Decider, password
from tests.system.case import place
from tests.system.process import Broker, wait_until
from tests.system.raw import dial

CONFIG = """
store.kind = "memory"
control.path = ""
sys.interval_s = 1

[[listeners]]
name = "plain"
port = 0
allow_anonymous = true
"""


class AclCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.program = shutil.which("mosquitto", path=PLACES)
        if self.program is None or shutil.which("mosquitto_passwd") is None:
            raise SkipTest("mosquitto is not installed (Debian: apt install mosquitto)")
        self.directory = place(self)

    def start(self, scenario: Scenario) -> tuple[Decider, Decider]:
        """Mosquitto and mhub, with these rules and users."""
        self.acl = self.directory / "acl"
        self.acl.write_text(scenario.acl)
        self.passwords = self.directory / "passwords"
        self.passwords.touch()
        for user in scenario.users:
            command = ["mosquitto_passwd", "-b", str(self.passwords), user, password(user)]
            subprocess.run(command, check=True, capture_output=True)
        deciders = (Decider(self.start_mosquitto()), Decider(self.start_mhub()))
        for decider in deciders:
            self.addCleanup(decider.close)
            if "$SYS" in scenario.acl:
                decider.wait_for_statistics()
        return deciders

    def start_mosquitto(self) -> int:
        assert self.program is not None
        port = free_port()
        file = self.directory / "mosquitto.conf"
        file.write_text(
            f"user {self.directory.owner()}\nlistener {port} 127.0.0.1\nallow_anonymous true\n"
            f"acl_file {self.acl}\npassword_file {self.passwords}\nsys_interval 1\n"
        )
        process = subprocess.Popen([self.program, "-c", str(file)], stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait, 10)
        self.addCleanup(process.kill)

        def listens() -> bool:
            self.assertIsNone(process.poll(), "mosquitto has ended")
            try:
                dial(("127.0.0.1", port)).close()
            except OSError:
                return False
            return True

        wait_until(listens, "mosquitto listens")
        return port

    def start_mhub(self) -> int:
        imported = import_mosquitto(
            self.acl.read_text(), "acl", self.passwords.read_text(), "passwords"
        )
        (self.directory / "rules.csv").write_text(write_csv(imported.rows))
        broker = Broker(self.directory, CONFIG, Path(__file__).with_name("acl_broker.tac"))
        self.addCleanup(broker.kill)
        broker.start()
        return broker.port

    def decide(self, scenario: Scenario) -> None:
        theirs, ours = self.start(scenario)
        found = [
            f"{case}: mosquitto {their}, mhub {our}"
            for case in scenario.cases
            for their, our in [(theirs.allows(case), ours.allows(case))]
            if not their == our == case.allowed
        ]
        self.assertEqual(found, [])


class AclTests(AclCase):
    """One test for each scenario."""


def _add(number: int, scenario: Scenario) -> None:
    def test(self: AclTests) -> None:
        self.decide(scenario)

    test.__doc__ = f"{scenario.name}: {len(scenario.cases)} cases."
    name = "".join(char if char.isalnum() else "_" for char in scenario.name)
    setattr(AclTests, f"test_{number:02}_{name}", test)


for _number, _scenario in enumerate(SCENARIOS, 1):
    _add(_number, _scenario)


class DifferenceTests(AclCase):
    def test_what_mhub_decides_otherwise(self) -> None:
        """On purpose; docs/mosquitto.md names each."""
        theirs, ours = self.start(DIFFERENCES)
        for case in DIFFERENCES.cases:
            self.assertEqual(theirs.allows(case), case.allowed, case)
            self.assertEqual(ours.allows(case), not case.allowed, case)
