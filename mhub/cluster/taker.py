"""Sessions that other nodes give to this one: see `mhub.cluster.moves` for the way of one."""

from typing import TYPE_CHECKING, Any

from mhub.cluster import parcels
from mhub.cluster.items import fill_in, fill_incoming, subscribe, take_item
from mhub.cluster.member import Member
from mhub.cluster.parcels import pack, unpack
from mhub.core.divided import Divided
from mhub.core.peer import Peer
from mhub.core.peers import CLIENT
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Taking:
    """A session that another node gives us."""

    def __init__(self, client_id: str, life: str) -> None:
        self.client_id = client_id
        self.life = life
        self.newest = False  # it has the state that the client knows
        self.ended = False


class Taker:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._taking: dict[tuple[str, str], Taking] = {}  # by client id and giver
        self._asks: list[tuple[str, str, int]] = []  # (giver, client id, number of our table)
        self._safe: list[tuple[int, str, str]] = []  # (batch, giver, client id)

    def count(self) -> int:
        return len(self._asks) + len(self._safe)

    def move(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id = str(said["client"])
        node = self._node
        hub = node.hub
        if CLIENT + client_id not in node.peers.table:
            return  # it has gone on from here: the giver hears of it
        node.moves.offers.came(client_id)
        session = hub.sessions.get(client_id)
        if session is None:
            claim = node.claims.waiting.get(client_id)
            limits = claim.connection.limits if claim is not None else node.limits(said["listener"])
            session = hub.new_session(client_id, limits)
            session.stand_back()
            fill_in(session, said)
            session.hollow_out(True)  # until the node that has the client's state gives it
        self._node.fading.keep(client_id)
        divided = session.divided or session.divide()
        session.learn_names(said["seen"])
        taking = Taking(client_id, str(said["life"]))
        self._taking[client_id, member.name] = taking
        if session.connection is None:
            self._weigh(session, divided, taking, said)
        for fields in said["subscriptions"]:
            subscribe(session, fields)

    def _weigh(
        self, session: Session, divided: Divided, taking: Taking, said: dict[str, Any]
    ) -> None:
        """Whether a part that comes has what the client knows of its session.

        It has if its CONNECT is the newest of all, and certainly later than all others: the node
        that let the client in knew of them.  Else nobody can tell, as clocks cannot be trusted.
        """
        stamp, known = int(said["stamp"]), int(said["known"])
        client_id = session.client_id
        empty = session.hollow and not self._coming(client_id)
        given = empty or self._node.moves.giver.returns(client_id)
        newer = stamp > session.stamp or (given and stamp == session.stamp)
        if newer and stamp >= divided.newest and session.stands_back():
            others = [other for other in (session.stamp, divided.newest) if other != stamp]
            if said["certain"] and known >= max(others, default=0):
                self._take_state(session, taking, said)
                session.stamped(stamp, known)
            elif said["certain"]:
                self._doubt(session, stamp)
            elif stamp > session.stamp:
                session.give_up_state()  # what is here is older than what nobody is sure of
                session.hollow_out(True)
        elif session.known < stamp < session.stamp and not empty:
            self._doubt(session, session.stamp)
        divided.newest = max(divided.newest, stamp)

    def _take_state(self, session: Session, taking: Taking, said: dict[str, Any]) -> None:
        """This giver has what the client knows of its session, as far as we have heard."""
        self._none_newest(session.client_id)
        taking.newest = True
        session.give_up_state()
        fill_incoming(session, said)
        session.hollow_out(True)  # until what is in flight has come, too

    def _none_newest(self, client_id: str) -> None:
        for name in self._node.members:
            taking = self._taking.get((client_id, name))
            if taking is not None:
                taking.newest = False

    def _doubt(self, session: Session, stamp: int) -> None:
        self._none_newest(session.client_id)
        session.in_doubt(stamp)

    def _coming(self, client_id: str) -> bool:
        """Whether a node is about to give what the client knows of its session."""
        for name in self._node.members:
            taking = self._taking.get((client_id, name))
            if taking is not None and taking.newest:
                return True
        return False

    def bar(self, session: Session) -> None:
        """Ask each node how far its line to us is not for a session that was not here."""
        bars: dict[Peer, int] = {}
        session.divide().bars = bars
        for member in self._node.members.values():
            bars[member.peer] = -1
            self._ask_bar(session.client_id, member)

    def _ask_bar(self, client_id: str, member: Member) -> None:
        # Behind the table on the link, so the answer comes when the session is known to be here.
        if member.peer.up:
            if member.peer.told < self._node.peers.number:
                self._node.tables.tell(member)
            self._node.send(member, parcels.BARRIER, pack(client=client_id, why="take"))

    def linked(self, member: Member, anew: bool) -> None:
        """A node is back; with `anew` its line has begun from the start."""
        for client_id, session in self._node.hub.sessions.items():
            divided = session.divided
            if divided is not None and member.peer in divided.bars:
                if anew:
                    del divided.bars[member.peer]
                elif divided.bars[member.peer] < 0:
                    self._ask_bar(client_id, member)

    def barred(self, member: Member, said: dict[str, Any]) -> None:
        session = self._node.hub.sessions.get(str(said["client"]))
        if session is not None and session.divided is not None:
            session.divided.bars[member.peer] = int(said["n"])

    def items(self, member: Member, body: bytes) -> None:
        line, _, data = body.partition(b"\n")
        said = unpack(line)
        client_id = str(said["client"])
        taking = self._taking.get((client_id, member.name))
        session = self._node.hub.sessions.get(client_id)
        if taking is None or session is None:
            return
        divided = session.divided or session.divide()
        # When a message expires is said in the giver's time of day, which need not be ours.
        epoch = float(said["now"]) - self._node.hub.now
        pos = 0
        taken = divided.taken_of(taking.life)
        while pos < len(data):
            pos = take_item(session, taken, data, pos, epoch, taking.newest)
        if taking.newest:
            session.hollow_out(False)  # what is in flight comes first, all of it at once
        divided.note_taken(taking.life)
        self._node.send(member, parcels.GOT, pack(client=client_id))

    def end(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id = str(said["client"])
        taking = self._taking.get((client_id, member.name))
        node = self._node
        if taking is None:
            return
        taking.ended = True
        session = node.hub.sessions.get(client_id)
        if session is not None:
            session.learn_names(said["seen"])
            if taking.newest:
                session.hollow_out(False)
        ledger = node.hub.ledger
        batch = ledger.mark() if ledger is not None else 0
        self._safe.append((batch, member.name, client_id))
        self._node.moves.count()
        node.claims.check(client_id)
        if session is not None:
            self._rest(session)
        self._say_safe()

    def _say_safe(self) -> None:
        left = []
        for batch, giver, client_id in self._safe:
            member = self._node.members.get(giver)
            if batch > self._node.hub.durable:
                left.append((batch, giver, client_id))
            elif member is not None:
                self._node.send(member, parcels.DONE, pack(client=client_id))
        self._safe = left
        self._node.moves.count()

    def has_all(self, client_id: str, giver: str) -> bool:
        taking = self._taking.get((client_id, giver))
        return taking is not None and taking.ended

    def older(self, client_id: str, giver: str) -> None:
        """What a node gave is not all that it has, or not what it has now."""
        self._taking.pop((client_id, giver), None)

    def disowned(self, client_id: str, member: Member) -> None:
        """A node has nothing of a session any more."""
        self._taking.pop((client_id, member.name), None)
        session = self._node.hub.sessions.get(client_id)
        if session is not None and session.divided is not None:
            session.divided.forget_taken(member.name)

    # Who knows that the session is here

    def ask(self, member: Member, body: bytes) -> None:
        client_id = str(unpack(body)["client"])
        self._asks.append((member.name, client_id, self._node.peers.number))
        self._node.moves.count()
        self._answer()

    def _answer(self) -> None:
        """Tell those who asked, once all whom we can reach know of our routes."""
        members = self._node.members
        left = []
        for giver, client_id, number in self._asks:
            to = members.get(giver)
            if to is None or not to.peer.up:
                continue
            # A node is asked by the giver how far its line is when it has answered the same to
            # us: so between the two answers everything comes to both, and before to the giver.
            session = self._node.hub.sessions.get(client_id)
            divided = session.divided if session is not None else None
            bars = divided.bars if divided is not None else {}
            up = [peer for peer in self._node.peers.all if peer.up]
            if any(p.patient and (p.knows < number or bars.get(p, 0) < 0) for p in up):
                left.append((giver, client_id, number))
                continue
            know = [p.name for p in up if p.knows >= number and bars.get(p, 0) >= 0]
            body = pack(client=client_id, know=[*know, self._node.name])
            self._node.send(to, parcels.ROUTED, body)
        self._asks = left
        self._node.moves.count()

    # Time

    def turn(self) -> None:
        self._answer()
        self._say_safe()

    def unlinked(self, member: Member) -> None:
        """What it gave is here only in part, unless it has said that this was all."""
        self._asks = [ask for ask in self._asks if ask[0] != member.name]
        self._safe = [safe for safe in self._safe if safe[1] != member.name]
        for key in [key for key in self._taking if key[1] == member.name]:
            taking = self._taking.pop(key)
            session = self._node.hub.sessions.get(taking.client_id)
            if session is not None:
                self._rest(session)

    def _rest(self, session: Session) -> None:
        """Nothing more comes for now, and no client waits for it."""
        if session.stands_back() and session.client_id not in self._node.claims.waiting:
            session.complete()
            session.rest(self._node.hub.now)
