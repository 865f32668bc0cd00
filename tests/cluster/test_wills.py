"""Wills of clients whose node ends, and who are back at once, there or at another node."""

from tests.cluster.simulation import SimNode, Simulation, node_of
from tests.cluster.test_node import Case
from tests.core.world import Client
from tests.helpers.packets import Prop

KEPT = [(Prop.SESSION_EXPIRY, 1000)]


class WillCase(Case):
    def begin(self, delay_s: int = 0) -> tuple[Simulation, SimNode, SimNode, Client]:
        """A client of node a that leaves a will, and one of node b that hears of it."""
        sim = self.cluster("ab", durable=True)
        a, b = sim.nodes["a"], sim.nodes["b"]
        heir = self.connect(b, "heir")
        self.subscribe(b, heir, "w", 1)
        will = ("w", b"gone", 1, False, [(Prop.WILL_DELAY, delay_s)] if delay_s else None)
        self.mortal = self.connect(a, "m", 5, clean=False, props=KEPT, will=will)
        sim.run(0.5)
        return sim, a, b, heir

    def back(self, side: SimNode, present: bool = True) -> None:
        again = self.connect(side, "m", 5, clean=False, props=KEPT)
        assert again.connack is not None
        self.assertEqual(again.connack.session_present, present)


class RestartTests(WillCase):
    def test_the_client_is_back_at_the_same_node(self) -> None:
        sim, a, _, heir = self.begin()
        a.crash()
        a.start()
        while not node_of(a).links or not node_of(a).ready():
            sim.run(0.005)
        self.back(a)
        sim.run(2.0)
        self.assertEqual(heir.payloads(), [b"gone"])

    def test_the_client_is_back_at_another_node(self) -> None:
        """Its session goes there; the will came before that, from the node that it had been at."""
        sim, a, b, heir = self.begin()
        a.crash()
        a.start()
        while not node_of(b).links:
            sim.run(0.005)
        self.back(b)
        sim.run(2.0)
        self.assertEqual(heir.payloads(), [b"gone"])
        self.assertIn("m", b.world.hub.sessions)
        self.assertNotIn("m", a.world.hub.sessions)

    def test_the_client_is_back_within_the_delay(self) -> None:
        for where in ("a", "b"):
            with self.subTest(where=where):
                sim, a, _, heir = self.begin(delay_s=30)
                a.crash()
                a.start()
                sim.run(5.0)
                self.back(sim.nodes[where])
                sim.run(60.0)
                self.assertEqual(heir.take(), [])

    def test_the_delay_ends_while_the_session_migrates(self) -> None:
        """The client was back in time."""
        sim, a, b, heir = self.begin(delay_s=30)
        a.lose(self.mortal)
        sim.run(29.99)
        disk = a.disk
        assert disk is not None
        step, disk.step = disk.step, lambda: None  # type: ignore[method-assign]
        sim.later(0.5, lambda: setattr(disk, "step", step))
        self.back(b)
        sim.run(60.0)
        self.assertEqual(heir.take(), [])


class StopTests(WillCase):
    def stop(self, side: SimNode) -> None:
        """As the service does it."""
        side.enter()
        side.world.hub.shut_down(side.world.now)
        side.leave()
        side.sim.run(0.1)
        side.enter()
        node_of(side).close()
        side.leave()
        assert side.disk is not None
        side.disk.settle()
        side.crash()

    def test_others_hear_of_it_at_once_and_once(self) -> None:
        for where in ("a", "b"):
            with self.subTest(where=where):
                sim, a, _, heir = self.begin()
                self.stop(a)
                sim.run(1.0)
                self.assertEqual(heir.payloads(), [b"gone"])
                a.start()
                sim.run(3.0)
                self.back(sim.nodes[where])
                sim.run(3.0)
                self.assertEqual(heir.take(), [])

    def test_a_delay_goes_on(self) -> None:
        sim, a, b, heir = self.begin(delay_s=30)
        self.stop(a)
        a.start()
        sim.run(20.0)
        self.assertEqual(heir.take(), [])
        sim.run(15.0)
        self.assertEqual(heir.payloads(), [b"gone"])
        self.back(b)
        sim.run(2.0)
        self.assertEqual(heir.take(), [])

    def test_a_session_that_migrates_leaves_its_will_to_the_target(self) -> None:
        sim, a, b, heir = self.begin(delay_s=30)
        a.lose(self.mortal)
        sim.run(1.0)
        node_of(a).evacuate("")
        for _ in range(20):
            a.enter()
            node_of(a).offer()
            a.leave()
            sim.run(0.05)
        self.assertIn("m", b.world.hub.sessions)
        self.stop(a)
        sim.run(20.0)
        self.assertEqual(heir.take(), [])
        sim.run(15.0)
        self.assertEqual(heir.payloads(), [b"gone"])
