"""Two releases that follow each other: a node of the next version among those of this one.

What may be new in the next one is said in docs/peer-protocol.md, "Versions".  Here a node does all
of that: it has more in its hello, more keys in each frame, frames of more kinds, and a table with
more kinds of names.
"""

import json
from typing import Any

from mhub.cluster import frames
from mhub.cluster.contract import OLDEST, PROTOCOL
from mhub.cluster.node import NodeSettings
from tests.cluster.simulation import SimNode, Simulation
from tests.cluster.test_node import Case
from tests.helpers import packets as p

NEW: dict[str, Any] = {"new": {"a": [1, None]}, "other": "x"}
UNKNOWN_KIND = 200
BINARY = (frames.PUBLISHES, frames.CONFIRM, frames.RETAINED)


class NextNode(SimNode):
    def change(self, settings: NodeSettings) -> None:
        settings.protocol = PROTOCOL + 1
        settings.oldest = PROTOCOL

    def start(self) -> None:
        super().start()
        node: Any = self.node
        said = node.hello()
        node.hello = lambda: json.dumps({**json.loads(said), **NEW}).encode()


class NextSimulation(Simulation):
    """Node b is of the next version."""

    def __init__(self, seed: int, names: str, **options: Any) -> None:
        super().__init__(seed, names, **options)
        self.nodes["b"] = NextNode(self, "b", options.get("durable", True), 0.0)
        self.kinds: set[int] = set()

    def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        if sender.name != "b":
            return [(kind, body)]
        self.kinds.add(kind)
        if kind not in BINARY:
            head, newline, rest = body.partition(b"\n")
            said = json.loads(head)
            if kind == frames.TABLE and said["at"] == -2:
                # The numbers of the table count them, as the whole of it is sent.
                said["set"] += [["xnew", 3], ["x$share/g/new", 3]]
            body = json.dumps({**said, **NEW}).encode() + newline + rest
        more = [(UNKNOWN_KIND, b"\0\xff")] if kind != frames.RESUME else []
        return [*more, (kind, body)]


class VersionTests(Case):
    simulation = NextSimulation

    def test_the_next_version_works_with_this_one(self) -> None:
        sim = self.cluster("ab")
        assert isinstance(sim, NextSimulation)
        a, b = sim.nodes["a"], sim.nodes["b"]
        for here, there in ((a, b), (b, a)):
            subscriber = self.connect(there, "s", clean=False)
            self.subscribe(there, subscriber, f"from/{here.name}", 1)
            publisher = self.connect(here, "p", clean=False)
            here.send(publisher, p.publish(f"from/{here.name}", b"heard", 1, 1, True))
            sim.run(1.0)
            self.assertEqual(publisher.next("PUBACK").pid, 1)
            packet = subscriber.next("PUBLISH")
            self.assertEqual(packet.payload, b"heard")
            there.send(subscriber, p.puback(packet.pid or 0))
            there.lose(subscriber)
            here.send(publisher, p.publish(f"from/{here.name}", b"kept", 2, 2))
            sim.run(1.0)
            again = self.connect(here, "s", clean=False)
            self.assertTrue(again.connack and again.connack.session_present)
            packet = again.next("PUBLISH")
            self.assertEqual(packet.payload, b"kept")
            here.send(again, p.puback(packet.pid or 0))
        self.assertTrue(sim.whole())
        for node in (a, b):
            found = node.world.hub.retained.match("from/+", node.world.now)
            self.assertEqual(sorted(message.topic for message in found), ["from/a", "from/b"])
        # All that a cluster of two says when nothing goes wrong was said by the newer node.
        rare = {frames.AGAIN, frames.HAVE, frames.RETAINED, frames.FILLED}
        rare |= {frames.REGISTRY_HAVE, frames.REGISTRY_ENTRIES, frames.REGISTRY_FILLED}
        rare |= {frames.REGISTRY_DROP}
        rare |= {frames.LEAVE, frames.OFFER}
        # These are for operators.
        rare |= {frames.QUERY, frames.ANSWER, frames.ANSWER_MORE}
        # These are for sessions that could not be transferred, or not as a whole.
        rare |= {frames.PENDING, frames.REFUSED, frames.ASK, frames.UNKNOWN}
        kinds = {getattr(frames, name) for name in dir(frames) if name.isupper()}
        self.assertEqual(kinds - sim.kinds - rare, set())

    def test_a_version_that_is_not_understood_any_more_is_refused(self) -> None:
        """Version 1 has other frames under the same numbers."""
        node = self.cluster("ab").nodes["a"].node
        assert node is not None
        said = {**json.loads(node.hello()), "node": "old", "instance": "old"}
        old = json.dumps({**said, "protocol": OLDEST - 1, "oldest": 1}).encode()
        self.assertEqual(
            node.refusal(old),
            f"it speaks versions 1 to {OLDEST - 1} of the peer protocol,"
            f" this node {OLDEST} to {PROTOCOL}",
        )

    def test_what_is_new_in_a_table_is_not_taken_for_a_filter(self) -> None:
        sim = self.cluster("ab")
        a = sim.nodes["a"]
        for _ in range(2):
            assert a.node is not None
            self.assertEqual(a.node.members["b"].peer.routes, {})
            a.crash()
            a.start()
            sim.run(0.0)
