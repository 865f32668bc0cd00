"""Users of the registry.

Passwords come in as text, are hashed off the reactor's thread, and never leave.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from fnmatch import fnmatchcase, translate
from typing import Final, Protocol

from mhub.access.announce import LOCAL, announced
from mhub.access.directory import user_rows
from mhub.access.entries import (
    BAN,
    LOCKOUT,
    LOGIN,
    RULE,
    USER,
    EntryError,
    User,
    changed,
    note_of,
    user_name,
    write,
)
from mhub.access.results import (
    Changed,
    Deleted,
    UserDetail,
    UserPage,
    UsersImported,
    UserSummary,
)
from mhub.access.rows import RowError, user_subject
from mhub.access.table import MOST, Table, allow, checked, page_limit, version_of
from mhub.auth.hashes import HashError, check_form
from mhub.auth.passwords import Busy
from mhub.core.events import DONE
from mhub.core.registry import Entry
from mhub.operations.contract import BadArgument, NotThere, OperationError
from mhub.operations.slices import Slices

MAX_PASSWORD_BYTES: Final = 0xFFFF
"""The longest password that a CONNECT can carry."""

PORTION: Final = 100
"""Names that are looked at between two looks at the clock: some 0.1 ms."""

FIELDS: Final = ("roles", "tenant", "attributes", "limits", "note")


class Secrets(Protocol):
    """Makes of a password what is kept of it, off the reactor's thread."""

    def make(self, password: bytes) -> Awaitable[str]:
        """For CONNECT: an argon2id hash."""

    def verifier(self, password: str, address: str = "", iterations: int = 0) -> Awaitable[str]:
        """For AUTH: SCRAM-SHA-256; 0 iterations: as many as is usual.

        Raises ValueError for a password that SASLprep refuses.
        """


class Users:
    def __init__(self, table: Table, secrets: Secrets, slices: Callable[[], Slices]) -> None:
        self._table = table
        self._secrets = secrets
        self._slices = slices

    def page(self, match: str = "", role: str = "", after: str = "", limit: int = MOST) -> UserPage:
        """Those whose name fits a pattern with * and ?, and who were given the role."""
        registry = self._table.registry
        if role:
            names = [name for name in self._table.directory.users_with(role) if name > after]
        else:
            names = [key[len(USER) :] for key in registry.keys(USER, USER + after)]
        if match:
            names = [name for name in names if fnmatchcase(name, match)]
        page = []
        for name in names[: page_limit(limit)]:
            _, user, entry = self._user(name)
            page.append(_user_summary(name, user, entry))
        return UserPage(tuple(page), len(names) - len(page), registry.revision)

    async def search(
        self, match: str = "", role: str = "", after: str = "", limit: int = MOST
    ) -> UserPage:
        """The same, in slices; `left` of a search is 1 if there are more."""
        registry, slices = self._table.registry, self._slices()
        most = page_limit(limit)
        fits = re.compile(translate(match)).match if match else None
        found: list[str] = []
        key = USER + after
        while len(found) <= most and (keys := registry.keys(USER, key, PORTION)):
            key = keys[-1]
            for each in keys:
                name = each[len(USER) :]
                if (fits is None or fits(name)) and (
                    not role or self._table.directory.gives(each, role)
                ):
                    found.append(name)
            await slices.pause_if_due()
        page = []
        for name in found[:most]:
            entry = registry.get(USER + name)
            if entry is not None:  # it may be gone by now
                page.append(_user_summary(name, self._table.readable(User, entry), entry))
            await slices.pause_if_due()
        last = found[most - 1] if len(found) > most else ""
        left = 0
        if last:
            left = 1 if match or role else registry.count(USER, USER + last)
        return UserPage(tuple(page), left, registry.revision, last)

    def show(self, name: str) -> UserDetail:
        name, user, entry = self._user(name)
        subject = user_subject(name)
        return UserDetail(
            user=_user_summary(name, user, entry),
            all_roles=self._table.inherited([*user.roles, *self._table.given(subject)]),
            rules=self._table.rules_about(subject),
            bans=tuple(
                self._table.ban_summary(found)
                for found in (self._table.registry.get(f"{BAN}user/{name}"), *self._lockouts(name))
                if found is not None
            ),
            revision=self._table.registry.revision,
        )

    @announced("users.add", "name", "values")
    async def add(
        self,
        name: str,
        password: str = "",
        iterations: int = 0,
        values: Mapping[str, object] | None = None,
        by: str = "",
        reason: str = "",
    ) -> Changed:
        """A new user; without a password it can prove who it is in other ways only."""
        name = checked(user_name, name)
        key = USER + name
        self._table.refuse_existing(
            key, f'there is a user "{name}" already; see `mhub ctl user set` and `passwd`'
        )
        user = replace(
            self._new_user(key, name, User(), values),
            created_at=round(self._table.time_of_day(), 3),
        )
        if password:
            user = await self._with_password(user, password, iterations)
        # Made meanwhile by somebody else: then this one is refused.
        return await self._table.put(key, user, 0)

    async def seed(
        self,
        name: str,
        password: str,
        values: Mapping[str, object],
        version: int,
        by: str = "",
        reason: str = "",
    ) -> bool:
        """A user as something that is as old as `version`: whatever else is known of it, here or at
        another node, counts more.  False: there is, or was, such a user."""
        key = USER + name
        user = replace(
            self._new_user(key, name, User(), values),
            created_at=round(self._table.time_of_day(), 3),
        )
        if password:
            user = await self._with_password(user, password, 0)
        registry = self._table.registry
        if registry.get(key) is not None:
            return False
        registry.take([(key, version, write(user))])
        if registry.get(key) is None:
            return False
        self._table.events.admin(
            by or LOCAL, "users.add", f'name "{name}", values {" ".join(values)}', reason, DONE
        )
        return True

    @announced("users.import", "hashes")
    async def bring(
        self, hashes: Mapping[str, str], note: str = "", by: str = "", reason: str = ""
    ) -> UsersImported:
        """New users by name, with hashes that they had elsewhere: all of them, or none."""
        checked(note_of, note)
        values: dict[str, str | None] = {}
        there = []
        now = round(self._table.time_of_day(), 3)
        for name, text in hashes.items():
            if checked(user_name, name) != name:
                raise BadArgument(f'the user "{name}": here, it is written {user_name(name)!r}')
            key = USER + name
            if self._table.registry.get(key) is not None:
                there.append(name)
                continue
            try:
                check_form(text)
                user = changed(User(), key, {"password": text, "note": note, "created_at": now})
            except (HashError, EntryError) as error:
                raise BadArgument(f'the user "{name}": {error}') from None
            values[key] = write(user)
        if not values:
            return UsersImported(self._table.registry.revision, (), tuple(there))
        done = await self._table.change(values, dict.fromkeys(values, 0))
        added = tuple(key[len(USER) :] for key in values)
        return UsersImported(done.revision, added, tuple(there))

    @announced("users.update", "name", "values")
    async def update(
        self,
        name: str,
        values: Mapping[str, object],
        expected: str = "",
        by: str = "",
        reason: str = "",
    ) -> Changed:
        """Other roles, tenant, attributes, limits, note; what is not given stays."""
        name, user, entry = self._user(name)
        self._table.check_version(entry, expected)
        return await self._table.put(
            entry.key, self._new_user(entry.key, name, user, values), entry.hlc
        )

    @announced("users.passwd", "name")
    async def passwd(
        self,
        name: str,
        password: str,
        iterations: int = 0,
        expected: str = "",
        by: str = "",
        reason: str = "",
    ) -> Changed:
        name, user, entry = self._user(name)
        self._table.check_version(entry, expected)
        secrets = await self._with_password(User(), password, iterations)
        # Hashing took a while: what was changed meanwhile stays.
        name, user, entry = self._user(name)
        self._table.check_version(entry, expected)
        user = replace(
            user,
            password=secrets.password,
            scram=secrets.scram,
            password_at=round(self._table.time_of_day(), 3),
        )
        return await self._table.put(entry.key, user, entry.hlc)

    @announced("users.lock", "name", "locked")
    async def lock(
        self, name: str, locked: bool, expected: str = "", by: str = "", reason: str = ""
    ) -> Changed:
        """Lock a user out, or let it in again, whatever its password is.

        To let it in ends what it was locked out for after failed logins as well, also for a user
        whom only another authenticator knows.
        """
        if not locked and self._table.registry.get(USER + name) is None:
            ended = {lockout.key: lockout.hlc for lockout in self._lockouts(name)}
            if ended:
                return await self._table.change(dict.fromkeys(ended), ended)
        name, user, entry = self._user(name)
        self._table.check_version(entry, expected)
        values: dict[str, str | None] = {}
        if user.locked != locked:
            values[entry.key] = write(replace(user, locked=locked))
        if not locked:
            values.update((lockout.key, None) for lockout in self._lockouts(name))
        if not values:
            state = "is locked already" if locked else "is not locked"
            raise OperationError(f'the user "{name}" {state}')
        return await self._table.change(values, {entry.key: entry.hlc}, entry.key)

    @announced("users.delete", "name")
    async def delete(
        self, name: str, expected: str = "", by: str = "", reason: str = ""
    ) -> Deleted:
        """A user, and the rules about it: who gets the name later must not inherit them."""
        name, _, entry = self._user(name)
        self._table.check_version(entry, expected)
        rules = self._table.rules_about(user_subject(name))
        values: dict[str, str | None] = {entry.key: None}
        values.update((rule.place, None) for rule in rules if rule.place.startswith(RULE))
        rule_count = len(values) - 1
        values.update((lockout.key, None) for lockout in self._lockouts(name))
        done = await self._table.change(values, {entry.key: entry.hlc})
        return Deleted(done.revision, rule_count)

    def _lockouts(self, name: str) -> list[Entry]:
        """After failed logins: everywhere, and at single addresses."""
        registry = self._table.registry
        found = registry.get(f"{LOCKOUT}user/{name}")
        at = registry.items(f"{LOCKOUT}{LOGIN}/")
        return [
            *([found] if found is not None else []),
            *(entry for entry in at if entry.key.partition(" ")[2] == name),
        ]

    def _user(self, name: str) -> tuple[str, User, Entry]:
        entry = self._table.registry.get(USER + name)
        if entry is None:
            name = checked(user_name, name)
            entry = self._table.registry.get(USER + name)
        if entry is None:
            raise NotThere(f'there is no user "{name}"' + self._table.meant(name, USER))
        return name, self._table.readable(User, entry), entry

    def _new_user(
        self, key: str, name: str, user: User, values: Mapping[str, object] | None
    ) -> User:
        allow(key, values or {}, FIELDS)
        try:
            user = changed(user, key, values or {})
            self._table.check_roles(key, user.roles)
            self._table.check_links(user_rows(name, user, key), {key})
        except (EntryError, RowError) as error:
            raise BadArgument(str(error)) from None
        return user

    async def _with_password(self, user: User, password: str, iterations: int) -> User:
        if not password:
            raise BadArgument("the password is empty")
        if len(password.encode()) > MAX_PASSWORD_BYTES:
            raise BadArgument(
                f"the password is longer than {MAX_PASSWORD_BYTES} bytes, which no MQTT client can"
                " send"
            )
        try:
            scram = await self._secrets.verifier(password, iterations=iterations)
            text = await self._secrets.make(password.encode())
        except ValueError as error:
            raise BadArgument(f"the password: {error}") from None
        except Busy as error:
            raise OperationError(f"{error}; try again") from None
        return replace(user, password=text, scram=scram)


def _user_summary(name: str, user: User, entry: Entry) -> UserSummary:
    return UserSummary(
        name=name,
        roles=user.roles,
        tenant=user.tenant,
        attributes=user.attributes,
        locked=user.locked,
        limits=user.limits,
        note=user.note,
        created_at=user.created_at,
        has_password=bool(user.password),
        has_scram=bool(user.scram),
        version=version_of(entry),
    )
