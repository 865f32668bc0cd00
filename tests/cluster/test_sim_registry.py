"""The registry of a simulated cluster: what was acknowledged is served, whatever goes wrong."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.rounds import Rounds
from tests.cluster.sim_registry import FAULTS, RegistryHistory
from tests.core.disk import HastyDisk

HARMLESS = ("cut", "split", "power", "slow")
"""Faults after which nobody is forgotten: nothing is excused."""


class HistoryTests(SynchronousTestCase):
    def play(self, seeds: range, faults: tuple[str, ...], shared: bool = False) -> dict[str, int]:
        totals: dict[str, int] = {}
        for seed in seeds:
            history = RegistryHistory(seed, faults, shared=shared)
            wrong = history.play()
            text = "\n".join([f"seed {seed}, {faults}:", *history.sim.history])
            self.assertEqual(wrong, [], text)
            for what, count in history.counts.items():
                totals[what] = totals.get(what, 0) + count
        return totals

    def test_nothing_acknowledged_is_lost_and_nothing_deleted_comes_back(self) -> None:
        totals = self.play(range(1, 16), HARMLESS)
        self.assertGreater(totals["acknowledged"], 300)
        self.assertGreater(totals["collected"], 50)

    def test_nodes_that_were_away_for_long_take_the_table_of_the_others(self) -> None:
        totals = self.play(range(1, 9), FAULTS)
        self.assertGreater(totals["refused"], 5)
        self.assertGreater(totals["collected"], 50)

    def test_a_failed_node_leaves_its_registry_to_the_others(self) -> None:
        totals = self.play(range(1, 6), (*HARMLESS, "absence"), shared=True)
        self.assertGreater(totals["acknowledged"], 100)


class DefectTests(SynchronousTestCase):
    """Defects that are put in on purpose are found."""

    def found(self, faults: tuple[str, ...], hasty: bool = False) -> bool:
        for seed in range(1, 25):
            history = RegistryHistory(seed, faults)
            if hasty:
                history.sim.make_disk = HastyDisk
            if history.play():
                return True
        return False

    def test_an_answer_before_the_sync(self) -> None:
        self.assertTrue(self.found(("power",), hasty=True))

    def test_what_was_deleted_is_taken_from_whoever_has_it(self) -> None:
        def take(rounds: Rounds, member: object, body: bytes) -> None:
            floors = rounds._floors
            floor, floors.floor = floors.floor, 0
            entries(rounds, member, body)  # type: ignore[arg-type]
            floors.floor = floor

        entries = Rounds.entries
        self.patch(Rounds, "entries", take)
        self.assertTrue(self.found(FAULTS))
