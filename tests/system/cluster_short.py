"""What was acknowledged survives: nodes of a cluster die, freeze, lose each other, come and go.

The short form of `tests.system.cluster_run`: each state of the cluster lasts for a moment, and the
checks are the same.  The rows of its table go to the log of the test run.
"""

import random

from twisted.python import log
from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place
from tests.system.cluster_check import HEADING
from tests.system.cluster_scenarios import play
from tests.system.cluster_stage import Stage
from tests.system.durability import Stuck

SEED = 20
SECONDS = 0.3


class ClusterTests(SynchronousTestCase):
    def check(self, *names: str) -> None:
        stage = Stage(place(self), random.Random(SEED), SECONDS)
        self.addCleanup(stage.close)
        try:
            verdict = play(stage, *names)
        except Stuck as stuck:
            self.fail(f"{stuck}\n{stage.house.describe()}")
        table = f"{HEADING}\n{verdict.row('+'.join(names))}"
        log.msg(f"\n{table}")
        if verdict.wrong:
            self.fail("\n".join([*verdict.wrong, table, stage.house.describe()]))
        self.assertEqual(verdict.published, verdict.acknowledged)

    def test_each_node_is_killed_and_comes_back(self) -> None:
        self.check("kill")

    def test_a_node_is_apart_from_the_others(self) -> None:
        self.check("split")

    def test_a_node_stands_still_then_each_is_restarted(self) -> None:
        self.check("freeze", "rolling")

    def test_a_fourth_node_joins_then_one_leaves(self) -> None:
        self.check("join", "leave")

    def test_a_node_is_killed_behind_haproxy(self) -> None:
        self.check("proxy")
