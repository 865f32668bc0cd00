"""Small configurations explored as far as a minute reaches; `make explore` goes further.

Decisions that once led to a violation are replayed, and a few defects put in must be found.
"""

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mhub.build import kind
from tests.cluster.explore.cluster import Cluster
from tests.cluster.explore.configs import CONFIGS
from tests.cluster.explore.fingerprints import fingerprint
from tests.cluster.explore.search import Search, replay
from tests.cluster.explore.snapshots import load, save

ROOT = Path(__file__).parents[2]

WHOLE = ("near", "far", "takeover")
"""Configurations of which every order is tried."""

WITHOUT_DELAYS = ("order", "order-far", "waiting", "again", "third", "third-memory")
"""Those of which all is tried that clients can do, while links and disks keep an order."""

FAULTS = {
    "source-marks-one-late": "far",
    "target-marks-one-late": "far",
    "session-of-any-epoch-is-an-offer": "again",
    "source-forgets-at-end": "cut-far",
}
"""Defects, and where they are found in a moment."""

DECISIONS: dict[str, tuple[str, ...]] = {}
"""By configuration, what once led to a violation."""


class ExploreTests(SynchronousTestCase):
    if kind() != "pure":
        skip = "states are saved by the attributes of objects, which compiled ones do not show"

    def explore(self, name: str, delays: int) -> None:
        result = Search(CONFIGS[name], delays=delays).run()
        self.assertEqual(result.violations, [], name)
        self.assertTrue(result.exhausted)

    def test_nothing_goes_wrong_in_any_order(self) -> None:
        for name in WHOLE:
            self.explore(name, -1)

    def test_nothing_goes_wrong_whenever_clients_act(self) -> None:
        for name in WITHOUT_DELAYS:
            self.explore(name, 0)

    def test_what_went_wrong_once(self) -> None:
        for name, lists in DECISIONS.items():
            for decisions in lists:
                wrong, _, _ = replay(CONFIGS[name], decisions.split())
                self.assertEqual(wrong, [], decisions)

    def test_a_copy_is_the_same_state_and_goes_on_the_same_way(self) -> None:
        cluster = Cluster(CONFIGS["move"])
        while events := cluster.enabled():
            copy = load(save(cluster))
            self.assertEqual(fingerprint(copy), fingerprint(cluster))
            for each in (cluster, copy):
                each.do(events[-1])
            self.assertEqual(fingerprint(copy), fingerprint(cluster))
        self.assertEqual(cluster.end(), [])

    def test_defects_are_found(self) -> None:
        """In processes of their own, as a defect stays in."""
        for fault, name in FAULTS.items():
            command = [sys.executable, "-m", "tests.cluster.explore", "--quiet"]
            command += ["--config", name, "--fault", fault, "--delays", "0"]
            environment = {**os.environ, "PYTHONPATH": str(ROOT)}
            found = subprocess.run(
                command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
            )
            self.assertIn("VIOLATION", found.stdout, fault + found.stderr)
            self.assertEqual(found.returncode, 1)
