"""The side that claims a session: for a client that connects, or for a node that drains.

    CLAIMING  the claim is announced; who has the session shall offer it
    ARRIVING  the subscriptions are routed here, entries come
    OPENING   there is nobody to wait for, but somebody may have a session: the client gets a new
              one, as soon as the nodes that can be reached have marked their channels
    OWNED     the end: the session is here, or its claim was withdrawn

The connection may be gone meanwhile; then the session arrives all the same, and rests here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import parcels
from mhub.cluster.member import Member
from mhub.cluster.migration.frames import Pending, read_pending
from mhub.cluster.migration.gates import ArrivalGate, MissingGate
from mhub.cluster.migration.queues import delivery_of, revive_inflight
from mhub.cluster.migration.relays import source_id
from mhub.core import journal
from mhub.core.codec import decode_rows, decode_session
from mhub.core.connection import WAITING, Connection
from mhub.core.delivery import Delivery
from mhub.core.journal import StoredSession
from mhub.core.limits import NEVER
from mhub.core.restore import ARRIVING as ARRIVING_NOTE
from mhub.core.restore import revive
from mhub.core.session import Session
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.migration.epochs import Epochs

CLAIMING: Final = "claiming"
ARRIVING: Final = "arriving"
OPENING: Final = "opening"
OWNED: Final = "owned"

OPENING_S: Final = 2.0
"""So long a new session waits for marks."""

TABLE: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (CLAIMING, "accept"): ("route", ARRIVING),
    (CLAIMING, "nobody"): ("welcome", OWNED),
    (CLAIMING, "unreachable"): ("open", OPENING),
    (CLAIMING, "late"): ("open", OPENING),
    (CLAIMING, "superseded"): ("withdraw", OWNED),
    (ARRIVING, "entries"): ("take", ARRIVING),
    (ARRIVING, "pending"): ("take_pending", ARRIVING),
    (ARRIVING, "end"): ("complete", OWNED),
    (ARRIVING, "lost"): ("drop", CLAIMING),
    (ARRIVING, "late"): ("drop_and_open", OPENING),
    (ARRIVING, "superseded"): ("refuse", ARRIVING),
    (OPENING, "marked"): ("welcome_new", OWNED),
    (OPENING, "late"): ("welcome_new", OWNED),
    (OPENING, "superseded"): ("withdraw", OWNED),
}


class Offer:
    """A session that another node has, as its SESSION says."""

    def __init__(self, said: dict[str, Any], data: bytes) -> None:
        self.stored: StoredSession = decode_session(data)
        self.life = str(said["life"])
        self.is_lost = bool(said["lost"])
        self.now = float(said["now"])  # there
        self.held = self.stored.record.epoch  # the epoch under which it was held there
        self.began = self.stored.record.began
        self.waits = {str(node): set(names) for node, names in said["waits"].items()}
        self.counts: dict[str, int] = said["counts"]


class Target:
    def __init__(self, epochs: "Epochs", client_id: str, epoch: int) -> None:
        self._epochs = epochs
        self._node = epochs.node
        self.client_id = client_id
        self.epoch = epoch
        self.state = CLAIMING
        self.connection: Connection | None = None
        self.deadline = 0.0
        self.offers: dict[str, Offer] = {}  # node -> what it has
        self.source = ""  # whose offer was accepted
        self.session: Session | None = None  # while it arrives
        self.gate: ArrivalGate | None = None
        self.marked: set[str] = set()  # while it is OPENING
        self.relayed: list[bytes] = []  # control records that came while it arrived
        self._pending: dict[str, list[Pending]] = {}  # by the node that it is for
        self._held: dict[str, list[Delivery]] = {}  # what the source had held back, by node
        self._clock_s = 0.0  # the source's time of day minus our hub's time
        self._actions: dict[str, Callable[..., None]] = {
            "route": self._route,
            "welcome": self._welcome,
            "welcome_new": self._welcome_new,
            "open": self._open,
            "withdraw": self._withdraw,
            "take": self._take,
            "take_pending": self._take_pending,
            "complete": self._complete,
            "drop": self._drop,
            "drop_and_open": self._drop_and_open,
            "refuse": self._refuse,
        }

    def handle(self, event: str, *args: Any) -> None:
        row = TABLE.get((self.state, event))
        if row is not None:
            action, self.state = row
            self._actions[action](*args)

    def wait(self) -> None:
        """Something has moved: it may take as long again."""
        self.deadline = self._node.hub.now + self._node.settings.takeover_timeout_s

    @property
    def is_clean(self) -> bool:
        welcome = self.connection.welcome if self.connection is not None else None
        return welcome is not None and welcome.packet.clean

    # CLAIMING -> ARRIVING

    def _route(self, name: str) -> None:
        """From here on, what is published with a mark behind us is for this session."""
        hub = self._node.hub
        offer = self.offers[name]
        self.source = name
        self._clock_s = offer.now - hub.now
        limits = self._node.limits(offer.stored.record.listener)
        session = revive(hub, offer.stored, limits)
        session.epoch = self.epoch
        session.frozen = True
        self.session = session
        self.gate = ArrivalGate(session, self._node.name)
        session.intake = self.gate
        self._set_deadlines(session, offer.stored)
        if hub.ledger is not None and session.expiry_s:
            hub.ledger.session(session)
            hub.ledger.note(ARRIVING_NOTE + self.client_id, str(session.sid))
        for subscribed, subscription in session.subscriptions.items():
            if not subscription.share:
                hub.router.add(subscription)
            if session.sid:
                hub.book().subscribed(subscribed, subscription)
        if session.sid:
            for pid in session.incoming:
                hub.book().incoming(session, pid, True)
        self._epochs.cut(self.client_id, self.epoch, name)

    def _set_deadlines(self, session: Session, stored: StoredSession) -> None:
        record = stored.record
        now = self._node.hub.now
        if record.ends_at:
            session.ends_at = record.ends_at - self._clock_s
        elif session.expiry_s != NEVER:
            session.ends_at = now + session.expiry_s
        if record.will and record.will_at:
            session.will = journal.publish_of(record.will, self._clock_s)
            session.will_delay_s = record.will_delay_s
            session.will_at = record.will_at - self._clock_s

    # ARRIVING

    def _take(self, data: bytes, held: str) -> None:
        """Entries; those that were `held` back there, of that node, are so here."""
        session = self.session
        assert session is not None
        hub = self._node.hub
        self.wait()
        rows = decode_rows(data)
        if held:
            deliveries = [delivery_of(session, row, self._clock_s) for row in rows]
            self._held[held] = deliveries
            rows = []
        for row in rows:
            if row.record.pid:
                revive_inflight(hub, session, row, self._clock_s)
            elif session.sid:
                row.body = journal.shifted(row.body, hub.book().epoch - self._clock_s)
                hub.book().adopt(session, row)
                session.page_out(row.record)
            else:
                session.keep(delivery_of(session, row, self._clock_s))
        self._epochs.tell(self.source, parcels.MORE, client=self.client_id, epoch=self.epoch)

    def _take_pending(self, said: dict[str, Any], data: bytes) -> None:
        self.wait()
        now = self._node.hub.now
        pending = read_pending(self.client_id, said, data, now)
        self._pending.setdefault(str(said["node"]), []).extend(pending)
        self._epochs.tell(self.source, parcels.MORE, client=self.client_id, epoch=self.epoch)

    def _complete(self, missing: list[str]) -> None:
        """All of it is here: behind it comes what was held back."""
        hub = self._node.hub
        session, gate = self.session, self.gate
        assert session is not None and gate is not None
        served = self.epoch
        offer = self.offers.pop(self.source)
        session.frozen = False
        session.intake = None
        for name, those in self._pending.items():
            if name != self._node.name:
                peer = self._node.peers.meet(name)
                for each in those:
                    peer.put_copy(each.message, each.plain, each.shares, each.origin)
        old = hub.sessions.get(self.client_id)
        hub.sessions[self.client_id] = session
        self._epochs.relays.came_back(self.client_id)
        for subscription in session.subscriptions.values():
            if subscription.share:
                hub.router.add(subscription)
        if session.sid:
            hub.book().note(ARRIVING_NOTE + self.client_id, "")
            hub.book().session(session)
        waits = offer.waits
        self._epochs.relay_counts[self.client_id] = offer.counts
        direct: dict[str, int] = {}
        for remainder in self._epochs.relays.dissolve(session, offer.counts):
            for node in remainder.missing:
                direct[node] = max(direct.get(node, 0), remainder.epoch)
                waits.get(node, set()).discard(source_id(self._node.name, remainder.epoch))
        waits = {node: sources for node, sources in waits.items() if sources}
        for node in missing:
            if node != self._node.name:
                waits.setdefault(node, set()).add(source_id(self.source, self.epoch))
        behind = MissingGate(session, self._node.name, self.epoch, waits)
        behind.direct = {node: epoch for node, epoch in direct.items() if node in waits}
        for node in gate.marked:
            behind.mark(node, self.epoch)
        held = [(node, each, 0) for node, those in self._held.items() for each in those]
        for node, delivery, later in held + gate.held:
            if later:
                continue
            if node in waits:
                behind.hold(node, delivery)
            else:
                session.enqueue(delivery)
        if waits:
            session.intake = behind
            self._epochs.note_waits(session)
        self._epochs.took(session, self.source, offer.life, missing)
        self._epochs.completed(self, session)
        self._epochs.done(self.client_id, self.source, served, missing)
        self._epochs.beyond(session, gate)
        for body in self.relayed:
            self._epochs.came("", self.client_id, body)
        if old is not None:
            self._epochs.fold(old, session)

    def _drop(self) -> None:
        """The source is gone, or has begun again: it has all of this."""
        hub = self._node.hub
        session = self.session
        assert session is not None
        self.session = None
        self.gate = None
        self._held = {}
        self._pending = {}
        relayed, self.relayed = self.relayed, []
        self.offers.pop(self.source, None)
        for subscription in session.subscriptions.values():
            if not subscription.share:
                hub.router.remove(subscription)
        hub.queued_bytes -= session.queued_bytes
        if session.sid:
            hub.book().note(ARRIVING_NOTE + self.client_id, "")
            hub.book().ended(session)
        self.epoch = self._epochs.claim_again(self)
        for body in relayed:
            self._epochs.came("", self.client_id, body)

    def _drop_and_open(self) -> None:
        self._drop()
        self._open()

    def _refuse(self, member: Member) -> None:
        """The client is somewhere else now; the session goes there from here."""
        self._fail(f"the client has connected to node {member.name}")

    # A new session

    def _open(self) -> None:
        self.deadline = self._node.hub.now + OPENING_S
        self._epochs.cut(self.client_id, self.epoch)
        self._epochs.check_opening(self)

    def _welcome_new(self) -> None:
        self._epochs.open_new(self)

    def _welcome(self) -> None:
        self._epochs.completed(self, self._node.hub.sessions.get(self.client_id))

    def _withdraw(self, member: Member) -> None:
        self._fail(f"the client has connected to node {member.name}")
        self._epochs.withdrawn(self)

    def _fail(self, text: str) -> None:
        connection = self.connection
        self.connection = None
        if connection is not None and connection.state == WAITING:
            connection.fail(reasons.SESSION_TAKEN_OVER, text)
