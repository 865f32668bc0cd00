"""Whether every topic that a filter could match is allowed; if not, one that is not.

A pattern below is an MQTT filter without placeholders: those of rules are filled with the client's
facts.  For one question (an action, a QoS) and one client there are the patterns that allow, A, and
those that deny, D.  A topic is allowed if some pattern of A matches it and none of D does.

1. Denies.  F and a pattern match a common topic exactly if a walk along both at once reaches both
   ends: equal names, a name against a wildcard, `#` against whatever is left.  What the walk passes
   is again a pattern, the one that matches just what both match.  So F is refused if the walk along
   F and the trie of D reaches a leaf, and the walk has a topic to show.

2. Allows.  Let g be a name that stands in no pattern, and let the *generic topic* of F with n
   levels be F with g for each wildcard level, filled up with g if F ends with `#`.

   If a pattern P matches the generic topic with n levels, it matches every topic of F with n
   levels. For P has g nowhere, so wherever the generic topic has g, P has a wildcard, which matches
   any name; at all other levels the topics of F agree with the generic one.  (`$`: if F begins with
   a wildcard, neither g nor any topic of F begins with `$`, so a leading wildcard of P matches all
   of them; if it begins with a name, all of them begin with that name.)  And if no pattern matches
   the generic topic, it is itself the counter-example.

   So F is in the union of A exactly if for each possible n its generic topic is.  A union is no
   harder than a single pattern, because a wildcard cannot be covered piece by piece: the names are
   without end, and the patterns have finitely many of them.

3. How many levels.  A pattern with `#` that matches the generic topic with n levels matches all the
   longer ones.  Without one, n + 1 has to be looked at; beyond the longest pattern only such ones
   can match.  So the walk ends, at the latest one level behind the longest pattern.

4. "Is anything allowed?" is the same question the other way round: for each pattern of A that
   meets F, what both match is a pattern; there is an allowed topic in it exactly if it is *not* in
   the union of D.

Conditions on QoS and retain are bits of a rule's mask: they select A and D before the walk begins.

NUL is a name that stands in no pattern (the wire refuses it, a placeholder with it matches
nothing): GENERIC.  readable() puts a name in its place that can be shown, and tried.
"""

from typing import Final

from mhub.access.rows import Row
from mhub.access.trie import Leaf, Node, Search, filled

GENERIC: Final = "\0"


def uncovered(search: Search, roots: list[Node], bit: int, levels: list[str]) -> list[str]:
    """A generic topic of a filter that no pattern in these tries matches; [] if there is none."""
    has_rest = levels[-1] == "#"
    topic = [GENERIC if level == "+" else level for level in levels]
    if has_rest:
        topic.pop()
        if not topic:
            topic.append(GENERIC)  # "#" matches topics of one level and more
    while True:
        search.begin(topic)
        for root in roots:
            search.walk(root, 0)
        if search.rest_mask & bit:
            return []
        if not search.mask & bit:
            return topic
        if not has_rest:
            return []
        topic.append(GENERIC)


class Overlap:
    """The patterns of some tries that match a topic in common with a filter.

    `minus`: only what is not covered by these other tries counts.
    """

    def __init__(self, search: Search, bit: int, levels: list[str]) -> None:
        self.search = search
        self.bit = bit
        self.levels = levels
        self.end = len(levels)
        self.most = 1  # stop when so many are found; 0: never
        self.minus: list[Node] | None = None
        self.found: list[list[str]] = []  # a topic each, generic
        self.rows: list[Row] = []  # all rules that were found on the way
        self.visited = 0  # nodes
        self._hidden = levels[0].startswith("$")

    def walk(self, root: Node) -> None:
        self._walk(root, [])

    def _is_done(self) -> bool:
        return self.most > 0 and len(self.found) >= self.most

    def _walk(self, node: Node, path: list[str]) -> None:
        if self._is_done():
            return
        self.visited += 1
        index = len(path)
        if index < self.end and self.levels[index] == "#":
            self._below(node, path)
            return
        wild = index > 0 or not self._hidden  # [MQTT-4.7.2-1]
        if wild and node.rest is not None:
            self._hit(node.rest, path + self.levels[index:])
        if index == self.end:
            if node.here is not None:
                self._hit(node.here, path)
            return
        wanted = self.levels[index]
        if wanted == "+":
            self._branches(node, path)
            return
        step = [*path, wanted]
        child = node.children.get(wanted)
        if child is not None:
            self._walk(child, step)
        if wild and node.plus is not None:
            self._walk(node.plus, step)
        if node.holes is not None:
            for hole in node.holes.values():
                if filled(hole.level, self.search.principal, index == 0) == wanted:
                    self._walk(hole.node, step)

    def _below(self, node: Node, path: list[str]) -> None:
        """The filter is at its "#", which also matches what ends here."""
        self.visited += 1
        if node.rest is not None:
            self._hit(node.rest, [*path, "#"])
        if node.here is not None:
            self._hit(node.here, path)
        self._branches(node, path)

    def _branches(self, node: Node, path: list[str]) -> None:
        """The filter takes any name here."""
        first = not path
        if node.plus is not None:
            self._walk_on(node.plus, path, "+")
        for name, child in node.children.items():
            if self._is_done():
                return
            if not (first and name.startswith("$")):
                self._walk_on(child, path, name)
        if node.holes is not None:
            for hole in node.holes.values():
                text = filled(hole.level, self.search.principal, first)
                if text is not None and not (first and text.startswith("$")):
                    self._walk_on(hole.node, path, text)

    def _walk_on(self, node: Node, path: list[str], name: str) -> None:
        step = [*path, name]
        if len(path) < self.end and self.levels[len(path)] == "+":
            self._walk(node, step)
        elif not self._is_done():
            self._below(node, step)

    def _hit(self, leaf: Leaf, pattern: list[str]) -> None:
        if self._is_done():
            return
        met: list[Row] = []
        for scope, mask in leaf.masks.items():
            if mask & self.bit and scope in self.search.scopes:
                for row in leaf.rows[scope]:
                    if row.mask & self.bit:
                        met.append(row)
        if not met:
            return
        minus = self.minus
        if minus is not None:
            topic = uncovered(self.search, minus, self.bit, pattern)
            if not topic:
                return
        else:
            topic = topic_in(pattern)
        self.found.append(topic)
        self.rows.extend(met)


def topic_in(levels: list[str]) -> list[str]:
    """The shortest generic topic of a pattern."""
    topic = [GENERIC if level == "+" else level for level in levels if level != "#"]
    return topic if topic else [GENERIC]


def readable(topic: list[str], taken: set[str]) -> str:
    """A generic topic with a name in it that is not one of those `taken`."""
    name = "any"
    number = 1
    while name in taken or name in topic:
        number += 1
        name = f"any{number}"
    return "/".join([name if level == GENERIC else level for level in topic])


def names_in(node: Node, search: Search, found: set[str]) -> set[str]:
    """All names that stand in the patterns below a node, as they are for one client."""
    for name, child in node.children.items():
        found.add(name)
        names_in(child, search, found)
    if node.plus is not None:
        names_in(node.plus, search, found)
    if node.holes is not None:
        for hole in node.holes.values():
            text = filled(hole.level, search.principal, False)
            if text is not None:
                found.add(text)
            names_in(hole.node, search, found)
    return found
