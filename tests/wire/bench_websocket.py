"""How long unframing takes: ours, wsproto's and autobahn's, over the same reads.

    python -m tests.wire.bench_websocket [seconds per figure]

Prints CPU microseconds for a frame.  The others are measured if they are installed, autobahn with
its native masking and, in a second run with AUTOBAHN_USE_NVX=0, without.
"""

import random
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

from mhub.wire import websocket

READ = 65536


def masked(payload: bytes, mask: bytes) -> bytes:
    size = len(payload)
    if size < 126:
        head = bytes((0x82, 0x80 | size))
    elif size < 65536:
        head = bytes((0x82, 0xFE)) + size.to_bytes(2, "big")
    else:
        head = bytes((0x82, 0xFF)) + size.to_bytes(8, "big")
    body = bytes(byte ^ mask[at & 3] for at, byte in enumerate(payload))
    return head + mask + body


def traffic(size: int, count: int) -> list[bytes]:
    rng = random.Random(size)
    stream = b"".join(masked(rng.randbytes(size), rng.randbytes(4)) for _ in range(count))
    return [stream[at : at + READ] for at in range(0, len(stream), READ)]


def single(size: int, count: int) -> list[bytes]:
    rng = random.Random(size)
    return [masked(rng.randbytes(size), rng.randbytes(4)) for _ in range(count)]


def ours(reads: list[bytes]) -> int:
    framer = websocket.Framer()
    return sum(len(framer.receive(data)) for data in reads)


def with_wsproto(reads: list[bytes]) -> int:
    from wsproto.frame_protocol import FrameProtocol

    protocol = FrameProtocol(client=False, extensions=[])
    total = 0
    for data in reads:
        protocol.receive_bytes(data)
        for frame in protocol.received_frames():
            total += len(frame.payload)
    return total


def with_autobahn(reads: list[bytes]) -> int:
    from autobahn.twisted.websocket import WebSocketServerFactory, WebSocketServerProtocol
    from twisted.internet.task import Clock
    from twisted.internet.testing import StringTransport

    total = 0

    class Counting(WebSocketServerProtocol):
        def onConnect(self, request: object) -> str:
            return "mqtt"

        def onMessage(self, payload: bytes, isBinary: bool) -> None:
            nonlocal total
            total += len(payload)

    factory_class: Any = WebSocketServerFactory
    factory = factory_class(protocols=["mqtt"], reactor=Clock())
    factory.protocol = Counting
    protocol: Any = factory.buildProtocol(None)
    transport: Any = StringTransport()
    transport.setTcpNoDelay = lambda enabled: None
    protocol.makeConnection(transport)
    protocol.dataReceived(
        b"GET /mqtt HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
    )
    for data in reads:
        protocol.dataReceived(data)
    return total


def measure(run: Callable[[list[bytes]], int], reads: list[bytes], seconds: float) -> float:
    """The least CPU time that one pass over `reads` took."""
    best = float("inf")
    until = time.monotonic() + seconds
    while True:
        start = time.process_time()
        run(reads)
        best = min(best, time.process_time() - start)
        if time.monotonic() >= until:
            return best


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    build = "pure" if websocket.__file__.endswith(".py") else "compiled"
    rivals: list[tuple[str, Callable[[list[bytes]], int]]] = [
        (f"mhub, {build}", ours),
    ]
    if find_spec("wsproto"):
        rivals.append(("wsproto", with_wsproto))
    try:
        from autobahn.websocket import USES_NVX
    except ImportError:
        pass
    else:
        rivals.append(("autobahn, native" if USES_NVX else "autobahn, pure", with_autobahn))
    loads = [
        ("80 B, 64 KiB reads", traffic(80, 10_000), 80, 10_000),
        ("80 B, a read each", single(80, 10_000), 80, 10_000),
        ("1 KiB, 64 KiB reads", traffic(1024, 2_000), 1024, 2_000),
        ("64 KiB", traffic(65536, 32), 65536, 32),
    ]
    print(f"{'CPU us for a frame':22}" + "".join(f"{name:>22}" for name, *_ in loads))
    for name, run in rivals:
        cells = []
        for _, reads, size, count in loads:
            if run(reads) != size * count:
                raise SystemExit(f"{name} lost bytes")
            cells.append(f"{measure(run, reads, seconds) / count * 1e6:22.2f}")
        print(f"{name:22}" + "".join(cells), flush=True)


if __name__ == "__main__":
    main()
