"""Subscribers that go from node to node get every message once and in order: the short form.

Of `make roam` these are one run for each store, all at the same time and with a busy process
beside them, as a machine that has nothing else to do shows less.
"""

from twisted.python import log
from twisted.trial.unittest import SynchronousTestCase

from tests.system.cluster_check import HEADING
from tests.system.cluster_jobs import Plan, burning, redis_for, run_all

SEED = 20
MOVES = 12
COMBINATIONS = (
    ("sqlite", 4, "hasty"),
    ("redis", 5, "impatient"),
    ("memory", 5, "patient"),
)


class RoamTests(SynchronousTestCase):
    def test_messages_come_once_and_in_order_wherever_the_subscriber_is(self) -> None:
        stores = [store for store, _, _ in COMBINATIONS]
        with redis_for(stores) as port, burning(1):
            plans = [
                Plan(number, "roam", store, version, temper, SEED, 0.2, MOVES, redis_port=port)
                for number, (store, version, temper) in enumerate(COMBINATIONS, 1)
            ]
            results = list(run_all(plans, jobs=len(plans)))
        wrong = []
        for plan, result in results:
            table = f"{HEADING}\n{result.verdict.row()}"
            log.msg(f"{plan.title}, {result.seconds:.1f} s\n{table}")
            if result.verdict.wrong:
                wrong += [plan.title, table, *result.verdict.wrong]
        if wrong:
            self.fail("\n".join(wrong))
