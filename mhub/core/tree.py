"""Topic names with values, searched by a topic filter.

The mirror image of `mhub.core.filters`: there a topic looks for filters, here a filter looks for
topics.  Retained messages live in one such tree, cached routes in another.
"""

from typing import Generic, TypeVar

T = TypeVar("T")


class Node(Generic[T]):
    def __init__(self) -> None:
        self.value: T | None = None
        self.children: dict[str, Node[T]] | None = None


class TopicTree(Generic[T]):
    def __init__(self) -> None:
        self.root: Node[T] = Node()
        self.size = 0
        self.visited = 0  # nodes that the last match() has looked at

    def get(self, topic: str) -> T | None:
        node = self.root
        for level in topic.split("/"):
            if node.children is None:
                return None
            child = node.children.get(level)
            if child is None:
                return None
            node = child
        return node.value

    def put(self, topic: str, value: T) -> None:
        node = self.root
        for level in topic.split("/"):
            if node.children is None:
                node.children = {}
            child = node.children.get(level)
            if child is None:
                child = Node()
                node.children[level] = child
            node = child
        if node.value is None:
            self.size += 1
        node.value = value

    def remove(self, topic: str) -> T | None:
        """Take a topic out, with the branches that only it needed."""
        path: list[Node[T]] = [self.root]
        levels = topic.split("/")
        for level in levels:
            children = path[-1].children
            child = children.get(level) if children is not None else None
            if child is None:
                return None
            path.append(child)
        removed = path[-1].value
        if removed is None:
            return None
        path[-1].value = None
        self.size -= 1
        for index in range(len(levels) - 1, -1, -1):
            node = path[index + 1]
            if node.value is not None or node.children:
                break
            children = path[index].children
            if children is not None:
                del children[levels[index]]
                if not children:
                    path[index].children = None
        return removed

    def clear(self) -> None:
        self.root = Node()
        self.size = 0

    def values(self) -> list[T]:
        found: list[T] = []
        self._collect(self.root, False, found)
        return found

    def match(self, topic_filter: str) -> list[T]:
        """The values of all topics that a valid filter matches."""
        found: list[T] = []
        self.visited = 0
        self._match(self.root, topic_filter.split("/"), 0, found)
        return found

    def _match(self, node: Node[T], levels: list[str], index: int, found: list[T]) -> None:
        self.visited += 1
        if index == len(levels):
            if node.value is not None:
                found.append(node.value)
            return
        level = levels[index]
        if level == "#":
            self._collect(node, index == 0, found)
        elif node.children is None:
            return
        elif level == "+":
            for name, child in node.children.items():
                if index or not name.startswith("$"):  # [MQTT-4.7.2-1]
                    self._match(child, levels, index + 1, found)
        else:
            child_or_none = node.children.get(level)
            if child_or_none is not None:
                self._match(child_or_none, levels, index + 1, found)

    def _collect(self, node: Node[T], at_root: bool, found: list[T]) -> None:
        """The node itself ("a/#" matches "a") and everything below it."""
        self.visited += 1
        if node.value is not None:
            found.append(node.value)
        if node.children is not None:
            for name, child in node.children.items():
                if not (at_root and name.startswith("$")):  # [MQTT-4.7.2-1]
                    self._collect(child, False, found)
