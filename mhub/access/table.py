"""What users, roles, rules and bans have in common: the registry, and how it is changed."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import islice
from typing import Final, TypeVar

from twisted.internet.defer import Deferred

from mhub.access.directory import Directory, name_in
from mhub.access.entries import (
    EVERYBODY,
    LOCKOUT,
    Ban,
    EntryError,
    Lockout,
    Role,
    User,
    read,
    split_key,
    write,
)
from mhub.access.policy import role_errors
from mhub.access.results import BanSummary, Changed, RuleSummary
from mhub.access.rows import Row, role_subject
from mhub.config.problems import nearest
from mhub.core.events import Events
from mhub.core.registry import Change, Entry, Registry, StaleVersion
from mhub.operations.contract import BadArgument, OperationError, Stale

MOST: Final = 1000
"""Entries on one page."""

GUESSES: Final = 5_000
"""Among more names than these none is looked for that may have been meant: 5,000 take 10 ms."""

T = TypeVar("T")


class Table:
    def __init__(
        self,
        registry: Registry,
        directory: Directory,
        clock: Callable[[], float],
        time_of_day: Callable[[], float],
        settle: Callable[[], None],
        events: Events,
    ) -> None:
        """`clock` is the hub's; settle() ends a turn that no socket began."""
        self.events = events
        self.registry = registry
        self.directory = directory
        self.time_of_day = time_of_day
        self._clock = clock
        self._settle = settle

    # Changes

    async def put(self, key: str, record: User | Role | Ban, before: int) -> Changed:
        return await self.change({key: write(record)}, {key: before}, key)

    async def change(
        self, values: dict[str, str | None], expected: dict[str, int], key: str = ""
    ) -> Changed:
        """Comes back when the change is durable, with the version of `key`."""
        try:
            change = self.registry.change(values, self._clock(), expected)
        except StaleVersion as error:
            raise Stale(stale(error.key)) from None
        except ValueError as error:  # a key that is too long to be kept
            raise BadArgument(str(error)) from None
        done = Changed(change.revision, version_of(self.registry.get(key)) if key else "")
        self._settle()
        await safe(change)
        return done

    def readable(self, cls: type[T], entry: Entry) -> T:
        """What an entry says; one that was damaged says nothing, and so gives nobody any right."""
        try:
            return read(cls, entry.key, entry.value)  # type: ignore[type-var]
        except EntryError:
            return cls()

    def refuse_existing(self, key: str, text: str) -> None:
        if self.registry.get(key) is not None:
            raise OperationError(text)

    def check_version(self, entry: Entry | None, expected: str, key: str = "") -> None:
        if not expected:
            return
        if expected != (version_of(entry) or "0"):
            raise Stale(stale(entry.key if entry is not None else key))

    def meant(self, name: str, prefix: str) -> str:
        entries = self.registry.items(prefix)
        names = [entry.key[len(prefix) :] for entry in islice(entries, GUESSES)]
        return hint(name, names if len(entries) <= GUESSES else ())

    def meant_role(self, name: str) -> str:
        return hint(name, {*self.directory.role_names(), *EVERYBODY})

    # What several of them look at

    def check_roles(self, key: str, roles: Iterable[str]) -> None:
        known = self.directory.role_names()
        for role in roles:
            if role not in known:
                raise BadArgument(
                    f'{key}: there is no role "{role}"'
                    + (self.meant_role(role) or "; `mhub ctl role add` makes one")
                )

    def check_links(self, rows: Iterable[Row], instead_of: Container[str]) -> None:
        """That roles still inherit from each other without cycles, and not too deeply."""
        links = self.directory.links(instead_of)
        errors = role_errors([*links, *(row for row in rows if row.kind == "g")])
        if errors:
            raise errors[0]

    def inherited(self, roles: Iterable[str]) -> tuple[str, ...]:
        found = dict.fromkeys(roles)
        waiting = list(found)
        while waiting:
            name = waiting.pop(0)
            role = self.directory.roles.get(name)
            for parent in [*(role.parents if role else ()), *self.given(role_subject(name))]:
                if parent not in found:
                    found[parent] = None
                    waiting.append(parent)
        return tuple(found)

    def given(self, subject: str) -> list[str]:
        """The roles that rules give to a user or a role."""
        return [
            name_in(row.role)
            for row in self.directory.about(subject)
            if row.kind == "g" and row.subject == subject
        ]

    def rules_about(self, subject: str) -> tuple[RuleSummary, ...]:
        return tuple(self.rule_summary(row.place, row) for row in self.directory.about(subject))

    def rule_summary(self, key: str, row: Row) -> RuleSummary:
        entry = self.registry.get(key)
        rule = self.directory.rules.get(key)
        return RuleSummary(
            row.id,
            tuple(row.fields),
            key,
            rule.note if rule is not None else "",
            version_of(entry),
        )

    def ban_summary(self, entry: Entry) -> BanSummary:
        kind, value = split_key(entry.key)
        if entry.key.startswith(LOCKOUT):
            lockout = self.readable(Lockout, entry)
            reason = f"{lockout.failures} failed logins"
            return BanSummary(
                entry.key, "lockout", kind, value, reason, lockout.until, "", 0.0, version_of(entry)
            )
        ban = self.readable(Ban, entry)
        return BanSummary(
            entry.key,
            "ban",
            kind,
            value,
            ban.reason,
            ban.until,
            ban.by,
            ban.created_at,
            version_of(entry),
        )


def safe(change: Change) -> Deferred[None]:
    """Fires when a change is in the store and with the other nodes."""
    done: Deferred[None] = Deferred()
    if change.is_safe():
        done.callback(None)
    else:
        change.on_safe = lambda: done.callback(None)
    return done


def version_of(entry: Entry | None) -> str:
    return f"{entry.hlc:x}" if entry is not None else ""


def page_limit(limit: int) -> int:
    if not 1 <= limit <= MOST:
        raise BadArgument(f"limit: expected from 1 to {MOST}")
    return limit


def hint(name: str, known: Iterable[str]) -> str:
    near = nearest(name, known)
    return f'; did you mean "{near}"?' if near else ""


def stale(key: str) -> str:
    return f"{key} was changed meanwhile, or is gone: look at it again, then repeat the change"


def allow(key: str, values: Mapping[str, object], names: Sequence[str]) -> None:
    for name in values:
        if name not in names:
            near = nearest(name, names)
            hint = f'did you mean "{near}"?' if near else "expected one of " + ", ".join(names)
            raise BadArgument(f'{key}: "{name}" cannot be set; {hint}')


def checked(check: Callable[[str], T], value: str) -> T:
    try:
        return check(value)
    except ValueError as error:
        raise BadArgument(str(error)) from None
