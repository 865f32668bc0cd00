"""What is for the sessions here: gates that open, nodes that have switched elsewhere.

Each session that something is to be decided for has an Intake (`intake`), and notes in the store
with the same content.  Marks, CLOSE and direct messages come here from the channels.
"""

from typing import TYPE_CHECKING, Final

from mhub.cluster.member import Member
from mhub.cluster.migration import controls
from mhub.cluster.migration.intake import Intake
from mhub.cluster.migration.segments import Gate, Segment, gates_of, publisher, text_of
from mhub.cluster.migration.source import Source
from mhub.cluster.migration.target import ARRIVING, OPENING
from mhub.core.channel_records import Entry
from mhub.core.peer import Peer
from mhub.core.session import Session
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration

GATES: Final = "gates/"
"""Notes of the closed gates of a session begin so."""

CLOSED: Final = "closed/"
"""Notes of the nodes that know of a newer session begin so."""

SEGMENTS: Final = 100
"""So often a session may go on while a node is away; then its client is told Session Present 0."""


class Intakes:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        self.gated: dict[str, Session] = {}  # by client id: sessions here with closed gates

    def of(self, session: Session) -> Intake:
        intake = self.get(session)
        if intake is None:
            intake = session.intake = Intake(session, self._node.peers)
        return intake

    @staticmethod
    def get(session: Session | None) -> Intake | None:
        """The one of a session that something is to be decided for."""
        intake = session.intake if session is not None else None
        return intake if isinstance(intake, Intake) else None

    def settle(self, session: Session) -> None:
        """Its gates have changed: is there anything left to decide?"""
        intake = self.get(session)
        if intake is None:
            return
        self.note(session)
        if not intake.gates:
            self.unwatch(session)
        if not intake.is_needed() and session not in self._migration.sources:
            session.intake = None

    def note(self, session: Session) -> None:
        intake = self.get(session)
        if intake is not None and (session.sid or intake.sid):
            intake.sid = session.sid or intake.sid
            journal = self._node.hub.require_journal()
            journal.note(f"{GATES}{intake.sid}", text_of(intake.gates))
            journal.note(f"{CLOSED}{intake.sid}", "\n".join(sorted(intake.closed)))

    def filters(self, session: Session) -> list[str]:
        subscriptions = session.subscriptions.values()
        return [each.topic_filter for each in subscriptions if not each.share]

    def segments(self, session: Session) -> dict[str, list[Segment]]:
        """By node: where its messages may be which the session has not got until now."""
        intake = self.of(session)
        found = {}
        for name, member in self._node.members.items():
            channel = member.peer.incoming
            gate = intake.gates.get(name)
            early = sorted(n for n, epoch in channel.early.items() if epoch == channel.epoch)
            here = Segment(
                self._node.name,
                channel.epoch,
                channel.last_received,
                early,
                gate.epoch if gate is not None else 0,
                gate is None and name not in intake.closed,
            )
            before = gate.segments if gate is not None else []
            if len(before) >= SEGMENTS:
                before = []
                session.lose_state(True)
            found[name] = [*before, here]
        return found

    def is_superseded(self, session: Session) -> bool:
        """Whether a node has said that it knows a newer session of this client."""
        intake = self.get(session)
        return intake is not None and bool(intake.closed)

    def control(self, peer: Peer, client_id: str, body: bytes) -> None:
        """A control record came in a peer's channel; ProtocolFault if it is none."""
        if body[:1] not in (controls.MARK, controls.CLOSE):
            controls.relayed(body)  # it may be passed on, or kept, before anybody reads it
        self.came(peer.name, client_id, body)

    def came(self, name: str, client_id: str, body: bytes) -> None:
        if body[:1] == controls.MARK:
            epoch, gap = controls.read_mark(body)
            self.marked(name, client_id, epoch, gap)
        elif body[:1] == controls.CLOSE:
            self.closed(name, client_id, controls.read_close(body))
        else:
            self._migration.merging.relayed(client_id, body)

    def direct(self, entry: Entry) -> None:
        """What a node has published for a session, sent again to where that is now."""
        client_id, epoch = entry.direct, entry.session_epoch
        peer = self._node.peers.publisher
        name = peer.name if peer is not None else self._node.name
        target = self._migration.targets.get(client_id)
        if target is not None and target.state == ARRIVING:
            if target.source == name and target.epoch == epoch:
                target.direct.append(entry)
            return
        session = self._node.hub.sessions.get(client_id)
        intake = self.get(session)
        if intake is not None and session is not None:
            gate = intake.gates.get(publisher(entry.via) or name)
            sender = name if entry.origin is None else ""  # who copies may have some of them only
            if gate is not None and gate.epoch == epoch and intake.is_new(sender, entry.via):
                intake.deliver(entry.message)
                self.note(session)

    def copied(self, name: str, copies: list[Entry]) -> None:
        """A publisher has come, with copies of what it has published for a node.

        Sessions that have left that node for this one may not have got it: it is in the channel of
        the publisher's former node, which has not switched yet.  They get it now, in front of what
        the publisher says here; that node need not send it again.
        """
        for copy in copies:
            route = self._node.hub.router.find(copy.message.topic_data)
            for session in dict.fromkeys([each.session for each in route.targets]):
                if not isinstance(session, Session):
                    continue  # a trace
                intake = self.get(session)
                if intake is None or self._migration.is_given(session):
                    continue
                if intake.takes_copy(name, copy):
                    intake.deliver(copy.message)
                    self.note(session)

    def marked(self, name: str, client_id: str, epoch: int, gap: bool) -> None:
        """A node has switched: from here on its messages are for the session with this epoch."""
        self.close_merging(name, client_id)
        target = self._migration.targets.get(client_id)
        session = self._node.hub.sessions.get(client_id)
        if target is not None and target.state == OPENING and epoch == target.epoch:
            target.marked.add(name)
            if session is not None:
                session.lose_state(True)
                self.close(session, name)
            self._migration.claims.check_opening(target)
            return
        intake = self.get(session)
        if session is not None and intake is not None:
            gate = intake.gates.get(name)
            if gate is not None and epoch == gate.epoch:
                del intake.gates[name]
                if gap:
                    self._has_gap(session, name)
                self.settle(session)

    def _has_gap(self, session: Session, name: str) -> None:
        """Messages of a node are missing in their place: the client has to know."""
        self._node.log(
            f"client {session.client_id!r} is disconnected and will be told Session Present 0:"
            f" messages published at node {name} while its session migrated may be missing, as a"
            " node that had it crashed or could not be reached. Nothing can bring them back; the"
            " client has to look for what it needs"
        )
        session.lose_state(True)
        if session.connection is not None:
            text = "messages were lost when the session migrated"
            session.connection.fail(reasons.UNSPECIFIED, text)

    def closed(self, name: str, client_id: str, began: int) -> None:
        """A node knows of another session of a client, and sends nothing more to older ones."""
        self._node.peers.clock.saw(began)  # a CONNECT from now on is later, also if it comes here
        self.close_merging(name, client_id)
        session = self._node.hub.sessions.get(client_id)
        if session is None:
            return
        gates = self.of(session).gates
        gate = gates.pop(name, None)
        if gate is not None and (began == session.began or not gate.segments):
            # Of the way that this session has gone, or from before this session was.
            gates[name] = gate
            return
        if session not in self._migration.sources and client_id not in self._migration.targets:
            self._migration.claims.lose(session, "the client has connected to another node")
        if self._node.hub.sessions.get(client_id) is session:
            session.lose_state(True)  # whether the other one comes to be or not
            self.close(session, name)
            source = self._migration.sources.get(session)
            if source is not None:
                source.look()

    def close_merging(self, name: str, client_id: str) -> None:
        for source in self._migration.merging.of(client_id):
            self.close(source.session, name)
            source.look()

    def close(self, session: Session, name: str) -> None:
        closed = self.of(session).closed
        if name not in closed:
            closed.add(name)
            self.note(session)

    def is_closed(self, source: Source) -> bool:
        """Whether nobody sends anything more to an older session."""
        return not self.not_closed(source)

    def not_closed(self, source: Source) -> list[str]:
        """Nodes that may send something to an older session."""
        intake = source.intake
        nodes = [self._node.name, *self._node.members]
        return [name for name in nodes if name not in intake.closed and name not in intake.gates]

    def forget(self, session: Session) -> None:
        intake = self.get(session)
        if intake is not None:
            self.unwatch(session)
            intake.gates = {}
            intake.closed = set()
            self.note(session)
            session.intake = None

    def recall(self, session: Session, notes: dict[str, str]) -> bool:
        """What the store has noted; whether nodes have switched elsewhere."""
        gates = notes.get(f"{GATES}{session.sid}", "")
        closed = notes.get(f"{CLOSED}{session.sid}", "")
        if gates or closed:
            intake = self.of(session)
            intake.sid = session.sid
            intake.gates = gates_of(gates) if gates else {}
            intake.closed = set(closed.split("\n")) if closed else set()
        if gates and self._node.hub.sessions[session.client_id] is session:
            self.gated[session.client_id] = session
        return bool(closed)

    # Gates that are closed

    def watch(self, session: Session) -> None:
        """Ask all nodes whose gates are closed to switch, now and when they are linked."""
        intake = self.get(session)
        if intake is None or not intake.gates:
            return
        self.gated[session.client_id] = session
        for member in list(self._node.links.values()):
            gate = intake.gates.get(member.name)
            if gate is not None:
                self._migration.tell_table(member)
                self._tell_gate(member, session, gate)

    def unwatch(self, session: Session) -> None:
        if self.gated.get(session.client_id) is session:
            del self.gated[session.client_id]

    def _tell_gate(self, member: Member, session: Session, gate: Gate) -> None:
        if self._migration.is_given(session):
            return  # whoever has it asks for it
        filters = self.filters(session)
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
        self._migration.switches.ask(
            member,
            client=client_id,
            epoch=epoch,
            began=began,
            to=self._node.name,
            table=[self._node.settings.instance, self._node.peers.table.number],
            filters=filters,
            segments=segments,
            held=self._node.peers.table.own_epoch(client_id),
        )

    def linked(self, member: Member) -> None:
        """Before the table, and before what is confirmed."""
        for session in list(self.gated.values()):
            intake = self.get(session)
            gate = intake.gates.get(member.name) if intake is not None else None
            if gate is not None:
                self._tell_gate(member, session, gate)
