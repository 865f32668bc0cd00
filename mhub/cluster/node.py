"""This node in the cluster: whom it knows, the links it has, and who looks after what crosses them.

    links     opened() -> RESUME both ways -> the peer is up; lost() or silence -> down -> dead
    Tables    what each node wants and has (routes, clients)
    Fill      retained messages: what the other side has and we do not
    Rounds    the same for the registry, and who has what of it
    Migration one owner for each session, which follows its client
    Drain     sessions of a node that leaves
    Queries   what operators ask of other nodes
    Inbox     frames that wait for the store of this node

Sans-I/O: time comes as an argument or from the clock that it was given, chance from a seeded
source, and frames go to links (`mhub.cluster.contract`).  So the same node runs on Perspective
Broker and in the simulation.
"""

from collections.abc import Callable
from random import Random
from typing import Final

from mhub.cluster import frames
from mhub.cluster.contract import OLDEST, PROTOCOL, Dialer, LinkEnd
from mhub.cluster.dials import Dial, Dials
from mhub.cluster.fill import RetainedFill
from mhub.cluster.frames import pack
from mhub.cluster.inbox import Inbox
from mhub.cluster.member import DEAD, DOWN, LEFT, SUSPECT, SYNCING, UP, Member
from mhub.cluster.migration.migration import Migration
from mhub.cluster.offers import Offers
from mhub.cluster.queries import Queries
from mhub.cluster.rounds import Rounds
from mhub.cluster.said import Said, as_text
from mhub.cluster.tables import Tables
from mhub.cluster.unreachable import Unreachable
from mhub.core.channel_records import Entry
from mhub.core.connection import Connection
from mhub.core.hub import Hub
from mhub.core.limits import Limits
from mhub.core.peer import Peer
from mhub.core.peers import Peers
from mhub.core.records import Row
from mhub.core.session import Session
from mhub.wire.errors import ProtocolFault
from mhub.wire.primitives import malformed

LOOK_S: Final = 10.0
"""How often a node looks for sessions that should be elsewhere."""

SHARED_STORE: Final = "store/"
"""Notes of who can be taken over begin so."""

PAST: Final = 1000
"""So many processes are remembered whose place another one of the same node has taken."""


class NodeSettings:
    def __init__(self, cluster: str, node: str, address: str) -> None:
        self.cluster = cluster
        self.node = node
        self.address = address  # where the others find us
        self.version = ""
        self.instance = ""  # of this process
        self.protocol = PROTOCOL
        self.oldest = OLDEST
        self.host = ""  # the node whose process this is, if that takes over from this one
        self.shared_store = ""  # who has the same word can take over what this node stores
        self.heartbeat_s = 1.0
        self.suspect_s = 3.0
        self.dead_s = 10.0
        self.forget_s = 86_400.0  # 0: never
        self.round_s = 60.0  # how often the registry is compared while it has something to collect
        self.takeover_timeout_s = 10.0
        self.retry_s = 0.5
        self.retry_max_s = 15.0


class Node:
    def __init__(
        self,
        hub: Hub,
        settings: NodeSettings,
        dialer: Dialer,
        clock: Callable[[], float],
        random: Random,
        log: Callable[[str], None],
        limits: Callable[[str], Limits],
    ) -> None:
        self.hub = hub
        self.settings = settings
        self.log = log
        self.limits = limits  # of a listener, by its name
        self.clock = clock
        self.members: dict[str, Member] = {}
        self.links: dict[LinkEnd, Member] = {}
        self.seeds: list[str] = []
        self.leaving = False
        self.warn = log  # what somebody should look after
        self.count_strangers: Callable[[], dict[str, int]] = dict  # for $SYS
        # Somebody who wants to know when a table says something else about a client
        self.client_changed: Callable[[str], None] | None = None
        self._dialer = dialer
        self._dials = Dials(settings.node, settings.retry_s, settings.retry_max_s, random)
        self._unreachable = Unreachable(settings.dead_s)
        self._looked_at = 0.0
        self._addresses: dict[str, str] = {}  # of nodes that were never linked with us
        self._past: dict[str, None] = {}  # instances of nodes that have another one by now
        self.tables = Tables(self)
        self.fill = RetainedFill(self)
        self.rounds = Rounds(self)
        self.migration = Migration(self)
        self.offers = Offers(self)
        self.queries = Queries(self)
        self.inbox = Inbox(self)
        self._handlers: dict[int, Callable[[Member, bytes], None]] = {
            frames.RESUME: self._resumed,
            frames.PING: self._pinged,
            frames.PONG: self._ponged,
            frames.MEMBERS: self._told_of_members,
            frames.LEAVE: self._left,
            frames.TABLE: self.tables.on_table,
            frames.AGAIN: self.tables.again,
            frames.DIGESTS: self.fill.digests,
            frames.HAVE: self.fill.have,
            frames.RETAINED: self.fill.retained,
            frames.FILLED: self.fill.filled,
            frames.OFFER: self.offers.made,
            frames.CUT: self.migration.switches.on_cut,
            frames.SWITCHED: self.migration.given.on_switched,
            frames.ACCEPT: self.migration.exchange.on_accept,
            frames.SESSION: self.migration.exchange.on_session,
            frames.ENTRIES: self.migration.exchange.on_entries,
            frames.PENDING: self.migration.exchange.on_pending,
            frames.MORE: self.migration.exchange.on_more,
            frames.END: self.migration.exchange.on_end,
            frames.DONE: self.migration.exchange.on_done,
            frames.REFUSED: self.migration.exchange.on_refused,
            frames.ASK: self.migration.exchange.on_ask,
            frames.UNKNOWN: self.migration.exchange.on_unknown,
            **self.rounds.handlers(),
            **self.queries.handlers(),
        }

    @property
    def name(self) -> str:
        return self.settings.node

    @property
    def peers(self) -> Peers:
        peers = self.hub.peers
        assert peers is not None
        return peers

    def recall(self) -> None:
        """Know those again that the store has a channel for."""
        for name in self.peers.peers:
            member = self.meet(name)
            member.shared_store = self.peers.notes.get(SHARED_STORE + name, "")
        self.migration.recall(self.peers.notes)
        self.peers.notes = {}

    # Who we are (Ends)

    def hello(self) -> bytes:
        more = {"shared_store": self.settings.shared_store, "host": self.settings.host}
        return pack(
            protocol=self.settings.protocol,
            oldest=self.settings.oldest,
            cluster=self.settings.cluster,
            node=self.name,
            instance=self.settings.instance,
            address=self.settings.address,
            version=self.settings.version,
            **{key: text for key, text in more.items() if text},
        )

    def refusal(self, hello: bytes) -> str:
        try:
            said = _Hello(hello)
        except ProtocolFault as fault:
            return f"it does not say who it is: {fault.text}"
        ours = self.settings
        if said.cluster != ours.cluster:
            return f"it is of cluster {said.cluster!r}, this one is {ours.cluster!r}"
        if said.protocol < ours.oldest or said.oldest > ours.protocol:
            return (
                f"it speaks versions {said.oldest} to {said.protocol} of the peer protocol,"
                f" this node {ours.oldest} to {ours.protocol}"
            )
        if said.instance == ours.instance:
            return "it is this node itself"
        if said.node == self.name:
            return f"there are two nodes with the name {self.name!r}"
        if said.instance in self._past:
            return f"another process has taken the place of this one, as node {said.node!r}"
        if self.leaving:
            return "this node is leaving the cluster"
        return ""

    def name_of(self, hello: bytes) -> str:
        try:
            said = _Hello(hello)
            return said.host or said.node
        except ProtocolFault:
            return ""

    # Links (Ends)

    def opened(self, link: LinkEnd, hello: bytes) -> None:
        now = self._now()
        said = _Hello(hello)
        member = self.meet(said.node)
        if link.dialled:
            self._dials.answered(link.address, member.name)
        old = member.link
        if old is not None:
            if said.instance == member.instance and not self._better(link, old, member):
                link.close("there is a link already")
                return
            old.close("another link takes its place")
            self._unlink(member, "another link takes its place")
        member.link = link
        self.links[link] = member
        member.resumed = False
        member.has_table = False
        member.retained.complete = False
        member.stale = None
        member.received_at = now
        member.version = said.version
        member.protocol = min(said.protocol, self.settings.protocol)
        member.address = said.address
        member.host = said.host
        self._shares_store(member, said.shared_store)
        if said.instance != member.instance:
            self._is_past(member.instance)
            member.instance = said.instance
            self.tables.restarted(member)
        self._turn(member, SYNCING, "")
        peer = member.peer
        link.send(
            frames.RESUME,
            pack(
                epoch=peer.outgoing.epoch,
                received=[peer.incoming.epoch, peer.incoming.confirmable()],
                table=[member.instance, peer.table_received],
            ),
        )
        self._end_turn()

    def _shares_store(self, member: Member, word: str) -> None:
        """Whether it can be taken over, also after a restart of this node."""
        if word != member.shared_store:
            member.shared_store = word
            if self.hub.journal is not None:
                self.hub.journal.note(SHARED_STORE + member.name, word)

    def _is_past(self, instance: str) -> None:
        """A process that was taken for dead and is not must not take the place of the new one:
        what it has is older, and others have gone on with it.
        """
        if instance:
            self._past[instance] = None
            if len(self._past) > PAST:
                del self._past[next(iter(self._past))]

    def _better(self, new: LinkEnd, old: LinkEnd, member: Member) -> bool:
        """Of two links both sides keep the one that the lower name dialled, else the newer."""
        ours_counts = self.name < member.name
        return new.dialled == ours_counts or old.dialled != ours_counts

    def lost(self, link: LinkEnd, text: str) -> None:
        self._now()
        member = self.links.get(link)
        if member is not None:
            self.inbox.empty(member)
            self._unlink(member, text)
            self._end_turn()

    def dial_failed(self, address: str, text: str) -> None:
        now = self._now()
        dial = self._dials.failed(address, now, text)
        if text.endswith("it is this node itself"):
            self._dials.is_ours(address)
        elif dial is not None and dial in self.unreachable():
            for warning in self._unreachable.failed(dial, now):
                self.warn(warning)

    def received(self, link: LinkEnd, kind: int, body: bytes) -> None:
        member = self.links.get(link)
        if member is None:
            return
        now = self._now()
        member.received_at = now
        if member.state == SUSPECT:
            self._turn(member, UP if member.whole() else SYNCING, "")
            member.peer.suspected = False
        if not self.inbox.takes(member, kind, body):
            self.handle(member, kind, body)

    def handle(self, member: Member, kind: int, body: bytes) -> None:
        """A frame of a node that is linked; a turn of its own.

        What cannot be read is the other side's fault, and nothing was done with it.  Anything else
        is a defect of this node.  Both end the link.  For a defect, that is not the other side's
        business, but a frame that was handled in part leaves channels, tables and migrations as
        nobody has thought of: the next numbers would be taken for all that there was.  The next
        link begins by saying how far each side is, and what was not confirmed comes again.
        """
        try:
            self._dispatch(member, kind, body, self.hub.now)
        except ProtocolFault as fault:
            self._break(member, f"a frame of kind {kind} cannot be understood: {fault.text}")
        except Exception as error:
            self.hub.events.crashed(f"a frame of kind {kind} from node {member.name}", error)
            self._break(member, f"a defect of node {self.name}, whose log says more")
        self._end_turn()

    def _break(self, member: Member, text: str) -> None:
        if member.link is not None:
            member.link.close(text)
        self._unlink(member, text)

    def _dispatch(self, member: Member, kind: int, body: bytes, now: float) -> None:
        if not member.resumed and kind != frames.RESUME:
            raise malformed("it comes before RESUME")
        if kind == frames.PUBLISHES:
            member.peer.incoming.take(body, now)
        elif kind == frames.CONFIRM:
            member.peer.confirmed(body)
        else:
            handler = self._handlers.get(kind)
            if handler is not None:  # a newer release may have more kinds
                handler(member, body)

    def _resumed(self, member: Member, body: bytes) -> None:
        said = Said(body)
        epoch, n = said.pair("received")
        instance, number = said.pair("table", -1)  # -1: all of it has to come
        their_epoch = said.text("epoch")
        link = member.link
        assert link is not None
        member.resumed = True
        peer = member.peer
        peer.linked(link, epoch, n, their_epoch)
        self.peers.restore_routes(peer)
        self.migration.linked(member)
        self.tables.begin(member, instance, number)
        self.fill.begin(member)
        self.rounds.linked(member)
        self.send(member, frames.MEMBERS, pack(members=self._known()))
        self.log(f"node {member.name} is linked, at {link.address}")

    def _unlink(self, member: Member, text: str, state: str = DOWN) -> None:
        link = member.link
        if link is None:
            return
        del self.links[link]
        self.inbox.drop(member)
        member.link = None
        member.gone_at = self.hub.now
        member.resumed = False
        member.latency_s = -1.0
        member.peer.unlinked()
        self._dials.lost(member.name, self.hub.now)
        self._turn(member, state, text)
        self.offers.drop(member)
        self.rounds.unlinked(member)
        self.migration.unlinked(member)
        self.queries.unlinked(member)

    def _turn(self, member: Member, state: str, text: str) -> None:
        if member.turn(state, text, self.hub.now):
            self.hub.events.node(member.name, state, text)

    def send(self, member: Member, kind: int, body: bytes) -> None:
        if member.link is not None and member.resumed:
            member.link.send(kind, body)

    def settled(self, member: Member) -> None:
        """Something that a link begins with has come to its end."""
        if member.state == SYNCING and member.whole():
            self._turn(member, UP, "")

    # Time

    def tick(self, now: float) -> None:
        """A few times a second; the caller ends the turn with hub.flush()."""
        self.hub.now = now
        for member in list(self.members.values()):
            if member.link is not None:
                self._watch(member, now)
            elif member.state == DOWN and now - member.since >= self.settings.dead_s:
                self._turn(member, DEAD, member.note)
                self.peers.withdraw(member.peer, False)
            elif member.state == DEAD and self.settings.forget_s:
                if now - member.since >= self.settings.forget_s:
                    self._forget(member)
        self._dial(now)
        self.inbox.go_on()
        self.rounds.tick(now)
        self.queries.tick(now)
        self.migration.tick(now)
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self.migration.look_around()

    def _watch(self, member: Member, now: float) -> None:
        settings = self.settings
        silent_s = now - member.received_at
        if silent_s >= settings.dead_s:
            text = f"nothing received for {silent_s:.0f} s"
            link = member.link
            if link is not None:
                link.close(text)
            self._unlink(member, text)
            return
        if silent_s >= settings.suspect_s and member.state in (UP, SYNCING):
            self._turn(member, SUSPECT, f"nothing received for {silent_s:.0f} s")
            member.peer.suspect()
        if now - member.pinged_at >= settings.heartbeat_s:
            member.pinged_at = now
            self.send(member, frames.PING, pack(at=now, registry=self.hub.registry.revision))

    def _pinged(self, member: Member, body: bytes) -> None:
        member.revision = Said(body).text("registry")
        self.send(member, frames.PONG, body)

    def _ponged(self, member: Member, body: bytes) -> None:
        member.latency_s = max(self.hub.now - Said(body).real("at"), 0.0)

    def _dial(self, now: float) -> None:
        if self.leaving:
            return
        for address in self._dials.due(self._others(), self._linked(), now):
            self._dialer.dial(address)
        self._unreachable.forget_others({dial.address for dial in self.unreachable()})

    def _others(self) -> dict[str, str]:
        """Where other nodes may be -> the name of the node there, "" if nobody has told it."""
        addresses = dict.fromkeys(self.seeds, "")
        for name, address in self._known().items():
            if address and name != self.name:
                addresses[address] = name
        addresses.pop(self.settings.address, None)
        return addresses

    def _linked(self) -> set[str]:
        return {member.name for member in self.links.values()}

    def dial_of(self, member: Member) -> Dial | None:
        """How it goes with calls of a node."""
        return self._dials.at(member.address)

    def unreachable(self) -> list[Dial]:
        """Addresses where nobody has answered, or somebody who is not content with us."""
        return self._dials.failing(self._linked())

    # Whom we know

    def meet(self, name: str) -> Member:
        """The member of a name, made if there is none."""
        member = self.members.get(name)
        if member is None:
            member = Member(name, self.peers.meet(name), self.hub.now)
            member.address = self._addresses.pop(name, "")
            self.members[name] = member
        return member

    def _known(self) -> dict[str, str]:
        known = {member.name: member.address for member in self.members.values()}
        return {**self._addresses, **known, self.name: self.settings.address}

    def _told_of_members(self, member: Member, body: bytes) -> None:
        told = Said(body).by_name("members")
        places = {name: as_text(address, "members") for name, address in told.items()}
        new = False
        for name, address in places.items():
            known = self.members.get(name)
            if known is not None:
                known.address = known.address or address  # the store remembers names alone
            elif name != self.name and name not in self._addresses:
                self._addresses[name] = address
                new = True
        if new:
            for other in self.links.values():
                if other is not member:
                    self.send(other, frames.MEMBERS, pack(members=self._known()))

    def addresses(self) -> list[str]:
        """Where nodes may be, this one among them."""
        return [*self.seeds, *self._known().values()]

    def knows(self, name: str) -> bool:
        """Whether a node is one of the cluster, as far as this one knows."""
        return name in self._known()

    def can_be_replaced(self, member: Member) -> bool:
        """Whether another node could take over from it, when it is not there."""
        word = self.settings.shared_store
        return word != "" and member.shared_store == word

    def ready(self) -> bool:
        """Whether this node has all that the nodes which it can reach have.

        So each that it was told of, by its list or by another node, is linked or was called in
        vain.  Before that clients would miss what is published elsewhere, others what they publish.
        """
        for member in self.links.values():
            if not member.whole() or not self.rounds.is_settled(member):
                return False
        linked = self._linked()
        return all(self._dials.settled(address, linked) for address in self._others())

    def complete(self) -> bool:
        """Whether it has what all have, also those that another node will take over from.

        Others may have forgotten this node, as it had nothing when it was gone.  Where sessions are
        by now it learns from those that have them, and messages that come before would miss them.
        """
        if any(m.link is None and self.can_be_replaced(m) for m in self.members.values()):
            return False
        return self.ready()

    # The end

    def forget(self, name: str) -> int | None:
        """A node that is not linked, and not to come back; how many messages were kept for it."""
        was_known = self.rounds.forget(name)
        member = self.members.get(name)
        if member is None:
            was_known = self._addresses.pop(name, None) is not None or was_known
            return 0 if was_known else None
        return self._forget(member)

    def _forget(self, member: Member) -> int:
        """As forget(), but what it does not know of the registry is kept for it: `Rounds`."""
        name = member.name
        del self.members[name]
        self._shares_store(member, "")
        dropped = self.peers.forget(member.peer)
        self.migration.forgotten(member)
        if member.state != LEFT:
            kept = f", with {dropped} message" + ("" if dropped == 1 else "s") + " for it"
            self.log(f"node {name} is forgotten" + (kept if dropped else ""))
        return dropped

    def evacuate(self, reference: str) -> int:
        """No more clients; how many there were."""
        self._now()
        count = self.hub.evacuate(reference)
        self.migration.evacuate()
        self._end_turn()
        return count

    def offer(self) -> None:
        """Sessions that nobody else has are for the others, in turn."""
        self._now()
        up = [member for member in self.members.values() if member.state == UP]
        if up:
            self.offers.make(list(self.hub.sessions.values()), up)

    def holding(self) -> int:
        """How much is here that others should have first: sessions, and messages for them."""
        up = [member.peer for member in self.members.values() if member.peer.up]
        if not up:
            return 0
        waiting = sum(peer.outgoing.queued for peer in up)
        return self.migration.left() + waiting + self.migration.given.pending()

    def empty(self) -> bool:
        """Whether nothing at all is here that anybody should have, also of those not linked."""
        return (
            not self.hub.sessions
            and not self.migration.sources
            and not self.migration.given.pending()
            and not any(member.peer.outgoing.queued for member in self.members.values())
        )

    def leave(self) -> None:
        """Say that we go for good."""
        self.leaving = True
        for link, member in list(self.links.items()):
            self.send(member, frames.LEAVE, b"{}")
            link.close("this node has left the cluster")
            self._unlink(member, "this node has left the cluster")

    def _left(self, member: Member, body: bytes) -> None:
        link = member.link
        if link is not None:
            link.close("it has left the cluster")
            self._unlink(member, "", LEFT)
        self._dials.left(member.name, self.hub.now)
        self.forget(member.name)  # now: what others have is all there is, and no doubt is left

    def close(self) -> None:
        """The process ends; the others keep what is ours until we are back."""
        self.leaving = True
        for link, member in list(self.links.items()):
            link.close("the node is stopping")
            self._unlink(member, "this node is stopping")

    # For the hub (Neighbours)

    def tell(self, peer: Peer) -> None:
        self.tables.tell(self.members[peer.name])

    def claim(self, connection: Connection) -> bool:
        return self.migration.claims.claim(connection)

    def owned(self, peer: Peer, client_id: str, value: int) -> None:
        self.migration.claims.owned(self.members[peer.name], client_id, value)
        if self.client_changed is not None:
            self.client_changed(client_id)

    def control(self, peer: Peer, client_id: str, body: bytes) -> None:
        self.migration.intakes.control(peer, client_id, body)

    def direct(self, entry: Entry) -> None:
        self.migration.intakes.direct(entry)

    def loaded(self, session: Session, rows: list[Row]) -> None:
        self.migration.loaded(session, rows)

    def ended(self, session: Session) -> None:
        self.migration.ended(session)

    def turn(self) -> None:
        self.migration.turn()

    def stored(self) -> None:
        self.inbox.go_on()

    def stranger_numbers(self) -> dict[str, int]:
        return self.count_strangers()

    def session_numbers(self) -> dict[str, int]:
        return self.migration.outlook.numbers()

    def _now(self) -> float:
        self.hub.now = self.clock()
        return self.hub.now

    def _end_turn(self) -> None:
        self.hub.flush()
        self.hub.wake()


class _Hello:
    """What another node says of itself; ProtocolFault if that is nothing."""

    def __init__(self, hello: bytes) -> None:
        said = Said(hello)
        self.protocol = said.number("protocol")
        self.oldest = said.number("oldest")
        self.cluster = said.text("cluster")
        self.node = said.text("node")
        self.instance = said.text("instance")
        self.address = said.text("address")
        self.version = said.text("version")
        self.host = said.text("host") if said.has("host") else ""
        self.shared_store = said.text("shared_store") if said.has("shared_store") else ""
        if not self.node:
            raise malformed("an empty name in its hello")
