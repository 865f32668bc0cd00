"""The side that has a session which another node has claimed.

    IDLE      it stays here: the owner cannot be reached
    OFFERED   SESSION is out
    SENDING   the target has routed the subscriptions: entries go out, marks come in
    ENDED     END is out: the target may have the session by now
    DOUBT     ... and it cannot be asked, or has not answered
    LEAVING   the target has a newer session: what is here goes into the channel to it, as late

From SESSION to DONE the session is frozen: nobody is connected, and it does not expire.  It stays
as it is, and all that comes for it is kept; so whatever goes wrong before END, it is still whole.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import parcels
from mhub.cluster.member import Member
from mhub.cluster.migration.frames import copies_of, pending_of, with_data
from mhub.cluster.migration.gates import SourceGate
from mhub.cluster.migration.queues import MOST, Reader, row_of, stored_of
from mhub.cluster.parcels import pack
from mhub.core.codec import encode_rows, encode_session
from mhub.core.journal import Row
from mhub.core.peer import Entry
from mhub.core.session import Session

if TYPE_CHECKING:
    from mhub.cluster.migration.epochs import Epochs

IDLE: Final = "idle"
OFFERED: Final = "offered"
SENDING: Final = "sending"
ENDED: Final = "ended"
DOUBT: Final = "doubt"
LEAVING: Final = "leaving"
GONE: Final = "gone"

ENDED_NOTE: Final = "ended/"
"""Notes of sessions that may have been given away begin so."""

# (state, event) -> (what is done, the next state).
TABLE: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (IDLE, "ready"): ("offer", OFFERED),
    (IDLE, "late"): ("leave", LEAVING),
    (OFFERED, "cut"): ("begin", SENDING),
    (OFFERED, "late"): ("leave", LEAVING),
    (OFFERED, "done"): ("settle", GONE),
    (OFFERED, "refused"): ("discard", GONE),
    (OFFERED, "lost"): ("stay", IDLE),
    (OFFERED, "superseded"): ("stay", IDLE),
    (SENDING, "more"): ("send", SENDING),
    (SENDING, "loaded"): ("send", SENDING),
    (SENDING, "all"): ("end", ENDED),
    (SENDING, "lost"): ("stay", IDLE),
    (SENDING, "superseded"): ("stay", IDLE),
    (ENDED, "done"): ("settle", GONE),
    (ENDED, "lost"): ("wait", DOUBT),
    (ENDED, "superseded"): ("ask", DOUBT),
    (DOUBT, "linked"): ("ask", DOUBT),
    (DOUBT, "lost"): ("wait", DOUBT),
    (DOUBT, "done"): ("settle", GONE),
    (DOUBT, "unknown"): ("stay", IDLE),
    (DOUBT, "unsure"): ("stay_in_doubt", IDLE),
    (LEAVING, "loaded"): ("relay", LEAVING),
    (LEAVING, "all"): ("discard", GONE),
}


class Source:
    def __init__(self, epochs: "Epochs", session: Session) -> None:
        self._epochs = epochs
        self._node = epochs.node
        self.session = session
        self.client_id = session.client_id
        self.state = IDLE
        self.target = ""  # whom it is for, in all states but IDLE
        self.epoch = 0  # of the target's claim
        self.gate = SourceGate(session, epochs.node.name, epochs.missing_gate(session))
        self._asked: set[str] = set()  # nodes whose marks are to come
        self._life = ""  # which session of this node it is, for the target to know it again
        self._reader = Reader(session, 0.0)
        self._rows: list[Row] = []
        self._held_given: set[str] = set()  # nodes of which what is held back was given
        # By node: copies of what the client has published for it, that are still to be given
        self._pending: dict[str, list[Entry]] = {}
        self._instance = ""  # of the target's process, at END
        self._credit = False  # the target wants more
        self.is_late = False
        self.closings: list[bytes] = []  # CLOSED that came while it was frozen
        self._is_end_noted = False
        self._missing: set[str] = set()  # at END
        self._safe_at = 0  # the batch with which all that it had when it was frozen is safe
        self._drained: dict[str, int] = {}  # node -> how far it must have confirmed our channel
        self._actions: dict[str, Callable[..., None]] = {
            "offer": self._offer,
            "begin": self._begin,
            "send": self._send,
            "end": self._end,
            "settle": self._settle,
            "leave": self._leave,
            "relay": self._relay,
            "discard": self._discard,
            "stay": self._stay,
            "stay_in_doubt": self._stay_in_doubt,
            "wait": self._wait,
            "ask": self._ask,
        }
        session.intake = self.gate

    def handle(self, event: str, *args: Any) -> None:
        """An event that this state does not know changes nothing: it is from an earlier attempt."""
        row = TABLE.get((self.state, event))
        if row is not None:
            action, self.state = row
            self._actions[action](*args)

    def serves(self, node: str, epoch: int) -> bool:
        """The fence: whether a frame is about the claim that this is for."""
        active = self.state not in (IDLE, LEAVING)
        return active and node == self.target and epoch == self.epoch

    # IDLE: may it be offered?

    def freeze(self) -> None:
        """Nobody is connected any more."""
        self.session.frozen = True
        self.session.forget_load()
        self._node.hub.wheel.disarm(self.session)

    def look(self) -> None:
        """Go on, if something is there to go on with."""
        if self.state in (OFFERED, SENDING, ENDED) and not self._epochs.is_wanted(self):
            self.handle("superseded")
        if self.state == IDLE:
            self._look_for_owner()
        elif self.state == SENDING:
            self._go_on()
        elif self.state == LEAVING:
            self._relay_on()

    def _look_for_owner(self) -> None:
        owner = self._epochs.owner_for(self)
        if owner is None or not owner.peer.up or not owner.has_table:
            return
        hub = self._node.hub
        if self.gate.under is not None:
            self.gate.under.give_up_early()
        if not self.session.frozen:
            self.freeze()
            self._safe_at = hub.ledger.mark() if hub.ledger is not None else 0
        if max(self._safe_at, self._node.peers.boot_after) > hub.durable:
            return
        self.target = owner.name
        self.epoch = self._epochs.epoch_of(owner, self.client_id)
        self.handle("ready", owner)

    # OFFERED

    def _offer(self, owner: Member) -> None:
        session = self.session
        epoch = self._epochs.time_of_day()
        self._life = self._epochs.life(session)
        self._reader = Reader(session, epoch)
        under = self.gate.under
        waits = {node: sorted(each) for node, each in under.waits.items()} if under else {}
        body = with_data(
            encode_session(stored_of(session, epoch)),
            client=self.client_id,
            epoch=self.epoch,
            life=self._life,
            lost=session.state_lost,
            waits=waits,
            counts=self._epochs.relay_counts.get(self.client_id, {}),
            now=epoch + self._node.hub.now,
        )
        self._epochs.tell_table(owner)  # what that says of the session comes first
        self._tell(parcels.SESSION, body)

    def _unmarked(self) -> set[str]:
        """Nodes whose messages may still be for this part of the session."""
        return {n for n in self._node.members if not self.gate.has_marked(n, self.epoch)}

    # SENDING

    def _begin(self, asked: list[str]) -> None:
        """The target has routed the subscriptions."""
        node = self._node
        self._asked = {*asked, self.target}
        self._rows = self._reader.first()
        self._credit = True
        self._held_given = set()
        self._pending = {}
        self._drained = {m.name: m.peer.last_n for m in node.members.values()}
        self._go_on()

    def _go_on(self) -> None:
        if not self._credit or self._safe_at > self._node.hub.durable:
            return
        if self._rows:
            self._give(self._rows[:MOST])
            del self._rows[:MOST]
        elif not self._reader.is_exhausted():
            rows = self._reader.read(self.gate.beyond, self.epoch)
            if rows:
                self._give(rows)
            elif rows is not None:
                self._go_on()
        elif not self._waits_for() and not self._give_held() and not self._give_pending():
            self._finish()

    def _send(self, rows: list[Row] | None = None) -> None:
        if rows is None:
            self._credit = True
        elif rows := self._reader.loaded(rows, self.gate.beyond, self.epoch):
            self._give(rows)
            return
        elif not self._reader.is_exhausted():
            self._safe_at = self._node.hub.book().mark()  # they are on their way to the store
        self._go_on()

    def _give(self, rows: list[Row], held: str = "") -> None:
        self._credit = False
        self._epochs.progress += len(rows)
        body = with_data(encode_rows(rows), client=self.client_id, epoch=self.epoch, held=held)
        self._tell(parcels.ENTRIES, body)

    def _give_held(self) -> bool:
        """What is held back here is held back there, too: whether there was any to give."""
        under = self.gate.under
        if under is None:
            return False
        for node, held in under.held.items():
            if node not in self._held_given:
                beyond = self.gate.beyond
                deliveries = [each for each in held if beyond.get(each, 0) < self.epoch]
                records = [d.record for d in deliveries if d.record is not None]
                self._safe_at = max((record.born for record in records), default=0)
                if self._safe_at > self._node.hub.durable:
                    return True
                self._held_given.add(node)
                epoch = self._epochs.time_of_day()
                self._give([row_of(d, 1, 0, epoch) for d in deliveries], node)
                return True
        return False

    def _give_pending(self) -> bool:
        """What the client has published, for nodes that cannot be reached: whether there was any.

        The target has copies in its channels to them, in front of what is published there next.
        """
        for member in self._node.members.values():
            peer = member.peer
            if (peer.up and peer.patient) or member.name == self.target:
                continue
            if member.name not in self._pending:
                self._pending[member.name] = copies_of(self._node.name, self.client_id, peer)
            entries = self._pending[member.name]
            if entries:
                self._credit = False
                body = pending_of(self.client_id, self.epoch, peer, entries[:MOST])
                del entries[:MOST]
                self._tell(parcels.PENDING, body)
                return True
        return False

    def _waits_for(self) -> bool:
        """Whether a node that can be reached has not marked its channel to us, or has not got what
        the client has published here."""
        for member in self._node.members.values():
            peer = member.peer
            if not peer.up or not peer.patient:
                continue
            if member.name in self._asked and not self.gate.has_marked(peer.name, self.epoch):
                return True
            if peer.confirmed_to() < self._drained.get(peer.name, 0):
                return True
        return False

    # The end of it

    def _finish(self) -> None:
        """END, when the store knows that from then on the target may have the session."""
        if self.session.sid and not self._is_end_noted:
            self._is_end_noted = True
            self._instance = self._epochs.instance_of(self.target)
            self._note_end("\n".join([self.target, str(self.epoch), self._life, self._instance]))
            self._safe_at = self._node.hub.book().mark()
        if self._safe_at <= self._node.hub.durable:
            self.handle("all")

    def _end(self) -> None:
        self.gate.after_end = []
        self.gate.end_epoch = self.epoch
        self._missing = self._unmarked()
        body = pack(client=self.client_id, epoch=self.epoch, missing=sorted(self._missing))
        self._instance = self._epochs.instance_of(self.target)
        self._tell(parcels.END, body)

    def _note_end(self, text: str) -> None:
        """After a restart, too, it is not known who has the session."""
        if self.session.sid:
            self._node.hub.book().note(ENDED_NOTE + self.client_id, text)

    def recall_end(self, text: str) -> None:
        """END was out when this node ended."""
        self.target, epoch, self._life, self._instance = text.split("\n")
        self.epoch = int(epoch)
        self._is_end_noted = True
        self.gate.after_end = []
        self.gate.end_epoch = self.epoch
        self.freeze()
        self.state = DOUBT

    def _settle(self, missing: list[str]) -> None:
        """The target has all that was given."""
        self._epochs.given(self, set(missing))

    # LEAVING

    def _leave(self, began: int) -> None:
        """What the client knows of it is over; its messages go to the newer session.

        But for those behind marks of the claim with which that one began.  This needs no answer: an
        entry is in the channel from the moment that it is not here.
        """
        self.epoch = began
        self.is_late = True
        self._rows = [row for row in self._reader.first() if not row.record.released]
        for row in self._rows:
            row.record.pid = 0
        self._epochs.relay(self, self._rows)
        self._rows = []
        self.session.clear_sent()
        self._relay_on()

    def _relay_on(self) -> None:
        while self._safe_at <= self._node.hub.durable:
            if self._reader.is_exhausted():
                self.handle("all")
                return
            rows = self._reader.read(self.gate.beyond, self.epoch)
            if rows is None:
                return
            self._epochs.relay(self, rows)

    def _relay(self, rows: list[Row]) -> None:
        found = self._reader.loaded(rows, self.gate.beyond, self.epoch)
        self._epochs.relay(self, found)
        for row in found:
            self._node.hub.book().forget(row.record)
        if not rows and not self._reader.is_exhausted():
            self._safe_at = self._node.hub.book().mark()  # they are on their way to the store
        self._relay_on()

    def _discard(self) -> None:
        """Nothing of it is needed any more, but for what missing nodes have sent."""
        self._epochs.given(self, self._unmarked() if self.is_late else set())

    def _stay(self) -> None:
        """It is still ours: the target is gone, or wants it no more."""
        if self._is_end_noted:
            self._is_end_noted = False
            self._note_end("")
        self.gate.after_end = None
        self.session.frozen = False
        self.session.forget_load()
        self._safe_at = 0
        self._epochs.stays(self)

    def _stay_in_doubt(self) -> None:
        """Nobody can say who has it: it is not what the client knows any more."""
        self.session.reset_state()
        self.session.lose_state(True)
        self._stay()

    def _wait(self) -> None:
        """Until the target can be asked."""

    def _ask(self) -> None:
        body = pack(
            client=self.client_id, epoch=self.epoch, life=self._life, instance=self._instance
        )
        self._tell(parcels.ASK, body)

    def _tell(self, kind: int, body: bytes) -> None:
        self._epochs.send(self.target, kind, body)
