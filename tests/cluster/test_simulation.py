"""Histories of a simulated cluster, from seeds: a few each time.

A seed means nothing any more after a change of the code, so none is kept here for having failed
once: what it showed is kept as a list of decisions instead.  `make simulate` plays many more.
"""

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.sim_history import play

HISTORIES = {
    "move,hop,cut,slow": range(20),
    "move,hop,cut,slow,split,crash": range(30),
}
"""Faults that may happen -> seeds.  What the cluster promises without any excuse belongs here."""


class HistoryTests(SynchronousTestCase):
    def check(self, seed: int, faults: tuple[str, ...]) -> None:
        wrong, history = play(seed, faults)
        self.assertEqual(
            wrong, [], f"seed {seed}, faults {','.join(faults)}:\n" + "\n".join(history)
        )

    def test_nothing_acknowledged_is_lost_whatever_happens(self) -> None:
        for faults, seeds in HISTORIES.items():
            for seed in seeds:
                self.check(seed, tuple(faults.split(",")))

    def test_a_seed_gives_the_same_history_each_time(self) -> None:
        self.assertEqual(play(7), play(7))
        self.assertNotEqual(play(7), play(8))
