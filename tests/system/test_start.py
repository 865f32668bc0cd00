"""Starting: versions, and mistakes that are told in words, without a traceback."""

import os
import re
import signal
import socket
import stat
import sys

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mhub import __version__, build
from tests.helpers.certificates import Authority
from tests.system.case import BrokerCase, place
from tests.system.house import has_ipv6
from tests.system.process import run, twistd, wait_until
from tests.system.raw import Raw


class VersionTests(SynchronousTestCase):
    def check(self, command: list[str]) -> None:
        done = run(command)
        self.assertEqual((0, build.describe() + "\n"), (done.returncode, done.stdout))
        self.assertIn(__version__, done.stdout)

    def test_twistd_mhub(self) -> None:
        self.check(twistd("mhub", "--version"))

    def test_python_m_mhub(self) -> None:
        self.check([sys.executable, "-m", "mhub", "--version"])

    def test_twistd_lists_mhub(self) -> None:
        self.assertRegex(run(twistd("--help")).stdout, r"(?m)^ +mhub +\w+")


class MistakeCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.place = place(self)

    def fails(self, config: str, *expected: str) -> str:
        """The broker does not start with this; each of the texts is in its output."""
        file = self.place / "bad.toml"
        file.write_text(config)
        return self.fails_with(["--config", str(file)], *expected)

    def fails_with(self, arguments: list[str], *expected: str) -> str:
        done = run(twistd("-n", "mhub", *arguments))
        self.assertNotEqual(0, done.returncode, done.stdout)
        self.assertGreater(done.returncode, 0, "died of a signal")
        self.assertNotIn("Traceback", done.stdout)
        for text in expected:
            self.assertIn(text, done.stdout)
        return done.stdout


class ConfigurationTests(MistakeCase):
    def test_all_mistakes_are_told_with_their_lines(self) -> None:
        output = self.fails(
            '[[listeners]]\nprot = 1883\n\n[limits]\nmax_qos = "two"\n',
            'bad.toml:2: listeners[0].prot: unknown key; did you mean "port"?',
            "bad.toml:5: limits.max_qos: expected an integer from 0 to 2",
        )
        self.assertNotIn("starting up", output)

    def test_no_toml(self) -> None:
        self.fails("listeners = [[[", "bad.toml")

    def test_no_file(self) -> None:
        self.fails_with(["--config", str(self.place / "none.toml")], "none.toml")

    def test_an_unknown_option(self) -> None:
        self.fails_with(["--confog", "x"], "confog")

    def test_an_argument_too_many(self) -> None:
        self.fails_with(["broker.toml"])


class CannotListenTests(MistakeCase):
    def test_a_port_in_use(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            output = self.fails(
                f'[[listeners]]\nname = "main"\nport = {port}\n',
                f"main: cannot listen on mqtt://127.0.0.1:{port}: Address already in use",
            )
        self.assertEqual(1, len(re.findall("Address already in use", output)), output)

    def test_an_address_of_another_machine(self) -> None:
        config = '[[listeners]]\nhost = "192.0.2.1"\nport = 0\nallow_anonymous = true\n'
        self.fails(config, "cannot listen on", "192.0.2.1")

    def test_a_socket_of_a_broker_that_runs(self) -> None:
        path = self.place / "mqtt.sock"
        with socket.socket(socket.AF_UNIX) as live:
            live.bind(str(path))
            live.listen()
            self.fails('[[listeners]]\ntransport = "unix"\npath = "mqtt.sock"\n', str(path))
        self.assertTrue(path.exists())

    def test_a_file_in_the_place_of_a_socket(self) -> None:
        path = self.place / "mqtt.sock"
        path.write_text("precious")
        self.fails('[[listeners]]\ntransport = "unix"\npath = "mqtt.sock"\n', str(path))
        self.assertEqual("precious", path.read_text())


class CertificateTests(MistakeCase):
    def secure(self, certificate: str, key: str) -> str:
        return (
            f'[[listeners]]\nname = "secure"\ntransport = "tls"\nport = 0\n'
            f'tls.certificate = "{certificate}"\ntls.key = "{key}"\n'
        )

    def test_a_missing_certificate(self) -> None:
        self.fails(self.secure("none.crt", "none.key"), "none.crt")

    def test_a_key_of_another_certificate(self) -> None:
        authority = Authority("Test Authority")
        for name in ("one", "two"):
            authority.issue(name, self.place / f"{name}.crt", self.place / f"{name}.key")
        self.fails(self.secure("one.crt", "two.key"), "tls.key: does not belong", "one.crt")

    def test_no_certificate_in_the_file(self) -> None:
        (self.place / "empty.crt").write_text("")
        (self.place / "empty.key").write_text("")
        self.fails(self.secure("empty.crt", "empty.key"), "empty.")


class StoreTests(MistakeCase):
    def test_a_file_that_is_no_database(self) -> None:
        file = self.place / "bad.sqlite"
        file.write_bytes(b"anything " * 1000)
        self.fails(
            '[[listeners]]\nport = 0\n[store]\npath = "bad.sqlite"\n',
            "bad.sqlite: not a database; it was not changed",
        )
        self.assertEqual(file.read_bytes(), b"anything " * 1000)


class DaemonTests(SynchronousTestCase):
    def test_in_the_background(self) -> None:
        """Without -n, as a service of the old kind: process id and log are in files."""
        directory = place(self)
        config, pid_file = directory / "broker.toml", directory / "mhub.pid"
        config.write_text('[[listeners]]\ntransport = "unix"\npath = "mqtt.sock"\n')
        options = [f"--pidfile={pid_file}", "--logfile", str(directory / "mhub.log")]
        done = run([*twistd(*options), "mhub", "--config", str(config)], cwd=directory)
        self.assertEqual(0, done.returncode, done.stdout)
        pid = int(pid_file.read_text())
        self.addCleanup(lambda: pid_file.exists() and os.kill(pid, signal.SIGKILL))
        log = directory / "mhub.log"
        wait_until(lambda: "listening on" in log.read_text(), "it listens")
        raw = Raw(str(directory / "mqtt.sock"))
        raw.connect("c")
        raw.subscribe("t")
        raw.publish("t", b"hello")
        raw.expect("PUBLISH", payload=b"hello")
        raw.close()
        os.kill(pid, signal.SIGTERM)
        wait_until(lambda: not pid_file.exists(), "the process has ended")
        self.assertNotIn("Traceback", (directory / "mhub.log").read_text())


class ListenTests(BrokerCase):
    def test_a_socket_that_a_dead_broker_left_is_replaced(self) -> None:
        directory = place(self)
        path = directory / "mqtt.sock"
        with socket.socket(socket.AF_UNIX) as dead:
            dead.bind(str(path))
        unix = '[[listeners]]\ntransport = "unix"\npath = "mqtt.sock"\nmode = "0600"\n'
        broker = self.start(unix, directory=directory)
        self.assertEqual(0o600, stat.S_IMODE(path.stat().st_mode))
        raw = Raw(str(path))
        raw.connect("local")
        raw.close()
        self.assertEqual(0, broker.stop())
        self.assertFalse(path.exists(), "the broker took its socket away")

    def test_a_second_broker_on_the_same_port_leaves_the_first_alone(self) -> None:
        first = self.start()
        config = first.directory / "second.toml"
        config.write_text(f"[[listeners]]\nport = {first.port}\n")
        second = run(twistd("-n", "mhub", "--config", str(config)))
        self.assertGreater(second.returncode, 0)
        raw = Raw(("127.0.0.1", first.port))
        raw.connect("still here")
        raw.close()

    def test_every_address_ipv4_and_ipv6(self) -> None:
        if not has_ipv6():
            raise SkipTest("this machine has no IPv6")
        broker = self.start(
            '[[listeners]]\nname = "all"\nhost = "::"\nport = 0\nallow_anonymous = true\n'
        )
        for host in ("127.0.0.1", "::1"):
            raw = Raw((host, broker.ports["all"]))
            raw.connect(host)
            raw.close()
