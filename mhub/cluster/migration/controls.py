"""Control records: what stands between the messages of a channel, about one client's session.

    MARK epoch, gap  what the sender publishes behind it is for the session under that epoch; a gap:
                     something in front of it was confirmed elsewhere, and is not in its place
    CLOSE began      what the sender publishes behind it is for a session elsewhere that began with
                     this epoch: the same one, if it has gone on from here, or a newer one
    RELAY user, rows late entries: what an older session of that user had, for the one that the
                     client has now; "" if its client had proved nothing

A channel has them in their order, once, also over broken links and restarts.
"""

from typing import Final

from mhub.cluster.migration.reading import read_rows
from mhub.cluster.said import MOST_TIMESTAMP
from mhub.core.codec import encode_rows
from mhub.core.records import Row
from mhub.wire.primitives import malformed, read_u32, read_u64, text_of, u32, u64

MARK: Final = b"M"
CLOSE: Final = b"C"
RELAY: Final = b"R"

MARK_SIZE: Final = 10
CLOSE_SIZE: Final = 9


def mark(epoch: int, gap: bool) -> bytes:
    return MARK + u64(epoch) + (b"\1" if gap else b"\0")


def read_mark(body: bytes) -> tuple[int, bool]:
    """Epoch, gap."""
    if len(body) != MARK_SIZE:
        raise malformed("an invalid mark")
    return _timestamp(body), body[9] != 0


def close(began: int) -> bytes:
    return CLOSE + u64(began)


def read_close(body: bytes) -> int:
    if len(body) != CLOSE_SIZE:
        raise malformed("an invalid control record")
    return _timestamp(body)


def _timestamp(body: bytes) -> int:
    found = read_u64(body, 1)[0]
    if found > MOST_TIMESTAMP:
        raise malformed("a control record with an invalid timestamp")
    return found


def relay(user: str, rows: list[Row]) -> bytes:
    name = user.encode("utf-8")
    return RELAY + u32(len(name)) + name + encode_rows(rows)


def relayed(body: bytes) -> tuple[str, list[Row]]:
    """User, rows."""
    if body[:1] != RELAY:
        raise malformed("a control record of an unknown kind")
    size, pos = read_u32(body, 1, len(body))
    if pos + size > len(body):
        raise malformed("late entries without their user")
    return text_of(body[pos : pos + size]), read_rows(body[pos + size :])
