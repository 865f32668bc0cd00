"""Clients that roam in every way find nothing wrong with a single broker at three addresses.

So what they find wrong with a cluster (`tests.system.cluster_roam`) is the cluster's doing: not
theirs, and not that of the sessions on a node.
"""

import random

from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place
from tests.system.cluster_check import HEADING, judge
from tests.system.cluster_clients import ClusterLoad
from tests.system.cluster_processes import PORT, SQLITE, random_net
from tests.system.cluster_roam import add_clients, run
from tests.system.cluster_trace import Trace
from tests.system.process import Broker

SEED = 20
MOVES = 15

LISTENER = """
[[listeners]]
name = "{name}"
host = "{host}"
port = {port}
"""

CONFIG = f"""
[[listeners]]
name = "plain"
port = 0

[limits]
max_queued_messages = 0
max_queued_bytes = 0

[store]
{SQLITE}
"""


class SingleBrokerTests(SynchronousTestCase):
    def check(self, temper: str, version: int) -> None:
        net = random_net()
        hosts = {name: f"{net}.{number}" for number, name in enumerate("abc", 1)}
        listeners = [LISTENER.format(name=n, host=h, port=PORT) for n, h in hosts.items()]
        broker = Broker(place(self), CONFIG + "".join(listeners))
        self.addCleanup(broker.kill)
        broker.start()
        rng = random.Random(SEED)
        addresses = [(host, PORT) for host in hosts.values()]
        load = ClusterLoad(rng, lambda: addresses, lambda: False, Trace(), version)
        self.addCleanup(load.close)
        add_clients(load, hosts, temper, rng)
        load.calmly_until(load.everybody, "sessions and subscriptions")
        run(load, MOVES)
        load.calmly_until(load.everybody, "everybody connected")
        load.calmly_until(lambda: all(each.idle for each in load.publishers), "acknowledgements")
        load.drain()
        for subscriber in load.subscribers:
            subscriber.look_for_open()
        verdict = judge(load, nothing_failed=True)
        self.assertEqual([], verdict.wrong, f"\n{HEADING}\n{verdict.row()}")
        self.assertEqual(verdict.published, verdict.acked)
        self.assertEqual(broker.stop(), 0)
        self.assertNotIn("Traceback", broker.log())

    def test_patient(self) -> None:
        self.check("patient", version=4)

    def test_hasty(self) -> None:
        self.check("hasty", version=5)

    def test_impatient(self) -> None:
        self.check("impatient", version=4)
