"""Sessions whose clients are nowhere, of a node that leaves: another one is asked to take each.

It then claims the client as if it had connected there, without being connected, and so the session
goes to it as any other does.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.member import Member
from mhub.cluster.said import Said
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.node import Node

AT_ONCE: Final = 500
"""So many sessions are on their way at a time."""


class Offers:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._made: dict[str, str] = {}  # client id -> to whom its session was offered

    def make(self, sessions: Iterable[Session], members: list[Member]) -> None:
        """Sessions to others in turn; called again and again, until none is left."""
        migration = self._node.migration
        here = self._node.hub.sessions
        self._made = {
            client_id: to
            for client_id, to in self._made.items()
            if client_id in here and not migration.gives(here[client_id])
        }
        room = AT_ONCE - migration.under_way() - len(self._made)
        for index, session in enumerate(sessions):
            if room <= 0:
                break
            client_id = session.client_id
            if not migration.gives(session) and client_id not in self._made:
                member = members[index % len(members)]
                room -= 1
                self._made[client_id] = member.name
                self._node.send(member, frames.OFFER, pack(client=client_id))

    def made(self, member: Member, body: bytes) -> None:
        """A node offers a session to this one."""
        self._node.migration.claims.adopt(Said(body).text("client"))

    def drop(self, member: Member) -> None:
        """A node is not linked any more."""
        self._made = {c: to for c, to in self._made.items() if to != member.name}
