"""The `mhub` command: what it prints where, and its exit status."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from twisted.trial.unittest import TestCase

from mhub import __version__
from mhub.auth import hashes
from mhub.auth.users import read_users
from mhub.cli import COMMANDS, main
from mhub.config.settings import Settings, StoreSettings
from mhub.store.contract import StoreBroken
from mhub.store.make import make_store

ROOT = Path(__file__).absolute().parent.parent


class CliCase(TestCase):
    def setUp(self) -> None:
        self.folder = Path(self.mktemp()).absolute()
        self.folder.mkdir()
        self.out = self.err = ""
        self.patch(os, "environ", {**os.environ, "COLUMNS": "80"})

    def run_mhub(self, *argv: str, stdin: str = "") -> int:
        out, err = io.StringIO(), io.StringIO()
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            mock.patch("sys.stdin", io.StringIO(stdin)),
        ):
            status = main(argv)
        self.out, self.err = out.getvalue(), err.getvalue()
        return status

    def file(self, text: str) -> str:
        path = self.folder / "broker.toml"
        path.write_text(text)
        return str(path)


class MainTests(CliCase):
    def test_version(self) -> None:
        self.assertEqual(self.run_mhub("--version"), 0)
        self.assertIn(f"mhub {__version__}", self.out)
        self.assertRegex(self.out, "pure|compiled|mixed")

    def test_help(self) -> None:
        """It names every command, on the screen that asks for it, within 80 columns."""
        self.assertEqual(self.run_mhub("--help"), 0)
        for name in COMMANDS:
            self.assertIn(f"\n  {name} ", self.out)
        self.assertLess(max(map(len, self.out.split("\n"))), 80)
        self.assertEqual(self.run_mhub(), 2)
        self.assertIn("check-config", self.err)

    def test_help_of_commands(self) -> None:
        for name in COMMANDS:
            self.assertEqual(self.run_mhub(name, "--help"), 0, name)
            if name != "bench":  # has its own
                self.assertLessEqual(max(map(len, self.out.split("\n"))), 80, name)
            asked = self.out
            self.assertEqual(self.run_mhub("help", name), 0)
            self.assertEqual(self.out, asked)

    def test_unknown(self) -> None:
        self.assertEqual(self.run_mhub("check-conf"), 2)
        self.assertEqual(self.err, 'mhub: no command "check-conf"; did you mean "check-config"?\n')
        self.assertEqual(self.run_mhub("xyzzy"), 2)
        self.assertIn("expected one of run, check-config, ", self.err)
        self.assertEqual(self.run_mhub("--xyzzy"), 2)
        self.assertEqual(self.run_mhub("check-config"), 2)

    def test_interrupted(self) -> None:
        with mock.patch("mhub.config.load", side_effect=KeyboardInterrupt):
            self.assertEqual(self.run_mhub("check-config", "x"), 130)

    def test_starts_without_twisted(self) -> None:
        """`mhub --help` answers at once, as `mhub ctl cluster` does: they import nothing heavy."""
        code = (
            "import sys; from mhub.cli import main; main(['--help']); main(['ctl', '--help'])\n"
            "assert not {'twisted', 'OpenSSL', 'cryptography', 'mhub.config'} & set(sys.modules)"
        )
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            check=True,
            stdout=subprocess.DEVNULL,
            timeout=60,
        )


class CheckConfigTests(CliCase):
    def test_fine(self) -> None:
        file = self.file(
            """
            [limits]
            max_qos = 1
            [[listeners]]
            name = "plain"
            max_connections = 10
            [[listeners]]
            transport = "ws"
            port = 8083
            host = "::1"
            proxy_protocol = true
            max_packet_size = "64 KiB"
            allow_anonymous = true
            """
        )
        self.assertEqual(self.run_mhub("check-config", file), 0)
        self.assertEqual(
            self.out,
            f"{file}: fine; 2 listeners\n"
            "  plain    mqtt://127.0.0.1:1883  at most 10 connections, anonymous clients allowed\n"
            "  ws-8083  ws://[::1]:8083/mqtt   PROXY protocol, anonymous clients allowed,"
            ' max_packet_size = "64 KiB"\n'
            f"  sessions and messages in {self.folder}/mhub-data/mhub.sqlite\n",
        )
        self.assertEqual(self.err, "")

    def test_quiet(self) -> None:
        self.assertEqual(self.run_mhub("check-config", "--quiet", self.file("")), 0)
        self.assertEqual((self.out, self.err), ("", ""))

    def test_warning(self) -> None:
        file = self.file("[limits]\nallow_anonymous = false")
        self.assertEqual(self.run_mhub("check-config", file), 0)
        self.assertIn(f"warning: {file}: listeners[0].allow_anonymous: nobody can log", self.err)

    def test_mistakes(self) -> None:
        file = self.file("[limits]\nmax_qso = 1\nmax_qos = 3")
        self.assertEqual(self.run_mhub("check-config", file), 1)
        self.assertEqual(self.out, "")
        self.assertEqual(
            self.err,
            f'{file}:2: limits.max_qso: unknown key; did you mean "max_qos"?\n'
            f"{file}:3: limits.max_qos: expected an integer from 0 to 2, found 3\n",
        )

    def test_users_file(self) -> None:
        """What is wrong in a file that the configuration names is found as well."""
        (self.folder / "users").write_text("nonsense")
        file = self.file('[[auth]]\ntype = "password-file"\nfile = "users"')
        self.assertEqual(self.run_mhub("check-config", file), 1)
        self.assertIn(f"3: auth[0].file: {self.folder}/users:1: expected NAME", self.err)
        (self.folder / "users").write_text("")
        self.assertEqual(self.run_mhub("check-config", file), 0)
        self.assertIn("\n  clients are identified by password-file\n", self.out)


class PasswordFileTests(CliCase):
    """`mhub ctl user --file`."""

    def setUp(self) -> None:
        super().setUp()
        self.users = str(self.folder / "users")

    def add(self, name: str, password: str = "pencil\n", *more: str, what: str = "add") -> int:
        options = ("--password-file", "-", "--iterations", "4096", *more)
        return self.run_mhub(
            "ctl", "user", what, name, "--file", self.users, *options, stdin=password
        )

    def test_add_change_delete(self) -> None:
        self.assertEqual(self.add("alice"), 0)
        self.assertEqual(self.out, f'added "alice" to {self.users}\n')
        before = read_users(self.users)
        self.assertEqual(self.add("alice"), 1)
        self.assertIn('there is a user "alice" already', self.err)
        self.assertEqual(self.add("alice", "brush\r\n", what="passwd"), 0)
        self.assertEqual(self.out, f'new password for "alice" in {self.users}\n')
        after = read_users(self.users)
        self.assertEqual((list(after.verifiers), list(after.hashes)), (["alice"], ["alice"]))
        self.assertNotEqual(after.hashes, before.hashes)
        self.assertEqual(self.run_mhub("ctl", "user", "list", "--file", self.users), 0)
        self.assertEqual(self.out, "user   logs in by\nalice  password, SCRAM\n")
        self.assertEqual(self.run_mhub("ctl", "user", "delete", "alice", "--file", self.users), 0)
        self.assertEqual(self.out, f'deleted "alice" from {self.users}\n')
        self.assertEqual(self.run_mhub("ctl", "user", "delete", "alice", "--file", self.users), 1)
        self.assertIn('no user "alice" in', self.err)
        self.assertEqual(self.add("alice", what="passwd"), 1)
        self.assertIn('no user "alice" in', self.err)

    def test_prompt(self) -> None:
        answers = iter(["pencil", "pencil", "pencil", "pen"])
        with mock.patch("getpass.getpass", lambda prompt: next(answers)):
            argv = ("alice", "--file", self.users, "--iterations", "4096")
            self.assertEqual(self.run_mhub("ctl", "user", "add", *argv), 0)
            before = read_users(self.users)
            self.assertEqual(self.run_mhub("ctl", "user", "passwd", *argv), 1)
        self.assertEqual(self.err, "mhub ctl user passwd: the two passwords differ\n")
        self.assertEqual(read_users(self.users), before)

    def test_mistakes(self) -> None:
        self.assertEqual(self.add("alice", ""), 1)
        self.assertEqual(self.err, "mhub ctl user add: the password is empty\n")
        self.assertEqual(self.add("#alice"), 1)
        self.assertEqual(self.add("a:b"), 1)
        self.assertIn("cannot have a colon", self.err)
        self.assertEqual(self.add("alice", "x\n", "--iterations", "4095"), 1)
        self.assertIn("--iterations: expected from 4096 to 10000000", self.err)
        self.assertEqual(self.add("alice", "x\n", "--role", "device"), 1)
        self.assertIn("--role: a password file has names and passwords only", self.err)
        self.assertFalse(os.path.exists(self.users))

    def test_no_password_in_the_file(self) -> None:
        self.add("alice", "a password to look for\n")
        self.assertNotIn("a password", Path(self.users).read_text())


class HashPasswordTests(CliCase):
    def test_a_hash_that_a_login_verifies(self) -> None:
        self.assertEqual(
            self.run_mhub("hash-password", "--password-file", "-", stdin="pencil\n"), 0
        )
        self.assertTrue(hashes.matches(self.out.strip(), b"pencil"))
        self.assertTrue(hashes.is_current(self.out.strip(), hashes.Costs()))

    def test_no_password(self) -> None:
        self.assertEqual(self.run_mhub("hash-password", "--password-file", "-", stdin="\n"), 1)
        self.assertEqual((self.out, self.err), ("", "mhub hash-password: the password is empty\n"))


class StoreTests(CliCase):
    """`mhub store`, on SQLite; what reaches the reactor runs in a process of its own."""

    LINES = (
        '{"mhub": "store", "schema": 4}\n'
        '{"kind": "message", "mid": 9, "body": {"topic": "a/b", "qos": 1, "payload": "on"}}\n'
        '{"kind": "delivery", "sid": 1, "seq": 4, "mid": 9, "size_bytes": 5, "qos": 1}\n'
        '{"kind": "session", "sid": 1, "client_id": "pump", "expiry_s": 60, "ends_at": 12.5}\n'
        '{"kind": "retained", "topic": "r", "body": {"topic": "r", "payload": "é"}}\n'
    )

    def setUp(self) -> None:
        super().setUp()
        self.config = self.file('[store]\npath = "data/x.sqlite"')
        self.place = self.folder / "data" / "x.sqlite"
        self.lines = self.folder / "store.jsonl"
        self.lines.write_text(self.LINES, "utf-8")

    def run_store(self, what: str, *argv: str, stdin: str | None = None) -> int:
        ended = subprocess.run(
            [sys.executable, "-m", "mhub", "store", what, "--config", self.config, *argv],
            input=stdin,
            capture_output=True,
            encoding="utf-8",
            timeout=60,
        )
        self.out, self.err = ended.stdout, ended.stderr
        return ended.returncode

    def test_there_and_back(self) -> None:
        """What was imported is checked and exported, also what would have expired by now."""
        counts = "1 session, 1 message, 1 delivery, 1 retained message"
        self.assertEqual(self.run_store("import", str(self.lines)), 0)
        self.assertEqual(self.out, f"imported into sqlite {self.place}: {counts}\n")
        self.assertEqual(self.run_store("check"), 0)
        self.assertEqual(self.out, f"sqlite {self.place}: no problems found; {counts}\n")
        self.assertEqual(self.run_store("export"), 0)
        self.assertEqual(self.out, self.LINES)
        self.assertEqual(self.err, f"exported from sqlite {self.place}: {counts}\n")

        output = self.folder / "out.jsonl"
        self.assertEqual(self.run_store("export", "--output", str(output)), 0)
        self.assertEqual((output.read_text("utf-8"), self.out), (self.LINES, ""))
        left = {path.name for path in self.folder.iterdir()}
        self.assertEqual(left, {"broker.toml", "data", "out.jsonl", "store.jsonl"})

        self.assertEqual(self.run_store("import", "-", stdin=self.LINES), 1)
        text = f"mhub store import: sqlite {self.place}: not empty; an import needs an empty store"
        self.assertEqual(self.err, text + "\n")

    def test_from_stdin(self) -> None:
        self.assertEqual(self.run_store("import", "-", stdin=self.LINES), 0)
        self.assertIn(": 1 session, ", self.out)
        self.assertTrue(self.place.exists())

    def test_nothing_is_written_of_a_bad_file(self) -> None:
        self.lines.write_text(self.LINES + "{}\n")
        self.assertEqual(
            self.run_mhub("store", "import", "--config", self.config, str(self.lines)), 1
        )
        self.assertTrue(self.err.startswith(f"mhub store import: {self.lines}:6: kind: "), self.err)
        self.assertFalse(self.place.parent.exists())

    def test_output_that_cannot_be(self) -> None:
        """An export that fails leaves the file that is there, and nothing beside it."""
        self.run_store("import", "-", stdin=self.LINES)
        self.place.write_bytes(b"no database" + bytes(200))
        output = self.folder / "out.jsonl"
        output.write_text("an earlier one")
        self.assertEqual(self.run_store("export", "--output", str(output)), 1)
        self.assertIn("not a database", self.err)
        self.assertEqual(output.read_text(), "an earlier one")
        self.assertEqual(len(list(self.folder.iterdir())), 4)

    def test_nothing_there(self) -> None:
        """To look at a store does not make one."""
        for what in ("check", "export"):
            self.assertEqual(self.run_mhub("store", what, "--config", self.config), 1)
            self.assertEqual(
                self.err, f"mhub store {what}: there is no {self.place}: nothing to {what}\n"
            )
        argv = ("store", "import", "--config", self.config, str(self.folder / "none"))
        self.assertEqual(self.run_mhub(*argv), 1)
        self.assertIn("No such file or directory", self.err)
        self.assertFalse(self.place.parent.exists())

    def test_memory(self) -> None:
        config = self.file('[store]\nkind = "memory"')
        for what, text in (
            ("check", "which ends with the broker: there is nothing to check"),
            ("export", "there is nothing to export, as no broker runs"),
            ("import", "nothing that is imported would remain"),
        ):
            argv = [str(self.lines)] if what == "import" else []
            self.assertEqual(self.run_mhub("store", what, "--config", config, *argv), 1)
            self.assertTrue(self.err.endswith(f"{text}\n"), self.err)

    def test_mistakes(self) -> None:
        self.assertEqual(self.run_mhub("store"), 2)
        self.assertEqual(self.run_mhub("store", "check"), 2)
        self.assertIn("--config", self.err)
        config = self.file('[store]\nkind = "rediss"')
        self.assertEqual(self.run_mhub("store", "check", "--config", config), 1)
        self.assertTrue(self.err.startswith(f"{config}:2: store.kind: expected one of"), self.err)

    def test_redis_is_not_installed(self) -> None:
        with mock.patch.dict(sys.modules, {"txredisapi": None}):
            for name in ("mhub.store.redis", "mhub.store.redis_link"):
                sys.modules.pop(name, None)
            settings = Settings(store=StoreSettings(kind="redis"))
            error = self.assertRaises(StoreBroken, make_store, settings, None)
        self.assertIn("needs the package txredisapi: pip install txredisapi", str(error))
