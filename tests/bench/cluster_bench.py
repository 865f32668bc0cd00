"""What a cluster costs: two nodes against one, in the same run, and the joining of a third.

    python tests/bench/cluster_bench.py [OPTION...]        (--help names them)

Publishers are at the one node and subscribers at the other, so every message crosses the link; the
single node is an mhub without `[cluster]`.  Rounds alternate between the two.  A figure is the
median of its rounds, and a ratio the median of the ratios within a round; in parentheses the lowest
and the highest.  CPU for a message, summed over the nodes, is steadier than messages a second.
"others" says how many cores were busy with other work: the more, the less all this means, and two
nodes suffer less than one, as they wait for each other anyway.  --quietest takes the best rounds.
The load comes from this process, by the load side of `mhub bench`, which counts what is lost.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from mhub import build
from mhub.bench import poller
from mhub.bench.load.packets import connect, subscribe
from mhub.bench.plan import FAN_OUT, LATENCY, THROUGHPUT, Plan
from mhub.bench.result import Result
from mhub.bench.swarm import Link, Swarm
from mhub.bench.target import Address, Target
from mhub.bench.traffic import run_traffic
from mhub.bench.usage import Meter

PATIENCE_S: Final = 60.0
SETTLE_S: Final = 0.2
LISTENING: Final = re.compile(r"listening on \w+://\S+:(\d+)")
FOR_PEERS: Final = re.compile(r"for peers at (\S+)")
READY: Final = re.compile(r"ready, with (\d+) other nodes?\b")

SINGLE, CLUSTER, OTHER = "single", "cluster", "other"

# As the single node of docs/performance.md: nothing bounds a queue, so that nothing is dropped.
CONFIG: Final = """
[[listeners]]
port = 0
[limits]
max_queued_messages = 0
max_queued_bytes = 0
max_inflight = 1000
max_subscriptions = 0
[sys]
interval_s = 0
[store]
kind = "memory"
"""

MEMBERSHIP: Final = """
[cluster]
name = "bench"
node = "{node}"
port = 0
peers = [{peers}]
secret = "known to nobody but this run"
[control]
path = ""
"""


class Broken(Exception):
    """It cannot be measured; the text says why."""


class Node:
    """One `twistd mhub`, with its log in a file."""

    def __init__(self, twistd: Path, directory: Path, config: str) -> None:
        directory.mkdir()
        self.directory = directory
        (directory / "mhub.toml").write_text(config)
        self._log = directory / "log"
        command = [str(twistd), "-n", "--pidfile=", "mhub", "--config", "mhub.toml"]
        keeper = shutil.which("setpriv")
        if keeper:  # a run that is killed takes its nodes with it
            command = [keeper, "--pdeathsig", "KILL", *command]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        self.started_at = time.monotonic()
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, cwd=directory, stdout=log, stderr=log, env=environment
            )
        self.pid = self._process.pid

    def says(self, what: re.Pattern[str]) -> str:
        """Wait for a line of the log; its first group."""
        while not (found := what.search(self._log.read_text())):
            if self._process.poll() is not None or self.age_s() > PATIENCE_S:
                raise Broken(f"no {what.pattern!r} in the log:\n{self._log.read_text()}")
            time.sleep(0.01)
        return found[1]

    def age_s(self) -> float:
        return time.monotonic() - self.started_at

    @property
    def port(self) -> int:
        return int(self.says(LISTENING))

    def rss(self) -> int:
        return Meter([self.pid]).rss() or 0

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class House:
    """Starts nodes, and stops them all."""

    def __init__(self, bin_directory: Path) -> None:
        self._twistd = bin_directory / "twistd"
        self._root = Path(tempfile.mkdtemp(prefix="mhub-bench-"))
        self._nodes: list[Node] = []

    def start(self, config: str, bin_directory: Path | None = None) -> Node:
        twistd = bin_directory / "twistd" if bin_directory is not None else self._twistd
        node = Node(twistd, self._root / str(len(self._nodes)), config)
        self._nodes.append(node)
        return node

    def join(self, name: str, *peers: str) -> Node:
        known = ", ".join(f'"{peer}"' for peer in peers)
        return self.start(CONFIG + MEMBERSHIP.format(node=name, peers=known))

    def close(self) -> None:
        for node in self._nodes:
            node.stop()
        shutil.rmtree(self._root)


class Crossing(Swarm):
    """Clients of two nodes: those that publish at the one, all others at the other."""

    def __init__(self, pub_port: int, sub_port: int, version: int) -> None:
        self._at_pub, self._at_sub = _address(pub_port), _address(sub_port)
        run = int.from_bytes(os.urandom(4), "big")
        super().__init__(
            Target("mqtt", "127.0.0.1", pub_port),
            self._at_pub,
            None,
            version,
            run,
            time.monotonic_ns,
            poller.best(),
            PATIENCE_S,
        )

    def _start(self, link: Link, source: str | None) -> None:
        self._address = self._at_pub if link.name.startswith("publisher") else self._at_sub
        super()._start(link, source)


def _address(port: int) -> Address:
    return Address(socket.AF_INET, ("127.0.0.1", port))


@dataclass
class Place:
    """Where a scenario runs."""

    name: str
    pub: Node
    sub: Node
    others: float = 0.0  # cores that were busy with other work

    def measure(self, plan: Plan) -> Result:
        pids = sorted({self.pub.pid, self.sub.pid})
        swarm = Crossing(self.pub.port, self.sub.port, plan.version)
        time.sleep(SETTLE_S)
        began, busy_s = time.monotonic(), _busy_s()
        try:
            result = run_traffic(swarm, plan, Meter(pids), lambda part, count: True)
        finally:
            swarm.close()
        busy_s = _busy_s() - busy_s - result.usage.load_cpu_s - (result.usage.broker_cpu_s or 0.0)
        self.others = max(busy_s, 0.0) / (time.monotonic() - began)
        if result.is_faulty:
            raise Broken(f"{self.name}, {plan.title}: {json.dumps(result.to_json())}")
        return result


def _busy_s() -> float:
    """Processor time that this machine has used since its start."""
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    idle = int(fields[3]) + int(fields[4])
    return float(sum(map(int, fields[:8])) - idle) / os.sysconf("SC_CLK_TCK")


@dataclass
class Row:
    """The figures of one scenario at one place, a value for each round."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, result: Result, others: float) -> None:
        cpu_s = result.usage.broker_cpu_s or 0.0
        for name, value in (
            ("msg/s", result.received_per_s),
            ("cpu us", cpu_s * 1e6 / max(result.received, 1)),
            ("p50 ms", result.latency.quantile(0.5) / 1e6),
            ("p99 ms", result.latency.quantile(0.99) / 1e6),
            ("lost", float(result.lost)),
            ("others", others),
        ):
            self.values.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        return median(self.values[name])

    def compared(
        self, name: str, base: "Row", how: Callable[[float, float], float]
    ) -> tuple[float, float, float]:
        """Median, lowest and highest of a comparison within each round."""
        pairs = zip(self.values[name], base.values[name], strict=True)
        found = [how(mine, theirs) for mine, theirs in pairs]
        return median(found), min(found), max(found)


def measure(places: list[Place], plans: list[Plan], rounds: int) -> dict[tuple[str, str], Row]:
    rows: dict[tuple[str, str], Row] = {}
    for number in range(rounds):
        for plan in plans:
            # Whoever is first finds a quieter machine, or a busier one.
            for place in places if number % 2 == 0 else reversed(places):
                result = place.measure(plan)
                rows.setdefault((plan.title, place.name), Row()).add(result, place.others)
    return rows


def quietest(rows: dict[tuple[str, str], Row], count: int) -> dict[tuple[str, str], Row]:
    """Of each load the rounds in which other work disturbed least."""
    found = {}
    for (title, place), row in rows.items():
        others = [r.values["others"] for (t, _), r in rows.items() if t == title]
        worst = [max(each) for each in zip(*others, strict=True)]
        kept = sorted(range(len(worst)), key=worst.__getitem__)[:count]
        values = {name: [each[index] for index in kept] for name, each in row.values.items()}
        found[title, place] = Row(values)
    return found


def show(rows: dict[tuple[str, str], Row], plans: list[Plan], places: list[Place]) -> None:
    print(f"{'load':<22}{'at':<9}{'msg/s':>9}{'ratio':>19}{'CPU us':>8}{'ratio':>19}", end="")
    print(f"{'p50 ms':>8}{'p99 ms':>8}{'added':>22}{'lost':>6}{'others':>8}")
    for plan in plans:
        base = rows[plan.title, SINGLE]
        for place in places:
            row = rows[plan.title, place.name]
            line = f"{plan.title:<22}{place.name:<9}{row.median('msg/s'):>9,.0f}"
            line += f"{_range(row.compared('msg/s', base, _ratio)):>19}"
            line += f"{row.median('cpu us'):>8.2f}"
            line += f"{_range(row.compared('cpu us', base, _ratio)):>19}"
            line += f"{row.median('p50 ms'):>8.2f}{row.median('p99 ms'):>8.2f}"
            line += f"{_range(row.compared('p99 ms', base, _difference)):>22}"
            print(line + f"{row.median('lost'):>6.0f}{row.median('others'):>8.2f}")


def _ratio(mine: float, theirs: float) -> float:
    return mine / theirs if theirs else 0.0


def _difference(mine: float, theirs: float) -> float:
    return mine - theirs


def _range(found: tuple[float, float, float]) -> str:
    middle, low, high = found
    return f"{middle:.2f} ({low:.2f}-{high:.2f})"


def announce(house: House, filters: int) -> None:
    """What it takes to join a node whose clients hold many filters."""
    empty = house.join("empty")
    first = _joined(house, "first", empty)
    full = house.join("full")
    with _client(full.port) as client:
        _subscribe(client, filters)
        second = _joined(house, "second", full)
        bytes_each = (second.rss - first.rss) / filters
        print(
            f"joining a node with {filters:,} filters: {second.seconds:.2f} s from the start of "
            f"the process until it is ready, {first.seconds:.2f} s with none; "
            f"{bytes_each:,.0f} bytes for each remote filter"
        )
        for node in (empty, first.node, full, second.node):
            node.stop()


@dataclass
class Joined:
    node: Node
    seconds: float
    rss: int


def _joined(house: House, name: str, other: Node) -> Joined:
    node = house.join(name, other.says(FOR_PEERS))
    if node.says(READY) != "1":
        raise Broken(f"{name} did not find the other node")
    seconds = node.age_s()
    time.sleep(SETTLE_S)
    return Joined(node, seconds, node.rss())


@contextmanager
def _client(port: int) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", port), PATIENCE_S) as client:
        client.sendall(connect("holder", 4, 0, None, None))
        _expect(client, 4)
        yield client


def _subscribe(client: socket.socket, filters: int) -> None:
    at_once = 500
    for start in range(0, filters, at_once):
        stop = min(start + at_once, filters)
        names = [f"building/{n % 100}/floor/{n // 100}/+/state" for n in range(start, stop)]
        client.sendall(b"".join(subscribe(1, name, 0, 4) for name in names))
        _expect(client, 5 * len(names))


def _expect(client: socket.socket, size: int) -> None:
    while size:
        data = client.recv(size)
        if not data:
            raise Broken("the node hung up")
        size -= len(data)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--rounds", type=int, default=5, metavar="N", help="of each figure (5)")
    add("--quietest", type=int, default=0, metavar="N", help="use only so many rounds (all)")
    add("--seconds", type=float, default=2.0, metavar="S", help="for one figure (2)")
    add("--size", type=int, default=64, metavar="BYTES", help="payload (64)")
    add("--pairs", type=int, default=10, metavar="N", help="publishers and subscribers (10)")
    add("--window", type=int, default=100, metavar="N", help="of a publisher (100)")
    add("--rate", type=int, default=1000, metavar="N", help="of the paced messages (1000)")
    add("--filters", type=int, default=100_000, metavar="N", help="to announce; 0: none (100000)")
    add("--loads", default="qos0,qos1,fan-out,paced", help="some of qos0,qos1,qos2,fan-out,paced")
    add("--bin", type=Path, default=Path(sys.executable).parent, metavar="DIR",
        help="the twistd to measure (of this Python)")  # fmt: skip
    add("--other", type=Path, metavar="DIR",
        help="the twistd of another release, as a second single node")  # fmt: skip
    add("--json", type=Path, metavar="FILE", help="write all values there")
    return parser.parse_args()


def _plans(options: argparse.Namespace) -> list[Plan]:
    base = Plan(
        THROUGHPUT,
        size=options.size,
        pubs=options.pairs,
        subs=options.pairs,
        window=options.window,
        rate=options.rate,
        seconds=options.seconds,
    )
    known = {f"qos{qos}": [replace(base, qos=qos)] for qos in (0, 1, 2)}
    known["fan-out"] = [replace(base, scenario=FAN_OUT, pubs=1, subs=100)]
    known["paced"] = [replace(base, scenario=LATENCY, qos=qos) for qos in (0, 1)]
    try:
        return [plan for name in options.loads.split(",") if name for plan in known[name]]
    except KeyError as error:
        raise Broken(f"--loads has no {error}") from None


def main() -> int:
    options = _options()
    try:
        plans = _plans(options)
        with ExitStack() as stack:
            house = House(options.bin)
            stack.callback(house.close)
            if plans:
                _run(house, plans, options)
            if options.filters:
                announce(house, options.filters)
    except Broken as error:
        print(error, file=sys.stderr)
        return 1
    return 0


def _run(house: House, plans: list[Plan], options: argparse.Namespace) -> None:
    print(f"{build.describe()}; {options.rounds} rounds of {options.seconds:g} s, ", end="")
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    alone = house.start(CONFIG)
    first = house.join("a")
    second = house.join("b", first.says(FOR_PEERS))
    second.says(READY)
    places = [Place(SINGLE, alone, alone), Place(CLUSTER, first, second)]
    if options.other is not None:
        other = house.start(CONFIG, options.other)
        places.append(Place(OTHER, other, other))
    rows = measure(places, plans, options.rounds)
    if options.json is not None:
        _keep(rows, options.json)
    show(quietest(rows, options.quietest or options.rounds), plans, places)


def _keep(rows: dict[tuple[str, str], Row], path: Path) -> None:
    found: dict[str, Any] = {}
    for (title, place), row in rows.items():
        found.setdefault(title, {})[place] = row.values
    path.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
