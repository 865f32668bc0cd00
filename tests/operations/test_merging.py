"""Pages of several nodes as one: the same as a page of all that they have."""

import random
from dataclasses import dataclass
from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations import merging
from mhub.operations.contract import OperationError, TimedOut
from mhub.operations.merging import Key, Merged, Order, Source, merge
from mhub.operations.slices import Slices
from tests.operations.around import Pauses


@dataclass(frozen=True)
class Item:
    value: float
    name: str
    node: str


@dataclass(frozen=True)
class Page:
    items: tuple[Item, ...]
    left: int
    next: str


class FakeNode:
    """Gives pages of its items; `fails_at` is the number of the page that it does not give."""

    def __init__(self, name: str, items: list[Item], rank: Any, fails_at: int = -1) -> None:
        self.name = name
        self._items = sorted(items, key=rank)
        self._rank = rank
        self._fails_at = fails_at
        self.asked = 0

    async def fetch(self, cursor: str, limit: int) -> Page:
        self.asked += 1
        if self.asked - 1 == self._fails_at:
            raise TimedOut(self.name)
        items = self._items
        if cursor:
            value, _, name = cursor.partition(" ")
            after = self._rank(Item(float(value), name, ""))
            items = [each for each in items if self._rank(each) > after]
        first, rest = items[:limit], items[limit:]
        last = f"{first[-1].value} {first[-1].name}" if rest else ""
        return Page(tuple(first), len(rest), last)

    def source(self, cursor: str, is_here: bool = False) -> Source:
        return Source(self.name, self.fetch, lambda page: page.items, key_of, cursor, is_here)


def key_of(item: Item) -> Key:
    return item.value, item.name


class MergingTests(SynchronousTestCase):
    def merge(self, sources: list[Source], order: Order, limit: int) -> Merged:
        slices = Slices(lambda: 0.0, Pauses())
        return self.successResultOf(Deferred.fromCoroutine(merge(sources, order, limit, slices)))

    def test_pages_by_chance(self) -> None:
        """All items of all nodes, each once, in order, whatever the size of the pages."""
        self.patch(merging, "PORTION", 5)
        chance = random.Random(7)
        for _ in range(200):
            by_name = chance.random() < 0.5
            descending = chance.random() < 0.5

            def rank(item: Item, by_name: bool = by_name, descending: bool = descending) -> Any:
                if by_name:
                    # The reverse of texts of one length.
                    return [-ord(c) for c in item.name] if descending else item.name
                return -item.value if descending else item.value, item.name

            items = []
            for number in range(chance.randrange(40)):
                value = 0.0 if by_name else float(chance.randrange(5))
                for name in chance.sample("abc", chance.choice([1, 1, 1, 2])):
                    items.append(Item(value, f"n{number:02}", name))
            nodes = [
                FakeNode(name, [each for each in items if each.node == name], rank)
                for name in "abc"
            ]
            limit = chance.randrange(1, 12)
            found: list[Item] = []
            cursor = ""
            while True:
                sources = [node.source(cursor) for node in nodes]
                page = self.merge(sources, Order(descending, by_name), limit)
                found += page.items
                left = sum(source.left() for source in sources)
                self.assertEqual(left, len(items) - len(found))
                self.assertEqual(page.has_more, left > 0)
                if not page.has_more:
                    break
                self.assertGreaterEqual(len(page.items), limit)
                assert page.last is not None
                cursor = f"{page.last[0]} {page.last[1]}"
            self.assertEqual(len(found), len(set(found)))
            self.assertEqual([rank(each) for each in found], sorted(map(rank, items)))

    def test_a_node_that_stops_answering(self) -> None:
        self.patch(merging, "PORTION", 2)

        def rank(item: Item) -> Any:
            return item.name

        a = FakeNode("a", [Item(0.0, f"a{n}", "a") for n in range(5)], rank)
        b = FakeNode("b", [Item(0.0, f"b{n}", "b") for n in range(5)], rank, fails_at=1)
        sources = [a.source(""), b.source("")]
        page = self.merge(sources, Order(False, True), 100)
        names = [each.name for each in page.items]
        self.assertEqual(names, ["a0", "a1", "a2", "a3", "a4", "b0", "b1"])
        self.assertEqual([each.failed for each in sources], [False, True])

    def test_an_error_of_this_node_is_one(self) -> None:
        here = FakeNode("a", [], None, fails_at=0)
        there = FakeNode("b", [], None)
        merged = merge(
            [here.source("", True), there.source("")],
            Order(False, True),
            10,
            Slices(lambda: 0.0, Pauses()),
        )
        self.failureResultOf(Deferred.fromCoroutine(merged), OperationError)
