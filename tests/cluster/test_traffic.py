"""What crosses links and what does not: counted by the frames."""

from collections import Counter
from typing import Any

from mhub.cluster import frames
from tests.cluster.simulation import SimNode, Simulation, node_of
from tests.cluster.test_node import Case
from tests.core.world import Client
from tests.helpers import packets as p

LIFE_SIGNS = {frames.PING, frames.PONG}


class Counting(Simulation):
    """Each frame that somebody sends to somebody, but for signs of life."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.sent: Counter[tuple[str, int]] = Counter()

    def as_sent(self, sender: SimNode, kind: int, body: bytes) -> list[tuple[int, bytes]]:
        if kind not in LIFE_SIGNS:
            self.sent[sender.name, kind] += 1
        return super().as_sent(sender, kind, body)


class TrafficCase(Case):
    simulation = Counting

    def counting(self, names: str = "abc") -> Counting:
        sim = self.cluster(names)
        assert isinstance(sim, Counting)
        return sim

    def since(self, sim: Counting) -> dict[tuple[str, int], int]:
        """What was sent since this was asked last."""
        found = dict(sim.sent)
        sim.sent.clear()
        return found

    def publish(self, node: SimNode, client: Client, topic: str) -> None:
        """One of each QoS, to its end."""
        for qos in (0, 1, 2):
            node.send(client, p.publish(topic, b"x", qos, qos or None))
        node.sim.run(1.0)
        self.assertEqual([each.type for each in client.take()], ["PUBACK", "PUBREC"])
        node.send(client, p.pubrel(2))
        node.sim.run(1.0)
        client.next("PUBCOMP")


class MessageTests(TrafficCase):
    def test_what_no_peer_wants_causes_none(self) -> None:
        sim = self.counting()
        a, b = sim.nodes["a"], sim.nodes["b"]
        publisher, here = self.connect(a, "p"), self.connect(a, "here")
        self.subscribe(a, here, "t/#")
        elsewhere = self.connect(b, "elsewhere")
        self.subscribe(b, elsewhere, "other/#", 2)
        self.since(sim)
        for _ in range(10):
            self.publish(a, publisher, "t/1")
        self.assertEqual(self.since(sim), {})
        self.assertEqual(len(here.take()), 30)

    def test_only_a_peer_that_wants_it_gets_it_and_once(self) -> None:
        sim = self.counting()
        a, b, c = (sim.nodes[name] for name in "abc")
        for n in range(5):
            self.subscribe(b, self.connect(b, f"s{n}"), "t/#", 1)
        publisher = self.connect(a, "p")
        self.since(sim)
        a.send(publisher, p.publish("t/1", b"x", 1, 1))
        sim.run(1.0)
        self.assertEqual(self.since(sim), {("a", frames.PUBLISHES): 1, ("b", frames.CONFIRM): 1})
        self.assertEqual(node_of(b).members["a"].peer.counters.messages_received, 1)
        self.assertEqual(node_of(c).members["a"].peer.counters.messages_received, 0)

    def test_it_ends_with_the_subscription(self) -> None:
        sim = self.counting("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        subscriber, publisher = self.connect(b, "s"), self.connect(a, "p")
        self.subscribe(b, subscriber, "t/#")
        self.publish(a, publisher, "t/1")
        b.send(subscriber, p.unsubscribe(2, "t/#"))
        sim.run(1.0)
        self.since(sim)
        self.publish(a, publisher, "t/1")
        self.assertEqual(self.since(sim), {})

    def test_the_second_subscriber_of_a_filter_is_not_told(self) -> None:
        sim = self.counting("ab")
        b = sim.nodes["b"]
        first, second = self.connect(b, "s1"), self.connect(b, "s2")
        self.subscribe(b, first, "t/#")
        self.since(sim)
        self.subscribe(b, second, "t/#")
        self.assertEqual(self.since(sim), {})


class SysTests(TrafficCase):
    def test_it_stays_where_it_is(self) -> None:
        """Whoever subscribes hears of its own node alone, and the links of nothing."""
        sim = self.counting("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        for node in (a, b):
            node.world.hub.sys.interval_s = 1.0
        clients = {node: self.connect(node, f"s{node.name}") for node in (a, b)}
        self.since(sim)
        for node, client in clients.items():
            for topic_filter in ("$SYS/#", "$SYS/broker/cluster/+", "$share/g/$SYS/#"):
                node.send(client, p.subscribe(1, (topic_filter, 1)))
        sim.run(10.0)
        self.assertEqual(self.since(sim), {})
        for node in (a, b):
            self.assertEqual(
                [each for each in node_of(node).peers.table.names if "$SYS" in each], []
            )
        sim.cut("a", "b")
        sim.run(5.0)
        self.assertTrue(sim.whole())
        kinds = {kind for _, kind in self.since(sim)}
        self.assertEqual(kinds & {frames.PUBLISHES, frames.HAVE, frames.RETAINED}, set())
        for node, client in clients.items():
            found = [each for each in client.take() if each.type == "PUBLISH"]
            names = {e.payload.decode() for e in found if e.topic == "$SYS/broker/cluster/node"}
            self.assertEqual(names, {node.name})

    def test_nobody_can_publish_there(self) -> None:
        sim = self.counting("ab")
        a = sim.nodes["a"]
        publisher = self.connect(a, "p")
        self.since(sim)
        self.publish(a, publisher, "$SYS/broker/cluster/node")
        self.assertEqual(self.since(sim), {})
