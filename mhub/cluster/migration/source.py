"""The side that has a session which another node has claimed.

    IDLE      it stays here: the owner cannot be reached
    OFFERED   SESSION is out
    SENDING   the target takes it: entries go out, while more may come in
    CUTTING   what comes from now on is not for this part of it: the rest goes out
    ENDED     END is out: the target may have the session by now
    DOUBT     ... and it cannot be asked, or has not answered
    MERGING      the target has a newer session: what is here goes into the channel to it

From SESSION on the session is frozen: nobody is connected, and it does not expire.  It stays as it
is, and all that comes for it is kept; so whatever goes wrong before END, it is still whole.  From
the cut on, what comes from other nodes is kept here and not confirmed to them, so they have it,
too; what is published here is kept and in the channel to the target as well.  One of both is
dropped when it is known who has the session.
"""

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack, with_data
from mhub.cluster.member import Member
from mhub.cluster.migration import queues
from mhub.cluster.migration.given import Given
from mhub.cluster.migration.pending import copies_of, pending_of
from mhub.cluster.migration.queues import Reader, row_of, stored_of
from mhub.cluster.migration.segments import Segment, segments_of
from mhub.core.channel_records import Entry, Origin
from mhub.core.codec import encode_rows, encode_session
from mhub.core.delivery import Delivery, Subscription
from mhub.core.records import Row
from mhub.core.session import Session
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

IDLE: Final = "idle"
OFFERED: Final = "offered"
SENDING: Final = "sending"
CUTTING: Final = "cutting"
ENDED: Final = "ended"
DOUBT: Final = "doubt"
MERGING: Final = "merging"
GONE: Final = "gone"

ENDED_NOTE: Final = "ended/"
"""Notes of sessions that may have been given away begin so."""

# (state, event) -> (what is done, the next state).
TABLE: Final[dict[tuple[str, str], tuple[str, str]]] = {
    (IDLE, "ready"): ("offer", OFFERED),
    (IDLE, "merge"): ("leave", MERGING),
    (OFFERED, "accepted"): ("begin", SENDING),
    (OFFERED, "merge"): ("leave", MERGING),
    (OFFERED, "done"): ("settle", GONE),
    (OFFERED, "refused"): ("discard", GONE),
    (OFFERED, "lost"): ("stay", IDLE),
    (OFFERED, "superseded"): ("stay", IDLE),
    (SENDING, "more"): ("send", SENDING),
    (SENDING, "loaded"): ("send_loaded", SENDING),
    (SENDING, "caught_up"): ("cut", CUTTING),
    (SENDING, "lost"): ("stay", IDLE),
    (SENDING, "superseded"): ("stay", IDLE),
    (CUTTING, "more"): ("send", CUTTING),
    (CUTTING, "loaded"): ("send_loaded", CUTTING),
    (CUTTING, "all"): ("end", ENDED),
    (CUTTING, "lost"): ("stay", IDLE),
    (CUTTING, "superseded"): ("stay", IDLE),
    (ENDED, "done"): ("settle", GONE),
    (ENDED, "lost"): ("doubt", DOUBT),
    (ENDED, "superseded"): ("ask", DOUBT),
    (DOUBT, "linked"): ("ask", DOUBT),
    (DOUBT, "lost"): ("doubt", DOUBT),
    (DOUBT, "overdue"): ("confirm", DOUBT),
    (DOUBT, "done"): ("settle", GONE),
    (DOUBT, "unknown"): ("stay", IDLE),
    (DOUBT, "unsure"): ("stay_in_doubt", IDLE),
    (MERGING, "loaded"): ("relay_loaded", MERGING),
    (MERGING, "all"): ("discard", GONE),
}


class Source:
    def __init__(self, migration: "Migration", session: Session) -> None:
        self._migration = migration
        self._node = migration.node
        self.session = session
        self.client_id = session.client_id
        self.intake = migration.intakes.of(session)
        self.state = IDLE
        self.target = ""  # whom it is for, in all states but IDLE
        self.epoch = 0  # of the target's claim
        self.overdue_at = 0.0  # DOUBT: when it is not worth to let other nodes wait any longer
        self.merging_since = 0.0
        self._session_id = ""  # which session of this node it is, for the target to know it again
        self._instance = ""  # of the target's process, at END
        self._reader = Reader(session, 0.0)
        self._rows: list[Row] = []
        self._credit = False  # the target wants more
        self._safe_at = 0  # the batch with which what was given so far is safe
        # By node: copies of what the client has published for it, that are still to be given
        self._pending: dict[str, list[tuple[Entry, Origin]]] = {}
        self._copied: dict[str, int] = {}  # node -> how far there are copies of our channel to it
        self._drained: dict[str, int] = {}  # node -> how far it must have confirmed our channel
        # At the cut, by node: where its messages may be which the session has not got
        self._segments: dict[str, list[Segment]] = {}
        self._is_overdue = False  # what came since the cut may have been confirmed
        self._has_missed = False  # and a node has switched since, for which it was
        self._shared: list[Delivery] = []  # what came by shared subscriptions since
        self._sid = 0  # of the session, if the store knows that it may have been given away
        self._actions: dict[str, Callable[..., None]] = {
            "offer": self._offer,
            "begin": self._begin,
            "send": self._send,
            "send_loaded": self._send_loaded,
            "cut": self._cut,
            "end": self._end,
            "settle": self._settle,
            "leave": self._leave,
            "relay_loaded": self._relay_loaded,
            "discard": self._discard,
            "stay": self._stay,
            "stay_in_doubt": self._stay_in_doubt,
            "doubt": self._doubt,
            "ask": self._ask,
            "confirm": self._confirm,
        }

    def handle(self, event: str, *args: Any) -> None:
        """An event that this state does not know changes nothing: it is from an earlier attempt."""
        row = TABLE.get((self.state, event))
        if row is not None:
            action, self.state = row
            self._actions[action](*args)

    def serves(self, node: str, epoch: int) -> bool:
        """The fence: whether a frame is about the claim that this is for."""
        active = self.state not in (IDLE, MERGING)
        return active and node == self.target and epoch == self.epoch

    # IDLE: may it be offered?

    def freeze(self) -> None:
        """Nobody is connected any more."""
        if not self.session.frozen:
            self.session.frozen = True
            self.session.forget_load()
            self._node.hub.wheel.disarm(self.session)

    def _publish_due_will(self) -> None:
        """One whose time has come goes out here, as the client is back too late; one whose delay is
        not over goes to the target with the session."""
        if self.session.is_will_due(self._node.hub.now):
            peers = self._node.peers
            publisher, peers.publisher = peers.publisher, None  # it is of this node
            self._node.hub.publish_will(self.session)
            peers.publisher = publisher

    def look(self) -> None:
        """Go on, if something is there to go on with."""
        if self.state in (
            OFFERED,
            SENDING,
            CUTTING,
            ENDED,
        ) and not self._migration.claims.is_wanted(self):
            self.handle("superseded")
        if self.state == IDLE:
            self._look_for_owner()
        elif self.state in (SENDING, CUTTING):
            self._go_on()
        elif self.state == DOUBT:
            self._release_if_overdue()
        elif self.state == MERGING:
            self._relay_on()

    def _look_for_owner(self) -> None:
        owner = self._migration.claims.owner_for(self)
        if owner is None or not owner.peer.up or not owner.has_table:
            return
        self._publish_due_will()
        self.freeze()
        self.target = owner.name
        self.epoch = self._migration.holders.held(owner, self.client_id)
        self.handle("ready", owner)

    # OFFERED

    def _offer(self, owner: Member) -> None:
        session = self.session
        clock_offset_s = self._migration.clock_offset_s()
        self._session_id = self._migration.session_id(session)
        self._reader = Reader(session, clock_offset_s)
        body = with_data(
            encode_session(stored_of(session, clock_offset_s)),
            client=self.client_id,
            epoch=self.epoch,
            session_id=self._session_id,
            now=clock_offset_s + self._node.hub.now,
        )
        self._migration.tell_table(owner)  # what that says of the session comes first
        self._tell(frames.SESSION, body)

    # SENDING

    def _begin(self) -> None:
        hub = self._node.hub
        self._rows = self._reader.first()
        self._reader.catch_up()
        self._safe_at = hub.journal.mark() if hub.journal is not None else 0
        self._credit = True
        self._pending = {}
        self._copied = {}
        self._drained = {m.name: m.peer.outgoing.last_n for m in self._node.members.values()}
        self._go_on()

    def _go_on(self) -> None:
        if not self._credit:
            return
        if self._safe_at > self._node.hub.durable and not self._has_nothing_to_give():
            return
        if self._rows:
            self._give_some()
        elif not self._reader.is_exhausted():
            rows = self._reader.read()
            if rows:
                self._give(rows)
        elif self._has_published() and not self._give_pending():
            self.handle("all" if self.state == CUTTING else "caught_up")

    def _has_nothing_to_give(self) -> bool:
        """Then the cut need not wait for the store; END does, for all at once."""
        if self.state != SENDING or self._rows or not self._reader.is_exhausted():
            return False
        others = [m for m in self._node.members.values() if m.name != self.target]
        return all(member.peer.responds() for member in others)

    def _send(self) -> None:
        self._credit = True
        self._go_on()

    def _send_loaded(self, rows: list[Row]) -> None:
        if found := self._reader.loaded(rows):
            self._rows = found
            self._give_some()
            return
        if not self._reader.is_exhausted():
            # They are on their way to the store.
            self._safe_at = self._node.hub.require_journal().mark()
        self._go_on()

    def _give_some(self) -> None:
        """Of what was read."""
        size_bytes = count = 0
        for row in self._rows[: queues.MOST]:
            count += 1
            size_bytes += row.record.size_bytes
            if size_bytes >= queues.MOST_BYTES:
                break
        self._give(self._rows[:count])
        del self._rows[:count]

    def _give(self, rows: list[Row]) -> None:
        self._credit = False
        self._migration.progress += len(rows)
        body = with_data(encode_rows(rows), client=self.client_id, epoch=self.epoch)
        self._tell(frames.ENTRIES, body)

    def _has_published(self) -> bool:
        """Whether all nodes that can be reached have what the client has published here.

        If a session has left one of them meanwhile, it may have to be sent again to another one.
        """
        for member in self._node.members.values():
            channel = member.peer.outgoing
            if not member.peer.responds():
                continue
            drained = self._drained.get(member.name, 0)
            if channel.confirmed_to() < drained:
                return False
            if channel.last_n > drained:
                behind = channel.behind(drained)
                mine = [e.n for e in behind if e.message.sender == self.client_id]
                if mine:
                    self._drained[member.name] = mine[-1]
                    return False
        return True

    def _give_pending(self) -> bool:
        """What the client has published, for nodes that cannot be reached: whether there was any.

        The target has copies in its channels to them, in front of what is published there next.
        """
        for member in self._node.members.values():
            peer = member.peer
            if peer.responds() or member.name == self.target:
                continue
            copied = self._copied.get(member.name, 0)
            entries = self._pending.setdefault(member.name, [])
            if not entries and peer.outgoing.last_n > copied:
                copies = copies_of(self._node.name, self.client_id, peer)
                entries += [each for each in copies if each[0].n > copied]
                self._copied[member.name] = peer.outgoing.last_n
            if entries:
                self._credit = False
                body = pending_of(self.client_id, self.epoch, peer, entries[: queues.MOST])
                del entries[: queues.MOST]
                self._tell(frames.PENDING, body)
                return True
        return False

    # CUTTING

    def _cut(self) -> None:
        """What the session has got up to now goes to the target, and what comes does not."""
        self._reader.catch_up()
        self.intake.divert = self._keep_and_send
        self._segments = self._migration.intakes.segments(self.session)
        self._migration.given.hold(self._why, self._segments)
        if self.session.sid:
            self._sid = self.session.sid
            self._instance = self._migration.instance_of(self.target)
            self._note_end()
        self._go_on()

    def _note_end(self) -> None:
        segments = json.dumps(self._segments)
        overdue = "overdue" if self._is_overdue else ""
        about = [self.target, str(self.epoch), self._session_id, self._instance, segments, overdue]
        journal = self._node.hub.require_journal()
        journal.note(f"{ENDED_NOTE}{self._sid}", "\n".join(about))
        self._safe_at = journal.mark()

    @property
    def _why(self) -> str:
        return f"{self.epoch}/{self.client_id}"

    def _keep_and_send(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        """What is published here since: the target takes it only if it takes the session."""
        if subscription.group is not None:
            delivery = _delivery(message, qos, subscription)
            self.session.enqueue(delivery)
            self._shared.append(delivery)
            return False
        if qos and self._node.peers.publisher is None:
            peer = self._node.members[self.target].peer
            peer.outgoing.put_direct(self.client_id, self.epoch, message, False, "")
        return True

    def _end(self) -> None:
        self._instance = self._migration.instance_of(self.target)
        gates = {**self._segments, self._node.name: []}
        lost = self.session.state_lost
        body = pack(client=self.client_id, epoch=self.epoch, gates=gates, lost=lost)
        self._tell(frames.END, body)

    # ENDED, DOUBT

    def recall_end(self, text: str) -> None:
        """END was out when this node ended, or about to be."""
        self.target, epoch, self._session_id, self._instance, segments, overdue = text.split("\n")
        self.epoch = int(epoch)
        self._is_overdue = overdue != ""
        self._segments = {n: segments_of(each) for n, each in json.loads(segments).items()}
        self._migration.given.hold(self._why, self._segments)
        self._sid = self.session.sid
        self.intake.divert = self._keep_and_send
        self.freeze()
        self.state = DOUBT
        self._doubt()

    def has_switched(self, node: str, epoch: int) -> None:
        """A node sends the target what is behind the cut: that has the session."""
        if self.state in (ENDED, DOUBT) and epoch >= self.epoch:
            self._has_missed = self._has_missed or self._has_confirmed(node)
            if self._segments.pop(node, None) is not None:
                self._node.members[node].peer.incoming.release_confirm(self._why)

    def _settle(self, number: int) -> None:
        """The target has the session."""
        given = Given(
            self.client_id, self.epoch, self.target, self._migration.intakes.filters(self.session)
        )
        given.instance = self._migration.instance_of(self.target)
        given.number = number
        given.began = self.session.began
        given.waits = self._segments
        if given.waits.pop(self.target, None) is not None:
            self._node.members[self.target].peer.incoming.release_confirm(self._why)
        self._migration.end_source(self, given, self._shared)

    def _doubt(self) -> None:
        """Until the target can be asked; other nodes wait for us a little, too."""
        self.overdue_at = self._node.hub.now + self._node.settings.suspect_s

    def _ask(self) -> None:
        self._doubt()
        body = pack(
            client=self.client_id,
            epoch=self.epoch,
            session_id=self._session_id,
            instance=self._instance,
        )
        self._tell(frames.ASK, body)

    def _confirm(self) -> None:
        """Others wait no longer, once the store knows.  If the target has the session, there is a
        gap in it then, and the client is told: see has_gap()."""
        self.overdue_at = math.inf
        self._is_overdue = True
        if self._sid:
            self._note_end()
        self._release_if_overdue()

    def _release_if_overdue(self) -> None:
        if self.overdue_at == math.inf and self._safe_at <= self._node.hub.durable:
            self._release()

    def has_gap(self) -> bool:
        """Whether the target misses something that came here since the cut: it was confirmed, so
        the node that published it may not have it any more.  That node sees it as well, but does
        not remember after a restart what was confirmed."""
        return self._has_missed or any(self._has_confirmed(name) for name in self._segments)

    def _has_confirmed(self, name: str) -> bool:
        segments = self._segments.get(name)
        member = self._node.members.get(name)
        if not self._is_overdue or not segments or member is None or name == self.target:
            return False
        channel, here = member.peer.incoming, segments[-1]
        position = here.position if channel.epoch == here.channel_epoch else 0
        return channel.last_received > position

    def _release(self) -> None:
        for name in self._segments:
            if name in self._node.members:
                self._node.members[name].peer.incoming.release_confirm(self._why)

    def forget_end(self) -> None:
        if self._sid:
            self._node.hub.require_journal().note(f"{ENDED_NOTE}{self._sid}", "")
            self._sid = 0

    def give_up(self) -> None:
        """Whatever was begun is over: the session has another fate now."""
        self._release()
        self._segments = {}
        self._is_overdue = False
        self._has_missed = False
        self._shared = []
        self.intake.divert = None
        self.forget_end()
        self.session.frozen = False
        self._node.hub.review_if_stale(self.session)
        self.session.forget_load()
        self._safe_at = 0
        self.state = IDLE

    def _stay(self) -> None:
        """It is still ours: the target is gone, or wants it no more."""
        self.give_up()
        self._migration.stays(self)

    def _stay_in_doubt(self) -> None:
        """Nobody can say who has it: it is not what the client knows any more."""
        self.session.reset_state()
        self.session.lose_state(True)
        self._stay()

    # MERGING

    def _leave(self) -> None:
        """What the client knows of it is over; its messages go to the newer session.

        This needs no answer: an entry is in the channel from the moment that it is not here.  What
        nodes send which do not know of the newer session yet follows.
        """
        self._publish_due_will()
        self.freeze()
        self.merging_since = self._node.hub.now
        self._migration.merging.set_apart(self)
        self.intake.divert = self._relay_on_arrival
        self._reader = Reader(self.session, self._migration.clock_offset_s())
        rows = [row for row in self._reader.first() if not row.record.released]
        for row in rows:
            row.record.pid = 0
        self._migration.merging.relay(self.session, rows)
        self.session.clear_sent()
        # What the store does not know yet to be in flight, or gone, it would give as queued.
        journal = self._node.hub.journal
        self._safe_at = journal.mark() if journal is not None else 0
        self._relay_on()

    def _relay_on_arrival(self, message: Publish, qos: int, subscription: Subscription) -> bool:
        if qos and subscription.group is None and self._reader.is_exhausted():
            delivery = _delivery(message, qos, subscription)
            row = row_of(delivery, 1, 0, self._migration.clock_offset_s())
            self._migration.merging.relay(self.session, [row])
            return False
        return qos > 0

    def _relay_on(self) -> None:
        while self._safe_at <= self._node.hub.durable:
            if self._reader.is_exhausted():
                if self._migration.intakes.is_closed(self):
                    self.handle("all")
                return
            rows = self._reader.read()
            if rows is None:
                return
            self._migration.merging.relay(self.session, rows)

    def _relay_loaded(self, rows: list[Row]) -> None:
        if found := self._reader.loaded(rows):
            self._migration.merging.relay(self.session, found)
            for row in found:
                self._node.hub.require_journal().forget(row.record)
        elif not self._reader.is_exhausted():
            # They are on their way to the store.
            self._safe_at = self._node.hub.require_journal().mark()
        self._relay_on()

    def _discard(self) -> None:
        """Nothing of it is needed any more."""
        self._migration.end_source(self, None, [])

    def _tell(self, kind: int, body: bytes) -> None:
        self._migration.send(self.target, kind, body)


def _delivery(message: Publish, qos: int, subscription: Subscription) -> Delivery:
    retain = message.retain and subscription.retain_as_published
    delivery = Delivery(message, qos, retain, subscription.ids)
    delivery.group = subscription.group
    return delivery
