"""Sessions that this node gives to others: see `mhub.cluster.moves` for the way of one.

Until DONE all that was given is kept, and we stay subscribed for the session.  As long as a node
may have messages for us alone, what comes is passed on.
"""

from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import parcels
from mhub.cluster.items import head_of, item_of, names_of
from mhub.cluster.member import Member
from mhub.cluster.parcels import pack, unpack
from mhub.core.delivery import Delivery
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.node import Node

MOST: Final = 500
MOST_BYTES: Final = 128 * 1024
"""What goes in one parcel of messages."""


class Giving:
    """A session that is another node's now."""

    def __init__(self, session: Session, to: str, life: str) -> None:
        self.session = session
        self.to = to
        self.life = life
        self.told = False  # MOVE is out
        self.began = False  # what is in flight is out
        self.waits = False  # for GOT
        self.given: list[Delivery] = []
        self.inflight: dict[int, Delivery] = {}
        self.count = 0  # messages of the queue that were given
        self.due = -1  # how many there are to give before END; -1: not known yet
        self.last = -1  # how many before it is over: what comes later goes to the other node, too
        self.missing: set[str] = set()  # nodes that may still have messages for us alone
        self.asked = False
        self.ask_at = 0.0  # not again before
        self.answered = False  # those that can be reached are in `bars` until they were heard
        self.bars: dict[str, int] = {}  # node -> how far we have to have heard it; -1: no answer
        self.ended = False  # END is out
        self.end_at = 0.0  # not again before
        self.named = 0  # so many names of messages that the client has were told
        self.done = False
        self.back = False  # the client is here again: what was given comes back
        self.stamp = 0  # and this is how new it was

    def all_given(self) -> bool:
        """Whether nothing is left that the other node gets from nobody else."""
        return 0 <= self.last <= self.count

    def safe(self) -> bool:
        """Whether all of it is, on the other node."""
        return self.done and self.ended


class Giver:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self._giving: dict[str, Giving] = {}  # by client id

    def gives(self, client_id: str) -> bool:
        return client_id in self._giving

    def returns(self, client_id: str) -> bool:
        """Whether a session that was given is on its way back."""
        giving = self._giving.get(client_id)
        return giving is not None and giving.back

    def count(self) -> int:
        return len(self._giving)

    def under_way(self) -> int:
        """How many another node has not made safe."""
        return sum(1 for giving in self._giving.values() if not giving.safe())

    def given(self) -> int:
        """Messages that are on the other side, but for those that are only passed on."""
        givings = self._giving.values()
        return sum(each.count if each.due < 0 else min(each.count, each.due) for each in givings)

    def undone(self) -> int:
        """Sessions that are still here, but for those that another node has made safe."""
        sessions = self._node.hub.sessions
        safe = [c for c, giving in self._giving.items() if giving.safe() and c in sessions]
        return len(sessions) - len(safe)

    def start(self, session: Session, member: Member) -> None:
        """The client has a newer connection there."""
        giving = self._giving.get(session.client_id)
        if giving is not None:
            if giving.to == member.name and not giving.back:
                return
            self._take_back(giving)
        session.leaving = True
        session.complete()
        # What is given away may come again, from the very place that it came from before.
        session.divide().forget_taken("")
        self._node.hub.wheel.disarm(session)
        life = f"{self._node.name}/{self._node.settings.instance}"
        if session.sid:
            life = f"{self._node.name}/{session.sid}"
        giving = Giving(session, member.name, life)
        giving.missing = set(self._node.members)
        self._giving[session.client_id] = giving
        self._go_on(giving)
        self._node.moves.count()

    def _go_on(self, giving: Giving) -> None:
        """Whatever can be done now."""
        member = self._node.members.get(giving.to)
        if member is None or not member.peer.up or giving.back:
            return
        if self._node.peers.boot_after > self._node.hub.durable:
            return  # the numbers of what is given might be used again after a crash
        session = giving.session
        if not giving.told:
            if not member.has_table:
                return  # which says whether it still wants the session
            if self._node.claims.owner(session.client_id) is not member:
                self._take_back(giving)
                self._stay(session)
                return
            certain = not session.hollow and not self._node.claims.uncertain(session)
            if not certain and self._node.young():
                return  # those that are not linked yet may know of a newer one
            giving.told = True
            giving.named = len(names_of(session))
            if member.peer.told < self._node.peers.number:
                self._node.tables.tell(member)  # what the table says of the session comes first
            self._node.send(member, parcels.MOVE, head_of(session, giving.life, certain))
        if not giving.waits:
            self._give(giving, member)
        self._ask_others(giving, member)
        if giving.due < 0 and giving.began and self._reached(giving):
            giving.due = giving.count + session.queued()
        if giving.due >= 0 and giving.last < 0 and not giving.missing:
            giving.last = giving.count + session.queued()
        enough = 0 <= giving.due <= giving.count or not session.queued()
        now = self._node.hub.now
        if enough and giving.due >= 0 and not giving.waits:
            if giving.ended or now < giving.end_at:
                return
            giving.ended = True
            giving.end_at = now + self._node.settings.heartbeat_s
            names = names_of(session)
            new = names if len(names) != giving.named else []  # other nodes may have told us some
            giving.named = len(names)
            self._node.send(member, parcels.END, pack(client=session.client_id, seen=new))

    def _give(self, giving: Giving, member: Member) -> None:
        """The next messages."""
        session = giving.session
        epoch = self._node.peers.clock.epoch
        items: list[bytes] = []
        size = 0
        if not giving.began:
            if not all(session.is_safe(delivery) for delivery in session.inflight.values()):
                return
            giving.began = True
            giving.inflight = dict(session.inflight)
            for pid, delivery in session.inflight.items():
                items.append(self._item(giving, delivery, pid, epoch))
        while len(items) < MOST and size < MOST_BYTES and not giving.all_given():
            given = session.give()
            if given is None:
                break
            giving.given.append(given)
            giving.count += 1
            items.append(self._item(giving, given, 0, epoch))
            size += len(items[-1])
        if items:
            giving.waits = True
            giving.ended = False
            giving.done = False
            now = epoch + self._node.hub.now
            head = pack(client=session.client_id, life=giving.life, now=now)
            self._node.send(member, parcels.ITEMS, head + b"\n" + b"".join(items))

    def _item(self, giving: Giving, delivery: Delivery, pid: int, epoch: float) -> bytes:
        uid = self._node.peers.name(delivery.message)
        if giving.session.divided is not None:
            giving.session.divided.given(uid)
        return item_of(delivery, pid, epoch)

    def got(self, member: Member, body: bytes) -> None:
        giving = self._of(member, unpack(body))
        if giving is not None:
            giving.waits = False
            self._go_on(giving)

    # Who may still have messages for us alone

    def _ask_others(self, giving: Giving, member: Member) -> None:
        members = self._node.members
        giving.missing &= set(members)
        up = {name for name in giving.missing if members[name].peer.up}
        now = self._node.hub.now
        if up and not giving.asked and not giving.bars and now >= giving.ask_at:
            giving.asked = True
            giving.ask_at = now + self._node.settings.heartbeat_s
            self._node.send(member, parcels.ASK, pack(client=giving.session.client_id))
        for name, n in list(giving.bars.items()):
            other = members.get(name)
            if other is None or not other.peer.up or not other.peer.patient:
                del giving.bars[name]  # it is asked again when it is back
            elif 0 <= n <= other.peer.heard_n:
                del giving.bars[name]
                giving.missing.discard(name)

    def _reached(self, giving: Giving) -> bool:
        """Whether all that can be reached were heard."""
        return giving.answered and not giving.bars

    def routed(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        giving = self._of(member, said)
        if giving is None or not giving.asked:
            return
        giving.asked = False
        giving.answered = True
        for name in said["know"]:
            other = self._node.members.get(name)
            if name in giving.missing and other is not None and other.peer.up:
                giving.bars[name] = -1
                body = pack(client=giving.session.client_id, why="give")
                self._node.send(other, parcels.BARRIER, body)
        self._go_on(giving)

    def barred(self, member: Member, said: dict[str, Any]) -> None:
        giving = self._giving.get(str(said["client"]))
        if giving is not None and member.name in giving.bars:
            giving.bars[member.name] = int(said["n"])
            self._go_on(giving)

    # The end of it

    def done(self, member: Member, body: bytes) -> None:
        giving = self._of(member, unpack(body))
        if giving is not None and giving.ended:
            giving.done = True
            self._let_go(giving)
            self._finish(giving)

    def _let_go(self, giving: Giving) -> None:
        """The other node has made safe what it was given."""
        session = giving.session
        for delivery in giving.given:
            session.let_go(delivery)
        giving.given = []
        for delivery in giving.inflight.values():
            session.let_go(delivery)
        if not giving.back:
            session.inflight = {}
            session.forget_incoming()
            session.hollow_out(True)
        giving.inflight = {}

    def _finish(self, giving: Giving) -> None:
        """Forget the session, unless a node that cannot be reached may have messages for it.

        Not before it is safe on the other node: what is sent to that one alone would be lost with
        it.  So what is in the queue by now has come to both.
        """
        session = giving.session
        if giving.back or not giving.safe() or giving.last < 0:
            return
        if giving.all_given() or not session.queued():
            del self._giving[session.client_id]
            session.will = None
            self._node.hub.end_session(session)
            self._node.moves.count()

    def _of(self, member: Member, said: dict[str, Any]) -> Giving | None:
        giving = self._giving.get(str(said["client"]))
        return giving if giving is not None and giving.to == member.name else None

    def _take_back(self, giving: Giving) -> None:
        """What was given is still ours: the other node is gone, or wants it no more."""
        session = giving.session
        self._giving.pop(session.client_id, None)
        session.leaving = False
        session.take_again(giving.given)
        if giving.back:
            if session.stamp == giving.stamp and session.connection is None:
                for pid, delivery in session.inflight.items():
                    if pid in giving.inflight:
                        session.let_go(delivery)  # the other node has given the same
                    else:
                        giving.inflight[pid] = delivery
                session.inflight = giving.inflight
            else:
                session.demote(giving.inflight)
        session.divide()  # the other node may give it, too
        session.pump(self._node.hub.portion)  # the client may be here again
        self._node.moves.count()

    def claimed(self, client_id: str) -> None:
        """The client is here again; the node that has its session gives it back by itself."""
        giving = self._giving.get(client_id)
        if giving is None or giving.back:
            return
        if not giving.told:
            self._take_back(giving)
            return
        giving.back = True
        if giving.began:
            giving.session.inflight = {}  # it was given
        giving.stamp = giving.session.stamp

    def disowned(self, client_id: str, member: Member, returned: bool) -> None:
        """A node has a session no more; perhaps because all of it has come back to us."""
        giving = self._giving.get(client_id)
        if giving is None or giving.to != member.name:
            return
        if giving.back and returned:
            self._let_go(giving)  # it has come back, as a session of that node's
            self._giving.pop(client_id)
            giving.session.leaving = False
            self._node.moves.count()
        else:
            self._take_back(giving)
            self._stay(giving.session)

    def _stay(self, session: Session) -> None:
        """A node does not want a session: another one does, or it is ours."""
        owner = self._node.claims.owner(session.client_id)
        if owner is not None:
            self._node.moves.start(session, owner)
        elif session.connection is None:
            session.rest(self._node.hub.now)

    # Time

    def turn(self) -> None:
        for giving in list(self._giving.values()):
            self._go_on(giving)
            self._finish(giving)

    def unlinked(self, member: Member) -> None:
        """Begin again, when the node is back, with what it has not made safe."""
        for giving in list(self._giving.values()):
            if giving.to == member.name:
                self._again(giving, member)

    def _again(self, giving: Giving, member: Member) -> None:
        session = giving.session
        self._take_back(giving)
        if not giving.back:
            session.leaving = True
            again = Giving(session, member.name, giving.life)
            again.missing = set(self._node.members)
            self._giving[session.client_id] = again

    def forgotten(self, member: Member) -> None:
        for giving in list(self._giving.values()):
            if giving.to == member.name:
                self._take_back(giving)
                self._stay(giving.session)
