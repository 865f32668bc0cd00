"""One owner for each session: whose claim has the highest epoch.

It hears of claims (the tables), control records (the channels) and frames, and passes them to the
source or target that they are about, if their epoch is the one that it serves.
"""

from collections import deque
from typing import TYPE_CHECKING, Any, Final

from mhub.cluster import parcels
from mhub.cluster.member import DOWN, SYNCING, Member
from mhub.cluster.migration import records
from mhub.cluster.migration.frames import split
from mhub.cluster.migration.gates import ArrivalGate, MissingGate, SourceGate
from mhub.cluster.migration.queues import delivery_of, row_of
from mhub.cluster.migration.relays import Relays, source_id
from mhub.cluster.migration.source import DOUBT, ENDED_NOTE, IDLE, LEAVING, Source
from mhub.cluster.migration.target import ARRIVING, CLAIMING, OPENING, Offer, Target
from mhub.cluster.parcels import pack, unpack
from mhub.core.connection import WAITING, Connection
from mhub.core.journal import Row
from mhub.core.peer import Peer
from mhub.core.peers import CLIENT
from mhub.core.session import Session
from mhub.wire import reasons

if TYPE_CHECKING:
    from mhub.cluster.node import Node

TOOK: Final = "took/"
"""Notes of sessions that were taken from another node begin so: until that has forgotten them."""

WAITS: Final = "waits/"
"""Notes of missing nodes and the sources that relay their messages begin so."""


class Took:
    """What was taken of a session from one source."""

    def __init__(self, life: str, missing: list[str]) -> None:
        self.life = life
        self.missing = missing


class Epochs:
    def __init__(self, node: "Node") -> None:
        self.node = node
        self.sources: dict[Session, Source] = {}
        self.targets: dict[str, Target] = {}
        self.relays = Relays(self)
        self.progress = 0  # entries that were given
        self._took: dict[tuple[str, str], Took] = {}  # by client id and source
        self._offers: dict[str, dict[str, Offer]] = {}  # to sessions that are frozen here
        self._safe: deque[tuple[int, str, bytes]] = deque()  # (batch, node, DONE)
        self._lives = 0
        # By client id and remainder: records that the session has had from it
        self.relay_counts: dict[str, dict[str, int]] = {}
        self._folding: dict[str, Source] = {}  # by client id: they join a newer session here

    # Who owns, and who has

    def source_of(self, client_id: str) -> Source | None:
        """That of the session which has this name here."""
        session = self.node.hub.sessions.get(client_id)
        return self.sources.get(session) if session is not None else None

    def holders(self, client_id: str) -> list[str]:
        """Other nodes that have a session of this client, or claim it."""
        members = self.node.members.values()
        return [member.name for member in members if client_id in member.peer.clients]

    def _cut_from(self, client_id: str) -> list[str]:
        """Other nodes that may get messages for an older part of a session."""
        return [
            member.name
            for member in self.node.members.values()
            if client_id in member.peer.clients
            or client_id in member.peer.remainders
            or not member.heard_of
        ]

    def _is_unknown(self, target: Target) -> bool:
        """Whether a node of which nothing was heard yet may have a session of this client."""
        if target.is_clean or target.client_id in self.node.hub.sessions:
            return False
        return any(not member.heard_of for member in self.node.members.values())

    def _highest(self, client_id: str) -> Member | None:
        """The other node with the highest epoch."""
        found = None
        best = (0, "")
        for member in self.node.members.values():
            epoch = member.peer.clients.get(client_id, 0) >> 1
            if epoch and (epoch, member.name) > best:
                best = (epoch, member.name)
                found = member
        return found

    def owner_for(self, source: Source) -> Member | None:
        """The node that a session should go to; None: nowhere, for now."""
        if source.client_id in self.targets:
            return None  # it will be clear soon
        highest = self._highest(source.client_id)
        if highest is None:
            return None
        epoch = highest.peer.clients[source.client_id] >> 1
        mine = (source.session.epoch, self.node.name)
        return highest if (epoch, highest.name) > mine else None

    def is_wanted(self, source: Source) -> bool:
        """Whether the target still has the claim that a source serves."""
        member = self.node.members.get(source.target)
        held = member.peer.clients.get(source.client_id, 0) if member is not None else 0
        return held >> 1 == source.epoch

    def epoch_of(self, member: Member, client_id: str) -> int:
        return member.peer.clients[client_id] >> 1

    def _worth(self, member: Member) -> bool:
        """It is linked, or was a moment ago: then it may be back in another.

        Where failover is possible, that takes longer: see `mhub.cluster.standin`.
        """
        if member.peer.up or member.state == SYNCING:
            return True
        node = self.node
        gone_s = node.hub.now - member.gone_at
        if node.can_be_replaced(member) and gone_s < node.settings.takeover_timeout_s:
            return True
        return member.state == DOWN and node.hub.now - member.since < node.settings.suspect_s

    # Claims

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
            target.epoch = self.claim_again(target)
        target.wait()
        self.check(target)
        return True

    def _claim(self, client_id: str) -> Target:
        node = self.node
        target = Target(self, client_id, node.peers.clock.stamp(node.hub.now))
        target.offers = self._offers.pop(client_id, {})
        target.wait()
        self.targets[client_id] = target
        self.count()
        return target

    def claim_again(self, target: Target) -> int:
        """Under a newer epoch: whatever was said of the earlier one is over."""
        node = self.node
        target.epoch = node.peers.clock.stamp(node.hub.now)
        target.wait()
        waits = target.connection is not None and target.connection.state == WAITING
        node.peers.own(target.client_id, target.epoch, waits)
        return target.epoch

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
        epoch = here.epoch if here is not None and source is None else 0
        for member in self.node.members.values():
            held = member.peer.clients.get(client_id, 0) >> 1
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
        worth = {
            member.name: member.peer.clients[client_id] >> 1
            for member in self.node.members.values()
            if client_id in member.peer.clients and self._worth(member)
        }
        offers = target.offers
        if target.is_clean:
            for name in list(offers):
                del offers[name]
                self._refuse(name, client_id, target.epoch)
            if not worth:
                target.handle("nobody")
            return
        best = max(
            (name for name, offer in offers.items() if not offer.is_lost),
            key=lambda name: (offers[name].held, name),
            default="",
        )
        if best and offers[best].held > epoch:
            held = offers[best].held
            if not any(other > held for name, other in worth.items() if name != best):
                target.handle("accept", best)
            return
        if any(other > epoch for name, other in worth.items() if name not in offers):
            return
        unreachable = [name for name in self.holders(client_id) if name not in worth]
        higher = any(self._held_by(name, client_id) > epoch for name in unreachable)
        lost = any(offer.is_lost for offer in offers.values())
        if here is not None and not higher:
            target.handle("nobody")
        elif higher or lost or self._is_unknown(target):
            target.handle("unreachable")
        else:
            target.handle("nobody")

    def _refuse(self, name: str, client_id: str, epoch: int) -> None:
        """A clean start: nothing of an older session is wanted."""
        self.tell(name, parcels.REFUSED, client=client_id, epoch=epoch, began=0)

    def _held_by(self, name: str, client_id: str) -> int:
        return self.node.members[name].peer.clients.get(client_id, 0) >> 1

    def check_opening(self, target: Target) -> None:
        for member in self.node.members.values():
            if member.peer.up and member.peer.patient and member.has_table:
                if member.name not in target.marked:
                    return
        target.handle("marked")

    def _take_up(self, client_id: str) -> None:
        """The session here is the client's: it goes on."""
        source = self.source_of(client_id)
        if source is not None:
            del self.sources[source.session]
            source.session.frozen = False
            source.session.forget_load()
            source.session.intake = source.gate.under
        session = self.node.hub.sessions.get(client_id)
        if session is not None and session.incoming and session.connection is None:
            # A client may have been at a node that cannot be asked, with the same packet ids: to
            # take a new message for an old one would lose it.
            if self.node.peers.some_away():
                session.reset_state()
                session.lose_state(True)
        self.count()

    def completed(self, target: Target, session: Session | None) -> None:
        """All that can be had is here."""
        node = self.node
        client_id = target.client_id
        self.targets.pop(client_id, None)
        connection = target.connection
        waits = connection is not None and connection.state == WAITING
        highest = self._highest(client_id)
        is_later = highest is not None and highest.peer.clients[client_id] >> 1 > target.epoch
        if session is not None:
            if target.session is None:
                self._take_up(client_id)
            session.epoch = target.epoch
        if waits and connection is not None:
            if is_later:  # that claim was known before this CONNECT came
                target.epoch = self.claim_again(target)
            connection.epoch = target.epoch
            node.hub.admission.welcome(connection)
        elif session is None:
            node.peers.announce(CLIENT + client_id, 0)
        else:
            node.peers.own(client_id, session.epoch, False)
            if session.sid:
                node.hub.book().session(session)
            session.rest(node.hub.now)
        here = node.hub.sessions.get(client_id)
        if here is not None and self._remains_somewhere(client_id):
            self.cut(client_id, here.epoch)
        self._go_on_with(client_id, target.offers)

    def _remains_somewhere(self, client_id: str) -> bool:
        """Whether marks are waited for, which only the owner of a session can ask for."""
        members = self.node.members.values()
        return any(client_id in member.peer.remainders for member in members) or any(
            remainder.client_id == client_id for remainder in self.relays.remainders
        )

    def open_new(self, target: Target) -> None:
        """The client gets a new session: who has an older one cannot be reached."""
        node = self.node
        client_id = target.client_id
        connection = target.connection
        session = node.hub.sessions.get(client_id)
        if session is not None and session.sid:
            node.hub.book().note(ENDED_NOTE + client_id, "")
        is_here = connection is not None and connection.state == WAITING
        source = self.source_of(client_id)
        if source is not None and source.state == LEAVING:
            session = None  # it goes on, beside the new one
        if session is not None:
            self.sources.pop(session, None)
            session.frozen = False
            session.forget_load()
            session.intake = None
            session.reset_state()
        elif is_here and connection is not None:
            session = node.hub.new_session(client_id, connection.limits)
        if session is not None:
            session.began = target.epoch
            session.lose_state(True)
            # What others publish before they know of it belongs to the older ones, and comes first.
            older = {source_id(name, target.epoch) for name in self.holders(client_id)}
            waits = {name: set(older) for name in node.members if name not in target.marked}
            if waits:
                gate = MissingGate(session, node.name, target.epoch, waits)
                gate.early = {}
                session.intake = gate
        node.log(f"client {client_id!r} goes on without what other nodes have of it")
        self.completed(target, session)

    def withdrawn(self, target: Target) -> None:
        """Another node has claimed the session before it was here."""
        client_id = target.client_id
        del self.targets[client_id]
        session = self.node.hub.sessions.get(client_id)
        if session is None:
            self.node.peers.announce(CLIENT + client_id, 0)
        else:
            self.node.peers.own(client_id, session.epoch, False)
        self._go_on_with(client_id, target.offers)

    def _go_on_with(self, client_id: str, offers: dict[str, Offer]) -> None:
        """A claim is over: answer those who have offered, and go on with what is here."""
        if offers:
            self._offers[client_id] = offers
        self._judge(client_id)
        highest = self._highest(client_id)
        if highest is not None:
            self._lose_if_later(client_id, highest)
        source = self.source_of(client_id)
        if source is not None:
            source.look()
        self.count()

    def owned(self, member: Member, client_id: str, value: int) -> None:
        """A node's table says something else about a client."""
        target = self.targets.get(client_id)
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
        if target is not None:
            if (epoch, member.name) > (target.epoch, self.node.name):
                waits = target.connection is not None and target.connection.state == WAITING
                if value & 1 or not waits:
                    target.handle("superseded", member)
                elif target.state != ARRIVING:
                    # A client that connects here is nowhere else, whatever a clock that is ahead
                    # says.
                    self.claim_again(target)
            return
        self._lose_if_later(client_id, member, bool(value & 1))

    def _lose_if_later(self, client_id: str, member: Member, is_live: bool = True) -> None:
        session = self.node.hub.sessions.get(client_id)
        if session is None or client_id in self.targets:
            return
        epoch = member.peer.clients.get(client_id, 0) >> 1
        if (epoch, member.name) <= (session.epoch, self.node.name):
            return
        if session.connection is not None and not is_live:
            self._insist(session)
            return
        self._lose(session, f"the client has connected to node {member.name}")

    def _rests(self, client_id: str, epoch: int) -> bool:
        """Whether the session with an epoch is one whose client is not connected there."""
        value = epoch << 1
        members = self.node.members.values()
        return any(member.peer.clients.get(client_id) == value for member in members)

    def _insist(self, session: Session) -> None:
        """A client that is connected here is nowhere else, whatever a clock that is ahead says."""
        connection = session.connection
        assert connection is not None
        session.epoch = connection.epoch = self.node.peers.clock.stamp(self.node.hub.now)
        if session.sid:
            self.node.hub.book().session(session)
        self.node.peers.own(session.client_id, session.epoch, True)

    def _lose(self, session: Session, text: str) -> Source | None:
        """The session has to go to another node."""
        node = self.node
        client_id = session.client_id
        if session.connection is not None:
            node.hub.stats.sessions_taken_over += 1
            session.connection.fail(reasons.SESSION_TAKEN_OVER, text)
        if node.hub.sessions.get(client_id) is not session:
            return None  # it has ended with its connection
        source = self.sources.get(session)
        if source is None:
            source = self.sources[session] = Source(self, session)
            self.count()
            source.look()
        return source

    def _withdrew(self, member: Member, client_id: str) -> None:
        """A node has nothing of a client any more, and claims nothing."""
        self._forget_took(client_id, member.name)
        session = self.node.hub.sessions.get(client_id)
        gate = self.missing_gate(session)
        if session is not None and gate is not None and gate.waits_for(member.name):
            # It answers behind all that it has relayed.
            self._send_cut(member, client_id, session.began, [member.name], [])
        target = self.targets.get(client_id)
        if target is not None:
            target.offers.pop(member.name, None)
            if target.state == ARRIVING and target.source == member.name:
                target.handle("lost")

    # Marks

    def cut(self, client_id: str, epoch: int, accepted: str = "") -> None:
        """Ask all nodes to mark their channels, and mark our own."""
        node = self.node
        sources = self._cut_from(client_id)
        up = [m for m in node.members.values() if m.peer.up and m.channel is not None]
        asked = [member.name for member in up if member.peer.patient]
        for member in up:
            self._send_cut(member, client_id, epoch, sources, asked, accepted)
        self._mark(client_id, epoch, sources)
        self._came_mark(node.name, client_id, epoch)

    def _send_cut(
        self,
        member: Member,
        client_id: str,
        epoch: int,
        sources: list[str],
        asked: list[str],
        accepted: str = "",
    ) -> None:
        self.tell_table(member)  # first, so that it knows the subscriptions
        self.tell(
            member.name,
            parcels.CUT,
            client=client_id,
            epoch=epoch,
            sources=sources,
            asked=asked,
            accepted=accepted,
        )

    def _mark(self, client_id: str, epoch: int, sources: list[str]) -> None:
        for name in sources:
            member = self.node.members.get(name)
            if member is not None:
                member.peer.put_control(client_id, records.mark(epoch))

    def on_cut(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        client_id, epoch = str(said["client"]), int(said["epoch"])
        sources = [str(name) for name in said["sources"]]
        self._mark(client_id, epoch, [*sources, member.name])
        if self.node.name in sources:
            self._came_mark(self.node.name, client_id, epoch)
            if not self._has_some(client_id, epoch):
                body = records.closed("*", source_id(self.node.name, epoch))
                member.peer.put_control(client_id, body)
        if said["accepted"] == self.node.name:
            source = self._serving(member, said)
            if source is not None:
                source.handle("cut", said["asked"])

    def _has_some(self, client_id: str, epoch: int) -> bool:
        """Whether anything of a session is here, or may be soon, that its owner waits for."""
        if client_id in self.node.hub.sessions or client_id in self.targets:
            return True
        remainders = self.relays.remainders
        return any(each.client_id == client_id and each.epoch == epoch for each in remainders)

    def control(self, peer: Peer, client_id: str, body: bytes) -> None:
        """A control record came in a peer's channel."""
        self.came(peer.name, client_id, body)

    def came(self, name: str, client_id: str, body: bytes) -> None:
        if body[:1] == records.MARK:
            self.marked(name, client_id, records.epoch_of(body))
        else:
            self._relayed(client_id, body)

    def marked(self, name: str, client_id: str, epoch: int) -> None:
        target = self.targets.get(client_id)
        if target is not None and target.gate is not None and epoch > target.epoch:
            target.gate.later_marks[name] = epoch
        if target is not None and epoch == target.epoch:
            if target.gate is not None:
                target.gate.marked.add(name)
            target.marked.add(name)
            if target.state == OPENING:
                self.check_opening(target)
        session = self.node.hub.sessions.get(client_id)
        gate = self.missing_gate(session)
        if session is not None and gate is not None and epoch <= session.epoch:
            gate.mark(name, epoch)
            self._gate_changed(session, gate)
        self._came_mark(name, client_id, epoch)

    def _came_mark(self, name: str, client_id: str, epoch: int) -> None:
        """What a node publishes from now on is not for a session that is held here under a lower
        epoch."""
        session = self.node.hub.sessions.get(client_id)
        if session is not None and session.epoch < epoch and session not in self.sources:
            if client_id not in self.targets:
                if session.connection is not None and self._rests(client_id, epoch):
                    self._insist(session)
                else:
                    self._lose(session, "the client has connected to another node")
        for source in (self.source_of(client_id), self._folding.get(client_id)):
            if source is not None and source.session.epoch < epoch:
                source.gate.mark(name, epoch)
                source.look()
        self.relays.mark(name, client_id, epoch)

    # What is relayed

    def _relayed(self, client_id: str, body: bytes) -> None:
        """Entries for a session, or the end of them: it may be here, on its way, or elsewhere."""
        target = self.targets.get(client_id)
        if target is not None and target.state == ARRIVING:
            if not self.relays.pass_on(client_id, body):
                target.relayed.append(body)
            return
        session = self.node.hub.sessions.get(client_id)
        source = self.sources.get(session) if session is not None else None
        if session is not None and (source is None or source.state != LEAVING):
            self.apply(session, body)
        elif not self.relays.pass_on(client_id, body):
            highest = self._highest(client_id)
            if highest is not None:
                highest.peer.put_control(client_id, body)

    def apply(self, session: Session, body: bytes) -> None:
        source = self.sources.get(session)
        if body[:1] == records.CLOSED:
            if source is not None and session.frozen:
                source.closings.append(body)
                return
            node, name = records.names_of(body)
            gate = self.missing_gate(session)
            if gate is not None:
                gate.closed(node, name)
                self._gate_changed(session, gate)
            return
        epoch = self.time_of_day()
        name, rows = records.relayed(body)
        if name:
            counts = self.relay_counts.setdefault(session.client_id, {})
            counts[name] = counts.get(name, 0) + 1
        for row in rows:
            delivery = delivery_of(session, row, epoch)
            if source is not None:
                source.gate.add(delivery, 0)
            else:
                session.enqueue(delivery)
        session.pump(self.node.hub.portion)

    def time_of_day(self) -> float:
        """What turns the hub's time into that of day, as the store has it."""
        ledger = self.node.hub.ledger
        return ledger.epoch if ledger is not None else self.node.peers.clock.epoch

    def relay(self, source: Source, rows: list[Row]) -> None:
        self.relays.relay(source.client_id, source.target, rows)

    # Frames

    def tell(self, name: str, kind: int, **fields: Any) -> None:
        self.send(name, kind, pack(**fields))

    def send(self, name: str, kind: int, body: bytes) -> None:
        member = self.node.members.get(name)
        if member is not None:
            self.node.send(member, kind, body)

    def on_session(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        client_id, epoch = str(said["client"]), int(said["epoch"])
        offer = Offer(said, data)
        target = self.targets.get(client_id)
        if target is not None:
            if epoch == target.epoch:
                target.offers[member.name] = offer
                target.wait()
                self.check(target)
            elif target.state == ARRIVING:
                target.offers[member.name] = offer  # to be judged when it is here
            return
        session = self.node.hub.sessions.get(client_id)
        if session is not None and session.epoch == epoch:
            self._offers.setdefault(client_id, {})[member.name] = offer
            self._judge(client_id)

    def _judge(self, client_id: str) -> None:
        """A session that is here is offered parts that others have."""
        session = self.node.hub.sessions.get(client_id)
        if session is None:
            self._offers.pop(client_id, None)
            return
        if session.frozen or client_id in self.targets:
            return
        for name, offer in self._offers.pop(client_id, {}).items():
            took = self._took.get((client_id, name))
            if took is not None and took.life == offer.life:
                self.done(client_id, name, session.epoch, took.missing)
                continue
            is_late = not session.clean and offer.began < session.began
            began = session.began if is_late else 0
            self.tell(name, parcels.REFUSED, client=client_id, epoch=session.epoch, began=began)

    def on_entries(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        target = self._arriving(member, said)
        if target is not None:
            target.handle("entries", data, str(said["held"]))

    def on_pending(self, member: Member, body: bytes) -> None:
        said, data = split(body)
        target = self._arriving(member, said)
        if target is not None:
            target.handle("pending", said, data)

    def _arriving(self, member: Member, said: dict[str, Any]) -> Target | None:
        """The fence: the target that a frame is about, if it serves that epoch."""
        target = self.targets.get(str(said["client"]))
        if target is not None and target.source == member.name:
            if target.state == ARRIVING and target.epoch == int(said["epoch"]):
                return target
        return None

    def on_more(self, member: Member, body: bytes) -> None:
        source = self._serving(member, unpack(body))
        if source is not None:
            source.handle("more")

    def on_end(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        target = self._arriving(member, said)
        if target is not None:
            target.handle("end", [str(name) for name in said["missing"]])

    def took(self, session: Session, name: str, life: str, missing: list[str]) -> None:
        """Remember it, in the store together with the session, until the source has forgotten."""
        self._took[session.client_id, name] = Took(life, missing)
        if session.sid:
            key = f"{TOOK}{name}/{session.client_id}"
            self.node.hub.book().note(key, "\n".join([life, *missing]))

    def _forget_took(self, client_id: str, name: str) -> None:
        if self._took.pop((client_id, name), None) is not None:
            if self.node.hub.ledger is not None:
                self.node.hub.ledger.note(f"{TOOK}{name}/{client_id}", "")

    def done(self, client_id: str, name: str, epoch: int, missing: list[str]) -> None:
        """DONE, when all of it is safe here."""
        ledger = self.node.hub.ledger
        batch = ledger.mark() if ledger is not None else 0
        body = pack(client=client_id, epoch=epoch, missing=missing)
        self._safe.append((batch, name, body))
        self.count()

    def on_done(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        source = self._serving(member, said)
        if source is not None:
            source.handle("done", [str(name) for name in said["missing"]])

    def on_refused(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        source = self._serving(member, said)
        if source is not None:
            if said["began"]:
                source.handle("late", int(said["began"]))
            else:
                source.handle("refused")

    def on_ask(self, member: Member, body: bytes) -> None:
        """Whether a session was taken, of which the source has had no DONE."""
        said = unpack(body)
        client_id, epoch = str(said["client"]), int(said["epoch"])
        took = self._took.get((client_id, member.name))
        if took is not None and took.life == said["life"]:
            self.done(client_id, member.name, epoch, took.missing)
        else:
            sure = self.node.hub.ledger is not None or said.get("instance") == (
                self.node.settings.instance
            )
            self.tell(member.name, parcels.UNKNOWN, client=client_id, epoch=epoch, sure=sure)

    def on_unknown(self, member: Member, body: bytes) -> None:
        said = unpack(body)
        source = self._serving(member, said)
        if source is not None:
            source.handle("unknown" if said["sure"] else "unsure")

    def _serving(self, member: Member, said: dict[str, Any]) -> Source | None:
        source = self.source_of(str(said["client"]))
        if source is not None and source.serves(member.name, int(said["epoch"])):
            return source
        return None

    # For sources and targets

    def life(self, session: Session) -> str:
        """What numbers of entries belong to."""
        if session.sid:
            return f"{self.node.name}/{session.sid}"
        self._lives += 1
        return f"{self.node.settings.instance}/{self._lives}"

    def given(self, source: Source, missing: set[str]) -> None:
        """Another node has the session: what is left of it here?"""
        hub = self.node.hub
        session = source.session
        client_id, to = source.client_id, source.target
        gate = source.gate
        after_end = gate.after_end or []
        del self.sources[session]
        if session.sid and gate.after_end is not None:
            hub.book().note(ENDED_NOTE + client_id, "")
        self.relay_counts.pop(client_id, None)
        if self._folding.get(client_id) is source:
            del self._folding[client_id]
        session.frozen = False
        session.intake = None
        session.will = None
        session.clear()
        if gate.under is not None:
            self.relays.went(client_id, to, gate.under.waits)
        # In this order: what nodes had sent, then that this was all.
        epoch = self.time_of_day()
        late = [row_of(each, 1, 0, epoch) for each in after_end if each.group is None]
        self.relays.relay(client_id, to, late)
        marked = {node for node in missing if gate.has_marked(node, source.epoch)}
        if source.is_late:
            marked = {*self.node.members, self.node.name} - missing
        mine = source_id(self.node.name, source.epoch)
        closed = [records.closed(node, mine) for node in sorted(marked)]
        for body in (*source.closings, *closed):
            self.relays.put(client_id, to, body)
        missing = (missing - marked) & self.node.members.keys()
        for delivery in after_end:
            if delivery.group is not None:
                session.keep(delivery)  # the group has it next
        if missing:
            if hub.sessions.get(client_id) is session:
                del hub.sessions[client_id]
            session.hand_over(None, True)
            if session.sid:
                hub.book().ended(session)
            under = gate.under
            begun = {
                node: under is None or not under.stops(node) or node in under.marked
                for node in sorted(missing)
            }
            self.relays.remain(session, source.epoch, to, begun)
            self.ended(session)
        else:
            hub.end_session(session)
        self.count()

    def beyond(self, session: Session, gate: ArrivalGate) -> None:
        """What came behind marks for a later claim, while a session arrived."""
        source = self.sources.get(session)
        for name, epoch in gate.later_marks.items():
            if source is not None:
                source.gate.mark(name, epoch)
        for _, delivery, epoch in gate.held:
            if epoch and source is not None:
                source.gate.add(delivery, epoch)
            elif epoch:
                session.enqueue(delivery)

    def fold(self, old: Session, session: Session) -> None:
        """What an older session has here joins the newer one that has come."""
        source = self.sources.get(old)
        if source is None:
            source = self.sources[old] = Source(self, old)
        source.freeze()
        source.target = self.node.name
        if old.began >= session.began:
            self.given(source, set())
        else:
            self._folding[old.client_id] = source
            source.handle("late", session.began)

    def stays(self, source: Source) -> None:
        """A session could not be given away."""
        session = source.session
        closings, source.closings = source.closings, []
        for body in closings:
            self.apply(session, body)
        target = self.targets.get(source.client_id)
        if target is not None:
            self.check(target)
            return
        if self.owner_for(source) is None:
            self._take_up(source.client_id)
            self._judge(source.client_id)
        if session.connection is None:
            session.rest(self.node.hub.now)

    def tell_table(self, member: Member) -> None:
        if member.peer.told < self.node.peers.number:
            self.node.tables.tell(member)

    def instance_of(self, name: str) -> str:
        member = self.node.members.get(name)
        return member.instance if member is not None else ""

    def missing_gate(self, session: Session | None) -> MissingGate | None:
        """The one of a session that waits for missing nodes, also if it is on its way on."""
        gate = session.intake if session is not None else None
        if isinstance(gate, SourceGate):
            return gate.under
        return gate if isinstance(gate, MissingGate) else None

    def _gate_changed(self, session: Session, gate: MissingGate) -> None:
        if not gate.waits:
            if isinstance(session.intake, SourceGate):
                session.intake.under = None
            else:
                session.intake = None
        self.note_waits(session)

    def note_waits(self, session: Session) -> None:
        if session.sid:
            gate = self.missing_gate(session)
            lines = []
            if gate is not None:
                for node, sources in gate.waits.items():
                    marked = "!" if node in gate.held or node in gate.marked else ""
                    lines.append("\t".join([marked + node, *sorted(sources)]))
            self.node.hub.book().note(WAITS + session.client_id, "\n".join(lines))

    def ended(self, session: Session) -> None:
        """A session is over, here."""
        client_id = session.client_id
        self.sources.pop(session, None)
        peers = self.node.peers
        if self.missing_gate(session) is not None:
            session.intake = None
            self.note_waits(session)
        here = self.node.hub.sessions.get(client_id)
        target = self.targets.get(client_id)
        if target is not None:
            live = target.connection is not None and target.connection.state == WAITING
            peers.own(client_id, target.epoch, live)
            self.check(target)
        elif here is None:
            peers.announce(CLIENT + client_id, 0)
        self.count()

    def loaded(self, session: Session, rows: list[Row]) -> None:
        source = self.sources.get(session)
        if source is not None:
            source.handle("loaded", rows)

    # Links and time

    def count(self) -> None:
        """While anything migrates, the end of each turn is ours."""
        peers = self.node.peers
        peers.migrating = len(self.targets) + len(self.sources) + len(self._safe)

    def turn(self) -> None:
        hub = self.node.hub
        while self._safe and self._safe[0][0] <= hub.durable:
            _, name, body = self._safe.popleft()
            self.send(name, parcels.DONE, body)
        for source in list(self.sources.values()):
            source.look()
        self.count()

    def table(self, member: Member) -> None:
        """A node has told all of its table."""
        for source in list(self.sources.values()):
            if source.target == member.name:
                source.handle("linked")
            source.look()
        for client_id, value in list(member.peer.clients.items()):
            session = self.node.hub.sessions.get(client_id)
            if session is None or client_id in self.targets:
                continue
            self._lose_if_later(client_id, member, bool(value & 1))
            if value & 1 and session.connection is None:
                continue  # its client is there: it will claim the session
            if session.epoch > value >> 1 and session not in self.sources:
                self.cut(client_id, session.epoch)
        for client_id in sorted(self._older(member)):
            session = self.node.hub.sessions[client_id]
            self._send_cut(member, client_id, session.epoch, self._cut_from(client_id), [])
        for target in list(self.targets.values()):
            if target.state in (ARRIVING, OPENING):
                sources = self._cut_from(target.client_id)
                self._send_cut(member, target.client_id, target.epoch, sources, [])
            self.check(target)

    def remains(self, member: Member, client_id: str, epoch: int) -> None:
        """A node waits for marks in channels to it."""
        session = self.node.hub.sessions.get(client_id)
        if session is not None and session.epoch >= epoch > 0 and session not in self.sources:
            if client_id not in self.targets and member.has_table:
                self.cut(client_id, session.epoch)

    def _older(self, joined: Member) -> set[str]:
        """Sessions that are here while nodes have older parts of them, or wait for a mark."""
        sessions = self.node.hub.sessions
        names = {remainder.client_id for remainder in self.relays.remainders}
        for client_id, session in sessions.items():
            gate = self.missing_gate(session)
            if gate is not None and joined.name in gate.waits:
                names.add(client_id)
        for member in self.node.members.values():
            names.update(member.peer.clients, member.peer.remainders)
        found = {name for name in names if name in sessions and name not in self.targets}
        return {name for name in found if sessions[name] not in self.sources}

    def unlinked(self, member: Member) -> None:
        for offers in self._offers.values():
            offers.pop(member.name, None)
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
        for source in list(self.sources.values()):
            if source.target == member.name and source.state == DOUBT:
                source.handle("unsure")
            source.look()
        self.relays.forgotten(member.name)
        for session in list(self.node.hub.sessions.values()):
            gate = self.missing_gate(session)
            if gate is not None:
                gate.forget(member.name)
                self._gate_changed(session, gate)
        for key in [key for key in self._took if key[1] == member.name]:
            self._forget_took(*key)
        for target in list(self.targets.values()):
            self.check(target)

    def tick(self, now: float) -> None:
        for target in list(self.targets.values()):
            if target.deadline <= now:
                target.handle("late")
            else:
                self.check(target)
        if self.node.peers.migrating:
            self.turn()

    def look_around(self) -> None:
        """Whatever was in the way: sessions that belong elsewhere, claims of nothing."""
        hub = self.node.hub
        hold_s = self.node.settings.takeover_timeout_s
        for client_id, session in list(hub.sessions.items()):
            highest = self._highest(client_id)
            if highest is not None and session.connection is None:
                self._lose_if_later(client_id, highest)
            if session not in self.sources and self._remains_somewhere(client_id):
                self.cut(client_id, session.epoch)
            gate = self.missing_gate(session)
            if gate is not None:
                for node, since in list(gate.held_since.items()):
                    if hub.now - since > hold_s:
                        session.lose_state(True)  # they are not in order any more
                        gate.release(node)
                self._gate_changed(session, gate)
        for name in [name for name in self.node.peers.table if name.startswith(CLIENT)]:
            client_id = name[len(CLIENT) :]
            if client_id not in hub.sessions and client_id not in self.targets:
                self.node.peers.announce(name, 0)

    def evacuate(self) -> None:
        """Who waits for a session is sent elsewhere, as all others are."""
        for target in self.targets.values():
            connection = target.connection
            target.connection = None
            if connection is not None and connection.state == WAITING:
                connection.fail(self.node.hub.leaving, "this node is leaving the cluster")

    # From the store

    def recall(self, notes: dict[str, str]) -> None:
        hub = self.node.hub
        for name, text in sorted(notes.items(), reverse=True):  # waits first: sources build on them
            if name.startswith(TOOK):
                node, _, client_id = name[len(TOOK) :].partition("/")
                life, *missing = text.split("\n")
                self._took[client_id, node] = Took(life, missing)
            elif name.startswith(ENDED_NOTE):
                session = hub.sessions.get(name[len(ENDED_NOTE) :])
                if session is not None:
                    source = self.sources[session] = Source(self, session)
                    source.recall_end(text)
            elif name.startswith(WAITS):
                session = hub.sessions.get(name[len(WAITS) :])
                if session is not None:
                    self._recall_waits(session, text)
        self.relays.recall(notes)
        self.count()

    def _recall_waits(self, session: Session, text: str) -> None:
        """What was held back is in the queue by now: if there was any, the order is lost."""
        waits: dict[str, set[str]] = {}
        for line in text.split("\n"):
            node, *sources = line.split("\t")
            if node.startswith("!"):
                session.lose_state(True)
            else:
                waits[node] = set(sources)
        if waits:
            session.intake = MissingGate(session, self.node.name, session.epoch, waits)

    # For a node that drains

    def under_way(self) -> int:
        """Sessions that another node has not made safe."""
        return sum(1 for source in self.sources.values() if source.state != IDLE)

    def gives(self, session: Session) -> bool:
        return session in self.sources

    def left(self) -> int:
        """Sessions that are still here."""
        return len(self.node.hub.sessions)
