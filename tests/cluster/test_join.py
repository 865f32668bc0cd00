"""A node that joins is ready when it has what each node that it can reach has, and not before.

Its listeners open then.  A client that came earlier would miss retained messages and its session,
and what it publishes would not reach subscribers at the nodes that are not linked yet.
"""

from collections.abc import Callable

from mhub.cluster.member import UP
from tests.cluster.simulation import SimNode, Simulation, node_of
from tests.cluster.test_node import Case
from tests.helpers import packets as p


class Held:
    """Calls to some addresses take as long as the test likes."""

    def __init__(self, joining: SimNode, *addresses: str) -> None:
        self._held: list[str] = []
        self._dial: Callable[[str], None] = joining.dial
        self._addresses = addresses
        joining.dial = self._hold  # type: ignore[method-assign]

    def _hold(self, address: str) -> None:
        if address in self._addresses:
            self._held.append(address)
        else:
            self._dial(address)

    def release(self) -> None:
        self._addresses = ()
        for address in self._held:
            self._dial(address)


class JoinTests(Case):
    def three(self, lists: str = "abcd") -> Simulation:
        """Nodes a, b and c that see each other; d starts with these in its list."""
        sim = Simulation(1, "abcd")
        sim.addresses = [sim.nodes[name].address for name in "abc"]  # they do not call d
        for name in "abc":
            sim.nodes[name].start()
        sim.run(3.0)
        sim.addresses = [sim.nodes[name].address for name in lists]
        return sim

    def up(self, node: SimNode) -> str:
        return "".join(sorted(m.name for m in node_of(node).members.values() if m.state == UP))

    def until_ready(self, node: SimNode) -> None:
        for _ in range(100):
            if node_of(node).ready():
                return
            node.sim.run(0.05)
        self.fail(f"not ready: {node.lines}")

    def test_not_before_each_call_has_ended(self) -> None:
        """Though the first node that answered has told the names of those that did not yet."""
        sim = self.three()
        a, d = sim.nodes["a"], sim.nodes["d"]
        held = Held(d, a.address)
        d.start()
        sim.run(3.0)
        self.assertEqual(self.up(d), "bc")
        self.assertFalse(node_of(d).ready())
        # This is retained at a, b and c, and acknowledged, as nobody there knows of d.
        publisher = self.connect(a, "p")
        a.send(publisher, p.publish("r", b"x", 1, 1, True))
        sim.run(1.0)
        self.assertEqual(publisher.next("PUBACK").pid, 1)
        self.assertFalse(node_of(d).ready())
        self.assertIsNone(d.world.hub.retained.tree.get("r"))
        held.release()
        self.until_ready(d)
        self.assertEqual(self.up(d), "abc")
        kept = d.world.hub.retained.tree.get("r")
        self.assertEqual(kept.payload if kept is not None else None, b"x")

    def test_what_is_published_by_the_new_node_reaches_all(self) -> None:
        sim = self.three()
        a, d = sim.nodes["a"], sim.nodes["d"]
        subscriber = self.connect(a, "s")
        self.subscribe(a, subscriber, "t", 1)
        held = Held(d, a.address)
        d.start()
        sim.run(3.0)
        held.release()
        self.until_ready(d)
        publisher = d.open(4)
        d.send(publisher, p.connect("p"), p.publish("t", b"x", 1, 1))
        sim.run(1.0)
        self.assertEqual(publisher.next("CONNACK").reason, 0)
        self.assertEqual(publisher.next("PUBACK").pid, 1)
        self.assertEqual(subscriber.next("PUBLISH").payload, b"x")

    def test_also_those_that_others_told_it_of(self) -> None:
        """One node in the list is enough."""
        sim = self.three("b")
        d = sim.nodes["d"]
        d.start()
        self.until_ready(d)
        self.assertEqual(self.up(d), "abc")

    def test_also_after_a_restart(self) -> None:
        """The store knows the names of the others; where they are, another node tells."""
        sim = self.three("b")
        d = sim.nodes["d"]
        d.start()
        self.until_ready(d)
        d.crash(1.0)
        for name in "ac":
            sim.nodes[name].dial = lambda address: None  # type: ignore[method-assign]
        sim.run(1.0)
        d.start()
        self.assertEqual(sorted(node_of(d).members), ["a", "b", "c"])
        self.until_ready(d)
        self.assertEqual(self.up(d), "abc")

    def test_without_those_that_do_not_answer(self) -> None:
        for lists in ("abcd", "b"):
            with self.subTest(lists):
                sim = self.three(lists)
                d = sim.nodes["d"]
                sim.nodes["a"].crash()
                sim.run(1.0)
                d.start()
                self.until_ready(d)
                self.assertEqual(self.up(d), "bc")

    def test_alone(self) -> None:
        sim = Simulation(1, "abcd")
        d = sim.nodes["d"]
        d.start()
        self.until_ready(d)
        self.assertEqual(self.up(d), "")
