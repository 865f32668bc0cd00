"""What a client has published for nodes that cannot be reached: copies for the target (PENDING).

docs/peer-protocol.md has the grammar.
"""

import json
from typing import Final

from mhub.cluster.frames import with_data
from mhub.cluster.migration import controls
from mhub.core.channel_records import Entry, Origin, read_special, record_of, special_of
from mhub.core.peer import Peer
from mhub.wire.primitives import malformed, text_of
from mhub.wire.publish import topic_field

CLOSED: Final = -1
"""In the place of a mark's epoch, in front of a copy: CLOSE."""


def copies_of(node: str, client_id: str, peer: Peer) -> list[tuple[Entry, Origin]]:
    """What a client has published and a peer may not have, and where that is a copy from.

    Whether a copy is for a session that migrates depends on the marks in front of it here.
    """
    marks: dict[str, int] = {}
    found = []
    for entry in peer.outgoing.unconfirmed():
        if entry.is_control:
            name = entry.message.topic_data.decode("utf-8")
            if entry.message.payload[:1] == controls.MARK:
                marks[name] = controls.read_mark(entry.message.payload)[0]
            elif entry.message.payload[:1] == controls.CLOSE:
                marks[name] = CLOSED
        elif entry.message.sender == client_id:
            here = Origin(node, peer.outgoing.epoch, entry.n, json.dumps(marks))
            found.append((entry, entry.origin or here))
    return found


def marks_in(controls: str) -> dict[str, int]:
    """What copies_of() wrote down: client id -> epoch of the last mark, or CLOSED."""
    return json.loads(controls) if controls else {}


def pending_of(client_id: str, epoch: int, peer: Peer, copies: list[tuple[Entry, Origin]]) -> bytes:
    data = []
    for entry, origin in copies:
        data.append(special_of(entry, origin))
        data.append(record_of(entry.message, entry.plain, entry.shares, peer.hub.now))
    return with_data(b"".join(data), client=client_id, epoch=epoch, node=peer.name)


def read_pending(client_id: str, data: bytes, now: float) -> list[Entry]:
    """ProtocolFault if it is no list of copies."""
    found = []
    pos = 0
    while pos < len(data):
        copy, pos = read_special(data, pos, now)
        if copy.origin is None:
            raise malformed("a copy without an origin")
        message = copy.message
        message.sender = client_id
        message.topic = text_of(message.topic_data)
        message.topic_field = topic_field(message.topic_data)
        found.append(copy)
    return found
