"""`mhub run` and `twistd mhub` as processes: how they end, and what they say, whatever is wrong.

No mistake of an operator shows a traceback: one line says what is wrong, and the exit status is 1.
"""

import contextlib
import os
import pwd
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.helpers.redis import RedisServer
from tests.system.case import BrokerCase, place
from tests.system.process import PATIENCE_S, environment, run, twistd, wait_until
from tests.system.raw import Raw

UNIX = '[[listeners]]\nname = "unix"\ntransport = "unix"\npath = "mqtt.sock"\n'
MHUB_RUN = [sys.executable, "-m", "mhub", "run"]
DAEMON = [str(Path(sys.executable).with_name("twistd")), "mhub"]


def plain_user() -> list[str]:
    """What to put in front of a command so that file modes count for it, also if this is root."""
    if os.geteuid() != 0:
        return []
    if shutil.which("setpriv") is None:
        raise SkipTest("file modes do not count for root, and there is no setpriv")
    return ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.place = place(self)
        self.config = self.place / "broker.toml"
        self.config.write_text(UNIX)

    def spawn(self, *command: str, **options: object) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*command, "--config", str(self.config)],
            **{
                "cwd": self.place,
                "env": environment(),
                "text": True,
                "stdin": subprocess.DEVNULL,
                "stdout": subprocess.PIPE,
                "stderr": subprocess.STDOUT,
                **options,
            },
        )
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def ends(self, process: subprocess.Popen[str]) -> str:
        """Its output, once it has ended."""
        output = process.communicate(timeout=PATIENCE_S)[0]
        self.assertNotIn("Traceback", output)
        return output

    def says(self, process: subprocess.Popen[str], text: str) -> None:
        """Wait for a line of its output."""
        assert process.stdout is not None
        for line in iter(process.stdout.readline, ""):
            if text in line:
                return
        self.fail(f"it ended without {text!r}")

    def fails(self, command: list[str], *expected: str, cwd: Path | None = None) -> str:
        """It ends with status 1 and says the expected in one line."""
        done = run([*command, "--config", str(self.config)], cwd=cwd or self.place)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertNotIn("Traceback", done.stdout)
        last = done.stdout.splitlines()[-1]
        for text in expected:
            self.assertIn(text, last)
        return done.stdout

    def fails_anyhow(self, *expected: str) -> None:
        """By `mhub run`, and by twistd in the foreground and in the background."""
        self.assertEqual(1, self.fails(MHUB_RUN, *expected).count("\n"))
        self.assertEqual(1, self.fails(twistd("-n", "mhub"), *expected).count("\n"))
        self.assertEqual(1, self.fails(DAEMON, *expected).count("\n"))
        self.assertFalse((self.place / "twistd.pid").exists())


class EndTests(Case):
    def start(self, *command: str, **options: object) -> subprocess.Popen[str]:
        process = self.spawn(*(command or MHUB_RUN), **options)
        wait_until(lambda: (self.place / "mqtt.sock").exists(), "it is bound")
        wait_until(self.answers, "it answers")
        return process

    def answers(self) -> bool:
        try:
            raw = Raw(str(self.place / "mqtt.sock"))
        except OSError:
            return False
        raw.connect("c")
        raw.close()
        return True

    def test_stopped_by_a_signal(self) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.start()
            process.send_signal(number)
            lines = self.ends(process).splitlines()
            self.assertEqual(0, process.returncode)
            self.assertRegex(lines[0], r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d info broker: mhub \d")
            self.assertIn(f" info broker: stopping: {number.name}", "\n".join(lines))
            self.assertNotIn("wisted", "\n".join(lines))
        left = {path.name for path in self.place.iterdir()}
        self.assertEqual(left, {"broker.toml", "mhub-data"})

    def test_its_output_has_nobody_to_read_it(self) -> None:
        """A log that cannot be written is no reason to stop, or for another exit status."""
        reader, writer = os.pipe()
        process = self.start(stdout=writer, stderr=writer)
        os.close(writer)
        os.close(reader)
        self.assertTrue(self.answers())
        process.send_signal(signal.SIGHUP)
        self.assertTrue(self.answers())
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(PATIENCE_S))

    def test_a_full_disk_under_the_log(self) -> None:
        with open("/dev/full", "wb") as full:
            process = self.start(stdout=full, stderr=full)
            process.send_signal(signal.SIGTERM)
            self.assertEqual(0, process.wait(PATIENCE_S))

    def test_without_standard_streams(self) -> None:
        """Their numbers go to no socket or database: the log would be written into it."""
        shell = 'exec "$@" <&- >&- 2>&-'
        process = self.start("sh", "-c", shell, "sh", *MHUB_RUN)
        first = [os.readlink(f"/proc/{process.pid}/fd/{number}") for number in range(3)]
        self.assertEqual(first, ["/dev/null"] * 3)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(0, process.wait(PATIENCE_S))

    def test_usage(self) -> None:
        for wrong in (["--confog"], ["broker.toml"], ["--config"]):
            done = run([*MHUB_RUN, *wrong])
            self.assertEqual(2, done.returncode)
            self.assertIn("usage: mhub run", done.stdout)


class EarlySignalTests(Case):
    """A signal that comes before the broker is there."""

    PAUSE = """
import sys
from pkgutil import resolve_name
owner, name = {owner!r}, {name!r}
def wait(*values, **options):
    print("there", flush=True)
    sys.stdin.read()
    return real(*values, **options)
real = getattr(resolve_name(owner), name)
setattr(resolve_name(owner), name, wait)
from mhub.cli import main
sys.exit(main())
"""

    def at(self, owner: str, name: str) -> subprocess.Popen[str]:
        """A broker that waits in front of that function of its start, until its input ends."""
        code = self.PAUSE.format(owner=owner, name=name)
        process = self.spawn(sys.executable, "-c", code, "run", stdin=subprocess.PIPE)
        self.says(process, "there\n")
        return process

    def check(self, owner: str, name: str) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            process = self.at(owner, name)
            process.send_signal(number)
            output = self.ends(process)
            self.assertEqual(0, process.returncode, output)
            self.assertIn(f"stopping: {number.name}", output)
            self.assertNotIn("listening", output)

    def test_while_the_configuration_is_read(self) -> None:
        self.check("mhub.tap", "load")

    def test_before_the_log_begins(self) -> None:
        self.check("mhub.process.run", "_begin_log")

    def test_while_the_store_is_opened(self) -> None:
        """What comes from its thread after that opens no listener any more."""
        process = self.at("mhub.store.sqlite_database:Database", "open")
        process.terminate()
        self.says(process, "stopping: SIGTERM")
        self.assertNotIn("listening", self.ends(process))
        self.assertEqual(0, process.returncode)

    def test_while_it_looks_for_its_cluster(self) -> None:
        self.config.write_text(
            f'{UNIX}[cluster]\nname = "c"\nnode = "a"\nport = 0\nsecret = "{"s" * 32}"\n'
            'peers = ["127.0.0.1:1"]\n'
        )
        process = self.spawn(*MHUB_RUN)
        self.says(process, "node a of cluster c")
        process.terminate()
        self.assertNotIn("listening", self.ends(process))
        self.assertEqual(0, process.returncode)

    def test_hangup(self) -> None:
        """Does not end it, as the system would."""
        process = self.at("mhub.tap", "load")
        process.send_signal(signal.SIGHUP)
        assert process.stdin is not None
        process.stdin.close()
        process.stdin = None  # communicate() would flush it
        self.says(process, "listening on")
        process.terminate()
        self.ends(process)
        self.assertEqual(0, process.returncode)


class SilentRedisTests(Case):
    """A stop while the broker waits for Redis, at each stage of that."""

    def check(self, port: int, waits: Callable[[subprocess.Popen[str]], None]) -> None:
        self.config.write_text(
            f'{UNIX}[store]\nkind = "redis"\nretry_s = 3600\nredis.port = {port}\n'
            "redis.timeout_s = 3600\n"
        )
        for command in (MHUB_RUN, twistd("-n", "mhub")):
            process = self.spawn(*command)
            waits(process)
            process.send_signal(signal.SIGTERM)
            output = self.ends(process)
            self.assertEqual(0, process.returncode, output)
            self.assertIn("stopping: SIGTERM", output)
            self.assertNotIn("rror", output)

    def test_nobody_listens(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
        self.check(port, lambda process: self.says(process, "waiting for the store"))

    def test_it_does_not_answer(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            connections = []  # which would be closed, as garbage
            silent.settimeout(PATIENCE_S)
            self.check(silent.getsockname()[1], lambda process: connections.append(silent.accept()))
            for connection, _ in connections:
                connection.close()

    def test_it_does_not_even_accept(self) -> None:
        with socket.socket() as server:
            server.bind(("127.0.0.1", 0))
            server.listen(0)
            address = server.getsockname()
            for _ in range(4):  # until its backlog is full
                client = socket.socket()
                client.setblocking(False)
                client.connect_ex(address)
                self.addCleanup(client.close)
            before = self.connecting(address[1])
            self.check(
                address[1],
                lambda process: wait_until(
                    lambda: self.connecting(address[1]) > before, "it connects"
                ),
            )

    def test_its_name_is_looked_up(self) -> None:
        """Which cannot be cancelled: a thread waits for name servers that do not answer."""
        code = (
            "import socket, sys, time\n"
            "def wait(*values, **options):\n"
            "    print('there', flush=True)\n"
            "    time.sleep(3600)\n"
            "socket.getaddrinfo = wait\n"
            "sys.argv[0] = 'mhub'\n"
        )
        foreground = code + "from mhub.cli import main\nsys.exit(main())"
        daemon = code + "from twisted.scripts.twistd import run\nsys.exit(run())"
        self.config.write_text(
            f'{UNIX}[store]\nkind = "redis"\nredis.host = "r.example.org"\nredis.timeout_s = 3600\n'
        )
        for command in (
            [sys.executable, "-c", foreground, "run"],
            [sys.executable, "-c", daemon, "-n", "--pidfile=twistd.pid", "mhub"],
        ):
            process = self.spawn(*command)
            self.says(process, "there\n")
            process.terminate()
            output = self.ends(process)
            self.assertEqual(0, process.returncode, output)
            self.assertNotIn("rror", output)
        self.assertFalse((self.place / "twistd.pid").exists())

    def connecting(self, port: int) -> int:
        """How many connections to a port are half open: state 2 is SYN_SENT."""
        lines = Path("/proc/net/tcp").read_text().splitlines()[1:]
        rows = [line.split() for line in lines]
        return sum(row[2].endswith(f":{port:04X}") and row[3] == "02" for row in rows)


class MistakeTests(Case):
    def test_a_port_in_use(self) -> None:
        """In the background, too: twistd's parent process once waited for ever."""
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            self.config.write_text(f"[[listeners]]\nport = {port}\n")
            self.fails_anyhow(f"mqtt://127.0.0.1:{port}: Address already in use")

    def test_no_configuration(self) -> None:
        self.config.unlink()
        self.fails_anyhow(f"{self.config}: cannot be read: No such file or directory")

    def test_a_directory_as_the_configuration(self) -> None:
        self.config = self.place
        self.fails_anyhow(f"{self.place}: cannot be read: Is a directory")

    def test_a_mistake_in_the_configuration(self) -> None:
        self.config.write_text("[limits]\nmax_qos = 3\n")
        self.fails_anyhow(f"{self.config}:2: limits.max_qos: expected an integer from 0 to 2")

    def test_a_working_directory_that_is_gone(self) -> None:
        (self.place / "gone").mkdir()
        done = run(
            ["sh", "-c", 'rmdir ../gone; exec "$@"', "sh", *MHUB_RUN], cwd=self.place / "gone"
        )
        self.assertEqual(
            (1, "the working directory: No such file or directory\n"),
            (done.returncode, done.stdout),
        )

    def test_a_control_socket_that_cannot_be(self) -> None:
        (self.place / "file").write_text("")
        self.config.write_text(UNIX + '[control]\npath = "file/control.sock"\n')
        self.fails_anyhow("file", "control")

    def test_a_cluster_secret_that_cannot_be_read(self) -> None:
        self.config.write_text(
            UNIX + '[cluster]\nname = "c"\nnode = "a"\nport = 0\nsecret_file = "none"\n'
        )
        self.fails_anyhow("secret_file", "none: No such file or directory")


class StoreTests(Case):
    """A store that can never be opened ends the start, and `mhub check-config` finds it as well."""

    def setUp(self) -> None:
        super().setUp()
        self.data = self.place / "data"
        self.data.mkdir()
        self.config.write_text(UNIX + '[store]\npath = "data/mhub.sqlite"\n[control]\npath = ""\n')

    def never(self, *expected: str, user: list[str] | None = None) -> None:
        user = user or []
        start = self.fails([*user, *MHUB_RUN], *expected)
        self.fails([*user, *DAEMON], *expected)
        check = run([*user, sys.executable, "-m", "mhub", "check-config", str(self.config)])
        self.assertEqual((1, start), (check.returncode, check.stdout))
        self.assertIn(f"{self.config}: store.path: ", start)

    def guard(self, path: Path, mode: int) -> None:
        """Make it another user's, if this is root; else take rights from its owner."""
        if os.geteuid() == 0:
            os.chown(path, 65534, 65534)
        path.chmod(mode)
        self.addCleanup(path.chmod, 0o700)

    def test_the_directory_of_another_user(self) -> None:
        user = plain_user()
        mine = pwd.getpwuid(os.geteuid()).pw_name
        self.guard(self.data, 0o700 if user else 0o000)
        self.never(f"{self.data}: nothing can be ", f" by user {mine}; it belongs to ", user=user)

    def test_a_directory_that_cannot_be_written(self) -> None:
        self.guard(self.data, 0o555)
        self.never(f"{self.data}: nothing can be written there by", "mode 0555", user=plain_user())

    def test_a_directory_that_cannot_be_made(self) -> None:
        self.config.write_text(UNIX + '[store]\npath = "data/a/b/x.sqlite"\n[control]\npath = ""\n')
        self.guard(self.data, 0o555)
        self.never(f"{self.data}: nothing can be written there by", user=plain_user())

    def test_a_file_of_another_user(self) -> None:
        file = self.data / "mhub.sqlite"
        file.write_bytes(b"")
        self.guard(file, 0o400)
        self.never(f"{file}: it cannot be read and written by", user=plain_user())

    def test_a_file_in_the_place_of_the_directory(self) -> None:
        self.data.rmdir()
        self.data.write_text("")
        self.never(f"{self.data}: expected a directory, found a file")

    def test_no_database(self) -> None:
        (self.data / "mhub.sqlite").write_bytes(b"anything " * 1000)
        self.never("mhub.sqlite: not a database; it was not changed")

    def test_a_database_of_something_else(self) -> None:
        with contextlib.closing(sqlite3.connect(self.data / "mhub.sqlite")) as database:
            database.execute("CREATE TABLE precious (thing)")
        self.never("mhub.sqlite: not a database of mhub; it was not changed")

    def test_a_newer_version(self) -> None:
        process = self.spawn(*MHUB_RUN)
        self.says(process, "listening on")
        process.terminate()
        self.ends(process)
        with contextlib.closing(sqlite3.connect(self.data / "mhub.sqlite")) as database:
            database.execute("PRAGMA user_version = 1000")
        self.never("its schema has version 1000")

    def test_a_file_in_use_is_no_mistake_of_the_configuration(self) -> None:
        process = self.spawn(*MHUB_RUN)
        self.says(process, "listening on")
        done = run([sys.executable, "-m", "mhub", "check-config", "-q", str(self.config)])
        self.assertEqual((0, ""), (done.returncode, done.stdout))
        self.config.write_text('[[listeners]]\nport = 0\n[store]\npath = "data/mhub.sqlite"\n')
        self.fails(MHUB_RUN, f"in use by process {process.pid} on")
        process.terminate()
        self.ends(process)

    def small_disk(self, options: str) -> list[str]:
        """A disk of its own at `data`, for the command behind this only: in a namespace."""
        shell = f'mount -t tmpfs -o {options} mhub-test "{self.data}" && exec "$@"'
        command = ["unshare", "--mount", "sh", "-c", shell, "sh"]
        try:
            done = run([*command, "true"])
        except FileNotFoundError:
            raise SkipTest("there is no unshare") from None
        if done.returncode:
            raise SkipTest(f"only root can mount: {done.stdout}")
        return command

    def test_a_read_only_file_system(self) -> None:
        disk = self.small_disk("ro,size=64k")
        self.fails([*disk, *MHUB_RUN], f"{self.data}: nothing can be written there, the file sys")

    def test_a_full_disk(self) -> None:
        """Somebody may make room: it is tried again, and said."""
        process = self.spawn(*self.small_disk("size=16k"), *MHUB_RUN)
        self.says(process, "waiting for the store: ")
        process.terminate()
        self.ends(process)
        self.assertEqual(0, process.returncode)

    def test_redis_with_another_password(self) -> None:
        server = RedisServer("requirepass right")
        self.addCleanup(server.remove)
        for redis in ('redis.password = "wrong"', ""):
            self.config.write_text(
                f'{UNIX}[store]\nkind = "redis"\nredis.port = {server.port}\n{redis}\n'
            )
            self.fails(MHUB_RUN, "critical broker: Redis at 127.0.0.1", "password")

    def test_redis_that_comes_later(self) -> None:
        server = RedisServer()
        self.addCleanup(server.remove)
        server.stop()
        self.config.write_text(
            f'{UNIX}[store]\nkind = "redis"\nretry_s = 0.1\nredis.port = {server.port}\n'
        )
        process = self.spawn(*MHUB_RUN)
        self.says(process, "waiting for the store: Redis at")
        server.start()
        self.says(process, "listening on")
        process.terminate()
        self.ends(process)
        self.assertEqual(0, process.returncode)


class TwistdTests(Case):
    """What twistd itself would say by a traceback, or never."""

    def locked(self) -> Path:
        folder = self.place / "locked"
        folder.mkdir()
        folder.chmod(0o500)
        self.addCleanup(folder.chmod, 0o700)
        return folder

    def test_a_working_directory_without_room_for_the_pid_file(self) -> None:
        folder = self.locked()
        user = plain_user()
        twistd_n = [*user, DAEMON[0], "-n", "mhub"]
        self.fails(twistd_n, f"{folder}/twistd.pid: permission denied; --pidfile=", cwd=folder)
        self.fails([*user, *DAEMON], "twistd.pid: permission denied", cwd=folder)
        without = [*user, *twistd("mhub")]
        self.fails(without, f"{folder}/twistd.log: permission denied", cwd=folder)

    def test_mhub_run_writes_nothing_there(self) -> None:
        folder = self.locked()
        process = self.spawn(*plain_user(), *MHUB_RUN, cwd=folder)
        self.says(process, "listening on")
        process.terminate()
        self.ends(process)
        self.assertEqual(0, process.returncode)

    def test_no_directory_to_run_in(self) -> None:
        self.fails(twistd("-n", "--rundir", "none", "mhub"), "--rundir none: there is no such")


class NoTerminalTests(SynchronousTestCase):
    def test_a_password_cannot_be_asked_for(self) -> None:
        users = place(self) / "users"
        add = ["ctl", "user", "add", "alice", "--file", str(users)]
        command = ["setsid", "-w", sys.executable, "-m", "mhub", *add]
        for shell in ('exec "$@" </dev/null', 'exec "$@" <&-'):
            done = run(["sh", "-c", shell, "sh", *command])
            self.assertEqual(1, done.returncode)
            self.assertEqual(
                done.stdout,
                "mhub ctl user add: there is no terminal to ask for the password at; give it with"
                " --password-file FILE, or --password-file - for stdin\n",
            )


class LaterFailureTests(BrokerCase):
    def test_twistd_ends_as_after_a_failure(self) -> None:
        """Its exit status would be 0; and its pid file goes as after a success."""
        first = self.start()
        config = first.directory / "second.toml"
        config.write_text('[[listeners]]\nport = 0\n[control]\npath = ""\n')
        done = run([DAEMON[0], "-n", "mhub", "--config", str(config)], cwd=first.directory)
        self.assertEqual(1, done.returncode, done.stdout)
        self.assertIn(f"mhub.sqlite: in use by process {first.pid}", done.stdout)
        self.assertNotIn("Traceback", done.stdout)
        self.assertFalse((first.directory / "twistd.pid").exists())


class OpenFilesTests(Case):
    def test_the_soft_limit_is_raised_to_the_hard_one(self) -> None:
        self.config.write_text(UNIX + "[limits]\nmax_connections = 1000\n")
        shell = 'ulimit -Sn 100 && ulimit -Hn 512 && exec "$@"'
        process = self.spawn("sh", "-c", shell, "sh", *MHUB_RUN)
        self.says(process, "open files: at most 512, raised from 100")
        self.says(process, "max_connections = 1000 needs 1065 open files")
        self.says(process, "listening on")
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        self.assertRegex(limits, r"Max open files +512 +512 ")
        clients = [Raw(str(self.place / "mqtt.sock")) for _ in range(200)]
        for number, client in enumerate(clients):
            client.connect(f"c{number}")
        for client in clients:
            client.close()
        process.terminate()
        self.ends(process)
        self.assertEqual(0, process.returncode)
