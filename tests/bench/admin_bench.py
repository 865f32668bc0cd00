"""What MQTT clients notice of an administrator who looks at everything.

    python tests/bench/admin_bench.py [--rounds 7] [--seconds 5] [--clients 10000] [--realtime]

A broker with SQLite holds 10,000 idle clients, each with a subscription.  Two loads go through it
at a fixed pace: 2,000 messages a second at QoS 0 and 500 at QoS 1, `mhub bench --scenario latency`,
which times each message from the moment at which it was due.  In turn it is measured

    quiet    nobody asks anything
    polled   each second, over HTTP with a login: /stats, /metrics, a page of 1,000 of the clients
             and the recent events, as an open dashboard does; and its live stream is open
    all      the same with all clients, in ten pages, and the history of all series for an hour

Rounds are interleaved and begin with each row in turn.  A figure is the median of its rounds, a
ratio the median of the ratios within a round.  The bar for the p99 of each load while it is polled
is 1.2.

Who polls is a process of its own, which takes what the loads leave of their cores; the broker has
a core of its own, where there are two.  So what is measured is the broker, and not how much work it
is to read its answers.  With `--realtime` broker and loads come before all others on the machine:
for one that others use.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import http.client
import json
import os
import re
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

# Last, so that the installed mhub comes first; the tests themselves are never installed.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from move_bench import _packet, _text

from mhub import build

PATIENCE_S: Final = 60.0
BAR: Final = 1.2
QUIET: Final = "quiet"
POLLED: Final = "polled"
ALL: Final = "all"
ROWS: Final = (QUIET, POLLED, ALL)
LOADS: Final = ((0, 2000), (1, 500))
"""QoS, and messages a second."""
PAGE: Final = 1000
BATCH: Final = 100
PER_ADDRESS: Final = 4000
SETTLE_S: Final = 1.0
TICKS: Final = os.sysconf("SC_CLK_TCK")

LISTENING: Final = re.compile(r"listening on \w+://\S+:(\d+)")
ADMIN: Final = re.compile(r"dashboard is at http://\S+:(\d+)")
PASSWORD: Final = re.compile(r"Password +(\S+)")

CONFIG: Final = """
[[listeners]]
port = 0
[admin]
port = 0
[control]
path = ""
[store]
kind = "sqlite"
"""


class Broker:
    def __init__(self, directory: Path) -> None:
        (directory / "mhub.toml").write_text(CONFIG)
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "mhub", "run", "--config", "mhub.toml"],
                cwd=directory,
                stdout=log,
                stderr=log,
            )
        self.pid = self._process.pid
        self.port = int(self._said(LISTENING))
        self.admin_port = int(self._said(ADMIN))
        self.password = self._said(PASSWORD)

    def _said(self, pattern: re.Pattern[str]) -> str:
        patience = time.monotonic() + PATIENCE_S
        while not (found := pattern.search(self._log.read_text())):
            if self._process.poll() is not None or time.monotonic() > patience:
                raise SystemExit(f"the broker does not start:\n{self._log.read_text()}")
            time.sleep(0.05)
        return found[1]

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


def crowd(port: int, count: int) -> list[socket.socket]:
    """Clients that are connected, have subscribed, and do nothing."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    found: list[socket.socket] = []
    for start in range(0, count, BATCH):
        batch = []
        for number in range(start, min(start + BATCH, count)):
            address = f"127.0.0.{2 + number // PER_ADDRESS}"
            sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S, (address, 0))
            connect = _text("MQTT") + b"\x04\x02\0\0" + _text(f"idle-{number:06}")
            subscribe = b"\0\1" + _text(f"site/{number % 50}/{number}/#") + b"\0"
            sock.sendall(_packet(0x10, connect) + _packet(0x82, subscribe))
            batch.append(sock)
        for sock in batch:
            answer = b""
            while len(answer) < 9:
                more = sock.recv(9 - len(answer))
                if not more:
                    raise SystemExit("a client was refused")
                answer += more
        found += batch
    return found


# Who polls: a process of its own


class Poller:
    def __init__(self, port: int, cookie: str) -> None:
        self._port = port
        self._headers = {"Cookie": cookie}
        self._http = http.client.HTTPConnection("127.0.0.1", port, PATIENCE_S)
        self.took_s: dict[str, list[float]] = {}
        self.clients: list[int] = []
        self.events = 0

    def watch(self) -> None:
        """The live stream, as long as it goes."""
        stream = http.client.HTTPConnection("127.0.0.1", self._port, PATIENCE_S)
        stream.request("GET", "/admin/v1/live", headers=self._headers)
        answer = stream.getresponse()
        while line := answer.readline():
            self.events += line.startswith(b"data:")

    def poll(self, row: str) -> None:
        self._get("/stats")
        self._get("/metrics")
        self._get("/admin/v1/events?limit=50")
        if row == ALL:
            self._get("/admin/v1/history?span=1h")
        began = time.monotonic()
        cursor, clients = "", 0
        while True:
            page = json.loads(self._get(f"/admin/v1/clients?limit={PAGE}&cursor={cursor}"))
            clients += len(page["clients"])
            cursor = page["next"]
            if not cursor or row != ALL:
                break
        self.took_s.setdefault("the clients", []).append(time.monotonic() - began)
        self.clients.append(clients)

    def _get(self, path: str) -> bytes:
        began = time.monotonic()
        self._http.request("GET", path, headers=self._headers)
        answer = self._http.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{path}: {answer.status} {data.decode()}")
        name = path.partition("?")[0].rpartition("/")[2]
        self.took_s.setdefault(name, []).append(time.monotonic() - began)
        return data


def poll(port: int, cookie: str, row: str) -> None:
    """Until standard input ends; then say how often and how long it took."""
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    poller = Poller(port, cookie)
    threading.Thread(target=poller.watch, daemon=True).start()
    over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
    began = due = time.monotonic()
    while not over.is_set():
        poller.poll(row)
        due = max(due + 1.0, time.monotonic() - 1.0)
        over.wait(max(0.0, due - time.monotonic()))
    elapsed_s = time.monotonic() - began
    said = {
        "per_s": len(poller.clients) / elapsed_s,
        "clients": min(poller.clients),
        "events_per_s": poller.events / elapsed_s,
        "ms": {name: 1000 * median(took) for name, took in poller.took_s.items()},
    }
    print(json.dumps(said), flush=True)


def login(port: int, password: str) -> str:
    connection = http.client.HTTPConnection("127.0.0.1", port, PATIENCE_S)
    body = json.dumps({"user": "admin", "password": password})
    connection.request("POST", "/admin/v1/login", body, {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    return (answer.getheader("Set-Cookie") or "").partition(";")[0]


class Bench:
    def __init__(self, broker: Broker, seconds: float) -> None:
        self._broker = broker
        self._seconds = seconds
        self._cookie = login(broker.admin_port, broker.password)
        self.cpu: dict[str, list[float]] = {row: [] for row in ROWS}
        self.found: dict[tuple[str, int], list[dict[str, float]]] = {}
        self.said: dict[str, list[dict[str, Any]]] = {POLLED: [], ALL: []}

    def run(self, rounds: int) -> None:
        for number in range(rounds):
            first = number % len(ROWS)
            for row in (*ROWS[first:], *ROWS[:first]):
                self._row(row)
            self._show_round()

    def _row(self, row: str) -> None:
        process = None
        if row != QUIET:
            command = [sys.executable, __file__, "--poll", str(self._broker.admin_port)]
            process = subprocess.Popen(
                [*command, self._cookie, row],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            time.sleep(2 * SETTLE_S)  # until it is under way
        began, cpu_s = time.monotonic(), self._broker.cpu_s()
        meters = [self._meter(qos, rate) for qos, rate in LOADS]
        for (qos, _), meter in zip(LOADS, meters, strict=True):
            out, err = meter.communicate()
            if meter.returncode:
                raise SystemExit(err)
            result = json.loads(out)["results"][0]
            if result["lost"] or result["duplicated"]:
                raise SystemExit(f"lost or doubled messages: {result}")
            self.found.setdefault((row, qos), []).append(result["latency_us"])
        self.cpu[row].append((self._broker.cpu_s() - cpu_s) / (time.monotonic() - began))
        if process is not None:
            out, _ = process.communicate()
            self.said[row].append(json.loads(out))
        time.sleep(SETTLE_S)

    def _meter(self, qos: int, rate: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "mhub", "bench", "--scenario", "latency", "--json"),
                *("--qos", str(qos), "--rate", str(rate), "--seconds", str(self._seconds)),
                *("--topic-prefix", f"bench-{qos}"),
                f"mqtt://127.0.0.1:{self._broker.port}",
            ],
            cwd=tempfile.gettempdir(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def _show_round(self) -> None:
        parts = []
        for qos, _ in LOADS:
            shown = ", ".join(f"{self.found[row, qos][-1]['p99'] / 1e3:.2f}" for row in ROWS)
            parts.append(f"QoS {qos} {shown} ms")
        load = os.getloadavg()[0]
        print(f"  p99, {', '.join(ROWS)}: {';  '.join(parts)}   (load {load:.1f})", flush=True)

    def report(self) -> int:
        """How many ratios are above the bar."""
        above = 0
        for qos, rate in LOADS:
            for row in ROWS:
                each = self.found[row, qos]
                shown = "   ".join(
                    f"{name} {median(one[name] for one in each) / 1e3:6.2f} ms"
                    for name in ("p50", "p95", "p99", "p999")
                )
                print(f"QoS {qos}, {rate}/s, {row:7} {shown}")
            for row in (POLLED, ALL):
                ratio, half = (self._ratio(row, qos, name) for name in ("p99", "p50"))
                verdict = ""
                if row == POLLED:
                    above += ratio > BAR
                    verdict = f"   bar {BAR:g}: {'ok' if ratio <= BAR else 'ABOVE'}"
                print(f"QoS {qos}: {row} / quiet, p50 {half:.2f}, p99 {ratio:.2f}{verdict}")
        quiet_ms = 1e3 * median(self.cpu[QUIET])
        print(f"CPU of the broker: {quiet_ms:.0f} ms a second")
        for row, said in self.said.items():
            more_ms = 1e3 * median(self.cpu[row]) - quiet_ms
            took = "   ".join(
                f"{name} {median(one['ms'][name] for one in said):.0f} ms" for name in said[0]["ms"]
            )
            print(
                f"{row}: {more_ms:.0f} ms a second more,"
                f" {median(one['per_s'] for one in said):.2f} times a second,"
                f" {min(one['clients'] for one in said):,} clients,"
                f" {median(one['events_per_s'] for one in said):.2f} events a second"
            )
            print(f"    an answer took: {took}")
        return above

    def _ratio(self, row: str, qos: int, name: str) -> float:
        pairs = zip(self.found[QUIET, qos], self.found[row, qos], strict=True)
        return median(b[name] / a[name] for a, b in pairs)


def main() -> int:
    if sys.argv[1:2] == ["--poll"]:
        poll(int(sys.argv[2]), sys.argv[3], sys.argv[4])
        return 0
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=5.0, help="for each row in a round")
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument(
        "--realtime", action="store_true", help="for a machine that others use: before all of them"
    )
    given = parser.parse_args()
    if given.realtime:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    print(f"{build.describe()}, {os.cpu_count()} cores, {given.clients} clients", flush=True)
    with tempfile.TemporaryDirectory(prefix="mhub-bench-") as scratch:
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[:1])
        broker = Broker(Path(scratch))
        if len(cores) > 1:
            os.sched_setaffinity(0, cores[1:])
        try:
            clients = crowd(broker.port, given.clients)
            bench = Bench(broker, given.seconds)
            bench.run(given.rounds)
            above = bench.report()
            for sock in clients:
                sock.close()
        finally:
            broker.stop()
    return 1 if above else 0


if __name__ == "__main__":
    sys.exit(main())
