"""PostgreSQL and MariaDB servers for tests: each on a free port of 127.0.0.1, in its own folder.

Neither server runs as root: started by root, they run as the user that their packages have made.
"""

import atexit
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import SkipTest

from tests.helpers.redis import free_port

START_S = 60
PASSWORD = "test-database"


class DatabaseServer:
    """What both have in common."""

    account = ""  # who runs it if root starts it
    options: tuple[str, ...] = ()

    def __init__(self) -> None:
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="mhub-db-", dir="/tmp"))
        self.data = self.directory / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        if os.geteuid() == 0:
            try:
                owner = pwd.getpwnam(self.account)
            except KeyError:
                raise SkipTest(f"there is no user {self.account} to run the server as") from None
            os.chown(self.directory, owner.pw_uid, owner.pw_gid)
            self._as = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
        atexit.register(self.remove)
        self.prepare()
        self.start()

    def prepare(self) -> None:
        raise NotImplementedError

    def command(self) -> list[str]:
        raise NotImplementedError

    def connect(self) -> Any:
        """As the administrator."""
        raise NotImplementedError

    def start(self) -> None:
        command = self.command()
        keeper = shutil.which("setpriv")
        # A test run that is killed takes its servers with it.  So does the thread that started one:
        # call this in the main thread.
        if keeper:
            command = [keeper, "--pdeathsig", "KILL", *command]
        with open(self.directory / "log", "ab") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, cwd=self.directory, **self._as
            )
        deadline = time.monotonic() + START_S
        while True:
            try:
                self.connect().close()
                return
            except Exception:
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise AssertionError((self.directory / "log").read_text()) from None
                time.sleep(0.05)

    def run(self, *statements: str) -> None:
        connection = self.connect()
        try:
            cursor = connection.cursor()
            for each in statements:
                cursor.execute(each)
        finally:
            connection.close()

    def stop(self) -> None:
        self._end(signal.SIGINT)  # PostgreSQL: without waiting for clients

    def kill(self) -> None:
        """All of its processes: one that serves a connection would answer for a moment longer."""
        pids = self._pids()
        self._end(signal.SIGKILL)  # first: it would start others in their place
        for pid in pids[1:]:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass  # one of a connection that is gone
        deadline = time.monotonic() + START_S
        while any(Path(f"/proc/{pid}").exists() for pid in pids):
            if time.monotonic() > deadline:
                raise AssertionError(f"still running: {pids}")
            time.sleep(0.01)

    def pause(self) -> None:
        """All of its processes: PostgreSQL has one for each connection."""
        for pid in self._pids():
            os.kill(pid, signal.SIGSTOP)

    def go_on(self) -> None:
        for pid in self._pids():
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass  # one of a connection that is gone

    def restore(self) -> None:
        """Let it run again, whatever was done to it."""
        if self._process is None:
            self.start()
        self.go_on()

    def remove(self) -> None:
        atexit.unregister(self.remove)
        if self._process is not None:
            self.go_on()
        self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _pids(self) -> list[int]:
        assert self._process is not None
        own = self._process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text().split()
        return [own, *map(int, children)]

    def _end(self, how: int) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.send_signal(how)
            process.wait(START_S)

    def _prepare(self, *words: str) -> None:
        done = subprocess.run(
            words, capture_output=True, cwd=self.directory, timeout=START_S, **self._as
        )
        if done.returncode:
            raise AssertionError((done.stdout + done.stderr).decode())


class PostgresServer(DatabaseServer):
    account = "postgres"

    def prepare(self) -> None:
        found = [*Path("/usr/lib/postgresql").glob("*/bin/initdb")]
        initdb = shutil.which("initdb") or (str(max(found)) if found else "")
        if not initdb:
            raise SkipTest("there is no PostgreSQL here: apt-get install postgresql")
        self._folder = Path(initdb).resolve().parent
        secret = self.directory / "password"
        secret.write_text(PASSWORD)
        secret.chmod(0o644)
        self._prepare(
            *(initdb, "--pgdata", str(self.data), "--username", "postgres", "--no-sync"),
            *("--auth", "scram-sha-256", "--pwfile", str(secret), "--encoding", "UTF8"),
            *("--locale", "C"),
        )

    def command(self) -> list[str]:
        return [
            *(str(self._folder / "postgres"), "-D", str(self.data), "-p", str(self.port)),
            *("-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
            *("-c", f"unix_socket_directories={self.directory}", *self.options),
        ]

    def connect(self) -> Any:
        import psycopg

        return psycopg.connect(
            host="127.0.0.1",
            port=self.port,
            user="postgres",
            password=PASSWORD,
            dbname="postgres",
            connect_timeout=5,
            autocommit=True,
        )


class MariaServer(DatabaseServer):
    account = "mysql"

    def prepare(self) -> None:
        path = os.environ.get("PATH", "") + ":/usr/sbin"
        install = shutil.which("mariadb-install-db", path=path)
        self._binary = shutil.which("mariadbd", path=path) or ""
        if not install or not self._binary:
            raise SkipTest("there is no MariaDB here: apt-get install mariadb-server")
        self._prepare(
            *(install, "--no-defaults", f"--datadir={self.data}", "--skip-test-db"),
            *("--auth-root-authentication-method=normal", "--skip-name-resolve"),
            # A server that starts removes the temporary tables that others have in the same place.
            f"--tmpdir={self.directory}",
        )

    def command(self) -> list[str]:
        return [
            *(self._binary, "--no-defaults", f"--datadir={self.data}", f"--port={self.port}"),
            *("--bind-address=127.0.0.1", f"--socket={self.directory}/mysql.sock"),
            *(f"--pid-file={self.directory}/pid", "--skip-name-resolve", "--skip-log-bin"),
            *("--innodb-flush-log-at-trx-commit=2", f"--tmpdir={self.directory}", *self.options),
        ]

    def connect(self) -> Any:
        import pymysql

        return pymysql.connect(
            unix_socket=f"{self.directory}/mysql.sock",
            user="root",
            autocommit=True,
            ssl_disabled=True,
        )

    def stop(self) -> None:
        self._end(signal.SIGTERM)


_shared: dict[type[DatabaseServer], DatabaseServer] = {}


def shared_database(kind: Callable[[], DatabaseServer]) -> DatabaseServer:
    """The one for whoever needs nothing special."""
    if kind not in _shared:
        _shared[kind] = kind()  # type: ignore[index]
    return _shared[kind]  # type: ignore[index]
