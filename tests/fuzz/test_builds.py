"""The pure and the compiled build make the same of the same bytes.

The compiled build runs here, the pure one, from the very sources that were compiled, in a process
beside it.  Compared is everything that comes out: packets and faults of the decoder, and of whole
conversations the bytes to each client, the hub's events and its counters.
"""

import atexit
from functools import cache
from unittest import TestCase, skipIf

from hypothesis import given, settings

from mhub import build
from tests.fuzz import corpus, strategies
from tests.fuzz.peer import Peer, outcome
from tests.fuzz.targets import COMPILED
from tests.helpers.splits import steady

few = settings(steady, max_examples=100)


@cache
def peer() -> Peer:
    """One for all tests, from the first to the end of the run."""
    started = Peer()
    atexit.register(started.close)
    return started


@skipIf(
    build.kind() != build.COMPILED,
    f"this is the {build.kind()} build: the comparison is made where the compiled one runs",
)
class Builds(TestCase):
    def compare(self, target: str, data: bytes) -> None:
        self.assertEqual(outcome(target, data), peer().outcome(target, data), data.hex())

    def test_the_peer_is_pure(self) -> None:
        self.assertEqual(peer().build, "pure")

    def test_corpus(self) -> None:
        for target in COMPILED:
            for _, data in corpus.seeds(target):
                self.compare(target, data)

    @given(strategies.decoder)
    @steady
    def test_packets(self, data: bytes) -> None:
        self.compare("decoder", data)

    @given(strategies.connection)
    @steady
    def test_conversations(self, data: bytes) -> None:
        self.compare("connection", data)

    @given(strategies.framer)
    @few
    def test_frames(self, data: bytes) -> None:
        self.compare("framer", data)

    @given(strategies.proxy_header)
    @few
    def test_proxy_headers(self, data: bytes) -> None:
        self.compare("proxy_header", data)

    @given(strategies.any_bytes)
    @few
    def test_any_bytes(self, data: bytes) -> None:
        for target in COMPILED:
            self.compare(target, data)
