"""Where the session of a client is: what the tables of all nodes say, as this node knows them.

Of several nodes that have a client in their tables, the one with the highest epoch counts
(`mhub.core.table`): the others have an older session, or one that is on its way.  A node that
cannot be reached keeps its place, with what was known of it last.
"""

from dataclasses import dataclass

from mhub.core.hub import Hub
from mhub.core.limits import NEVER
from mhub.core.peer import Peer
from mhub.core.session import Session
from mhub.core.table import CLIENT
from mhub.operations.cluster_results import Held, Presence
from mhub.wire.packets import VERSION_NAMES


@dataclass(frozen=True)
class Place:
    peer: Peer | None  # None: this node
    value: int  # in the table of the node: twice the epoch, + 1 while the client is connected

    @property
    def is_connected(self) -> bool:
        return self.value & 1 != 0


def is_current(peer: Peer) -> bool:
    """Whether the table of a peer is known as it is now."""
    return peer.up and peer.table_received >= 0


def own_value(hub: Hub, client_id: str) -> int:
    """What the table of this node says, or would say without a cluster; 0: nothing."""
    if hub.peers is not None and hub.peers.table.sessions:
        value = hub.peers.table.names.get(CLIENT + client_id, 0)
        if value:
            return value
    session = hub.sessions.get(client_id)
    return 0 if session is None else 3 if session.is_connected() else 2


def place_of(hub: Hub, client_id: str) -> Place | None:
    """The node that has the session of a client, or has claimed it."""
    value = own_value(hub, client_id)
    found = Place(None, value) if value else None
    if hub.peers is not None:
        name = hub.peers.node
        for peer in hub.peers.all:
            theirs = peer.clients.get(client_id, 0)
            if theirs and (theirs >> 1, peer.name) > (value >> 1, name):
                found, value, name = Place(peer, theirs), theirs, peer.name
    return found


def own_presence(hub: Hub, session: Session, clock_offset_s: float) -> Presence:
    """Of a session that is here; `clock_offset_s` makes the hub's clock the time of day."""
    connection = session.connection
    principal = session.principal
    since = offline_since(session) if connection is None else connection.connected_at
    return Presence(
        client_id=session.client_id,
        state="offline" if connection is None else "connected",
        node=hub.peers.node if hub.peers is not None else "",
        node_state="up",
        user=principal.user,
        address=principal.address,
        listener=principal.listener,
        version=None if connection is None else VERSION_NAMES[connection.version],
        since=round(since + clock_offset_s, 3) if since else None,
    )


def offline_since(session: Session) -> float:
    """When its last connection ended; 0: that is not known, after a restart or a migration of a
    session that never expires."""
    if session.offline_at or not session.ends_at or session.expiry_s == NEVER:
        return session.offline_at
    return session.ends_at - session.expiry_s


def held(hub: Hub, client_id: str, clock_offset_s: float) -> Held | None:
    """What this node tells others of a client; None: its session is not here, or not yet."""
    session = hub.sessions.get(client_id)
    value = own_value(hub, client_id)
    if session is None or not value or session.is_connected() != (value & 1 != 0):
        return None
    return Held(value, own_presence(hub, session, clock_offset_s))
