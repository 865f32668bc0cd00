"""Logins with passwords at a real broker: registry, Mosquitto's file, a plugin of somebody else."""

import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from shutil import which

from twisted.trial.unittest import SkipTest

from mhub.auth import hashes
from tests.auth.test_hashes import ALL, PASSWORD
from tests.auth.world import CHEAP
from tests.helpers import packets
from tests.system.case import BrokerCase, place
from tests.system.process import PATIENCE_S, Broker, environment
from tests.system.raw import Raw

PLUGIN = Path(__file__).absolute().parent.parent / "auth" / "plugin"
BAD_USER_OR_PASSWORD, BUSY = 0x86, 0x89

CONFIG = """
[[listeners]]
name = "users"
port = 0

[[auth]]
type = "registry"
listeners = ["users"]

[[auth]]
type = "password-file"
file = "passwd"
listeners = ["users"]

[[auth]]
type = "backwards"
prefix = "b"
listeners = ["users"]

[passwords]
memory = "8 KiB"
iterations = 1
"""


class LoginCase(BrokerCase):
    def setUp(self) -> None:
        self.place = place(self)
        shutil.copytree(PLUGIN, self.place, dirs_exist_ok=True)
        self.write("alice", hashes.make(b"secret", CHEAP))

    def write(self, name: str, text: str) -> None:
        (self.place / "passwd").write_text(f"{name}:{text}\n")

    def login(self, broker: Broker, user: str, password: str, version: int = 5) -> int:
        """The reason of the CONNACK."""
        raw = Raw(("127.0.0.1", broker.ports["users"]), version)
        self.addCleanup(raw.sock.close)
        raw.send(packets.connect("c", version, username=user, password=password))
        reason: int = raw.expect("CONNACK").reason
        return reason


class LoginTests(LoginCase):
    def test_sources_one_after_the_other(self) -> None:
        broker = self.start(CONFIG, self.place)
        for user, password, reason in (
            ("alice", "secret", 0),
            ("alice", "Secret", BAD_USER_OR_PASSWORD),
            ("bob", "bob", 0),
            ("bill", "llib", 0),
            ("bill", "bill", BAD_USER_OR_PASSWORD),
            ("carol", "lorac", BAD_USER_OR_PASSWORD),
        ):
            self.assertEqual((user, self.login(broker, user, password)), (user, reason))
        self.assertEqual(self.login(broker, "alice", "wrong", 4), 4)  # bad user name or password
        self.assertIn("wrong password of 'alice'", broker.log())
        self.assertIn("no authenticator accepts the user 'carol'", broker.log())
        nobody = Raw(("127.0.0.1", broker.ports["users"]), 5)
        self.addCleanup(nobody.sock.close)
        nobody.send(packets.connect("c", 5, username="alice"))
        nobody.expect("CONNACK", reason=0x87)  # anonymous clients are not allowed there

    def test_mosquittos_file_while_running(self) -> None:
        command = which("mosquitto_passwd")
        if command is None:
            raise SkipTest("mosquitto_passwd is not installed")
        broker = self.start(CONFIG, self.place)
        arguments = [command, "-c", "-b", str(self.place / "passwd"), "carol", "secret"]
        subprocess.run(arguments, check=True, capture_output=True, timeout=20)
        self.assertEqual(self.login(broker, "carol", "secret"), 0)
        self.assertEqual(self.login(broker, "alice", "secret"), BAD_USER_OR_PASSWORD)
        (self.place / "passwd").write_text("carol:secret\n")
        self.assertEqual(self.login(broker, "carol", "secret"), 0)
        broker.wait_for_log("passwd:1: not a hash that is known here")


class RegistryTests(LoginCase):
    def mhub(self, *arguments: str) -> str:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "mhub",
                "ctl",
                *arguments,
                "--config",
                str(self.place / "broker.toml"),
            ],
            cwd=self.place,
            env=environment(self.place),
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_a_hash_of_mosquitto_is_upgraded(self) -> None:
        """At the first login, for good."""
        old = ALL["Mosquitto 1"]
        (self.place / "old").write_text(f"dora:{old}\n")
        (self.place / "acl").write_text("topic readwrite #\n")
        broker = self.start(CONFIG, self.place)
        self.mhub("policy", "import-mosquitto", "acl", "--passwords", "old")
        for _ in range(2):
            self.assertEqual(self.login(broker, "dora", PASSWORD.decode()), 0)
        broker.wait_for_log("'dora': the hash of the password was upgraded")
        self.assertEqual(broker.stop(), 0)
        (self.place / "broker.log").unlink()
        broker = self.start(CONFIG, self.place)
        self.assertEqual(self.login(broker, "dora", PASSWORD.decode()), 0)
        self.assertEqual(self.login(broker, "dora", "wrong"), BAD_USER_OR_PASSWORD)
        self.assertNotIn("upgraded", broker.log())


class PluginTests(LoginCase):
    """What others have written is found, checked and named like mhub's own."""

    def check(self, config: str) -> str:
        (self.place / "b.toml").write_text(config)
        found = subprocess.run(
            [sys.executable, "-m", "mhub", "check-config", "b.toml"],
            cwd=self.place,
            env=environment(self.place),
            capture_output=True,
            text=True,
            timeout=60,
        )
        return found.stdout + found.stderr

    def test_checked(self) -> None:
        self.assertIn(
            "clients are identified by backwards", self.check('[[auth]]\ntype = "backwards"')
        )
        said = self.check('[[auth]]\ntype = "backwards"\nprefix = "B"')
        self.assertIn("b.toml:3: auth[0].prefix: small letters only", said)
        said = self.check('[[auth]]\ntype = "backward"')
        self.assertIn('did you mean "backwards"?', said)


class BruteForceTests(LoginCase):
    def test_others_go_on(self) -> None:
        """While passwords are guessed as fast as that goes, who is connected hears as before."""
        slow = CONFIG.replace('"8 KiB"', '"19 MiB"').replace("iterations = 1", "iterations = 2")
        self.write("alice", hashes.make(b"secret", hashes.Costs()))
        broker = self.start(slow + "max_queued = 20\n", self.place)
        watcher = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(watcher.sock.close)
        watcher.connect("watcher")
        guesses = [
            socket.create_connection(("127.0.0.1", broker.ports["users"])) for _ in range(60)
        ]
        for sock in guesses:
            self.addCleanup(sock.close)
            sock.sendall(packets.connect("g", 5, username="alice", password="guess"))
        waits = []
        for _ in range(50):
            begun = time.monotonic()
            watcher.ping()
            waits.append(time.monotonic() - begun)
        reasons = []
        for sock in guesses:
            sock.settimeout(20)
            reasons.append(sock.recv(4)[3])
        self.assertEqual(set(reasons), {BAD_USER_OR_PASSWORD, BUSY})
        self.assertEqual(reasons.count(BAD_USER_OR_PASSWORD), 20 + 1)
        self.assertEqual(self.login(broker, "alice", "secret"), 0)
