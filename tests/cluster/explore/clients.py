"""Clients as scripts: what they do is fixed, when they do it is a decision.

A publisher stays at its node; a message is acknowledged to it as soon as the broker does.  The
subscriber goes from node to node, and answers one packet at a decision.
"""

from typing import TYPE_CHECKING

from mhub.core.connection import CLOSED
from tests.core.world import Client
from tests.helpers import packets as p
from tests.helpers.packets import Packet

if TYPE_CHECKING:
    from tests.cluster.explore.cluster import Cluster, Side


class Publisher:
    def __init__(self, cluster: "Cluster", name: str, node: str, qoss: list[int]) -> None:
        self.cluster = cluster
        self.name = name
        self.node = node
        self.qoss = qoss  # of its messages
        self.client: Client | None = None
        self.sent = 0
        self.waiting: dict[int, bool] = {}  # number of a message -> PUBREC came
        self.acknowledged: set[int] = set()
        self.may_double: set[int] = set()

    @property
    def side(self) -> "Side":
        return self.cluster.sides[self.node]

    def connect(self) -> None:
        self.side.enter()
        self.client = self.side.world.open()
        self.client.send(p.connect(self.name, 4))
        self.side.leave()

    def enabled(self) -> list[str]:
        if self.client is None:
            return [f"{self.name}+"] if self.side.node is not None else []
        room = len(self.waiting) < self.cluster.config.publish_window
        return [f"{self.name}+"] if self.sent < len(self.qoss) and room else []

    def act(self) -> None:
        if self.client is None:
            self.connect()
        else:
            self.publish()

    def publish(self) -> None:
        self.sent += 1
        self.waiting[self.sent] = False
        self._send(self._packet(self.sent, False))

    def _packet(self, number: int, dup: bool) -> bytes:
        payload = f"{self.name} {number}".encode()
        qos = self.qoss[number - 1]
        return p.publish(f"t/{self.name}", payload, qos, number, False, dup)

    def _send(self, data: bytes) -> None:
        assert self.client is not None
        self.side.enter()
        self.client.send(data)
        self.side.leave()

    def node_crashed(self, name: str) -> None:
        if name == self.node:
            self.client = None

    def read(self) -> bool:
        """Packets are handled as soon as they come; whether there were any."""
        if self.client is None or not self.client.outlet.data:
            return False
        while self.client.outlet.data:
            self._on_packet(self.client.take())
        return True

    def _on_packet(self, packets: list[Packet]) -> None:
        for packet in packets:
            if packet.type == "CONNACK":
                # It had a clean start: the broker cannot know these.
                for number in list(self.waiting):
                    self.may_double.add(number)
                    if self.waiting[number]:
                        del self.waiting[number]
                    else:
                        self._send(self._packet(number, True))
                continue
            number = packet.pid
            assert number is not None, packet
            if packet.type == "PUBREC":
                self.acknowledged.add(number)
                self.waiting[number] = True
                self._send(p.pubrel(number))
            else:
                assert packet.type in ("PUBACK", "PUBCOMP"), packet
                self.acknowledged.add(number)
                self.waiting.pop(number, None)

    def idle(self) -> bool:
        return self.client is not None and self.sent == len(self.qoss) and not self.waiting


class Subscriber:
    def __init__(self, cluster: "Cluster", name: str, route: str) -> None:
        self.cluster = cluster
        self.name = name
        self.route = list(route)  # nodes that it goes to
        self.node = ""
        self.client: Client | None = None
        self.ready = False
        self.subscribed = False
        self.connects = 0
        self.returns = 1  # so often it goes back to where it was, if where it goes is down
        self.apart = False  # nodes were apart when it connected
        self.lifetime = 0
        self.split = False  # it was told of a new session, and another node may have the old one
        self.open: set[int] = set()  # QoS 2 packet ids before PUBREL
        self.got: dict[str, list[int]] = {}  # in this lifetime, by publisher
        self.ever: dict[str, set[int]] = {}
        self.late: dict[str, int] = {}  # up to this number it is from before this lifetime
        self.unsure: dict[str, int] = {}  # up to this number it may have been lost

    # What it can do

    def enabled(self) -> list[str]:
        config = self.cluster.config
        found = []
        client = self.client
        if client is not None and client.outlet.data:
            found.append("s.")
        gone = client is None or client.outlet.closed or client.connection.state == CLOSED
        if client is not None and (self.route or gone):
            if gone or self.ready or not config.patient:
                if not config.takeover or gone:
                    found.append("s-")
                elif self.cluster.sides[self.route[0]].node is not None:
                    found.append(f"s+{self.route[0]}")
        if client is None:
            to = self.route[0] if self.route else self.node
            if self.cluster.sides[to].node is not None:
                found.append(f"s+{to}")
            elif to != self.node and self.cluster.sides[self.node].node is not None:
                if self.returns:
                    found.append(f"s+{self.node}")
        return found

    def act(self, what: str, node: str) -> None:
        if what == "-":
            self._leave()
        elif what == "+":
            if self.route and self.route[0] == node:
                del self.route[0]
            elif self.route:
                self.returns -= 1
            self.connect(node)
        else:
            self._read_one()

    def _leave(self) -> None:
        client = self.client
        self.client = None
        self.ready = False
        side = self.cluster.sides[self.node]
        if client is not None and not client.outlet.closed and side.node is not None:
            side.enter()
            client.lose()
            side.leave()

    def connect(self, node: str) -> None:
        self.node = node
        self.connects += 1
        self.ready = False
        side = self.cluster.sides[node]
        self.apart = self._is_apart()
        side.enter()
        self.client = side.world.open()
        self.client.send(p.connect(self.name, 4, clean=False))
        side.leave()

    def _is_apart(self) -> bool:
        """Whether its node cannot ask all others: only then it may be told of a new session."""
        node = self.cluster.sides[self.node].node
        assert node is not None
        members = list(node.members.values())
        everybody = len(members) == len(self.cluster.sides) - 1
        return not everybody or not all(each.peer.up and each.has_table for each in members)

    def node_crashed(self, name: str) -> None:
        if name == self.node:
            self.client = None
            self.ready = False

    # What it reads

    def read(self) -> bool:
        """What it reads at once: how its CONNECT and SUBSCRIBE came out, or all that comes."""
        self._look_around()
        found = False
        while self.client is not None and self.client.outlet.data:
            kind = self.client.outlet.data[0] >> 4
            acks = self.cluster.config.acks
            if kind in (2, 9) or acks == "eager" or (acks == "publish" and kind == 6):
                self._read_one()
                found = True
            else:
                break
        return found

    def _look_around(self) -> None:
        """Until all nodes are together and one session is left, nodes may not know of it: what is
        published there goes to an older one first, and comes late."""
        if not self.split or not self.ready:
            return
        self.late = {each.name: each.sent for each in self.cluster.publishers}
        sides = self.cluster.sides.values()
        count = len(self.cluster.sides) - 1
        if all(s.node is not None and len(s.node.links) == count for s in sides):
            nodes = [s.node for s in sides if s.node is not None]
            if all(m.has_table for node in nodes for m in node.members.values()):
                sessions = [1 for node in nodes if "s" in node.hub.sessions]
                if len(sessions) == 1 and not any(node.migration.sources for node in nodes):
                    self.split = False

    def _read_one(self) -> None:
        assert self.client is not None
        packet = self.client._pop()
        assert packet is not None
        self._on_packet(packet)

    def _send(self, data: bytes) -> None:
        client = self.client
        if client is not None and not client.outlet.closed:
            side = self.cluster.sides[self.node]
            side.enter()
            client.send(data)
            side.leave()

    def _on_packet(self, packet: Packet) -> None:
        if packet.type == "CONNACK":
            self._welcome(packet)
        elif packet.type == "SUBACK":
            self.subscribed = True
            self.unsure = {each.name: each.sent for each in self.cluster.publishers}
        elif packet.type == "PUBLISH":
            assert packet.pid is not None
            name, number = packet.payload.decode().split()
            if packet.qos < 2 or packet.pid not in self.open:
                self._note(name, int(number), packet.qos)
            if packet.qos == 1:
                self._send(p.puback(packet.pid))
            elif packet.qos == 2:
                self.open.add(packet.pid)
                self._send(p.pubrec(packet.pid))
        else:
            assert packet.type == "PUBREL" and packet.pid is not None, packet
            self.open.discard(packet.pid)
            self._send(p.pubcomp(packet.pid))

    def _welcome(self, packet: Packet) -> None:
        wrong = self.cluster.wrong
        if packet.reason != 0:
            wrong.append(f"CONNACK with reason {packet.reason}")
            return
        present = bool(packet.session_present)
        self.ready = True
        config = self.cluster.config
        excused = config.excused and (self.apart or self._is_apart() or self.split)
        excused = excused or (config.gaps and self.cluster.is_disturbed())
        if self.connects > 1 and not present and not excused:
            wrong.append(f"Session Present 0 at {self.node}")
        if self.connects > 1 and (not present or self.split):
            self.lifetime += 1
            self.got = {}
            self.split = True
            self.late = {each.name: each.sent for each in self.cluster.publishers}
        if not present:
            self.open = set()
            self.subscribed = False
            self.unsure = {each.name: 1 << 30 for each in self.cluster.publishers}
            self._send(p.subscribe(1, ("t/#", 2)))

    def _note(self, name: str, number: int, qos: int) -> None:
        """A message: is it one that may come now?"""
        publisher = next(each for each in self.cluster.publishers if each.name == name)
        before = self.got.setdefault(name, [])
        self.ever.setdefault(name, set()).add(number)
        if number > self.late.get(name, 0) and number not in publisher.may_double:
            if number in before:
                if qos == 2:
                    self.cluster.wrong.append(f"{name} {number} came twice")
            elif before and number < max(before):
                self.cluster.wrong.append(f"{name} {number} came behind {name} {max(before)}")
        if number not in before:
            before.append(number)

    def missed(self) -> list[str]:
        wrong = []
        for publisher in self.cluster.publishers:
            ever = self.ever.get(publisher.name, set())
            sure = self.unsure.get(publisher.name, 0)
            lost = [n for n in sorted(publisher.acknowledged) if n not in ever and n > sure]
            if lost:
                wrong.append(f"{publisher.name} {lost} lost")
        return wrong
