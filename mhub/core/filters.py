"""Topic filters with their subscriptions, searched by a topic.

Filters without a wildcard stand in a dictionary, the others in a trie with one node a level.  The
cost of a search depends on the topic's levels and on what matches, not on how many filters exist.

What can match is bounded by the patterns of the filters, that is by which of their levels are
wildcards.  Filters of one pattern differ in their names, and of those one topic has only one.  So a
search passes each beginning of a pattern once at most, and finds one filter for each pattern.  Up
to FREE_LEVELS levels there are 1,013 patterns; those of longer filters are counted, so that the
router can refuse what would double the work of a search with each level.
"""

from typing import TYPE_CHECKING, Final

from mhub.wire.topics import has_wildcard

if TYPE_CHECKING:
    from mhub.core.delivery import Subscriber, Subscription
    from mhub.core.shared import Group, RemoteNode


FREE_LEVELS: Final = 8
"""Filters of so many levels, besides a "#" at the end, cannot have too many patterns."""


class Leaf:
    """Who subscribed to one filter."""

    def __init__(self) -> None:
        self.subscriptions: dict[Subscriber, Subscription] = {}
        self.groups: dict[str, Group] | None = None
        self.lasting = 0  # subscriptions that outlive their connections
        self.peers: list[RemoteNode] | None = None  # nodes with subscribers

    def empty(self) -> bool:
        return not self.subscriptions and not self.groups and self.peers is None


class FilterNode:
    def __init__(self) -> None:
        self.children: dict[str, FilterNode] = {}
        self.plus: FilterNode | None = None
        self.here: Leaf | None = None  # filters that end here
        self.rest: Leaf | None = None  # filters that end here with "#"

    def empty(self) -> bool:
        return not self.children and self.plus is None and self.here is None and self.rest is None


class Filters:
    def __init__(self) -> None:
        self.exact: dict[str, Leaf] = {}
        self.root = FilterNode()
        self.patterns: dict[str, int] = {}  # of filters beyond FREE_LEVELS: how many have it

    def adds_pattern(self, topic_filter: str) -> bool:
        """Whether a filter is the first beyond FREE_LEVELS with its pattern."""
        pattern = _pattern(topic_filter)
        return pattern != "" and pattern not in self.patterns

    def leaf(self, topic_filter: str) -> Leaf | None:
        """The leaf of a filter, if there is one."""
        if not has_wildcard(topic_filter):
            return self.exact.get(topic_filter)
        node = self.root
        for level in topic_filter.split("/"):
            if level == "#":
                return node.rest
            child = node.plus if level == "+" else node.children.get(level)
            if child is None:
                return None
            node = child
        return node.here

    def make(self, topic_filter: str) -> Leaf:
        """The leaf of a filter, made if there is none."""
        if not has_wildcard(topic_filter):
            exact = self.exact.get(topic_filter)
            if exact is None:
                exact = Leaf()
                self.exact[topic_filter] = exact
            return exact
        node = self.root
        for level in topic_filter.split("/"):
            if level == "#":
                if node.rest is None:
                    node.rest = Leaf()
                    self._count(topic_filter, 1)
                return node.rest
            if level == "+":
                if node.plus is None:
                    node.plus = FilterNode()
                node = node.plus
            else:
                child = node.children.get(level)
                if child is None:
                    child = FilterNode()
                    node.children[level] = child
                node = child
        if node.here is None:
            node.here = Leaf()
            self._count(topic_filter, 1)
        return node.here

    def _count(self, topic_filter: str, more: int) -> None:
        pattern = _pattern(topic_filter)
        if pattern:
            count = self.patterns.get(pattern, 0) + more
            if count:
                self.patterns[pattern] = count
            else:
                del self.patterns[pattern]

    def prune(self, topic_filter: str) -> None:
        """Remove an empty leaf, with the branches that only it needed."""
        if not has_wildcard(topic_filter):
            self.exact.pop(topic_filter, None)
            return
        levels = topic_filter.split("/")
        path: list[FilterNode] = [self.root]
        for level in levels:
            if level == "#":
                break
            child = path[-1].plus if level == "+" else path[-1].children.get(level)
            if child is None:
                return
            path.append(child)
        leaf = path[-1].rest if levels[-1] == "#" else path[-1].here
        if leaf is None:
            return
        self._count(topic_filter, -1)
        if levels[-1] == "#":
            path[-1].rest = None
        else:
            path[-1].here = None
        for index in range(len(path) - 1, 0, -1):
            if not path[index].empty():
                break
            if levels[index - 1] == "+":
                path[index - 1].plus = None
            else:
                del path[index - 1].children[levels[index - 1]]

    def search(self, topic: str) -> list[Leaf]:
        """The leaves of all filters that match a topic."""
        found: list[Leaf] = []
        exact = self.exact.get(topic)
        if exact is not None:
            found.append(exact)
        if self.root.children or self.root.plus is not None or self.root.rest is not None:
            self._search(self.root, topic.split("/"), 0, topic.startswith("$"), found)
        return found

    def _search(
        self, node: FilterNode, levels: list[str], index: int, hidden: bool, found: list[Leaf]
    ) -> None:
        """hidden: the topic begins with $, which no wildcard in the first level matches."""
        wild = not hidden or index > 0  # [MQTT-4.7.2-1]
        if wild and node.rest is not None:
            found.append(node.rest)
        if index == len(levels):
            if node.here is not None:
                found.append(node.here)
            return
        if wild and node.plus is not None:
            self._search(node.plus, levels, index + 1, hidden, found)
        child = node.children.get(levels[index])
        if child is not None:
            self._search(child, levels, index + 1, hidden, found)


def _pattern(topic_filter: str) -> str:
    """Which levels are wildcards, as "--+-#"; nothing for a filter that need not be counted."""
    if topic_filter.count("/") < FREE_LEVELS or not has_wildcard(topic_filter):
        return ""
    levels = topic_filter.split("/")
    if len(levels) == FREE_LEVELS + 1 and levels[-1] == "#":
        return ""
    return "".join([level if level == "+" or level == "#" else "-" for level in levels])
