"""The registry at real processes: what was changed or deleted while a node was not there."""

import json
import signal
import sys

from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place
from tests.system.cluster_processes import ClusterProcesses
from tests.system.process import run, wait_until


class RegistryTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.cluster = ClusterProcesses(place(self))
        self.addCleanup(self.cluster.close)
        self.cluster.add("a", "b")
        self.cluster.start()
        wait_until(self.cluster.whole, "a cluster of two")

    def mhub(self, node: str, *argv: str) -> str:
        directory = self.cluster.nodes[node].directory
        done = run(
            [sys.executable, "-m", "mhub", "ctl", *argv, "--config", "broker.toml"], cwd=directory
        )
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def ban(self, node: str, *words: str) -> None:
        self.mhub(node, "ban", *words)

    def banned(self, node: str) -> list[str]:
        found = json.loads(self.mhub(node, "ban", "list", "--json"))
        return sorted(each["value"] for each in found["bans"])

    def agree(self) -> bool:
        """Whether both nodes say the same revision, each of both."""
        revisions = set()
        for node in self.cluster.nodes.values():
            status = node.status()
            if status is None or not self.cluster.whole():
                return False
            revisions.add(status["registry"]["revision"])
            revisions |= {member["revision"] for member in status["members"]}
        return len(revisions) == 1

    def start(self, name: str) -> None:
        self.cluster.start(name)
        wait_until(self.cluster.whole, f"node {name} is back")

    def test_a_node_that_was_away_takes_changes_and_deletions(self) -> None:
        self.ban("a", "add", "client", "one")
        self.ban("b", "add", "client", "two")
        self.assertEqual(self.banned("a"), ["one", "two"])
        self.assertEqual(self.banned("b"), ["one", "two"])
        self.cluster.kill("b")
        self.ban("a", "remove", "client", "one")
        self.ban("a", "add", "client", "three")
        self.start("b")
        self.assertEqual(self.banned("b"), ["three", "two"])
        wait_until(self.agree, "all say the same revision")
        self.assertIn(", on all nodes; ", self.mhub("a", "cluster", "status"))
        self.assertEqual(self.banned("a"), ["three", "two"])

    def test_what_was_answered_survives_the_end_of_all_nodes(self) -> None:
        self.ban("a", "add", "client", "one")
        self.cluster.kill("a")
        self.cluster.kill("b")
        self.cluster.start()
        wait_until(self.cluster.whole, "both are back")
        self.assertEqual([self.banned("a"), self.banned("b")], [["one"], ["one"]])

    def test_what_was_changed_in_the_store_of_a_node_that_did_not_run(self) -> None:
        self.ban("a", "add", "client", "one")
        node = self.cluster.nodes["b"]
        node.signal(signal.SIGTERM)
        self.assertEqual(node.wait(), 0)
        self.ban("b", "remove", "client", "one")
        self.ban("b", "add", "client", "two")
        self.start("b")
        wait_until(self.agree, "all say the same revision")
        self.assertEqual([self.banned("a"), self.banned("b")], [["two"], ["two"]])
