"""Roles: those with an entry of their own, and those that only rules name."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from mhub.access.announce import announced
from mhub.access.directory import role_rows
from mhub.access.entries import (
    EVERYBODY,
    ROLE,
    RULE,
    USER,
    EntryError,
    Role,
    User,
    changed,
    role_name,
    write,
)
from mhub.access.results import Changed, Deleted, RoleDetail, RoleList, RoleSummary
from mhub.access.rows import RowError, role_subject
from mhub.access.table import Table, allow, checked, version_of
from mhub.operations.contract import BadArgument, NotThere, OperationError

SHOWN: Final = 20
"""Users of a role that are named."""

FIELDS: Final = ("parents", "limits", "note")


class Roles:
    def __init__(self, table: Table) -> None:
        self._table = table

    def all(self) -> RoleList:
        """All that there are, with those that only rules name."""
        names = sorted({*self._table.directory.role_names(), *EVERYBODY})
        found = tuple(self._role_summary(name) for name in names)
        return RoleList(found, self._table.registry.revision)

    def show(self, name: str) -> RoleDetail:
        name = self._role(name)
        rules = self._table.rules_about(role_subject(name))
        users, count = self._table.directory.some_users_with(name, SHOWN)
        return RoleDetail(
            role=self._role_summary(name),
            all_parents=tuple(each for each in self._table.inherited([name]) if each != name),
            users=tuple(users),
            user_count=count,
            rules=rules,
            revision=self._table.registry.revision,
        )

    @announced("roles.add", "name", "values")
    async def add(
        self, name: str, values: Mapping[str, object] | None = None, by: str = "", reason: str = ""
    ) -> Changed:
        name = checked(role_name, name)
        key = ROLE + name
        if name in EVERYBODY:
            raise BadArgument(f'the role "{name}" is built in')
        self._table.refuse_existing(
            key, f'there is a role "{name}" already; see `mhub ctl role set`'
        )
        return await self._table.put(key, self._new_role(key, name, Role(), values), 0)

    @announced("roles.update", "name", "values")
    async def update(
        self,
        name: str,
        values: Mapping[str, object],
        expected: str = "",
        by: str = "",
        reason: str = "",
    ) -> Changed:
        """Other parents, limits, note; what is not given stays."""
        name = self._role(name)
        key = ROLE + name
        entry = self._table.registry.get(key)
        self._table.check_version(entry, expected, key)
        role = self._table.readable(Role, entry) if entry is not None else Role()
        role = self._new_role(key, name, role, values)
        return await self._table.put(key, role, entry.hlc if entry is not None else 0)

    @announced("roles.delete", "name", "cascade")
    async def delete(
        self, name: str, cascade: bool = False, expected: str = "", by: str = "", reason: str = ""
    ) -> Deleted:
        """A role that nobody has and no rule names; with `cascade`, also out of all of these."""
        name = self._role(name)
        if name in EVERYBODY:
            raise BadArgument(
                f'the role "{name}" is built in; `mhub ctl policy remove` removes rules'
            )
        key = ROLE + name
        entry = self._table.registry.get(key)
        self._table.check_version(entry, expected, key)
        seen: dict[str, int] = {} if entry is None else {key: entry.hlc}
        values: dict[str, str | None] = {} if entry is None else {key: None}
        users = self._table.directory.users_with(name)
        heirs = [
            other for other, role in self._table.directory.roles.items() if name in role.parents
        ]
        rules = [
            rule.place
            for rule in self._table.rules_about(role_subject(name))
            if rule.place.startswith(RULE)
        ]
        if (users or heirs or rules) and not cascade:
            raise OperationError(
                f'the role "{name}" is in use: {_in_use(users, heirs, rules)}. With --cascade it is'
                " taken from them, and the rules are removed"
            )
        for user in users:
            found = self._table.registry.get(USER + user)
            if found is not None:
                before = self._table.readable(User, found)
                left = tuple(role for role in before.roles if role != name)
                values[found.key] = write(replace(before, roles=left))
                seen[found.key] = found.hlc
        for heir in heirs:
            found = self._table.registry.get(ROLE + heir)
            if found is not None:
                parent = self._table.readable(Role, found)
                left = tuple(each for each in parent.parents if each != name)
                values[found.key] = write(replace(parent, parents=left))
                seen[found.key] = found.hlc
        values.update((rule, None) for rule in rules)
        done = await self._table.change(values, seen)
        return Deleted(done.revision, len(rules), len(users))

    def _role(self, name: str) -> str:
        name = checked(role_name, name)
        if name in EVERYBODY or name in self._table.directory.role_names():
            return name
        raise NotThere(f'there is no role "{name}"' + self._table.meant_role(name))

    def _new_role(
        self, key: str, name: str, role: Role, values: Mapping[str, object] | None
    ) -> Role:
        allow(key, values or {}, FIELDS)
        if name in EVERYBODY:
            raise BadArgument(f'the role "{name}" is built in: rules may name it, and no more')
        try:
            role = changed(role, key, values or {})
            rows = role_rows(name, role, key)
            self._table.check_roles(key, [each for each in role.parents if each != name])
            self._table.check_links(rows, {key})
        except (EntryError, RowError) as error:
            raise BadArgument(str(error)) from None
        return role

    def _role_summary(self, name: str) -> RoleSummary:
        role = self._table.directory.roles.get(name, Role())
        version = version_of(self._table.registry.get(ROLE + name))
        subject = role_subject(name)
        rules = self._table.directory.rule_count(subject)
        return RoleSummary(name, role.parents, role.limits, role.note, rules, version)


def _in_use(users: Sequence[str], heirs: Sequence[str], rules: Sequence[str]) -> str:
    parts = [
        f"{len(names)} {what}{'s' if len(names) > 1 else ''}"
        + (f" ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})" if shown else "")
        for names, what, shown in (
            (users, "user", True),
            (heirs, "role", True),
            (rules, "rule", False),
        )
        if names
    ]
    return ", ".join(parts)
