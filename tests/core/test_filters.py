"""The trie of filters finds what the plain statement of matching says, and leaves no residue."""

from typing import Any
from unittest import TestCase, skipIf

from hypothesis import given
from hypothesis import strategies as st

from mhub import build
from mhub.core.filters import Filters
from mhub.wire.topics import matches
from tests.core.topics import filters, topics
from tests.helpers.splits import steady


class Searching(TestCase):
    @given(st.lists(filters, max_size=12), topics)
    @steady
    def test_finds_exactly_the_filters_that_match(self, texts: list[str], topic: str) -> None:
        found = Filters()
        leaves = {text: found.make(text) for text in texts}
        expected = {text for text in texts if matches(text, topic)}
        names = {id(leaf): text for text, leaf in leaves.items()}
        searched = [names[id(leaf)] for leaf in found.search(topic)]
        self.assertEqual(len(searched), len(set(searched)), "each leaf once")
        self.assertEqual(set(searched), expected)

    @given(st.lists(filters, max_size=12), filters)
    @steady
    def test_a_filter_finds_its_own_leaf(self, texts: list[str], wanted: str) -> None:
        found = Filters()
        for text in texts:
            self.assertIs(found.make(text), found.make(text))
        self.assertEqual(found.leaf(wanted) is not None, wanted in texts)

    @skipIf(build.kind() != build.PURE, "look-ups can be watched on the pure build only")
    def test_filters_that_do_not_match_cost_nothing(self) -> None:
        """The search visits what the topic's own levels lead to: the others are not looked at."""
        found = Filters()
        for number in range(2000):
            found.make(f"room/{number}/+/temperature")
        wanted = found.make("room/7/#")
        calls: list[str] = []

        class Watched(dict[str, Any]):
            def get(self, key: str, default: Any = None) -> Any:
                calls.append(key)
                return super().get(key, default)

        room = found.root.children["room"]
        room.children = Watched(room.children)
        leaves = found.search("room/7/x/temperature")
        self.assertEqual(len(leaves), 2)
        self.assertIn(wanted, leaves)
        self.assertEqual(calls, ["7"])


class Pruning(TestCase):
    @given(st.lists(filters, max_size=20, unique=True), st.randoms(use_true_random=False))
    @steady
    def test_is_empty_again_when_all_is_pruned(self, texts: list[str], order: Any) -> None:
        found = Filters()
        for text in texts:
            found.make(text)
        order.shuffle(texts)
        left = list(texts)
        for text in texts:
            found.prune(text)
            left.remove(text)
            self.assertIsNone(found.leaf(text))
            self.assertTrue(all(found.leaf(other) is not None for other in left))
        self.assertTrue(found.root.empty())
        self.assertEqual(found.exact, {})

    def test_pruning_what_is_not_there_changes_nothing(self) -> None:
        found = Filters()
        leaf = found.make("a/+/#")
        for text in ("a", "a/#", "a/+", "+", "b/#", "a/+/c/#"):
            found.prune(text)
        self.assertIs(found.leaf("a/+/#"), leaf)
