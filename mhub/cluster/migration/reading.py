"""Sessions and entries from another node: ProtocolFault if they are not what they should be.

The records are those of the store (`mhub.core.codec`), which says ValueError of bytes that are none
and does not look into messages.  A node trusts its own store; of another node's records all that
later steps rely on is checked here, before anything is done with any of them.
"""

from typing import Final

from mhub.cluster.said import MOST_TIMESTAMP
from mhub.core.codec import decode_rows, decode_session
from mhub.core.records import Row, StoredSession, publish_of
from mhub.wire.primitives import malformed
from mhub.wire.topics import check_filter, check_name, split_share

_LEVELS: Final = 1 << 16
"""How many a topic may have each node decides for its own clients; no topic has more than these."""


def read_session(data: bytes) -> StoredSession:
    try:
        stored = decode_session(data)
    except ValueError as error:
        raise malformed(f"an invalid session: {error}") from error
    for record in stored.subscriptions:
        check_filter(split_share(record.name)[1], _LEVELS)
    if stored.record.will:
        _check_message(stored.record.will)
    return stored


def read_rows(data: bytes) -> list[Row]:
    try:
        rows = decode_rows(data)
    except ValueError as error:
        raise malformed(f"invalid messages of a session: {error}") from error
    for row in rows:
        _check_message(row.body)
    return rows


def _check_message(body: bytes) -> None:
    try:
        message = publish_of(body, 0.0)
    except ValueError as error:
        raise malformed(f"an invalid message of a session: {error}") from error
    check_name(message.topic, _LEVELS)
    if message.qos > 2:
        raise malformed("a message of a session with QoS 3")
    if message.hlc > MOST_TIMESTAMP:
        raise malformed("a message of a session with an invalid timestamp")
