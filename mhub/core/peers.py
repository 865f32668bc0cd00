"""The hub's part of the cluster: what the other nodes are told, and what is sent to them.

    table     what this node wants and has, as names with numbers: each change has a number of its
              own, and every peer gets the changes in their order (`mhub.cluster.tables`)

        f FILTER             somebody here has subscribed: 1, + 2 if a lasting session has
        s $share/NAME/FILTER a group has members here: 1, + 2 if one of them lasts, + 4 for each
                             that is connected
        c CLIENT_ID          the session is here, or claimed: twice the epoch of the claim, + 1
                             while the client is connected

    forward() a message, once to each peer that wants it; what came from a peer goes no further

A hub without a cluster has no Peers, and pays nothing for it.
"""

from collections import deque
from typing import TYPE_CHECKING, Final
from zlib import crc32

from mhub.core.hlc import LOW_BITS, Clock
from mhub.core.journal import AckTracker
from mhub.core.peer import Entry, Peer, PeerLimits, Waiting
from mhub.core.ports import Neighbours
from mhub.core.router import Route, reserved
from mhub.core.shared import Group
from mhub.wire.publish import Publish
from mhub.wire.topics import split_share

if TYPE_CHECKING:
    from mhub.core.filters import Leaf
    from mhub.core.hub import Hub
    from mhub.core.session import Session

FILTER: Final = "f"
SHARE: Final = "s"
CLIENT: Final = "c"

WANTED: Final = 1
LASTING: Final = 2

LOG: Final = 20_000
"""Changes of the table that are remembered, for peers whose link was down for a moment."""

CLOCK: Final = "clock"
"""The note with a stamp that no stamp before the next restart reaches."""

AHEAD: Final = 10_000 << LOW_BITS
"""Ten seconds of the cluster's clock: so rarely is it noted."""

ENDED: Final = "channels"
"""The note with how far channels were received that have ended."""

ENDED_CHANNELS: Final = 100
"""So many of them are remembered."""

SHARES: Final = 255
"""Names of groups that one record can carry."""


class Change:
    def __init__(self, number: int, name: str, value: int) -> None:
        self.number = number
        self.name = name
        self.value = value  # 0: removed


class Past:
    """What was counted for peers that are forgotten: a sum over all of them does not go down."""

    def __init__(self) -> None:
        self.messages_sent = 0
        self.messages_received = 0
        self.messages_doubled = 0
        self.dropped_qos0 = 0
        self.dropped_full = 0

    def add(self, peer: Peer) -> None:
        self.messages_sent += peer.messages_sent
        self.messages_received += peer.messages_received
        self.messages_doubled += peer.messages_doubled
        self.dropped_qos0 += peer.dropped_qos0
        self.dropped_full += peer.dropped_full


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
        self.sessions = True  # one session for each client id in the whole cluster
        self.peers: dict[str, Peer] = {}
        self.all: list[Peer] = []
        self.past = Past()
        # Channels that have ended, by epoch: the last number received, and what came beyond it as
        # copies.  Another node may still have copies of the rest, for longer than we know the peer.
        self.ended: dict[str, tuple[int, list[int]]] = {}
        self.table: dict[str, int] = {}
        self.routes = 0  # of the table's names
        self.number = 0
        self.log: deque[Change] = deque()
        self.noted_stamp = 0  # of the clock, as the store has it
        self.notes: dict[str, str] = {}  # what the store had at the start
        self.older: list[Session] = []  # and sessions of clients that have a newer one
        self.migrating = 0  # sessions that migrate to here or from here

    # Who there is

    def meet(self, name: str) -> Peer:
        """The peer of a name, made if there is none."""
        peer = self.peers.get(name)
        if peer is None:
            peer = Peer(self.hub, name, self.limits)
            peer.life = self.hub.token()
            if self.hub.journal is not None:
                peer.sid = self.hub.journal.line(name)
            peer.reserve()
            self._take_in(peer)
        return peer

    def recall(self, name: str, sid: int, life: str, reserved: int, heard: str) -> Peer:
        """A peer that the store remembers."""
        peer = Peer(self.hub, name, self.limits)
        peer.sid = sid
        peer.life = life
        peer.last_n = reserved
        peer.heard_life, _, n = heard.partition(" ")
        peer.heard_n = int(n or 0)
        peer.safe_n = peer.heard_n
        self._take_in(peer)
        return peer

    def _take_in(self, peer: Peer) -> None:
        self.peers[peer.name] = peer
        self.all.append(peer)

    def forget(self, peer: Peer) -> int:
        """As if it had never been; how many messages were kept for it."""
        self.withdraw(peer, True)
        peer.clients = {}
        dropped = peer.forget_line()
        journal = self.hub.journal
        if journal is not None:
            journal.end_line(peer.sid)
            journal.note("line/" + peer.name, "")
            journal.note("heard/" + peer.name, "")
            journal.note("early/" + peer.name, "")
        del self.peers[peer.name]
        self.all.remove(peer)
        self.past.add(peer)
        self.end_channel(peer)
        return dropped

    def end_channel(self, peer: Peer) -> None:
        """What a peer sends from now on, if anything, is another channel."""
        if not peer.heard_n and not peer.early:
            return
        for life in dict.fromkeys([peer.heard_life, *peer.early.values()]):
            last, _ = self.ended.get(life, (0, []))
            if life == peer.heard_life:
                last = peer.heard_n
            early = [n for n, its_life in peer.early.items() if its_life == life]
            if last or early:
                self.ended[life] = last, early
        while len(self.ended) > ENDED_CHANNELS:
            del self.ended[next(iter(self.ended))]
        if self.hub.journal is not None:
            lines = []
            for life, (last, copies) in self.ended.items():
                lines.append(" ".join([life, str(last), *[str(n) for n in copies]]))
            self.hub.journal.note(ENDED, "\n".join(lines))

    def recall_channels(self, text: str) -> None:
        """What end_channel() has noted."""
        for line in text.splitlines():
            words = line.split(" ")
            self.ended[words[0]] = int(words[1]), [int(n) for n in words[2:]]

    def _came_before(self, life: str, n: int) -> bool:
        last, early = self.ended.get(life, (0, []))
        return n <= last or n in early

    # The table

    def announce(self, name: str, value: int) -> None:
        """Something here is different from now on; 0: it is not there any more."""
        old = self.table.get(name, 0)
        if old == value:
            return
        if value:
            self.table[name] = value
        else:
            del self.table[name]
        if not name.startswith(CLIENT) and (not old or not value):
            self.routes += 1 if value else -1
        self.number += 1
        self.log.append(Change(self.number, name, value))
        if len(self.log) > LOG:
            self.log.popleft()

    def own(self, client_id: str, epoch: int, live: bool) -> None:
        """A client's session is here, or claimed."""
        if self.sessions:
            self.announce(CLIENT + client_id, epoch << 1 | (1 if live else 0))

    def own_epoch(self, client_id: str) -> int:
        """The epoch under which a client's session is ours; 0: it is not."""
        return self.table.get(CLIENT + client_id, 0) >> 1

    def interest(self, topic_filter: str, leaf: "Leaf | None") -> None:
        """The local subscribers of a filter may have changed."""
        value = 0
        if leaf is not None and leaf.subscriptions and not reserved(topic_filter):
            value = WANTED | LASTING if leaf.lasting else WANTED
        self.announce(FILTER + topic_filter, value)

    def group_changed(self, group: Group) -> None:
        """Its local members, or how many of them are connected, may have changed."""
        group.recount()
        value = 0
        if group.members and not reserved(group.topic_filter):
            value = WANTED | (LASTING if group.lasting else 0) | group.live << 2
        self.announce(SHARE + group.full_name, value)

    def since(self, number: int) -> list[Change] | None:
        """The changes behind a number; None if they are not remembered any more."""
        if number == self.number:
            return []
        if number > self.number or not self.log or self.log[0].number > number + 1:
            return None
        first = self.log[0].number
        return [self.log[index] for index in range(number + 1 - first, len(self.log))]

    def wait_for_table(self) -> AckTracker | None:
        """What waits until every peer knows our table as it is now; None: all do."""
        if not self.suback_waits:
            return None
        tracker: AckTracker | None = None
        for peer in self.all:
            if peer.up and peer.patient and peer.knows < self.number:
                if tracker is None:
                    tracker = AckTracker()
                tracker.remote += 1
                peer.awaiting.append(Waiting(self.number, tracker))
        return tracker

    def wait_for_lines(self) -> AckTracker | None:
        """What waits until every peer has all that was sent to it; None: all have."""
        tracker = AckTracker()
        for peer in self.all:
            peer.wait_for_line(tracker)
        return tracker if tracker.remote else None

    # What peers say

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
            self.hub.journal.peer_wants(peer.sid, rest, bool(value & LASTING))
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

    def first_pid(self, client_id: str) -> int:
        """Where the packet ids of a session begin: at another place on each node.

        A client that could not get its session may have another one here and go back to the first.
        It must not take a message of the one for a message of the other.
        """
        return crc32(f"{self.hub.token()} {client_id}".encode()) % 65535

    def some_away(self) -> bool:
        """Whether there are nodes that cannot be asked."""
        for peer in self.all:  # noqa: SIM110 (a generator costs more)
            if not peer.up:
                return True
        return False

    # Messages

    def refuses(self, route: Route) -> bool:
        """Whether a QoS 1 or 2 message cannot be taken, as the line to a peer is full."""
        if not self.limits.refuse_when_full:
            return False
        if route.peers is not None:
            for peer in route.peers:
                if peer.full():
                    peer.refused += 1
                    return True
        for group in route.groups:
            if group.peers is not None and group.stuck():
                for peer in group.peers:
                    peer.refused += 1
                    return True
        return False

    def forward(self, message: Publish, route: Route) -> None:
        """Send a client's message to those peers that want it, before anybody here has it."""
        shares = self._shares(route) if route.groups else None
        if route.peers is not None:
            for peer in route.peers:
                names = shares.pop(peer, None) if shares is not None else None
                self._put(peer, message, True, names)
        if shares is not None:
            for peer, names in shares.items():
                self._put(peer, message, False, names)
        if message.retain:
            # The others only keep it; those without a link ask for it when they are back.
            for peer in self.all:
                if (
                    peer.up
                    and (route.peers is None or peer not in route.peers)
                    and (shares is None or peer not in shares)
                ):
                    peer.put(message, False, None)

    def _put(self, peer: Peer, message: Publish, plain: bool, names: list[str] | None) -> None:
        if names is not None and len(names) > SHARES:
            peer.put(message, plain, names[:SHARES])
            self._put(peer, message, False, names[SHARES:])
        else:
            peer.put(message, plain, names)

    def _shares(self, route: Route) -> dict[Peer, list[str]] | None:
        """The groups whose turn is a peer's; the others choose among their members here."""
        chosen: dict[Peer, list[str]] | None = None
        for group in route.groups:
            peer = group.choose_peer(self.local_first) if group.peers is not None else None
            group.elsewhere = peer is not None
            if peer is not None:
                if chosen is None:
                    chosen = {}
                chosen.setdefault(peer, []).append(group.full_name)
        return chosen

    def pass_on(self, message: Publish, group: Group) -> bool:
        """A message of a group that has no members here any more; False if no node has any."""
        peer = group.choose_peer(False) if group.peers is not None else None
        if peer is None:
            return False
        message.journaled = True  # its sender may have been told that it is safe here
        peer.put(message, False, [group.full_name])
        return True

    def take_special(self, peer: Peer, entry: Entry) -> None:
        """A message for one session, or a copy: another node has it for this one, too, and it may
        have come from there."""
        hub = self.hub
        origin = entry.origin
        if origin is not None:
            if origin.node == self.node or self._came_before(origin.life, origin.n):
                return
            peer = self.meet(origin.node)
            if not peer.comes_early(origin.life, origin.n):
                return
            hub.source = peer
            hub.source_controls = origin.controls
        peer.messages_received += 1
        if entry.direct:
            self.neighbours.direct(entry)
        else:
            hub.publish_from_peer(entry.message, entry.plain, entry.shares)
        hub.source_controls = ""

    def expect(self, peer: Peer, name: str, value: int, instance: str, number: int) -> None:
        """What the table of a process there says from a number on, though it has not come yet."""
        if peer.expected_of != instance:
            peer.expected = {}
            peer.expected_of = instance
        peer.expected[name] = number
        self.learn(peer, name, value)

    def is_outdated(self, peer: Peer, name: str, value: int, number: int) -> bool:
        """Whether a value of a peer's table is less than what it is known to say later."""
        if peer.expected.get(name, 0) <= number:
            return False
        known = peer.clients.get(name[1:], 0) if name[:1] == CLIENT else peer.routes.get(name, 0)
        return value < known

    def came_to(self, peer: Peer, number: int) -> None:
        """A peer's table is known up to a number."""
        if peer.expected:
            left = {name: n for name, n in peer.expected.items() if n > number}
            peer.expected = left

    def flush(self) -> None:
        if self.clock.last > self.noted_stamp and self.hub.journal is not None:
            self.noted_stamp = self.clock.last + AHEAD
            self.hub.journal.note(CLOCK, str(self.noted_stamp))
        if self.migrating:
            self.neighbours.turn()
        for peer in self.all:
            if peer.up:
                if peer.told < self.number:
                    self.neighbours.tell(peer)
                peer.flush()

    # From the store

    def revive(self, peer: Peer, entry: Entry) -> None:
        """A message that was kept for a peer."""
        peer.waiting.append(entry)
        peer.queued += 1
        peer.queued_bytes += entry.size()
