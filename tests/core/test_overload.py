"""A broker that falls behind: who is refused, until when, and what is told."""

from unittest import TestCase

from mhub.core import events
from mhub.core.overload import CALM_S, Overload
from mhub.wire import reasons
from tests.core.world import World
from tests.helpers import packets as p


class OverloadTests(TestCase):
    def setUp(self) -> None:
        self.overload = Overload(2.0)
        self.now = 100.0

    def states(self, *drifts: float) -> list[bool]:
        """Whether it is overloaded, after each of these measurements."""
        found = []
        for drift_s in drifts:
            self.now += 0.25
            before = self.overload.active
            changed = self.overload.measure(drift_s, self.now)
            self.assertEqual(changed, before != self.overload.active)
            found.append(self.overload.active)
        return found

    def test_one_long_turn_is_none(self) -> None:
        self.assertEqual(self.states(0, 50, 0, 3, 0, 1.9, 1.9, 1.9), [False] * 8)

    def test_two_in_a_row(self) -> None:
        self.assertEqual(self.states(2.0, 2.0), [False, True])

    def test_it_ends_when_it_has_been_calm(self) -> None:
        self.states(3, 3)
        calm = round(CALM_S * 4)
        self.assertEqual(self.states(*[0.9] * calm), [True] * calm)
        self.assertEqual(self.states(0.9), [False])

    def test_it_does_not_end_between_the_bounds(self) -> None:
        self.states(3, 3)
        self.assertTrue(all(self.states(*[1.0, *[0.1] * 7] * 10)))

    def test_never(self) -> None:
        self.overload = Overload(0.0)
        self.assertFalse(any(self.states(*[100.0] * 10)))


class HubTests(TestCase):
    def setUp(self) -> None:
        self.world = World(overload_drift_s=1.0)
        self.old = self.world.client("old", keepalive=10)

    def measure(self, *drifts: float) -> None:
        for drift_s in drifts:
            self.world.hub.measure_drift(drift_s, self.world.now)
            self.world.wait(0.25)

    def refusal(self, version: int) -> int:
        client = self.world.open(version)
        client.send(p.connect("new", version))
        return client.next("CONNACK").reason

    def test_new_clients_are_refused_and_those_here_are_served(self) -> None:
        self.measure(2, 2)
        self.assertEqual(self.refusal(5), reasons.SERVER_BUSY)
        self.assertEqual(self.refusal(4), reasons.V3_SERVER_UNAVAILABLE)
        self.old.subscribe("t")
        self.old.publish("t", b"x")
        self.assertEqual(self.old.payloads(), [b"x"])
        self.measure(*[0] * 9)
        self.world.client("new")

    def test_it_is_counted_and_told(self) -> None:
        self.measure(2, 2)
        self.refusal(5)
        self.measure(*[0] * 9)
        stats = self.world.stats
        self.assertEqual((stats.overloads, stats.refused_overload), (1, 1))
        begin, end = self.world.diary.of(events.OVERLOAD)
        self.assertEqual((begin.cause, begin.text), ("begin", "it is 2.0 s late"))
        self.assertEqual((end.cause, end.count, end.duration_s), ("end", 1, 2.25))

    def test_a_client_is_not_given_up_because_the_broker_is_late(self) -> None:
        """What it has sent may lie in its socket."""
        self.world.hub.measure_drift(30.0, self.world.now)
        self.world.wait(30)
        self.assertFalse(self.old.closed)
        self.old.send(p.pingreq())
        self.world.hub.measure_drift(0.0, self.world.now)
        self.world.wait(14, 56)
        self.assertFalse(self.old.closed)
        self.world.wait(2, 8)
        self.assertTrue(self.old.closed)
