"""What a client has published for nodes that cannot be reached: copies for the target (PENDING).

docs/peer-protocol.md has the grammar.
"""

import json
from typing import Any, Final

from mhub.cluster.frames import with_data
from mhub.cluster.migration import controls
from mhub.core.peer import Entry, Origin, Peer, read_record, record_of
from mhub.wire.publish import topic_field

CLOSED: Final = -1
"""In the place of a mark's epoch, in front of a copy: CLOSE."""


def copies_of(node: str, client_id: str, peer: Peer) -> list[Entry]:
    """Copies of what a client has published and a peer may not have.

    Whether a copy is for a session that migrates depends on the marks in front of it here.
    """
    marks: dict[str, int] = {}
    found = []
    for entry in peer.unconfirmed():
        if entry.is_control:
            name = entry.message.topic_data.decode("utf-8")
            if entry.message.payload[:1] == controls.MARK:
                marks[name] = controls.read_mark(entry.message.payload)[0]
            elif entry.message.payload[:1] == controls.CLOSE:
                marks[name] = CLOSED
        elif entry.message.sender == client_id:
            copy = Entry(entry.n, entry.message, entry.plain, entry.shares)
            copy.direct = entry.direct
            copy.epoch = entry.epoch
            copy.via = entry.via
            copy.origin = entry.origin or Origin(node, peer.life, entry.n, json.dumps(marks))
            found.append(copy)
    return found


def marks_in(controls: str) -> dict[str, int]:
    """What copies_of() wrote down: client id -> epoch of the last mark, or CLOSED."""
    return json.loads(controls) if controls else {}


def pending_of(client_id: str, epoch: int, peer: Peer, copies: list[Entry]) -> bytes:
    now = peer.hub.now
    places = []
    for copy in copies:
        origin = copy.origin
        assert origin is not None
        place = [origin.node, origin.life, origin.n, origin.controls]
        places.append([*place, copy.direct, copy.epoch, copy.via])
    data = b"".join([record_of(e.message, e.plain, e.shares, now) for e in copies])
    return with_data(data, client=client_id, epoch=epoch, node=peer.name, origins=places)


def read_pending(client_id: str, said: dict[str, Any], data: bytes, now: float) -> list[Entry]:
    found = []
    pos = 0
    for node, life, n, said_before, direct, epoch, via in said["origins"]:
        message, plain, shares, pos = read_record(data, pos, now)
        message.sender = client_id
        message.topic = message.topic_data.decode("utf-8")
        message.topic_field = topic_field(message.topic_data)
        copy = Entry(0, message, plain, shares)
        copy.origin = Origin(str(node), str(life), int(n), str(said_before))
        copy.direct = str(direct)
        copy.epoch = int(epoch)
        copy.via = str(via)
        found.append(copy)
    return found
