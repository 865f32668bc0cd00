"""A cluster in which nothing happens by itself: enabled() lists what can, do() does it.

Frames of one directed link keep their order; everything else may come in any order.  What no order
can matter for happens at once: frames of the retained fill, of the registry and of membership
(INVISIBLE), reads by clients that acknowledge eagerly, a disk that a configuration makes eager.
"""

from collections import deque
from random import Random
from typing import Any

from mhub.cluster import frames
from mhub.cluster.migration.exchange import TOOK
from mhub.cluster.migration.given import NOTE as GIVEN
from mhub.cluster.migration.intakes import CLOSED, GATES
from mhub.cluster.migration.source import ENDED_NOTE
from mhub.cluster.node import Node, NodeSettings
from mhub.core.hlc import Clock
from mhub.core.limits import Limits, PeerLimits
from mhub.core.peers import Peers
from mhub.core.restore import ARRIVING
from mhub.store.memory import MemoryStore
from tests.cluster.explore.clients import Publisher, Subscriber
from tests.cluster.explore.configs import Config
from tests.core.disk import EPOCH, Disk
from tests.core.world import START, World

INVISIBLE = frozenset(
    {
        frames.PING,
        frames.PONG,
        frames.MEMBERS,
        frames.DIGESTS,
        frames.HAVE,
        frames.RETAINED,
        frames.FILLED,
        frames.REGISTRY_DIGESTS,
        frames.REGISTRY_HAVE,
        frames.REGISTRY_ENTRIES,
        frames.REGISTRY_FILLED,
        frames.REGISTRY_TAKEN,
        frames.REGISTRY_DROP,
    }
)

NOTES = (TOOK, ENDED_NOTE, GIVEN, GATES, CLOSED, ARRIVING)
"""Notes of sessions that migrate begin so."""

KINDS = {value: name for name, value in vars(frames).items() if name.isupper()}

Frame = tuple[int, bytes]


class End:
    """One end of a link."""

    def __init__(self, owner: "Side", far: "Side", dialled: bool) -> None:
        self.owner = owner
        self.far = far
        self.boot = owner.boot
        self.dialled = dialled
        self.address = far.address
        self.closed = False  # nothing more leaves or enters here
        self.broken = False  # nothing more reaches this end, but what is under way may
        self.coming: deque[Frame] = deque()
        self.other: End

    def send(self, kind: int, body: bytes) -> None:
        if not self.closed and not self.broken and not self.other.closed:
            self.other.coming.append((kind, body))

    def close(self, text: str) -> None:
        self.closed = True
        self.coming.clear()
        self.other.broken = True


class Tokens:
    def __init__(self, instance: str) -> None:
        self._instance = instance
        self._last = 0

    def __call__(self) -> str:
        self._last += 1
        return f"{self._instance}-{self._last}"


class Side:
    """A node with its disk, up or down."""

    def __init__(self, cluster: "Cluster", name: str, skew_s: float) -> None:
        self.cluster = cluster
        self.name = name
        self.skew_s = skew_s
        self.address = f"{name}:7883"
        self.store = MemoryStore()
        self.boot = 0
        self.node: Node | None = None
        self.world: World
        self.disk: Disk | None = None
        self.ends: dict[str, End] = {}  # by the name of the far side

    def clock(self) -> float:
        return START + self.cluster.now

    def start(self) -> None:
        self.boot += 1
        config = self.cluster.config
        self.world = World(sys_interval_s=0.0)
        self.world.now = self.clock()
        hub = self.world.hub
        instance = f"{self.name}{self.boot}"
        hub.token = Tokens(instance)
        hub.tick(self.world.now)
        settings = NodeSettings("explored", self.name, self.address)
        settings.instance = instance
        settings.version = "0"
        node = Node(hub, settings, self, self.clock, Random(1), self.log, self.limits)
        clock = Clock(self.name, EPOCH + self.skew_s)
        hub.join(Peers(hub, self.name, clock, node, PeerLimits()))
        self.disk = Disk(self.world, self.store, config.window) if config.durable else None
        node.recall()
        self.node = node
        self.ends = {}
        self.tick()

    def limits(self, name: str) -> Limits:
        return Limits()

    def log(self, text: str) -> None:
        pass

    def dial(self, address: str) -> None:
        """Links are made by the cluster."""

    def crash(self) -> None:
        self.node = None
        self.disk = None
        self.boot += 1
        for end in self.ends.values():
            end.close("it crashed")
        self.ends = {}

    def enter(self) -> None:
        self.world.now = self.clock()
        self.world.hub.now = self.world.now

    def leave(self) -> None:
        if self.node is not None:
            self.world.hub.flush()
            self.world.settle()

    def tick(self) -> None:
        """As if heartbeats had come all the time."""
        node = self.node
        assert node is not None
        self.enter()
        for member in node.links.values():
            member.received_at = member.pinged_at = self.world.now
        self.world.hub.tick(self.world.now)
        node.tick(self.world.now)
        self.leave()

    def receive(self, far: str) -> None:
        end = self.ends[far]
        kind, body = end.coming.popleft()
        assert self.node is not None
        self.enter()
        self.node.received(end, kind, body)
        self.leave()

    def lose(self, far: str) -> None:
        """Notice that a link is gone."""
        end = self.ends.pop(far)
        assert self.node is not None
        if not end.closed:
            end.close("reset")
            self.enter()
            self.node.lost(end, "reset")
            self.leave()


class Cluster:
    def __init__(self, config: Config) -> None:
        self.config = config
        self.now = 0.0
        self.sides = {name: Side(self, name, config.skews.get(name, 0.0)) for name in config.nodes}
        self.publishers = [
            Publisher(self, name, node, list(qoss), config.moves if name == "p" else "")
            for name, (node, qoss) in config.publishers.items()
        ]
        self.subscriber = Subscriber(self, "s", config.route)
        self.cuts = list(config.cuts)
        self.crashes = list(config.crashes)
        self.times = list(config.times)
        self.wrong: list[str] = []
        self.highest_epoch = 0  # of the claims of the subscriber
        self._begin()

    # Before the exploration

    def _begin(self) -> None:
        for side in self.sides.values():
            side.start()
        names = sorted(self.sides)
        for one in names:
            for other in names:
                if one < other:
                    self._link(one, other)
        self.drain()
        for publisher in self.publishers:
            publisher.connect()
            self.drain()
        self.subscriber.connect(self.config.home)
        self.drain()
        for side in self.sides.values():
            side.tick()
        self.drain()
        assert self.subscriber.subscribed
        if self.config.before:
            self.subscriber.leave()
        for _ in range(self.config.before):
            for publisher in self.publishers:
                publisher.publish()
            self.drain()

    def drain(self) -> None:
        """All that happens by itself, in a fixed order."""
        for _ in range(10_000):
            self.settle()
            found = [event for event in self.enabled() if event[1] in ">|*^=" or event == "s."]
            if not found:
                return
            self.do(found[0])
        raise AssertionError("it does not come to rest")

    # What can happen

    def enabled(self) -> list[str]:
        found = []
        for side in self.sides.values():
            for far, end in side.ends.items():
                if end.coming and not end.closed:
                    found.append(f"{far}>{side.name}")
                if (end.broken or end.closed) and side.node is not None:
                    found.append(f"{side.name}|{far}")
            if side.disk is not None and side.disk.busy():
                found.append(f"{side.name}*")
        for publisher in self.publishers:
            found += publisher.enabled()
        found += self.subscriber.enabled()
        found += self._faults()
        return found

    def _faults(self) -> list[str]:
        found = []
        for pair in dict.fromkeys(self.cuts):
            one, other = pair
            if other in self.sides[one].ends and not self.sides[one].ends[other].broken:
                found.append(f"{one}/{other}")
        found += [f"{name}!" for name in dict.fromkeys(self.crashes) if self.sides[name].node]
        found += [f"t{seconds}" for seconds in dict.fromkeys(self.times)]
        names = sorted(self.sides)
        for name, side in self.sides.items():
            if side.node is None:
                found.append(f"{name}^")
                continue
            for other in names:
                far = self.sides[other]
                if name < other and far.node is not None:
                    if other not in side.ends and name not in far.ends:
                        found.append(f"{name}={other}")
        return found

    def persistent(self, events: list[str]) -> list[str]:
        """Of what can happen, enough to come to all ends (partial order reduction).

        An event changes one node and appends to links, so those of two nodes commute.  If all links
        to a node have something under way, and no client can come there, whatever else happens
        leaves the events of this node as they are: nothing is missed if they are tried first.
        """
        if self.cuts or self.crashes or self.times or any(event[1] in "|/=!^" for event in events):
            return events
        if any(publisher.moves for publisher in self.publishers):
            return events
        subscriber = self.subscriber
        best = events
        for name, side in self.sides.items():
            if not all(end.coming for end in side.ends.values()):
                continue
            if name in subscriber.route and f"s+{name}" not in events:
                continue
            mine = [event for event in events if self._place(event) == name]
            if subscriber.route.count(name) > (f"s+{name}" in events):
                continue
            if 0 < len(mine) < len(best):
                best = mine
        return best

    def _place(self, event: str) -> str:
        """The node that an event changes."""
        if event[1] == ">" or event[:2] == "s+":
            return event[2]
        if event[0] == "s":
            return self.subscriber.node
        for publisher in self.publishers:
            if publisher.name == event[0]:
                return publisher.node
        return event[0]

    def label(self, event: str) -> str:
        """A decision, and what it is about."""
        if event[1] == ">":
            kind = self.sides[event[2]].ends[event[0]].coming[0][0]
            return f"{event}:{KINDS.get(kind, kind)}"
        if event[1] == "*":
            disk = self.sides[event[0]].disk
            return f"{event}:{'load' if disk is not None and disk.asked else 'commit'}"
        return event

    def do(self, event: str) -> None:
        one, what, rest = event[0], event[1], event[2:]
        if one == "t":
            self._pass_time(int(event[1:]))
        elif what == ">":
            self.sides[rest].receive(one)
        elif what == "|":
            self.sides[one].lose(rest)
        elif what == "*":
            self._step(self.sides[one])
        elif what == "/":
            self.cuts.remove((one, rest))
            self.sides[one].ends[rest].broken = True
            self.sides[rest].ends[one].broken = True
            self._notice()
        elif what == "=":
            self._link(one, rest)
        elif what == "!":
            self.crashes.remove(one)
            self._crash(one)
        elif what == "^":
            self.now += 1.0
            self.sides[one].start()
            self.sides[one].leave()
        elif one == "s":
            self.subscriber.act(what, rest)
        else:
            next(each for each in self.publishers if each.name == one).act(what)
        self.settle()

    def settle(self) -> None:
        """What happens at once."""
        for side in self.sides.values():
            if side.node is not None:
                epoch = side.node.peers.table.own_epoch("s")
                self.highest_epoch = max(self.highest_epoch, epoch)
        again = True
        while again:
            again = False
            for side in self.sides.values():
                for far, end in list(side.ends.items()):
                    while end.coming and not end.closed and end.coming[0][0] in INVISIBLE:
                        side.receive(far)
                        again = True
                if self.config.eager_disk and side.disk is not None and side.disk.busy():
                    self._step(side)
                    again = True
            for client in (*self.publishers, self.subscriber):
                again = client.read() or again

    def _step(self, side: Side) -> None:
        assert side.disk is not None
        side.enter()
        side.disk.step()
        side.leave()

    def _link(self, one: str, other: str) -> None:
        here, there = self.sides[one], self.sides[other]
        assert here.node is not None and there.node is not None
        near, far = End(here, there, True), End(there, here, False)
        near.other, far.other = far, near
        here.ends[other] = near
        there.ends[one] = far
        ours, theirs = here.node.hello(), there.node.hello()
        there.enter()
        there.node.opened(far, ours)
        there.leave()
        here.enter()
        here.node.opened(near, theirs)
        here.leave()

    def _notice(self) -> None:
        """What was under way is lost, at once or (`late_notice`) after more of it has come."""
        if not self.config.late_notice:
            for side in self.sides.values():
                for far in [far for far, end in side.ends.items() if end.broken]:
                    side.lose(far)

    def _crash(self, name: str) -> None:
        self.sides[name].crash()
        self._notice()
        for client in (*self.publishers, self.subscriber):
            client.node_crashed(name)

    def _pass_time(self, seconds: int) -> None:
        if seconds in self.times:
            self.times.remove(seconds)
        self.now += seconds
        for side in self.sides.values():
            if side.node is not None:
                side.tick()

    def is_together(self) -> bool:
        """Whether each node knows the tables of all others."""
        nodes = [side.node for side in self.sides.values() if side.node is not None]
        members = [member for node in nodes for member in node.members.values()]
        count = len(self.sides) * (len(self.sides) - 1)
        return len(members) == count and all(m.link and m.has_table for m in members)

    def is_disturbed(self) -> bool:
        """Whether a node has crashed, or time has passed."""
        config = self.config
        return len(self.crashes) < len(config.crashes) or len(self.times) < len(config.times)

    # What must be true

    def check(self) -> list[str]:
        """At every state."""
        wrong = list(self.wrong)
        if not self.config.excused:
            inside = self._inside()
            if len(inside) > 1:
                wrong.append(f"the subscriber is let in at {inside}")
        return wrong

    def _inside(self) -> list[str]:
        found = []
        for name, side in self.sides.items():
            session = side.world.hub.sessions.get("s") if side.node is not None else None
            if session is not None and session.connection is not None:
                found.append(name)
        return found

    def end(self) -> list[str]:
        """Where nothing can happen any more."""
        wrong = [] if self.config.slow else self._unsettled()
        for _ in range(self.config.patience_ticks):
            if wrong and not self.config.slow:
                break
            self.now += 1.0
            for side in self.sides.values():
                side.tick()
            self.drain()
            if not self._unsettled():
                break
        wrong = wrong or self._unsettled()
        return wrong + self.wrong + ([] if wrong else self.subscriber.missed())

    def _unsettled(self) -> list[str]:
        wrong = []
        owners = []
        for name, side in self.sides.items():
            node = side.node
            assert node is not None
            migration = node.migration
            for what, there in (
                ("targets", migration.targets),
                ("sources", migration.sources),
                ("sessions that nodes still send", migration.given.all),
                ("closed gates", migration.intakes.gated),
            ):
                if there:
                    wrong.append(f"{name} has {what} left: {_states(there)}")
            for session in node.hub.sessions.values():
                if session.connection is not None and (session.queued() or session.inflight):
                    wrong.append(f"messages of {session.client_id} wait at {name}")
                if session.intake is not None:
                    kind = type(session.intake).__name__
                    wrong.append(f"the session at {name} has a {kind} left")
            wrong += self._left_behind(side)
            wanted = sum(len(each.subscriptions) for each in node.hub.sessions.values())
            if node.hub.router.subscriptions != wanted:
                wrong.append(f"{name} routes subscriptions of sessions that are not there")
            if "s" in node.hub.sessions:
                owners.append(name)
            for peer in node.peers.all:
                if peer.outgoing.queued:
                    wrong.append(f"{peer.outgoing.queued} messages for {peer.name} wait at {name}")
        if len(owners) != 1:
            wrong.append(f"the session is at {owners}")
        if not self.subscriber.ready:
            wrong.append("the subscriber waits")
        wrong += [f"{each.name} waits" for each in self.publishers if not each.idle()]
        return wrong

    def _left_behind(self, side: Side) -> list[str]:
        """What a session that is gone has left in memory or in the store."""
        wrong = []
        hub = side.world.hub
        sessions = hub.sessions.values()
        queues = [each.queue for each in sessions if each.queue is not None]
        if hub.queues.messages != sum(len(each) for each in queues):
            wrong.append(f"{side.name} counts {hub.queues.messages} messages as queued")
        if hub.queues.size_bytes != sum(each.size_bytes for each in queues):
            wrong.append(f"{side.name} counts messages that are gone")
        if side.disk is not None:
            sids = [each.sid for each in side.store.sessions.values() if each.client_id == "s"]
            if sids != [each.sid for each in sessions if each.sid]:
                wrong.append(f"the store of {side.name} has sessions of nobody")
            notes = {name for name in side.store.notes if name.startswith(NOTES)}
            for name, far in self.sides.items():
                for client_id in far.world.hub.sessions:
                    notes.discard(f"{TOOK}{name}/{client_id}")  # as long as it has a session
            if notes:
                wrong.append(f"the store of {side.name} has notes left: {sorted(notes)}")
        return wrong


def _states(things: Any) -> list[str]:
    values = things.values() if isinstance(things, dict) else things
    return [str(getattr(each, "state", each)) for each in values]
