"""Session migration, as the node sees it: its parts, and what the node tells them.

Each session here that another node has claimed has a source, each client whose session is claimed
for this node a target.  The parts reach each other through this object; the package's docstring
says which of them does what.
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from mhub.cluster.frames import pack
from mhub.cluster.member import Member
from mhub.cluster.migration import controls
from mhub.cluster.migration.claims import Claims
from mhub.cluster.migration.exchange import Exchange
from mhub.cluster.migration.given import Given, GivenSessions
from mhub.cluster.migration.holders import Holders
from mhub.cluster.migration.intakes import Intakes
from mhub.cluster.migration.merging import Merging
from mhub.cluster.migration.outlook import Outlook
from mhub.cluster.migration.resend import Resend
from mhub.cluster.migration.source import CUTTING, DOUBT, ENDED, ENDED_NOTE, IDLE, Source
from mhub.cluster.migration.switches import Switches
from mhub.cluster.migration.target import ARRIVING, OPENING, Target
from mhub.core.connection import WAITING
from mhub.core.delivery import Delivery
from mhub.core.records import Row
from mhub.core.session import Session
from mhub.core.table import CLIENT

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Migration:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.sources: dict[Session, Source] = {}
        self.targets: dict[str, Target] = {}
        self.holders = Holders(node)
        self.claims = Claims(self)
        self.resend = Resend(node)
        self.switches = Switches(self)
        self.given = GivenSessions(self)
        self.intakes = Intakes(self)
        self.merging = Merging(self)
        self.exchange = Exchange(self)
        self.outlook = Outlook(self)
        self.progress = 0  # entries that were given
        # (batch, client): sessions that are gone, until the store knows: others remember that they
        # have taken one for as long as we say that it is here
        self._gone: deque[tuple[int, str]] = deque()
        self._session_ids = 0

    # For its parts

    def source_of(self, client_id: str) -> Source | None:
        """That of the session which has this name here."""
        session = self.node.hub.sessions.get(client_id)
        return self.sources.get(session) if session is not None else None

    def tell(self, name: str, kind: int, **fields: Any) -> None:
        self.send(name, kind, pack(**fields))

    def send(self, name: str, kind: int, body: bytes) -> None:
        member = self.node.members.get(name)
        if member is not None:
            self.node.send(member, kind, body)

    def tell_table(self, member: Member) -> None:
        if member.peer.told < self.node.peers.table.number and member.resumed:
            self.node.tables.tell(member)

    def instance_of(self, name: str) -> str:
        member = self.node.members.get(name)
        return member.instance if member is not None else ""

    def session_id(self, session: Session) -> str:
        """Which session of this node it is, also to others."""
        if session.sid:
            return f"{self.node.name}/{session.sid}"
        self._session_ids += 1
        return f"{self.node.settings.instance}/{self._session_ids}"

    def clock_offset_s(self) -> float:
        """What turns the hub's time into that of day, as the store has it."""
        journal = self.node.hub.journal
        return journal.clock_offset_s if journal is not None else self.node.peers.clock.offset_s

    def has_switched(self, name: str, client_id: str, epoch: int) -> None:
        source = self.source_of(client_id)
        if source is not None:
            source.has_switched(name, epoch)

    def is_given(self, session: Session) -> bool:
        """Whether another node may have it by now."""
        source = self.sources.get(session)
        return source is not None and source.state in (CUTTING, ENDED, DOUBT)

    def end_source(self, source: Source, given: Given | None, shared: list[Delivery]) -> None:
        """Another node has the session, or nobody needs it: it ends here."""
        hub = self.node.hub
        session = source.session
        del self.sources[session]
        self.merging.ended(source)
        source.forget_end()
        self.intakes.forget(session)
        session.frozen = False
        session.will = None
        session.clear()
        if given is not None:
            # The first to switch is this node itself, then all others, before our table tells
            # them that the subscriptions are gone.
            if not self.switches.has_switched(session.client_id, given.epoch):
                target = self.node.members[given.to].peer
                mark = controls.mark(given.epoch, source.has_gap())
                target.outgoing.put_control(session.client_id, mark)
                self.switches.remember(session.client_id, given.epoch, session.began)
                older = {*self.claims.older(session.client_id)} - {given.to}
                self.switches.close(session.client_id, session.began, older)
            if given.waits:
                self.given.gave(given)
        for delivery in shared:
            session.keep(delivery)  # the group has it next
        hub.end_session(session)
        self.count()

    def stays(self, source: Source) -> None:
        """A session could not be given away."""
        session = source.session
        self.intakes.watch(session)
        target = self.targets.get(source.client_id)
        if target is not None:
            self.claims.check(target)
            return
        if self.claims.owner_for(source) is None and not self.intakes.is_superseded(session):
            self.claims.take_up(source.client_id)
            self.exchange.judge(source.client_id)
        if session.connection is None:
            session.rest(self.node.hub.now)

    # For the hub

    def ended(self, session: Session) -> None:
        """A session is over, here."""
        client_id = session.client_id
        source = self.sources.pop(session, None)
        if source is not None:
            self.merging.ended(source)
            source.give_up()
        self.intakes.forget(session)
        peers = self.node.peers
        target = self.targets.get(client_id)
        if target is not None:
            live = target.connection is not None and target.connection.state == WAITING
            peers.table.own(client_id, target.epoch, live)
            self.claims.check(target)
        elif client_id not in self.node.hub.sessions:
            journal = self.node.hub.journal
            self._gone.append((journal.mark() if journal is not None else 0, client_id))
        self.count()

    def loaded(self, session: Session, rows: list[Row]) -> None:
        source = self.sources.get(session)
        if source is not None:
            source.handle("loaded", rows)

    # Links and time

    def count(self) -> None:
        """While anything migrates, the end of each turn is ours."""
        peers = self.node.peers
        peers.migrating = len(self.targets) + len(self.sources) + len(self._gone)
        peers.migrating += self.exchange.pending()

    def turn(self) -> None:
        hub = self.node.hub
        self.exchange.turn()
        while self._gone and self._gone[0][0] <= hub.durable:
            _, client_id = self._gone.popleft()
            if client_id not in hub.sessions and client_id not in self.targets:
                self.claims.announce(client_id)
        for source in list(self.sources.values()):
            source.look()
        self.count()

    def linked(self, member: Member) -> None:
        """Before anything else crosses a new link."""
        self.given.linked(member)
        self.intakes.linked(member)
        for target in list(self.targets.values()):
            if target.state == OPENING:
                self.intakes.ask(member, target.client_id, target.epoch, target.epoch, [], [])

    def table(self, member: Member) -> None:
        """A node has told all of its table."""
        self.exchange.table(member)
        for source in list(self.sources.values()):
            if source.target == member.name:
                source.handle("linked")
            source.look()
        for client_id in list(member.peer.clients):
            self.claims.lose_if_later(client_id, member)
        for target in list(self.targets.values()):
            self.claims.check(target)

    def unlinked(self, member: Member) -> None:
        self.exchange.unlinked(member.name)
        for source in list(self.sources.values()):
            if source.target == member.name:
                source.handle("lost")
            source.look()
        for target in list(self.targets.values()):
            target.offers.pop(member.name, None)
            if target.state == ARRIVING and target.source == member.name:
                target.handle("lost")
            self.claims.check(target)
        self.count()

    def forgotten(self, member: Member) -> None:
        for client_id in list(member.peer.clients):
            self.claims.withdrew(member, client_id)
        self.given.forgotten(member.name)
        for session in list(self.intakes.gated.values()):
            intake = self.intakes.of(session)
            if intake.gates.pop(member.name, None) is not None:
                self.intakes.settle(session)
        for source in list(self.sources.values()):
            if source.target == member.name and source.state == DOUBT:
                source.handle("unsure")
            source.look()
        self.exchange.forgotten(member.name)
        for target in list(self.targets.values()):
            self.claims.check(target)

    def tick(self, now: float) -> None:
        for target in list(self.targets.values()):
            if target.deadline <= now:
                target.handle("timeout")
            else:
                self.claims.check(target)
        for source in list(self.sources.values()):
            if source.state == DOUBT and source.overdue_at <= now:
                source.handle("overdue")
        if self.node.peers.migrating:
            self.turn()

    def look_around(self) -> None:
        """Whatever was in the way: sessions that belong elsewhere, claims of nothing."""
        hub = self.node.hub
        for client_id, session in list(hub.sessions.items()):
            highest = self.holders.highest(client_id)
            if highest is not None and session.connection is None:
                self.claims.lose_if_later(client_id, highest)
        self.merging.look()
        self.given.look()
        self.outlook.look()
        for name in [name for name in self.node.peers.table.names if name.startswith(CLIENT)]:
            client_id = name[len(CLIENT) :]
            if client_id not in hub.sessions and client_id not in self.targets:
                self.claims.announce(client_id)

    def evacuate(self) -> None:
        """Who waits for a session is sent elsewhere, as all others are."""
        redirect = self.node.hub.redirect
        for target in self.targets.values():
            connection = target.connection
            target.connection = None
            if redirect is not None and connection is not None and connection.state == WAITING:
                connection.fail(redirect.reason, "this node is leaving the cluster")

    # From the store

    def recall(self, notes: dict[str, str]) -> None:
        self.exchange.recall(notes)
        older, self.node.peers.older = self.node.peers.older, []
        for session in [*self.node.hub.sessions.values(), *older]:
            self._recall(session, notes)
        self.given.recall(notes)
        for session in older:
            self.merging.fold(session, self.node.hub.sessions[session.client_id])
        self.count()

    def _recall(self, session: Session, notes: dict[str, str]) -> None:
        is_closed = self.intakes.recall(session, notes)
        ended = notes.get(f"{ENDED_NOTE}{session.sid}", "")
        if ended:
            source = self.sources[session] = Source(self, session)
            source.recall_end(ended)
        elif is_closed:
            self.sources[session] = Source(self, session)

    # For a node that drains

    def under_way(self) -> int:
        """Sessions that another node has not made safe."""
        return sum(1 for source in self.sources.values() if source.state != IDLE)

    def gives(self, session: Session) -> bool:
        return session in self.sources

    def left(self) -> int:
        """Sessions that are still here."""
        return len(self.node.hub.sessions)
