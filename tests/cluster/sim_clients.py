"""Clients of a simulated cluster: they come back to any node, and write down what happened.

    client.move("b", 0.2)     its connection is lost; it comes to that node so much later
    publisher.publish(2)      as many messages, if it is connected and not too many are under way

They behave as MQTT 3.1.1 asks of clients with a session to keep: what was not acknowledged is sent
again after a reconnect, and QoS 2 state is forgotten when the broker says that it has none.
"""

import itertools
from typing import Any

from mhub.core.connection import CLOSED
from mhub.wire.reasons import V3_SERVER_UNAVAILABLE as UNAVAILABLE
from tests.cluster.simulation import SimNode, Simulation
from tests.core.world import Client
from tests.helpers import packets as p
from tests.helpers.packets import Packet

NEVER = 1e9


class SimClient:
    clean = False

    def __init__(self, sim: Simulation, name: str) -> None:
        self.sim = sim
        self.name = name
        self.node: SimNode
        self.boot = 0
        self.client: Client | None = None
        self.ready = False
        self.waits_until = 0.0
        self.aim = ""  # the node that it goes to next; "": any
        self.connects = 0
        self.lifetime = 0  # of the session, as far as the client can tell: see read()
        self.began_at = 0.0  # when that began
        self.settled_at: dict[int, float] = {}  # lifetime -> when all nodes were together
        self.split = False  # its lifetime began while another node may have had a session of it
        sim.later(0.2 * sim.noise(name), self._act)

    # Being connected

    def move(self, name: str, wait_s: float) -> None:
        """The connection is lost, answered or not; it comes to that node, if it can."""
        self.lose()
        self.aim = name
        self.waits_until = self.sim.now + wait_s
        self.sim.later(wait_s, self._come)

    def _come(self) -> None:
        if self.client is None:
            self._connect()

    def _act(self) -> None:
        if self.client is not None and (
            self.client.outlet.closed or self.client.connection.state == CLOSED
        ):
            self.drop()
        if self.client is None:
            self._connect()
        else:
            self.read()
        self.sim.later(0.02 + 0.18 * self.sim.noise(self.name), self._act)

    def drop(self) -> None:
        """The connection is gone; it comes back after a moment."""
        self.client = None
        self.ready = False
        self.waits_until = self.sim.now + self.sim.noise(f"{self.name} waits")

    def _connect(self) -> None:
        if self.sim.now < self.waits_until:
            return
        names = sorted(self.sim.nodes)
        name = self.aim or names[int(len(names) * self.sim.noise(f"{self.name} goes"))]
        self.aim = ""
        self.node = self.sim.nodes[name]
        if not self.node.serves:
            return
        self.connects += 1
        self.client = self.node.open()
        self.sim.note(self.name, f"connects to {self.node.name}")
        self.send(p.connect(self.name, 4, clean=self.clean, **self.will()))

    def will(self) -> dict[str, Any]:
        return {}

    def send(self, *data: bytes) -> None:
        if self.client is not None and not self.client.outlet.closed:
            self.node.send(self.client, *data)

    def lose(self) -> None:
        """The network takes the connection away."""
        if self.client is not None:
            if not self.client.outlet.closed:
                self.node.lose(self.client)
            self.drop()

    def read(self) -> None:
        if self.client is None:
            return
        for packet in self.client.take():
            if packet.type == "CONNACK":
                if packet.reason == UNAVAILABLE:
                    continue  # a later CONNECT elsewhere has won; it is closed behind this
                assert packet.reason == 0, packet
                present = bool(packet.session_present)
                if not self.clean and self.connects > 1 and (not present or self.split):
                    # A client that was told of a new session while nodes were apart may find the
                    # old one on the other side: until all are together, each has its lifetime.
                    self.lifetime += 1
                    self.began_at = self.sim.now
                    self.split = True
                self.ready = True
                known = "with" if present else "without"
                self.sim.note(self.name, f"is on {self.node.name} {known} its session")
                self.welcome(present)
            else:
                self.on_packet(packet)

    def welcome(self, present: bool) -> None: ...

    def on_packet(self, packet: Packet) -> None: ...


class Publisher(SimClient):
    def __init__(self, sim: Simulation, name: str, qos: int, retain: bool) -> None:
        super().__init__(sim, name)
        self.qos = qos
        self.retain = retain
        self.sent = 0
        self.waiting: dict[int, int] = {}  # packet id -> number of the message
        self.releasing: dict[int, int] = {}  # the same after PUBREC
        self.sent_at: dict[int, float] = {}
        self.sent_in: dict[int, int] = {}  # in which lifetime
        self.acknowledged: dict[int, float] = {}
        self.may_double: set[int] = set()

    def welcome(self, present: bool) -> None:
        if not present or self.split:
            # The broker cannot know what it has taken of these.
            self.may_double |= set(self.waiting.values())
        if not present:
            self.releasing = {}
        for pid in self.releasing:
            self.send(p.pubrel(pid))
        for pid, number in list(self.waiting.items()):
            self.send(self._packet(pid, number, present))

    def _packet(self, pid: int, number: int, dup: bool) -> bytes:
        payload = f"{self.name} {number}".encode()
        return p.publish(f"t/{self.name}", payload, self.qos, pid, self.retain, dup)

    def publish(self, count: int) -> None:
        for _ in range(count):
            if not self.ready or len(self.waiting) + len(self.releasing) >= 10:
                break
            self.sent += 1
            pid = next(n for n in itertools.count(1) if n not in self.waiting | self.releasing)
            self.waiting[pid] = self.sent
            self.sent_at[self.sent] = self.sim.now
            self.sent_in[self.sent] = self.lifetime
            self.send(self._packet(pid, self.sent, False))

    def on_packet(self, packet: Packet) -> None:
        pid = packet.pid
        assert pid is not None, packet
        if packet.type == "PUBACK":
            self.acknowledged[self.waiting.pop(pid)] = self.sim.now
        elif packet.type == "PUBREC":
            number = self.waiting.pop(pid, None)
            if number is not None:
                self.acknowledged[number] = self.sim.now
                self.releasing[pid] = number
            self.send(p.pubrel(pid))
        elif packet.type == "PUBCOMP":
            self.releasing.pop(pid, None)
        else:
            raise AssertionError(packet)

    def idle(self) -> bool:
        return not self.waiting and not self.releasing


class Subscriber(SimClient):
    def __init__(self, sim: Simulation, name: str, qos: int, topic_filter: str) -> None:
        super().__init__(sim, name)
        self.qos = qos
        self.topic_filter = topic_filter
        self.subscribed = False
        self.subscribed_at = NEVER  # in this lifetime
        self.got: dict[str, list[tuple[int, int]]] = {}  # by publisher: (lifetime, number)
        self.open: set[int] = set()  # QoS 2 packet ids before PUBREL

    def welcome(self, present: bool) -> None:
        if not present:
            self.open = set()
            self.subscribed_at = NEVER
        if self.subscribed_at == NEVER:
            self.send(p.subscribe(1, (self.topic_filter, self.qos)))

    def on_packet(self, packet: Packet) -> None:
        if packet.type == "PUBLISH":
            assert packet.pid is not None
            name, number = packet.payload.decode().split()
            # A retained message comes for the subscription, whether it came before or not.
            if not packet.retain and (packet.qos < 2 or packet.pid not in self.open):
                self.got.setdefault(name, []).append((self.lifetime, int(number)))
            if packet.qos == 1:
                self.send(p.puback(packet.pid))
            else:
                self.open.add(packet.pid)
                self.send(p.pubrec(packet.pid))
        elif packet.type == "PUBREL":
            assert packet.pid is not None
            self.open.discard(packet.pid)
            self.send(p.pubcomp(packet.pid))
        else:
            assert packet.type == "SUBACK", packet
            self.subscribed = True
            self.subscribed_at = self.sim.now


class Mortal(SimClient):
    """It leaves a will each time it connects, and never says goodbye."""

    clean = True

    def __init__(self, sim: Simulation, name: str) -> None:
        super().__init__(sim, name)
        # Number of a connection -> where and when it ended
        self.died: dict[int, tuple[SimNode, int, float]] = {}

    def will(self) -> dict[str, Any]:
        payload = f"{self.name} {self.connects}".encode()
        return {"will": (f"w/{self.name}", payload, 2)}

    def lose(self) -> None:
        if self.client is not None and self.ready and not self.client.outlet.closed:
            self.died[self.connects] = (self.node, self.node.boot, self.sim.now)
        super().lose()
