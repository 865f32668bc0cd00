"""What makes two states of a cluster the same.

All objects of each node are walked from a few roots, an object that was met before by its
number, and the whole is hashed.  Left out are statistics, caches, clocks' readings and what
never changes.  Numbers that only count (batches, frames, changes of a table) are taken relative
to what they are compared with, so that the same situation is the same state however many there
were before.  Names as keys of a dictionary have no order.  What is left distinguishes more than
it has to, never less, but for the order of such names.

What only a restart would read of a disk counts while a crash is still to come.
"""

import marshal
from bisect import bisect_right
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from types import FunctionType, MethodType
from typing import Any

from mhub.cluster import frames
from mhub.cluster.frames import pack, unpack
from mhub.cluster.migration.segments import Segment
from mhub.cluster.migration.source import Source
from mhub.core.channel_records import Origin
from mhub.core.peer import Peer
from mhub.core.peers import Peers
from mhub.core.records import Batch, DeliveryRecord
from mhub.core.session import Session
from mhub.store.memory import MemoryStore
from mhub.wire.primitives import read_u64
from tests.cluster.explore.cluster import Cluster, Side

ANYWHERE = {
    "hub",
    "limits",
    "listener_limits",
    "stats",
    "settings",
    "_node",
    "_peers",
    "slot",
    "_migration",
    "_holders",
}

LEFT_OUT: dict[str, set[str]] = {
    "Session": {"last_seq", "principal", "namespace"},
    "Inflight": {"window"},
    "OutgoingQueue": {"total", "size_bytes", "tail_seq"},
    "Connection": {
        *("outlet", "received_at", "welcome", "keepalive_s", "max_packet_in"),
        *("max_packet_out", "problem_info", "progress", "peer", "listener", "identity"),
        *("aliases", "authentication"),
    },
    "Publish": {"topic", "topic_field", "frame_v3", "frame_v5"},
    "Peer": {
        *("peers", "counters", "outlet", "table_received", "told", "knows", "name", "awaiting"),
    },
    "OutgoingChannel": {
        *("peer", "counters", "queued_bytes", "queued_bytes_qos0", "frames_confirmed", "frames"),
        *("under_way_bytes", "reserved"),
    },
    "IncomingChannel": {
        *("peer", "peers", "counters", "frames_received", "unconfirmed_bytes", "confirmed_at"),
        "becoming_safe",
    },
    "Peers": {"clock", "neighbours", "node", "all", "past", "notes"},
    "Table": {"log", "number", "routes"},
    "Journal": {"clock_offset_s", "window", "max_pending_bytes"},
    "Batch": {"size_bytes"},
    "DeliveryRecord": {"size_bytes", "seq"},
    "Member": {
        *("peer", "address", "version", "link", "received_at", "pinged_at", "latency_s", "index"),
        *("note", "asking", "expected"),
    },
    # A session id is only compared with others: how many there were does not matter
    "Migration": {"node", "progress", "holders", "_gone", "_session_ids"},
    "Exchange": {"_safe"},
    "Source": {"_actions", "_reader"},
    "Target": {"_actions"},
    "Given": {"number"},
    "MemoryStore": {"failing"},
}

BATCHES: dict[str, set[str]] = {
    "AckTracker": {"batch"},
    "DeliveryRecord": {"born", "batch"},
    "MessageRecord": {"batch"},
    "DeferredFrame": {"after"},
    "Entry": {"after"},
    "Connection": {"output_held_until"},
    "OutgoingChannel": {"reserve_after"},
    "Peers": {"boot_after"},
    "Source": {"_safe_at"},
    "Batch": {"number"},
}
"""Numbers of batches: those that are safe are all the same."""

_attributes: dict[type, tuple[str, list[str], set[str]]] = {}


def _known(thing: Any) -> tuple[str, list[str], set[str]]:
    kind = type(thing)
    name = kind.__name__
    without = ANYWHERE | LEFT_OUT.get(name, set())
    names = [
        each
        for each, value in vars(thing).items()
        if each not in without and not isinstance(value, FunctionType)
    ]
    found = name, names, BATCHES.get(name, set())
    _attributes[kind] = found
    return found


class Ranks:
    """Numbers of deliveries, as their places among those that there are."""

    def __init__(self, side: Side) -> None:
        self._seqs: dict[int, list[int]] = {}
        found: dict[int, set[int]] = {}
        for sid, seq in side.store.deliveries:
            found.setdefault(sid, set()).add(seq)
        node = side.node
        if node is not None:
            journal = node.hub.journal
            if journal is not None:
                for batch in (journal.under_way, journal.batch):
                    if batch is not None:
                        for each in batch.deliveries:
                            found.setdefault(each.sid, set()).add(each.seq)
            sessions = list(node.hub.sessions.values())
            sessions += [each.session for each in node.migration.targets.values() if each.session]
            sessions += list(node.migration.sources)
            for session in sessions:
                found.setdefault(session.sid, set()).add(session.last_seq)
        self._seqs = {sid: sorted(seqs) for sid, seqs in found.items()}

    def of(self, sid: int, seq: int) -> int:
        return bisect_right(self._seqs.get(sid, ()), seq)


class Walk:
    """One node's objects, as nested lists."""

    def __init__(self, durable: int, ranks: "Ranks", in_full: bool) -> None:
        self._durable = durable
        self._met: dict[int, int] = {}
        self._ranks = ranks
        self._in_full = in_full

    def batch(self, number: int) -> int:
        return max(number - self._durable, 0)

    def of(self, thing: Any) -> Any:
        kind = type(thing)
        if kind in PLAIN:
            return thing
        special = SPECIAL.get(kind)
        if special is not None:
            return special(self, thing)
        key = id(thing)
        number = self._met.get(key)
        if number is not None:
            return ("=", number)
        self._met[key] = len(self._met)
        if kind is Batch and not self._in_full:
            return self._batch(thing)
        name, names, batches = _attributes.get(kind) or _known(thing)
        values = thing.__dict__
        found = [name]
        if kind is Session:
            rank = self._ranks.of
            sid = thing.sid
            queue = thing.queue
            found += [
                rank(sid, thing.last_seq),
                rank(sid, queue.tail_seq) if queue is not None and queue.paged_out else 0,
            ]
        elif kind is DeliveryRecord:
            found.append(self._ranks.of(thing.sid, thing.seq))
        elif kind is Source:
            rank = self._ranks.of
            sid = thing.session.sid
            reader = thing._reader
            for number in (reader.last, reader._end):
                found.append(rank(sid, number) if sid and number >= 0 else number)
        of = self.of
        for each in names:
            value = values[each]
            if each in batches:
                value = max(value - self._durable, 0)
            elif type(value) not in PLAIN:
                value = of(value)
            found.append(value)
        return found

    def _batch(self, batch: Batch) -> Any:
        """What of it matters to a node that does not crash."""
        rank = self._ranks.of
        return [
            self.batch(batch.number),
            batch.touched(),
            batch.urgent,
            batch.worth_storing(),
            [
                (each.sid, rank(each.sid, each.seq))
                for each in batch.deliveries
                if not each.dead and not each.pid
            ],
            [(each.sid, rank(each.sid, each.seq), each.pid) for each in batch.changes],
            [(sid, rank(sid, seq)) for sid, seq in batch.removals],
            batch.ended,
        ]

    def sequence(self, things: Any) -> Any:
        of = self.of
        return [each if type(each) in PLAIN else of(each) for each in things]

    def dictionary(self, things: dict[Any, Any]) -> Any:
        of = self.of
        items = list(things.items())
        if len(items) > 1 and all(type(key) is str for key, _ in items):
            items.sort()
        return [(of(key), of(value)) for key, value in items]

    def names(self, things: Any) -> Any:
        return sorted(things)


PLAIN = frozenset({int, str, bytes, bool, float, type(None)})

SPECIAL: dict[type, Callable[[Walk, Any], Any]] = {
    list: Walk.sequence,
    tuple: Walk.sequence,
    deque: Walk.sequence,
    dict: Walk.dictionary,
    set: Walk.names,
    frozenset: Walk.names,
    bytearray: lambda walk, data: bytes(data),
    FunctionType: lambda walk, function: None,
    MethodType: lambda walk, method: [method.__name__, walk.of(method.__self__)],
    Segment: Walk.sequence,
    Origin: Walk.sequence,
}


def _frame(receiver: Peer, peers: Peers, kind: int, body: bytes) -> Any:
    """A frame under way, with its counters relative to what its receiver has."""
    if kind == frames.CONFIRM:
        count, pos = read_u64(body, 0)
        n, pos = read_u64(body, pos)
        received, pos = read_u64(body, pos)
        return kind, count - receiver.outgoing.frames_confirmed, n, received - peers.table.number
    if kind == frames.TABLE:
        said = unpack(body)
        for key in ("at", "to"):
            if said[key] >= 0:
                said[key] -= receiver.table_received
        return kind, pack(**said)
    if kind == frames.DONE:
        said = unpack(body)
        said["table"] -= receiver.table_received
        return kind, pack(**said)
    if kind == frames.CUT:
        said = unpack(body)
        about = peers.peers.get(said["to"])
        if about is not None:
            said["table"][1] -= about.table_received
        return kind, pack(**said)
    return kind, body


def _disk(store: MemoryStore, kept: Walk) -> Any:
    """All that a restart would find."""
    return [
        *(sorted(each.items()) for each in (store.retained, store.notes)),
        sorted(store.incoming),
        [kept.of(each) for each in store.sessions.values()],
        [kept.of(each) for each in store.subscriptions.values()],
        [kept.of(each) for each in store.messages.values()],
        [kept.of(store.deliveries[key]) for key in sorted(store.deliveries)],
        store.last_sid,
    ]


def _side(cluster: Cluster, side: Side) -> Any:
    node = side.node
    store = side.store
    in_full = bool(cluster.crashes) or any(each.node is None for each in cluster.sides.values())
    ranks = Ranks(side)
    kept = Walk(0, ranks, True)
    disk = [
        (sid, ranks.of(sid, seq), store.deliveries[sid, seq].body)
        for sid, seq in sorted(store.deliveries)
        if not store.deliveries[sid, seq].pid and sid in store.sessions
    ]
    if in_full:
        disk = _disk(store, kept)
    if node is None:
        return disk
    hub = side.world.hub
    peers = node.peers
    walk = Walk(hub.durable, ranks, in_full)
    migration = node.migration
    found = [disk, walk.of(hub.sessions), walk.of(migration), walk.of(peers)]
    found.append(walk.of(node.members))
    found.append(walk.of(node.offers._made))
    found.append([(walk.batch(batch), *rest) for batch, *rest in migration.exchange._safe])
    found.append([(walk.batch(batch), client_id) for batch, client_id in migration._gone])
    for given in migration.given.all.values():
        found.append(given.number - peers.peers[given.to].table_received)
    oldest = peers.table.number
    for peer in peers.all:
        far = cluster.sides[peer.name]
        expected = node.members[peer.name].expected
        received = -1  # how far it knows our table, which sessions that were given away refer to
        if far.node is not None:
            received = max(far.node.peers.peers[side.name].table_received, 0)
            oldest = min(oldest, received)
        found.append(
            [
                peer.name,
                peers.table.number - received if received >= 0 else -1,
                peers.table.number - peer.told,
                peers.table.number - peer.knows,
                len(peer.outgoing.frames),
                [(walk.batch(b), n) for b, n in peer.incoming.becoming_safe],
                [number - peers.table.number for number, _ in peer.awaiting],
                sorted((name, n - peer.table_received) for name, n in expected.items()),
            ]
        )
    found.append(peers.table.since(oldest) or [])
    if hub.journal is not None:
        found.append(walk.of(hub.journal))
    waits = hub.storage
    found += [walk.of(x) for x in (waits.holding, waits.stalled, waits.starving, waits.behind)]
    found.append(walk.of(hub.router.filters))
    found.append(peers.clock.last)
    if side.disk is not None:
        found.append([[walk.of(each[0]), *each[1:]] for each in side.disk.asked])
        found.append(side.disk.batch is not None)
    for far_name in sorted(side.ends):
        end = side.ends[far_name]
        receiver = peers.peers[far_name]
        frames = [_frame(receiver, peers, kind, body) for kind, body in end.coming]
        found.append([far_name, end.closed, end.broken, frames])
    client = cluster.subscriber.client
    if client is not None and cluster.subscriber.node == side.name:
        found.append(walk.of(client.connection))
    for publisher in cluster.publishers:
        if publisher.node == side.name and publisher.client is not None:
            found.append(walk.of(publisher.client.connection))
    return found


def state_of(cluster: Cluster) -> Any:
    subscriber = cluster.subscriber
    client = subscriber.client
    return [
        [_side(cluster, side) for side in cluster.sides.values()],
        cluster.now,
        cluster.highest_epoch,
        cluster.cuts,
        list(cluster.crashes),
        cluster.times,
        [
            [
                each.sent,
                sorted(each.waiting.items()),
                sorted(each.acknowledged),
                sorted(each.may_double),
                each.client is None,
                each.ready,
                each.moves,
                None if each.client is None else bytes(each.client.outlet.data),
            ]
            for each in cluster.publishers
        ],
        [
            subscriber.node,
            subscriber.route,
            subscriber.returns,
            subscriber.ready,
            subscriber.subscribed,
            subscriber.lifetime,
            subscriber.split,
            subscriber.began,
            subscriber.told,
            subscriber.apart,
            subscriber.connected_at,
            subscriber.delayed,
            sorted(subscriber.open),
            sorted(subscriber.got.items()),
            sorted((name, sorted(each)) for name, each in subscriber.ever.items()),
            sorted(subscriber.late.items()),
            sorted((name, sorted(each)) for name, each in subscriber.doubtful.items()),
            sorted((name, sorted(each)) for name, each in subscriber.unsure.items()),
            sorted(subscriber.asked.items()),
            subscriber.sure,
            subscriber.known,
            subscriber.has_added,
            None if client is None else [bytes(client.outlet.data), client.outlet.closed],
        ],
    ]


def fingerprint(cluster: Cluster) -> bytes:
    # Version 2 of marshal knows no references, so equal values are equal bytes.
    return blake2b(marshal.dumps(state_of(cluster), 2), digest_size=12).digest()
