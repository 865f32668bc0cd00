"""One owner for each session: whose claim has the highest epoch.

A CONNECT makes a claim, and waits here until its session has come; a claim of another node makes a
source of the session that is here.  What belongs to it:

    holders    which nodes have a session, or claim it
    exchange   frames between source and target
    intakes    what is for the sessions here
    merging    older sessions of clients that have a newer one
    cuts       the publishing nodes' part
"""

from collections import deque
from typing import TYPE_CHECKING, Any

from mhub.cluster import frames
from mhub.cluster.frames import pack
from mhub.cluster.member import Member
from mhub.cluster.migration import controls
from mhub.cluster.migration.cuts import Cuts, Given
from mhub.cluster.migration.exchange import Exchange
from mhub.cluster.migration.holders import Holders
from mhub.cluster.migration.intakes import Intakes
from mhub.cluster.migration.merging import Merging
from mhub.cluster.migration.segments import Gate
from mhub.cluster.migration.source import CUTTING, DOUBT, ENDED, ENDED_NOTE, IDLE, Source
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OPENING, Target
from mhub.core.connection import WAITING, Connection
from mhub.core.delivery import Delivery
from mhub.core.peers import CLIENT
from mhub.core.records import Row
from mhub.core.session import Session
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.node import Node


class Claims:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.sources: dict[Session, Source] = {}
        self.targets: dict[str, Target] = {}
        self.holders = Holders(node)
        self.cuts = Cuts(self)
        self.intakes = Intakes(self)
        self.merging = Merging(self)
        self.exchange = Exchange(self)
        self.progress = 0  # entries that were given
        # (batch, client): sessions that are gone, until the store knows: others remember that they
        # have taken one for as long as we say that it is here
        self._gone: deque[tuple[int, str]] = deque()
        self._lives = 0

    # Who owns, and who has

    def source_of(self, client_id: str) -> Source | None:
        """That of the session which has this name here."""
        session = self.node.hub.sessions.get(client_id)
        return self.sources.get(session) if session is not None else None

    def older(self, client_id: str) -> list[str]:
        """Nodes that may have an older session."""
        found = [
            member.name
            for member in self.node.members.values()
            if client_id in member.peer.clients or not member.is_current()
        ]
        return [*found, self.node.name] if self.merging.of(client_id) else found

    def _is_unknown(self, target: Target) -> bool:
        """Whether a node that cannot be asked may have a session of this client by now."""
        if target.is_clean or target.client_id in self.node.hub.sessions:
            return False
        return any(not member.is_current() for member in self.node.members.values())

    def owner_for(self, source: Source) -> Member | None:
        """The node that a session should go to; None: nowhere, for now."""
        if source.client_id in self.targets:
            return None  # it will be clear soon
        highest = self.holders.highest(source.client_id)
        if highest is None:
            return None
        mine = (source.session.epoch, self.node.name)
        return (
            highest if (self.holders.held(highest, source.client_id), highest.name) > mine else None
        )

    def is_wanted(self, source: Source) -> bool:
        """Whether the target still has the claim that a source serves."""
        member = self.node.members.get(source.target)
        return member is not None and self.holders.held(member, source.client_id) == source.epoch

    # A client connects

    def claim(self, connection: Connection) -> bool:
        """A client connects; whether it has to wait for its session."""
        node = self.node
        client_id = connection.client_id
        target = self.targets.get(client_id)
        if target is None:
            target = self._claim(client_id)
            target.connection = connection
            connection.epoch = target.epoch
            node.peers.own(client_id, target.epoch, True)
            if not self._has_to_wait(target):
                del self.targets[client_id]
                self._take_up(client_id)
                return False
            connection.state = WAITING
            self.check(target)
            return True
        earlier = target.connection
        target.connection = connection
        connection.epoch = target.epoch
        if earlier is not None and earlier.state == WAITING:
            earlier.fail(reasons.SESSION_TAKEN_OVER, "another connection has the same client id")
        connection.state = WAITING
        if target.state != ARRIVING:
            self.claim_again(target)
        target.wait()
        self.check(target)
        return True

    def _claim(self, client_id: str) -> Target:
        node = self.node
        target = Target(self, client_id, node.peers.clock.stamp(node.hub.now))
        target.wait()
        self.targets[client_id] = target
        self.count()
        return target

    def claim_again(self, target: Target) -> None:
        """Under a newer epoch: whatever was said of the earlier one is over."""
        node = self.node
        target.epoch = node.peers.clock.stamp(node.hub.now)
        target.offers = {}
        target.wait()
        waits = target.connection is not None and target.connection.state == WAITING
        node.peers.own(target.client_id, target.epoch, waits)
        if target.state == OPENING:
            target.handle("again")

    def adopt(self, client_id: str) -> None:
        """A node that drains offers a session, though its client is not there."""
        if client_id not in self.targets and client_id not in self.node.hub.sessions:
            target = self._claim(client_id)
            self.node.peers.own(client_id, target.epoch, False)

    def _has_to_wait(self, target: Target) -> bool:
        client_id = target.client_id
        here = self.node.hub.sessions.get(client_id)
        source = self.source_of(client_id)
        if source is not None and source.state != IDLE:
            return True
        if here is not None and self.intakes.is_superseded(here):
            return True
        epoch = here.epoch if here is not None and source is None else 0
        for member in self.node.members.values():
            held = self.holders.held(member, client_id)
            if held > epoch or (held and target.is_clean):
                return True
        return self._is_unknown(target)

    def check(self, target: Target) -> None:
        """Whether a claim can go on."""
        if target.state == OPENING:
            self.check_opening(target)
        if target.state != CLAIMING:
            return
        client_id = target.client_id
        source = self.source_of(client_id)
        if source is not None and source.state != IDLE:
            return  # one migration at a time
        here = self.node.hub.sessions.get(client_id)
        epoch = here.epoch if here is not None else 0
        held = {m.name: self.holders.held(m, client_id) for m in self.node.members.values()}
        holders = [m for m in self.node.members.values() if held[m.name]]
        worth = [member.name for member in holders if self.holders.is_worth_waiting(member)]
        offers = target.offers
        if target.is_clean:
            for name in list(offers):
                del offers[name]
                self.tell(name, frames.REFUSED, client=client_id, epoch=target.epoch, merge=False)
            if not worth:
                target.handle("nobody")
            return
        best = max(offers, key=lambda name: (offers[name].held, name), default="")
        if best and offers[best].held > epoch:
            epoch = offers[best].held
        else:
            best = ""
        newer = [member.name for member in holders if held[member.name] > epoch]
        newer = [name for name in newer if name != best]
        if any(name in worth and name not in offers for name in newer):
            return
        is_superseded = not best and here is not None and self.intakes.is_superseded(here)
        if newer or is_superseded:
            target.handle("unreachable")
        elif best:
            target.handle("accept", best)
        elif not self._is_unknown(target):
            target.handle("nobody")
        elif not any(member.is_coming() for member in self.node.members.values()):
            target.handle("unreachable")

    def ask_all(self, target: Target) -> None:
        """A new session: all nodes shall know of it, so that they send nothing to older ones."""
        for member in list(self.node.channels.values()):
            self.tell_table(member)
            self.cuts.ask(member, target.client_id, target.epoch, target.epoch, [], [])
        self.cuts.close(target.client_id, target.epoch, {*self.older(target.client_id)})
        self.intakes.close_merging(self.node.name, target.client_id)
        self.cuts.remember(target.client_id, target.epoch, target.epoch)
        self.check_opening(target)

    def check_opening(self, target: Target) -> None:
        for member in self.node.channels.values():
            peer = member.peer
            if peer.up and peer.patient and member.name not in target.marked:
                return
        target.handle("marked")

    # A claim comes to its end

    def _take_up(self, client_id: str) -> None:
        """The session here is the client's: it goes on."""
        source = self.source_of(client_id)
        if source is not None:
            del self.sources[source.session]
            source.session.frozen = False
            source.session.forget_load()
            self.intakes.settle(source.session)
        session = self.node.hub.sessions.get(client_id)
        if session is not None and session.connection is None:
            self._forget_pids(session)
        self.count()

    def _forget_pids(self, session: Session) -> None:
        """A client may have been at a node that cannot be asked, with the same packet ids: to take
        a new message for an old one would lose it."""
        if session.incoming and self.node.peers.some_away():
            session.reset_state()
            session.lose_state(True)

    def completed(self, target: Target, session: Session | None) -> None:
        """All that can be had is here."""
        node = self.node
        client_id = target.client_id
        self.targets.pop(client_id, None)
        connection = target.connection
        waits = connection is not None and connection.state == WAITING
        highest = self.holders.highest(client_id)
        is_later = highest is not None and self.holders.held(highest, client_id) > target.epoch
        if session is not None:
            if target.session is None:
                self._take_up(client_id)
            else:
                self._forget_pids(session)
            session.epoch = target.epoch
        if waits and connection is not None:
            if is_later:  # that claim was known before this CONNECT came
                self.claim_again(target)
            connection.epoch = target.epoch
            node.hub.admission.welcome(connection)
        elif session is None:
            self._announce(client_id)
        else:
            node.peers.own(client_id, session.epoch, False)
            if session.sid:
                node.hub.require_journal().session(session)
            session.rest(node.hub.now)
        self._go_on_with(target)

    def open_new(self, target: Target) -> None:
        """The client gets a new session: who has the last one cannot be reached.

        An older one that is here is emptied into it, as those elsewhere are when they can be.
        """
        hub = self.node.hub
        client_id = target.client_id
        connection = target.connection
        old = hub.sessions.get(client_id)
        if connection is None or connection.state != WAITING:
            self.completed(target, old)
            return
        session = hub.new_session(client_id, connection.limits)
        session.epoch = target.epoch
        session.began = target.epoch
        session.lose_state(True)
        intake = self.intakes.of(session)
        for name in self.node.members:
            if name not in target.marked:
                intake.gates[name] = Gate(target.epoch, [])
        self.node.log(f"client {client_id!r} has a new session: other nodes may have an older one")
        self.completed(target, session)
        if hub.sessions.get(client_id) is session:
            self.cuts.watch(session)
            self.intakes.settle(session)
            if old is not None:
                self.merging.fold(old, session)

    def withdrawn(self, target: Target) -> None:
        """Another node has claimed the session before it was here."""
        client_id = target.client_id
        del self.targets[client_id]
        session = self.node.hub.sessions.get(client_id)
        if session is None:
            self._announce(client_id)
        else:
            self.node.peers.own(client_id, session.epoch, False)
        self._go_on_with(target)

    def _announce(self, client_id: str) -> None:
        """What is here of a client that has no session here."""
        epoch = max((each.session.epoch for each in self.merging.of(client_id)), default=0)
        self.node.peers.announce(CLIENT + client_id, epoch << 1)

    def _go_on_with(self, target: Target) -> None:
        """A claim is over: answer those who have offered, and go on with what is here."""
        client_id = target.client_id
        self.exchange.keep(client_id, target.offers)
        relayed, target.relayed = target.relayed, []
        for body in relayed:
            self.intakes.came("", client_id, body)
        self.exchange.judge(client_id)
        highest = self.holders.highest(client_id)
        if highest is not None:
            self._lose_if_later(client_id, highest)
        source = self.source_of(client_id)
        if source is not None:
            source.look()
        self.count()

    # Claims of others

    def owned(self, member: Member, client_id: str, value: int) -> None:
        """A node's table says something else about a client."""
        if value:
            self._claimed(member, client_id, value)
        else:
            self._withdrew(member, client_id)
        target = self.targets.get(client_id)
        if target is not None:
            self.check(target)
        source = self.source_of(client_id)
        if source is not None:
            source.look()

    def _claimed(self, member: Member, client_id: str, value: int) -> None:
        epoch = value >> 1
        target = self.targets.get(client_id)
        if target is None:
            self._lose_if_later(client_id, member)
        elif (epoch, member.name) > (target.epoch, self.node.name):
            waits = target.connection is not None and target.connection.state == WAITING
            if value & 1 or not waits:
                target.handle("superseded", member)
            elif target.state != ARRIVING:
                # A client that connects here is nowhere else, whatever a clock that is ahead says.
                self.claim_again(target)

    def _lose_if_later(self, client_id: str, member: Member) -> None:
        session = self.node.hub.sessions.get(client_id)
        if session is None or client_id in self.targets:
            return
        if (self.holders.held(member, client_id), member.name) <= (session.epoch, self.node.name):
            return
        self.lose(session, f"the client has connected to node {member.name}")

    def lose(self, session: Session, text: str) -> None:
        """The session has to go to another node."""
        node = self.node
        if session.connection is not None:
            node.hub.stats.sessions_taken_over += 1
            session.connection.fail(reasons.SESSION_TAKEN_OVER, text)
        if node.hub.sessions.get(session.client_id) is session and session not in self.sources:
            source = self.sources[session] = Source(self, session)
            self.count()
            source.look()

    def _withdrew(self, member: Member, client_id: str) -> None:
        """A node has nothing of a client any more, and claims nothing."""
        self.exchange.forget_took(client_id, member.name)
        target = self.targets.get(client_id)
        if target is not None:
            target.offers.pop(member.name, None)
            if target.state == ARRIVING and target.source == member.name:
                target.handle("lost")

    # For sources and targets

    def tell(self, name: str, kind: int, **fields: Any) -> None:
        self.send(name, kind, pack(**fields))

    def send(self, name: str, kind: int, body: bytes) -> None:
        member = self.node.members.get(name)
        if member is not None:
            self.node.send(member, kind, body)

    def tell_table(self, member: Member) -> None:
        if member.peer.told < self.node.peers.number and member.resumed:
            self.node.tables.tell(member)

    def instance_of(self, name: str) -> str:
        member = self.node.members.get(name)
        return member.instance if member is not None else ""

    def life(self, session: Session) -> str:
        """Which session of this node it is."""
        if session.sid:
            return f"{self.node.name}/{session.sid}"
        self._lives += 1
        return f"{self.node.settings.instance}/{self._lives}"

    def time_of_day(self) -> float:
        """What turns the hub's time into that of day, as the store has it."""
        journal = self.node.hub.journal
        return journal.epoch if journal is not None else self.node.peers.clock.epoch

    def has_switched(self, name: str, client_id: str, epoch: int) -> None:
        source = self.source_of(client_id)
        if source is not None:
            source.has_switched(name, epoch)

    def is_given(self, session: Session) -> bool:
        """Whether another node may have it by now."""
        source = self.sources.get(session)
        return source is not None and source.state in (CUTTING, ENDED, DOUBT)

    def given(self, source: Source, given: Given | None, shared: list[Delivery]) -> None:
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
            if not self.cuts.has_switched(session.client_id, given.epoch):
                target = self.node.members[given.to].peer
                target.put_control(session.client_id, controls.mark(given.epoch, False))
                self.cuts.remember(session.client_id, given.epoch, session.began)
                older = {*self.older(session.client_id)} - {given.to}
                self.cuts.close(session.client_id, session.began, older)
            if given.waits:
                self.cuts.gave(given)
        for delivery in shared:
            session.keep(delivery)  # the group has it next
        hub.end_session(session)
        self.count()

    def stays(self, source: Source) -> None:
        """A session could not be given away."""
        session = source.session
        self.cuts.watch(session)
        target = self.targets.get(source.client_id)
        if target is not None:
            self.check(target)
            return
        if self.owner_for(source) is None and not self.intakes.is_superseded(session):
            self._take_up(source.client_id)
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
            peers.own(client_id, target.epoch, live)
            self.check(target)
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
                self._announce(client_id)
        for source in list(self.sources.values()):
            source.look()
        self.count()

    def linked(self, member: Member) -> None:
        """Before anything else crosses a new link."""
        self.cuts.linked(member)
        for target in list(self.targets.values()):
            if target.state == OPENING:
                self.cuts.ask(member, target.client_id, target.epoch, target.epoch, [], [])

    def table(self, member: Member) -> None:
        """A node has told all of its table."""
        for source in list(self.sources.values()):
            if source.target == member.name:
                source.handle("linked")
            source.look()
        for client_id in list(member.peer.clients):
            self._lose_if_later(client_id, member)
        for target in list(self.targets.values()):
            self.check(target)

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
            self.check(target)
        self.count()

    def forgotten(self, member: Member) -> None:
        for client_id in list(member.peer.clients):
            self._withdrew(member, client_id)
        self.cuts.forgotten(member.name)
        for session in list(self.cuts.gated.values()):
            intake = self.intakes.of(session)
            if intake.gates.pop(member.name, None) is not None:
                self.intakes.settle(session)
        for source in list(self.sources.values()):
            if source.target == member.name and source.state == DOUBT:
                source.handle("unsure")
            source.look()
        self.exchange.forgotten(member.name)
        for target in list(self.targets.values()):
            self.check(target)

    def tick(self, now: float) -> None:
        for target in list(self.targets.values()):
            if target.deadline <= now:
                target.handle("timeout")
            else:
                self.check(target)
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
                self._lose_if_later(client_id, highest)
        self.merging.look()
        self.cuts.look()
        for name in [name for name in self.node.peers.table if name.startswith(CLIENT)]:
            client_id = name[len(CLIENT) :]
            if client_id not in hub.sessions and client_id not in self.targets:
                self._announce(client_id)

    def evacuate(self) -> None:
        """Who waits for a session is sent elsewhere, as all others are."""
        for target in self.targets.values():
            connection = target.connection
            target.connection = None
            if connection is not None and connection.state == WAITING:
                connection.fail(self.node.hub.leaving, "this node is leaving the cluster")

    # From the store

    def recall(self, notes: dict[str, str]) -> None:
        self.exchange.recall(notes)
        older, self.node.peers.older = self.node.peers.older, []
        for session in [*self.node.hub.sessions.values(), *older]:
            self._recall(session, notes)
        self.cuts.recall(notes)
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
