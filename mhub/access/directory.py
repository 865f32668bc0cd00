"""What the registry has about permissions, read once and kept up to date.

Rules and roles are kept as they were read, and of every entry the rows of policy that it stands
for:

    rule/ID     its row
    role/NAME   g, role:NAME, role:PARENT, *        for each parent
    user/NAME   g, user:NAME, role:ROLE, TENANT     for each role

Two entries may stand for the same row, such as a rule that gives a user a role that it has anyway:
followers are told of a row when its first entry comes and when its last one goes.  An entry that
cannot be read stands for nothing, so that it gives no rights, and is reported.
"""

from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, TypeVar

from mhub.access.entries import ROLE, RULE, TOKEN, USER, EntryError, Role, Rule, Token, User, read
from mhub.access.rows import (
    ALL_TENANTS,
    Row,
    RowError,
    parse_row,
    quote,
    role_subject,
    unquote,
    user_subject,
)
from mhub.core.registry import Registry

FEW: Final = 1000

K = TypeVar("K")


@dataclass
class Delta:
    """What has changed."""

    added: list[Row] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)  # ids of rows
    keys: list[str] = field(default_factory=list)
    users: set[str] = field(default_factory=set)  # whose entries changed
    everybody: bool = False  # rules or roles changed


class Directory:
    def __init__(
        self, registry: Registry, report: Callable[[str], None], with_rules: bool = True
    ) -> None:
        """`report` is told of entries that cannot be read; without `with_rules`, rules are left
        out: a file has them.
        """
        self._prefixes = (USER, ROLE, RULE) if with_rules else (USER, ROLE)
        self.rules: dict[str, Rule] = {}  # by key
        self.roles: dict[str, Role] = {}  # by name
        self.extra: list[Row] = []  # those of a file, which is the policy beside the registry
        self.followers: list[Callable[[Delta], None]] = []
        self._registry = registry
        self._report = report
        self._rows: dict[str, tuple[Row, ...]] = {}  # by key
        self._by_id: dict[str, list[Row]] = {}
        # What users are given, by role and tenant: there may be very many users, and few roles.
        self._given: dict[tuple[str, str], dict[str, Row]] = {}
        self._about: dict[str, dict[str, Row]] = {}  # rules by subject, those that give by both
        self._links: dict[str, tuple[Row, ...]] = {}  # what gives, of roles and rules, by key
        self._take([entry.key for entry in registry.items("")])
        registry.watchers.append(self._on_change)

    def close(self) -> None:
        self._registry.watchers.remove(self._on_change)

    def rows(self) -> list[Row]:
        """All there are, each once."""
        return [found[0] for found in self._by_id.values()]

    def rows_of(self, key: str) -> tuple[Row, ...]:
        return self._rows.get(key, ())

    def row(self, row_id: str) -> Row | None:
        found = self._by_id.get(row_id)
        return found[0] if found else None

    def role_names(self) -> set[str]:
        """Those that there are: they have an entry, or a rule names them."""
        subjects = {*self._about, *(each for row in self.extra for each in _subjects(row))}
        return {*self.roles, *(name_in(each) for each in subjects if each.startswith("role:"))}

    def about(self, subject: str) -> list[Row]:
        """The rules that name a user or a role, by their keys."""
        found = self._about.get(subject, {})
        return [found[key] for key in sorted(found)]

    def users_with(self, role: str) -> list[str]:
        """The users that were given a role by their entries, sorted."""
        subject = role_subject(role)
        return sorted(
            key[len(USER) :]
            for (given, _), by_key in self._given.items()
            if given == subject
            for key in by_key
        )

    def some_users_with(self, role: str, most: int) -> tuple[list[str], int]:
        """Up to `most` of the users that have a role by their entries, and how many there are.

        The first ones by name, unless there are so many that sorting them takes milliseconds.
        """
        subject = role_subject(role)
        found = [by_key for (given, _), by_key in self._given.items() if given == subject]
        count = sum(map(len, found))
        keys = chain.from_iterable(found)
        some = sorted(keys if count <= FEW else islice(keys, most))[:most]
        return [key[len(USER) :] for key in some], count

    def rule_count(self, subject: str) -> int:
        """How many rules a user or a role has."""
        return sum(row.subject == subject for row in self._about.get(subject, {}).values())

    def gives(self, key: str, role: str) -> bool:
        """Whether the entry of a user gives it a role."""
        subject = role_subject(role)
        return any(row.role == subject for row in self._rows.get(key, ()))

    def links(self, without: Container[str] = ()) -> list[Row]:
        """All rows that give a role, but for those of some keys; of all users with a role, one.

        Of users, `without` is one at most.
        """
        found = [row for key, rows in self._links.items() if key not in without for row in rows]
        for by_key in self._given.values():
            found += [row for key, row in islice(by_key.items(), 2) if key not in without][:1]
        return [*found, *(row for row in self.extra if row.kind == "g")]

    def _on_change(self, keys: list[str]) -> None:
        delta = self._take(keys)
        if delta.keys:
            for follower in list(self.followers):
                follower(delta)

    def _take(self, keys: Iterable[str]) -> Delta:
        delta = Delta()
        before: dict[str, Row] = {}
        touched: set[str] = set()
        for key in keys:
            if not key.startswith(self._prefixes):
                continue
            delta.keys.append(key)
            if key.startswith(USER):
                delta.users.add(key[len(USER) :])
            else:
                delta.everybody = True
            for row in self._rows.pop(key, ()):
                if row.id not in touched:
                    touched.add(row.id)
                    before[row.id] = row
                self._forget(key, row)
                found = self._by_id[row.id]
                found.remove(row)
                if not found:
                    del self._by_id[row.id]
            for row in self._read(key):
                if row.id not in touched:
                    touched.add(row.id)
                    if row.id in self._by_id:
                        before[row.id] = row
                self._by_id.setdefault(row.id, []).append(row)
                self._note(key, row)
        for row_id in touched:
            now = self._by_id.get(row_id)
            if now and row_id not in before:
                delta.added.append(now[0])
            elif not now and row_id in before:
                delta.removed.append(row_id)
        return delta

    def _note(self, key: str, row: Row) -> None:
        """Where to find a row again."""
        if key.startswith(USER):
            self._given.setdefault((row.role, row.tenant), {})[key] = row
            return
        if row.kind == "g":
            self._links[key] = (*self._links.get(key, ()), row)
        if key.startswith(RULE):
            for subject in _subjects(row):
                self._about.setdefault(subject, {})[key] = row

    def _forget(self, key: str, row: Row) -> None:
        if key.startswith(USER):
            _remove(self._given, (row.role, row.tenant), key)
            return
        self._links.pop(key, None)
        if key.startswith(RULE):
            for subject in _subjects(row):
                _remove(self._about, subject, key)

    def _read(self, key: str) -> tuple[Row, ...]:
        entry = self._registry.get(key)
        self.rules.pop(key, None)
        name = key[key.index("/") + 1 :]
        if key.startswith(ROLE):
            self.roles.pop(name, None)
        if entry is None:
            return ()
        try:
            if key.startswith(RULE):
                rule = read(Rule, key, entry.value)
                rows: tuple[Row, ...] = (parse_row(list(rule.row), key),)
                self.rules[key] = rule
            elif key.startswith(ROLE):
                role = read(Role, key, entry.value)
                rows = role_rows(name, role, key)
                self.roles[name] = role
            else:
                rows = user_rows(name, read(User, key, entry.value), key)
        except (EntryError, RowError) as error:
            self._report(str(error))
            return ()
        if rows:
            self._rows[key] = rows
        return rows


def check_entry(key: str, text: str) -> None:
    """Raises ValueError for an entry that would be left out; "" deletes one.

    A broker goes on without what it cannot read.  Who brings entries from elsewhere is told: the
    row that is left out might deny something.
    """
    name = key[key.find("/") + 1 :]
    try:
        if not text or not key.startswith((RULE, ROLE, USER, TOKEN)):
            return
        if key.startswith(TOKEN):
            read(Token, key, text)
            return
        if key.startswith(ROLE):
            role_rows(name, read(Role, key, text), key)
        elif key.startswith(USER):
            user_rows(name, read(User, key, text), key)
        else:
            row = parse_row(list(read(Rule, key, text).row), key)
            if row.id != name:
                raise ValueError(f"{key}: the id of this row is {row.id}")
    except EntryError as error:
        raise ValueError(str(error)) from None


def user_rows(name: str, user: User, place: str) -> tuple[Row, ...]:
    """Raises RowError."""
    subject = user_subject(name)
    tenant = quote(user.tenant) or ALL_TENANTS
    return tuple(
        parse_row(["g", subject, role_subject(role), tenant], place) for role in user.roles
    )


def role_rows(name: str, role: Role, place: str) -> tuple[Row, ...]:
    """Raises RowError."""
    subject = role_subject(name)
    return tuple(
        parse_row(["g", subject, role_subject(parent), ALL_TENANTS], place)
        for parent in role.parents
    )


def name_in(subject: str) -> str:
    """The name of a user or a role, without its kind."""
    return unquote(subject[subject.index(":") + 1 :])


def _subjects(row: Row) -> tuple[str, ...]:
    """Who a row is about."""
    return (row.subject, row.role) if row.kind == "g" else (row.subject,)


def _remove(found: dict[K, dict[str, Row]], name: K, key: str) -> None:
    by_key = found[name]
    del by_key[key]
    if not by_key:
        del found[name]
