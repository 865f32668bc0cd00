"""A node that is gone is started again inside of another one, and hands over what it had."""

from random import Random
from types import SimpleNamespace
from typing import Any
from unittest import TestCase

from twisted.internet.task import Clock

from mhub.cluster.detector import PAUSE_S, FailedNodeDetector
from mhub.cluster.failover import Failovers
from mhub.cluster.frames import pack, unpack
from mhub.cluster.member import DEAD
from tests.cluster.simulation import LEASE_S, SimNode, Simulation
from tests.cluster.test_node import Case
from tests.core.world import START
from tests.helpers import packets as p
from tests.helpers.properties import Prop


class FailoverCase(Case):
    def shared(self) -> Simulation:
        return self.cluster(shared=True)

    def sleeper(self, node: SimNode, client_id: str = "s", qos: int = 2) -> None:
        """Somebody who has subscribed and is away."""
        client = self.connect(node, client_id, clean=False)
        self.subscribe(node, client, "t/#", qos)
        node.send(client, p.disconnect())
        node.sim.run(1.0)

    def publish(self, node: SimNode, payload: bytes) -> None:
        publisher = self.connect(node, f"p {payload!r}")
        node.send(publisher, p.publish("t/1", payload, 1, 7))
        node.sim.run(1.0)
        self.assertEqual([packet.type for packet in publisher.take()], ["PUBACK"])
        node.send(publisher, p.disconnect())

    def where(self, sim: Simulation, client_id: str) -> list[str]:
        nodes = [node for node in sim.nodes.values() if node.up]
        return [node.name for node in nodes if client_id in node.world.hub.sessions]


class DrainTests(FailoverCase):
    def test_a_client_finds_its_session_with_all_it_had(self) -> None:
        sim = self.shared()
        a, b = sim.nodes["a"], sim.nodes["b"]
        self.sleeper(a)
        self.publish(a, b"before")
        a.crash()
        sim.run(0.5)
        self.publish(b, b"meanwhile")
        client = b.open()
        b.send(client, p.connect("s", clean=False))
        sim.run(LEASE_S + 2.0)
        self.assertTrue(client.next("CONNACK").session_present)
        self.assertEqual(client.payloads(), [b"before", b"meanwhile"])
        self.assertEqual(self.where(sim, "s"), ["b"])

    def test_sessions_of_clients_that_are_nowhere_go_to_the_others(self) -> None:
        sim = self.shared()
        a = sim.nodes["a"]
        for number in range(6):
            self.sleeper(a, f"s{number}")
        self.publish(a, b"x")
        a.crash()
        sim.run(LEASE_S + 3.0)
        self.assertFalse(a.up)
        places = sorted(self.where(sim, f"s{n}") for n in range(6))
        self.assertEqual(places, [["b"]] * 3 + [["c"]] * 3)
        for name in "bc":
            node = sim.nodes[name].node
            assert node is not None
            self.assertNotIn("a", node.members)
        a.come()
        sim.run(3.0)
        self.assertTrue(sim.whole())
        self.assertEqual(len(a.world.hub.sessions), 0)
        client = self.connect(a, "s0", clean=False)
        self.assertEqual(client.payloads(), [b"x"])

    def test_it_is_up_and_says_in_whose_process_it_is(self) -> None:
        sim = self.shared()
        a, c = sim.nodes["a"], sim.nodes["c"]
        self.sleeper(a)
        sim.cut("b", "c")
        a.crash()
        hosts = set()
        for _ in range(200):
            sim.run(0.02)
            assert c.node is not None
            member = c.node.members.get("a")
            if member is not None and member.link is not None:
                hosts.add(member.host)
                self.assertEqual(member.address, "a:7883")
        self.assertEqual(len(hosts), 1)
        self.assertLess(hosts, {"b", "c"})

    def test_what_a_third_node_has_to_get_stays_for_it(self) -> None:
        sim = self.shared()
        a, b, c = (sim.nodes[name] for name in "abc")
        self.sleeper(c)
        c._detector = None  # it would take over what is for itself
        sim.split({"c"}, {"a", "b"})
        sim.run(10.0)
        self.publish(a, b"for c")
        a.crash()
        sim.run(25.0)  # b has tried, and given up for now
        self.assertFalse(a.up)
        assert b.node is not None
        self.assertIn("a", b.node.members)
        sim.heal()
        sim.run(PAUSE_S + 10.0)
        assert b.node is not None
        self.assertNotIn("a", b.node.members)
        client = self.connect(c, "s", clean=False)
        self.assertEqual(client.payloads(), [b"for c"])

    def test_it_ends_though_messages_come_all_the_time(self) -> None:
        """A session is with its client; but a node that is missing may have more for it."""
        sim = self.shared()
        a, b, c = (sim.nodes[name] for name in "abc")
        self.sleeper(a)
        c._detector = None
        sim.split({"c"}, {"a", "b"})
        sim.run(7.0)
        a.crash()
        sim.run(LEASE_S)
        client = b.open()
        b.send(client, p.connect("s", clean=False))
        sim.run(6.0)
        client.next("CONNACK")
        self.assertTrue(a.up)
        publisher = self.connect(b, "p")
        for number in range(100):
            b.send(publisher, p.publish("t/1", b"x", 1, number + 1))
            sim.run(0.25)
        self.assertFalse(a.up)
        assert b.node is not None
        self.assertIn("a", b.node.members)

    def test_another_one_goes_on_where_a_host_died(self) -> None:
        sim = self.shared()
        a = sim.nodes["a"]
        self.sleeper(a)
        self.publish(a, b"x")
        a.crash()
        while a.host is None:
            sim.run(0.05)
        host = a.host
        host.crash()
        self.assertFalse(a.up)
        sim.run(2 * LEASE_S + 5.0)
        [left] = [node for node in sim.nodes.values() if node not in (a, host)]
        client = self.connect(left, "s", clean=False)
        self.assertEqual(client.payloads(), [b"x"])

    def test_a_will_that_is_not_due_yet_is_not_lost(self) -> None:
        sim = self.shared()
        a, b = sim.nodes["a"], sim.nodes["b"]
        heir = self.connect(b, "heir")
        self.subscribe(b, heir, "w", 1)
        client = a.open(5)
        will = ("w", b"gone", 1, False, [(Prop.WILL_DELAY, 40)])
        a.send(client, p.connect("s", 5, will=will, props=[(Prop.SESSION_EXPIRY, 600)]))
        sim.run(1.0)
        client.next("CONNACK")
        a.crash()
        sim.run(30.0)
        self.assertEqual(heir.take(), [])
        sim.run(PAUSE_S + 20.0)
        self.assertEqual(heir.payloads(), [b"gone"])


class HelloTests(FailoverCase):
    def test_a_stand_in_shows_the_certificate_of_its_host(self) -> None:
        node = self.shared().nodes["b"].node
        assert node is not None
        said = unpack(node.hello())
        self.assertEqual(node.name_of(pack(**said)), "b")
        self.assertEqual(node.name_of(pack(**{**said, "node": "a", "host": "b"})), "b")
        self.assertEqual(node.name_of(pack(**{**said, "host": 5})), "")
        self.assertNotIn("host", said)

    def test_a_process_whose_place_was_taken_is_refused(self) -> None:
        sim = self.shared()
        a, b = sim.nodes["a"], sim.nodes["b"]
        assert a.node is not None and b.node is not None
        old = a.node.hello()
        self.assertEqual(b.node.refusal(old), "")
        a.crash()
        sim.run(LEASE_S + 3.0)
        self.assertIn("has taken the place of this one", b.node.refusal(old))

    def test_a_node_that_only_restarts_is_welcome(self) -> None:
        sim = self.cluster()
        a = sim.nodes["a"]
        a.crash()
        sim.run(1.0)
        a.start()
        sim.run(3.0)
        self.assertTrue(sim.whole())


class DetectorTests(FailoverCase):
    def setUp(self) -> None:
        self.sim = sim = self.cluster("ab", shared=True)
        self.a, self.b = sim.nodes["a"], sim.nodes["b"]
        assert self.b.node is not None
        self.node = self.b.node
        self.b._detector = None  # this one does not try by itself
        self.detector = FailedNodeDetector(self.node, LEASE_S, Random(1))

    def due(self) -> list[str]:
        return self.detector.due(START + self.sim.now)

    def wait(self) -> float:
        """How long until the node is tried."""
        began = self.sim.now
        while not self.due():
            self.sim.run(0.05)
            self.assertLess(self.sim.now, began + 100.0, "it is never tried")
        return self.sim.now - began

    def test_a_node_that_is_linked_is_left_alone(self) -> None:
        self.assertEqual(self.due(), [])

    def test_one_that_is_gone_is_tried_again_and_again(self) -> None:
        self.a.crash()
        self.sim.run(0.1)
        self.assertLess(self.wait(), LEASE_S / 4 + 0.1)
        self.assertEqual(self.due(), [], "it is under way")
        self.detector.failed("a", START + self.sim.now)
        self.assertLess(self.wait(), LEASE_S / 2)
        self.sim.run(4 * LEASE_S)
        self.assertEqual(self.node.members["a"].state, DEAD)
        self.detector.failed("a", START + self.sim.now)
        self.assertGreater(self.wait(), LEASE_S / 2)

    def test_after_an_attempt_the_node_itself_has_time_to_come_back(self) -> None:
        self.a.crash()
        self.sim.run(0.1)
        self.wait()
        self.detector.ended("a", START + self.sim.now)
        self.assertGreater(self.wait(), PAUSE_S - 1.0)

    def test_only_those_with_the_same_store(self) -> None:
        self.a.crash()
        self.sim.run(0.1)
        self.node.members["a"].shared_store = "another"
        self.sim.run(LEASE_S)
        self.assertEqual(self.due(), [])
        self.node.members["a"].shared_store = self.node.settings.shared_store = ""
        self.assertEqual(self.due(), [])

    def test_who_can_be_replaced_is_known_after_a_restart(self) -> None:
        self.a.crash()
        self.b.crash()
        self.sim.run(1.0)
        self.b.start()
        node = self.b.node
        assert node is not None
        self.assertTrue(node.can_be_replaced(node.members["a"]))

    def test_a_node_that_is_leaving_tries_nothing(self) -> None:
        self.a.crash()
        self.sim.run(LEASE_S)
        self.node.leaving = True
        self.assertEqual(self.due(), [])


class ReadyTests(TestCase):
    """A node takes over from another one when it can be one itself."""

    def test_not_before_it_is_known_who_may_do_what(self) -> None:
        """Rules are in force as soon as the node has joined.  Before that, nothing could judge the
        wills of the failed node, and all would be published."""
        clock = Clock()
        cluster = SimpleNamespace(node=None, near="127.0.0.1:7883", is_ready=False)
        place: Any = SimpleNamespace(
            cluster=cluster, store=SimpleNamespace(lease_s=1.0), reactor=clock, clock=clock.seconds
        )
        failovers: Any = Failovers(place)
        tried: list[str] = []
        failovers._detector = SimpleNamespace(due=lambda now: ["a"], ended=lambda name, now: None)

        async def attempt(name: str) -> None:
            tried.append(name)

        failovers._try = attempt
        failovers._look()
        self.assertEqual(tried, [])
        cluster.is_ready = True
        failovers._look()
        self.assertEqual(tried, ["a"])
