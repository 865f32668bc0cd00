"""Sessions of a node that failed: whoever takes over from it gives them away as the node would.

What else there is to failover is in `tests.cluster.test_failover`.
"""

from tests.cluster.simulation import LEASE_S, SimNode
from tests.cluster.test_failover import FailoverCase
from tests.core.world import Client
from tests.helpers import packets as p


class FailoverTests(FailoverCase):
    def answered(self, node: SimNode, client: Client) -> list[bytes]:
        """What comes, acknowledged, until nothing does."""
        found = []
        for _ in range(20):
            for packet in client.take():
                if packet.type == "PUBREL":
                    node.send(client, p.pubcomp(packet.pid or 0))
                    continue
                found.append(packet.payload)
                ack = p.puback if packet.qos == 1 else p.pubrec
                node.send(client, ack(packet.pid or 0))
            node.sim.run(0.1)
        return found

    def test_what_was_in_flight_is_sent_again_with_its_packet_id(self) -> None:
        sim = self.shared()
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(a, "s", clean=False)
        self.subscribe(a, client, "t/#", 2)
        publisher = self.connect(b, "p")
        b.send(publisher, p.publish("t/1", b"x", 2, 1))
        sim.run(1.0)
        pid = client.next("PUBLISH").pid
        a.crash()
        again = b.open()
        b.send(again, p.connect("s", clean=False))
        sim.run(LEASE_S + 3.0)
        self.assertTrue(again.next("CONNACK").session_present)
        packet = again.next("PUBLISH")
        self.assertEqual((packet.pid, packet.dup, packet.payload), (pid, True, b"x"))

    def test_messages_before_and_since_come_once_and_in_order(self) -> None:
        """From all nodes, whether the client waits for its session or comes later."""
        for waits in (False, True):
            with self.subTest(waits=waits):
                sim = self.shared()
                a, b, c = (sim.nodes[name] for name in "abc")
                self.sleeper(a)
                publisher = self.connect(c, "p")
                client = b.open()
                for n in range(1, 101):
                    c.send(publisher, p.publish("t/1", b"%d" % n, 1, n))
                    sim.run(0.1)
                    if n == 20:
                        a.crash()
                    if n == (30 if waits else 90):
                        b.send(client, p.connect("s", clean=False))
                sim.run(2.0)
                self.assertTrue(client.next("CONNACK").session_present)
                found = [int(payload) for payload in self.answered(b, client)]
                self.assertEqual(found, list(range(1, 101)))
                self.assertEqual(self.where(sim, "s"), ["b"])

    def test_a_third_node_was_missing(self) -> None:
        """What it had for the failed node comes in front of what it sends to the next one."""
        sim = self.shared()
        a, b, c = (sim.nodes[name] for name in "abc")
        self.sleeper(a)
        c._detector = None
        sim.split({"c"}, {"a", "b"})
        sim.run(7.0)
        publisher = self.connect(c, "p")
        c.send(publisher, p.publish("t/1", b"1", 1, 1))
        sim.run(1.0)
        self.assertEqual(publisher.next("PUBACK").pid, 1)
        a.crash()
        sim.run(LEASE_S)
        client = b.open()
        b.send(client, p.connect("s", clean=False))
        sim.run(8.0)
        self.assertTrue(client.next("CONNACK").session_present)
        sim.heal()
        sim.run(5.0)
        c.send(publisher, p.publish("t/1", b"2", 1, 2))
        sim.run(60.0)
        a.come()
        sim.run(20.0)
        self.assertEqual(self.answered(b, client), [b"1", b"2"])

    # Gate.is_new() takes nothing of a channel that the failed node had not heard of.
