"""A node goes for good: where its clients and their sessions go."""

from mhub.cluster import offers
from tests.cluster.simulation import SimNode, node_of
from tests.cluster.test_node import Case
from tests.helpers import packets as p
from tests.helpers.packets import Prop

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class LeaveTests(Case):
    def hand_over(self, side: SimNode) -> None:
        """As the service does it."""
        node = node_of(side)
        for _ in range(100):
            side.enter()
            node.offer()
            side.leave()
            side.sim.run(0.05)
            if not node.holding():
                return
        self.fail(f"{node.holding()} sessions and messages stay")

    def test_sessions_are_handed_over(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                sim = self.cluster("ab", durable=durable)
                a, b = sim.nodes["a"], sim.nodes["b"]
                client = self.connect(a, "c", 5, clean=False, props=KEPT)
                self.subscribe(a, client, "t", 1)
                self.assertEqual(node_of(a).evacuate("b.example:1883"), 1)
                sim.run(0.1)
                (packet,) = client.take()
                self.assertEqual((packet.type, packet.reason), ("DISCONNECT", 0x9D))
                self.assertEqual(packet.prop(Prop.SERVER_REFERENCE), "b.example:1883")
                b.send(self.connect(b, "p"), p.publish("t", b"x", 1, 1))
                self.hand_over(a)
                self.assertEqual(set(a.world.hub.sessions), set())
                node_of(a).leave()
                sim.run(1.0)
                self.assertEqual(node_of(b).members, {})
                again = self.connect(b, "c", 5, clean=False, props=KEPT)
                self.assertTrue(again.connack and again.connack.session_present)
                self.assertEqual(again.payloads(), [b"x"])

    def test_who_waits_for_a_session_is_sent_elsewhere_as_well(self) -> None:
        sim = self.cluster("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(b, "c", 5, clean=False, props=KEPT)
        b.send(client, p.pingreq())  # it has read its CONNACK
        b.lose(client)
        sim.run(1.0)
        sim.split({"a"}, {"b"})
        client = a.open(5)
        a.send(client, p.connect("c", 5, clean=False, props=KEPT))
        sim.run(0.5)
        self.assertEqual(client.take(), [])
        node_of(a).evacuate("")
        (packet,) = client.take()
        self.assertEqual((packet.type, packet.reason), ("CONNACK", 0x9C))
        sim.heal()
        sim.run(2.0)
        self.hand_over(a)
        self.assertEqual(node_of(a).migration.targets, {})
        again = self.connect(b, "c", 5, clean=False, props=KEPT)
        self.assertTrue(again.connack and again.connack.session_present)

    def test_a_will_that_waits_goes_along(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                sim = self.cluster("ab", durable=durable)
                a, b = sim.nodes["a"], sim.nodes["b"]
                heir = self.connect(b, "heir")
                self.subscribe(b, heir, "w")
                will = ("w", b"gone", 0, False, [(Prop.WILL_DELAY, 30)])
                mortal = self.connect(a, "m", 5, clean=False, props=KEPT, will=will)
                a.lose(mortal)
                sim.run(10.0)
                node_of(a).evacuate("")
                self.hand_over(a)
                node_of(a).leave()
                a.crash()
                sim.run(19.0)
                self.assertEqual(heir.take(), [])
                sim.run(3.0)
                self.assertEqual(heir.payloads(), [b"gone"])

    def test_many_sessions_go_a_few_at_a_time(self) -> None:
        sim = self.cluster("ab")
        a, b = sim.nodes["a"], sim.nodes["b"]
        for n in range(7):
            a.lose(self.connect(a, f"c{n}", clean=False))
        self.patch(offers, "AT_ONCE", 3)
        a.enter()
        node_of(a).offer()
        a.leave()
        sim.run(0.001)
        node_of(a).offer()
        sim.run(0.3)
        self.assertEqual(len(node_of(b).peers.table.names), 3)
        self.hand_over(a)
        self.assertEqual(len(b.world.hub.sessions), 7)
