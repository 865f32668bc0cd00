"""Sessions on their way from node to node, without loss and without doubles.

    giver                               taker
    MOVE  subscriptions, state     ->   a session that waits; its filters are announced
    ITEMS in flight, queue         ->   ... in front of what comes here meanwhile
                                   <-   GOT: the next ones
    ASK                            ->   when others know of its routes:
                                   <-   ROUTED: who does
    BARRIER to all of them: how far is your line?  Once the giver has heard that far, everything
    that was sent to it alone has come.
    END                            ->   complete: the client is let in
                                   <-   DONE: it is safe here, the giver may forget it

Until DONE the giver keeps all that it gave.  Messages may come to both nodes for a while; by their
names (`uid`) the taker sees which it has.  Nodes that cannot be reached may still have messages for
the giver: it stays subscribed for the session, passing on what comes, until it has heard from them.

The same way a node gives what it has of a session when it comes back and finds the client
elsewhere.  Then the taker's session is in use, and what comes joins the end of its queue.
"""

from typing import TYPE_CHECKING, Final

from mhub.cluster import parcels
from mhub.cluster.giver import Giver
from mhub.cluster.member import Member
from mhub.cluster.offers import Offers
from mhub.cluster.parcels import pack, unpack
from mhub.cluster.taker import Taker
from mhub.core.peers import CLIENT
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.node import Node

FEW: Final = 100
PAUSE_S: Final = 0.0001
"""If more than a few sessions move, there is a pause of so much for each between two looks at all
of them: a node that loses all its clients at once has other things to do, too."""


class Moves:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._next_at = 0.0
        self.giver = Giver(node)
        self.taker = Taker(node)
        self.offers = Offers(node)

    def count(self) -> None:
        """While anything moves, the end of each turn is ours."""
        self._node.peers.moving = self.giver.count() + self.taker.count()

    def start(self, session: Session, member: Member) -> None:
        """The client has a newer connection there."""
        self.taker.older(session.client_id, member.name)
        self.giver.start(session, member)

    def disowned(self, client_id: str, member: Member) -> None:
        """A node has a session no more."""
        returned = self.taker.has_all(client_id, member.name)
        self.taker.disowned(client_id, member)
        self.giver.disowned(client_id, member, returned)

    # How far lines are

    def barrier(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        self._node.send(member, parcels.BARRED, pack(**{**said, "n": member.peer.last_put()}))

    def barred(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        if said["why"] == "fade":
            self._node.fading.barred(member, said)
        elif said["why"] == "take":
            self.taker.barred(member, said)
        else:
            self.giver.barred(member, said)

    # Time

    def turn(self) -> None:
        """The end of a turn of the hub's, while anything moves."""
        now = self._node.hub.now
        if now < self._next_at:
            return
        moving = self._node.peers.moving
        self._next_at = now + min(moving * PAUSE_S, 1.0) if moving > FEW else now
        self.taker.turn()
        self.giver.turn()

    def tick(self) -> None:
        if self._node.peers.moving:
            self.turn()

    def unlinked(self, member: Member) -> None:
        self.offers.drop(member)
        self.taker.unlinked(member)
        self.giver.unlinked(member)
        self.count()

    def look_around(self) -> None:
        """Sessions that are another node's and were not given, whatever was in the way."""
        node = self._node
        whole = all(member.heard_of for member in node.members.values())
        for client_id, session in list(node.hub.sessions.items()):
            if session.divided is not None and whole and not node.peers.elsewhere(client_id):
                node.fading.begin_if_new(client_id)
            if session.connection is None and not self.giver.gives(client_id):
                owner = node.claims.owner(client_id)
                if owner is not None and owner.peer.up and client_id not in node.claims.waiting:
                    self.start(session, owner)
        for name in [name for name in node.peers.table if name.startswith(CLIENT)]:
            client_id = name[len(CLIENT) :]
            if client_id not in node.hub.sessions and client_id not in node.claims.waiting:
                if not self.offers.accepted(client_id):
                    node.peers.announce(name, 0)
