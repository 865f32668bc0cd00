"""A whole cluster in one process: hubs, nodes and stores, with a clock and a network of the test's.

    sim = Simulation(seed, names)    how long everything takes comes from the seed, see noise()
    sim.run(seconds)                 events in the order of their times
    sim.nodes["a"].crash() / .start()
    sim.nodes["a"].crash(keep, zeros)    so much of what was not synced is on its disk
    sim.cut("a", "b")                the link breaks; what was under way is lost
    sim.split({"a"}, {"b", "c"})     nothing passes, and nobody is told; sim.heal() ends it

What a node had on its disk survives a crash, as far as it was synced; of the rest a part from the
beginning, which may end in the middle of a batch (`tests.core.files`).  A node that starts has what
is in the file.  Each node has its own idea of the time of day.

If the stores are `shared`, nodes take over from each other: a while after a crash another one
starts the node in its own place, without clients, to drain it.  Until that is over, the node itself
cannot start.
"""

import hashlib
import heapq
import itertools
import random
from collections import deque
from collections.abc import Callable
from typing import Any

from mhub.cluster.detector import FailedNodeDetector
from mhub.cluster.drain import GOING, Drain
from mhub.cluster.node import Node, NodeSettings
from mhub.core.connection import CLOSED
from mhub.core.events import NODE, Event
from mhub.core.hlc import Clock
from mhub.core.limits import Limits, PeerLimits
from mhub.core.peers import Peers
from mhub.store.memory import MemoryStore
from tests.core.disk import EPOCH, FileDisk
from tests.core.files import File
from tests.core.world import START, Client, World

TICK_S = 0.25
LEASE_S = 3.0
JOIN_S = 15.0
MOMENT_S = 0.002
"""For so long the noise is the same."""


class LinkEnd:
    """One end of a link."""

    def __init__(self, sim: "Simulation", owner: "SimNode", far: "SimNode", dialled: bool) -> None:
        self.sim = sim
        self.owner = owner
        self.boot = owner.boot
        self.far = far
        self.far_name = far.name
        self.dialled = dialled
        self.address = far.address
        self.closed = False
        self.lost = False
        self.other: LinkEnd
        self.coming: deque[tuple[int, bytes] | None] = deque()  # None: the other end is closed
        self.last_at = 0.0

    def send(self, kind: int, body: bytes) -> None:
        if not self.closed:
            for frame in self.sim.as_sent(self.owner, kind, body):
                self.sim.stats["frames"] += 1
                self.other.arrives(frame)

    def close(self, text: str) -> None:
        if not self.closed:
            self.closed = True
            self.other.arrives(None)

    def arrives(self, frame: tuple[int, bytes] | None) -> None:
        """Something is on its way to this end."""
        self.coming.append(frame)
        delay = self.sim.delay(f"{self.far_name}>{self.owner.name}")
        self.last_at = max(self.last_at, self.sim.now + delay)
        self.sim.at(self.last_at, self._arrive)

    def _arrive(self) -> None:
        if self.lost or not self.coming:
            return
        if self.sim.apart(self.owner.place, self.far.place):
            self.sim.at(self.sim.now + 0.1, self._arrive)
            return
        frame = self.coming.popleft()
        if self.closed or self.owner.boot != self.boot or self.owner.node is None:
            return
        if frame is None:
            self.break_off("the other side closed it")
        else:
            self.owner.enter()
            self.owner.node.received(self, *frame)
            self.owner.leave()

    def break_off(self, text: str) -> None:
        self.lost = True
        if not self.closed and self.owner.boot == self.boot and self.owner.node is not None:
            self.closed = True
            self.owner.enter()
            self.owner.node.lost(self, text)
            self.owner.leave()


class SimNode:
    def __init__(self, sim: "Simulation", name: str, durable: bool, skew_s: float) -> None:
        self.sim = sim
        self.name = name
        self.address = f"{name}:7883"
        self.skew_s = skew_s
        self.durable = durable
        self.file = File()
        self.store = MemoryStore()  # what the file says, while the node is up
        self.boot = 0
        self.node: Node | None = None
        self.world: World
        self.disk: FileDisk | None = None
        self.clients: list[Client] = []
        self.host: SimNode | None = None  # who takes over from it
        self.free_at = 0.0  # when the lease of its store lapses, if it does not run
        self._joined = False
        self._began_at = 0.0
        self._drain: Drain | None = None
        self._detector: FailedNodeDetector | None = None
        self._stepping = False
        self.lines: list[str] = []

    @property
    def up(self) -> bool:
        return self.node is not None

    @property
    def serves(self) -> bool:
        """Whether clients may come."""
        return self.node is not None and self.host is None and self._is_complete()

    def _is_complete(self) -> bool:
        """With shared stores a node waits for what all have, but not for ever."""
        if self.sim.shared and not self._joined and self.node is not None:
            late = self.sim.now >= self._began_at + JOIN_S
            self._joined = self.node.complete() or late
        return self._joined or not self.sim.shared

    @property
    def place(self) -> str:
        """Where in the network it is."""
        return self.name if self.host is None else self.host.name

    def clock(self) -> float:
        return START + self.sim.now

    def come(self) -> None:
        """Start, as soon as nobody else has its store."""
        if self.node is not None and self.host is None:
            return
        if self.node is not None or self.sim.now < self.free_at:
            self.sim.later(TICK_S, self.come)
        else:
            self.start()

    def start(self, host: "SimNode | None" = None) -> None:
        self.boot += 1
        self.host = host
        self._joined = False
        self._began_at = self.sim.now
        sim = self.sim
        self.world = World(sys_interval_s=0.0)
        self.world.now = self.clock()
        instance = f"{self.name}{self.boot}"
        tokens = itertools.count(1)
        hub = self.world.hub
        hub.token = lambda: f"{instance}-{next(tokens)}"
        hub.events.sinks.append(self)
        hub.tick(self.world.now)
        settings = NodeSettings("sim", self.name, self.address)
        settings.instance = instance
        settings.version = "0"
        settings.dead_s = 6.0
        settings.retry_max_s = 3.0
        self.change(settings)
        if sim.shared:
            settings.shared_store = "sim"
            settings.host = host.name if host is not None else ""
        chance = random.Random(f"{sim.seed} {instance}")
        node = Node(hub, settings, self, self.clock, chance, self.log, self.limits)
        epoch = EPOCH + self.skew_s
        peers = Peers(hub, self.name, Clock(self.name, epoch), node, PeerLimits())
        hub.join(peers)
        self._stepping = False
        if self.durable:
            self.disk = sim.make_disk(self.world, self.file)
            self.store = self.disk.store
            sim.stats["torn"] += self.disk.journal.torn
        node.seeds = [other for other in sim.addresses if other != self.address]
        node.recall()
        self.node = node
        if sim.shared and host is None:
            chance = random.Random(f"{sim.seed} {instance} detector")
            self._detector = FailedNodeDetector(node, LEASE_S, chance)
        if host is not None and host.node is not None:
            self._drain = Drain(node, host.node)
        self._tick(self.boot)
        self.leave()

    def limits(self, name: str) -> Limits:
        return Limits()

    def change(self, settings: NodeSettings) -> None:
        """For a test that wants them otherwise."""

    def emit(self, event: Event) -> None:
        """What its hub tells of other nodes is a part of the history."""
        if event.kind == NODE:
            self.log(f"{event.node} is {event.cause}: {event.text}")

    def log(self, text: str) -> None:
        self.lines.append(f"{self.sim.now:.2f} {text}")
        self.sim.note(self.name, text)

    def crash(self, keep: float = 0.0, zeros: bool = False) -> None:
        """Nothing of it is left but its disk, see File.lose()."""
        unsynced = len(self.file.unsafe)
        text = "crashes" if self.host is None else "crashes as a failover"
        self.sim.note(self.name, f"{text} with {keep:.2f} of {unsynced} bytes not synced")
        self.file.lose(keep, zeros)
        self.node = None
        self.boot += 1
        self.free_at = self.sim.now + LEASE_S
        if self.host is not None and self.host._detector is not None:
            self.host._detector.failed(self.name, self.clock())
        self.host = None
        self._drain = None
        self._detector = None
        for other in self.sim.nodes.values():
            if other.host is self:
                other.crash()
        for client in self.clients:
            client.outlet.closed = True
        self.clients = []
        for link in self.sim.links:
            if link.owner is self and not link.closed:
                link.closed = True
                link.other.arrives(None)
        self.sim.links = [c for c in self.sim.links if c.owner is not self]

    # Standing in for each other

    def _look(self, detector: FailedNodeDetector) -> None:
        """Whether somebody is gone."""
        for name in detector.due(self.clock()):
            other = self.sim.nodes[name]
            if other.node is not None or self.sim.now < other.free_at:
                detector.failed(name, self.clock())
            else:
                self.sim.note(self.name, f"takes over from {name}")
                other.start(self)

    def _hand_over(self, drain: Drain) -> None:
        self.enter()
        came_to = drain.step()
        self.leave()
        if came_to != GOING:
            self.sim.note(self.name, f"the failover ends: {came_to}")
            self._drain = None
            boot = self.boot
            self.sim.later(0.2, lambda: self._end(boot))

    def _end(self, boot: int) -> None:
        """A failover that has handed over what it could."""
        host = self.host
        if boot != self.boot or self.node is None or host is None:
            return
        self.node.close()
        self.crash()
        self.free_at = self.sim.now
        if host._detector is not None:
            host._detector.ended(self.name, self.clock())

    # A turn

    def enter(self) -> None:
        self.world.now = self.clock()
        self.world.hub.now = self.world.now

    def leave(self) -> None:
        """The end of something that happened: what the hub put off goes on, the disk works."""
        if self.node is None:
            return
        self.world.settle()
        if self.disk is not None and self.disk.busy() and not self._stepping:
            self._stepping = True
            boot = self.boot
            delay = 0.001 + 0.049 * self.sim.noise(f"disk {self.name}")
            self.sim.later(delay, lambda: self._step(boot))

    def _step(self, boot: int) -> None:
        if boot != self.boot or self.disk is None:
            return
        self._stepping = False
        self.enter()
        self.disk.step()
        self.leave()

    def _tick(self, boot: int) -> None:
        if boot != self.boot or self.node is None:
            return
        self.enter()
        self.world.hub.tick(self.world.now)
        self.node.tick(self.world.now)
        self.world.hub.flush()
        self.leave()
        self.sim.at(self.sim.now + TICK_S, lambda: self._tick(boot))
        if self._detector is not None:
            self._look(self._detector)
        if self._drain is not None:
            self._hand_over(self._drain)

    # Dialer

    def dial(self, address: str) -> None:
        boot = self.boot
        delay = self.sim.delay(f"{self.name} dials {address}")
        self.sim.later(2 * delay, lambda: self._dial(address, boot))

    def _dial(self, address: str, boot: int) -> None:
        node = self.node
        if boot != self.boot or node is None:
            return
        far = self.sim.nodes[address.split(":")[0]]
        # Who only takes over from a node does not listen.
        if far.host is not None or far.node is None or self.sim.apart(self.place, far.place):
            text = "no answer"
        else:
            text = far.node.refusal(node.hello()) or node.refusal(far.node.hello())
        if text or far.node is None:
            self.enter()
            node.dial_failed(address, text)
            self.leave()
            return
        here, there = LinkEnd(self.sim, self, far, True), LinkEnd(self.sim, far, self, False)
        here.other, there.other = there, here
        self.sim.links += [here, there]
        ours, theirs = node.hello(), far.node.hello()
        far.enter()
        far.node.opened(there, ours)
        far.leave()
        self.enter()
        node.opened(here, theirs)
        self.leave()

    # Clients

    def open(self, version: int = 4, **limits: Any) -> Client:
        self.enter()
        client = self.world.open(version, **limits)
        self.clients = [c for c in self.clients if c.connection.state != CLOSED]
        self.clients.append(client)
        return client

    def send(self, client: Client, *data: bytes) -> None:
        self.enter()
        client.send(*data)
        self.leave()

    def lose(self, client: Client) -> None:
        self.enter()
        client.lose()
        self.leave()


def node_of(side: SimNode) -> Node:
    """The node of a side that is up."""
    assert side.node is not None
    return side.node


class Simulation:
    def __init__(
        self,
        seed: int,
        names: str = "abc",
        durable: bool = True,
        skew_s: float = 30.0,
        shared: bool = False,
    ) -> None:
        self.seed = seed
        self.shared = shared
        self.now = 0.0
        self.slow = 0.01
        self.stats = {"frames": 0, "torn": 0}
        self.make_disk: Callable[[World, File], FileDisk] = FileDisk
        self.history: list[str] = []
        self.links: list[LinkEnd] = []
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._tags = itertools.count(1)
        self._groups: list[set[str]] = []
        self.nodes = {
            name: SimNode(self, name, durable, skew_s * (2 * self.noise(f"skew {name}") - 1))
            for name in names
        }
        self.addresses = [node.address for node in self.nodes.values()]

    def next_tag(self) -> int:
        return next(self._tags)

    def note(self, who: str, text: str) -> None:
        self.history.append(f"{self.now:8.3f} {who}: {text}")

    def start(self) -> None:
        for node in self.nodes.values():
            node.start()

    def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        """For a test that wants it otherwise."""
        return [(kind, body)]

    def noise(self, what: str) -> float:
        """A number from 0.0 to 1.0 by chance, but for one thing at one time always the same.

        So it does not depend on how often anybody asked before: what takes long still does if the
        code that is tested does more or less meanwhile.
        """
        key = f"{self.seed} {what} {int(self.now / MOMENT_S)}"
        found = hashlib.blake2b(key.encode(), digest_size=7).digest()
        return int.from_bytes(found, "little") / (1 << 56)

    def delay(self, link: str) -> float:
        return 0.0005 + (self.slow - 0.0005) * self.noise(link)

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.at(self.now + seconds, what)

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self._events and self._events[0][0] <= end:
            self.now, _, what = heapq.heappop(self._events)
            what()
        self.now = end

    # Faults

    def apart(self, one: str, other: str) -> bool:
        return any((one in group) != (other in group) for group in self._groups)

    def split(self, *groups: set[str]) -> None:
        self.note("sim", "split " + " | ".join("".join(sorted(group)) for group in groups))
        self._groups = list(groups)

    def heal(self) -> None:
        if self._groups:
            self.note("sim", "healed")
        self._groups = []

    def cut(self, one: str, other: str) -> None:
        """The link between two nodes breaks, with all that is on its way."""
        self.note("sim", f"cut {one}-{other}")
        for link in list(self.links):
            if link.owner.name == one and link.far_name == other and not link.closed:
                link.break_off("reset")
                link.other.break_off("reset")

    def whole(self) -> bool:
        """Whether all nodes are up and know each other."""
        count = len(self.nodes) - 1
        return not self._groups and all(
            node.node is not None
            and len(node.node.links) == count
            and all(member.state == "up" for member in node.node.members.values())
            for node in self.nodes.values()
        )
