"""How fast a queue in SQLite drains: a lasting session, a broker that was started anew.

    python tests/bench/drain_bench.py [--queued N] [--portion N ...] [--inflight N ...]

For each pair of `net.portion` and `limits.max_inflight`: messages a second, the broker's processor
time, and how long the client waited for more than 50 ms at a time, which is time that nobody used.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

# Last, so that the installed mhub comes first; the tests themselves are never installed.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from move_bench import Client

from mhub import build
from tests.system.process import Broker

LONG_S: Final = 0.05
PAYLOAD: Final = 64
CONFIG: Final = """
[[listeners]]
name = "plain"
port = 0
[limits]
max_queued_messages = 0
max_queued_bytes = 0
max_inflight = {inflight}
[net]
portion = {portion}
[store]
path = "mhub.sqlite"
[control]
path = ""
"""


def _config(portion: int, inflight: int) -> str:
    return CONFIG.format(portion=portion, inflight=inflight)


def fill(directory: Path, count: int) -> None:
    broker = Broker(directory, _config(500, 100))
    broker.start()
    away = Client(broker.port, "away")
    away.subscribe("q", 1)
    away.close()
    sender = Client(broker.port, "sender", clean=True)
    sender.publish("q", count, PAYLOAD)
    sender.close()
    broker.signal(signal.SIGTERM)
    broker.wait()


def drain(directory: Path, portion: int, inflight: int, count: int) -> None:
    broker = Broker(directory, _config(portion, inflight))
    broker.start()
    used, began = _cpu_s(broker.pid), time.perf_counter()
    client = Client(broker.port, "away")
    received, long_waits, rest = 0, 0.0, b""
    while received < count:
        asked = time.perf_counter()
        data = client.sock.recv(1 << 18)
        waited = time.perf_counter() - asked
        if not data:
            raise SystemExit("the connection was closed")
        if waited > LONG_S:
            long_waits += waited
        rest += data
        acks, at = [], 0
        while at + 2 <= len(rest) and at + 2 + rest[at + 1] <= len(rest):
            acks.append(b"\x40\x02" + rest[at + 5 : at + 7])  # behind the topic, "q"
            at += 2 + rest[at + 1]
        rest = rest[at:]
        received += len(acks)
        client.sock.sendall(b"".join(acks))
    took, used = time.perf_counter() - began, _cpu_s(broker.pid) - used
    print(
        f"portion {portion:5}  max_inflight {inflight:5}  {count / took:9,.0f} msg/s"
        f"  {1e6 * used / count:5.2f} us CPU a message  {100 * long_waits / took:3.0f} % waited",
        flush=True,
    )
    client.close()
    broker.signal(signal.SIGTERM)
    broker.wait()


def _cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--queued", type=int, default=200_000)
    parser.add_argument("--portion", type=int, nargs="+", default=[50, 500, 2000])
    parser.add_argument("--inflight", type=int, nargs="+", default=[20, 100, 1000, 5000, 65535])
    asked = parser.parse_args()
    print(f"{asked.queued} messages of {PAYLOAD} bytes; mhub {build.kind()} build")
    with tempfile.TemporaryDirectory() as name:
        full = Path(name, "full")
        full.mkdir()
        fill(full, asked.queued)
        for portion in asked.portion:
            for inflight in asked.inflight:
                copy = Path(name, "copy")
                shutil.copytree(full, copy, ignore=shutil.ignore_patterns("broker.*"))
                drain(copy, portion, inflight, asked.queued)
                shutil.rmtree(copy)


if __name__ == "__main__":
    main()
