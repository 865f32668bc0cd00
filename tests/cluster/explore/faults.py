"""Defects to put into the implementation: an exploration that finds none of them proves nothing.

Each is a function that changes the classes of `mhub.cluster.migration` in this process, for good.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from mhub.cluster import parcels
from mhub.cluster.migration import source, target
from mhub.cluster.migration.epochs import Epochs
from mhub.cluster.migration.gates import ArrivalGate, MissingGate, RelayGate, SourceGate
from mhub.cluster.migration.source import DOUBT, ENDED, IDLE, Source
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OWNED, Target
from mhub.cluster.parcels import unpack
from mhub.core.connection import Connection
from mhub.core.ledger import Ledger

FAULTS: dict[str, Callable[[], None]] = {}


def fault(function: Callable[[], None]) -> Callable[[], None]:
    FAULTS[function.__name__.replace("_", "-")] = function
    return function


# The fence


@fault
def target_takes_frames_of_any_epoch() -> None:
    def arriving(self: Epochs, member: Any, said: dict[str, Any]) -> Target | None:
        found = self.targets.get(str(said["client"]))
        return found if found is not None and found.state == ARRIVING else None

    Epochs._arriving = arriving


@fault
def source_takes_frames_of_any_epoch() -> None:
    def serves(self: Source, node: str, epoch: int) -> bool:
        return self.state not in (IDLE, source.LEAVING) and node == self.target

    Source.serves = serves


@fault
def target_takes_marks_of_any_epoch() -> None:
    marked = Epochs.marked

    def any_marked(self: Epochs, name: str, client_id: str, epoch: int) -> None:
        found = self.targets.get(client_id)
        if found is not None and found.gate is not None:
            found.gate.marked.add(name)
        marked(self, name, client_id, epoch)

    Epochs.marked = any_marked


@fault
def source_takes_marks_of_any_epoch() -> None:
    def has_marked(self: SourceGate, node: str, epoch: int) -> bool:
        return node in self.marks

    SourceGate.has_marked = has_marked


@fault
def session_of_any_epoch_is_an_offer() -> None:
    on_session = Epochs.on_session

    @wraps(on_session)
    def on_any_session(self: Epochs, member: Any, body: bytes) -> None:
        head, _, data = body.partition(b"\n")
        said = unpack(head)
        found = self.targets.get(str(said["client"]))
        if found is not None:
            said["epoch"] = found.epoch
        on_session(self, member, parcels.pack(**said) + b"\n" + data)

    Epochs.on_session = on_any_session


# The cut


@fault
def source_marks_one_late() -> None:
    """The first message behind a mark counts as one in front of it."""
    mark = SourceGate.mark
    add = SourceGate.add

    def late_mark(self: Any, node: str, epoch: int) -> None:
        mark(self, node, epoch)
        self.just_marked = True

    def late_add(self: Any, delivery: Any, epoch: int) -> None:
        if epoch and getattr(self, "just_marked", False):
            self.just_marked = False
            epoch = 0
        add(self, delivery, epoch)

    SourceGate.mark = late_mark
    SourceGate.add = late_add


@fault
def source_marks_one_early() -> None:
    """The last message in front of a mark counts as one behind it."""
    mark = SourceGate.mark

    def early_mark(self: Any, node: str, epoch: int) -> None:
        mark(self, node, epoch)
        session = self._session
        if session.sid and session.queued():
            self.beyond.setdefault(session.last_seq, epoch)
        elif session.queue:
            self.beyond.setdefault(session.queue[-1], epoch)

    SourceGate.mark = early_mark


@fault
def target_marks_one_late() -> None:
    """The first message behind a mark is taken for one in front of it."""
    admits = ArrivalGate.admits

    def late_admits(self: Any, message: Any, qos: int, subscription: Any) -> bool:
        if qos and len(self.marked) > 1 and not getattr(self, "passed", False):
            self.passed = True
            return False
        return admits(self, message, qos, subscription)

    ArrivalGate.admits = late_admits


@fault
def target_takes_what_comes_before_the_mark() -> None:
    admits = ArrivalGate.admits

    def early_admits(self: Any, message: Any, qos: int, subscription: Any) -> bool:
        peer = self._session.hub.source
        if peer is not None:
            self.marked.add(peer.name)
        return admits(self, message, qos, subscription)

    ArrivalGate.admits = early_admits


@fault
def cut_overtakes_the_table() -> None:
    """Nodes mark before they know the target's subscriptions."""

    def tell_table(self: Epochs, member: Any) -> None:
        pass

    Epochs.tell_table = tell_table


@fault
def node_does_not_mark_its_own_channel() -> None:
    def mark(self: Epochs, client_id: str, epoch: int, sources: list[str]) -> None:
        for name in sources:
            member = self.node.members.get(name)
            if member is not None and member.peer.clients.get(client_id, 0) >> 1 == epoch:
                member.peer.put_control(client_id, b"M" + epoch.to_bytes(8, "big"))

    Epochs._mark = mark


@fault
def end_says_that_nobody_is_missing() -> None:
    def unmarked(self: Source) -> set[str]:
        return set()

    Source._unmarked = unmarked


@fault
def end_does_not_wait_for_marks() -> None:
    def waits_for(self: Source) -> bool:
        return False

    Source._waits_for = waits_for
    end_says_that_nobody_is_missing()


# Safety


@fault
def unsafe_entries_are_given() -> None:
    go_on = Source._go_on
    look = Source._look_for_owner

    def hasty(self: Any) -> None:
        self._safe_at = 0
        go_on(self)

    def hasty_look(self: Any) -> None:
        mark = Ledger.mark
        Ledger.mark = lambda ledger: 0
        try:
            look(self)
        finally:
            Ledger.mark = mark

    Source._go_on = hasty
    Source._look_for_owner = hasty_look


@fault
def done_before_it_is_safe() -> None:
    done = Epochs.done

    def early_done(self: Any, client_id: str, name: str, epoch: int, missing: list[str]) -> None:
        done(self, client_id, name, epoch, missing)
        _, to, body = self._safe.pop()
        self._safe.append((0, to, body))

    Epochs.done = early_done


@fault
def connack_before_it_is_safe() -> None:
    def mute(self: Connection, until: int) -> None:
        pass

    Connection.mute = mute


@fault
def took_is_not_written() -> None:
    took = Epochs.took

    def unwritten(self: Any, session: Any, name: str, life: str, missing: list[str]) -> None:
        sid, session.sid = session.sid, 0
        took(self, session, name, life, missing)
        session.sid = sid

    Epochs.took = unwritten


@fault
def took_is_not_remembered() -> None:
    def forgetful(self: Any, session: Any, name: str, life: str, missing: list[str]) -> None:
        pass

    Epochs.took = forgetful


@fault
def arriving_is_not_noted() -> None:
    """After a crash, half of a session is taken for all of it."""
    target.ARRIVING_NOTE = "nothing/"


# All or nothing


@fault
def source_forgets_at_end() -> None:
    end = Source._end

    def last_end(self: Any) -> None:
        end(self)
        missing = sorted(self._missing)
        self.state = source.GONE
        self._settle(missing)

    Source._end = last_end


@fault
def beyond_the_cut_is_dropped_when_it_stays() -> None:
    stay = Source._stay

    def forgetful(self: Any) -> None:
        session = self.session
        for entry in self.gate.beyond:
            for delivery in list(session.queue or ()):
                seq = delivery.record.seq if delivery.record is not None else 0
                if delivery is entry or seq == entry:
                    session.queue.remove(delivery)
                    if not session.queue:
                        session.queue = None
                    break
        stay(self)

    Source._stay = forgetful


@fault
def beyond_the_cut_is_given() -> None:
    def add(self: Any, delivery: Any, epoch: int) -> None:
        self._session.enqueue(delivery)

    SourceGate.add = add


@fault
def what_was_held_back_is_dropped() -> None:
    complete = Target._complete

    def forgetful(self: Any, missing: list[str]) -> None:
        self.gate.held = []
        complete(self, missing)

    Target._complete = forgetful


@fault
def what_was_held_back_comes_first() -> None:
    take = Target._take

    def hasty(self: Any, data: bytes, held: str) -> None:
        early, self.gate.held = self.gate.held, []
        for _, delivery in early:
            self.session.enqueue(delivery)
        take(self, data, held)

    Target._take = hasty


@fault
def dropped_arrival_keeps_its_entries() -> None:
    """A target that begins again has what came before."""
    drop = Target._drop
    route = Target._route

    def keep(self: Any) -> None:
        self.kept = list(self.session.queue or ()) + [each for _, each in self.gate.held]
        drop(self)

    def again(self: Any, name: str) -> None:
        route(self, name)
        for delivery in getattr(self, "kept", ()):
            self.gate.held.append((name, delivery))

    Target._drop = keep
    Target._route = again


# One owner


@fault
def doubt_is_not_asked_about() -> None:
    source.TABLE[(ENDED, "lost")] = ("stay", IDLE)
    source.TABLE[(ENDED, "superseded")] = ("stay", IDLE)


@fault
def doubt_is_given_to_a_third() -> None:
    look = Source.look

    def hasty(self: Any) -> None:
        owner = self._epochs.owner_for(self) if self.state == DOUBT else None
        if owner is not None and owner.name != self.target:
            self.state = IDLE
        look(self)

    Source.look = hasty


@fault
def claim_is_served_while_it_arrives() -> None:
    target.TABLE[(ARRIVING, "superseded")] = ("withdraw", OWNED)


@fault
def let_in_while_it_is_given() -> None:
    def has_to_wait(self: Any, found: Target) -> bool:
        here = self.node.hub.sessions.get(found.client_id)
        return here is None and bool(self.holders(found.client_id))

    Epochs._has_to_wait = has_to_wait


@fault
def let_in_before_the_end() -> None:
    target.TABLE[(CLAIMING, "accept")] = ("welcome", OWNED)


@fault
def lower_epoch_wins() -> None:
    def lose_if_later(self: Any, client_id: str, member: Any, is_live: bool = True) -> None:
        session = self.node.hub.sessions.get(client_id)
        if session is not None and client_id not in self.targets:
            self._lose(session, "any claim")

    Epochs._lose_if_later = lose_if_later


@fault
def claim_goes_on_after_a_lost_source() -> None:
    """A target whose source is gone takes what has arrived for all of it."""

    def complete_anyway(self: Any) -> None:
        self._complete([])

    Target._drop = complete_anyway
    target.TABLE[(ARRIVING, "lost")] = ("drop", OWNED)


# Missing nodes


@fault
def relay_is_dropped() -> None:
    def admits(self: Any, message: Any, qos: int, subscription: Any) -> bool:
        return False

    RelayGate.admits = admits


@fault
def missing_node_is_not_waited_for() -> None:
    """What a missing node sends straight is not held back."""

    def admits(self: Any, message: Any, qos: int, subscription: Any) -> bool:
        return True

    MissingGate.admits = admits


@fault
def after_end_is_dropped() -> None:
    original = Epochs.given

    def given(self: Any, found: Source, missing: set[str]) -> None:
        found.gate.after_end = []
        original(self, found, missing)

    Epochs.given = given


@fault
def closed_is_ignored() -> None:
    def closed(self: Any, node: str, name: str) -> None:
        pass

    MissingGate.closed = closed
