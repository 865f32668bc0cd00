"""Every target: the corpus, plain bytes, and what is right but for some places."""

import sys
from unittest import TestCase, skipIf

from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy

from mhub import build
from tests.core.world import World
from tests.fuzz import corpus, portrait, strategies
from tests.fuzz.targets import TARGETS
from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.helpers.splits import steady


def case(name: str, bent: SearchStrategy[bytes], examples: int = 150) -> type[TestCase]:
    """The tests of one target."""
    target = TARGETS[name]
    so_many = settings(steady, max_examples=examples)

    class Case(TestCase):
        def test_corpus(self) -> None:
            self.assertTrue(corpus.files(name), "the corpus has something for every target")
            for seed, data in corpus.seeds(name):
                try:
                    target(data)
                except Exception as error:
                    raise AssertionError(f"{seed!r} of the corpus of {name}") from error

        @given(strategies.any_bytes)
        @so_many
        def test_any_bytes(self, data: bytes) -> None:
            target(data)

        @given(bent)
        @so_many
        def test_bent(self, data: bytes) -> None:
            target(data)

    Case.__doc__ = target.__doc__
    Case.__name__ = Case.__qualname__ = "".join(map(str.title, name.split("_")))
    return Case


Decoder = case("decoder", strategies.decoder, 300)
Connection = case("connection", strategies.connection, 400)
Framer = case("framer", strategies.framer)
ProxyHeader = case("proxy_header", strategies.proxy_header)
Handshake = case("handshake", strategies.handshake)
Layers = case("layers", strategies.layers)
Scram = case("scram", strategies.scram)
Stranger = case("stranger", strategies.stranger, 100)


class Targets(TestCase):
    def test_every_one_states_its_invariant(self) -> None:
        for name, target in TARGETS.items():
            first = (target.__doc__ or "").splitlines()[0]
            self.assertTrue(first.startswith("Any "), name)

    def test_every_one_is_tested_here(self) -> None:
        tested = {value.__doc__ for value in globals().values() if isinstance(value, type)}
        self.assertLessEqual({target.__doc__ for target in TARGETS.values()}, tested)


@skipIf(build.kind() != build.PURE, "calls can be counted on the pure build only")
class Work(TestCase):
    """No byte string makes more work than its length allows: counted in calls, not in seconds."""

    HOSTILE = (
        ("user properties", lambda n: p.publish("t", b"", props=_users(n), version=5)),
        ("user properties in CONNECT", lambda n: p.connect("c", 5, props=_users(n))),
        ("filters", lambda n: p.subscribe(1, *[("a/+/b", 0)] * n, version=5)),
        ("deep filters", lambda n: p.subscribe(1, ("+/" * n + "#", 0), version=5)),
        ("filters to leave", lambda n: p.unsubscribe(1, *["a"] * n, version=5)),
        ("pings", lambda n: p.pingreq() * n),
        ("acknowledgements of nothing", lambda n: p.pubrel(7) * n),
        ("empty messages", lambda n: p.publish("t", b"", version=5) * n),
        ("a long topic", lambda n: p.publish("/" * n, b"", version=5)),
        ("a long payload", lambda n: p.publish("t", bytes(n), version=5)),
        ("bytes of no meaning", lambda n: bytes([0x80]) * n),
    )

    def calls(self, data: bytes, one_by_one: bool) -> int:
        world = World(max_control_size=1 << 20, max_packet_size=1 << 20, max_topic_levels=1 << 16)
        client = world.open(5) if data[0] == 0x10 else world.client("c", 5)
        count = 0

        def counting(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        pieces = [data[at : at + 1] for at in range(len(data))] if one_by_one else [data]
        sys.setprofile(counting)
        try:
            for piece in pieces:
                client.connection.receive(piece, world.now)
            world.hub.flush()
        finally:
            sys.setprofile(None)
        return count

    def test_of_a_connection(self) -> None:
        for name, make in self.HOSTILE:
            for one_by_one in (False, True):
                few = self.calls(make(100), one_by_one)
                many = self.calls(make(800), one_by_one)
                self.assertLess(many, 8 * few + 500, (name, one_by_one))

    def test_of_the_decoder(self) -> None:
        for name, make in self.HOSTILE:
            data = make(500)
            count = 0

            def counting(frame: object, event: str, argument: object) -> None:
                nonlocal count
                count += 1

            sys.setprofile(counting)
            try:
                portrait.stream(data, 5)
            finally:
                sys.setprofile(None)
            self.assertLess(count, 40 * len(data) + 500, name)


def _users(count: int) -> list[tuple[int, tuple[str, str]]]:
    return [(Prop.USER_PROPERTY, ("", ""))] * count
