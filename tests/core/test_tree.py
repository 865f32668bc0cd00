"""The tree of topics finds what the plain statement of matching says, and leaves no residue."""

from typing import Any
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.tree import TopicTree
from mhub.wire.topics import matches
from tests.core.topics import filters, topics
from tests.helpers.splits import steady


def nodes(tree: TopicTree[Any]) -> int:
    """How many nodes a tree has, its root aside."""

    def below(node: Any) -> int:
        children = node.children
        return 0 if children is None else sum(1 + below(child) for child in children.values())

    return below(tree.root)


class Matching(TestCase):
    @given(st.lists(topics, max_size=12), filters)
    @steady
    def test_finds_exactly_what_matches(self, names: list[str], topic_filter: str) -> None:
        tree: TopicTree[str] = TopicTree()
        for name in names:
            tree.put(name, name)
        expected = sorted(name for name in set(names) if matches(topic_filter, name))
        self.assertEqual(sorted(tree.match(topic_filter)), expected)

    def test_a_filter_without_wildcards_finds_its_topic(self) -> None:
        tree: TopicTree[int] = TopicTree()
        tree.put("a/b", 1)
        self.assertEqual((tree.match("a/b"), tree.match("a"), tree.match("a/b/c")), ([1], [], []))


class Content(TestCase):
    @given(st.lists(st.tuples(st.booleans(), topics), max_size=30))
    @steady
    def test_behaves_as_a_dictionary(self, steps: list[tuple[bool, str]]) -> None:
        tree: TopicTree[int] = TopicTree()
        plain: dict[str, int] = {}
        for number, (put, topic) in enumerate(steps):
            if put:
                tree.put(topic, number)
                plain[topic] = number
            else:
                self.assertEqual(tree.remove(topic), plain.pop(topic, None))
            self.assertEqual(tree.size, len(plain))
            self.assertEqual(tree.get(topic), plain.get(topic))
        self.assertEqual({topic: tree.get(topic) for topic in plain}, plain)

    @given(st.lists(topics, max_size=20, unique=True), st.randoms(use_true_random=False))
    @steady
    def test_is_empty_again_when_all_is_removed(self, names: list[str], order: Any) -> None:
        tree: TopicTree[str] = TopicTree()
        for name in names:
            tree.put(name, name)
        order.shuffle(names)
        for name in names:
            self.assertEqual(tree.remove(name), name)
        self.assertEqual((tree.size, nodes(tree), tree.root.children), (0, 0, None))

    def test_removing_what_is_not_there_changes_nothing(self) -> None:
        tree: TopicTree[int] = TopicTree()
        tree.put("a/b/c", 1)
        for topic in ("a", "a/b", "a/b/c/d", "x", "a/x/c", ""):
            self.assertIsNone(tree.remove(topic))
        self.assertEqual((tree.get("a/b/c"), tree.size, nodes(tree)), (1, 1, 3))

    def test_a_branch_stays_while_somebody_needs_it(self) -> None:
        tree: TopicTree[int] = TopicTree()
        for number, topic in enumerate(("a", "a/b", "a/b/c")):
            tree.put(topic, number)
        tree.remove("a/b")
        self.assertEqual((tree.get("a"), tree.get("a/b"), tree.get("a/b/c")), (0, None, 2))

    def test_clear(self) -> None:
        tree: TopicTree[int] = TopicTree()
        tree.put("a/b", 1)
        tree.clear()
        self.assertEqual((tree.size, tree.get("a/b"), nodes(tree)), (0, None, 0))
