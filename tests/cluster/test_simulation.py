"""Histories of a simulated cluster: a few from seeds each time, and those that went wrong once.

A seed makes a list of decisions, which are played.  A history that went wrong is kept as such a
list, in histories/, made short by `sim_run --shrink`, with what it was about at its head: it means
the same however the code, or the way in which seeds become decisions, changes.  `make simulate`
plays many more seeds.
"""

from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.sim_history import History, play
from tests.cluster.sim_plan import FAULTS, Decision, Plan, make, parse
from tests.cluster.sim_shrink import Shrinker, kinds
from tests.core.disk import HastyDisk

KEPT = sorted((Path(__file__).parent / "histories").glob("*.txt"))

HISTORIES = {
    "move,hop,cut,slow": range(20),
    "move,hop,cut,slow,split,crash": range(20),
    ",".join(FAULTS): range(20),
}
"""Faults that may happen -> seeds.  What the cluster promises without any excuse belongs here."""


class HistoryTests(SynchronousTestCase):
    def check(self, name: str, plan: Plan) -> None:
        wrong, history = play(plan)
        self.assertEqual(wrong, [], f"{name}:\n" + "\n".join(history))

    def test_nothing_acknowledged_is_lost_whatever_happens(self) -> None:
        for faults, seeds in HISTORIES.items():
            for seed in seeds:
                self.check(f"seed {seed}, faults {faults}", make(seed, tuple(faults.split(","))))

    def test_what_went_wrong_once(self) -> None:
        for path in KEPT:
            plan = parse(path.read_text())
            self.assertTrue(plan.comments, f"{path.name} says what it was about")
            self.check(path.name, plan)

    def test_a_plan_gives_the_same_history_each_time(self) -> None:
        self.assertEqual(play(make(7, FAULTS)), play(make(7, FAULTS)))
        self.assertNotEqual(play(make(7, FAULTS)), play(make(8, FAULTS)))


class PowerTests(SynchronousTestCase):
    """What was not synced when the power went off is lost, so nobody may have been told of it."""

    def wrong(self, seed: int) -> list[str]:
        history = History(make(seed, ("move", "power")))
        history.sim.make_disk = HastyDisk
        return history.play()

    def test_an_answer_before_the_sync_is_found(self) -> None:
        found = next((seed for seed in range(1, 21) if self.wrong(seed)), None)
        self.assertIsNotNone(found)

    def test_tails_are_torn(self) -> None:
        torn = 0
        for seed in range(1, 6):
            history = History(make(seed, ("move", "power")))
            self.assertEqual(history.play(), [])
            torn += history.sim.stats["torn"]
        self.assertGreater(torn, 0)


class PlanTests(SynchronousTestCase):
    def test_a_file_says_all(self) -> None:
        for faults in (FAULTS, ("move", "adopt")):
            plan = make(3, faults)
            plan.comments = ["it was about this", "", "and that"]
            self.assertEqual(parse(plan.text()), plan)

    def test_what_cannot_happen_is_skipped(self) -> None:
        text = "noise 1\n6.1 start a\n6.2 crash a 0.5\n6.3 crash a 0.5\n6.4 heal\n7.0 end"
        self.assertEqual(play(parse(text))[0], [])

    def test_lines_that_say_nothing_are_refused(self) -> None:
        self.assertRaises(ValueError, parse, "noise 1\n6.1\n")
        self.assertRaises(ValueError, play, parse("noise 1\n6.1 explode a"))

    def test_each_fault_makes_its_decisions(self) -> None:
        expected = {
            "move": {"move"},
            "hop": {"move"},
            "cut": {"cut"},
            "slow": {"slow"},
            "split": {"split", "heal"},
            "crash": {"crash", "start"},
            "power": {"crash", "start"},
            "adopt": {"crash", "start"},
        }
        for fault, decided in expected.items():
            plan = make(1, (fault,))
            self.assertEqual({each.kind for each in plan.decisions} - {"publish", "end"}, decided)
            self.assertEqual(plan.shared, fault == "adopt")
        self.assertRaises(ValueError, make, 1, ("flood",))


class ShrinkTests(SynchronousTestCase):
    def shrunk(self, plan: Plan, needed: list[Decision], most: int = 10_000) -> Shrinker:
        """With histories that fail if all of these happen."""
        tries = iter(range(most))
        shrinker = Shrinker(
            plan,
            lambda other: all(each in other.decisions for each in needed),
            lambda: next(tries, None) is not None,
        )
        shrinker.run()
        return shrinker

    def test_only_what_is_needed_is_left(self) -> None:
        plan = make(3, FAULTS)
        decisions = plan.decisions
        needed = [decisions[17], decisions[18], decisions[len(decisions) // 2], decisions[-1]]
        shrinker = self.shrunk(plan, needed)
        self.assertEqual(shrinker.plan.decisions, needed)
        self.assertEqual(shrinker.plan.noise, plan.noise)
        self.assertLess(shrinker.tried, 400)

    def test_it_ends_in_time(self) -> None:
        plan = make(3, FAULTS)
        needed = plan.decisions[::7]
        shrinker = self.shrunk(plan, needed, most=50)
        self.assertLess(shrinker.tried, 50)
        self.assertEqual([each for each in needed if each not in shrinker.plan.decisions], [])

    def test_violations_are_the_same_for_other_clients(self) -> None:
        self.assertEqual(kinds(["p1 -> s2: lost [3]"]), kinds(["p0 -> s0: lost [7, 8]"]))
        self.assertNotEqual(kinds(["p1 -> s2: lost [3]"]), kinds(["p1 -> s2: twice [3]"]))
