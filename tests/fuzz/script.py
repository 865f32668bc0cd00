"""What clients do to a hub, as bytes: a fuzzer can make it, a file can hold it.

    setup (1 byte), then steps: what to do (1 byte), size (2 bytes), so many bytes for it

Any byte string is a script: what to do is taken modulo the number of things there are to do, and a
step that is cut off is as long as it is.
"""

from collections.abc import Iterable, Iterator

READ, DRIP, TURN, WAIT, FULL, ROOM, LOST, OPEN, SWITCH = range(9)
"""One read of the bytes; byte by byte; the end of a turn; tenths of a second pass; the socket takes
no more; it has room again; the connection is lost; another one beside it; go to another one."""

ACTIONS = 9
Step = tuple[int, bytes]


def encode(setup: int, steps: Iterable[Step]) -> bytes:
    parts = [bytes([setup % 256])]
    for action, data in steps:
        for at in range(0, max(len(data), 1), 0xFFFF):
            piece = data[at : at + 0xFFFF]
            parts.append(bytes([action]) + len(piece).to_bytes(2, "big") + piece)
    return b"".join(parts)


def decode(data: bytes) -> tuple[int, list[Step]]:
    return data[0] if data else 0, list(steps_of(data[1:]))


def steps_of(data: bytes) -> Iterator[Step]:
    pos = 0
    while pos < len(data):
        size = int.from_bytes(data[pos + 1 : pos + 3], "big")
        yield data[pos] % ACTIONS, data[pos + 3 : pos + 3 + size]
        pos += 3 + size
