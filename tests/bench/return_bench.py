"""What a subscriber notices when its node was killed and comes back: are there gaps?

    python tests/bench/return_bench.py [--store sqlite|redis|memory] [--queued N] [--rate N]

Three nodes, a subscriber with a lasting session at the third.  That node is killed, messages are
published at both others, the node is started again, and the subscriber is back as soon as it
listens.  With --rate, publishing goes on meanwhile.  The figure is the longest time without a
delivery while there is something to deliver.

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import os
import struct
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Final

# Last, so that the installed mhub comes first; the tests themselves are never installed.
sys.path.append(str(Path(__file__).resolve().parent.parent.parent))

from move_bench import Client, _packet, _text

from mhub import build
from tests.helpers.redis import RedisServer
from tests.system.cluster_processes import MEMORY, PORT, ClusterProcesses
from tests.system.process import wait_until

PATIENCE_S: Final = 120.0
SHOWN: Final = 5

SQLITE: Final = 'path = "mhub.sqlite"'
TIMING: Final = "retry_s = 0.1\nretry_max_s = 1\nfailover = false\n"


class Publisher(threading.Thread):
    """`count` messages at once, then `rate` a second until it is told to stop."""

    def __init__(self, host: str, name: str, count: int, size: int, qos: int) -> None:
        super().__init__(daemon=True)
        self._client = Client(PORT, f"publisher-{name}", clean=True, host=host)
        self._topic = f"r/{name}"
        self._count = count
        self._size = size
        self._qos = qos
        self._sent = 0
        self.acknowledged = 0
        self.is_over = False
        self.rate = 0

    def run(self) -> None:
        while self._sent < self._count:
            self._publish(100)
        while not self.is_over:
            if self.rate:
                self._publish(max(1, self.rate // 100))
            time.sleep(0.01)

    def _publish(self, count: int) -> None:
        frames, pids = [], []
        for _ in range(count):
            body = struct.pack(">Q", self._sent) + bytes(self._size - 8)
            self._sent += 1
            pids.append(struct.pack(">H", self._sent % 60_000 + 1))
            first = 0x30 | self._qos << 1
            frames.append(_packet(first, _text(self._topic) + pids[-1] + body))
        self._client.sock.sendall(b"".join(frames))
        self._client.read(4 * count)
        if self._qos == 2:
            self._client.sock.sendall(b"".join(b"\x62\x02" + pid for pid in pids))
            self._client.read(4 * count)
        self.acknowledged += count


class Subscriber(threading.Thread):
    """Acknowledges what comes, and writes down when it came."""

    def __init__(self, client: Client, connected: float, pace: int) -> None:
        super().__init__(daemon=True)
        self.connected = connected
        self._pace = pace  # so many a second at most; 0: as they come
        self._sock = client.sock
        self._sock.settimeout(PATIENCE_S)
        self.waits: list[tuple[float, float]] = []  # how long it waited for more, since when
        self.last_at = connected
        self.count = 0
        self.last: dict[bytes, int] = {}
        self.again = 0

    def run(self) -> None:
        data = b""
        while True:
            began = time.perf_counter()
            more = self._sock.recv(1 << 18)
            if not more:
                return
            data += more
            acks, pos = [], 0
            while (end := _end_of(data, pos)) is not None:
                body = pos + 2 + (data[pos + 1] >= 128)
                if data[pos] >> 4 == 3:
                    acks.append(self._took(data, body, data[pos] & 6))
                elif data[pos] >> 4 == 6:
                    acks.append(b"\x70\x02" + data[body : body + 2])
                pos = end
            data = data[pos:]
            if acks:
                self.last_at = time.perf_counter()
                self.waits.append((self.last_at - began, began - self.connected))
                if self._pace:
                    time.sleep(len(acks) / self._pace)
                self._sock.sendall(b"".join(acks))

    def _took(self, data: bytes, body: int, qos: int) -> bytes:
        size = struct.unpack_from(">H", data, body)[0]
        topic = data[body + 2 : body + 2 + size]
        at = body + 2 + size
        number = struct.unpack_from(">Q", data, at + 2)[0]
        if number <= self.last.get(topic, -1):
            self.again += 1
        elif number != self.last.get(topic, -1) + 1:
            raise SystemExit(f"{topic!r}: {number} after {self.last.get(topic)}")
        self.last[topic] = max(number, self.last.get(topic, -1))
        self.count += 1
        return (b"\x50\x02" if qos == 4 else b"\x40\x02") + data[at : at + 2]


def _end_of(data: bytes, pos: int) -> int | None:
    """Of the packet at pos, if all of it is there; none here has more than 16 KiB."""
    if len(data) < pos + 3:
        return None
    length, head = data[pos + 1] & 0x7F, 2
    if data[pos + 1] >= 128:
        length, head = length | data[pos + 2] << 7, 3
    end = pos + head + length
    return end if end <= len(data) else None


def _back(host: str, name: str) -> Client:
    """As soon as the node listens."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            return Client(PORT, name, host=host)
        except (OSError, SystemExit):
            time.sleep(0.01)
    raise SystemExit("the node does not come back")


def measure(cluster: ClusterProcesses, args: argparse.Namespace) -> None:
    cluster.add("a", "b", "c")
    cluster.start()
    wait_until(cluster.whole, "the cluster is whole", PATIENCE_S)
    hosts = {name: node.host for name, node in cluster.nodes.items()}
    names = [f"subscriber-{number}" for number in range(args.subscribers)]
    clients = [Client(PORT, name, host=hosts["c"]) for name in names]
    for client in clients:
        client.subscribe("r/#", args.qos)
    cluster.kill("c")
    for client in clients:
        client.close()
    half = args.queued // 2
    publishers = [Publisher(hosts[name], name, half, args.size, args.qos) for name in "ab"]
    for each in publishers:
        each.start()
    while sum(each.acknowledged for each in publishers) < 2 * half:
        time.sleep(0.05)
    cluster.start("c")
    began = time.perf_counter()
    for each in publishers:
        each.rate = args.rate // 2
    subscribers = []
    for name in names:
        client = _back(hosts["c"], name)
        if client.connack[2] != 1:
            raise SystemExit("the session was not there")
        subscribers.append(Subscriber(client, time.perf_counter(), args.pace))
        subscribers[-1].start()
    if args.rate:
        time.sleep(args.seconds)
    for each in publishers:
        each.is_over = True
    for each in publishers:
        each.join()
    total = sum(each.acknowledged for each in publishers)
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if all(each.count - each.again >= total for each in subscribers):
            break
        time.sleep(0.01)
    for each in subscribers:
        _report(each, began, total)


def _report(subscriber: Subscriber, began: float, total: int) -> None:
    connected = subscriber.connected
    waits = sorted(subscriber.waits, reverse=True)
    last = subscriber.last_at
    rate = subscriber.count / (last - connected)
    print(
        f"{subscriber.count - subscriber.again} of {total}, {subscriber.again} again;"
        f" back after {connected - began:.2f} s, all {last - connected:.2f} s later:"
        f" {rate:,.0f}/s"
    )
    shown = ", ".join(f"{wait:.3f} s at {at:.2f}" for wait, at in waits[:SHOWN])
    print(f"       longest without a delivery: {shown}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="return_bench", description=__doc__.split("\n")[0])
    parser.add_argument("--store", choices=("sqlite", "redis", "memory"), default="sqlite")
    parser.add_argument("--queued", type=int, default=44_000)
    parser.add_argument("--size", type=int, default=100)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--subscribers", type=int, default=1)
    parser.add_argument("--qos", type=int, choices=(1, 2), default=1)
    parser.add_argument("--pace", type=int, default=0, help="what a subscriber takes in a second")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--logs", action="store_true", help="show those of the nodes")
    args = parser.parse_args()
    print(f"mhub {build.kind()} build, store {args.store}, load {os.getloadavg()[0]:.2f}")
    store, server = {"sqlite": SQLITE, "memory": MEMORY}.get(args.store, ""), None
    if args.store == "redis":
        server = RedisServer("appendonly yes", "appendfsync everysec")
        store = f'kind = "redis"\nredis.port = {server.port}'
    with tempfile.TemporaryDirectory(prefix="mhub-return-") as directory:
        cluster = ClusterProcesses(Path(directory), store=store, timing=TIMING)
        try:
            measure(cluster, args)
        finally:
            if args.logs:
                print(cluster.describe())
            cluster.close()
            if server is not None:
                server.remove()
    return 0


if __name__ == "__main__":
    sys.exit(main())
