"""Clients as scripts: what they do is fixed, when they do it is a decision.

A publisher stays at its node, or goes from node to node with its session; a message is acknowledged
to it as soon as the broker does.  The subscriber goes from node to node, and answers one packet at
a decision.
"""

from typing import TYPE_CHECKING

from mhub.core.connection import CLOSED
from mhub.wire.reasons import V3_SERVER_UNAVAILABLE as UNAVAILABLE
from tests.core.world import Client
from tests.helpers import packets as p
from tests.helpers.packets import Packet

if TYPE_CHECKING:
    from tests.cluster.explore.cluster import Cluster, Side


class Publisher:
    def __init__(
        self, cluster: "Cluster", name: str, node: str, qoss: list[int], moves: str
    ) -> None:
        self.cluster = cluster
        self.moves = list(moves)  # nodes that it goes to
        self.lasting = bool(moves)
        self.name = name
        self.topic = f"t/{name}"
        self.node = node
        self.qoss = qoss  # of its messages
        self.client: Client | None = None
        self.ready = False
        self.sent = 0
        self.waiting: dict[int, bool] = {}  # number of a message -> PUBREC came
        self.acknowledged: set[int] = set()
        self.may_double: set[int] = set()

    @property
    def side(self) -> "Side":
        return self.cluster.sides[self.node]

    def connect(self) -> None:
        self.side.enter()
        self.ready = False
        self.client = self.side.world.open()
        self.client.send(p.connect(self.name, 4, clean=not self.lasting))
        self.side.leave()

    def enabled(self) -> list[str]:
        if self.client is None:
            to = self.moves[0] if self.moves else self.node
            word = f"{self.name}+{to}" if self.moves else f"{self.name}+"
            return [word] if self.cluster.sides[to].node is not None else []
        if self.client.outlet.closed:
            return [f"{self.name}-"]
        if not self.ready:
            return []
        found = [f"{self.name}-"] if self.moves else []
        room = len(self.waiting) < self.cluster.config.publish_window
        return [*found, f"{self.name}+"] if self.sent < len(self.qoss) and room else found

    def act(self, what: str) -> None:
        if what == "-":
            self._leave()
        elif self.client is None:
            if self.moves:
                self.node = self.moves.pop(0)
            self.connect()
        else:
            self.publish()

    def _leave(self) -> None:
        client = self.client
        self.client = None
        if client is not None and not client.outlet.closed and self.side.node is not None:
            self.side.enter()
            client.lose()
            self.side.leave()

    def publish(self) -> None:
        self.sent += 1
        self.cluster.subscriber.is_published(self)
        self.waiting[self.sent] = False
        self._send(self._packet(self.sent, False))

    def _packet(self, number: int, dup: bool) -> bytes:
        payload = f"{self.name} {number}".encode()
        qos = self.qoss[number - 1]
        return p.publish(self.topic, payload, qos, number, False, dup)

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
            if packet.type == "CONNACK" and packet.reason == UNAVAILABLE:
                continue  # a later CONNECT elsewhere has won; it is closed behind this
            if packet.type == "CONNACK":
                self.ready = True
                for number in list(self.waiting):
                    if not packet.session_present:
                        self.may_double.add(number)  # the broker cannot know it
                    if not self.waiting[number]:
                        self._send(self._packet(number, True))
                    elif packet.session_present:
                        self._send(p.pubrel(number))
                    else:
                        del self.waiting[number]
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
        is_done = self.sent == len(self.qoss) and not self.waiting
        return self.client is not None and self.ready and is_done


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
        self.connected_at = 0.0
        self.delayed = False  # a CONNECT of it was not answered in time
        self.lifetime = 0
        self.split = False  # it was told of a new session, and another node may have the old one
        self.began = 0  # the epoch with which the session began that it has, or had
        self.told = 0  # ... and that of which it was told that it is new
        self.open: set[int] = set()  # QoS 2 packet ids before PUBREL
        self.got: dict[str, list[int]] = {}  # in this lifetime, by publisher
        self.ever: dict[str, set[int]] = {}
        self.late: dict[str, int] = {}  # up to this number it is from before this lifetime
        # What may be lost, as a new session without a subscription may have been there, and what
        # of it is excused: it was told of a new one since
        self.doubtful: dict[str, set[int]] = {}
        self.unsure: dict[str, set[int]] = {}
        self.asked: dict[str, int] = {}  # how many there were when it was still known to have one
        self.sure = False  # it is known to have a subscription
        self.known = False  # ... and so do all nodes
        self.has_added = False

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
            self.leave()
        elif what == "+":
            if self.route and self.route[0] == node:
                del self.route[0]
            elif self.route:
                self.returns -= 1
            self.connect(node)
        else:
            self._read_one()

    def leave(self) -> None:
        self.delayed = self._is_delayed()
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
        self.connected_at = self.cluster.now
        if self.sure:
            self.asked = {each.name: each.sent for each in self.cluster.publishers}
        self.sure = False
        side.enter()
        self.client = side.world.open()
        self.client.send(p.connect(self.name, 4, clean=False))
        side.leave()

    def _is_delayed(self) -> bool:
        """Whether a node may have given it a new session, known to it or not."""
        return self.delayed or (not self.ready and self.cluster.now > self.connected_at)

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
        self.known = self.known or (self.sure and self.cluster.is_together())
        self._look_around()
        self._look_if_closed()
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
        """Until all nodes are together, some may not know of its session: what is published there
        goes to an older one first, and comes late."""
        if not self.split or not self.ready:
            return
        self.late = {each.name: each.sent for each in self.cluster.publishers}
        if self.began == self.told and self.cluster.is_together():
            self.split = False

    def _look_if_closed(self) -> None:
        """A node may close its connection only for a CONNECT with a higher epoch, or a gap."""
        client = self.client
        config = self.cluster.config
        if client is None or not client.outlet.closed or config.excused or config.gaps:
            return
        if self.cluster.highest_epoch <= client.connection.epoch:
            self.cluster.wrong.append(f"its connection to {self.node} was closed")

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
        elif packet.type == "SUBACK" and packet.pid == 2:
            self.has_added = True
        elif packet.type == "SUBACK":
            self.subscribed = True
            self.known = False
            if self.cluster.config.gaps:
                self.asked = {}
            self._is_sure()
            for name, numbers in self.doubtful.items():
                self.unsure.setdefault(name, set()).update(numbers)
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
        if packet.reason == UNAVAILABLE:
            return  # a later CONNECT elsewhere has won; it is closed behind this
        if packet.reason != 0:
            wrong.append(f"CONNACK with reason {packet.reason}")
            return
        present = bool(packet.session_present)
        config = self.cluster.config
        self.delayed = self._is_delayed()
        self.ready = True
        apart = self.apart or self._is_apart() or self.split
        excused = config.excused and (apart or self.delayed)
        if (config.gaps or config.times) and not config.scripted:
            excused = excused or self.cluster.is_disturbed()
        if self.connects > 1 and not present and not excused:
            wrong.append(f"Session Present 0 at {self.node}")
        session = self.cluster.sides[self.node].world.hub.sessions.get(self.name)
        began = session.began if session is not None else self.began
        is_same = present and began == self.began
        if self.connects > 1 and not is_same and not excused:
            wrong.append(f"another session at {self.node}")
        self.began = began
        if not present:
            self.told = began
            self.delayed = False
        if self.connects > 1 and (not is_same or self.split):
            self.lifetime += 1
            self.got = {}
            self.split = True
            self.late = {each.name: each.sent for each in self.cluster.publishers}
        if not present:
            self.open = set()
            self.subscribed = False
        if self.subscribed:
            self._is_sure()
        else:
            self._send(p.subscribe(1, ("t/p" if config.adds else "t/#", 2)))
        if self.connects > 1 and config.adds and not self.has_added:
            self._send(p.subscribe(2, (config.adds, 2)))

    def is_published(self, publisher: Publisher) -> None:
        """Nodes that were apart when it subscribed do not know of it before they are together."""
        is_missing = publisher.topic == self.cluster.config.adds and not self.has_added
        if is_missing or (not self.known and publisher.node != self.node):
            self.unsure.setdefault(publisher.name, set()).add(publisher.sent)

    def _is_sure(self) -> None:
        self.sure = True
        for each in self.cluster.publishers:
            numbers = range(self.asked.get(each.name, 0) + 1, each.sent + 1)
            self.doubtful.setdefault(each.name, set()).update(numbers)

    def _note(self, name: str, number: int, qos: int) -> None:
        """A message: is it one that may come now?"""
        publisher = next(each for each in self.cluster.publishers if each.name == name)
        before = self.got.setdefault(name, [])
        self.ever.setdefault(name, set()).add(number)
        if number > self.late.get(name, 0) and number not in publisher.may_double:
            if number in before:
                if qos == 2:
                    self.cluster.wrong.append(f"{name} {number} came twice")
            else:
                # One of QoS 2 waits until its packet id is safe: order is promised for each QoS.
                later = [n for n in before if n > number and publisher.qoss[n - 1] == qos]
                if later:
                    self.cluster.wrong.append(f"{name} {number} came behind {name} {max(later)}")
        if number not in before:
            before.append(number)

    def missed(self) -> list[str]:
        wrong = ["it was not told of another session"] if self.began != self.told else []
        for publisher in self.cluster.publishers:
            ever = self.ever.get(publisher.name, set())
            unsure = self.unsure.get(publisher.name, set())
            lost = sorted(publisher.acknowledged - ever - unsure)
            if lost:
                wrong.append(f"{publisher.name} {lost} lost")
        return wrong
