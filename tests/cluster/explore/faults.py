"""Defects to put into the implementation: an exploration that finds none of them proves nothing.

Each is a function that changes classes of the implementation in this process, for good.  It names
configurations in which it hurts; schedules.txt has one schedule for each of them.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

from mhub.cluster import frames
from mhub.cluster.frames import pack, unpack
from mhub.cluster.migration import controls, exchange, intakes, resend, source, target
from mhub.cluster.migration.claims import Claims
from mhub.cluster.migration.exchange import Exchange
from mhub.cluster.migration.given import Given, GivenSessions
from mhub.cluster.migration.intake import Intake
from mhub.cluster.migration.intakes import Intakes
from mhub.cluster.migration.merging import Merging
from mhub.cluster.migration.migration import Migration
from mhub.cluster.migration.resend import Resend
from mhub.cluster.migration.source import DOUBT, ENDED, GONE, IDLE, MERGING, Source
from mhub.cluster.migration.switches import Cut, Switches
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OWNED, Target
from mhub.cluster.node import Node
from mhub.cluster.said import Said
from mhub.core.channel_in import IncomingChannel
from mhub.core.channel_out import OutgoingChannel
from mhub.core.connection import Connection
from mhub.core.journal import Journal

FAULTS: dict[str, Callable[[], None]] = {}

WHERE: dict[str, tuple[str, ...]] = {}
"""By defect: configurations that find it."""


NOT_FOUND: frozenset[str] = frozenset(
    {
        # A node sends what stands behind the mark of a place only after all that it had for the
        # session before, as direct messages to the same place.  So each segment, also of copies,
        # begins with what is in the earlier ones, and of what comes twice the first counts.
        "segments-in-the-wrong-order",
    }
)
"""Defects that cannot hurt, and why."""


def fault(*configs: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def put(function: Callable[[], None]) -> Callable[[], None]:
        name = function.__name__.replace("_", "-")
        FAULTS[name] = function
        WHERE[name] = configs
        return function

    return put


def nothing(*args: Any, **fields: Any) -> None:
    """In the place of something that was done."""


# The fence


@fault("slow-third", "back-memory", "cut")
def target_takes_frames_of_any_epoch() -> None:
    def arriving(self: Any, member: Any, said: Said) -> Target | None:
        found = self._migration.targets.get(said.text("client"))
        return found if found is not None and found.state == ARRIVING else None

    Exchange._arriving = arriving


@fault("split-bab", "again", "back-memory")
def source_takes_frames_of_any_epoch() -> None:
    def serves(self: Source, node: str, epoch: int) -> bool:
        return self.state not in (IDLE, MERGING) and node == self.target

    Source.serves = serves


@fault("onward-all", "again")
def session_of_any_epoch_is_an_offer() -> None:
    on_session = Exchange.on_session

    @wraps(on_session)
    def on_any_session(self: Any, member: Any, body: bytes) -> None:
        head, _, data = body.partition(b"\n")
        said = unpack(head)
        found = self._migration.targets.get(str(said["client"]))
        if found is not None:
            said["epoch"] = found.epoch
        on_session(self, member, pack(**said) + b"\n" + data)

    Exchange.on_session = on_any_session


@fault("crash-both", "cut-far", "away-bab")
def direct_message_of_any_epoch_is_taken() -> None:
    def direct(self: Any, entry: Any) -> None:
        found = self._migration.targets.get(entry.direct)
        if found is not None and found.state == ARRIVING:
            found.direct.append(entry)
            return
        session = self._node.hub.sessions.get(entry.direct)
        if session is not None:
            self.of(session).deliver(entry.message)

    Intakes.direct = direct


@fault("away-bab", "away-back")
def mark_of_any_epoch_opens_a_gate() -> None:
    marked = Intakes.marked

    def any_marked(self: Any, name: str, client_id: str, epoch: int, gap: bool) -> None:
        session = self._node.hub.sessions.get(client_id)
        intake = session.intake if session is not None else None
        if isinstance(intake, Intake) and name in intake.gates:
            epoch = intake.gates[name].epoch
        marked(self, name, client_id, epoch, gap)

    Intakes.marked = any_marked


@fault("away-back", "away-bab")
def switched_of_any_epoch_counts() -> None:
    on_switched = GivenSessions.on_switched

    @wraps(on_switched)
    def on_any_switched(self: Any, member: Any, body: bytes) -> None:
        said = unpack(body)
        said["epoch"] = (1 << 62) - 1
        on_switched(self, member, pack(**said))

    GivenSessions.on_switched = on_any_switched


@fault("away-back", "away-bab")
def cut_of_a_lower_epoch_counts() -> None:
    on_cut = Switches.on_cut

    @wraps(on_cut)
    def on_any_cut(self: Any, member: Any, body: bytes) -> None:
        self._switched.clear()
        on_cut(self, member, body)

    Switches.on_cut = on_any_cut


# Positions


def _positions(by: int) -> None:
    segments = Intakes.segments

    def other_segments(self: Any, session: Any) -> Any:
        found = segments(self, session)
        for each in found.values():
            each[-1] = each[-1]._replace(position=max(each[-1].position + by, 0))
        return found

    Intakes.segments = other_segments


@fault("near", "third")
def position_is_one_low() -> None:
    _positions(-1)


@fault("near", "third")
def position_is_one_high() -> None:
    _positions(1)


@fault("near", "third")
def position_is_taken_too_early() -> None:
    """When the session is offered: what comes between that and the cut comes twice."""
    offer = Source._offer
    segments = Intakes.segments

    def early_offer(self: Any, owner: Any) -> None:
        offer(self, owner)
        self._early = segments(self._migration.intakes, self.session)

    def early_segments(self: Any, session: Any) -> Any:
        found = self._migration.sources.get(session)
        return getattr(found, "_early", None) or segments(self, session)

    Source._offer = early_offer
    Intakes.segments = early_segments


@fault("near", "order")
def position_is_taken_too_late() -> None:
    """When END is sent: what comes between the cut and that is lost."""
    end = Source._end

    def late_end(self: Any) -> None:
        self._segments = self._migration.intakes.segments(self.session)
        end(self)

    Source._end = late_end


# Confirmations that are held back


@fault("near", "third")
def cap_is_not_held() -> None:
    IncomingChannel.hold_confirm = nothing


@fault("near", "third")
def cap_is_one_high() -> None:
    hold = IncomingChannel.hold_confirm

    def high(self: Any, why: str, n: int) -> None:
        hold(self, why, n + 1)

    IncomingChannel.hold_confirm = high


@fault("cut", "third-cut")
def cap_does_not_count_in_resume() -> None:
    opened = Node.opened

    @wraps(opened)
    def hasty(self: Any, channel: Any, hello: bytes) -> None:
        confirmable = IncomingChannel.confirmable
        IncomingChannel.confirmable = lambda channel: channel.safe_n
        try:
            opened(self, channel, hello)
        finally:
            IncomingChannel.confirmable = confirmable

    Node.opened = hasty


@fault("near", "third")
def cap_is_released_with_end() -> None:
    end = Source._end

    def releasing(self: Any) -> None:
        end(self)
        self._release()

    Source._end = releasing


@fault("away-bab", "third", "third-cut")
def cap_is_released_with_done() -> None:
    gave = GivenSessions.gave

    def releasing(self: Any, given: Given) -> None:
        gave(self, given)
        for name in given.waits:
            self._node.peers.peers[name].incoming.release_confirm(given.why)

    GivenSessions.gave = releasing


@fault("crash-third-source")
def cap_is_not_held_after_a_restart() -> None:
    recall = GivenSessions.recall

    def forgetful(self: Any, notes: dict[str, str]) -> None:
        hold, self.hold = self.hold, nothing
        recall(self, notes)
        self.hold = hold
        del self.hold

    GivenSessions.recall = forgetful


@fault("near", "move")
def cap_stays_when_it_is_over() -> None:
    IncomingChannel.release_confirm = nothing


# Safety


@fault("crash-third-target", "crash-target")
def cut_before_it_is_safe() -> None:
    took = Exchange.took

    def hasty(self: Any, found: Any, session: Any, offer: Any, older: set[str]) -> None:
        took(self, found, session, offer, older)
        self._migration.intakes.watch(session)

    Exchange.took = hasty


@fault("crash-target")
def done_before_it_is_safe() -> None:
    say_done = Exchange._say_done

    def hasty(self: Any, client_id: str, name: str, epoch: int) -> None:
        say_done(self, client_id, name, epoch)
        self._safe.append((0, *self._safe.pop()[1:]))

    Exchange._say_done = hasty


@fault("crash-source-back", "crash-source")
def end_before_the_note_is_safe() -> None:
    cut = Source._cut

    def hasty(self: Any) -> None:
        go_on, self._go_on = self._go_on, nothing
        cut(self)
        del self._go_on
        self._safe_at = 0
        go_on()

    Source._cut = hasty


@fault("crash-source-back", "crash-source")
def end_is_not_noted() -> None:
    source.ENDED_NOTE = "nothing/"


@fault("crash-split", "crash-target-queue", "crash-target")
def connack_before_it_is_safe() -> None:
    Connection.hold_output = nothing


@fault("crash-target-queue", "crash-both")
def took_is_not_written() -> None:
    note = Journal.note

    def unwritten(self: Any, name: str, text: str) -> None:
        if not name.startswith(exchange.TOOK):
            note(self, name, text)

    Journal.note = unwritten


@fault("cut", "cut-far")
def took_is_not_remembered() -> None:
    took = Exchange.took

    def forgetful(self: Any, found: Any, session: Any, offer: Any, older: set[str]) -> None:
        took(self, found, session, offer, older)
        self._took.clear()

    Exchange.took = forgetful


@fault("cut", "cut-far")
def took_is_forgotten_with_done() -> None:
    is_safe = Exchange._is_safe

    def forgetful(self: Any, client_id: str, name: str, epoch: int) -> None:
        is_safe(self, client_id, name, epoch)
        self.forget_took(client_id, name)

    Exchange._is_safe = forgetful


@fault("crash-target-queue", "crash-target")
def arriving_is_not_noted() -> None:
    """After a crash, half of a session is taken for all of it."""
    target.ARRIVING_NOTE = "nothing/"


@fault("crash-third-target", "crash-target")
def gates_are_not_written() -> None:
    intakes.text_of = lambda gates: ""


@fault("crash-third-source")
def session_that_was_given_is_not_noted() -> None:
    """Nodes that have not switched yet are not asked after a restart."""
    note = GivenSessions._note

    def unwritten(self: Any, given: Given) -> None:
        if not given.waits:
            note(self, given)

    GivenSessions._note = unwritten


# The switch


@fault("third", "order")
def mark_before_the_direct_ones() -> None:
    switch = Switches._switch

    def hasty(self: Any, cut: Cut) -> None:
        peer = self._node.meet(cut.to).peer
        put = peer.outgoing.put_direct
        later: list[Any] = []
        peer.outgoing.put_direct = lambda *args: later.append(args)
        try:
            switch(self, cut)
        finally:
            del peer.outgoing.put_direct
        for args in later:
            put(*args)

    Switches._switch = hasty


@fault("order", "third-memory")
def direct_ones_in_the_wrong_order() -> None:
    collect = Resend.collect

    def backward(self: Any, *args: Any) -> Any:
        return collect(self, *args)[::-1]

    Resend.collect = backward


@fault("away-bab", "away-back")
def segments_in_the_wrong_order() -> None:
    collect = Resend.collect

    def backward(self: Any, client_id: str, filters: Any, segments: Any) -> Any:
        return collect(self, client_id, filters, segments[::-1])

    Resend.collect = backward


@fault("away-bab", "away-back")
def first_segment_is_dropped() -> None:
    segments = Intakes.segments

    def last(self: Any, session: Any) -> Any:
        return {name: each[-1:] for name, each in segments(self, session).items()}

    Intakes.segments = last


@fault("away-back", "away-on")
def last_segment_is_dropped() -> None:
    segments = Intakes.segments

    def first(self: Any, session: Any) -> Any:
        return {name: each[: len(each) - 1 or 1] for name, each in segments(self, session).items()}

    Intakes.segments = first


@fault("away-back", "away-on")
def collect_ignores_that_a_gate_was_closed() -> None:
    collect = Resend.collect

    def hasty(self: Any, client_id: str, filters: Any, segments: Any) -> Any:
        return collect(self, client_id, filters, [s._replace(was_open=True) for s in segments])

    Resend.collect = hasty


@fault("onward-twice", "away-bab")
def collect_ignores_marks() -> None:
    resend._opens = lambda entry, segment: False


@fault("split-gap", "onward-twice", "away-bab")
def collect_ignores_close() -> None:
    is_switch = resend._is_switch

    def hasty(entry: Any, client_id: str) -> bool:
        return entry.message.payload[:1] != controls.CLOSE and is_switch(entry, client_id)

    resend._is_switch = hasty


@fault("onward-twice", "away-bab")
def what_was_sent_before_is_sent_again() -> None:
    Resend.not_sent = lambda self, client_id, segments: segments


@fault("onward-twice", "away-bab")
def collect_ignores_direct_ones() -> None:
    """What was sent again to where the session was, and did not get there, is not sent on."""
    scan = Resend._scan
    behind = OutgoingChannel.behind

    def hasty(self: Any, *args: Any) -> Any:
        OutgoingChannel.behind = lambda each, n: [e for e in behind(each, n) if not e.direct]
        try:
            return scan(self, *args)
        finally:
            OutgoingChannel.behind = behind

    Resend._scan = hasty


@fault("third", "third-cut")
def nothing_is_sent_again() -> None:
    Resend.collect = lambda self, *args: []


@fault("near")
def what_the_target_has_published_is_not_collected() -> None:
    complete = Target._complete

    def forgetful(self: Any, gates: dict[str, Any], is_lost: bool) -> None:
        gates.pop(self._node.name, None)
        complete(self, gates, is_lost)

    Target._complete = forgetful


@fault("split", "crash-target", "crash-both")
def close_is_not_sent() -> None:
    Switches.close = nothing


@fault("third", "third-memory")
def cut_overtakes_the_table() -> None:
    """A node switches before it knows the target's subscriptions."""
    Switches._expect = nothing
    Migration.tell_table = nothing


@fault("third")
def table_is_withdrawn_before_the_cut() -> None:
    """A node hears that the subscriptions are gone before it has switched."""
    gave = GivenSessions.gave
    original = Migration.end_source

    def given_late(self: Any, found: Source, given: Given | None, shared: Any) -> None:
        mine = self.given
        asked: list[Given] = []
        mine.gave = asked.append
        try:
            original(self, found, given, shared)
        finally:
            del mine.gave
        for member in self.node.links.values():
            self.tell_table(member)
        for each in asked:
            gave(mine, each)

    Migration.end_source = given_late


# Gates


@fault("third", "third-memory")
def gate_of_a_third_node_is_not_closed() -> None:
    end = Source._end

    def open_end(self: Any) -> None:
        segments = self._segments
        self._segments = {name: s for name, s in segments.items() if name == self.target}
        end(self)
        self._segments = segments

    Source._end = open_end


@fault("far", "order-far")
def gate_of_the_source_is_not_closed() -> None:
    complete = Target._complete

    def hasty(self: Any, gates: dict[str, Any], is_lost: bool) -> None:
        gates.pop(self.source, None)
        complete(self, gates, is_lost)

    Target._complete = hasty


@fault("far", "third")
def gate_is_opened_by_a_direct_message() -> None:
    direct = Intakes.direct

    def hasty(self: Any, entry: Any) -> None:
        direct(self, entry)
        session = self._node.hub.sessions.get(entry.direct)
        peer = self._node.peers.publisher
        if session is not None and session.intake is not None and peer is not None:
            session.intake.gates.pop(peer.name, None)

    Intakes.direct = hasty


@fault("far")
def what_comes_after_the_cut_is_not_sent() -> None:
    Source._keep_and_send = lambda self, message, qos, subscription: True


@fault("cut-far", "cut-memory")
def what_comes_after_the_cut_is_not_kept() -> None:
    keep_and_send = Source._keep_and_send

    def forgetful(self: Any, message: Any, qos: int, subscription: Any) -> bool:
        keep_and_send(self, message, qos, subscription)
        return False

    Source._keep_and_send = forgetful


@fault("far", "order-far")
def what_comes_after_the_cut_is_in_the_rest() -> None:
    """The source goes on to read what it has put into the channel as well."""
    cut = Source._cut

    def long_cut(self: Any) -> None:
        cut(self)
        self._reader._end = -1

    Source._cut = long_cut


@fault("far")
def direct_ones_are_dropped_when_it_has_come() -> None:
    complete = Target._complete

    def forgetful(self: Any, gates: dict[str, Any], is_lost: bool) -> None:
        self.direct = []
        complete(self, gates, is_lost)

    Target._complete = forgetful


@fault("waiting")
def direct_ones_come_first() -> None:
    direct = Intakes.direct

    def hasty(self: Any, entry: Any) -> None:
        found = self._migration.targets.get(entry.direct)
        if found is not None and found.session is not None and found.epoch == entry.session_epoch:
            route = self._node.hub.router.find(entry.message.topic_data)
            entry.message.topic = route.topic
            entry.message.topic_field = route.topic_field
            for subscription in found.session.subscriptions.values():
                found.session.deliver(entry.message, entry.message.qos, subscription)
            return
        direct(self, entry)

    Intakes.direct = hasty


@fault("far", "move")
def source_does_not_mark_its_own_channel() -> None:
    given = Migration.end_source

    def forgetful(self: Any, found: Source, what: Given | None, shared: Any) -> None:
        put = OutgoingChannel.put_control
        OutgoingChannel.put_control = lambda *args: None
        try:
            given(self, found, what, shared)
        finally:
            OutgoingChannel.put_control = put

    Migration.end_source = forgetful


# All or nothing


@fault("cut-far", "cut")
def source_forgets_at_end() -> None:
    end = Source._end

    def last_end(self: Any) -> None:
        end(self)
        self.state = GONE
        self._settle(0)

    Source._end = last_end


@fault("cut", "cut-memory")
def dropped_arrival_keeps_its_entries() -> None:
    """A target that begins again has what came before."""
    drop = Target._drop
    accept = Target._accept

    def keep(self: Any) -> None:
        queue = self.session.queue
        self.kept = list(self.session.inflight.deliveries.values())
        self.kept += queue.deliveries if queue is not None else ()
        drop(self)

    def again(self: Any, name: str) -> None:
        accept(self, name)
        for delivery in getattr(self, "kept", ()):
            self.session.keep(delivery)

    Target._drop = keep
    Target._accept = again


@fault("cut", "cut-far")
def claim_goes_on_after_a_lost_source() -> None:
    """A target whose source is gone takes what has arrived for all of it."""

    accept = Target._accept

    def remember(self: Any, name: str) -> None:
        self.accepted = self.offers[name]
        accept(self, name)

    def complete_anyway(self: Any) -> None:
        self.offers[self.source] = self.accepted
        self._complete({}, False)

    Target._accept = remember
    Target._drop = complete_anyway
    target.TABLE[(ARRIVING, "lost")] = ("drop", OWNED)


# One owner


@fault("cut", "cut-far")
def doubt_is_not_asked_about() -> None:
    source.TABLE[(ENDED, "lost")] = ("stay", IDLE)
    source.TABLE[(ENDED, "superseded")] = ("stay", IDLE)


@fault("doubt-third", "onward-cut")
def doubt_is_given_to_a_third() -> None:
    look = Source.look

    def hasty(self: Any) -> None:
        owner = self._migration.claims.owner_for(self) if self.state == DOUBT else None
        if owner is not None and owner.name != self.target:
            self.give_up()
        look(self)

    Source.look = hasty


@fault("onward", "bab")
def claim_is_served_while_it_arrives() -> None:
    target.TABLE[(ARRIVING, "superseded")] = ("withdraw", OWNED)


@fault("back-memory", "back")
def let_in_while_it_is_given() -> None:
    def has_to_wait(self: Any, found: Target) -> bool:
        here = self._node.hub.sessions.get(found.client_id)
        return here is None and bool(self.older(found.client_id))

    Claims._has_to_wait = has_to_wait


@fault("near")
def let_in_before_the_end() -> None:
    target.TABLE[(CLAIMING, "accept")] = ("welcome", OWNED)
    welcome = Target._welcome
    Target._welcome = lambda self, *args: welcome(self)


@fault("back-memory", "onward")
def lower_epoch_wins() -> None:
    def lose_if_later(self: Any, client_id: str, member: Any) -> None:
        session = self._node.hub.sessions.get(client_id)
        if session is not None and client_id not in self._migration.targets:
            self.lose(session, "any claim")

    Claims.lose_if_later = lose_if_later


@fault("onward", "onward-cut")
def session_is_offered_to_two() -> None:
    """A source that is asked by another one begins again at once, also after END."""
    source.TABLE[(ENDED, "superseded")] = ("stay", IDLE)
    Exchange._serving = lambda self, member, said: self._migration.source_of(said.text("client"))


# Told


@fault("doubt-time", "split-third")
def gap_is_ignored() -> None:
    Intakes._has_gap = nothing


@fault("split-back", "crash-third-target", "crash-both", "split-third")
def closed_session_keeps_session_present_1() -> None:
    def closed(self: Any, name: str, client_id: str, began: int) -> None:
        self.close_merging(name, client_id)

    Intakes.closed = closed


@fault("crash-target", "crash-both")
def late_entries_are_dropped() -> None:
    Merging.relay = nothing


@fault("crash-third-target", "crash-target")
def merging_session_ends_before_close() -> None:
    Intakes.is_closed = lambda self, found: True


@fault("split-told", "crash-third-target", "split-third")
def new_session_does_not_wait_for_nodes_to_switch() -> None:
    def check_opening(self: Any, found: Target) -> None:
        found.handle("marked")

    Claims.check_opening = check_opening


def send_nothing(kind: int) -> None:
    """Frames of a kind are not sent."""
    send = Node.send

    def without(self: Any, member: Any, sent: int, body: bytes) -> None:
        if sent != kind:
            send(self, member, sent, body)

    Node.send = without


@fault("third", "near")
def switched_is_not_said() -> None:
    send_nothing(frames.SWITCHED)


@fault("third", "near")
def cut_is_not_sent() -> None:
    send_nothing(frames.CUT)


# Publishers that migrate


@fault("publisher-third")
def end_does_not_wait_for_what_is_sent_again() -> None:
    has_published = Source._has_published

    def hasty(self: Any) -> bool:
        behind = OutgoingChannel.behind
        OutgoingChannel.behind = lambda channel, n: []
        try:
            return has_published(self)
        finally:
            OutgoingChannel.behind = behind

    Source._has_published = hasty


@fault("publisher-four")
def copies_of_direct_ones_are_not_collected() -> None:
    scan = Resend._scan
    behind = OutgoingChannel.behind

    def hasty(self: Any, *args: Any) -> Any:
        OutgoingChannel.behind = lambda channel, n: [
            each for each in behind(channel, n) if not each.direct or each.origin is None
        ]
        try:
            return scan(self, *args)
        finally:
            OutgoingChannel.behind = behind

    Resend._scan = hasty


@fault("publisher", "publisher-third")
def publisher_does_not_wait_at_all() -> None:
    Source._has_published = lambda self: True


@fault("publisher-away")
def pending_is_not_given() -> None:
    Source._give_pending = lambda self: False


@fault("publisher-away")
def copies_are_not_taken_by_a_session_that_is_here() -> None:
    Intakes.copied = nothing
