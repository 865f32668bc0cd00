"""The trie of filters finds what the plain statement of matching says, and leaves no residue."""

import itertools
from typing import Any
from unittest import TestCase, skipIf

from hypothesis import given
from hypothesis import strategies as st

from mhub import build
from mhub.core.filters import FREE_LEVELS, Filters
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


def mixtures(levels: int) -> list[str]:
    """All filters of so many levels that are `+` or one name, `#` behind them or not."""
    plain = ["/".join(mixed) for mixed in itertools.product("+a", repeat=levels)]
    return plain + [text + "/#" for text in plain]


class Patterns(TestCase):
    """What bounds a search."""

    def test_filters_of_few_levels_are_not_counted(self) -> None:
        found = Filters()
        for levels in range(1, FREE_LEVELS + 1):
            for text in mixtures(levels):
                found.make(text)
        self.assertEqual(found.patterns, {})
        # As the head of the module has it: `#` alone, and those without a wildcard are no pattern.
        total = 1 + sum(len(mixtures(levels)) - 1 for levels in range(1, FREE_LEVELS + 1))
        self.assertEqual(total, 1013)

    def test_names_make_no_difference(self) -> None:
        found = Filters()
        deep = "/".join("abcdefgh")
        for text in (
            "+/" + deep,
            "+/" + deep.upper(),
            "x/+/" + deep,
            "x/" + deep + "/#",
            deep + "/x",
        ):
            found.make(text)
        self.assertEqual(found.patterns, {"+--------": 2, "-+--------": 1, "---------#": 1})
        self.assertFalse(found.adds_pattern("+/" + deep))
        self.assertTrue(found.adds_pattern("+/+/" + deep))
        self.assertFalse(found.adds_pattern("x/" + deep), "it has no wildcard")

    def test_one_is_gone_with_its_last_filter(self) -> None:
        found = Filters()
        deep = "/".join("abcdefgh")
        found.make("+/" + deep)
        found.make("+/" + deep)
        found.make("+/" + deep.upper())
        found.prune("+/" + deep)
        self.assertEqual(found.patterns, {"+--------": 1})
        found.prune("+/" + deep)  # which is not there any more
        self.assertEqual(found.patterns, {"+--------": 1})
        found.prune("+/" + deep.upper())
        self.assertEqual(found.patterns, {})

    def test_a_search_finds_one_filter_for_each(self) -> None:
        """However many filters there are."""
        found = Filters()
        for name in "abcdef":
            for text in mixtures(9):
                found.make(text.replace("a", name))
        topic = "/".join("a" * 9)
        leaves = found.search(topic)
        self.assertEqual(len(found.patterns), 2 * 2**9 - 1)
        self.assertEqual(len(leaves), 2 * 2**9)


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
        self.assertEqual(found.patterns, {})

    def test_pruning_what_is_not_there_changes_nothing(self) -> None:
        found = Filters()
        leaf = found.make("a/+/#")
        for text in ("a", "a/#", "a/+", "+", "b/#", "a/+/c/#"):
            found.prune(text)
        self.assertIs(found.leaf("a/+/#"), leaf)
