"""When a session that has moved may forget the names of the messages it has seen.

A message can come on two ways: to the node that gave the session away and from there, and straight
to the one that has it now.  The second way may be the slower one.  So the names are kept until
every node's line to us has been heard as far as it was when the move had ended.
"""

from typing import TYPE_CHECKING, Any

from mhub.cluster import parcels
from mhub.cluster.member import Member
from mhub.cluster.parcels import pack

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Fading:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._sessions: dict[str, set[str]] = {}  # client id -> nodes that are to be heard
        self._round: list[str] = []  # client ids that the questions under way are for
        self._bars: dict[str, int] = {}  # node -> how far to hear it; -1: it has not answered

    def begin(self, client_id: str) -> None:
        """No other node has anything more of this session."""
        self._sessions[client_id] = set(self._node.members)

    def begin_if_new(self, client_id: str) -> None:
        """As begin(), for a session that a restart has brought back with names."""
        if client_id not in self._sessions:
            self.begin(client_id)

    def keep(self, client_id: str) -> None:
        """Another node has again."""
        self._sessions.pop(client_id, None)

    def turn(self) -> None:
        """Go on; called a few times a second."""
        members = self._node.members
        for name, n in list(self._bars.items()):
            member = members.get(name)
            if member is None or not member.peer.up:
                del self._bars[name]
            elif 0 <= n <= member.peer.heard_n:
                del self._bars[name]
                for client_id in self._round:
                    self._sessions.get(client_id, set()).discard(name)
        for client_id, missing in list(self._sessions.items()):
            missing &= set(members)
            if not missing:
                session = self._node.hub.sessions.get(client_id)
                divided = session.divided if session is not None else None
                if divided is not None and divided.twins:
                    continue  # until its queue was sent
                del self._sessions[client_id]
                if session is not None:
                    session.unite()
        if self._sessions and not self._bars:
            self._ask()

    def _ask(self) -> None:
        wanted: set[str] = set()
        for missing in self._sessions.values():
            wanted |= missing
        self._round = list(self._sessions)
        for member in self._node.members.values():
            if member.name in wanted and member.peer.up:
                self._bars[member.name] = -1
                self._node.send(member, parcels.BARRIER, pack(client="", why="fade"))

    def barred(self, member: Member, said: dict[str, Any]) -> None:
        if member.name in self._bars:
            self._bars[member.name] = int(said["n"])
