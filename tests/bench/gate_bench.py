"""What access control costs a message: a broker with rules against one without, in the same run.

    python tests/bench/gate_bench.py [--rounds 7] [--seconds 1.5] [--rules 10000]

Both have the memory store and one listener on loopback for anybody; the one has 10,000 rules, of
which two allow what `mhub bench` does.  Rounds are interleaved and begin with either broker in
turn.  A figure is the median of its rounds, a ratio the median of the ratios within a round.  CPU
for a message is what to trust on a machine that does other things as well: the bar, that the broker
with rules reaches 90 % of the other one, is judged by it.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from mhub import build

PATIENCE_S: Final = 60.0
BAR: Final = 0.9
LISTENING: Final = re.compile(r"listening on \w+://\S+:(\d+)")
LOADS: Final = (("throughput", 0), ("throughput", 1), ("throughput", 2), ("fan-out", 0))
BARS: Final = (("throughput", 0), ("throughput", 1))

CONFIG: Final = """
[[listeners]]
port = 0
[limits]
max_queued_messages = 0
max_queued_bytes = 0
max_inflight = 1000
[sys]
interval_s = 0
[control]
path = ""
[store]
kind = "memory"
"""

RULES: Final = """
p, role:everyone, *, connect, #, any, allow
p, role:everyone, *, publish|subscribe|receive, mhub-bench/#, any, allow
p, role:everyone, *, publish, +/+/secret/#, any, deny
"""


class Broker:
    def __init__(self, directory: Path, rules: int) -> None:
        directory.mkdir()
        config = CONFIG
        if rules:
            config += '[access]\npolicy = "rules.csv"\n'
            lines = [
                f"p, role:r{n % 1000}, *, publish|subscribe, site/{n}/%c/#, any, allow\n"
                for n in range(rules)
            ]
            (directory / "rules.csv").write_text(RULES + "".join(lines))
        (directory / "mhub.toml").write_text(config)
        self._log = directory / "log"
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "mhub", "run", "--config", "mhub.toml"],
                cwd=directory,
                stdout=log,
                stderr=log,
            )
        self.port = self._port()

    def _port(self) -> int:
        patience = time.monotonic() + PATIENCE_S
        while not (found := LISTENING.search(self._log.read_text())):
            if self.process.poll() is not None or time.monotonic() > patience:
                raise SystemExit(f"the broker does not start:\n{self._log.read_text()}")
            time.sleep(0.05)
        return int(found[1])

    def measure(self, scenario: str, qos: int, seconds: float) -> dict[str, Any]:
        ended = subprocess.run(
            [
                *(sys.executable, "-m", "mhub", "bench", "--scenario", scenario, "--qos", str(qos)),
                *("--seconds", str(seconds), "--pid", str(self.process.pid), "--json"),
                f"mqtt://127.0.0.1:{self.port}",
            ],
            cwd=tempfile.gettempdir(),
            capture_output=True,
            text=True,
        )
        if ended.returncode:
            raise SystemExit(ended.stderr)
        found: dict[str, Any] = json.loads(ended.stdout)["results"][0]
        if found["lost"] or found["duplicated"]:
            raise SystemExit(f"lost or doubled messages: {found}")
        return found

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait()


def compare(brokers: dict[str, Broker], rounds: int, seconds: float) -> int:
    """Print a line for each load; how many are below the bar."""
    found: dict[tuple[str, int], dict[str, list[dict[str, Any]]]] = {}
    for number in range(rounds):
        names = list(brokers) if number % 2 else list(reversed(brokers))
        for scenario, qos in LOADS:
            for name in names:
                result = brokers[name].measure(scenario, qos, seconds)
                found.setdefault((scenario, qos), {}).setdefault(name, []).append(result)
    below = 0
    print(f"{'CPU us a message':22}{'off':>8}{'on':>8}{'off / on':>10}{'rate on / off':>15}")
    for (scenario, qos), results in found.items():
        cpu = {n: [each["broker_cpu_us_each"] for each in r] for n, r in results.items()}
        rate = {n: [each["received_per_s"] for each in r] for n, r in results.items()}
        share = median(a / b for a, b in zip(cpu["off"], cpu["on"], strict=True))
        faster = median(b / a for a, b in zip(rate["off"], rate["on"], strict=True))
        judged = ""
        if (scenario, qos) in BARS:
            judged = f"   bar {BAR:g}: {'ok' if share >= BAR else 'BELOW'}"
            below += share < BAR
        print(
            f"{scenario + f', QoS {qos}':22}{median(cpu['off']):8.2f}{median(cpu['on']):8.2f}"
            f"{share:10.2f}{faster:15.2f}{judged}"
        )
    return below


def main() -> int:
    parser = argparse.ArgumentParser(description="what access control costs a message")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=1.5)
    parser.add_argument("--rules", type=int, default=10_000)
    options = parser.parse_args()
    print(f"{build.describe()}; access control off and on, {options.rounds} rounds")
    with tempfile.TemporaryDirectory(prefix="mhub-bench-") as scratch:
        brokers: dict[str, Broker] = {}
        try:
            brokers["off"] = Broker(Path(scratch) / "off", 0)
            brokers["on"] = Broker(Path(scratch) / "on", options.rules)
            return 1 if compare(brokers, options.rounds, options.seconds) else 0
        finally:
            for broker in brokers.values():
                broker.stop()


if __name__ == "__main__":
    sys.exit(main())
