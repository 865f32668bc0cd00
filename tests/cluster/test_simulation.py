"""Histories of a simulated cluster, from seeds: a few each time, and those that once failed.

`make simulate` plays many more.
"""

from twisted.trial.unittest import SynchronousTestCase

from tests.cluster.sim_history import FAULTS, play

NEW = range(16)

FAILED = {
    "move": (3, 9, 11, 54),
    "move,cut,slow": (3, 13, 63),
    "move,split": (5, 18, 27, 39, 42),
    "move,crash": (14, 26, 30, 31, 37, 40, 54, 72, 120),
    "move,adopt": (7, 35, 56, 58, 66, 114, 141),
    "move,cut,slow,split,adopt": (90, 178, 232, 275, 305),
    ",".join(FAULTS): (
        *(10, 20, 50, 94, 257, 288, 330, 345, 8002),
        *(474, 20154, 30488, 30623, 30720, 40193, 41292, 42307, 42405),
    ),
}
"""Seeds that showed a violation when the cluster was built, each for a reason of its own."""


class HistoryTests(SynchronousTestCase):
    def check(self, seed: int, faults: tuple[str, ...]) -> None:
        wrong, history = play(seed, faults)
        self.assertEqual(
            wrong, [], f"seed {seed}, faults {','.join(faults)}:\n" + "\n".join(history)
        )

    def test_nothing_acknowledged_is_lost_whatever_happens(self) -> None:
        for seed in NEW:
            self.check(seed, FAULTS)

    def test_what_failed_once(self) -> None:
        for faults, seeds in FAILED.items():
            for seed in seeds:
                self.check(seed, tuple(faults.split(",")))

    def test_a_seed_gives_the_same_history_each_time(self) -> None:
        self.assertEqual(play(7), play(7))
        self.assertNotEqual(play(7), play(8))
