"""Small configurations explored as far as a minute reaches; `make explore` goes further.

Some are exhausted in all orders, some with links and disks in a fixed order, some are walked
through at random; and each defect that is put in must be found.
"""

import os
import subprocess
import sys
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mhub.build import kind
from tests.cluster.explore.cluster import Cluster
from tests.cluster.explore.configs import CONFIGS
from tests.cluster.explore.faults import FAULTS, WHERE
from tests.cluster.explore.fingerprints import fingerprint
from tests.cluster.explore.search import Search, follow, walk
from tests.cluster.explore.snapshots import load, save

ROOT = Path(__file__).parents[2]

WHOLE = ("takeover",)
"""Configurations of which every order is tried."""

WITHOUT_DELAYS = ("near", "far", "waiting", "order-far", "third-memory")
"""Those of which all is tried that clients can do, while links and disks keep an order."""

WALKED = (
    *("away", "away-back", "away-on", "doubt-third", "crash-source", "crash-third-publisher"),
    *("split-bab", "split-told", "publisher-third", "publisher-away"),
)
"""Those that are far too large for that."""

WALK_S = 1.0

DECISIONS: dict[str, tuple[str, ...]] = {
    "crash-both": (
        "p+ a* s- a* a>b b>a s+b b>a a>b b>a a* a>b a>b b>a a* a>b b* b* b>a b>a b>a a* a>b "
        "b>a a>b a>b a>b a>b b>a a>b b>a a>b b* a/b a=b b>a a>b b>a b>a a>b b>a a>b a>b b! b^ "
        "b* b* s+b b* a=b",
    ),
    "crash-third-publisher": (
        "p+ p+ s- c! a>b b>a c^ a=c c>a a>c c>a c>a a>c c>a a>c a>c b=c c>b s+b b>a a>b b>a "
        "a>b a>b b>a b>a a>c b>a b>a a>c a>c c>a a>c c>a a>c c>a c>a a>b a>b b>a a>b a>b b>a "
        "a>b b>a b>a a>b a>b b>c c>b c>b c>b b>c p+",
    ),
    "away-back-one": (
        "p+ p+ s- s+b a/c b>a a>b b>a a>b b>a a>b a>b s- b>a b>a b>a b>a b>a a>b a>b b>a a>b "
        "b>a a>b a>b a>b a>b b>c c>b b>c c>b b>c c>b c>b s+a a>b b>a b>a a>b b>a a>b b>a a>b "
        "b>a a>b b>a b>a b>a a>b b>a a>b b>a a>b a>b b>c c>b b>c b>c c>b c>b b>c c>b b>c b>c "
        "a=c",
    ),
    "crash-third-source": (
        "p+ p+ a! s+b b>c c>b a^ a=b b>a a>b b>a a>b a>b b>a a>b a>b b>a b>a a>b b>a a>b b>a "
        "a>b b>a b>a a>b a>b b>c c>b b>c c>b c>b b>c b>c a=c",
    ),
    "away-bab": (
        "s- a/c a>b b>a s+b b>a a>b a>b b>a a>b s- s+a a>b b>a b>a a>b b>a a>b b>a a>b a>b "
        "b>a b>a b>a b>a b>a a>b a>b a>b a>b b>a s- a>b a>b b>a b>a a>b b>a b>a a>b a>b a>b "
        "a>b b>a b>a b>a s+b b>a a=c a>b b>a a>b b>c a>b b>a b>a b>a b>a a>b a>b a>b a>b a>b "
        "a>b b>a b>a a>c b>c c>a a>c c>b c>b b>c c>b b>c",
    ),
}
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

    def test_nothing_goes_wrong_at_random(self) -> None:
        for name in WALKED:
            result = walk(CONFIGS[name], WALK_S, seed=1)
            self.assertEqual(result.violations, [], name)

    def test_what_went_wrong_once(self) -> None:
        """As far as the decisions can still be followed."""
        for name, lists in DECISIONS.items():
            for decisions in lists:
                found = follow(Cluster(CONFIGS[name]), decisions.split())
                self.assertEqual(found.wrong if found is not None else [], [], decisions)

    def test_a_copy_is_the_same_state_and_goes_on_the_same_way(self) -> None:
        for name in ("move", "onward"):
            cluster = Cluster(CONFIGS[name])
            while events := cluster.enabled():
                copy = load(save(cluster))
                self.assertEqual(fingerprint(copy), fingerprint(cluster))
                for each in (cluster, copy):
                    each.do(events[-1])
                self.assertEqual(fingerprint(copy), fingerprint(cluster))
            self.assertEqual(cluster.end(), [])

    def test_each_defect_names_configurations_that_there_are(self) -> None:
        for name in FAULTS:
            self.assertTrue(WHERE[name], name)
            self.assertEqual([each for each in WHERE[name] if each not in CONFIGS], [], name)

    def test_each_defect_is_found(self) -> None:
        """In a process of its own, which starts one for each of them."""
        command = [sys.executable, "-m", "tests.cluster.explore", "--faults"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        found = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False
        )
        self.assertEqual(found.returncode, 0, found.stdout + found.stderr)
