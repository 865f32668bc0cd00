"""Sessions of a node that leaves: another one claims them, though their clients are not there.

What else there is to leaving a cluster is in `tests.cluster.test_leave`.
"""

from mhub.cluster import frames
from tests.cluster.migration.played import Case, entry
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.simulation import SimNode, node_of
from tests.cluster.test_node import Case as ClusterCase
from tests.helpers import packets as p

HELD = 1000


class OfferedTests(Case):
    """Node b leaves, and offers the session of client s to node a."""

    def offer(self) -> None:
        self.begin("bc")
        self.b.claims("s", HELD, False)
        self.b.say(frames.OFFER, client="s")

    def give(self) -> None:
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.b.end("s", self.epoch())
        self.here.settle()

    def test_it_is_claimed_without_a_client(self) -> None:
        """So a client that is connected anywhere has the better claim."""
        self.offer()
        self.assertGreater(self.epoch(), HELD)
        self.assertEqual(self.here.peers.table.names["cs"] & 1, 0)

    def test_it_comes_and_rests_here(self) -> None:
        self.offer()
        self.give()
        self.assertEqual(len(self.b.told(frames.DONE)), 1)
        self.assertEqual(self.here.peers.table.names["cs"] & 1, 0)
        client = self.connect()
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1"])

    def test_its_client_may_come_before_it(self) -> None:
        self.offer()
        client = self.connect()
        self.assertTrue(self.is_waiting(client))
        self.give()
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"1"])

    def test_its_client_comes_to_a_third_node(self) -> None:
        """Then that one gets it from node b, and node a wants it no more."""
        self.offer()
        self.c.claims("s", self.epoch() + 1000)
        self.assertNotIn("cs", self.here.peers.table.names)
        self.b.say(frames.OFFER, client="s")

    def test_of_two_nodes_that_it_was_offered_to_one_claims_it(self) -> None:
        """Neither has its client: the higher epoch decides."""
        self.offer()
        self.c.claims("s", self.epoch() + 1000, False)
        self.assertNotIn("cs", self.here.peers.table.names)

    def test_one_that_is_here_is_not_claimed_again(self) -> None:
        self.begin("bc")
        epoch = self.sleeper().epoch
        self.b.say(frames.OFFER, client="s")
        self.assertEqual(self.epoch(), epoch)

    def test_one_that_does_not_exist_is_not_made(self) -> None:
        """It has ended there meanwhile."""
        self.begin("bc")
        self.b.say(frames.OFFER, client="s")
        self.here.wait(15.0)
        self.assertNotIn("s", self.hub.sessions)
        self.assertNotIn("cs", self.here.peers.table.names)


class DrainTests(ClusterCase):
    def offer(self, side: SimNode, seconds: float) -> None:
        for _ in range(round(seconds / 0.05)):
            side.enter()
            node_of(side).offer()
            side.leave()
            side.sim.run(0.05)

    def test_what_is_published_meanwhile_comes_once_and_in_order(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                sim = self.cluster(durable=durable)
                a, b, c = (sim.nodes[name] for name in "abc")
                client = self.connect(a, "s", clean=False)
                self.subscribe(a, client, "t", 2)
                a.lose(client)
                publisher = self.connect(c, "p")
                for n in range(1, 101):
                    c.send(publisher, p.publish("t", b"%d" % n, 1, n))
                    self.offer(a, 0.05)
                sim.run(1.0)
                self.assertEqual(node_of(a).holding(), 0)
                again = self.connect(b, "s", clean=False)
                found: list[int] = []
                for _ in range(100):
                    for packet in again.take():
                        found.append(int(packet.payload))
                        b.send(again, p.puback(packet.pid or 0))
                    sim.run(0.05)
                self.assertEqual(found, list(range(1, 101)))

    def test_a_node_waits_until_those_that_publish_have_switched(self) -> None:
        """What they have for the session is behind a position that only this node knows."""
        sim = self.cluster()
        a, c = sim.nodes["a"], sim.nodes["c"]
        client = self.connect(a, "s", clean=False)
        self.subscribe(a, client, "t", 1)
        a.lose(client)
        sim.split({"c"})
        sim.run(7.0)
        publisher = c.open()
        c.send(publisher, p.connect("p"))
        sim.run(1.0)
        c.send(publisher, p.publish("t", b"x", 1, 1))
        sim.run(1.0)
        self.assertEqual([packet.type for packet in publisher.take()], ["CONNACK", "PUBACK"])
        self.offer(a, 2.0)
        self.assertNotIn("s", a.world.hub.sessions)
        sim.heal()
        sim.run(5.0)
        self.assertEqual(node_of(a).holding(), 0)
        again = self.connect(sim.nodes["b"], "s", clean=False)
        self.assertEqual(again.payloads(), [b"x"])


class HoldingTests(SourceCase):
    """What keeps a node from leaving."""

    def settle(self) -> None:
        """Others have all that is in the channels to them."""
        for far in (self.b, self.c):
            far.confirm_all()
        self.here.settle()

    def test_a_session_that_is_here(self) -> None:
        self.idle()
        self.settle()
        self.assertEqual(self.here.node.holding(), 1)

    def test_one_that_may_be_elsewhere(self) -> None:
        self.ended()
        self.settle()
        self.assertEqual((self.migration.under_way(), self.here.node.holding()), (1, 1))

    def test_a_node_that_has_not_switched(self) -> None:
        self.ended()
        self.done()
        self.settle()
        self.assertEqual((self.here.node.holding(), self.here.node.empty()), (1, False))
        self.c.switched("s", self.claimed)
        self.assertEqual((self.here.node.holding(), self.here.node.empty()), (0, True))
