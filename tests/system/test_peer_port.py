"""The port for peers of a real node, with a crowd of strangers on it."""

import socket

from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place
from tests.system.cluster_processes import MEMORY, PEER_PORT, ClusterProcesses
from tests.system.process import wait_until

CROWD = 100


class CrowdTests(SynchronousTestCase):
    def check(self, *sources: str) -> None:
        """Idle strangers come from these addresses in turn; then a node that nobody knows of."""
        house = ClusterProcesses(place(self), store=MEMORY)
        self.addCleanup(house.close)
        house.add("a")
        house.start()
        wait_until(house.whole, "a node")
        a = house.nodes["a"]
        for n in range(CROWD):
            idle = socket.create_connection(
                (a.host, PEER_PORT), source_address=(sources[n % len(sources)], 0)
            )
            self.addCleanup(idle.close)
        wait_until(lambda: (a.status() or {})["strangers"]["evicted"] > 0, "the crowd is there")
        house.add("b")
        house.start("b")
        wait_until(house.whole, "a cluster of two")
        self.assertIn("connections to the peer port have not logged in", a.log())
        self.assertNotIn("Traceback", a.log())

    def test_of_one_address(self) -> None:
        self.check("127.0.0.1")

    def test_of_many_addresses(self) -> None:
        self.check(*(f"127.9.9.{n}" for n in range(1, CROWD + 1)))
