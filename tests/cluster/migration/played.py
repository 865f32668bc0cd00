"""Node a is real, with or without a store; the test plays all others, frame by frame.

self.begin("bc")                     nodes b and c are linked with node a
self.b.claims("s")                   a frame or a change of the table that node b says
self.b.told(frames.SESSION)         what it was told
self.b.records()                     what came in the channel to it: messages, marks, ...
self.b.confirmed()                   up to where its own channel is confirmed to it
self.here.settle()                   what node a stores is safe
self.here.restart()                  node a crashes; what its store has is left of it
"""

from typing import Any, NamedTuple

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import frames
from mhub.cluster.contract import PROTOCOL
from mhub.cluster.frames import pack, with_data
from mhub.cluster.migration import controls
from mhub.cluster.migration.queues import row_of
from mhub.cluster.migration.segments import Segment
from mhub.cluster.migration.source import Source
from mhub.cluster.migration.target import Target
from mhub.cluster.said import split
from mhub.core.channel_records import (
    BARE,
    CONTROL,
    COPY,
    DIRECT,
    Entry,
    Origin,
    control_of,
    read_bare,
    read_control,
    read_record,
    read_special,
    record_of,
    special_of,
)
from mhub.core.codec import decode_rows, decode_session, encode_rows, encode_session
from mhub.core.connection import WAITING
from mhub.core.delivery import Delivery
from mhub.core.limits import NEVER
from mhub.core.peer import Peer
from mhub.core.records import Row, SessionRecord, StoredSession, SubscriptionRecord, publish_of
from mhub.core.session import Session
from mhub.store.memory import MemoryStore
from mhub.wire.primitives import read_u64, u64
from mhub.wire.publish import Publish, topic_field
from tests.cluster.far import Far, Here
from tests.core.disk import Disk
from tests.core.world import Client
from tests.helpers import packets as p

TOPIC = "t"
TICK_S = 0.25


class Mark(NamedTuple):
    client_id: str
    epoch: int
    gap: bool = False


class Close(NamedTuple):
    client_id: str
    began: int


class Relay(NamedTuple):
    client_id: str
    payloads: list[bytes]
    user: str = ""


class Direct(NamedTuple):
    client_id: str
    epoch: int
    payload: bytes


class Copy(NamedTuple):
    node: str
    n: int
    payload: bytes
    direct: str = ""


def message_of(payload: bytes, qos: int = 1, topic: str = TOPIC) -> Publish:
    message = Publish(topic.encode(), payload, qos, False)
    message.topic = topic
    message.topic_field = topic_field(topic.encode())
    return message


def entry(payload: bytes, pid: int = 0, qos: int = 1, released: bool = False) -> Row:
    """An entry of a session on another node, in flight if it has a packet id."""
    delivery = Delivery(message_of(payload, qos), qos, False, b"")
    delivery.released = released
    return row_of(delivery, 1, pid, 0.0)


def _head(client_id: str, epoch: int, via: str, origin: Origin | None = None) -> bytes:
    """What stands in front of a direct message or of a copy."""
    entry = Entry(0, message_of(b""), False, None)
    entry.direct = client_id
    entry.session_epoch = epoch
    entry.via = via
    return special_of(entry, origin)


class PlayedNode(Far):
    """A node of which the test plays the part."""

    def __init__(self, here: "RealNode", name: str) -> None:
        super().__init__(here, name)
        self.here = here
        self.table_n = 0
        self.channel_epoch = ""
        self.n = 0  # of the last message in its channel to node a
        self._frames = 0

    # What it says

    def table(self, *changes: tuple[str, int]) -> None:
        """Its table changes."""
        at = self.table_n
        self.table_n += len(changes)
        self.say(frames.TABLE, at=at, to=self.table_n, set=list(changes))

    def claims(self, client_id: str, epoch: int, live: bool = True) -> None:
        self.table(("c" + client_id, epoch << 1 | live))

    def publish(self, *payloads: bytes, topic: str = TOPIC, qos: int = 1) -> None:
        """Messages that were published there, and are for somebody on node a."""
        now = self.here.world.now
        messages = [message_of(payload, qos, topic) for payload in payloads]
        self._channel([record_of(message, True, None, now) for message in messages])

    def control(self, client_id: str, body: bytes) -> None:
        self._channel([control_of(Publish(client_id.encode(), body, 1, False))])

    def marks(self, client_id: str, epoch: int, gap: bool = False) -> None:
        """It has switched to the session with that epoch, which is on node a."""
        self.control(client_id, controls.mark(epoch, gap))

    def closes(self, client_id: str, began: int) -> None:
        """It has switched to a session that is not on node a, and began with that epoch."""
        self.control(client_id, controls.close(began))

    def relays(self, client_id: str, *payloads: bytes, user: str = "") -> None:
        """What an older session had."""
        self.control(client_id, controls.relay(user, [entry(payload) for payload in payloads]))

    def direct(
        self, client_id: str, epoch: int, *payloads: bytes, qos: int = 1, via: str = ""
    ) -> None:
        """What it sends again for one session alone; `via`: the place where it was at first."""
        now = self.here.world.now
        head = _head(client_id, epoch, via)
        messages = [message_of(payload, qos) for payload in payloads]
        self._channel([head + record_of(message, False, None, now) for message in messages])

    def copy(
        self,
        node: str,
        channel_epoch: str,
        n: int,
        payload: bytes,
        controls: str = "",
        direct: str = "",
    ) -> None:
        """What another node has in its channel to node a, with that number."""
        client_id, _, epoch = direct.partition(" ")
        head = _head(client_id, int(epoch or 0), "", Origin(node, channel_epoch, n, controls))
        record = record_of(message_of(payload), not direct, None, self.here.world.now)
        self._channel([head + record])

    def _channel(self, found: list[bytes]) -> None:
        first = self.n + 1
        self.n += len(found)
        self.give(frames.PUBLISHES, u64(first) + b"".join(found))

    def cut(
        self,
        client_id: str,
        epoch: int,
        to: str,
        segments: list[Segment],
        filters: tuple[str, ...] = (TOPIC,),
        old: str = "",
        held: int = 0,
        table: tuple[str, int] = ("", 0),
        began: int = 0,
    ) -> None:
        """A session is on another node now: node a shall switch."""
        self.say(
            frames.CUT,
            client=client_id,
            epoch=epoch,
            began=began or epoch,
            to=to,
            table=list(table),
            filters=list(filters),
            segments=segments,
            old=list(old),
            held=held,
        )

    def switched(self, client_id: str, epoch: int) -> None:
        self.say(frames.SWITCHED, client=client_id, epoch=epoch)

    def session(
        self,
        client_id: str,
        epoch: int,
        held: int,
        incoming: tuple[int, ...] = (),
        topics: tuple[str, ...] = (TOPIC,),
        session_id: str = "",
        expiry_s: int = NEVER,
        began: int = 0,
    ) -> None:
        """It offers a session that it has held under an epoch to the claim with another one."""
        record = SessionRecord(1, client_id)
        record.expiry_s = expiry_s
        record.epoch = held
        record.began = began
        stored = StoredSession(record)
        for topic in topics:
            subscription = SubscriptionRecord(1, topic)
            subscription.qos = 2
            stored.subscriptions.append(subscription)
        stored.incoming = list(incoming)
        body = with_data(
            encode_session(stored),
            client=client_id,
            epoch=epoch,
            session_id=session_id or f"{self.name}/1",
            now=self.here.world.now,
        )
        self.give(frames.SESSION, body)

    def accept(self, client_id: str, epoch: int) -> None:
        self.say(frames.ACCEPT, client=client_id, epoch=epoch)

    def entries(self, client_id: str, epoch: int, *rows: Row) -> None:
        self.give(frames.ENTRIES, with_data(encode_rows(list(rows)), client=client_id, epoch=epoch))

    def end(
        self,
        client_id: str,
        epoch: int,
        gates: dict[str, list[Segment]] | None = None,
        lost: bool = False,
    ) -> None:
        """That was all; `gates` says which nodes have to switch first."""
        self.say(frames.END, client=client_id, epoch=epoch, gates=gates or {}, lost=lost)

    def done(self, client_id: str, epoch: int) -> None:
        self.say(frames.DONE, client=client_id, epoch=epoch, table=self.table_n)

    def refuses(self, client_id: str, epoch: int, merge: bool) -> None:
        self.say(frames.REFUSED, client=client_id, epoch=epoch, merge=merge)

    def unknown(self, client_id: str, epoch: int, sure: bool = True) -> None:
        self.say(frames.UNKNOWN, client=client_id, epoch=epoch, sure=sure)

    def confirm_all(self) -> None:
        """It has all that came in the channel to it."""
        self.confirm_to(self.here.peers.peers[self.name].outgoing.last_n)

    def confirm_to(self, n: int) -> None:
        self._frames += len([1 for kind, _ in self._sent if kind == frames.PUBLISHES])
        self.give(frames.CONFIRM, u64(self._frames) + u64(n) + u64(self.here.peers.table.number))

    # What it was told

    def records(self) -> list[Any]:
        """What came in the channel since the last call: payloads, and records of other kinds."""
        found: list[Any] = []
        for body in self.took(frames.PUBLISHES):
            self._frames += 1
            pos = 8
            while pos < len(body):
                if body[pos] == BARE:
                    message, pos = read_bare(body, pos)
                    found.append(message.payload)
                elif body[pos] == CONTROL:
                    client_id, control, pos = read_control(body, pos)
                    found.append(_control(client_id, control))
                elif body[pos] in (COPY, DIRECT):
                    special, pos = read_special(body, pos, 0.0)
                    found.append(_special(special))
                else:
                    message, _, _, pos = read_record(body, pos, 0.0)
                    found.append(message.payload)
        return found

    def confirmed(self) -> int | None:
        """The last number of its channel that was confirmed since the last call."""
        bodies = self.took(frames.CONFIRM)
        return read_u64(bodies[-1], 8)[0] if bodies else None

    def sent(self, *kinds: int) -> list[int]:
        """The kinds of what it was told and has not read, of these, in their order."""
        return [kind for kind, _ in self._sent if kind in kinds]

    def offered(self) -> tuple[dict[str, Any], StoredSession]:
        """The one SESSION that came."""
        (body,) = self.took(frames.SESSION)
        said, data = split(body)
        return said.fields, decode_session(data)

    def rows(self) -> list[Row]:
        """Those of all ENTRIES that came."""
        found = []
        for body in self.took(frames.ENTRIES):
            found += decode_rows(split(body)[1])
        return found

    def payloads(self) -> list[bytes]:
        return [publish_of(row.body, 0.0).payload for row in self.rows()]

    def kinds(self) -> list[int]:
        """Of the frames of session migration that came since the last call of took()."""
        others = (frames.PENDING, frames.ACCEPT, frames.SWITCHED)
        return self.sent(*range(frames.CUT, frames.UNKNOWN + 1), *others)

    def forget(self) -> None:
        """Nothing that came so far is of interest."""
        self.records()
        self._sent = []


def _control(client_id: str, body: bytes) -> Any:
    if body[:1] == controls.MARK:
        return Mark(client_id, *controls.read_mark(body))
    if body[:1] == controls.CLOSE:
        return Close(client_id, controls.read_close(body))
    user, rows = controls.relayed(body)
    return Relay(client_id, [publish_of(row.body, 0.0).payload for row in rows], user)


def _special(special: Entry) -> Any:
    payload = special.message.payload
    if special.origin is not None:
        return Copy(special.origin.node, special.origin.n, payload, special.direct)
    return Direct(special.direct, special.session_epoch, payload)


class RealNode(Here):
    def __init__(self, store: MemoryStore | None = None, instance: str = "a1") -> None:
        super().__init__(instance)
        self.store = store
        self.peers.suback_waits = False
        self.disk = Disk(self.world, store) if store is not None else None
        self.node.recall()
        self.played: dict[str, PlayedNode] = {}

    def settle(self) -> None:
        """Turns until all is safe that is to be stored."""
        if self.disk is not None:
            self.disk.settle()
        self.world.settle()
        self.world.hub.flush()

    def meet(self, name: str, *table: tuple[str, int], instance: str = "") -> PlayedNode:
        """A node is linked, says what it has, and knows nothing of what came from here before."""
        far = self.join(name, instance)
        far.table_n = 1
        far.say(frames.TABLE, at=-2, to=1, number=1, set=list(table))
        self.settle()
        return far

    def join(self, name: str, instance: str = "") -> PlayedNode:
        """A node is linked, but what it has is still on its way."""
        before = self.played.get(name)
        far = self.played[name] = PlayedNode(self, name)
        instance = instance or (before.channel_epoch if before is not None else f"{name}1")
        far.channel_epoch = instance
        if before is not None and before.channel_epoch == instance:
            far.n = before.n
        hello = {"cluster": "plant", "node": name, "instance": instance, "address": far.address}
        self.node.opened(far, pack(protocol=PROTOCOL, oldest=PROTOCOL, version="0", **hello))
        far.say(frames.RESUME, epoch=instance, received=["", 0], table=["", -1])
        return far

    def lose(self, far: PlayedNode) -> None:
        """The link to a node breaks."""
        self.node.lost(far, "reset")
        far.closed = "reset"

    def wait(self, seconds: float, silent: str = "") -> None:
        """Time passes; all nodes but those who are silent can be heard."""
        for _ in range(round(seconds / TICK_S)):
            self.world.now += TICK_S
            for far in self.played.values():
                if far.name not in silent and not far.closed:
                    far.say(frames.PONG, at=self.world.now)
            self.world.hub.tick(self.world.now)
            self.node.tick(self.world.now)
            self.world.hub.flush()
            self.settle()

    def restart(self, seconds: float = 1.0) -> "RealNode":
        instance = f"a{int(self.node.settings.instance[1:]) + 1}"
        after = RealNode(self.store, instance)
        after.world.now = self.world.now + seconds
        after.world.hub.tick(after.world.now)
        after.played = self.played
        return after


class Case(SynchronousTestCase):
    def begin(self, names: str = "bc", durable: bool = False) -> None:
        self.here = RealNode(MemoryStore() if durable else None)
        self.durable = durable
        self.meet(names)

    def meet(self, names: str) -> None:
        for name in names:
            setattr(self, name, self.here.meet(name))

    b: PlayedNode
    c: PlayedNode
    d: PlayedNode

    @property
    def hub(self) -> Any:
        return self.here.world.hub

    @property
    def migration(self) -> Any:
        return self.here.node.migration

    def peer(self, name: str) -> Peer:
        """Another node as node a has it: the channels to it and from it."""
        return self.here.peers.peers[name]

    def segment(
        self, node: str, position: int, early: tuple[int, ...] = (), since: int = 0
    ) -> Segment:
        """Node a's channel to a node that had a session; `since`: its gate was closed there."""
        return Segment(
            node, self.peer(node).outgoing.epoch, position, list(early), since, not since
        )

    def restart(self) -> None:
        self.here = self.here.restart()

    # Clients of node a

    def connect(self, client_id: str = "s", clean: bool = False, version: int = 4) -> Client:
        """A client that sends CONNECT."""
        client = self.here.world.open(version)
        client.send(p.connect(client_id, version, clean=clean))
        self.here.settle()
        return client

    def sleeper(self, client_id: str = "s", topic: str = TOPIC, qos: int = 2) -> Session:
        """A session on node a whose client is away."""
        client = self.connect(client_id)
        client.next("CONNACK")
        client.send(p.subscribe(1, (topic, qos)))
        self.here.settle()
        client.next("SUBACK")
        client.lose()
        self.here.settle()
        for far in self.here.played.values():
            far.confirm_all()
            far.forget()
        session = self.hub.sessions[client_id]
        assert isinstance(session, Session)
        return session

    def publish(self, *payloads: bytes, qos: int = 1, topic: str = TOPIC) -> None:
        """Somebody publishes on node a."""
        client = self.here.world.open()
        client.send(p.connect("p"))
        for n, payload in enumerate(payloads, 1):
            client.send(p.publish(topic, payload, qos, n if qos else None))
        client.send(p.disconnect())
        self.here.settle()

    def is_waiting(self, client: Client) -> bool:
        return client.connection.state == WAITING

    # Source and target on node a

    def source(self, client_id: str = "s") -> Source | None:
        found = self.migration.source_of(client_id)
        assert found is None or isinstance(found, Source)
        return found

    def target(self, client_id: str = "s") -> Target | None:
        found = self.migration.targets.get(client_id)
        assert found is None or isinstance(found, Target)
        return found

    def epoch(self, client_id: str = "s") -> int:
        """That of the claim of node a."""
        return int(self.here.peers.table.own_epoch(client_id))

    def state(self, client_id: str = "s") -> str:
        """That of the source on node a; "" if there is none."""
        found = self.source(client_id)
        return found.state if found is not None else ""
