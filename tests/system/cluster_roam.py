"""Nothing fails, but two subscribers go from node to node while others publish.

At each node are a publisher of QoS 1 and one of QoS 2, which stay connected.  The subscribers, one
of QoS 1 and one of QoS 2, listen to all of them.  How they go is their temperament:

patient      they wait for CONNACK, take and acknowledge messages for a while, and go on
hasty        they go on at any moment after CONNACK, and stop acknowledging before: so deliveries
             are left behind in every state (no PUBACK; no PUBREC; PUBREC, but no PUBREL yet; PUBREL
             that came, but no PUBCOMP)
impatient    they also close a connection on which no CONNACK came within some milliseconds, and go
             to another node at once, which thus may have CONNECT before the first one does

Acknowledgements of one type are always sent in the order of what they acknowledge [MQTT-4.6.0-2]: a
client that withholds one sends no more of that type by this connection.

The run ends after a number of moves.  Publishers wait while a subscriber is far behind, so the load
adapts to the machine, and what the machine is too busy for only takes longer.
"""

import math
import random
import time
from collections.abc import Mapping
from typing import NamedTuple

from tests.helpers import packets as p
from tests.helpers.packets import Packet
from tests.system.cluster_clients import ClusterLoad, RoamingPublisher, RoamingSubscriber
from tests.system.cluster_processes import PORT
from tests.system.cluster_testbed import Testbed
from tests.system.durability_clients import Habit, message_of
from tests.system.raw import Address

TEMPERS = ("patient", "hasty", "impatient")

MOST_S = 0.5
"""No connection is kept for longer than this after CONNACK, whatever comes."""

BEHIND = 150
"""Publishers wait while a subscriber lacks so many messages."""

WINDOW = 10
"""So many messages of a publisher are not acknowledged."""

PACE = 0.3
"""In a turn of the load, a publisher sends a message with this probability."""

SILENCE_S = 120.0
"""Only failures take so long; the machine is busy."""

MOST_GIVEN_UP = 4
"""So many CONNECTs in a row are given up; the next one is waited for."""


class Stay(NamedTuple):
    """What a subscriber does with a connection: it goes on after that time or so many packets."""

    seconds: float = math.inf
    packets: float = math.inf
    acks: float = math.inf  # PUBACK and PUBREC, so many each
    completes: float = math.inf  # PUBCOMP


class Destinations:
    """Where a client connects to: always the same node, or any other one than before."""

    def __init__(self, addresses: list[Address], rng: random.Random) -> None:
        self.addresses = addresses
        self._rng = rng
        self._at: Address | None = None

    def first(self) -> Address:
        return self.addresses[0]

    def another(self) -> Address:
        self._at = self._rng.choice([each for each in self.addresses if each != self._at])
        return self._at


class StayingPublisher(RoamingPublisher):
    spread = 1  # all in one topic, so that each swap of two messages shows
    silence_s = connect_s = SILENCE_S

    def publish_some(self, rng: random.Random) -> None:
        if rng.random() < PACE:
            self.publish()


class RoamingReader(RoamingSubscriber):
    """A subscriber with a temperament."""

    spread = 1
    silence_s = connect_s = SILENCE_S

    def __init__(self, name: str, qos: int, temper: str, rng: random.Random) -> None:
        # Where it goes and when is decided in `step`, not by chance in each turn.
        super().__init__(name, qos, habit=Habit())
        self.moves = 0
        self.given_up = 0
        self.is_calm = True  # it stays where it is, and acknowledges everything
        self._temper = temper
        self._rng = rng
        self._stay = Stay()
        self._go_at = math.inf
        self._taken = 0
        self._acks: dict[str, float] = {}
        self._in_a_row = 0
        self.longest_s = 0.0  # how long it waited for CONNACK
        self._came_at = 0.0
        self.distinct: set[tuple[str, int]] = set()  # messages that came

    def start(self) -> None:
        """From now on it moves."""
        self.is_calm = False
        self.leave()

    def settle(self) -> None:
        """It has moved enough."""
        self.is_calm = True
        self.leave()

    def step(self, now: float) -> None:
        """One turn: go on to another node, if it is time to."""
        if self.is_calm:
            return
        if not self.is_here:
            self.come()
            return
        if now < self._go_at and self._taken < self._stay.packets:
            return
        if self.live:
            self.moves += 1
            self._in_a_row = 0
            if self._temper == "patient" and self._rng.random() < 0.5:
                self._send(p.disconnect())
                self.write()
        else:
            self.given_up += 1
            self._in_a_row += 1
        self.leave()
        self.come()

    def come(self, port: int = 0) -> None:
        super().come()
        self._came_at = time.monotonic()
        self._taken = 0
        self._stay = Stay() if self.is_calm else self._plan()
        self._acks = {
            "PUBACK": self._stay.acks,
            "PUBREC": self._stay.acks,
            "PUBCOMP": self._stay.completes,
        }
        self._go_at = math.inf
        if self._temper == "impatient" and not self.is_calm and self._in_a_row < MOST_GIVEN_UP:
            self._go_at = time.monotonic() + self._rng.choice((0.0, 0.002, 0.005, 0.02))
        self.write()  # CONNECT leaves now, whatever the client does next

    def _plan(self) -> Stay:
        """Packets rather than time where it should get on: a busy machine takes its time."""
        rng = self._rng
        if self._temper == "patient":
            return Stay(seconds=rng.uniform(0.02, MOST_S), packets=rng.randrange(5, 150))
        if rng.random() < 0.25:
            return Stay(seconds=MOST_S, packets=rng.randrange(50, 400))
        return Stay(
            seconds=rng.choice((0.0, rng.uniform(0.0, 0.03), rng.uniform(0.0, 0.2), MOST_S)),
            packets=rng.randrange(1, 60),
            acks=rng.choice((math.inf, 0, rng.randrange(1, 8), rng.randrange(1, 40))),
            completes=rng.choice((math.inf, math.inf, 0, rng.randrange(1, 8))),
        )

    def _welcome(self, packet: Packet) -> None:
        super()._welcome(packet)
        now = time.monotonic()
        self.longest_s = max(self.longest_s, now - self._came_at)
        self._go_at = now + self._stay.seconds

    def _handle(self, packet: Packet) -> None:
        self._taken += 1
        super()._handle(packet)

    def _keep(self, packet: Packet) -> None:
        super()._keep(packet)
        self.distinct.add(message_of(packet))

    def _answer(self, type: str, data: bytes) -> None:
        if self._acks[type] > 0:
            self._acks[type] -= 1
            super()._answer(type, data)
        else:
            self.trace.note(self.name, f"withholds {type}")


class _Roaming:
    """Turns of the load until everybody has moved enough."""

    def __init__(self, load: ClusterLoad, readers: list[RoamingReader], moves: int) -> None:
        self._load = load
        self._readers = readers
        self._moves = moves

    def is_over(self) -> bool:
        """Asked in each turn, which is when readers go on."""
        now = time.monotonic()
        for reader in self._readers:
            reader.step(now)
        behind = self._load.acknowledged() - min(len(each.distinct) for each in self._readers)
        for publisher in self._load.publishers:
            publisher.window = WINDOW if behind < BEHIND else 0
        return all(reader.moves >= self._moves for reader in self._readers)


def add_clients(
    load: ClusterLoad, hosts: Mapping[str, str], temper: str, rng: random.Random
) -> None:
    """Who takes part; `hosts` are those of the nodes, by name."""
    addresses: list[Address] = [(host, PORT) for host in hosts.values()]
    publishers = []
    for name, address in zip(hosts, addresses, strict=True):
        for qos in (1, 2):
            publisher = StayingPublisher(f"{name}{qos}", qos, window=WINDOW)
            publisher.choose = Destinations([address], rng).first
            publishers.append(publisher)
    readers = []
    for qos in (1, 2):
        reader = RoamingReader(f"roams-{qos}", qos, temper, rng)
        reader.choose = Destinations(addresses, rng).another
        readers.append(reader)
    load.last.spread = 1
    load.set_clients(publishers, readers)


def run(load: ClusterLoad, moves: int) -> str:
    """So many moves of each subscriber; what was measured."""
    readers = [each for each in load.subscribers if isinstance(each, RoamingReader)]
    for reader in readers:
        reader.start()
    load.run_until(_Roaming(load, readers, moves).is_over, f"{moves} moves of each subscriber")
    for publisher in load.publishers:
        publisher.window = WINDOW
    for reader in readers:
        reader.settle()
    given_up = sum(reader.given_up for reader in readers)
    longest_s = max(reader.longest_s for reader in readers)
    return f"{longest_s:.1f} s the longest wait for CONNACK, {given_up} CONNECTs given up before"


def roam(testbed: Testbed) -> None:
    testbed.said.append(run(testbed.load, testbed.moves))
