"""An acl_file decides the same in the real mosquitto and, imported, in mhub.

Both run as processes on free ports of loopback, a pair for each scenario of `acl_cases`, and the
same clients ask both.  Rules and users get into mhub by one of two ways, in turn:

    mhub ctl policy import-mosquitto   into the registry
    mhub import                    mosquitto.conf: a CSV file, and the password_file as it is
"""

import re
import shutil
import subprocess
import sys

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.bench.mosquitto import PLACES, free_port
from tests.interop.acl_cases import DIFFERENCES, SCENARIOS, Scenario
from tests.interop.acl_clients import Decider, password
from tests.system.case import place
from tests.system.process import Broker, run, wait_until
from tests.system.raw import dial

CONFIG = """
store.synchronous = "off"
sys.interval_s = 1

[[listeners]]
name = "plain"
port = 0
allow_anonymous = true

[[auth]]
type = "registry"

[passwords]
scram_iterations = 4096

[access]
"""


class AclCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.program = shutil.which("mosquitto", path=PLACES)
        if self.program is None or shutil.which("mosquitto_passwd") is None:
            raise SkipTest("mosquitto is not installed (Debian: apt install mosquitto)")
        self.directory = place(self)

    def start(self, scenario: Scenario, by_registry: bool) -> tuple[Decider, Decider]:
        """Mosquitto and mhub, with these rules and users."""
        self.acl = self.directory / "acl"
        self.acl.write_text(scenario.acl)
        self.passwords = self.directory / "passwords"
        self.passwords.touch()
        for user in scenario.users:
            command = ["mosquitto_passwd", "-b", str(self.passwords), user, password(user)]
            subprocess.run(command, check=True, capture_output=True)
        theirs = self.start_mosquitto()
        ours = self.start_mhub(self.in_registry() if by_registry else self.in_files())
        deciders = (Decider(theirs), Decider(ours))
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

    def mhub(self, *argv: str) -> None:
        done = run([sys.executable, "-m", "mhub", *argv], cwd=self.directory)
        self.assertEqual(done.returncode, 0, done.stdout)

    def in_registry(self) -> str:
        """The configuration, and a store that has the rules and users."""
        (self.directory / "broker.toml").write_text(CONFIG)
        files = (str(self.acl), "--passwords", str(self.passwords))
        self.mhub(
            "ctl", "policy", "import-mosquitto", *files, "--replace", "--config", "broker.toml"
        )
        return CONFIG

    def in_files(self) -> str:
        """The configuration, with the rules beside it."""
        self.mhub("import", "mosquitto.conf", "-o", "made.toml")
        made = (self.directory / "made.toml").read_text()
        self.assertIn('type = "password-file"', made)
        self.assertIn('policy = "acl.csv"', made)
        return re.sub(r"(?m)^port = .*", 'port = 0\nname = "plain"', made)

    def start_mhub(self, config: str) -> int:
        broker = Broker(self.directory, config)
        self.addCleanup(broker.kill)
        broker.start()
        return broker.port

    def decide(self, scenario: Scenario, by_registry: bool) -> None:
        theirs, ours = self.start(scenario, by_registry)
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
        self.decide(scenario, by_registry=number % 2 == 1)

    test.__doc__ = f"{scenario.name}: {len(scenario.cases)} cases."
    name = "".join(char if char.isalnum() else "_" for char in scenario.name)
    setattr(AclTests, f"test_{number:02}_{name}", test)


for _number, _scenario in enumerate(SCENARIOS, 1):
    _add(_number, _scenario)


class DifferenceTests(AclCase):
    def test_what_mhub_decides_otherwise(self) -> None:
        """On purpose; docs/mosquitto.md names each."""
        theirs, ours = self.start(DIFFERENCES, by_registry=True)
        for case in DIFFERENCES.cases:
            self.assertEqual(theirs.allows(case), case.allowed, case)
            self.assertEqual(ours.allows(case), not case.allowed, case)
