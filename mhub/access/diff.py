"""Which topics flip between two policies: exactly, not by samples.

For one client, each policy divides all topics into finitely many classes: two topics with the same
number of levels, and at each level the same name or both a name that stands in no pattern, are
matched by the same patterns, and so decided alike.  The walk goes along these classes, level by
level, with the patterns of both policies that are still alive; a wildcard is alive with any name.

    at each level   one branch for each name that an alive pattern has there, and one for all others
    at each end     what is allowed by the old policy, and by the new one, as bits
    the end of it   when all that is alive ends with "#": nothing below can differ from here

It follows only branches on which a rule is alive that just one of the policies has for this client
(by its own rows or by its roles): elsewhere both decide alike.  So it costs what the changed rules
match, not the size of the policies.

The classes are then written as filters, with exceptions where a name among "all others" is decided
otherwise: `a/+` except `a/b`.  A Flip is all topics of its filter that none of its exceptions
matches. In the first level "all others" has no name with `$`, exactly as `+` matches none there.

It is a generator that yields now and then, so that a broker can do it in slices (Comparison.steps);
who has the time takes all of it at once (diff).

A client that is meant in general may have `%c` as its client id, or `%u` as its user: a placeholder
is then filled with itself, and stands in the result as it does in the rules.
"""

from collections.abc import Generator, Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final, TypeVar

from mhub.access import rows
from mhub.access.index import Index
from mhub.access.rows import Row
from mhub.access.trie import filled
from mhub.core.principal import Principal
from mhub.wire.topics import matches

GENERAL_CLIENT: Final = "%c"

PORTION: Final = 50
"""Rules that are looked at between two pauses: some 0.1 ms."""

T = TypeVar("T")


@dataclass(frozen=True)
class Flip:
    """Topics on which a client's right to do something changes."""

    user: str
    client_id: str
    roles: tuple[str, ...]
    tenant: str
    action: str
    condition: str  # as in a rule; `any`
    allowed: bool  # by the new policy
    topics: str  # a filter; of connect: of client ids
    exceptions: tuple[str, ...]  # filters of what does not flip, or not so
    rules: tuple[str, ...]  # ids of the rules that only one of the policies has for the client

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def covers(self, topic: str) -> bool:
        return matches(self.topics, topic) and not any(
            matches(exception, topic) for exception in self.exceptions
        )


def diff(old: Index, new: Index, principals: Iterable[Principal]) -> list[Flip]:
    """What flips for each of these clients, in their order, by action and topic."""
    changed = [
        *(row.id for row in old.rows.values() if row.id not in new.rows),
        *(row.id for row in new.rows.values() if row.id not in old.rows),
    ]
    comparison = Comparison(old, new, changed)
    found: list[Flip] = []
    for principal in principals:
        found.extend(at_once(comparison.steps(principal))[0])
    return found


def at_once(steps: Generator[None, None, T]) -> T:
    """What a generator comes to."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            found: T = stop.value
            return found


class Comparison:
    """Two policies; `changed` are the ids of the rows that just one of them has."""

    def __init__(self, old: Index, new: Index, changed: Iterable[str]) -> None:
        self.old = old
        self.new = new
        self.changed = set(changed)

    def concerns(self, principal: Principal) -> bool:
        """Whether other rules count for a client; if not, nothing flips for it."""
        before, after = self.old.reach(principal).scopes, self.new.reach(principal).scopes
        return before.keys() != after.keys() or any(
            not self.changed.isdisjoint(index.scopes[scope].rows)
            for index in (self.old, self.new)
            for scope in before
            if scope in index.scopes
        )

    def steps(
        self, principal: Principal, most: int = 0
    ) -> Generator[None, None, tuple[list[Flip], int]]:
        """What flips for a client, the first `most` (0: all), and how many more there are."""
        if not self.concerns(principal):
            return [], 0
        return (yield from _flips(self, principal, most))


# Patterns of one client


class Pattern:
    """A rule of one or both policies, as it is for the client."""

    def __init__(self, row: Row, levels: list[str], is_old: bool, is_new: bool) -> None:
        self.row = row
        self.has_rest = levels[-1] == "#"
        self.levels = levels[:-1] if self.has_rest else levels
        self.is_old = is_old
        self.is_new = is_new
        self.has_changed = is_old != is_new

    def ends_at(self, depth: int) -> bool:
        """Whether it matches topics that end at a level that it is alive at."""
        return len(self.levels) == depth or self.is_tail(depth)

    def is_tail(self, depth: int) -> bool:
        """Whether it matches all that is below, too."""
        return self.has_rest and len(self.levels) <= depth


def _patterns(comparison: Comparison, principal: Principal) -> Generator[None, None, list[Pattern]]:
    """All rules that count for the client."""
    old, new = comparison.old, comparison.new
    old_rows = _rows(old, old.reach(principal).scopes)
    new_rows = _rows(new, new.reach(principal).scopes)
    grants = new.grants_of(principal)
    if grants is not None:
        if grants.problem:  # no rights at all, by any policy
            return []
        for row in grants.rows:
            old_rows[row.id] = new_rows[row.id] = row
    found = []
    for number, row in enumerate({**old_rows, **new_rows}.values()):
        levels = _levels(row, principal)
        if levels:
            found.append(Pattern(row, levels, row.id in old_rows, row.id in new_rows))
        if number % PORTION == 0:
            yield
    return found


def _rows(index: Index, scopes: Iterable[str]) -> dict[str, Row]:
    found: dict[str, Row] = {}
    for scope in scopes:
        known = index.scopes.get(scope)
        if known is not None:
            found.update(known.rows)
    return found


def _levels(row: Row, principal: Principal) -> list[str]:
    """The levels of a rule with the client's facts in them; [] if it matches nothing."""
    levels: list[str] = []
    for number, level in enumerate(row.levels):
        text: str | None = level.text
        if level.kind == rows.HOLE:
            text = filled(level, principal, number == 0)
        if text is None:
            return []
        levels.append(text)
    return levels


# The walk


class Classes:
    """Topics below one class of beginnings: those that end here, by their next level otherwise."""

    def __init__(self, gained: int, lost: int) -> None:
        self.gained = gained
        self.lost = lost
        self.names: dict[str, Classes] = {}
        self.others: Classes | None = None  # None: all below is as it is here


_SAME: Final = Classes(0, 0)


def _walk(alive: list[Pattern], depth: int) -> Generator[None, None, Classes]:
    yield
    if not any(pattern.has_changed for pattern in alive):
        return _SAME
    old, new = _decided(alive, depth, False), _decided(alive, depth, True)
    found = Classes(new & ~old, old & ~new)
    if all(pattern.is_tail(depth) for pattern in alive) and depth:
        return found
    wild: list[Pattern] = []
    by_name: dict[str, list[Pattern]] = {}
    for pattern in alive:
        if pattern.is_tail(depth):
            wild.append(pattern)
        elif len(pattern.levels) > depth:
            name = pattern.levels[depth]
            if name == "+":
                wild.append(pattern)
            else:
                by_name.setdefault(name, []).append(pattern)
    found.others = yield from _walk(wild, depth + 1)
    for name, patterns in by_name.items():
        hidden = depth == 0 and name.startswith("$")  # [MQTT-4.7.2-1]
        found.names[name] = yield from _walk(patterns if hidden else patterns + wild, depth + 1)
    return found


def _decided(alive: list[Pattern], depth: int, is_new: bool) -> int:
    allowed = denied = 0
    for pattern in alive:
        if (pattern.is_new if is_new else pattern.is_old) and pattern.ends_at(depth):
            if pattern.row.allows:
                allowed |= pattern.row.mask
            else:
                denied |= pattern.row.mask
    return allowed & ~denied if depth else 0


# From classes to filters


@dataclass(frozen=True)
class Region:
    bits: int
    levels: tuple[str, ...]
    exceptions: tuple[tuple[str, ...], ...] = ()


def _regions(
    classes: Classes, bits: int, gained: bool, depth: int
) -> Generator[None, None, list[Region]]:
    """The filters of all classes with some of these bits; those of different bits apart."""
    yield
    here = (classes.gained if gained else classes.lost) & bits
    if classes.others is None:
        return [Region(here, ("#",))] if here else []
    others = yield from _regions(classes.others, bits, gained, depth + 1)
    found: list[Region] = []
    unlike: list[str] = []
    for name, below in classes.names.items():
        regions = yield from _regions(below, bits, gained, depth + 1)
        hidden = depth == 0 and name.startswith("$")
        if regions == others and not hidden:
            continue
        if not hidden:
            unlike.append(name)
        found.extend(_below(name, region) for region in regions)
    for region in reversed(others):
        wide = _below("+", region)
        exceptions = (*wide.exceptions, *((name, *region.levels) for name in unlike))
        if wide.levels == ("+", "#") and (here == wide.bits or not depth):
            here = 0
            wide = Region(wide.bits, ("#",))  # with what ends here
        found.insert(0, Region(wide.bits, wide.levels, exceptions))
    if here:
        found.insert(0, Region(here, ()))
    return found


def _below(name: str, region: Region) -> Region:
    exceptions = tuple((name, *levels) for levels in region.exceptions)
    return Region(region.bits, (name, *region.levels), exceptions)


def _flips(
    comparison: Comparison, principal: Principal, most: int
) -> Generator[None, None, tuple[list[Flip], int]]:
    patterns = yield from _patterns(comparison, principal)
    if not patterns:
        return [], 0
    classes = yield from _walk(patterns, 0)
    causes = [pattern for pattern in patterns if pattern.has_changed]
    found: list[Flip] = []
    more = 0
    for action, bits in rows.BITS_OF.items():
        if action == rows.CONNECT and principal.client_id not in ("", GENERAL_CLIENT):
            found.extend(_connects(comparison.old, comparison.new, principal, causes))
            continue
        for gained in (True, False):
            for region in (yield from _regions(classes, bits, gained, 0)):
                if most and len(found) >= most:
                    more += 1
                    continue
                topics = "/".join(region.levels)
                exceptions = tuple("/".join(levels) for levels in region.exceptions)
                because = _because(causes, region.bits, list(region.levels))
                condition = _condition(action, region.bits)
                found.append(
                    _flip(principal, action, condition, gained, topics, exceptions, because)
                )
                yield
    return found, more


def _connects(old: Index, new: Index, principal: Principal, causes: list[Pattern]) -> list[Flip]:
    """A client has one client id: whether it may connect with that one."""
    before, after = old.connect(principal) == 0, new.connect(principal) == 0
    if before == after:
        return []
    client_id = principal.client_id
    because = _because(causes, rows.CONNECT_BIT, client_id.split("/"))
    return [_flip(principal, rows.CONNECT, "any", after, client_id, (), because)]


def _flip(
    principal: Principal,
    action: str,
    condition: str,
    allowed: bool,
    topics: str,
    exceptions: tuple[str, ...],
    because: tuple[str, ...],
) -> Flip:
    return Flip(
        principal.user,
        principal.client_id,
        principal.roles,
        principal.tenant,
        action,
        condition,
        allowed,
        topics,
        exceptions,
        because,
    )


def _because(causes: list[Pattern], bits: int, levels: list[str]) -> tuple[str, ...]:
    """The changed rules that meet a filter."""
    return tuple(
        [
            cause.row.id
            for cause in causes
            if cause.row.mask & bits
            and _meet([*cause.levels, "#"] if cause.has_rest else cause.levels, levels)
        ]
    )


def _meet(one: list[str], other: list[str]) -> bool:
    """Whether two filters match a common topic."""
    for index in range(max(len(one), len(other))):
        left = one[index] if index < len(one) else ""
        right = other[index] if index < len(other) else ""
        if index == 0 and (left.startswith("$") or right.startswith("$")):  # [MQTT-4.7.2-1]
            if left != right:
                return False
        if left == "#" or right == "#":
            return True
        if index >= len(one) or index >= len(other):
            return False
        if left != right and left != "+" and right != "+":
            return False
    return True


def _condition(action: str, bits: int) -> str:
    """As it would be written in a rule, if it can be."""
    if bits == rows.BITS_OF[action]:
        return "any"
    if action == rows.SUBSCRIBE:
        levels = [qos for qos in range(3) if bits & 1 << (6 + qos)]
        return _qos(levels)
    kinds = [(qos, retain) for qos in range(3) for retain in (0, 1) if bits & 1 << qos * 2 + retain]
    levels = sorted({qos for qos, _ in kinds})
    flags = sorted({retain for _, retain in kinds})
    if len(kinds) != len(levels) * len(flags):
        return " or ".join(f"qos={qos}&retain={'yes' if flag else 'no'}" for qos, flag in kinds)
    terms = [] if len(levels) == 3 else [_qos(levels)]
    if len(flags) == 1:
        terms.append("retain=yes" if flags[0] else "retain=no")
    return "&".join(terms)


def _qos(levels: list[int]) -> str:
    if levels == [0, 1]:
        return "qos<=1"
    return "|".join(f"qos={qos}" for qos in levels)
