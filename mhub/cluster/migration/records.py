"""Control records: what stands between the messages of a channel, about one client's session.

    MARK epoch          what the sender publishes behind it is for the session under that epoch
    RELAY source rows   entries for the session, wherever it is by now, of a remainder
    CLOSED node source  that one has relayed all that a node had sent it before its mark

A channel has them in their order, once, also over broken links and restarts.
"""

from typing import Final

from mhub.core.codec import decode_rows, encode_rows
from mhub.core.journal import Row
from mhub.wire.primitives import malformed, read_u64, u64

MARK: Final = b"M"
RELAY: Final = b"R"
CLOSED: Final = b"C"


def mark(epoch: int) -> bytes:
    return MARK + u64(epoch)


def relay(source: str, rows: list[Row]) -> bytes:
    """`source` is "" where nobody counts: for late entries, and what came behind END."""
    return RELAY + source.encode() + b"\n" + encode_rows(rows)


def closed(node: str, source: str) -> bytes:
    return CLOSED + f"{node}\n{source}".encode()


def epoch_of(body: bytes) -> int:
    if len(body) != 9:
        raise malformed("a mark that is none")
    return read_u64(body, 1)[0]


def relayed(body: bytes) -> tuple[str, list[Row]]:
    source, _, data = body[1:].partition(b"\n")
    return source.decode("utf-8"), decode_rows(data)


def names_of(body: bytes) -> tuple[str, str]:
    node, _, source = body[1:].decode("utf-8").partition("\n")
    return node, source
