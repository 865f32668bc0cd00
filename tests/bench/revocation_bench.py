"""How long a change at one node takes until a client of another one feels it.

    python tests/bench/revocation_bench.py [--clients N] [--changes N]

Two nodes, each with its SQLite file.  N clients are connected to the second one and have a
subscription; the changes are made at the first one, by its control socket, one after the other:

    lock    a user is locked: until its client has read the DISCONNECT
    deny    a rule forbids a client a topic: until it has read the first PUBACK that says so.  It
            publishes all the time, so this includes the way of one message there and back
    answer  until the command has its answer: the change is safe, and in force on both nodes

It is a script and not a module of the tests, so that the source tree does not hide the compiled
build that is installed beside this Python.
"""

import argparse
import socket
import struct
import sys
import threading
import time
from pathlib import Path
from typing import Final

from cluster_bench import FOR_PEERS, House, Node

from mhub import build
from mhub.ctl.client import call

PATIENCE_S: Final = 60.0
AT_ONCE: Final = 200
NOT_AUTHORIZED: Final = 0x87

CONFIG: Final = """
[[listeners]]
port = 0
allow_anonymous = true
[[auth]]
type = "registry"
[access]
[passwords]
memory = "64 KiB"
iterations = 1
scram_iterations = 4096
[cluster]
name = "bench"
node = "{node}"
port = 0
peers = [{peers}]
secret = "known to nobody but this run"
"""

POLICY: Final = (
    ["p", "role:anonymous", "*", "connect", "#", "any", "allow"],
    ["p", "role:anonymous", "*", "subscribe|receive", "crowd/%c", "any", "allow"],
    ["p", "role:probe", "*", "*", "probes/%u/#", "any", "allow"],
    ["p", "role:probe", "*", "connect", "#", "any", "allow"],
)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">H", len(data)) + data


def _packet(first: int, body: bytes) -> bytes:
    assert len(body) < 128
    return bytes([first, len(body)]) + body


def _read(sock: socket.socket) -> bytes:
    """The next packet; b"": there is none any more."""
    head = sock.recv(2, socket.MSG_WAITALL)
    if len(head) < 2:
        return b""
    size, shift, at = head[1] & 127, 7, head[1]
    while at & 128:
        at = sock.recv(1)[0]
        size |= (at & 127) << shift
        shift += 7
    return head[:1] + sock.recv(size, socket.MSG_WAITALL) if size else head[:1]


def _connect(port: int, client_id: str, user: str = "") -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    flags, credentials = (0xC2, _text(user) + _text("pw")) if user else (0x02, b"")
    head = _text("MQTT") + bytes([5, flags]) + b"\0\0\0"
    sock.sendall(_packet(0x10, head + _text(client_id) + credentials))
    return sock


def _accepted(sock: socket.socket, what: int) -> None:
    packet = _read(sock)
    if not packet or packet[0] != what or packet[2 if what == 0x20 else -1] >= 0x80:
        raise SystemExit(f"expected {what:#x}, and got {packet.hex()}")


def crowd(port: int, count: int) -> list[socket.socket]:
    """Clients that are connected, each with a subscription of its own."""
    found: list[socket.socket] = []
    for first in range(0, count, AT_ONCE):
        names = [f"crowd-{n}" for n in range(first, min(first + AT_ONCE, count))]
        some = [_connect(port, name) for name in names]
        for sock, name in zip(some, names, strict=True):
            _accepted(sock, 0x20)
            sock.sendall(_packet(0x82, b"\0\1\0" + _text(f"crowd/{name}") + b"\1"))
        for sock in some:
            _accepted(sock, 0x90)
        found += some
    return found


class Probe:
    """A client that notices the change."""

    def __init__(self, port: int, user: str) -> None:
        self.user = user
        self.felt_at = 0.0
        self.sock = _connect(port, user, user)
        _accepted(self.sock, 0x20)

    def wait_for_disconnect(self) -> None:
        while (packet := _read(self.sock)) and packet[0] != 0xE0:
            pass
        self.felt_at = time.perf_counter()

    def publish_until_denied(self) -> None:
        message = _packet(0x32, _text(f"probes/{self.user}/x") + b"\0\1\0")
        while True:
            self.sock.sendall(message)
            packet = _read(self.sock)
            if not packet or (len(packet) > 3 and packet[3] == NOT_AUTHORIZED):
                break
        self.felt_at = time.perf_counter()


def measure(port: int, path: str, user: str, kind: str) -> tuple[float, float]:
    """Seconds from the change to its effect, and to its answer."""
    probe = Probe(port, user)
    what = probe.wait_for_disconnect if kind == "lock" else probe.publish_until_denied
    feeling = threading.Thread(target=what, daemon=True)
    feeling.start()
    began = time.perf_counter()
    if kind == "lock":
        call(path, "access/user-lock", {"name": user})
    else:
        row = ["p", f"user:{user}", "*", "publish", f"probes/{user}/x", "any", "deny"]
        call(path, "access/rules-change", {"add": [row]})
    answered = time.perf_counter()
    feeling.join(PATIENCE_S)
    if not probe.felt_at:
        raise SystemExit(f"{kind}: {user} has not felt it within {PATIENCE_S:g} s")
    probe.sock.close()
    return probe.felt_at - began, answered - began


def report(name: str, times: list[float]) -> None:
    ordered = sorted(times)
    p50, p99 = (ordered[min(int(len(ordered) * part), len(ordered) - 1)] for part in (0.5, 0.99))
    print(
        f"{name:18} p50 {p50 * 1000:7.1f} ms   p99 {p99 * 1000:7.1f} ms"
        f"   most {ordered[-1] * 1000:7.1f} ms   ({len(ordered)} changes)"
    )


def run(house: House, clients: int, changes: int) -> None:
    a = house.start(CONFIG.format(node="a", peers=""))
    b = house.start(CONFIG.format(node="b", peers=f'"{a.says(FOR_PEERS)}"'))
    path = _control(a)
    while call(path, "cluster-status")["members"] == []:  # type: ignore[index]
        time.sleep(0.05)
    call(path, "access/rules-change", {"add": list(POLICY), "replace_all": True})
    call(path, "access/role-add", {"name": "probe"})
    users = [f"probe-{n}" for n in range(changes)]
    for user in users:
        call(
            path,
            "access/user-add",
            {"name": user, "password": "pw", "values": {"roles": ["probe"]}},
        )
    began = time.perf_counter()
    held = crowd(b.port, clients)
    print(f"{len(held)} clients connected to node b in {time.perf_counter() - began:.1f} s")
    effects: dict[str, list[float]] = {"lock": [], "deny": []}
    answers: list[float] = []
    for n, user in enumerate(users):
        kind = "lock" if n % 2 == 0 else "deny"
        effect_s, answer_s = measure(b.port, path, user, kind)
        effects[kind].append(effect_s)
        answers.append(answer_s)
    for kind, times in effects.items():
        report(f"{kind}, effect", times)
    report("answer", answers)


def _control(node: Node) -> str:
    return str(node.directory / "mhub-data" / "control.sock")


def main() -> None:
    parser = argparse.ArgumentParser(description="How long a change takes to reach clients.")
    parser.add_argument("--clients", type=int, default=10_000, metavar="N")
    parser.add_argument("--changes", type=int, default=200, metavar="N")
    args = parser.parse_args()
    print(build.describe())
    house = House(Path(sys.executable).parent)
    try:
        run(house, args.clients, args.changes)
    finally:
        house.close()


if __name__ == "__main__":
    main()
