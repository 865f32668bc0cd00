"""A node and one other of which the test plays the part: frames in, frames out, no network.

here = Here()              node a, with a hub
far = here.link()          node b is linked with it and has sent RESUME
far.say(kind, at=0, ...)   a frame from b, as JSON; far.give(kind, body) as it is
far.told(kind)             what a has sent to b since the last call, as JSON; far.took() as it is
"""

import random
from typing import Any

from mhub.cluster import frames
from mhub.cluster.contract import PROTOCOL
from mhub.cluster.frames import pack, unpack
from mhub.cluster.node import Node, NodeSettings
from mhub.core.hlc import Clock
from mhub.core.limits import Limits, PeerLimits
from mhub.core.peers import Peers
from mhub.wire.primitives import u64
from tests.core.world import World


class Far:
    """The other node, and the channel to it."""

    dialled = False

    def __init__(self, here: "Here", name: str = "b") -> None:
        self._here = here
        self.name = name
        self.address = f"{name}:7883"
        self._sent: list[tuple[int, bytes]] = []
        self.closed = ""

    # LinkEnd

    def send(self, kind: int, body: bytes) -> None:
        assert not self.closed, "a frame after the close"
        self._sent.append((kind, body))

    def close(self, text: str) -> None:
        self.closed = text

    # The test's

    def give(self, kind: int, body: bytes) -> None:
        self._here.node.received(self, kind, body)

    def say(self, kind: int, **fields: Any) -> None:
        self.give(kind, pack(**fields))

    def confirm(self, table: int) -> None:
        """It has applied the table up to a number."""
        self.give(frames.CONFIRM, u64(0) + u64(0) + u64(table))

    def took(self, kind: int) -> list[bytes]:
        found = [body for sent, body in self._sent if sent == kind]
        self._sent = [each for each in self._sent if each[0] != kind]
        return found

    def told(self, kind: int) -> list[dict[str, Any]]:
        return [unpack(body) for body in self.took(kind)]


class Here:
    def __init__(self, instance: str = "a1") -> None:
        self.world = World(sys_interval_s=0.0)
        self.lines: list[str] = []  # of the log
        settings = NodeSettings("plant", "a", "a:7883")
        settings.instance = instance
        self.node = Node(
            self.world.hub,
            settings,
            self,
            lambda: self.world.now,
            random.Random(1),
            self.lines.append,
            lambda name: Limits(),
        )
        hub = self.world.hub
        self.peers = Peers(hub, "a", Clock("a", 0.0), self.node, PeerLimits())
        hub.join(self.peers)

    def dial(self, address: str) -> None:
        """Nobody is there but whom the test links."""

    def link(self, table: tuple[str, int] = ("", -1), instance: str = "b1") -> Far:
        """Node b says which process it is, and how far it has the table of which one of ours."""
        far = Far(self)
        self.meet(far, table, instance)
        return far

    def meet(self, far: Far, table: tuple[str, int] = ("", -1), instance: str = "") -> None:
        """Another one is linked."""
        instance = instance or f"{far.name}1"
        hello = {"cluster": "plant", "node": far.name, "instance": instance}
        hello["address"] = far.address
        self.node.opened(far, pack(protocol=PROTOCOL, oldest=PROTOCOL, version="0", **hello))
        far.say(frames.RESUME, epoch=instance, received=["", 0], table=list(table))

    def state(self) -> str:
        """What node b is to this one."""
        return self.node.members["b"].state
