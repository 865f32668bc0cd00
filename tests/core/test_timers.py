"""The wheel: nobody is looked at early, nobody late by more than a slot, nobody twice."""

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.limits import Limits
from mhub.core.session import Session
from mhub.core.timers import SLOTS_PER_SECOND, Wheel, earliest
from tests.core.world import START, World
from tests.helpers.splits import steady

SLOT_S = 1 / SLOTS_PER_SECOND


class Case(TestCase):
    def setUp(self) -> None:
        self.hub = World().hub
        self.wheel = Wheel()
        self.wheel.tick(START)

    def timed(self, name: str = "t") -> Session:
        """Anything with a deadline would do; the compiled build takes its own classes only."""
        return Session(self.hub, name, Limits())

    def entries(self) -> int:
        return sum(len(listed) for listed in self.wheel.slots.values())


class Deadlines(Case):
    def test_not_before_the_deadline_and_not_long_after(self) -> None:
        for after in (0.0, 0.1, 0.25, 1.0, 1.4999, 9.99, 3600.0):
            wheel = Wheel()
            wheel.tick(START)
            timed = self.timed()
            wheel.arm(timed, START + after)
            self.assertEqual(wheel.tick(START + after - 0.001), [])
            self.assertEqual(wheel.tick(START + after + SLOT_S), [timed])
            self.assertEqual((timed.slot, wheel.slots), (0, {}))

    def test_a_deadline_in_the_past_comes_next(self) -> None:
        timed = self.timed()
        self.wheel.arm(timed, START - 100)
        self.assertEqual(self.wheel.tick(START + SLOT_S), [timed])

    def test_the_earlier_of_two_deadlines_counts(self) -> None:
        timed = self.timed()
        self.wheel.arm(timed, START + 10)
        self.wheel.arm(timed, START + 5)
        self.wheel.arm(timed, START + 7)
        self.assertEqual(self.wheel.tick(START + 5 + SLOT_S), [timed])
        self.assertEqual(self.wheel.tick(START + 100), [])

    def test_in_the_order_of_their_slots(self) -> None:
        timed = {after: self.timed() for after in (9, 3, 6)}
        for after, each in timed.items():
            self.wheel.arm(each, START + after)
        expected = [timed[3], timed[6], timed[9]]
        self.assertEqual(self.wheel.tick(START + 1000), expected)

    def test_disarmed_is_forgotten_at_once(self) -> None:
        """Nothing keeps what was disarmed alive until its slot has passed."""
        timed = self.timed()
        self.wheel.arm(timed, START + 100_000)
        self.wheel.disarm(timed)
        self.assertEqual((self.wheel.slots, timed.slot), ({}, 0))
        self.wheel.disarm(timed)
        self.assertEqual(self.wheel.tick(START + 200_000), [])

    def test_rearmed_later_after_a_disarm(self) -> None:
        timed = self.timed()
        self.wheel.arm(timed, START + 5)
        self.wheel.disarm(timed)
        self.wheel.arm(timed, START + 9)
        self.assertEqual(self.wheel.tick(START + 6), [])
        self.assertEqual(self.wheel.tick(START + 10), [timed])

    def test_a_clock_that_is_set_back_loses_nobody(self) -> None:
        timed = self.timed()
        self.wheel.arm(timed, START + 5)
        self.assertEqual(self.wheel.tick(START - 1000), [])
        self.assertEqual(self.wheel.tick(START + 6), [timed])

    def test_a_long_sleep_costs_no_walk_through_empty_slots(self) -> None:
        timed = self.timed()
        self.wheel.arm(timed, START + 5)
        self.assertEqual(self.wheel.tick(START + 1e12), [timed])

    @given(
        st.lists(
            st.one_of(
                st.tuples(st.just("arm"), st.integers(0, 4), st.floats(0, 20)),
                st.tuples(st.just("disarm"), st.integers(0, 4)),
                st.tuples(st.just("wait"), st.floats(0, 10)),
            ),
            max_size=30,
        )
    )
    @steady
    def test_any_history(self, plan: list[Any]) -> None:
        """Against a plain table of deadlines."""
        wheel = Wheel()
        now = START
        wheel.tick(now)
        all_timed = [self.timed(str(number)) for number in range(5)]
        due: dict[Session, float] = {}
        for step in plan:
            if step[0] == "arm":
                timed = all_timed[step[1]]
                wheel.arm(timed, now + step[2])
                due[timed] = min(due.get(timed, now + step[2]), now + step[2])
            elif step[0] == "disarm":
                wheel.disarm(all_timed[step[1]])
                due.pop(all_timed[step[1]], None)
            else:
                now += step[1]
                found = wheel.tick(now)
                self.assertEqual(len(found), len(set(found)))
                for timed in found:
                    assert isinstance(timed, Session)
                    self.assertLessEqual(due.pop(timed), now)
                self.assertTrue(all(deadline > now - SLOT_S - 1e-6 for deadline in due.values()))
            self.assertEqual(sum(len(listed) for listed in wheel.slots.values()), len(due))


class Several(TestCase):
    """Two deadlines of one object, of which either may be the earlier one."""

    def test_earliest(self) -> None:
        self.assertEqual(
            [earliest(a, b) for a, b in ((0, 0), (0, 3), (3, 0), (3, 4), (4, 3))], [0, 3, 3, 3, 3]
        )

    def test_no_deadline_is_not_armed(self) -> None:
        wheel = Wheel()
        wheel.arm(Session(World().hub, "t", Limits()), 0.0)
        self.assertEqual(wheel.slots, {})

    def test_will_and_end_of_a_session(self) -> None:
        for delay_s, expiry_s in ((5, 20), (20, 5)):
            world = World()
            heir = world.client("heir")
            heir.subscribe("w")
            will = ("w", b"gone", 0, False, [(0x18, delay_s)])
            client = world.client("c", 5, clean=False, props=[(0x11, expiry_s)], will=will)
            client.lose()
            world.wait(6, steps=24)
            self.assertEqual(heir.payloads(), [b"gone"])
            self.assertEqual("c" in world.hub.sessions, expiry_s == 20)
            world.wait(16, steps=64)
            self.assertNotIn("c", world.hub.sessions)
            self.assertEqual(heir.payloads(), [])
            self.assertEqual(world.hub.wheel.slots, {})


class Residue(TestCase):
    def test_connections_that_ended_are_not_kept(self) -> None:
        """Reconnecting with the longest keep-alive and expiry leaves nothing in the wheel."""
        world = World()
        for _ in range(20):
            client = world.client("c", clean=False, keepalive=65535)
            world.wait(11)
            client.lose()
        self.assertEqual(world.hub.wheel.slots, {})
        props = [(0x11, 1_000_000)]
        for _ in range(20):
            client = world.client("v", 5, clean=False, keepalive=65535, props=props)
            world.wait(11)
            client.lose()
        self.assertEqual(sum(len(listed) for listed in world.hub.wheel.slots.values()), 1)
