"""What a link carries: two processes on loopback, one sends, the other counts.

    python -m tests.cluster.bench_link [MiB to send per figure] [KiB in a part]

Prints frames and megabytes in a second, CPU microseconds for a frame at both ends, and the time
of a round trip.
"""

import subprocess
import sys
import time
from typing import Any

from twisted.internet import reactor as installed
from twisted.internet.defer import Deferred
from twisted.internet.task import react

from mhub.cluster import link
from mhub.cluster.contract import LinkEnd
from mhub.cluster.link import Links, LinkSettings

SIZES = (64, 1024, 16 * 1024, 64 * 1024, 256 * 1024, 1024 * 1024, 8 * 1024 * 1024)
MOST = 50_000  # frames of one size
WINDOW = 4 * 1024 * 1024  # bytes that may be under way
DATA, TAKEN, DONE = range(3)

reactor: Any = installed


class End:
    """Either process's node."""

    def __init__(self) -> None:
        self.up: Deferred[LinkEnd] = Deferred()
        self.under_way = 0
        self.room: Deferred[bytes] | None = None
        self.done: Deferred[bytes] | None = None

    def hello(self) -> bytes:
        return b"bench"

    def refusal(self, hello: bytes) -> str:
        return ""

    def name_of(self, hello: bytes) -> str:
        return "bench"

    def opened(self, link: LinkEnd, hello: bytes) -> None:
        self.up.callback(link)

    def received(self, link: LinkEnd, kind: int, body: bytes) -> None:
        if kind == DONE:
            assert self.done is not None
            self.done.callback(body)
            return
        self.under_way -= int.from_bytes(body, "big")
        if self.room is not None and self.under_way < WINDOW // 2:
            room, self.room = self.room, None
            room.callback(body)

    def lost(self, link: LinkEnd, text: str) -> None:
        reactor.stop()

    def dial_failed(self, address: str, text: str) -> None:
        print(text)
        reactor.stop()


class Counter(End):
    """The end that takes what comes, and says so now and then."""

    untold = 0

    def received(self, link: LinkEnd, kind: int, body: bytes) -> None:
        self.untold += len(body)
        if kind == DONE:
            spent = int(time.process_time() * 1e6)
            link.send(DONE, spent.to_bytes(8, "big"))
            self.untold = 0
        elif self.untold > WINDOW // 8:
            link.send(TAKEN, self.untold.to_bytes(8, "big"))
            self.untold = 0


async def asked(end: End, link: LinkEnd) -> int:
    """How much CPU time the other side has spent, in microseconds."""
    end.done = Deferred()
    link.send(DONE, b"")
    spent = int.from_bytes(await end.done, "big")
    end.under_way = 0
    return spent


async def measure(end: End, link: LinkEnd, size: int, count: int) -> None:
    body = bytes(size)
    spent = await asked(end, link)
    began, cpu = time.perf_counter(), time.process_time()
    for at in range(count):
        link.send(DATA, body)
        end.under_way += size
        if end.under_way > WINDOW:
            end.room = Deferred()
            await end.room
        elif at % 64 == 63:
            turn: Deferred[None] = Deferred()
            reactor.callLater(0, turn.callback, None)
            await turn
    spent = await asked(end, link) - spent
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(
        f"{size:9d} bytes: {count / seconds:8.0f} frames/s {count * size / seconds / 1e6:7.1f} "
        f"MB/s   CPU us a frame: {cpu / count * 1e6:7.1f} to send {spent / count:7.1f} to take",
        flush=True,
    )


async def round_trips(end: End, link: LinkEnd, count: int) -> None:
    began = time.perf_counter()
    for _ in range(count):
        await asked(end, link)
    print(f"round trip: {(time.perf_counter() - began) / count * 1e6:.0f} us", flush=True)


async def send(mebibytes: int) -> None:
    command = [sys.executable, "-m", "tests.cluster.bench_link", "count", *sys.argv[2:]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        port = int(other.stdout.readline())
        end = End()
        links = Links(end, LinkSettings("127.0.0.1", 0, b"secret"), reactor)
        links.dial(f"127.0.0.1:{port}")
        link = await end.up
        for size in SIZES:
            await measure(end, link, size, min(MOST, mebibytes * 1024 * 1024 // size))
        await round_trips(end, link, 2000)
        await links.stop()
        other.wait(10)


def main() -> None:
    if len(sys.argv) > 2:
        link.PART = int(sys.argv[2]) * 1024  # type: ignore[misc]
    if sys.argv[1:2] == ["count"]:
        links = Links(Counter(), LinkSettings("127.0.0.1", 0, b"secret"), reactor)
        print(links.listen(), flush=True)
        reactor.run()
    else:
        mebibytes = int(sys.argv[1]) if len(sys.argv) > 1 else 512
        react(lambda _: Deferred.fromCoroutine(send(mebibytes)))


if __name__ == "__main__":
    main()
