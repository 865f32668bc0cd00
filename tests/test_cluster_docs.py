"""The documentation of the cluster says what the code does."""

import re
from pathlib import Path

from twisted.trial.unittest import TestCase

from mhub.cluster import frames, member
from mhub.cluster.contract import PROTOCOL
from mhub.core.metrics import CLUSTER
from tests.cluster.far import Here

DOCS = Path(__file__).absolute().parent.parent / "docs"


class ClusterTests(TestCase):
    def setUp(self) -> None:
        self.text = (DOCS / "cluster.md").read_text("utf-8")

    def test_names_every_state(self) -> None:
        for state in (getattr(member, name) for name in dir(member) if name.isupper()):
            self.assertIn(f"| `{state}` |", self.text)

    def test_every_number_of_sessions_has_its_topic(self) -> None:
        here = Here()
        topics = {metric.name for metric in CLUSTER if "/sessions/" in metric.name}
        numbers = here.peers.neighbours.session_numbers()
        self.assertEqual({f"cluster/sessions/{name}" for name in numbers}, topics)


class PeerProtocolTests(TestCase):
    def setUp(self) -> None:
        self.text = (DOCS / "peer-protocol.md").read_text("utf-8")

    def test_names_every_frame(self) -> None:
        kinds = {name: getattr(frames, name) for name in dir(frames) if name.isupper()}
        rows = re.findall(r"^\| (\d+) \| ([A-Z_]+) \|", self.text, re.M)
        self.assertEqual({name: int(kind) for kind, name in rows}, kinds)

    def test_is_of_this_version(self) -> None:
        self.assertIn(f"Version {PROTOCOL}.\n", self.text)
