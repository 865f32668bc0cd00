"""Two nodes with a channel of messages between them, whose frames the test carries.

self.start("ab")        alice publishes on node a, bob has subscribed on b; both have a store
self.publish(b"1")      alice's messages, with packet ids 1, 2, 3, ...
self.carry()            frames to b; self.confirm() the confirmations to a; self.settle() all
self.unlink()           the link breaks, with all that is on its way; self.link()
self.came()             what bob got; self.acked() what alice knows to be taken
"""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.channel_in import UNCONFIRMED_S
from mhub.core.channel_records import CONFIRM, PUBLISHES, read_record
from mhub.core.hlc import Clock
from mhub.core.limits import PeerLimits
from mhub.core.peer import Peer
from mhub.core.peers import Peers
from mhub.store.memory import MemoryStore
from tests.core.disk import Disk
from tests.core.test_peer import TOPIC, Alone, Outlet
from tests.core.world import Client, World
from tests.helpers import packets as p


class End:
    """A hub with a channel to one other."""

    def __init__(self, name: str, other: str, store: MemoryStore | None, **options: Any) -> None:
        self.name = name
        self.other = other
        self.store = store
        self.world = World(**options)
        hub = self.world.hub
        self.node = Alone()
        self.peers = Peers(hub, name, Clock(name, 0.0), self.node, PeerLimits())
        self.peers.suback_waits = False
        hub.join(self.peers)
        self.disk = Disk(self.world, store) if store is not None else None
        self.peer: Peer = self.peers.meet(other)
        self.outlet = Outlet()

    def settle(self) -> None:
        if self.disk is not None:
            self.disk.settle()
        self.world.hub.flush()

    def link(self, far: "End") -> None:
        self.outlet = Outlet()
        self.peer.linked(
            self.outlet,
            far.peer.incoming.epoch,
            far.peer.incoming.last_received,
            far.peer.outgoing.epoch,
        )

    def payloads(self) -> list[bytes]:
        """Those of the frames that wait to be carried, in their order."""
        found = []
        for kind, body in self.outlet.sent:
            pos = 8
            while kind == PUBLISHES and pos < len(body):
                message, _, _, pos = read_record(body, pos, 0.0)
                found.append(message.payload)
        return found


class Case(SynchronousTestCase):
    """Alice publishes on node a, bob has subscribed on node b."""

    def start(self, durable: str = "", **options: Any) -> None:
        """`durable` are the names of the nodes with a store."""
        self.a = End("a", "b", MemoryStore() if "a" in durable else None, **options)
        self.b = End("b", "a", MemoryStore() if "b" in durable else None, **options)
        self.pid = 0
        for end in (self.a, self.b):
            end.settle()
        self.link()
        self.subscribed()
        self.bob = self.b.world.client("bob")
        self.bob.subscribe(TOPIC, 2)
        self.alice = self.a.world.client("alice")

    def subscribed(self) -> None:
        self.a.peers.learn(self.a.peer, "f" + TOPIC, 3)
        self.a.settle()

    def link(self) -> None:
        self.a.link(self.b)
        self.b.link(self.a)
        for end in (self.a, self.b):
            end.world.hub.flush()

    def unlink(self) -> None:
        """It breaks, with all that is on its way."""
        for end in (self.a, self.b):
            end.peer.unlinked()
            end.world.hub.flush()

    def publish(self, *payloads: bytes, qos: int = 1, client: Client | None = None) -> None:
        for payload in payloads:
            self.pid += 1
            pid = self.pid if qos else None
            (client or self.alice).send(p.publish(TOPIC, payload, qos, pid))

    def carry(self) -> None:
        """Frames to b; their confirmations are still to be carried."""
        for body in self.a.outlet.take(PUBLISHES):
            self.b.peer.incoming.take(body, self.b.world.now)
            self.b.world.hub.flush()

    def confirm(self) -> None:
        """Confirmations to a, which does not go on before the end of its turn."""
        for body in self.b.outlet.take(CONFIRM):
            self.a.peer.confirmed(body)

    def settle(self) -> None:
        for _ in range(50):
            self.carry()
            self.b.world.wait(UNCONFIRMED_S)  # QoS 0 is confirmed in time
            self.b.settle()
            self.confirm()
            self.a.settle()

    def came(self) -> list[bytes]:
        """What bob got."""
        return [packet.payload for packet in self.bob.take()]

    def acked(self) -> list[int | None]:
        """The packet ids of what alice knows to be taken, at the end of this turn."""
        self.a.world.hub.flush()
        return [packet.pid for packet in self.alice.take()]
