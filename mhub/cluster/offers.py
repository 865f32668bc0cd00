"""Sessions whose clients are nowhere, of a node that leaves: another one is asked to take each.

It then claims the client as if it had connected there, without being connected, and so the session
goes to it as any other does.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mhub.cluster import parcels
from mhub.cluster.member import Member
from mhub.cluster.parcels import pack, unpack
from mhub.core.peers import CLIENT
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.node import Node

AT_ONCE: Final = 500
"""So many sessions are on their way at a time."""


class Offers:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._made: dict[str, str] = {}  # client id -> to whom its session was offered
        self._taken: dict[str, str] = {}  # client id -> who has offered it

    def make(self, sessions: Iterable[Session], members: list[Member]) -> None:
        """Sessions to others in turn; called again and again, until none is left."""
        giver = self._node.moves.giver
        here = self._node.hub.sessions
        self._made = {c: to for c, to in self._made.items() if c in here and not giver.gives(c)}
        room = AT_ONCE - giver.under_way() - len(self._made)
        for index, session in enumerate(sessions):
            if room <= 0:
                break
            client_id = session.client_id
            if not giver.gives(client_id) and client_id not in self._made:
                member = members[index % len(members)]
                room -= 1
                self._made[client_id] = member.name
                self._node.send(member, parcels.OFFER, pack(client=client_id))

    def made(self, member: Member, body: bytes) -> None:
        """A node offers a session to this one."""
        client_id = str(unpack(body)["client"])
        peers = self._node.peers
        if CLIENT + client_id not in peers.table:
            self._taken[client_id] = member.name
            peers.own(client_id, peers.clock.stamp(self._node.hub.now), False)

    def accepted(self, client_id: str) -> bool:
        """Whether a session that is not here yet was offered, and is to come."""
        return client_id in self._taken

    def came(self, client_id: str) -> None:
        self._taken.pop(client_id, None)

    def drop(self, member: Member) -> None:
        """A node is not linked any more: what it had offered does not come."""
        for client_id in [c for c, giver in self._taken.items() if giver == member.name]:
            del self._taken[client_id]
            waits = client_id in self._node.claims.waiting  # the client has come meanwhile
            if client_id not in self._node.hub.sessions and not waits:
                self._node.peers.announce(CLIENT + client_id, 0)
        self._made = {c: to for c, to in self._made.items() if to != member.name}
