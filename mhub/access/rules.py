"""Rules of the registry: rows of a policy, each with an id that its fields make."""

from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import merge
from itertools import islice
from typing import Final

from mhub.access.announce import announced
from mhub.access.diff import at_once
from mhub.access.entries import ROLE, RULE, USER, EntryError, Rule, changed, note_of, write
from mhub.access.policy import csv_rows, resource_warnings
from mhub.access.results import RulePage, RulesChanged, RuleSummary
from mhub.access.rows import Row, RowError, parse_row
from mhub.access.seeding import ADMIN_POLICY, DEFAULT_POLICY
from mhub.access.table import MOST, Table, checked, page_limit
from mhub.operations.contract import BadArgument, NotThere, Stale
from mhub.operations.slices import Slices

SHOWN: Final = 5
"""Lines of a file that are named, if more than these are wrong."""

WRITTEN: Final = 200
"""Rows of an export that are made at once: less than a millisecond."""

PORTION: Final = 20
"""Lines between two looks at the clock."""


@dataclass(frozen=True)
class Plan:
    """A change of rules that can be done."""

    values: dict[str, str | None]  # entries as they will be; None: gone
    added: dict[str, Row]  # by key
    removed: list[RuleSummary]
    unchanged: int  # rows that are there already


class Rules:
    def __init__(self, table: Table, slices: Callable[[], Slices]) -> None:
        self._table = table
        self._slices = slices

    def page(
        self,
        subject: str = "",
        topic: str = "",
        all_rows: bool = False,
        after: str = "",
        limit: int = MOST,
    ) -> RulePage:
        """Rules by their ids; with `all_rows`, also what users and roles are given by entries.

        `topic`: as the rules write it, or a pattern with * and ?.
        """
        found = [row for row in self._rows(all_rows, after) if _is_wanted(row, subject, topic)]
        end = page_limit(limit)
        while end < len(found) and found[end].place == found[end - 1].place:
            end += 1  # the next page comes behind a place
        page = tuple(self._table.rule_summary(row.place, row) for row in found[:end])
        return RulePage(page, max(0, len(found) - end), self._table.registry.revision)

    async def search(
        self,
        subject: str = "",
        topic: str = "",
        all_rows: bool = False,
        after: str = "",
        limit: int = MOST,
    ) -> RulePage:
        """The same, in slices; `left` of a search is 1 if there are more."""
        registry, directory, slices = self._table.registry, self._table.directory, self._slices()
        most = page_limit(limit)
        found: list[Row] = []
        last = ""
        count = 0
        for prefix in (ROLE, RULE, USER) if all_rows else (RULE,):
            key = after
            count += registry.count(prefix, after)
            while not last and (keys := registry.keys(prefix, key, PORTION)):
                for key in keys:
                    rows = [
                        row for row in directory.rows_of(key) if _is_wanted(row, subject, topic)
                    ]
                    if rows and len(found) >= most:
                        last = found[-1].place
                        break
                    found += rows
                    count -= 1
                await slices.pause_if_due()
        page: list[RuleSummary] = []
        for row in found:
            page.append(self._table.rule_summary(row.place, row))
            await slices.pause_if_due()
        left = 0 if not last else 1 if subject or topic else count
        return RulePage(tuple(page), left, registry.revision, last)

    def _rows(self, all_rows: bool, after: str) -> Iterator[Row]:
        """Rows by the keys of their entries, behind one."""
        registry, directory = self._table.registry, self._table.directory
        for prefix in (ROLE, RULE, USER) if all_rows else (RULE,):
            for key in registry.keys(prefix, after):
                yield from directory.rows_of(key)

    @announced("rules.change", "add", "remove", "replace_all")
    async def change(
        self,
        add: Sequence[Sequence[str]] = (),
        remove: Sequence[str] = (),
        replace_all: bool = False,
        note: str = "",
        places: Sequence[str] = (),
        expected: str = "",
        by: str = "",
        reason: str = "",
    ) -> RulesChanged:
        """Rows to add, ids to remove; `replace_all`: all rules that are not added go.

        `places` is where the rows come from, for errors.  `expected` is a revision.
        """
        return await self._change(rows_of(add, places), remove, replace_all, note, expected)

    @announced("rules.import", "replace_all")
    async def bring(
        self,
        text: str,
        replace_all: bool = False,
        note: str = "",
        expected: str = "",
        by: str = "",
        reason: str = "",
    ) -> RulesChanged:
        """Add the rules of a CSV file, all of them or none."""
        return await self._change(await self.parse(text), (), replace_all, note, expected)

    async def parse(self, text: str) -> list[Row]:
        """The rows of a CSV file.  Raises BadArgument, which names the lines that are wrong."""
        slices = self._slices()
        rows: list[Row] = []
        errors: list[RowError] = []
        for number, each in enumerate(csv_rows(text, "line")):
            if isinstance(each, Row):
                rows.append(each)
            else:
                errors.append(each)
            if number % PORTION == 0:
                await slices.pause_if_due()
        if errors:
            more = f"; and {len(errors) - SHOWN} more" if len(errors) > SHOWN else ""
            raise BadArgument("; ".join(map(str, errors[:SHOWN])) + more)
        return rows

    async def export(self) -> AsyncGenerator[str, None]:
        """All rules as a CSV file, with the roles of users and roles: a policy of its own."""
        slices = self._slices()
        registry, directory = self._table.registry, self._table.directory
        yield f"# revision {registry.revision}\n"
        keys = registry.keys(ROLE) + registry.keys(RULE)
        # Sorted in portions, as all of it may take longer than a slice.
        parts: list[list[Row]] = []
        for start in range(0, len(keys), WRITTEN):
            part = [row for key in keys[start : start + WRITTEN] for row in directory.rows_of(key)]
            parts.append(sorted(part, key=_by_subject))
            await slices.pause_if_due()
        told: set[str] = set()
        rules = merge(*parts, key=_by_subject)
        while portion := list(islice(rules, WRITTEN)):
            yield "".join(f"{row.text()}\n" for row in portion if row.id not in told)
            told.update(row.id for row in portion)
            await slices.pause_if_due()
        after = ""
        while names := registry.keys(USER, after, WRITTEN):
            after = names[-1]
            given = [row for key in names for row in directory.rows_of(key) if row.id not in told]
            yield "".join(f"{row.text()}\n" for row in given)
            await slices.pause_if_due()

    async def _change(
        self,
        rows: Sequence[Row],
        remove: Sequence[str],
        replace_all: bool,
        note: str,
        expected: str,
    ) -> RulesChanged:
        registry = self._table.registry
        checked(note_of, note)
        if expected and expected != registry.revision:
            raise Stale(
                f"the registry is at the revision {registry.revision}, and not at {expected}: look"
                " at it again"
            )
        plan = at_once(self.planning(rows, remove, replace_all, note))
        values = plan.values
        if not values:
            return RulesChanged(registry.revision, (), (), plan.unchanged)
        if registry.get(DEFAULT_POLICY) is None:
            values[DEFAULT_POLICY] = values[ADMIN_POLICY] = "{}"
        done = await self._table.change(values, {})
        return RulesChanged(
            done.revision,
            tuple(self._table.rule_summary(key, row) for key, row in plan.added.items()),
            tuple(plan.removed),
            plan.unchanged,
            tuple(str(warning) for warning in resource_warnings(plan.added.values())),
        )

    def planning(
        self, rows: Sequence[Row], remove: Sequence[str], replace_all: bool, note: str = ""
    ) -> "Generator[None, None, Plan]":
        """What a change comes to.  Raises BadArgument, NotThere; nothing is changed.

        A generator, for those who have to pause.
        """
        values: dict[str, str | None] = {}
        removed = [self._rule(row_id).place for row_id in remove]
        kept = {RULE + row.id for row in rows}
        if replace_all:
            removed += [key for key in self._table.directory.rules if key not in kept]
        for key in removed:
            values[key] = None
        before: dict[str, RuleSummary] = {}
        for key in removed:
            for row in self._table.directory.rows_of(key):
                before[key] = self._table.rule_summary(key, row)
            yield
        unchanged = 0
        new: dict[str, Row] = {}
        for row in rows:
            yield
            key = RULE + row.id
            there = self._table.directory.row(row.id)
            if key in new or (there is not None and there.place not in values):
                unchanged += 1
                continue
            new[key] = row
            try:
                values[key] = write(changed(Rule(row.fields), key, {"note": note}))
            except EntryError as error:
                raise BadArgument(str(error)) from None
        try:
            if any(row.kind == "g" for row in new.values()):
                self._table.check_links(new.values(), set(values))
        except RowError as error:
            raise BadArgument(str(error)) from None
        gone = [rule for key, rule in before.items() if key not in new]
        return Plan(values, new, gone, unchanged)

    def _rule(self, row_id: str) -> RuleSummary:
        key = row_id if row_id.startswith(RULE) else RULE + row_id
        for row in self._table.directory.rows_of(key):
            return self._table.rule_summary(key, row)
        if self._table.registry.get(key) is not None:  # one that cannot be read can be removed
            return RuleSummary(row_id, (), key, "", "")
        raise NotThere(f'there is no rule "{row_id}"' + self._table.meant(row_id, RULE))


def rows_of(add: Sequence[Sequence[str]], places: Sequence[str] = ()) -> list[Row]:
    """Raises BadArgument."""
    return [
        as_row(fields, str(places[index]) if index < len(places) else f"row {index + 1}")
        for index, fields in enumerate(add)
    ]


def _by_subject(row: Row) -> tuple[str, ...]:
    return (row.subject, *row.fields)


def _is_wanted(row: Row, subject: str, topic: str) -> bool:
    return (not subject or subject in row.fields[1:3]) and (
        not topic or (row.kind == "p" and _fits(row.pattern, topic))
    )


def _fits(text: str, wanted: str) -> bool:
    return text == wanted or fnmatchcase(text, wanted)


def as_row(fields: Sequence[str], place: str) -> Row:
    """Raises BadArgument."""
    if not isinstance(fields, list) or not all(isinstance(each, str) for each in fields):
        raise BadArgument(f"{place}: expected a list of texts")
    try:
        return parse_row(list(fields), place)
    except RowError as error:
        raise BadArgument(str(error)) from None
