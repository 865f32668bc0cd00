"""What other clients notice of logins that are expensive, hang or fail.

    python tests/bench/auth_bench.py [--backend postgresql|mysql|redis] [--seconds N] [--rounds N]
                                     [--rows ROW...] [--realtime]

    quiet    nobody logs in
    storm    a fleet logs in, 200 a second, with right passwords whose hashes cost little, while the
             back end answers
    brute    wrong passwords as fast as 64 connections can send them, for names whose hashes are
             argon2id (locked out after some tries) and for names that nobody has
    hangs    the fleet, while the back end's processes are stopped (SIGSTOP)
    dies     the fleet, while the back end is killed

A client that has nothing to do with it sends itself 500 messages a second meanwhile; how long they
take is the figure, from the time at which each was due, so that a pause counts for all messages
that it holds up.  The rows are measured in turn, round by round, and compared with `quiet` of the
same run.  The storm is another process, on the same machine: what it takes of the processor is
missing to the broker, so on few cores the figures are worse than they would be.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import os
import selectors
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

# Last, so that the installed mhub comes first; the tests themselves are never installed.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from move_bench import Client, _packet, _text

from mhub import build
from mhub.auth import hashes
from tests.auth.external import go_auth_hash
from tests.helpers.databases import MariaServer, PostgresServer
from tests.helpers.redis import RedisServer
from tests.system.process import Broker

PER_S: Final = 500
FLEET_PER_S: Final = 200
CONNECTIONS: Final = 64
PATIENCE_S: Final = 60.0
ROWS: Final = ("quiet", "storm", "brute", "hangs", "dies")
REASONS: Final = {0: "in", 0x86: "wrong", 0x87: "locked", 0x88: "unavailable", 0x89: "busy"}

CONFIG: Final = """
[[listeners]]
name = "plain"
port = 0

[[listeners]]
name = "users"
port = 0

[[auth]]
listeners = ["users"]
timeout_s = 2
breaker_pause_s = 1
%s

[store]
kind = "memory"

[control]
path = ""
"""


class PostgresUsers:
    def __init__(self, cheap: str, dear: str) -> None:
        self.server = PostgresServer()
        self.server.run(
            "create table users (name text primary key, hash text)",
            f"insert into users select 'user-' || n, '{cheap}' from generate_series(0, 999) n",
            f"insert into users select 'boss-' || n, '{dear}' from generate_series(0, 999) n",
        )
        self.table = (
            f'type = "postgresql"\nport = {self.server.port}\ndatabase = "postgres"\n'
            'username = "postgres"\npassword = "test-database"\n'
            'query = "select hash from users where name = :username"'
        )


class MariaUsers:
    def __init__(self, cheap: str, dear: str) -> None:
        self.server = MariaServer()
        self.server.run(
            "create database bench",
            "use bench",
            "create table bench.users (name varchar(50) primary key, hash varchar(200))",
            f"insert into bench.users select concat('user-', seq), '{cheap}' from seq_0_to_999",
            f"insert into bench.users select concat('boss-', seq), '{dear}' from seq_0_to_999",
        )
        self.table = (
            f'type = "mysql"\nhost = "{self.server.directory}/mysql.sock"\ndatabase = "bench"\n'
            'username = "root"\nquery = "select hash from users where name = :username"'
        )


class RedisUsers:
    def __init__(self, cheap: str, dear: str) -> None:
        self.server = RedisServer("save 3600 1000000")
        for number in range(1000):
            self.server.ask("HSET", f"mhub:user:user-{number}", "password_hash", cheap)
            self.server.ask("HSET", f"mhub:user:boss-{number}", "password_hash", dear)
        self.server.ask("SAVE")
        self.table = f'type = "redis"\nport = {self.server.port}'


BACKENDS: Final[dict[str, Any]] = {
    "postgresql": PostgresUsers,
    "mysql": MariaUsers,
    "redis": RedisUsers,
}


class Pair:
    """A client that gets its own messages."""

    def __init__(self, port: int) -> None:
        self._client = Client(port, "bystander", clean=True)
        self._client.subscribe("bystander", 0)

    def measure(self, seconds: float) -> list[float]:
        """How late each message was, in the order in which they were due."""
        waits: list[float] = []
        began = time.perf_counter()
        for number in range(int(seconds * PER_S)):
            due = began + number / PER_S
            pause = due - time.perf_counter()
            if pause > 0:
                time.sleep(pause)
            frame = _packet(0x30, _text("bystander") + struct.pack(">I", number))
            start = max(due, time.perf_counter()) if pause > 0 else due
            self._client.sock.sendall(frame)
            self._client.read(len(frame))
            waits.append(time.perf_counter() - start)
        return waits


# The storm: a process of its own


def storm(port: int, per_s: float, is_guessing: bool) -> None:
    """Log in again and again until standard input ends; then print how each was answered."""
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
    selector = selectors.DefaultSelector()
    os.set_blocking(sys.stdin.fileno(), False)
    selector.register(sys.stdin, selectors.EVENT_READ)
    counts: dict[int, int] = {}
    began = time.monotonic()
    sent = open_now = 0
    is_over = False
    while not is_over or open_now:
        while not is_over and open_now < CONNECTIONS:
            if per_s and sent > (time.monotonic() - began) * per_s:
                break
            selector.register(_login(port, sent, is_guessing), selectors.EVENT_READ)
            open_now += 1
            sent += 1
        for key, _ in selector.select(0.01):
            if key.fileobj is sys.stdin:
                is_over = True
                selector.unregister(sys.stdin)
                continue
            sock: Any = key.fileobj
            selector.unregister(sock)
            try:
                data = sock.recv(100)
            except OSError:
                data = b""
            sock.close()
            open_now -= 1
            reason = data[3] if len(data) > 3 else -1
            counts[reason] = counts.get(reason, 0) + 1
    elapsed_s = time.monotonic() - began
    found = ", ".join(
        f"{count / elapsed_s:.0f}/s {REASONS.get(reason, reason)}"
        for reason, count in sorted(counts.items())
    )
    print(found, flush=True)


def _login(port: int, number: int, is_guessing: bool) -> socket.socket:
    name, password = f"user-{number % 1000}", "secret"
    if is_guessing:
        name = f"boss-{number % 2000}"  # every other one is nobody's
        password = f"guess-{number}"
    body = _text("MQTT") + b"\x05\xc2\0\0\0" + _text(f"{os.getpid()}-{number}")
    sock = socket.create_connection(("127.0.0.1", port))
    sock.sendall(_packet(0x10, body + _text(name) + _text(password)))
    return sock


class Bench:
    def __init__(
        self, backend: str, seconds: float, rounds: int, rows: list[str], realtime: bool
    ) -> None:
        self._rows = rows
        self._seconds = seconds
        self._rounds = rounds
        cheap, dear = go_auth_hash("secret"), hashes.make(b"secret", hashes.Costs())
        self._backend = BACKENDS[backend](cheap, dear)
        if realtime:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        self._folder = tempfile.TemporaryDirectory(prefix="mhub-bench-")
        self._broker = Broker(Path(self._folder.name), CONFIG % self._backend.table)
        self._broker.start()
        self._pair = Pair(self._broker.port)

    def run(self) -> None:
        waits: dict[str, list[float]] = {row: [] for row in self._rows}
        said: dict[str, str] = {}
        for _ in range(self._rounds):
            for row in self._rows:
                found, said[row] = self._row(row)
                waits[row] += found
        quiet = _quantile(waits["quiet"], 0.99)
        for row in self._rows:
            p50, p99 = _quantile(waits[row], 0.5), _quantile(waits[row], 0.99)
            print(
                f"{row:6} p50 {1000 * p50:6.2f} ms   p99 {1000 * p99:6.2f} ms"
                f"   max {1000 * max(waits[row]):7.2f} ms   p99 / quiet {p99 / quiet:5.2f}"
                f"   {said[row]}",
                flush=True,
            )

    def close(self) -> None:
        self._broker.kill()
        self._backend.server.remove()
        self._folder.cleanup()

    def _row(self, row: str) -> tuple[list[float], str]:
        if row == "quiet":
            return self._pair.measure(self._seconds), ""
        server = self._backend.server
        if row == "hangs":
            server.pause()
        elif row == "dies":
            server.kill()
        per_s = 0 if row == "brute" else FLEET_PER_S
        port = self._broker.ports["users"]
        try:
            process = subprocess.Popen(
                [sys.executable, __file__, "--storm", str(port), str(per_s), row],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(0.5)  # until it is under way
            waits = self._pair.measure(self._seconds)
            said, _ = process.communicate()
        finally:
            if row == "hangs":
                server.go_on()
            elif row == "dies":
                server.start()
        time.sleep(
            6
        )  # until the back end is asked again, and lock-outs of the last row matter less
        return waits, said.strip()


def _quantile(waits: list[float], share: float) -> float:
    return sorted(waits)[int(len(waits) * share)]


def main() -> None:
    if sys.argv[1:2] == ["--storm"]:
        return storm(int(sys.argv[2]), float(sys.argv[3]), sys.argv[4] == "brute")
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="for each row in a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--backend", choices=list(BACKENDS), default="postgresql")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument(
        "--realtime", action="store_true", help="for a machine that others use: before all of them"
    )
    given = parser.parse_args()
    rows = ["quiet", *(row for row in given.rows if row != "quiet")]
    print(f"{build.describe()}, {given.backend}, {os.cpu_count()} cores", flush=True)
    bench = Bench(given.backend, given.seconds, given.rounds, rows, given.realtime)
    try:
        bench.run()
    finally:
        bench.close()


if __name__ == "__main__":
    main()
