"""What source and target say to each other; docs/peer-protocol.md has the grammar.

A body is an object of JSON, and for those with a session or entries a newline and bytes of
`mhub.core.codec` behind it.
"""

import json
from typing import Any

from mhub.cluster.migration import records
from mhub.cluster.parcels import pack, unpack
from mhub.core.peer import Entry, Origin, Peer, read_record, record_of
from mhub.wire.publish import Publish, topic_field


def with_data(data: bytes, **fields: Any) -> bytes:
    return pack(**fields) + b"\n" + data


def split(body: bytes) -> tuple[dict[str, Any], bytes]:
    head, _, data = body.partition(b"\n")
    return unpack(head), data


class Pending:
    """A message that a client has published, for a node that could not be reached."""

    def __init__(
        self, message: Publish, plain: bool, shares: list[str] | None, origin: Origin
    ) -> None:
        self.message = message
        self.plain = plain
        self.shares = shares
        self.origin = origin


def pending_of(client_id: str, epoch: int, peer: Peer, entries: list[Entry]) -> bytes:
    """`entries` are copies: each has its origin."""
    now = peer.hub.now
    places = []
    for entry in entries:
        origin = entry.origin
        assert origin is not None
        places.append([origin.node, origin.life, origin.n, origin.controls])
    data = b"".join([record_of(e.message, e.plain, e.shares, now) for e in entries])
    return with_data(data, client=client_id, epoch=epoch, node=peer.name, origins=places)


def copies_of(node: str, client_id: str, peer: Peer) -> list[Entry]:
    """Copies of what a client has published and a peer may not have.

    Whether a copy is for a session that migrates depends on the marks in front of it here.
    """
    marks: dict[str, int] = {}
    found = []
    for entry in peer.unconfirmed():
        if entry.is_control:
            if entry.message.payload[:1] == records.MARK:
                name = entry.message.topic_data.decode("utf-8")
                epoch = records.epoch_of(entry.message.payload)
                marks[name] = max(marks.get(name, 0), epoch)
        elif entry.message.sender == client_id:
            copy = Entry(entry.n, entry.message, entry.plain, entry.shares)
            copy.origin = entry.origin or Origin(node, peer.life, entry.n, json.dumps(marks))
            found.append(copy)
    return found


def marks_in(controls: str) -> dict[str, int]:
    """What copies_of() wrote down: client id -> epoch."""
    return json.loads(controls) if controls else {}


def read_pending(client_id: str, said: dict[str, Any], data: bytes, now: float) -> list[Pending]:
    found = []
    pos = 0
    for node, life, n, controls in said["origins"]:
        message, plain, shares, pos = read_record(data, pos, now)
        message.sender = client_id
        message.topic = message.topic_data.decode("utf-8")
        message.topic_field = topic_field(message.topic_data)
        origin = Origin(str(node), str(life), int(n), str(controls))
        found.append(Pending(message, plain, shares, origin))
    return found
