"""What was acknowledged survives: nodes of a cluster die, freeze, lose each other, come and go.

The short form of `tests.system.cluster_run`: each state lasts for a moment, and the checks are
the same.  What was counted and measured goes to the log of the run.
"""

import random

from twisted.python import log
from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place
from tests.system.cluster_check import HEADING
from tests.system.cluster_scenarios import run_scenarios
from tests.system.cluster_testbed import Testbed
from tests.system.durability import Stuck

SEED = 20
SECONDS = 0.3


class ClusterTests(SynchronousTestCase):
    def check(self, *names: str) -> None:
        testbed = Testbed(place(self), random.Random(SEED), SECONDS, is_brief=True)
        self.addCleanup(testbed.close)
        try:
            verdict = run_scenarios(testbed, *names)
        except Stuck as stuck:
            self.fail(f"{stuck}\n{testbed.cluster.describe()}")
        table = f"{HEADING}\n{verdict.row()}"
        log.msg("\n".join(["", table, *testbed.said]))
        if verdict.wrong:
            self.fail("\n".join([*verdict.wrong, table, testbed.cluster.describe()]))
        self.assertEqual(verdict.published, verdict.acked)

    def test_a_node_is_killed(self) -> None:
        self.check("kill")

    def test_a_node_stands_still(self) -> None:
        self.check("still")

    def test_a_node_is_frozen(self) -> None:
        self.check("freeze")

    def test_the_network_splits(self) -> None:
        self.check("split")

    def test_nodes_die_freeze_lose_each_other_come_and_go(self) -> None:
        self.check("kill", "freeze", "split", "join", "leave")

    def test_a_node_joins_and_one_leaves(self) -> None:
        self.check("join", "leave")

    def test_a_node_is_killed_behind_haproxy(self) -> None:
        self.check("proxy")
