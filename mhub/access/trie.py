"""The patterns of rules, one node a level, searched by a topic.

There are two tries in an index: of rules that allow, and of rules that deny.  Each holds the rules
of all subjects, so a rule that comes or goes is a walk along its own levels, whoever has it, and
nothing is copied for a user, a role or a session.  A leaf knows by *scope* (subject and tenant)
what its rules are about; whoever searches brings the scopes that count for them, and the shorter of
the two lists is gone through.  So a search costs what matches the topic: not how many rules there
are, nor how many roles the client has.

A level with placeholders is a branch of its own.  It is filled with the facts of the client while
searching, and compared as a whole.  Where very many different ones branch off, only those that
lead to a scope of the client are tried.
"""

from typing import Final

from mhub.access import rows
from mhub.access.rows import Level, Row
from mhub.core.principal import Principal

FEW_HOLES: Final = 8
"""Up to so many levels with placeholders at one node are all tried."""


def scope_of(subject: str, tenant: str) -> str:
    """No name in a row has a NUL."""
    return subject + "\0" + tenant


class Leaf:
    """The rules of one pattern, by scope."""

    def __init__(self) -> None:
        self.masks: dict[str, int] = {}
        self.rows: dict[str, list[Row]] = {}

    def add(self, scope: str, row: Row) -> None:
        known = self.rows.get(scope)
        if known is None:
            self.rows[scope] = [row]
            self.masks[scope] = row.mask
        else:
            known.append(row)
            self.masks[scope] = self.masks[scope] | row.mask

    def remove(self, scope: str, row: Row) -> None:
        left = [other for other in self.rows[scope] if other is not row]
        if not left:
            del self.rows[scope]
            del self.masks[scope]
            return
        mask = 0
        for other in left:
            mask |= other.mask
        self.rows[scope] = left
        self.masks[scope] = mask


class Node:
    def __init__(self) -> None:
        self.children: dict[str, Node] = {}
        self.plus: Node | None = None
        self.holes: dict[str, Hole] | None = None  # by the level as it is written
        self.holes_of: dict[str, dict[str, int]] | None = None  # by scope: and how many rules
        self.here: Leaf | None = None  # patterns that end here
        self.rest: Leaf | None = None  # patterns that end here with "#"

    def is_empty(self) -> bool:
        return (
            not self.children
            and self.plus is None
            and self.holes is None
            and self.here is None
            and self.rest is None
        )

    def step(self, level: Level) -> "Node | None":
        """The node behind a level, if there is one."""
        if level.kind == rows.PLUS:
            return self.plus
        if level.kind == rows.HOLE:
            hole = self.holes.get(level.text) if self.holes is not None else None
            return hole.node if hole is not None else None
        return self.children.get(level.text)

    def make(self, level: Level, scope: str) -> "Node":
        node = self.step(level)
        if node is None:
            node = Node()
            if level.kind == rows.PLUS:
                self.plus = node
            elif level.kind == rows.HOLE:
                if self.holes is None:
                    self.holes = {}
                self.holes[level.text] = Hole(level, node)
            else:
                self.children[level.text] = node
        if level.kind == rows.HOLE:
            if self.holes_of is None:
                self.holes_of = {}
            counts = self.holes_of.setdefault(scope, {})
            counts[level.text] = counts.get(level.text, 0) + 1
        return node

    def leave(self, level: Level, scope: str) -> None:
        """A rule of this scope is gone; so is the branch, if nothing else needs it."""
        node = self.step(level)
        assert node is not None
        if level.kind == rows.HOLE:
            assert self.holes is not None and self.holes_of is not None
            counts = self.holes_of[scope]
            counts[level.text] -= 1
            if not counts[level.text]:
                del counts[level.text]
                if not counts:
                    del self.holes_of[scope]
            if node.is_empty():
                del self.holes[level.text]
                if not self.holes:
                    self.holes = None
                    self.holes_of = None
        elif node.is_empty():
            if level.kind == rows.PLUS:
                self.plus = None
            else:
                del self.children[level.text]


class Hole:
    """A level with placeholders, and what is behind it."""

    def __init__(self, level: Level, node: Node) -> None:
        self.level = level
        self.node = node


def add_rule(root: Node, row: Row) -> None:
    scope = scope_of(row.subject, row.tenant)
    node = root
    for level in row.levels:
        if level.kind == rows.REST:
            if node.rest is None:
                node.rest = Leaf()
            node.rest.add(scope, row)
            return
        node = node.make(level, scope)
    if node.here is None:
        node.here = Leaf()
    node.here.add(scope, row)


def remove_rule(root: Node, row: Row) -> None:
    """Take out a rule that add_rule() was given, the same object."""
    scope = scope_of(row.subject, row.tenant)
    path: list[Node] = [root]
    for level in row.levels:
        if level.kind != rows.REST:
            node = path[-1].step(level)
            assert node is not None
            path.append(node)
    last = path[-1]
    if row.levels[-1].kind == rows.REST:
        assert last.rest is not None
        last.rest.remove(scope, row)
        if not last.rest.masks:
            last.rest = None
    else:
        assert last.here is not None
        last.here.remove(scope, row)
        if not last.here.masks:
            last.here = None
    for index in range(len(path) - 1, 0, -1):
        path[index - 1].leave(row.levels[index - 1], scope)


# Placeholders


def value_of(kind: int, name: str, principal: Principal) -> str:
    """What a placeholder stands for; "" if for nothing."""
    if kind == rows.CLIENT:
        return principal.client_id
    if kind == rows.USER:
        return principal.user
    if kind == rows.TENANT:
        return principal.tenant
    if kind == rows.COMMON_NAME:
        return principal.common_name()
    return principal.attributes.get(name, "")


def filled(level: Level, principal: Principal, is_first: bool) -> str | None:
    """A level with the facts of a client in it; None if it matches nothing, not even ""."""
    text = ""
    for part in level.parts:
        if part.kind == rows.TEXT:
            text += part.text
            continue
        value = value_of(part.kind, part.text, principal)
        if not value or "/" in value or "+" in value or "#" in value or "\0" in value:
            return None
        if is_first and not text and value.startswith("$"):
            return None  # as no leading wildcard matches it [MQTT-4.7.2-1]
        text += value
    return text


class Search:
    """The rules of some tries that match topics of one client."""

    def __init__(self, principal: Principal, scopes: dict[str, int]) -> None:
        self.principal = principal
        self.scopes = scopes  # that count for the client
        self.levels: list[str] = []
        self.count = 0
        self.wild_first = True  # whether wildcards match in the first level
        self.mask = 0  # of all rules found
        self.rest_mask = 0  # of those that end with "#"
        self.rows: list[Row] | None = None  # the rules themselves, if somebody wants them

    def begin(self, levels: list[str]) -> None:
        self.levels = levels
        self.count = len(levels)
        self.wild_first = not levels[0].startswith("$")
        self.mask = 0
        self.rest_mask = 0

    def walk(self, node: Node, index: int) -> None:
        wild = index > 0 or self.wild_first  # [MQTT-4.7.2-1]
        if wild and node.rest is not None:
            self.rest_mask |= self._take(node.rest)
        if index == self.count:
            if node.here is not None:
                self.mask |= self._take(node.here)
            return
        if wild and node.plus is not None:
            self.walk(node.plus, index + 1)
        name = self.levels[index]
        child = node.children.get(name)
        if child is not None:
            self.walk(child, index + 1)
        if node.holes is not None:
            self._fill(node, name, index)

    def _fill(self, node: Node, name: str, index: int) -> None:
        holes = node.holes
        by_scope = node.holes_of
        assert holes is not None and by_scope is not None
        if len(holes) <= FEW_HOLES:
            for hole in holes.values():
                if filled(hole.level, self.principal, index == 0) == name:
                    self.walk(hole.node, index + 1)
            return
        tried: set[str] = set()
        for scope in self.scopes:
            texts = by_scope.get(scope)
            if texts is None:
                continue
            for text in texts:
                if text in tried:
                    continue
                tried.add(text)
                hole = holes[text]
                if filled(hole.level, self.principal, index == 0) == name:
                    self.walk(hole.node, index + 1)

    def _take(self, leaf: Leaf) -> int:
        masks = leaf.masks
        scopes = self.scopes
        mask = 0
        if len(masks) < len(scopes):
            for scope, bits in masks.items():
                if scope in scopes:
                    mask |= bits
        else:
            for scope in scopes:
                mask |= masks.get(scope, 0)
        if self.rows is not None and mask:
            for scope, known in leaf.rows.items():
                if scope in scopes:
                    self.rows.extend(known)
        return mask
