"""Lines between nodes: records as they cross a link, and what is confirmed when."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.hlc import Clock
from mhub.core.peer import BARE, CONFIRM, EAGER, OWED, OWED_S, PUBLISHES, Peer, PeerLimits
from mhub.core.peers import Peers
from tests.core.world import World
from tests.helpers import packets as p

TOPIC = "a/b"


class Outlet:
    def __init__(self) -> None:
        self.sent: list[tuple[int, bytes]] = []

    def send(self, kind: int, body: bytes) -> None:
        self.sent.append((kind, body))

    def take(self, kind: int) -> list[bytes]:
        found = [body for sent, body in self.sent if sent == kind]
        self.sent = [each for each in self.sent if each[0] != kind]
        return found


class Alone:
    """Neighbours of a hub that has no node."""

    def tell(self, peer: Peer) -> None: ...
    def claim(self, connection: Any) -> bool:
        return False

    def divided(self, session: Any) -> None: ...
    def turn(self) -> None: ...
    def owned(self, peer: Peer, client_id: str, stamp: int) -> None: ...


class Side:
    """A hub with a line to one other."""

    def __init__(self, name: str, other: str) -> None:
        self.world = World()
        hub = self.world.hub
        peers = Peers(hub, name, Clock(name, 0.0), Alone(), PeerLimits())
        peers.start(1)
        peers.suback_waits = False
        hub.join(peers)
        self.hub = hub
        self.outlet = Outlet()
        self.peer = peers.meet(other)
        self.peer.linked(self.outlet, "", 0, "life")
        hub.flush()
        self.outlet.sent.clear()

    def wants(self, name: str) -> None:
        assert self.hub.peers is not None
        self.hub.peers.learn(self.peer, "f" + name, 1)


class Lines(SynchronousTestCase):
    def setUp(self) -> None:
        self.a, self.b = Side("a", "b"), Side("b", "a")
        self.a.wants(TOPIC)
        self.alice = self.a.world.client("alice")
        self.bob = self.b.world.client("bob")
        self.bob.send(p.subscribe(1, (TOPIC, 2)))
        self.bob.take()
        self.b.outlet.sent.clear()

    def cross(self) -> list[bytes]:
        """What a has for b, to b."""
        bodies = self.a.outlet.take(PUBLISHES)
        for body in bodies:
            self.b.peer.take(body, self.b.hub.now)
            self.b.hub.flush()
        return bodies

    def answer(self) -> int:
        confirmations = self.b.outlet.take(CONFIRM)
        for body in confirmations:
            self.a.peer.confirmed(body)
        self.a.hub.flush()
        return len(confirmations)

    def test_a_plain_message_crosses_as_the_packet_that_subscribers_get(self) -> None:
        self.alice.send(p.publish(TOPIC, b"x"))
        (body,) = self.cross()
        self.assertEqual(body[8], BARE)
        self.assertEqual(body[8:], p.publish(TOPIC, b"x"))
        self.assertEqual([each.payload for each in self.bob.take()], [b"x"])

    def test_names_of_messages_are_counted_on_within_a_parcel(self) -> None:
        self.alice.send(b"".join(p.publish(TOPIC, b"x", 1, pid) for pid in (1, 2, 3)))
        (body,) = self.a.outlet.take(PUBLISHES)
        self.bob.send(p.subscribe(9, (TOPIC, 1)))
        self.bob.session.divide()
        self.b.peer.take(body, self.b.hub.now)
        seen = list(self.bob.session.divide().seen)
        self.assertEqual([uid - seen[0] for uid in seen], [0, 1, 2])
        self.assertEqual(len(body), 8 + 8 + 3 * len(b"." + p.publish(TOPIC, b"x")))

    def test_qos_0_is_confirmed_now_and_then(self) -> None:
        for _ in range(OWED - 1):
            self.alice.send(p.publish(TOPIC, b"x"))
            self.cross()
        self.assertEqual(self.answer(), 0)
        self.alice.send(p.publish(TOPIC, b"x"))
        self.cross()
        self.assertEqual(self.answer(), 1)
        self.assertEqual(self.a.peer.under_way_bytes, 0)

    def test_what_is_owed_is_confirmed_in_time(self) -> None:
        self.alice.send(p.publish(TOPIC, b"x"))
        self.cross()
        self.assertEqual(self.answer(), 0)
        self.b.hub.now += 2 * OWED_S
        self.b.hub.flush()
        self.assertEqual(self.answer(), 1)

    def test_qos_1_is_confirmed_at_once(self) -> None:
        self.alice.send(p.publish(TOPIC, b"x", 1, 7))
        self.assertEqual(self.alice.take(), [])
        self.cross()
        self.assertEqual(self.answer(), 1)
        self.assertEqual(len(self.alice.take()), 1)

    def test_without_confirmation_parcels_grow_instead(self) -> None:
        for _ in range(EAGER + 5):
            self.alice.send(p.publish(TOPIC, b"x"))
        self.assertEqual(len(self.cross()), EAGER)
        self.answer()
        self.assertEqual(len(self.cross()), 1)
        self.assertEqual(len(self.bob.take()), EAGER + 5)
