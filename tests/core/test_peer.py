"""Lines between nodes: records as they cross a link, and what is confirmed when."""

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.channel_in import UNCONFIRMED, UNCONFIRMED_S
from mhub.core.channel_out import EAGER
from mhub.core.channel_records import BARE, CONFIRM, PUBLISHES, Entry
from mhub.core.hlc import Clock
from mhub.core.limits import PeerLimits
from mhub.core.peer import Peer
from mhub.core.peers import Peers
from mhub.wire.primitives import read_u64
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

    def __init__(self) -> None:
        # Control records that came: client id, body, messages that had come before
        self.controls: list[tuple[str, bytes, int]] = []
        self.directs: list[Entry] = []

    def tell(self, peer: Peer) -> None: ...
    def claim(self, connection: Any) -> bool:
        return False

    def control(self, peer: Peer, client_id: str, body: bytes) -> None:
        self.controls.append((client_id, body, peer.counters.messages_received))

    def direct(self, entry: Entry) -> None:
        self.directs.append(entry)

    def loaded(self, session: Any, rows: Any) -> None: ...
    def ended(self, session: Any) -> None: ...
    def turn(self) -> None: ...
    def stored(self) -> None: ...
    def stranger_numbers(self) -> dict[str, int]:
        return {}

    def session_numbers(self) -> dict[str, int]:
        return {}

    def owned(self, peer: Peer, client_id: str, value: int) -> None: ...


class Side:
    """A hub with a channel to one other."""

    def __init__(self, name: str, other: str) -> None:
        self.world = World()
        hub = self.world.hub
        peers = Peers(hub, name, Clock(name, 0.0), Alone(), PeerLimits())
        peers.suback_waits = False
        hub.join(peers)
        self.hub = hub
        self.outlet = Outlet()
        self.peer = peers.meet(other)
        self.peer.linked(self.outlet, "", 0, "epoch")
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
            self.b.peer.incoming.take(body, self.b.hub.now)
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

    def test_a_message_of_qos_1_crosses_with_one_byte_more(self) -> None:
        """Its number is that of the frame, counted on: the record has flags and the packet."""
        self.alice.send(b"".join(p.publish(TOPIC, b"x", 1, pid) for pid in (1, 2, 3)))
        (body,) = self.cross()
        self.assertEqual(read_u64(body, 0)[0], self.a.peer.outgoing.last_n - 2)
        self.assertEqual(len(body), 8 + 3 * len(b"." + p.publish(TOPIC, b"x")))
        self.assertEqual(self.b.peer.incoming.last_received, self.a.peer.outgoing.last_n)

    def test_qos_0_is_confirmed_now_and_then(self) -> None:
        for _ in range(UNCONFIRMED - 1):
            self.alice.send(p.publish(TOPIC, b"x"))
            self.cross()
        self.assertEqual(self.answer(), 0)
        self.alice.send(p.publish(TOPIC, b"x"))
        self.cross()
        self.assertEqual(self.answer(), 1)
        self.assertEqual(self.a.peer.outgoing.under_way_bytes, 0)

    def test_much_of_it_is_confirmed_at_once(self) -> None:
        """Else it would fill the window of the other side, which would have to wait."""
        self.b.peer.limits.window_bytes = 4000
        self.alice.send(p.publish(TOPIC, bytes(1000)))
        self.cross()
        self.assertEqual(self.answer(), 1)

    def test_each_confirmation_makes_room_for_what_it_confirms(self) -> None:
        for _ in range(3):
            self.alice.send(p.publish(TOPIC, b"x", 1, 7))
        under_way = self.a.peer.outgoing.under_way_bytes
        bodies = self.a.outlet.take(PUBLISHES)
        for number, body in enumerate(bodies):
            self.assertEqual(self.a.peer.outgoing.under_way_bytes, under_way)
            self.b.peer.incoming.take(body, self.b.hub.now)
            self.b.hub.flush()
            self.assertEqual(self.answer(), 1)
            under_way -= len(body)
            self.assertEqual(len(self.alice.take()), 1, number)
        self.assertEqual((self.a.peer.outgoing.under_way_bytes, under_way), (0, 0))

    def test_what_is_owed_is_confirmed_in_time(self) -> None:
        self.alice.send(p.publish(TOPIC, b"x"))
        self.cross()
        self.assertEqual(self.answer(), 0)
        self.b.hub.now += 2 * UNCONFIRMED_S
        self.b.hub.flush()
        self.assertEqual(self.answer(), 1)

    def test_qos_1_is_confirmed_at_once(self) -> None:
        self.alice.send(p.publish(TOPIC, b"x", 1, 7))
        self.assertEqual(self.alice.take(), [])
        self.cross()
        self.assertEqual(self.answer(), 1)
        self.assertEqual(len(self.alice.take()), 1)

    def test_without_confirmation_frames_grow_instead(self) -> None:
        for _ in range(EAGER + 5):
            self.alice.send(p.publish(TOPIC, b"x"))
        self.assertEqual(len(self.cross()), EAGER)
        self.answer()
        self.assertEqual(len(self.cross()), 1)
        self.assertEqual(len(self.bob.take()), EAGER + 5)
