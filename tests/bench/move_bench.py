"""What it costs a client to go to another node: two nodes, a session that migrates.

    python tests/bench/move_bench.py [--store memory|sqlite]

    move      CONNECT to CONNACK of a session with an empty queue, to the other node and back, and
              of the same client coming back to the node that it was on
    queue     a session with 100,000 messages migrates; how many a second, and what two clients on
              the node that gives it away notice meanwhile
    crowd     1,000 clients change nodes at once: until the last CONNACK

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import re
import selectors
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Final

from cluster_bench import CONFIG, FOR_PEERS, MEMBERSHIP, House, Node

from mhub import build

MOVES: Final = 300
QUEUED: Final = 100_000
CROWD: Final = 1_000
PATIENCE_S: Final = 60.0
UP: Final = re.compile(r"(node \w+ is up)")


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _packet(first: int, body: bytes) -> bytes:
    size, length = len(body), b""
    while True:
        size, low = divmod(size, 128)
        length += bytes([low | (128 if size else 0)])
        if not size:
            return bytes([first]) + length + body


def _connect(client_id: str, clean: bool = False) -> bytes:
    return _packet(0x10, _text("MQTT") + b"\x04" + bytes([2 * clean]) + b"\0\0" + _text(client_id))


class Client:
    def __init__(
        self, port: int, client_id: str, clean: bool = False, host: str = "127.0.0.1"
    ) -> None:
        self.sock = socket.create_connection((host, port), PATIENCE_S)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        began = time.perf_counter()
        self.sock.sendall(_connect(client_id, clean))
        self.connack = self.read(4)
        self.waited_s = time.perf_counter() - began

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            more = self.sock.recv(size - len(data))
            if not more:
                raise SystemExit("a connection was closed")
            data += more
        return data

    def subscribe(self, topic_filter: str, qos: int) -> None:
        self.sock.sendall(_packet(0x82, b"\0\1" + _text(topic_filter) + bytes([qos])))
        self.read(5)

    def publish(self, topic: str, count: int, size: int) -> None:
        """At QoS 1, a hundred at a time."""
        for at in range(0, count, 100):
            frames = [
                _packet(0x32, _text(topic) + struct.pack(">H", n % 60_000 + 1) + bytes(size))
                for n in range(at, min(at + 100, count))
            ]
            self.sock.sendall(b"".join(frames))
            self.read(4 * len(frames))

    def close(self) -> None:
        self.sock.close()


def _quantiles(waits: list[float]) -> str:
    waits = sorted(waits)
    p50, p99 = waits[len(waits) // 2], waits[int(len(waits) * 0.99)]
    return f"p50 {1000 * p50:6.2f} ms   p99 {1000 * p99:6.2f} ms   max {1000 * waits[-1]:6.2f} ms"


def move(ports: list[int]) -> None:
    stays, moves = [], []
    client = Client(ports[0], "mover")
    client.subscribe("move/#", 1)
    for number in range(MOVES):
        client.close()
        client = Client(ports[(number + 1) % 2], "mover")
        moves.append(client.waited_s)
        if client.connack[2] != 1:
            raise SystemExit("the session did not come along")
        client.close()
        client = Client(ports[(number + 1) % 2], "mover")
        stays.append(client.waited_s)
    client.close()
    print(f"move   {MOVES} moves       {_quantiles(moves)}")
    print(f"       the same node   {_quantiles(stays)}")
    added = sorted(a - b for a, b in zip(moves, stays, strict=True))
    p50, p99 = added[MOVES // 2], added[int(MOVES * 0.99)]
    print(f"       added           p50 {1000 * p50:6.2f} ms   p99 {1000 * p99:6.2f} ms")


class Bystander(threading.Thread):
    """A message every few milliseconds from one client of a node to another."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self._to = Client(port, "bystander-to", clean=True)
        self._to.subscribe("by", 1)
        self._from = Client(port, "bystander-from", clean=True)
        self.waits: list[float] = []
        self.is_over = False

    def run(self) -> None:
        frame = _packet(0x32, _text("by") + b"\0\1" + b"x")
        while not self.is_over:
            began = time.perf_counter()
            self._from.sock.sendall(frame)
            got = self._to.read(len(frame))
            self.waits.append(time.perf_counter() - began)
            self._from.read(4)
            self._to.sock.sendall(b"\x40\x02" + got[6:8])
            time.sleep(0.002)


def queue(ports: list[int]) -> None:
    client = Client(ports[0], "sleeper")
    client.subscribe("q", 1)
    client.close()
    time.sleep(0.2)
    publisher = Client(ports[0], "filler", clean=True)
    publisher.publish("q", QUEUED, 100)
    time.sleep(2.0)
    alone = Bystander(ports[0])
    alone.start()
    time.sleep(3.0)
    alone.is_over = True
    alone.join()
    beside = Bystander(ports[0])
    beside.start()
    client = Client(ports[1], "sleeper")
    beside.is_over = True
    beside.join()
    if client.connack[2] != 1:
        raise SystemExit("the session did not come along")
    client.close()
    print(f"queue  {QUEUED} messages in {client.waited_s:.2f} s: {QUEUED / client.waited_s:,.0f}/s")
    print(f"       bystander alone   {_quantiles(alone.waits)}")
    print(f"       beside it         {_quantiles(beside.waits)}")


def crowd(ports: list[int]) -> None:
    for number in range(CROWD):
        client = Client(ports[0], f"one-{number}")
        client.subscribe(f"one/{number}", 1)
        client.close()
    time.sleep(1.0)
    began = time.perf_counter()
    selector = selectors.DefaultSelector()
    for number in range(CROWD):
        sock = socket.create_connection(("127.0.0.1", ports[1]), PATIENCE_S)
        sock.sendall(_connect(f"one-{number}"))
        selector.register(sock, selectors.EVENT_READ)
    waits, present = [], 0
    while len(waits) < CROWD and time.perf_counter() - began < PATIENCE_S:
        for key, _ in selector.select(1.0):
            assert isinstance(key.fileobj, socket.socket)
            present += key.fileobj.recv(4)[2]
            waits.append(time.perf_counter() - began)
            selector.unregister(key.fileobj)
    last = waits[-1] if waits else PATIENCE_S
    print(f"crowd  {len(waits)} of {CROWD} served in {last:.2f} s, {present} with their session")


def main() -> int:
    parser = argparse.ArgumentParser(prog="move_bench", description=__doc__.split("\n")[0])
    parser.add_argument("--store", choices=("memory", "sqlite"), default="memory")
    args = parser.parse_args()
    house = House(Path(sys.executable).parent)
    print(f"mhub {build.kind()} build, store {args.store}")
    try:
        ports = [node.port for node in _two(house, args.store)]
        move(ports)
        queue(ports)
        crowd(ports)
    finally:
        house.close()
    return 0


def _two(house: House, store: str) -> list[Node]:
    config = CONFIG.replace('kind = "memory"', f'kind = "{store}"')
    first = house.start(config + MEMBERSHIP.format(node="a", peers=""))
    peers = f'"{first.says(FOR_PEERS)}"'
    second = house.start(config + MEMBERSHIP.format(node="b", peers=peers))
    for node in (first, second):
        node.says(UP)
    return [first, second]


if __name__ == "__main__":
    sys.exit(main())
