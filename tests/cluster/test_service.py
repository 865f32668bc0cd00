"""The node as a service: what it is told by `mhub cluster`, and what it answers."""

from typing import Any

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster import parcels
from mhub.cluster.parcels import pack
from mhub.cluster.service import ClusterService
from mhub.config.cluster import ClusterSettings
from mhub.control.contract import ControlError
from mhub.core.limits import Limits
from mhub.tap import Commands
from tests.core.world import World


class Channel:
    dialled = False
    address = "127.0.0.1:7884"

    def send(self, kind: int, body: bytes) -> None: ...

    def close(self, text: str) -> None: ...


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.cluster = self.service()

    def service(self, **settings: Any) -> ClusterService:
        return ClusterService(
            ClusterSettings(name="plant", node="a", secret="s" * 16, **settings),
            self.world.hub,
            Clock(),
            lambda: self.world.now,
            lambda listener: Limits(),
            lambda: None,
        )

    def link(self, name: str) -> Channel:
        """Another node, as far as one can tell from here."""
        channel = Channel()
        hello = pack(
            protocol=1,
            oldest=1,
            cluster="plant",
            node=name,
            instance=f"{name}1",
            address=channel.address,
            version="0",
        )
        node = self.cluster.node
        self.assertEqual(node.refusal(hello), "")
        node.opened(channel, hello)
        node.received(channel, parcels.GREET, pack(life="l", heard=["", 0], table=["", 0]))
        node.received(channel, parcels.TABLE, pack(at=-2, to=1, set=[["ft/#", 3]]))
        node.received(channel, parcels.SUMS, pack(sums=[0] * 256))
        return channel

    def ask(self, command: str, **arguments: object) -> Any:
        """As the control socket does it."""
        table = Commands(self).table()  # type: ignore[arg-type]
        return table[command](arguments, lambda text: None)


class ForgetTests(Case):
    def refused(self, name: str) -> str:
        with self.assertRaises(ControlError) as caught:
            self.ask("cluster-forget", node=name)
        return str(caught.exception)

    def test_a_node_that_is_up(self) -> None:
        self.link("b")
        self.assertEqual(self.refused("b"), "node b is up: stop it or let it leave first")
        self.assertEqual(self.cluster.node.members["b"].state, "up")

    def test_a_node_that_is_silent(self) -> None:
        """As long as there is a link, it may be back at any moment."""
        self.link("b")
        self.world.now += 5.0
        self.cluster.node.tick(self.world.now)
        self.assertEqual(self.refused("b"), "node b is suspect: stop it or let it leave first")

    def test_a_node_that_is_not_linked(self) -> None:
        channel = self.link("b")
        self.cluster.node.lost(channel, "reset")
        self.world.client("p").publish("t/1", b"x", 1)
        answer = self.ask("cluster-forget", node="b")
        self.assertEqual(answer, {"node": "b", "messages": 1, "routes": 1})
        self.assertEqual(self.cluster.node.members, {})

    def test_a_node_that_is_none(self) -> None:
        self.assertIn('there is no node "c"', self.refused("c"))
        self.assertEqual(self.refused("a"), "node a is this node: let it leave, or stop it")
