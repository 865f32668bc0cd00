"""What was acknowledged survives: nodes of a cluster die, freeze, lose each other, come and go.

The short form of `tests.system.cluster_run`: all of it happens to one cluster, each state lasts for
a moment, and the checks are the same.  What was counted and measured goes to the log of the run.
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
        stage = Stage(place(self), random.Random(SEED), SECONDS, is_brief=True)
        self.addCleanup(stage.close)
        try:
            verdict = play(stage, *names)
        except Stuck as stuck:
            self.fail(f"{stuck}\n{stage.house.describe()}")
        table = f"{HEADING}\n{verdict.row('+'.join(names))}"
        log.msg("\n".join(["", table, *stage.said]))
        if verdict.wrong:
            self.fail("\n".join([*verdict.wrong, table, stage.house.describe()]))
        self.assertEqual(verdict.published, verdict.acknowledged)

    def test_nodes_die_freeze_lose_each_other_come_and_go(self) -> None:
        self.check("kill", "still", "freeze", "split", "join", "leave")

    def test_a_node_is_killed_behind_haproxy(self) -> None:
        self.check("proxy")
