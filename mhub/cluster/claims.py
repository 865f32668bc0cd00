"""One session for each client id: whose CONNECT is the newest has it.

A CONNECT announces the client with its stamp in this node's table, which all others hear of.  Who
has the same client with an older stamp closes its connection and gives its session to the newer
one (`mhub.cluster.moves`), or, if it ends with its connection, just takes it out of its table.
Meanwhile the CONNECT waits; if the other node is not linked, or takes too long, it goes on without.

Two CONNECTs at the same moment on two nodes: both announce, the lower stamp loses.
"""

from typing import TYPE_CHECKING

from mhub.cluster.member import DOWN, SYNCING, Member
from mhub.core.connection import WAITING, Connection
from mhub.core.peers import CLIENT
from mhub.core.session import Session
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Claim:
    def __init__(self, connection: Connection, deadline: float) -> None:
        self.connection = connection
        self.deadline = deadline


class Claims:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self.waiting: dict[str, Claim] = {}

    def claim(self, connection: Connection) -> bool:
        """Say that a client is here; whether its CONNECT has to wait."""
        node = self._node
        client_id = connection.client_id
        connection.stamp = node.peers.clock.stamp(node.hub.now)
        earlier = self.waiting.pop(client_id, None)
        if earlier is not None:
            earlier.connection.fail(
                reasons.SESSION_TAKEN_OVER, "another connection has the same client id"
            )
        node.peers.own(client_id, connection.stamp, True)
        node.moves.giver.claimed(client_id)
        session = node.hub.sessions.get(client_id)
        if self._complete(client_id):
            self._judge(client_id)
            return False
        if session is not None and session.connection is None and not session.stands_back():
            session.stand_back()
        deadline = node.hub.now + node.settings.takeover_timeout_s
        self.waiting[client_id] = Claim(connection, deadline)
        return True

    def _judge(self, client_id: str) -> None:
        """All that can be had is here: is it what the client knows of its session?"""
        session = self._node.hub.sessions.get(client_id)
        if session is None or session.connection is not None:
            return
        members = self._node.members.values()
        away = [m.peer.clients.get(client_id, 0) >> 1 for m in members if not m.peer.up]
        # A client may have been at a node that cannot be asked, with other packet ids: to take a
        # new message for an old one would lose it.
        doubt = bool(session.incoming) and any(not m.peer.up for m in members)
        newer = any(stamp > session.known and stamp != session.stamp for stamp in away)
        newer = newer or not self._complete(client_id)
        if session.hollow or newer or doubt or self.uncertain(session):
            session.give_up_state()
            session.hollow_out(True)
        session.complete()

    def _complete(self, client_id: str) -> bool:
        """Whether no node has anything of a client that is worth waiting for."""
        for member in self._node.members.values():
            if client_id in member.peer.clients and self._worth(member):
                if not self._node.moves.taker.has_all(client_id, member.name):
                    return False
        return True

    def _worth(self, member: Member) -> bool:
        """It is linked, or was a moment ago: then it may be back in another.

        Where another node can stand in for it, that takes longer: see `mhub.cluster.standin`.
        """
        if member.peer.up or member.state == SYNCING:
            return True
        node = self._node
        gone_s = node.hub.now - member.gone_at
        if node.can_be_replaced(member) and gone_s < node.settings.takeover_timeout_s:
            return True
        return member.state == DOWN and node.hub.now - member.since < node.settings.suspect_s

    def owned(self, member: Member, client_id: str, stamp: int) -> None:
        """A peer has said something about a client."""
        node = self._node
        owner = self.owner(client_id)
        if stamp:
            node.moves.taker.older(client_id, member.name)
        if stamp and owner is member:
            if stamp & 1 or not self._insist(client_id):
                self._lose(client_id, member)
        elif not stamp:
            self._fade(client_id)
            node.moves.disowned(client_id, member)
        self.check(client_id)

    def uncertain(self, session: Session) -> bool:
        """Whether the client may have been elsewhere while this node was not there.

        A node that was not heard since then could tell.  Until it is, the state of the session
        (packet ids) must not be taken for the one that the client knows.
        """
        if not session.restored:
            return False
        return any(not member.heard_of for member in self._node.members.values())

    def _insist(self, client_id: str) -> bool:
        """A client that is connected here is nowhere else, whatever a clock that is ahead says."""
        node = self._node
        claim = self.waiting.get(client_id)
        session = node.hub.sessions.get(client_id)
        connection = session.connection if session is not None else None
        if connection is None and claim is not None and claim.connection.state == WAITING:
            connection = claim.connection
        if connection is None:
            return False
        connection.stamp = node.peers.clock.stamp(node.hub.now)
        if session is not None and session.connection is connection:
            session.stamped(connection.stamp, session.stamp)
        node.peers.own(client_id, connection.stamp, True)
        return True

    def owner(self, client_id: str) -> Member | None:
        """The node whose CONNECT of a client of ours is the newest; None: it is here."""
        ours = self._node.peers.owned_since(client_id)
        best = (ours, self._node.name)
        found = None
        for member in self._node.members.values():
            stamp = member.peer.clients.get(client_id, 0) >> 1
            if ours and (stamp, member.name) > best:
                best = (stamp, member.name)
                found = member
        return found

    def _lose(self, client_id: str, member: Member) -> None:
        """The client is somewhere else now, and its session has to go there."""
        node = self._node
        text = f"the client has connected to node {member.name}"
        claim = self.waiting.pop(client_id, None)
        if claim is not None:
            claim.connection.fail(reasons.SESSION_TAKEN_OVER, text)
        session = node.hub.sessions.get(client_id)
        if session is not None and session.connection is not None:
            node.hub.stats.sessions_taken_over += 1
            session.connection.fail(reasons.SESSION_TAKEN_OVER, text)
            session = node.hub.sessions.get(client_id)
        if session is None:
            node.peers.announce(CLIENT + client_id, 0)
        else:
            node.moves.start(session, member)

    # Those that wait

    def check(self, client_id: str) -> None:
        claim = self.waiting.get(client_id)
        if claim is not None and self._complete(client_id):
            self._go_on(client_id, claim)

    def check_all(self) -> None:
        for client_id in list(self.waiting):
            self.check(client_id)

    def tick(self, now: float) -> None:
        for client_id, claim in list(self.waiting.items()):
            if self._complete(client_id):
                self._go_on(client_id, claim)
            elif claim.deadline <= now:
                self._node.log(f"client {client_id!r} goes on without what other nodes have of it")
                self._go_on(client_id, claim)

    def evacuate(self) -> None:
        """Who waits for a session is sent elsewhere, as all others are; tick() clears up."""
        for claim in self.waiting.values():
            claim.connection.fail(self._node.hub.leaving, "this node is leaving the cluster")

    def _go_on(self, client_id: str, claim: Claim) -> None:
        node = self._node
        del self.waiting[client_id]
        self._judge(client_id)
        session = node.hub.sessions.get(client_id)
        if claim.connection.state == WAITING:
            node.hub.admission.welcome(claim.connection)
        elif session is None:  # the client did not wait
            node.peers.announce(CLIENT + client_id, 0)
        elif session.connection is None:
            session.rest(node.hub.now)
        self._fade(client_id)

    def _fade(self, client_id: str) -> None:
        session = self._node.hub.sessions.get(client_id)
        if session is not None and session.divided is not None:
            if not self._node.peers.elsewhere(client_id):
                self._node.fading.begin(client_id)
