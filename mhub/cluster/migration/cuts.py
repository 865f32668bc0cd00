"""The publishing nodes' part: each switches from where a session was to where it is, at one moment.

    CUT       to a publishing node: the session is elsewhere, and has got your channel up to here
    SWITCHED  from it: what is behind that is on its way to the new place, with a mark behind it

A node that publishes takes what the session has not got from its own channels, where it is kept as
long as it is not confirmed; so the node that had the session does not confirm it before SWITCHED.
It needs to know nothing of the session, and nothing of what happened to it before: the segments say
all, and its own marks that are not confirmed say whether it has switched already.
"""

import json
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import frames
from mhub.cluster.frames import pack, unpack
from mhub.cluster.member import UP, Member
from mhub.cluster.migration import controls
from mhub.cluster.migration.intake import Intake
from mhub.cluster.migration.pending import CLOSED, marks_in
from mhub.cluster.migration.segments import Gate, Segment, place, segments_of
from mhub.core.peer import Entry
from mhub.core.peers import CLIENT, FILTER, LASTING, WANTED
from mhub.core.session import Session
from mhub.wire.topics import matches

if TYPE_CHECKING:
    from mhub.cluster.migration.claims import Claims

NOTE: Final = "cut/"
"""Notes of sessions that were given away, while a node has not switched, begin so."""

PATIENCE_S: Final = 5.0
"""For so long a node must have been up before it is not waited for any more."""

REMEMBERED: Final = 10_000
"""So many sessions are remembered for which this node has switched: asked again, it says so."""


class Given:
    """A session that was given away from here, and the nodes that have not switched yet."""

    def __init__(self, client_id: str, epoch: int, to: str, filters: list[str]) -> None:
        self.client_id = client_id
        self.began = 0
        self.epoch = epoch  # of the claim that it was given to
        self.to = to
        self.filters = filters
        self.instance = ""  # of the target, and
        self.number = 0  # how far its table must be known to have the session's filters
        self.waits: dict[str, list[Segment]] = {}
        self.since = 0.0

    @property
    def why(self) -> str:
        """What confirmations are held back for."""
        return f"{self.epoch}/{self.client_id}"


class Cuts:
    def __init__(self, claims: "Claims") -> None:
        self._claims = claims
        self._node = claims.node
        self.given: dict[str, Given] = {}  # by `why`
        self._given_of: dict[str, list[Given]] = {}  # by client id
        self.gated: dict[str, Session] = {}  # by client id: sessions here with closed gates
        # By client id: the epoch for which this node has switched, and with which its session began
        self._switched: dict[str, tuple[int, int]] = {}

    # For a session that was given away

    def gave(self, given: Given) -> None:
        """Nodes that are linked are told before our table says that the session is gone."""
        for earlier in list(self._given_of.get(given.client_id, ())):
            # It was here before: what was to be said then is a part of what is to be said now.
            for name in earlier.waits.keys() & given.waits.keys():
                del earlier.waits[name]
                self._node.peers.peers[name].release_confirm(earlier.why)
            self._note(earlier)
        self._add(given)
        for name in given.waits:
            member = self._node.members.get(name)
            if member is not None:
                self._tell_given(member, given)
        self._note(given)

    def _add(self, given: Given) -> None:
        given.since = self._node.hub.now
        self.given[given.why] = given
        self._given_of.setdefault(given.client_id, []).append(given)

    def _tell_given(self, member: Member, given: Given) -> None:
        self._node.send(
            member,
            frames.CUT,
            pack(
                client=given.client_id,
                epoch=given.epoch,
                began=given.began,
                to=given.to,
                table=[given.instance, given.number],
                filters=given.filters,
                segments=given.waits[member.name],
                old=self._claims.older(given.client_id),
            ),
        )

    def on_switched(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id, epoch = str(said["client"]), int(said["epoch"])
        self._claims.has_switched(member.name, client_id, epoch)
        for given in list(self._given_of.get(client_id, ())):
            if given.epoch <= epoch and given.waits.pop(member.name, None) is not None:
                member.peer.release_confirm(given.why)
                self._note(given)

    def _note(self, given: Given) -> None:
        if not given.waits:
            del self.given[given.why]
            self._given_of[given.client_id].remove(given)
            if not self._given_of[given.client_id]:
                del self._given_of[given.client_id]
        journal = self._node.hub.journal
        if journal is not None:
            text = ""
            if given.waits:
                table = [given.instance, given.number]
                text = json.dumps([given.to, given.filters, *table, given.began, given.waits])
            journal.note(NOTE + given.why, text)

    # For a session that is here

    def watch(self, session: Session) -> None:
        """Ask all nodes whose gates are closed to switch, now and when they are linked."""
        intake = session.intake
        if not isinstance(intake, Intake) or not intake.gates:
            return
        self.gated[session.client_id] = session
        for member in list(self._node.channels.values()):
            gate = intake.gates.get(member.name)
            if gate is not None:
                self._claims.tell_table(member)
                self._tell_gate(member, session, gate)

    def unwatch(self, session: Session) -> None:
        if self.gated.get(session.client_id) is session:
            del self.gated[session.client_id]

    def _tell_gate(self, member: Member, session: Session, gate: Gate) -> None:
        if self._claims.is_given(session):
            return  # whoever has it asks for it
        filters = self._claims.intakes.filters(session)
        self.ask(member, session.client_id, gate.epoch, session.began, filters, gate.segments)

    def ask(
        self,
        member: Member,
        client_id: str,
        epoch: int,
        began: int,
        filters: list[str],
        segments: list[Segment],
    ) -> None:
        """Ask a node to switch to us."""
        self._node.send(
            member,
            frames.CUT,
            pack(
                client=client_id,
                epoch=epoch,
                began=began,
                to=self._node.name,
                table=[self._node.settings.instance, self._node.peers.number],
                filters=filters,
                segments=segments,
                old=self._claims.older(client_id),
                held=self._node.peers.own_epoch(client_id),
            ),
        )

    def linked(self, member: Member) -> None:
        """The first that a link has: before the table, and before what it confirms."""
        for given in list(self.given.values()):
            if member.name in given.waits:
                self._tell_given(member, given)
        for session in list(self.gated.values()):
            intake = session.intake
            gate = intake.gates.get(member.name) if isinstance(intake, Intake) else None
            if gate is not None:
                self._tell_gate(member, session, gate)

    # For a node that publishes

    def on_cut(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id, epoch, to = str(said["client"]), int(said["epoch"]), str(said["to"])
        segments = segments_of(said["segments"])
        if to != self._node.name and self._has_to_switch(member, said, segments):
            self._switch(client_id, epoch, to, said, segments)
        if to == self._node.name or self.has_switched(client_id, epoch):
            self.say_switched(client_id, epoch, {member.name, *(each.node for each in segments)})

    def _has_to_switch(self, member: Member, said: dict[str, Any], segments: list[Segment]) -> bool:
        client_id, epoch = str(said["client"]), int(said["epoch"])
        switched, began = self._switched.get(client_id, (0, 0))
        if member.name != said["to"]:
            # A node that had it: whether ours is that session only the channels to there tell.
            return switched < epoch and self._is_attached(client_id, segments)
        if switched > epoch and began != said["began"]:
            # For another session, whose claim came to nothing, by a clock that is ahead; or this.
            return self._claims.holders.newest_but(member, client_id) < int(said["held"])
        return switched < epoch

    def _is_attached(self, client_id: str, segments: list[Segment]) -> bool:
        """Whether what this node publishes now is for the session that has gone this way."""
        left = self._not_sent(client_id, segments)
        return bool(left) and self._scan(client_id, [], left[0])[1]

    def _switch(
        self, client_id: str, epoch: int, to: str, said: dict[str, Any], segments: list[Segment]
    ) -> None:
        node = self._node
        self.remember(client_id, epoch, int(said["began"]))
        filters = [str(each) for each in said["filters"]]
        peer = node.meet(to).peer
        instance, number = said["table"]
        self._expect(node.members[to], client_id, epoch, str(instance), int(number), filters)
        segments = self._not_sent(client_id, segments)
        began = int(said["began"])
        gap = any(self._has_gap(client_id, began, segment) for segment in segments)
        for entry in self.collect(client_id, filters, segments):
            is_safe = entry.record is not None or entry.tracker is None
            peer.put_direct(client_id, epoch, entry.message, is_safe, entry.via)
        peer.put_control(client_id, controls.mark(epoch, gap))
        holders = [m.name for m in node.members.values() if client_id in m.peer.clients]
        self.close(client_id, began, {*said["old"], *holders} - {to})
        self._claims.intakes.closed(node.name, client_id, began)

    def _expect(
        self,
        member: Member,
        client_id: str,
        epoch: int,
        instance: str,
        number: int,
        filters: list[str],
    ) -> None:
        """What the table of the node with the session says, or will say when it comes."""
        peer = member.peer
        if member.is_current() and (member.instance != instance or peer.table_heard >= number):
            return
        peers = self._node.peers
        held = max(peer.clients.get(client_id, 0), epoch << 1)
        peers.expect(peer, CLIENT + client_id, held, instance, number)
        for topic_filter in filters:
            peers.expect(peer, FILTER + topic_filter, WANTED | LASTING, instance, number)

    def close(self, client_id: str, began: int, names: set[str]) -> None:
        """Older sessions get nothing more from this node."""
        for name in sorted(names):
            if name in self._node.members:
                self._node.members[name].peer.put_control(client_id, controls.close(began))

    def collect(self, client_id: str, filters: list[str], segments: list[Segment]) -> list[Entry]:
        """What is for a session in our channels to where it was, and did not get there in time."""
        found: list[Entry] = []
        for segment in self._not_sent(client_id, segments):
            found += self._scan(client_id, filters, segment)[0]
        return found

    def _scan(
        self, client_id: str, filters: list[str], segment: Segment
    ) -> tuple[list[Entry], bool]:
        """What is behind the position of a segment, and whether what comes next is for it, too."""
        found: list[Entry] = []
        peer = self._node.peers.peers.get(segment.node)
        if peer is None:
            return found, False
        is_open = segment.was_open
        is_known = peer.life == segment.life
        for entry in peer.unconfirmed():
            if is_known and (entry.n <= segment.position or entry.n in segment.early):
                continue
            if entry.is_control:
                if _is_switch(entry, client_id):
                    is_close = entry.message.payload[:1] == controls.CLOSE
                    is_open = not is_close and (is_open or _opens(entry, segment))
            elif entry.origin is not None and not entry.direct:
                # A copy: for which session it is was decided where it was copied, and whether that
                # has got it where the session is now.
                origin = entry.origin
                is_for_it = marks_in(origin.controls).get(client_id, 0) != CLOSED
                if entry.plain and is_for_it and _matches(filters, entry):
                    found.append(_again(entry, place(origin.node, origin.life, origin.n)))
            elif entry.direct:
                is_for_it = entry.direct == client_id and entry.epoch == segment.since
                if is_for_it and not is_open and entry.origin is None:
                    found.append(_again(entry, entry.via))
            elif entry.plain and is_open and _matches(filters, entry):
                found.append(_again(entry, place(self._node.name, peer.life, entry.n)))
        return found, is_open

    def _has_gap(self, client_id: str, began: int, segment: Segment) -> bool:
        """Whether something is missing: it was confirmed, there was a gap already, or what came
        next was for another session."""
        peer = self._node.peers.peers.get(segment.node)
        if peer is None or peer.life != segment.life:
            return False
        if peer.settled_n > segment.position:
            return True
        switches = [each for each in peer.unconfirmed() if _is_switch(each, client_id)]
        for entry in [each for each in switches if each.n > segment.position]:
            body = entry.message.payload
            if body[:1] == controls.CLOSE:
                if controls.read_close(body) != began:
                    return True
            elif _opens(entry, segment) and controls.read_mark(body)[1]:
                return True
        return False

    def _not_sent(self, client_id: str, segments: list[Segment]) -> list[Segment]:
        """But for those of which this node has sent all to the next: there is a mark behind it."""
        first = 0
        for index, segment in enumerate(segments):
            peer = self._node.peers.peers.get(segment.node)
            if peer is None or segment.was_open:
                continue
            switches = [each for each in peer.unconfirmed() if _is_switch(each, client_id)]
            if any(_opens(each, segment) for each in switches):
                first = index
        return segments[first:]

    def has_switched(self, client_id: str, epoch: int) -> bool:
        """Whether this node has switched for a claim, or for a newer one."""
        return self._switched.get(client_id, (0, 0))[0] >= epoch

    def remember(self, client_id: str, epoch: int, began: int) -> None:
        """This node has switched."""
        self._switched.pop(client_id, None)
        self._switched[client_id] = epoch, began
        if len(self._switched) > REMEMBERED:
            del self._switched[next(iter(self._switched))]

    def say_switched(self, client_id: str, epoch: int, names: set[str]) -> None:
        for name in sorted(names):
            member = self._node.members.get(name)
            if member is not None:
                body = pack(client=client_id, epoch=epoch)
                self._node.send(member, frames.SWITCHED, body)

    # Nodes that go, and the store

    def look(self) -> None:
        """A node that is linked for long, and has not switched, has nothing for the session."""
        now = self._node.hub.now
        for given in list(self.given.values()):
            if now - given.since < self._node.settings.takeover_timeout_s:
                continue
            for name in list(given.waits):
                member = self._node.members.get(name)
                if member is not None and member.state == UP and now - member.since >= PATIENCE_S:
                    del given.waits[name]
                    member.peer.release_confirm(given.why)
            if given.why in self.given:
                self._note(given)

    def forgotten(self, name: str) -> None:
        for given in list(self.given.values()):
            if given.waits.pop(name, None) is not None:
                self._note(given)

    def pending(self) -> int:
        """Sessions that were given away, of which nodes that can be reached do not know yet."""
        linked = {member.name for member in self._node.channels.values()}
        return sum(1 for given in self.given.values() if linked & given.waits.keys())

    def recall(self, notes: dict[str, str]) -> None:
        for name, text in notes.items():
            if name.startswith(NOTE):
                epoch, _, client_id = name[len(NOTE) :].partition("/")
                to, filters, instance, number, began, waits = json.loads(text)
                given = Given(client_id, int(epoch), to, filters)
                given.instance, given.number, given.began = instance, number, began
                given.waits = {node: segments_of(said) for node, said in waits.items()}
                self._add(given)
                self.hold(given.why, given.waits)

    def hold(self, why: str, waits: dict[str, list[Segment]]) -> None:
        """Confirm nothing to nodes that they may have to send elsewhere."""
        for name, segments in waits.items():
            peer = self._node.peers.peers.get(name)
            here = [each for each in segments if each.node == self._node.name]
            if peer is not None and here:
                is_known = all(each.life == peer.heard_life for each in here)
                peer.hold_confirm(why, min(each.position for each in here) if is_known else 0)


def _is_switch(entry: Entry, client_id: str) -> bool:
    """Whether a control record says for which session of a client the messages behind it are."""
    message = entry.message
    is_one = entry.is_control and message.payload[:1] in (controls.MARK, controls.CLOSE)
    return is_one and message.topic_data.decode("utf-8") == client_id


def _opens(entry: Entry, segment: Segment) -> bool:
    body = entry.message.payload
    return body[:1] == controls.MARK and controls.read_mark(body)[0] == segment.since


def _matches(filters: list[str], entry: Entry) -> bool:
    return any(matches(each, entry.message.topic) for each in filters)


def _again(entry: Entry, via: str) -> Entry:
    """An entry that is sent once more, as safe as it is here."""
    again = Entry(entry.n, entry.message, False, None)
    again.record = entry.record
    again.tracker = entry.tracker
    again.via = via
    return again
