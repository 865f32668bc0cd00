"""All rows of a policy together: what no single row shows, and how they are kept in CSV files.

A Policy that exists is sound: its rows are well formed, and mean to PyCasbin what they mean to the
index.  What stands in the way is a PolicyError, with all that is wrong, row by row:

    a cycle of roles
    a chain of more than MOST_LINKS roles, of which PyCasbin would silently not see the end
    a file with a row that is refused by itself (`mhub.access.rows`)

A warning hinders nobody: a row that stands twice, a role that is given and has no rules, a rule
about a resource that there is not.

CSV.  A line is a row, its fields are separated by commas and stripped; empty lines and lines that
begin with # are skipped.  No field needs quotes, as rows have none of the characters that would
(they are written as %XX); so our reader, PyCasbin's and Python's csv module read the same fields.
PyCasbin skips, without a word, a line whose first field it does not know; here that is an error.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from mhub.access.index import Index
from mhub.access.resources import unknown_resource
from mhub.access.rows import ADMIN_BITS, ALL_TENANTS, Row, RowError, parse_row

MOST_LINKS: Final = 9
"""From a user or role to a role that it has: PyCasbin goes no further (tried, on 2.8)."""

POLICIES: Final = Path(__file__).parent / "policies"


class PolicyError(ValueError):
    """Rows that are refused; nothing of what was asked for has been done."""

    def __init__(self, errors: list[RowError]) -> None:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0]}{more}")
        self.errors = errors


class Policy:
    def __init__(self, rows: Iterable[Row] = ()) -> None:
        self.rows: dict[str, Row] = {}
        self.twice: list[RowError] = []
        for row in rows:
            self._put(row)
        self._check_roles()

    def _put(self, row: Row) -> None:
        known = self.rows.setdefault(row.id, row)
        if known.fields != row.fields:
            raise PolicyError([RowError(row.place, f"has the same id as {known.place}")])
        if known is not row:
            self.twice.append(RowError(row.place, f"is the same row as {known.place}"))

    def _check_roles(self) -> None:
        errors = role_errors([row for row in self.rows.values() if row.kind == "g"])
        if errors:
            raise PolicyError(errors)

    def changed(self, added: Iterable[Row], removed: Iterable[str]) -> "Policy":
        """The policy after a change.  Raises PolicyError; KeyError for a row that is not there."""
        after = Policy()
        after.rows = dict(self.rows)
        kinds = {after.rows.pop(row_id).kind for row_id in removed}
        for row in added:
            after._put(row)
            kinds.add(row.kind)
        if "g" in kinds:  # one that goes may have been a short cut in a chain
            after._check_roles()
        return after

    def index(self) -> Index:
        index = Index()
        index.apply(list(self.rows.values()), [])
        return index

    def warnings(self) -> list[RowError]:
        ruled = {row.subject for row in self.rows.values()}
        idle = [
            RowError(row.place, f"{row.role} has no rules, and no other role")
            for row in self.rows.values()
            if row.kind == "g" and row.role not in ruled
        ]
        return [*self.twice, *idle, *resource_warnings(self.rows.values())]


def resource_warnings(rows: Iterable[Row]) -> list[RowError]:
    """Rules that decide nothing, as no resource is called like this."""
    return [
        RowError(row.place, problem)
        for row in rows
        if row.mask & ADMIN_BITS and (problem := unknown_resource(row.pattern))
    ]


# Roles


def role_errors(links: list[Row]) -> list[RowError]:
    """Cycles, and chains that are too long, in any tenant."""
    if _depth(links) <= MOST_LINKS:
        return []
    # Nearly always it ends above.  Links of different tenants do not make a chain together.
    errors: dict[str, RowError] = {}
    everywhere = [row for row in links if row.tenant == ALL_TENANTS]
    for tenant in sorted({row.tenant for row in links}):
        inside = everywhere
        if tenant != ALL_TENANTS:
            inside = everywhere + [row for row in links if row.tenant == tenant]
        for row, text in _problems(inside):
            errors.setdefault(row.id, RowError(row.place, text))
    return list(errors.values())


def _depth(links: list[Row]) -> int:
    """The most links in a row; beyond MOST_LINKS if there is a cycle."""
    roles_of: dict[str, list[str]] = {}
    waiting: dict[str, int] = {}
    for row in links:
        roles_of.setdefault(row.subject, []).append(row.role)
        waiting[row.role] = waiting.get(row.role, 0) + 1
    ready = [subject for subject in roles_of if subject not in waiting]
    depth = dict.fromkeys(ready, 0)
    deepest = 0
    while ready:
        subject = ready.pop()
        for role in roles_of.get(subject, ()):
            depth[role] = max(depth.get(role, 0), depth[subject] + 1)
            deepest = max(deepest, depth[role])
            waiting[role] -= 1
            if not waiting[role]:
                del waiting[role]
                ready.append(role)
    return MOST_LINKS + 1 if waiting else deepest


def _problems(links: list[Row]) -> list[tuple[Row, str]]:
    """The same exactly, with the rows: of a cycle one row, of a chain the first one too many."""
    rows_of: dict[str, list[Row]] = {}
    for row in links:
        rows_of.setdefault(row.subject, []).append(row)
    cycle = _cycle(rows_of)
    if cycle:
        names = " -> ".join([row.subject for row in cycle] + [cycle[-1].role])
        return [(cycle[-1], f"roles in a circle: {names}")]
    problems: dict[str, tuple[Row, str]] = {}
    for start in rows_of:
        before: dict[str, Row | None] = {start: None}
        left = [start]
        links_gone = 0
        while left:
            links_gone += 1
            following: list[str] = []
            for subject in left:
                for row in rows_of.get(subject, ()):
                    if row.role in before:
                        continue
                    before[row.role] = row
                    following.append(row.role)
                    if links_gone == MOST_LINKS + 1 and row.id not in problems:
                        text = (
                            f"{start} would have {row.role} by {links_gone} links, "
                            f"and Casbin follows {MOST_LINKS}: {_way(before, row)}"
                        )
                        problems[row.id] = (row, text)
            left = following
    return list(problems.values())


def _way(before: dict[str, Row | None], last: Row) -> str:
    names = [last.role]
    row: Row | None = last
    while row is not None:
        names.append(row.subject)
        row = before[row.subject]
    return " -> ".join(reversed(names))


def _cycle(rows_of: dict[str, list[Row]]) -> list[Row]:
    """The rows of some cycle, the last one closing it; [] if there is none."""
    done: set[str] = set()
    for start in rows_of:
        if start in done:
            continue
        path: list[Row] = []
        on_path = {start}
        left = [iter(rows_of[start])]
        while left:
            row = next(left[-1], None)
            if row is None:
                left.pop()
                done.add(path[-1].role if path else start)
                if path:
                    on_path.discard(path.pop().role)
            elif row.role in on_path:
                path.append(row)
                first = next(i for i, link in enumerate(path) if link.subject == row.role)
                return path[first:]
            elif row.role not in done:
                path.append(row)
                on_path.add(row.role)
                left.append(iter(rows_of.get(row.role, ())))
    return []


# CSV


def read_csv(text: str, name: str) -> list[Row]:
    """The rows of a CSV file.  Raises PolicyError with all lines that are refused."""
    rows: list[Row] = []
    errors: list[RowError] = []
    for each in csv_rows(text, name):
        if isinstance(each, Row):
            rows.append(each)
        else:
            errors.append(each)
    if errors:
        raise PolicyError(errors)
    return rows


def csv_rows(text: str, name: str) -> Iterator[Row | RowError]:
    """Line by line: its row, or what is wrong with it."""
    # Neither splitlines() nor universal newlines, which know more line ends than PyCasbin does.
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        try:
            yield parse_row([field.strip() for field in line.split(",")], f"{name}:{number}")
        except RowError as error:
            yield error


def write_csv(rows: Iterable[Row]) -> str:
    return "".join(f"{row.text()}\n" for row in rows)


def load_csv(path: Path) -> Policy:
    """A policy from a file.  Raises PolicyError, OSError."""
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise PolicyError([RowError(str(path), f"is not UTF-8: {error}")]) from None
    return Policy(read_csv(text, str(path)))


def default_rows() -> list[Row]:
    """The policy of a broker for which nobody has written one."""
    return read_csv((POLICIES / "default.csv").read_text("utf-8"), "default.csv")
