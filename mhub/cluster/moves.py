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

import struct
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import parcels
from mhub.cluster.member import Member
from mhub.cluster.parcels import pack, unpack
from mhub.core import journal
from mhub.core.limits import NEVER
from mhub.core.peers import CLIENT
from mhub.core.session import Delivery, Session, Subscription
from mhub.wire.primitives import malformed, read_varint
from mhub.wire.topics import split_share

if TYPE_CHECKING:
    from mhub.cluster.node import Node

MOST: Final = 500
MOST_BYTES: Final = 128 * 1024
"""What goes in one parcel of messages."""

ITEM: Final = struct.Struct("<QBBHHHI")
"""Place in the giver's store, QoS, flags, packet id, sizes of identifiers, group and message."""

TOOK: Final = "took/"
"""Notes of what was taken begin so."""

RETAIN: Final = 1
RELEASED: Final = 2
FED: Final = 4


class Giving:
    """A session that is another node's now."""

    def __init__(self, session: Session, to: str, life: str) -> None:
        self.session = session
        self.to = to
        self.life = life
        self.told = False  # MOVE is out
        self.began = False  # what is in flight is out
        self.waits = False  # for GOT
        self.subscriptions: dict[str, Subscription] = {}  # that were withdrawn here
        self.given: list[Delivery] = []
        self.inflight: dict[int, Delivery] = {}
        self.count = 0  # messages of the queue that were given
        self.due = -1  # how many there are to give before END; -1: not known yet
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


class Taking:
    """A session that another node gives us."""

    def __init__(self, client_id: str, life: str) -> None:
        self.client_id = client_id
        self.life = life
        self.newest = False  # it has the state that the client knows
        self.ended = False


class Taken:
    """What was taken of a session that has numbers of its own for its messages."""

    def __init__(self, text: str = "") -> None:
        high, _, others = text.partition(" ")
        self.high = int(high or 0)  # of the queue
        self.inflight = {int(place) for place in others.split(",") if place}

    def has(self, place: int, inflight: bool) -> bool:
        return place in self.inflight if inflight else place <= self.high

    def add(self, place: int, inflight: bool) -> None:
        if inflight:
            self.inflight.add(place)
        else:
            self.high = place

    def text(self) -> str:
        return f"{self.high} {','.join(map(str, self.inflight))}"


class Moves:
    def __init__(self, node: "Node") -> None:
        self._node = node
        self.giving: dict[str, Giving] = {}
        self.taking: dict[tuple[str, str], Taking] = {}
        self.taken: dict[str, Taken] = {}  # by client id and life; the store remembers it
        self._offers: dict[str, str] = {}  # client id -> to whom its session was offered
        self._accepted: dict[str, str] = {}  # client id -> who has offered it
        self._asks: list[tuple[str, str, int]] = []  # (giver, client id, number of our table)
        self._safe: list[tuple[int, str, str]] = []  # (batch, giver, client id)

    def _count(self) -> None:
        self._node.peers.moving = len(self.giving) + len(self._asks) + len(self._safe)

    def recall(self, notes: dict[str, str]) -> None:
        """What the store remembers of what was taken."""
        for name, text in notes.items():
            if name.startswith(TOOK):
                self.taken[name] = Taken(text)

    # Giving

    def start(self, session: Session, member: Member) -> None:
        """The client has a newer connection there."""
        giving = self.giving.get(session.client_id)
        if giving is not None:
            if giving.to == member.name and not giving.back:
                return
            self._take_back(giving)
        self.taking.pop((session.client_id, member.name), None)
        session.leaving = True
        session.complete()
        session.remember()
        self._node.hub.wheel.disarm(session)
        life = f"{self._node.name}/{self._node.settings.instance}"
        if session.sid:
            life = f"{self._node.name}/{session.sid}"
        giving = Giving(session, member.name, life)
        giving.missing = set(self._node.members)
        self.giving[session.client_id] = giving
        self._go_on(giving)
        self._count()

    def offer(self, session: Session, member: Member) -> None:
        """Ask a node to take a session whose client is nowhere; it then claims it."""
        client_id = session.client_id
        if client_id not in self.giving and client_id not in self._offers:
            self._offers[client_id] = member.name
            self._node.send(member, parcels.OFFER, pack(client=client_id))

    def offered(self, member: Member, body: bytes) -> None:
        client_id = str(unpack(body)["client"])
        peers = self._node.peers
        if CLIENT + client_id not in peers.table:
            self._accepted[client_id] = member.name
            peers.own(client_id, peers.clock.stamp(self._node.hub.now), False)

    def _drop_offers(self, member: Member) -> None:
        """What a node had offered does not come any more."""
        for client_id in [c for c, giver in self._accepted.items() if giver == member.name]:
            del self._accepted[client_id]
            waits = client_id in self._node.claims.waiting  # the client has come meanwhile
            if client_id not in self._node.hub.sessions and not waits:
                self._node.peers.announce(CLIENT + client_id, 0)
        self._offers = {c: to for c, to in self._offers.items() if to != member.name}

    def undone(self) -> int:
        """Sessions that are still here, but for those that another node has made safe."""
        sessions = self._node.hub.sessions
        done = [c for c, giving in self.giving.items() if giving.done and giving.ended]
        return len(sessions) - sum(1 for client_id in done if client_id in sessions)

    def _go_on(self, giving: Giving) -> None:
        """Whatever can be done now."""
        member = self._node.members.get(giving.to)
        if member is None or not member.peer.up or giving.back:
            return
        session = giving.session
        if not giving.told:
            certain = not session.hollow and not self._node.claims.uncertain(session)
            if not certain and self._node.young():
                return  # those that are not linked yet may know of a newer one
            giving.told = True
            giving.named = len(session.names())
            if member.peer.told < self._node.peers.number:
                self._node.tables.tell(member)  # what the table says of the session comes first
            self._node.send(member, parcels.MOVE, _head(giving, self._node.hub.now, certain))
        if not giving.waits:
            self._give(giving, member)
        self._ask_others(giving, member)
        if giving.due < 0 and giving.began and self._reached(giving):
            giving.due = giving.count + session.queued()
        if giving.due >= 0 and not giving.missing and session.subscriptions:
            self._unsubscribe(giving)
        enough = 0 <= giving.due <= giving.count or not session.queued()
        now = self._node.hub.now
        if enough and giving.due >= 0 and not giving.waits:
            if giving.ended or now < giving.end_at:
                return
            giving.ended = True
            giving.end_at = now + self._node.settings.heartbeat_s
            names = session.names()
            new = names if len(names) != giving.named else []  # other nodes may have told us some
            giving.named = len(names)
            self._node.send(member, parcels.END, pack(client=session.client_id, seen=new))

    def _unsubscribe(self, giving: Giving) -> None:
        """Nothing more comes here; what the store has stays as it is, until all is done."""
        giving.subscriptions = giving.session.subscriptions
        giving.session.subscriptions = {}
        for subscription in giving.subscriptions.values():
            self._node.hub.router.remove(subscription)

    def _give(self, giving: Giving, member: Member) -> None:
        """The next messages."""
        session = giving.session
        epoch = self._node.peers.clock.epoch
        items: list[bytes] = []
        size = 0
        if not giving.began:
            giving.began = True
            giving.inflight = dict(session.inflight)
            for pid, delivery in session.inflight.items():
                items.append(self._item(giving, delivery, pid, epoch))
        while len(items) < MOST and size < MOST_BYTES:
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
            head = pack(client=session.client_id, life=giving.life)
            self._node.send(member, parcels.ITEMS, head + b"\n" + b"".join(items))

    def _item(self, giving: Giving, delivery: Delivery, pid: int, epoch: float) -> bytes:
        uid = self._node.peers.name(delivery.message)
        if giving.session.seen is not None:
            giving.session.seen.pop(uid, None)  # it may come back
        place = delivery.record.seq if delivery.record is not None else 0
        flags = (RETAIN if delivery.retain else 0) | (RELEASED if delivery.released else 0)
        flags |= FED if delivery.fed else 0
        group = delivery.group.full_name.encode("utf-8") if delivery.group is not None else b""
        body = journal.message(delivery.message, epoch)
        head = ITEM.pack(place, delivery.qos, flags, pid, len(delivery.ids), len(group), len(body))
        return b"%b%b%b%b" % (head, delivery.ids, group, body)

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
            if other is None or not other.peer.up:
                del giving.bars[name]  # it is asked again when it is back
            elif 0 <= n <= other.peer.heard_n:
                del giving.bars[name]
                giving.missing.discard(name)

    def _reached(self, giving: Giving) -> bool:
        """Whether all that can be reached were heard."""
        return giving.answered and not giving.bars

    def ask(self, member: Member, body: bytes) -> None:
        client_id = str(unpack(body)["client"])
        self._asks.append((member.name, client_id, self._node.peers.number))
        self._count()
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
            bars = session.bars if session is not None and session.bars is not None else {}
            up = [peer for peer in self._node.peers.all if peer.up]
            if any(p.patient and (p.knows < number or bars.get(p, 0) < 0) for p in up):
                left.append((giver, client_id, number))
                continue
            know = [p.name for p in up if p.knows >= number and bars.get(p, 0) >= 0]
            body = pack(client=client_id, know=[*know, self._node.name])
            self._node.send(to, parcels.ROUTED, body)
        self._asks = left
        self._count()

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

    def barrier(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        self._node.send(member, parcels.BARRED, pack(**{**said, "n": member.peer.last_put()}))

    def barred(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        if said["why"] == "fade":
            self._node.fading.barred(member, body)
            return
        if said["why"] == "take":
            session = self._node.hub.sessions.get(str(said["client"]))
            if session is not None and session.bars is not None:
                session.bars[member.peer] = int(said["n"])
            return
        giving = self.giving.get(str(said["client"]))
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
        """Forget the session, unless a node that cannot be reached may have messages for it."""
        session = giving.session
        if giving.back or not giving.done or giving.missing:
            return
        if session.queue is None and not session.spilled:
            del self.giving[session.client_id]
            session.will = None
            self._node.hub.end_session(session)
            # What was taken is not here any more: it may have gone back to where it came from.
            self._forget_taken(f"{TOOK}{session.client_id}/")
            self._count()

    def _of(self, member: Member, said: dict[str, Any]) -> Giving | None:
        giving = self.giving.get(str(said["client"]))
        return giving if giving is not None and giving.to == member.name else None

    def _take_back(self, giving: Giving) -> None:
        """What was given is still ours: the other node is gone, or wants it no more."""
        session = giving.session
        self.giving.pop(session.client_id, None)
        session.leaving = False
        for name, subscription in giving.subscriptions.items():
            if name not in session.subscriptions:
                session.subscriptions[name] = subscription
                self._node.hub.router.add(subscription)
        session.take_again(giving.given)
        if giving.back:
            if session.stamp == giving.stamp and session.connection is None:
                session.inflight = giving.inflight
            else:
                session.demote(giving.inflight)
        session.remember()  # the other node may give it, too
        session.pump(self._node.hub.portion)  # the client may be here again
        self._count()

    def claimed(self, client_id: str) -> None:
        """The client is here again; the node that has its session gives it back by itself."""
        giving = self.giving.get(client_id)
        if giving is None or giving.back:
            return
        if not giving.told:
            self._take_back(giving)
            return
        giving.back = True
        if giving.began:
            giving.session.inflight = {}  # it was given
        giving.stamp = giving.session.stamp

    def disowned(self, client_id: str, member: Member) -> None:
        """A node has a session no more."""
        returned = self.has_all(client_id, member.name)
        self.taking.pop((client_id, member.name), None)
        self._forget_taken(f"{TOOK}{client_id}/{member.name}/")
        giving = self.giving.get(client_id)
        if giving is None or giving.to != member.name:
            return
        if giving.back and returned:
            self._let_go(giving)  # it has come back, as a session of that node's
            self.giving.pop(client_id)
            giving.session.leaving = False
            self._count()
        else:
            self._take_back(giving)
            self._stay(giving.session)

    def _stay(self, session: Session) -> None:
        """A node does not want a session: another one does, or it is ours."""
        owner = self._node.claims.owner(session.client_id)
        if owner is not None:
            self.start(session, owner)
        elif session.connection is None:
            session.rest(self._node.hub.now)

    # Taking

    def move(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id = str(said["client"])
        node = self._node
        hub = node.hub
        if CLIENT + client_id not in node.peers.table:
            return  # it has gone on from here: the giver hears of it
        self._accepted.pop(client_id, None)
        session = hub.sessions.get(client_id)
        if session is None:
            claim = node.claims.waiting.get(client_id)
            limits = claim.connection.limits if claim is not None else node.limits(said["listener"])
            session = hub.new_session(client_id, limits)
            session.late = []
            _fill_in(session, said, hub.now)
            session.hollow_out(True)  # until the node that has the client's state gives it
        self._node.fading.keep(client_id)
        if session.seen is None:
            session.remember()
        session.learn_names(said["seen"])
        taking = Taking(client_id, str(said["life"]))
        self.taking[client_id, member.name] = taking
        stamp = int(said["stamp"])
        giving = self.giving.get(client_id)
        given = session.hollow or (giving is not None and giving.back)
        newer = stamp > session.stamp or (given and stamp == session.stamp)
        if session.late is not None and newer and said["certain"]:
            self._take_state(session, taking, said)
            session.stamp = stamp
        for fields in said["subscriptions"]:
            _subscribe(session, fields)

    def _take_state(self, session: Session, taking: Taking, said: dict[str, Any]) -> None:
        """This giver has what the client knows of its session, as far as we have heard."""
        for (client_id, _), other in self.taking.items():
            if client_id == session.client_id:
                other.newest = False
        taking.newest = True
        session.give_up_state()
        _fill_incoming(session, said)
        session.hollow_out(False)

    def bar(self, session: Session) -> None:
        """Ask each node how far its line to us is not for a session that was not here."""
        session.bars = {}
        for member in self._node.members.values():
            session.bars[member.peer] = -1
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
            if session.bars is not None and member.peer in session.bars:
                if anew:
                    del session.bars[member.peer]
                elif session.bars[member.peer] < 0:
                    self._ask_bar(client_id, member)

    def items(self, member: Member, body: bytes) -> None:
        line, _, data = body.partition(b"\n")
        client_id = str(unpack(line)["client"])
        taking = self.taking.get((client_id, member.name))
        session = self._node.hub.sessions.get(client_id)
        if taking is None or session is None:
            return
        epoch = self._node.peers.clock.epoch
        pos = 0
        name = f"{TOOK}{client_id}/{taking.life}"
        taken = self.taken.setdefault(name, Taken())
        while pos < len(data):
            pos = _take_item(session, taken, data, pos, epoch, taking.newest)
        if session.sid:
            session.hub.book().note(name, taken.text())
        self._node.send(member, parcels.GOT, pack(client=client_id))

    def _forget_taken(self, prefix: str) -> None:
        for name in [name for name in self.taken if name.startswith(prefix)]:
            del self.taken[name]
            if self._node.hub.ledger is not None:
                self._node.hub.ledger.note(name, "")

    def end(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id = str(said["client"])
        taking = self.taking.get((client_id, member.name))
        node = self._node
        if taking is None:
            return
        taking.ended = True
        session = node.hub.sessions.get(client_id)
        if session is not None:
            session.learn_names(said["seen"])
        ledger = node.hub.ledger
        batch = ledger.mark() if ledger is not None else 0
        self._safe.append((batch, member.name, client_id))
        self._count()
        node.claims.check(client_id)
        if session is not None and session.late is not None:
            if client_id not in node.claims.waiting:
                session.complete()
                session.rest(node.hub.now)
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
        self._count()

    def has_all(self, client_id: str, giver: str) -> bool:
        taking = self.taking.get((client_id, giver))
        return taking is not None and taking.ended

    # Time

    def turn(self) -> None:
        """The end of a turn of the hub's, while anything moves."""
        self._answer()
        self._say_safe()
        for giving in list(self.giving.values()):
            self._go_on(giving)
            self._finish(giving)

    def tick(self) -> None:
        if self.giving or self._asks or self._safe:
            self.turn()

    def look_around(self) -> None:
        """Sessions that are another node's and were not given, whatever was in the way."""
        node = self._node
        whole = all(member.heard_of for member in node.members.values())
        for client_id, session in list(node.hub.sessions.items()):
            if session.seen is not None and whole and not node.peers.elsewhere(client_id):
                node.fading.begin_if_new(client_id)
            if session.connection is None and client_id not in self.giving:
                owner = node.claims.owner(client_id)
                if owner is not None and owner.peer.up and client_id not in node.claims.waiting:
                    self.start(session, owner)
        for name in [name for name in node.peers.table if name.startswith(CLIENT)]:
            client_id = name[len(CLIENT) :]
            if client_id not in node.hub.sessions and client_id not in node.claims.waiting:
                if client_id not in self._accepted:
                    node.peers.announce(name, 0)

    def unlinked(self, member: Member) -> None:
        """Begin again, when the node is back, with what it has not made safe."""
        self._drop_offers(member)
        self._asks = [ask for ask in self._asks if ask[0] != member.name]
        self._safe = [safe for safe in self._safe if safe[1] != member.name]
        for key in [key for key in self.taking if key[1] == member.name]:
            taking = self.taking.pop(key)
            session = self._node.hub.sessions.get(taking.client_id)
            if session is not None and session.late is not None:
                if taking.client_id not in self._node.claims.waiting:
                    session.complete()
                    session.rest(self._node.hub.now)
        for giving in list(self.giving.values()):
            if giving.to == member.name:
                self._again(giving, member)
        self._count()

    def _again(self, giving: Giving, member: Member) -> None:
        session = giving.session
        self._take_back(giving)
        if not giving.back:
            session.leaving = True
            again = Giving(session, member.name, giving.life)
            again.missing = set(self._node.members)
            self.giving[session.client_id] = again

    def forgotten(self, member: Member) -> None:
        for giving in list(self.giving.values()):
            if giving.to == member.name:
                self._take_back(giving)
                self._stay(giving.session)


def _head(giving: Giving, now: float, certain: bool) -> bytes:
    """A session without its messages."""
    session = giving.session
    subscriptions = []
    for name, subscription in session.subscriptions.items():
        fields: list[str | int] = [
            name,
            subscription.qos,
            int(subscription.no_local),
            int(subscription.retain_as_published),
            subscription.ids.hex(),
        ]
        subscriptions.append(fields)
    return pack(
        client=session.client_id,
        life=giving.life,
        username=session.username,
        listener=session.listener,
        mount=session.mount,
        expiry=session.expiry_s,
        left=max(session.ends_at - now, 0.0) if session.ends_at else -1.0,
        incoming=list(session.incoming),
        subscriptions=subscriptions,
        seen=session.names(),
        certain=certain,
        stamp=session.stamp,
    )


def _fill_in(session: Session, said: dict[str, Any], now: float) -> None:
    session.username = str(said["username"])
    session.listener = str(said["listener"])
    session.mount = str(said["mount"])
    session.expiry_s = int(said["expiry"])
    left = float(said["left"])
    if left >= 0:
        session.ends_at = now + left
    elif session.expiry_s != NEVER:
        session.ends_at = now + session.expiry_s
    hub = session.hub
    if hub.ledger is not None and session.expiry_s:
        hub.ledger.session(session)


def _fill_incoming(session: Session, said: dict[str, Any]) -> None:
    session.forget_incoming()
    for pid in said["incoming"]:
        session.incoming[int(pid)] = False
        if session.sid:
            session.hub.book().incoming(session, int(pid), True)


def _subscribe(session: Session, fields: list[Any]) -> None:
    name, qos, no_local, retain_as_published, ids = fields
    if name in session.subscriptions:
        return  # what the client said here counts
    share, topic_filter = split_share(str(name))
    subscription = Subscription(session, session.mount + topic_filter, share)
    subscription.qos = int(qos)
    subscription.no_local = bool(no_local)
    subscription.retain_as_published = bool(retain_as_published)
    subscription.ids = bytes.fromhex(ids)
    subscription.lasting = subscription.qos > 0 and session.expiry_s > 0
    if share:
        session.shares = True
    session.subscriptions[name] = subscription
    session.hub.router.add(subscription)
    if session.sid:
        identifier = read_varint(subscription.ids, 1, len(subscription.ids))[0] if ids else 0
        session.hub.book().subscribed(name, subscription, identifier)


def _take_item(
    session: Session, taken: Taken, data: bytes, pos: int, epoch: float, newest: bool
) -> int:
    """One message of a session; the place behind it."""
    if pos + ITEM.size > len(data):
        raise malformed("a message of a session is cut off")
    place, qos, flags, pid, ids_size, group_size, size = ITEM.unpack_from(data, pos)
    size = int(size)
    ids_from = pos + ITEM.size
    group_from = ids_from + ids_size
    body_from = group_from + group_size
    end: int = body_from + size
    if end > len(data):
        raise malformed("a message of a session is cut off")
    if place:
        if taken.has(place, pid != 0):
            return end
        taken.add(place, pid != 0)
    message = journal.publish_of(data[body_from:end], epoch)
    delivery = Delivery(message, qos, flags & RETAIN != 0, data[ids_from:group_from])
    delivery.fed = flags & FED != 0
    group = data[group_from:body_from].decode("utf-8")
    if group:
        for subscription in session.subscriptions.values():
            if subscription.group is not None and subscription.group.full_name == group:
                delivery.group = subscription.group
    session.receive(delivery, pid if newest else 0, flags & RELEASED != 0)
    return end
