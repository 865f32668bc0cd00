"""One owner for each session: whose claim has the highest epoch.

A CONNECT makes a claim, and waits here until its session has come; a claim of another node makes a
source of the session that is here.
"""

from typing import TYPE_CHECKING

from mhub.cluster import frames
from mhub.cluster.member import Member
from mhub.cluster.migration.segments import Gate
from mhub.cluster.migration.source import IDLE, Source
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OPENING, Target
from mhub.core.connection import WAITING, Connection
from mhub.core.session import Session
from mhub.core.table import CLIENT
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.migration.migration import Migration


class Claims:
    def __init__(self, migration: "Migration") -> None:
        self._migration = migration
        self._node = migration.node
        self._holders = migration.holders

    # Who owns, and who has

    def older(self, client_id: str) -> list[str]:
        """Nodes that may have an older session."""
        found = [
            member.name
            for member in self._node.members.values()
            if client_id in member.peer.clients or not member.is_current()
        ]
        return [*found, self._node.name] if self._migration.merging.of(client_id) else found

    def _is_unknown(self, target: Target) -> bool:
        """Whether a node that cannot be asked may have a session of this client by now."""
        if target.is_clean or target.client_id in self._node.hub.sessions:
            return False
        return any(not member.is_current() for member in self._node.members.values())

    def owner_for(self, source: Source) -> Member | None:
        """The node that a session should go to; None: nowhere, for now."""
        if source.client_id in self._migration.targets:
            return None  # it will be clear soon
        highest = self._holders.highest(source.client_id)
        if highest is None:
            return None
        mine = (source.session.epoch, self._node.name)
        return (
            highest
            if (self._holders.held(highest, source.client_id), highest.name) > mine
            else None
        )

    def is_wanted(self, source: Source) -> bool:
        """Whether the target still has the claim that a source serves."""
        member = self._node.members.get(source.target)
        return member is not None and self._holders.held(member, source.client_id) == source.epoch

    # A client connects

    def claim(self, connection: Connection) -> bool:
        """A client connects; whether it has to wait for its session."""
        node = self._node
        client_id = connection.client_id
        target = self._migration.targets.get(client_id)
        if target is None:
            target = self._claim(client_id)
            target.connection = connection
            connection.epoch = target.epoch
            node.peers.table.own(client_id, target.epoch, True)
            if not self._has_to_wait(target):
                del self._migration.targets[client_id]
                self.take_up(client_id)
                return False
            connection.state = WAITING
            self.check(target)
            return True
        earlier = target.connection
        target.connection = connection
        connection.epoch = target.epoch
        if earlier is not None and earlier.state == WAITING:
            earlier.fail(reasons.SERVER_BUSY, "another connection has the same client id")
        connection.state = WAITING
        if target.state != ARRIVING:
            self.claim_again(target)
        target.wait()
        self.check(target)
        return True

    def _claim(self, client_id: str) -> Target:
        node = self._node
        target = Target(self._migration, client_id, node.peers.clock.timestamp(node.hub.now))
        target.wait()
        self._migration.targets[client_id] = target
        self._migration.count()
        return target

    def claim_again(self, target: Target) -> None:
        """Under a newer epoch: whatever was said of the earlier one is over."""
        node = self._node
        target.epoch = node.peers.clock.timestamp(node.hub.now)
        target.offers = {}
        target.wait()
        waits = target.connection is not None and target.connection.state == WAITING
        node.peers.table.own(target.client_id, target.epoch, waits)
        if target.state == OPENING:
            target.handle("again")

    def adopt(self, client_id: str) -> None:
        """A node that drains offers a session, though its client is not there."""
        if client_id not in self._migration.targets and client_id not in self._node.hub.sessions:
            target = self._claim(client_id)
            self._node.peers.table.own(client_id, target.epoch, False)

    def _has_to_wait(self, target: Target) -> bool:
        client_id = target.client_id
        here = self._node.hub.sessions.get(client_id)
        source = self._migration.source_of(client_id)
        if source is not None and source.state != IDLE:
            return True
        if here is not None and self._migration.intakes.is_superseded(here):
            return True
        epoch = here.epoch if here is not None and source is None else 0
        for member in self._node.members.values():
            held = self._holders.held(member, client_id)
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
        source = self._migration.source_of(client_id)
        if source is not None and source.state != IDLE:
            return  # one migration at a time
        here = self._node.hub.sessions.get(client_id)
        epoch = here.epoch if here is not None else 0
        held = {m.name: self._holders.held(m, client_id) for m in self._node.members.values()}
        holders = [m for m in self._node.members.values() if held[m.name]]
        worth = [member.name for member in holders if self._holders.is_worth_waiting(member)]
        offers = target.offers
        if target.is_clean:
            for name in list(offers):
                del offers[name]
                self._migration.tell(
                    name, frames.REFUSED, client=client_id, epoch=target.epoch, merge=False
                )
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
        is_superseded = (
            not best and here is not None and self._migration.intakes.is_superseded(here)
        )
        if newer or is_superseded:
            target.handle("unreachable")
        elif best:
            target.handle("accept", best)
        elif not self._is_unknown(target):
            target.handle("nobody")
        elif not any(member.is_coming() for member in self._node.members.values()):
            target.handle("unreachable")

    def ask_all(self, target: Target) -> None:
        """A new session: all nodes shall know of it, so that they send nothing to older ones."""
        for member in list(self._node.links.values()):
            self._migration.tell_table(member)
            self._migration.intakes.ask(
                member, target.client_id, target.epoch, target.epoch, [], []
            )
        self._migration.switches.close(
            target.client_id, target.epoch, {*self.older(target.client_id)}
        )
        self._migration.intakes.close_merging(self._node.name, target.client_id)
        self._migration.switches.remember(target.client_id, target.epoch, target.epoch)
        self.check_opening(target)

    def check_opening(self, target: Target) -> None:
        for member in self._node.links.values():
            peer = member.peer
            if peer.responds() and member.name not in target.marked:
                return
        target.handle("marked")

    # A claim comes to its end

    def take_up(self, client_id: str) -> None:
        """The session here is the client's: it goes on."""
        source = self._migration.source_of(client_id)
        if source is not None:
            del self._migration.sources[source.session]
            source.session.frozen = False
            self._node.hub.review_if_stale(source.session)
            source.session.forget_load()
            self._migration.intakes.settle(source.session)
        session = self._node.hub.sessions.get(client_id)
        if session is not None and session.connection is None:
            self._forget_pids_if_away(session)
        self._migration.count()

    def _forget_pids_if_away(self, session: Session) -> None:
        if self._node.peers.some_away():
            self.forget_pids(session)

    def forget_pids(self, session: Session) -> None:
        """A client may have been at a node that could not be asked, with the same packet ids: to
        take a new message for an old one would lose it."""
        if session.incoming:
            session.reset_state()
            session.lose_state(True)

    def completed(self, target: Target, session: Session | None) -> None:
        """All that can be had is here."""
        node = self._node
        client_id = target.client_id
        self._migration.targets.pop(client_id, None)
        connection = target.connection
        waits = connection is not None and connection.state == WAITING
        highest = self._holders.highest(client_id)
        is_later = highest is not None and self._holders.held(highest, client_id) > target.epoch
        if session is not None:
            if target.session is None:
                self.take_up(client_id)
            else:
                self._forget_pids_if_away(session)
            if session.connection is None and self._migration.exchange.is_split(target):
                self.forget_pids(session)  # the client may have been at one of the others last
            session.epoch = target.epoch
        if waits and connection is not None:
            if is_later:  # that claim was known before this CONNECT came
                self.claim_again(target)
            connection.epoch = target.epoch
            if target.session is not None and target.session.will is not None:
                # The client was back before the delay was over, or the source had published it.
                target.session.will.due_at = 0.0
            node.hub.admission.welcome(connection)
        elif session is None:
            self.announce(client_id)
        else:
            node.peers.table.own(client_id, session.epoch, False)
            if session.sid:
                node.hub.require_journal().session(session)
            session.rest(node.hub.now)
        self._go_on_with(target)

    def open_new(self, target: Target) -> None:
        """The client gets a new session: who has the last one cannot be reached.

        An older one that is here is emptied into it, as those elsewhere are when they can be.
        """
        hub = self._node.hub
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
        intake = self._migration.intakes.of(session)
        for name in self._node.members:
            if name not in target.marked:
                intake.gates[name] = Gate(target.epoch, [])
        older = [name for name in self.older(client_id) if name != self._node.name]
        self._node.log(_told_of_new(client_id, older))
        self.completed(target, session)
        if hub.sessions.get(client_id) is session:
            self._migration.intakes.watch(session)
            self._migration.intakes.settle(session)
            if old is not None:
                self._migration.merging.fold(old, session)

    def withdrawn(self, target: Target) -> None:
        """Another node has claimed the session before it was here."""
        client_id = target.client_id
        del self._migration.targets[client_id]
        session = self._node.hub.sessions.get(client_id)
        if session is None:
            self.announce(client_id)
        else:
            self._node.peers.table.own(client_id, session.epoch, False)
        self._go_on_with(target)

    def announce(self, client_id: str) -> None:
        """What is here of a client that has no session here."""
        epoch = max(
            (each.session.epoch for each in self._migration.merging.of(client_id)), default=0
        )
        self._node.peers.table.announce(CLIENT + client_id, epoch << 1)

    def _go_on_with(self, target: Target) -> None:
        """A claim is over: answer those who have offered, and go on with what is here."""
        client_id = target.client_id
        self._migration.exchange.keep(client_id, target.offers)
        relayed, target.relayed = target.relayed, []
        for body in relayed:
            self._migration.intakes.came("", client_id, body)
        self._migration.exchange.judge(client_id)
        highest = self._holders.highest(client_id)
        if highest is not None:
            self.lose_if_later(client_id, highest)
        source = self._migration.source_of(client_id)
        if source is not None:
            source.look()
        self._migration.count()

    # Claims of others

    def owned(self, member: Member, client_id: str, value: int) -> None:
        """A node's table says something else about a client."""
        if value:
            self._claimed(member, client_id, value)
        else:
            self.withdrew(member, client_id)
        target = self._migration.targets.get(client_id)
        if target is not None:
            self.check(target)
        source = self._migration.source_of(client_id)
        if source is not None:
            source.look()

    def _claimed(self, member: Member, client_id: str, value: int) -> None:
        epoch = value >> 1
        target = self._migration.targets.get(client_id)
        if target is None:
            self.lose_if_later(client_id, member)
        elif (epoch, member.name) > (target.epoch, self._node.name):
            waits = target.connection is not None and target.connection.state == WAITING
            if value & 1 or not waits:
                target.handle("superseded", member)
            elif target.state != ARRIVING:
                # A client that connects here is nowhere else, whatever a clock that is ahead says.
                self.claim_again(target)

    def lose_if_later(self, client_id: str, member: Member) -> None:
        session = self._node.hub.sessions.get(client_id)
        if session is None or client_id in self._migration.targets:
            return
        if (self._holders.held(member, client_id), member.name) <= (
            session.epoch,
            self._node.name,
        ):
            return
        self.lose(session, f"the client has connected to node {member.name}")

    def lose(self, session: Session, text: str) -> None:
        """The session has to go to another node."""
        node = self._node
        if session.connection is not None:
            node.hub.events.taken_over(session.connection, text)
            session.connection.fail(reasons.SESSION_TAKEN_OVER, text)
        if (
            node.hub.sessions.get(session.client_id) is session
            and session not in self._migration.sources
        ):
            source = self._migration.sources[session] = Source(self._migration, session)
            self._migration.count()
            source.look()

    def withdrew(self, member: Member, client_id: str) -> None:
        """A node has nothing of a client any more, and claims nothing."""
        self._migration.exchange.forget_took(client_id, member.name)
        target = self._migration.targets.get(client_id)
        if target is not None:
            target.offers.pop(member.name, None)
            if target.state == ARRIVING and target.source == member.name:
                target.handle("lost")


def _told_of_new(client_id: str, names: list[str]) -> str:
    """A line of the log: what it means, and what can be done."""
    why = "the one that it had has missed messages"
    if names:
        nodes = ("node " if len(names) == 1 else "nodes ") + ", ".join(sorted(names))
        why = f"its session may be at {nodes}, which cannot be asked"
    return (
        f"client {client_id!r} is told Session Present 0 and has a new session: {why}."
        " What the older one has comes as late messages, when it can be reached, and not at all if"
        " its node is forgotten"
    )
