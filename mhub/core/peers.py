"""All other nodes: what they want, and which of them a message is for.

    learn()   what a peer's table says, into the routes
    forward() a message, once to each peer that wants it; what came from a peer goes no further

A hub without a cluster has no Peers, and pays nothing for it.
"""

from typing import TYPE_CHECKING, Final, cast
from zlib import crc32

from mhub.core import channel_out
from mhub.core.channel_in import IncomingChannel
from mhub.core.hlc import NOTE, Clock
from mhub.core.journal import AckTracker
from mhub.core.limits import PeerLimits
from mhub.core.peer import Peer
from mhub.core.ports import Neighbours
from mhub.core.router import Route
from mhub.core.shared import Group, RemoteNode
from mhub.core.stats import PeerStats
from mhub.core.table import CLIENT, FILTER, LASTING, SHARE, WANTED, Table
from mhub.wire.publish import Publish
from mhub.wire.topics import split_share

if TYPE_CHECKING:
    from mhub.core.hub import Hub
    from mhub.core.session import Session


ENDED: Final = "channels"
"""The note with how far channels were received that have ended."""

ENDED_CHANNELS: Final = 100
"""So many of them are remembered."""


class Peers:
    def __init__(
        self, hub: "Hub", node: str, clock: Clock, neighbours: Neighbours, limits: PeerLimits
    ) -> None:
        self.hub = hub
        self.node = node
        self.clock = clock
        self.neighbours = neighbours
        self.limits = limits
        self.local_first = False
        self.suback_waits = True
        self.table = Table()
        self.peers: dict[str, Peer] = {}
        self.all: list[Peer] = []
        self.past = PeerStats()  # of those that are forgotten
        # Channels that have ended, by epoch: the last number received, and what came beyond it as
        # copies.  Another node may still have copies of the rest, for longer than we know the peer.
        self.ended: dict[str, tuple[int, list[int]]] = {}
        self.publisher: Peer | None = None  # whose message is at hand; None: of a client here
        self.publisher_controls = ""  # of a copy: what the control records in front of it say
        self.notes: dict[str, str] = {}  # what the store had at the start
        self.older: list[Session] = []  # and sessions of clients that have a newer one
        self.migrating = 0  # sessions that migrate to here or from here
        self.deferred = False  # whether frames of other nodes wait for the store

    # Who there is

    def meet(self, name: str) -> Peer:
        """The peer of a name, made if there is none."""
        peer = self.peers.get(name)
        if peer is None:
            journal = self.hub.journal
            peer = self._add(name, journal.open_channel(name) if journal is not None else 0, "")
        return peer

    def recall(self, name: str, sid: int, notes: dict[str, str]) -> Peer:
        """A peer that the store remembers."""
        peer = self._add(name, sid, notes.get(channel_out.NOTE + name, ""))
        peer.incoming.recall(notes)
        return peer

    def _add(self, name: str, sid: int, noted: str) -> Peer:
        peer = Peer(self, name)
        peer.outgoing.begin(sid, noted)
        self.peers[name] = peer
        self.all.append(peer)
        return peer

    def forget(self, peer: Peer) -> int:
        """As if it had never been; how many messages were kept for it."""
        self.withdraw(peer, True)
        peer.clients = {}
        dropped = peer.outgoing.forget()
        self.end_channel(peer.incoming)
        peer.incoming.forget()
        del self.peers[peer.name]
        self.all.remove(peer)
        self.past.add(peer.counters)
        return dropped

    def end_channel(self, channel: IncomingChannel) -> None:
        """What a peer sends from now on, if anything, is another channel."""
        if not channel.last_received and not channel.early:
            return
        for epoch in dict.fromkeys([channel.epoch, *channel.early.values()]):
            last, _ = self.ended.get(epoch, (0, []))
            if epoch == channel.epoch:
                last = channel.last_received
            early = [n for n, its_epoch in channel.early.items() if its_epoch == epoch]
            if last or early:
                self.ended[epoch] = last, early
        while len(self.ended) > ENDED_CHANNELS:
            del self.ended[next(iter(self.ended))]
        if self.hub.journal is not None:
            lines = []
            for epoch, (last, copies) in self.ended.items():
                lines.append(" ".join([epoch, str(last), *[str(n) for n in copies]]))
            self.hub.journal.note(ENDED, "\n".join(lines))

    def recall_channels(self, text: str) -> None:
        """What end_channel() has noted."""
        for line in text.splitlines():
            words = line.split(" ")
            self.ended[words[0]] = int(words[1]), [int(n) for n in words[2:]]

    def has_come(self, epoch: str, n: int) -> bool:
        """Whether a number came by a channel that has ended."""
        last, early = self.ended.get(epoch, (0, []))
        return n <= last or n in early

    def counters(self) -> PeerStats:
        """The sums over all that ever were: they do not go down when one is forgotten."""
        total = PeerStats()
        total.add(self.past)
        for peer in self.all:
            total.add(peer.counters)
        return total

    def some_away(self) -> bool:
        """Whether there are nodes that cannot be asked."""
        return len([peer for peer in self.all if not peer.up]) > 0  # a generator costs more

    def first_pid(self, client_id: str) -> int:
        """Where the packet ids of a session begin: at another place on each node.

        A client that could not get its session may have another one here and go back to the first.
        It must not take a message of the one for a message of the other.
        """
        return crc32(f"{self.hub.token()} {client_id}".encode()) % 65535

    def has_session(self, client_id: str) -> bool:
        """Whether a peer has a session of this client, as far as is known."""
        return any(client_id in peer.clients for peer in self.all)

    # What they want

    def learn(self, peer: Peer, name: str, value: int) -> None:
        """A peer's table has changed."""
        kind = name[:1]
        rest = name[1:]
        if kind == CLIENT:
            if value:
                peer.clients[rest] = value
                self.clock.saw(value >> 1)
            else:
                peer.clients.pop(rest, None)
            self.neighbours.owned(peer, rest, value)
            return
        if kind != FILTER and kind != SHARE:
            return  # a newer release may have more kinds
        old = peer.routes.get(name, 0)
        if value:
            peer.routes[name] = value
        else:
            peer.routes.pop(name, None)
        if self.hub.journal is not None and (old ^ value) & LASTING:
            # A restart must not forget what to keep for a peer that is away.
            self.hub.journal.peer_wants(peer.outgoing.sid, rest, bool(value & LASTING))
        self._route(peer, name, value)

    def learn_again(self, peer: Peer, name: str) -> None:
        """What the store remembers of a peer's table."""
        peer.routes[name] = WANTED | LASTING
        self._route(peer, name, WANTED | LASTING)

    def _route(self, peer: Peer, name: str, value: int) -> None:
        router = self.hub.router
        if name.startswith(FILTER):
            router.route_to_peer(name[1:], peer, value != 0)
        elif name.startswith(SHARE):
            share, topic_filter = split_share(name[1:])
            router.share_with_peer(share, topic_filter, peer, value)

    def withdraw(self, peer: Peer, all_of_it: bool) -> None:
        """Nothing more goes to a peer; but what its lasting sessions want, unless all_of_it."""
        for name, value in list(peer.routes.items()):
            if all_of_it or not value & LASTING:
                self._route(peer, name, 0)
                if all_of_it:
                    del peer.routes[name]

    def restore_routes(self, peer: Peer) -> None:
        """A peer that was given up is back."""
        for name, value in peer.routes.items():
            self._route(peer, name, value)

    # Messages

    def refuses(self, route: Route) -> bool:
        """Whether a QoS 1 or 2 message cannot be taken, as the channel to a peer is full."""
        if not self.limits.refuse_when_full:
            return False
        if route.peers is not None:
            for node in route.peers:
                if node.full():
                    cast(Peer, node).counters.refused += 1
                    return True
        for group in route.groups:
            if group.peers is not None and group.stuck():
                for node in group.peers:
                    cast(Peer, node).counters.refused += 1
                    return True
        return False

    def forward(self, message: Publish, route: Route) -> None:
        """Send a client's message to those peers that want it, before anybody here has it."""
        shares = self._shares(route) if route.groups else None
        if route.peers is not None:
            for node in route.peers:
                names = shares.pop(node, None) if shares is not None else None
                cast(Peer, node).outgoing.put(message, True, names)
        if shares is not None:
            for node, names in shares.items():
                cast(Peer, node).outgoing.put(message, False, names)
        if message.retain:
            # The others only keep it; those without a link ask for it when they are back.
            others = [*(route.peers or ()), *(shares or ())]
            for peer in self.all:
                if peer.up and peer not in others:
                    peer.outgoing.put(message, False, None)

    def forward_to_all(self, message: Publish) -> None:
        """Send what every node has to know, whatever the bounds of its channel are.

        Those without a link ask for it when they are back.
        """
        for peer in self.all:
            if peer.up:
                peer.outgoing.put_in_any_case(message)

    def _shares(self, route: Route) -> dict[RemoteNode, list[str]]:
        """The groups whose turn is a peer's; the others choose among their members here."""
        chosen: dict[RemoteNode, list[str]] = {}
        for group in route.groups:
            peer = group.choose_peer(self.local_first) if group.peers is not None else None
            group.elsewhere = peer is not None
            if peer is not None:
                chosen.setdefault(peer, []).append(group.full_name)
        return chosen

    def pass_on(self, message: Publish, group: Group, denied_at: list[str]) -> bool:
        """A message of a group that has no members here any more; False if no node has any.

        `denied_at`: the nodes where none of the members may receive it.
        """
        if denied_at:
            node = group.choose_other(denied_at)
        else:
            node = group.choose_peer(False) if group.peers is not None else None
        if node is None:
            return False
        message.journaled = True  # its sender may have been told that it is safe here
        cast(Peer, node).outgoing.put(message, False, [group.name_for(denied_at)])
        return True

    def pass_on_denied(self, message: Publish, group: Group, denied_at: list[str]) -> bool:
        """The same if those that are here may not receive it: it comes to each node once."""
        return self.pass_on(message, group, [*denied_at, self.node])

    # Who waits for them

    def wait_for_table(self) -> AckTracker | None:
        """What waits until every peer knows our table as it is now; None: all do."""
        if not self.suback_waits:
            return None
        tracker = AckTracker()
        for peer in self.all:
            if peer.responds() and peer.knows < self.table.number:
                tracker.remote += 1
                peer.awaiting.append((self.table.number, tracker))
        return tracker if tracker.remote else None

    def wait_for_channels(self) -> AckTracker | None:
        """What waits until every peer has all that was sent to it; None: all have."""
        tracker = AckTracker()
        for peer in self.all:
            peer.outgoing.wait_for_all(tracker)
        return tracker if tracker.remote else None

    def flush(self) -> None:
        """The end of a turn."""
        if self.clock.last > self.clock.reserved and self.hub.journal is not None:
            self.hub.journal.note(NOTE, str(self.clock.reserve()))
        if self.migrating:
            self.neighbours.turn()
        for peer in self.all:
            if peer.up:
                if peer.told < self.table.number:
                    self.neighbours.tell(peer)
                peer.outgoing.flush()
                peer.incoming.flush()
