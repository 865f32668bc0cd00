"""The side that claims a session: for a client that connects, or for a node that drains.

    CLAIMING  the claim is announced; who has the session shall offer it
    ARRIVING  an offer is accepted, entries come
    OPENING   there is nobody to wait for, but somebody may have a session: the client gets a new
              one, as soon as the nodes that can be reached know of it
    OWNED     the end: the session is here, or its claim was withdrawn

The connection may be gone meanwhile; then the session arrives all the same, and rests here.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.member import Member
from mhub.cluster.migration.queues import revive_inflight
from mhub.cluster.migration.segments import Gate, Segment
from mhub.core import records
from mhub.core.channel_records import Entry
from mhub.core.connection import WAITING, Connection
from mhub.core.delivery import delivery_of
from mhub.core.journal import subscription_record
from mhub.core.limits import NEVER
from mhub.core.records import Row, StoredSession
from mhub.core.restore import ARRIVING as ARRIVING_NOTE
from mhub.core.restore import revive
from mhub.core.session import Session, Will
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

CLAIMING: Final = "claiming"
ARRIVING: Final = "arriving"
OPENING: Final = "opening"
OWNED: Final = "owned"

OPENING_S: Final = 2.0
"""So long a new session waits for nodes to switch."""

TABLE: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (CLAIMING, "accept"): ("accept", ARRIVING),
    (CLAIMING, "nobody"): ("welcome", OWNED),
    (CLAIMING, "unreachable"): ("open", OPENING),
    (CLAIMING, "timeout"): ("open", OPENING),
    (CLAIMING, "superseded"): ("withdraw", OWNED),
    (ARRIVING, "entries"): ("take", ARRIVING),
    (ARRIVING, "pending"): ("take_pending", ARRIVING),
    (ARRIVING, "end"): ("complete", OWNED),
    (ARRIVING, "lost"): ("drop", CLAIMING),
    (ARRIVING, "timeout"): ("drop_and_open", OPENING),
    (ARRIVING, "superseded"): ("refuse", ARRIVING),
    (OPENING, "marked"): ("welcome_new", OWNED),
    (OPENING, "timeout"): ("welcome_new", OWNED),
    (OPENING, "again"): ("open", OPENING),
    (OPENING, "superseded"): ("withdraw", OWNED),
}


class Offer:
    """A session that another node has, as its SESSION says."""

    def __init__(self, session_id: str, now: float, stored: StoredSession) -> None:
        self.stored = stored
        self.session_id = session_id
        self.now = now  # there
        self.held = stored.record.epoch  # the epoch under which it was held there


class Target:
    def __init__(self, migration: "Migration", client_id: str, epoch: int) -> None:
        self._migration = migration
        self._node = migration.node
        self.client_id = client_id
        self.epoch = epoch
        self.state = CLAIMING
        self.connection: Connection | None = None
        self.deadline = 0.0
        self.offers: dict[str, Offer] = {}  # node -> what it has
        self.source = ""  # whose offer was accepted
        self.session: Session | None = None  # while it arrives
        self.marked: set[str] = set()  # while it is OPENING: nodes that know of the new session
        self.direct: list[Entry] = []  # what is published at the source while it arrives
        self.relayed: list[bytes] = []  # late entries that came while it arrived
        self._pending: dict[str, list[Entry]] = {}  # by the node that it is for
        self._clock_offset_s = 0.0  # the source's time of day minus our hub's time
        self._actions: dict[str, Callable[..., None]] = {
            "accept": self._accept,
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
        """An event that this state does not know changes nothing: it is from an earlier attempt."""
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

    def _accept(self, name: str) -> None:
        hub = self._node.hub
        offer = self.offers[name]
        self.source = name
        self._clock_offset_s = offer.now - hub.now
        limits = self._node.limits(offer.stored.record.listener)
        session = revive(hub, offer.stored, limits)
        session.epoch = self.epoch
        session.frozen = True
        self.session = session
        self._set_deadlines(session, offer.stored)
        if hub.journal is not None and session.expiry_s:
            hub.journal.session(session)
            hub.journal.note(ARRIVING_NOTE + self.client_id, str(session.sid))
        if session.sid:
            for name, subscription in session.subscriptions.items():
                record = subscription_record(session.sid, name, subscription)
                hub.require_journal().subscribed(record)
            for pid in session.incoming:
                hub.require_journal().incoming(session, pid, True)
        self._tell(frames.ACCEPT)

    def _set_deadlines(self, session: Session, stored: StoredSession) -> None:
        record = stored.record
        now = self._node.hub.now
        if record.ends_at:
            session.ends_at = record.ends_at - self._clock_offset_s
        elif session.expiry_s != NEVER:
            session.ends_at = now + session.expiry_s
        if record.will and record.will_at:
            message = records.publish_of(record.will, self._clock_offset_s)
            session.will = Will(message, record.will_delay_s)
            session.will.due_at = record.will_at - self._clock_offset_s

    # ARRIVING

    def _take(self, rows: list[Row]) -> None:
        session = self.session
        assert session is not None
        hub = self._node.hub
        self.wait()
        for row in rows:
            if row.record.pid:
                revive_inflight(hub, session, row, self._clock_offset_s)
            elif session.sid:
                row.body = records.shifted(
                    row.body, hub.require_journal().clock_offset_s - self._clock_offset_s
                )
                hub.require_journal().adopt(session, row)
                session.page_out(row.record.size_bytes)
            else:
                session.keep(delivery_of(row, self._clock_offset_s, session.subscriptions))
        self._tell(frames.MORE)

    def _take_pending(self, node: str, pending: list[Entry]) -> None:
        self.wait()
        self._pending.setdefault(node, []).extend(pending)
        self._tell(frames.MORE)

    def _complete(self, gates: dict[str, list[Segment]], is_lost: bool) -> None:
        """All of it is here.  What nodes have published since comes when they have switched."""
        hub = self._node.hub
        session = self.session
        assert session is not None
        offer = self.offers.pop(self.source)
        session.frozen = False
        for name, copies in self._pending.items():
            if name != self._node.name:
                peer = self._node.peers.meet(name)
                for copy in copies:
                    peer.outgoing.put_copy(copy)
                self._migration.intakes.copied(name, copies)
        old = hub.sessions.get(self.client_id)
        hub.put_session(session)
        for subscription in session.subscriptions.values():
            hub.router.add(subscription)
        hub.review(session)  # what it may do is decided by the rights of this node
        hub.count(session)
        if session.sid:
            hub.require_journal().note(ARRIVING_NOTE + self.client_id, "")
            hub.require_journal().session(session)
        if is_lost:
            session.lose_state(True)
        intake = self._migration.intakes.of(session)
        mine = gates.pop(self._node.name, [])
        intake.gates = {node: Gate(self.epoch, each) for node, each in gates.items()}
        self._migration.switches.remember(self.client_id, self.epoch, session.began)
        older = {*self._migration.claims.older(self.client_id)}
        self._migration.switches.close(self.client_id, session.began, older)
        self._migration.intakes.close_merging(self._node.name, self.client_id)
        filters = self._migration.intakes.filters(session)
        for entry in self._migration.resend.collect(self.client_id, filters, mine):
            if intake.is_new(self._node.name, entry.via):
                intake.deliver(entry.message)
        for entry in self.direct:
            intake.deliver(entry.message)
        self._migration.exchange.took(self, session, offer, {each.node for each in mine})
        for body in self.relayed:
            self._migration.intakes.came("", self.client_id, body)
        if old is not None:
            self._migration.merging.fold(old, session)

    def _drop(self) -> None:
        """The source is gone, or has begun again: it has all of this."""
        hub = self._node.hub
        session = self.session
        assert session is not None
        self.session = None
        self.direct = []
        self._pending = {}
        self.offers.pop(self.source, None)
        session.forget_queue()
        if session.sid:
            hub.require_journal().note(ARRIVING_NOTE + self.client_id, "")
            hub.require_journal().ended(session)
        self._migration.claims.claim_again(self)

    def _drop_and_open(self) -> None:
        self._drop()  # which claims anew, and opens under the new epoch

    def _refuse(self, member: Member) -> None:
        """The client is somewhere else now; the session goes there from here."""
        self._fail(f"the client has connected to node {member.name}")

    # A new session

    def _open(self) -> None:
        if self.connection is None or self.connection.state != WAITING:
            # Nobody needs a new session: what others have stays as it is.
            self.state = OWNED
            self._migration.claims.withdrawn(self)
            return
        self.deadline = self._node.hub.now + OPENING_S
        self.marked = set()
        self._migration.claims.ask_all(self)

    def _welcome_new(self) -> None:
        self._migration.claims.open_new(self)

    def _welcome(self) -> None:
        self._migration.claims.completed(self, self._node.hub.sessions.get(self.client_id))

    def _withdraw(self, member: Member) -> None:
        self._fail(f"the client has connected to node {member.name}")
        self._migration.claims.withdrawn(self)

    def _fail(self, text: str) -> None:
        connection = self.connection
        self.connection = None
        if connection is not None and connection.state == WAITING:
            # No CONNACK may say 0x8E Session taken over [MQTT-3.2.2-8]; nobody broke a rule.
            connection.fail(reasons.SERVER_BUSY, text)

    def _tell(self, kind: int) -> None:
        self._migration.tell(self.source, kind, client=self.client_id, epoch=self.epoch)
