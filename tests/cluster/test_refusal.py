"""Which nodes there can be no link with, on real links: both logs say why."""

import random
from typing import Any

from twisted.internet.task import deferLater

from mhub.cluster.contract import OLDEST, PROTOCOL
from mhub.cluster.link import Links
from mhub.cluster.node import Node, NodeSettings
from mhub.core.hlc import Clock
from mhub.core.limits import Limits, PeerLimits
from mhub.core.peers import Peers
from tests.cluster.ends import LinkCase, loop
from tests.core.world import START, World


class Party:
    """A node with links of its own, at a time that stands still."""

    def __init__(self, case: LinkCase, name: str, **changes: Any) -> None:
        settings = NodeSettings("plant", name, f"{name}.example:7883")
        settings.instance = f"process of {name}"
        for key, value in changes.items():
            assert hasattr(settings, key), key
            setattr(settings, key, value)
        hub = World().hub
        self.node = Node(
            hub,
            settings,
            self,
            lambda: START,
            random.Random(1),
            case.logged.append,
            lambda _: Limits(),
        )
        hub.join(Peers(hub, name, Clock(name, 0.0), self.node, PeerLimits()))
        self.links: Links
        self.links, self.address = case.listening(self.node)

    def dial(self, address: str) -> None:
        self.links.dial(address)


class RefusalTests(LinkCase):
    async def refused(self, here: Party, there: Party, why: str, name: str = "a") -> None:
        """The listener refuses: its log is about the dialler, and that about the listener."""
        here.dial(there.address)
        while not (said := self.lines("no link with", there.address, why)):
            await deferLater(loop, 0.001)
        self.assertEqual(len(said), 1, self.logged)
        self.assertIn(f"{there.address}: the other side says: {why}", said[0])
        ours = [line for line in self.lines("no link with", why) if there.address not in line]
        self.assertEqual(len(ours), 1, self.logged)
        self.assertIn(f"({name}): {why}", ours[0])
        self.assertEqual((here.node.links, there.node.links), ({}, {}))

    async def test_none(self) -> None:
        here, there = Party(self, "a"), Party(self, "b")
        here.dial(there.address)
        await self.until_linked(here, there)

    async def until_linked(self, here: Party, there: Party) -> None:
        for party in (here, there):
            while not any(member.resumed for member in party.node.members.values()):
                await deferLater(loop, 0.001)

    async def test_another_cluster(self) -> None:
        here, there = Party(self, "a", cluster="other"), Party(self, "b")
        await self.refused(here, there, "it is of cluster 'other', this one is 'plant'")

    async def test_a_newer_protocol(self) -> None:
        new = PROTOCOL + 1
        here, there = Party(self, "a", protocol=new, oldest=new), Party(self, "b")
        await self.refused(
            here,
            there,
            f"it speaks versions {new} to {new} of the peer protocol,"
            f" this node {OLDEST} to {PROTOCOL}",
        )

    async def test_an_older_protocol(self) -> None:
        new = PROTOCOL + 1
        here, there = Party(self, "a"), Party(self, "b", protocol=new, oldest=new)
        await self.refused(
            here,
            there,
            f"it speaks versions {OLDEST} to {PROTOCOL} of the peer protocol,"
            f" this node {new} to {new}",
        )

    async def test_a_protocol_that_both_speak(self) -> None:
        here, there = Party(self, "a", protocol=PROTOCOL + 1), Party(self, "b")
        here.dial(there.address)
        await self.until_linked(here, there)

    async def test_a_name_that_is_taken(self) -> None:
        here, there = Party(self, "b", instance="another"), Party(self, "b")
        await self.refused(here, there, "there are two nodes with the name 'b'", "b")

    async def test_itself(self) -> None:
        """It does not call itself again, whatever others say of that address."""
        here = Party(self, "a")
        here.node.seeds = [here.address]
        here.node.tick(START)
        while len(self.lines("no link with", "it is this node itself")) < 2:
            await deferLater(loop, 0.001)
        self.assertTrue(here.node.ready())
        here.dial = self.fail  # type: ignore[method-assign,assignment]
        here.node.tick(START + 1000.0)

    async def test_leaving(self) -> None:
        here, there = Party(self, "a"), Party(self, "b")
        there.node.leave()
        await self.refused(here, there, "this node is leaving the cluster")

    async def test_no_hello(self) -> None:
        here, there = Party(self, "a", version=None), Party(self, "b")
        why = "it does not say who it is: its 'version' is not a text"
        await self.refused(here, there, why, "")
