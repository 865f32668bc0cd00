"""Access control of a running broker: the index that decides, kept up to date.

    registry -> Directory -> AccessService -> Index (hub.authorizer), hub.rights_changed()
    policy file, when it changes -^                                  hub.disconnect_user()

The index is given to the hub with the whole policy, before the first client comes: what a review of
a session withdraws does not come back.  From then on a change of a row costs what that row is.

There is an index with all rows also where access control is off: then it decides nothing about
MQTT, but who may administer the broker (`may_admin`).

With the rules in the registry an empty one gets the default policy, once: a mark in the registry
says so, so that who removes it does not get it again (`mhub.access.seeding`).  With the rules in a
file those of the registry are not in force; users and roles are.  A file with a mistake leaves
everything as it was.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from mhub.access import admin
from mhub.access.directory import Delta, Directory
from mhub.access.entries import USER, EntryError, User, read
from mhub.access.index import Index
from mhub.access.policy import Policy, PolicyError, read_csv, resource_warnings, role_errors
from mhub.access.quota import Quotas, Value
from mhub.access.rows import Row, RowError, role_subject
from mhub.access.seeding import seed
from mhub.auth.scram import METHOD as SCRAM
from mhub.config.access import REGISTRY, AccessSettings
from mhub.config.auth import SourceSettings
from mhub.core.hub import Hub
from mhub.core.principal import Identity, Principal
from mhub.core.quota import Quota
from mhub.core.registry import Registry
from mhub.core.session import Session
from mhub.log import logger
from mhub.operations.clients import session_of
from mhub.wire import reasons

LOOK_S: Final = 1.0
"""How often the file is looked at."""

LOCAL: Final = ("password", SCRAM)
"""What proves a user whose password the broker knows, in the words of Principal.method."""

NO_PASSWORDS: Final = ("registry", "certificate", "jwt", "anonymous")
"""Authenticators that have no passwords, or those of the registry."""

Mark = tuple[int, int, int]


class AccessService:
    """Always there: users that are deleted or locked are disconnected also without rules."""

    def __init__(
        self,
        settings: AccessSettings | None,
        hub: Hub,
        reactor: Any,
        settle: Callable[[], None],
        only_registry: bool,
    ) -> None:
        """Reads the file, if the policy is in one.  Raises PolicyError.

        `only_registry`: a user with a password that is not in the registry was deleted.
        """
        self._log = logger("access")
        self._hub = hub
        self._reactor = reactor
        self._settle = settle
        self._only_registry = only_registry
        self._wanted = settings if settings is not None and settings.enabled else None
        # Also where it is not in force for clients: it says who may administer the broker.
        self._file = PolicyFile(REGISTRY if settings is None else settings.policy)
        self._file.load()
        self.directory = Directory(hub.registry, self._report)
        self.directory.extra = list(self._file.rows.values())
        # Of the rows in force; those of the file are beside it.
        self._rows = self.directory
        if self._file.path:
            self._rows = Directory(hub.registry, lambda text: None, with_rules=False)
        self.index: Index | None = None
        self.rules = Index()  # that one; also where access control is off
        self.plugins: tuple[str, ...] = ()  # names of admin plugins that there are
        self._quotas = Quotas()
        self._role_limits: dict[str, Mapping[str, Value]] = {}  # by subject
        self.policy = self._wanted.policy if self._wanted is not None else ""
        self.problem = ""  # why the file is not in force as it is now
        self._look: Any = None

    def start(self) -> None:
        """The registry is complete: from now on, rules decide."""
        hub = self._hub
        wanted = self._wanted
        if not self._file.path:
            seed(hub.registry, hub.now)
        index = self.rules
        rows = [row for row in self._rows.rows() if row.id not in self._file.rows]
        index.apply([*rows, *self._file.rows.values()], [])
        self._rows.followers.append(self._on_change)
        hub.registry.watchers.append(self._name_revision)
        self._name_revision()
        self._read_role_limits()
        hub.quota_of = self._quota_of
        if wanted is not None:
            index.strict = wanted.subscribe == "strict"
            self.index = index
            self._warn_of_roles()
            self._warn_of_resources(index.rows.values())
            self._log.info(
                "access control: {count} rows from {place}, revision {revision}",
                count=len(index.rows),
                place=wanted.policy,
                revision=index.revision,
            )
            hub.authorize_with(index)
        hub.is_deleted = self._is_deleted
        for session in list(hub.sessions.values()):
            hub.end_if_deleted(session)  # while this node was away
        if self._file.path:
            self._look = self._reactor.callLater(LOOK_S, self._look_at_file)

    # The admin side

    def may_admin(self, principal: Principal, verb: str, resource: str) -> bool:
        """Whether somebody may "read" or "write" a resource."""
        return admin.may_admin(self.rules, principal, verb, resource)

    def permissions(self, principal: Principal) -> dict[str, list[str]]:
        """The resources that somebody may read, and write."""
        return admin.permissions(self.rules, principal, self.plugins)

    def resources(self) -> list[str]:
        """All that there are, with those of plugins."""
        return admin.resources(self.plugins)

    def has_administrators(self) -> bool:
        return admin.has_administrators(self.rules)

    def principal(self, client_id: str) -> Principal:
        """Who a client is, connected or not.  Raises NotThere."""
        return session_of(self._hub, client_id).principal

    def sessions(self) -> dict[str, Session]:
        return self._hub.sessions

    def stop(self) -> None:
        if self._look is not None and self._look.active():
            self._look.cancel()

    # Other settings

    def prepare(self, settings: AccessSettings | None, only_registry: bool) -> Callable[[], None]:
        """Read the file of new settings; what puts them in force.  Raises PolicyError."""
        wanted = settings if settings is not None and settings.enabled else None
        file = PolicyFile(REGISTRY if settings is None else settings.policy)
        file.load(self._rows.links())
        return lambda: self._take_settings(wanted, file, only_registry)

    def _take_settings(
        self, wanted: AccessSettings | None, file: "PolicyFile", only_registry: bool
    ) -> None:
        self._only_registry = only_registry
        before, self._wanted = self._wanted, wanted
        if wanted == before and file.path == self._file.path:
            self._take_file(file)
        else:
            self._take_policy(wanted, file)

    def _take_policy(self, wanted: AccessSettings | None, file: "PolicyFile") -> None:
        """Rules from elsewhere, or read in another way, or none.

        The index stays the same object, as others may have it; what it decides is other in the
        moment in which the rights of all sessions are to be asked for anew.
        """
        hub = self._hub
        if not file.path:
            seed(hub.registry, hub.now)
        self._rows.followers.remove(self._on_change)
        if self._rows is not self.directory:
            self._rows.close()
        self._file = file
        self.directory.extra = list(file.rows.values())
        self._rows = self.directory
        if file.path:
            self._rows = Directory(hub.registry, lambda text: None, with_rules=False)
        self._rows.followers.append(self._on_change)
        index = self.rules
        rows = {row.id: row for row in self._rows.rows()} | file.rows
        index.apply(
            [row for row_id, row in rows.items() if row_id not in index.rows],
            [row_id for row_id in index.rows if row_id not in rows],
        )
        index.strict = wanted is None or wanted.subscribe == "strict"
        self.index = None if wanted is None else index
        self.policy = "" if wanted is None else wanted.policy
        self.problem = ""
        self._name_revision()
        self._read_role_limits()
        self._warn_of_roles()
        self._warn_of_resources(index.rows.values())
        if wanted is None:
            self._log.warn("access control is off: all clients may do all")
        else:
            self._log.info(
                "access control: {count} rows from {place}, revision {revision}",
                count=len(index.rows),
                place=wanted.policy,
                revision=index.revision,
            )
        hub.authorize_with(self.index)
        hub.quotas_changed(None)
        if self._file.path and self._look is None:
            self._look = self._reactor.callLater(LOOK_S, self._look_at_file)
        self._settle()

    # The registry

    def _on_change(self, delta: Delta) -> None:
        file = self._file.rows
        self.rules.apply(
            [row for row in delta.added if row.id not in file],
            [row_id for row_id in delta.removed if row_id not in file],
        )
        self._name_revision()
        had_limits = bool(self._role_limits)
        if any(row.kind == "g" for row in delta.added):
            self._warn_of_roles()
        self._warn_of_resources(delta.added)
        if delta.everybody:
            self._read_role_limits()
        # First of all: a will of somebody who is disconnected must not go by routes of before.
        if delta.everybody or delta.users:
            self._hub.rights_changed(None if delta.everybody else delta.users)
        for name in delta.users:
            self._user_changed(name)
        if delta.everybody and (had_limits or self._role_limits):
            self._hub.quotas_changed(None)
        elif delta.users:
            self._hub.quotas_changed(delta.users)

    def _user_changed(self, name: str) -> None:
        hub = self._hub
        entry = hub.registry.get(USER + name)
        try:
            user = read(User, USER + name, entry.value) if entry is not None else None
        except EntryError:
            user = None
        if user is None:
            hub.disconnect_where(
                lambda principal: principal.user == name and self._is_own(principal),
                reasons.ADMINISTRATIVE_ACTION,
                "the user was deleted",
                True,
            )
        elif user.locked:
            hub.disconnect_user(name, reasons.ADMINISTRATIVE_ACTION, "the user is locked")
        else:
            found = user
            hub.update_principals(name, lambda principal: self._updated(principal, found))

    def _updated(self, principal: Principal, user: User) -> Principal:
        attributes = dict(user.attributes)
        if not self._is_own(principal) or (
            principal.tenant == user.tenant and principal.attributes == attributes
        ):
            return principal
        identity = Identity(principal.user, principal.method)
        identity.roles = principal.roles
        identity.tenant = user.tenant
        identity.attributes = attributes
        identity.grants = principal.grants
        identity.expires_at = principal.expires_at
        return principal.identified(identity)

    def _is_own(self, principal: Principal) -> bool:
        """Whether its tenant and attributes are those of the registry, if that has the user."""
        return principal.method in LOCAL

    def _is_deleted(self, principal: Principal) -> bool:
        return (
            self._only_registry
            and self._is_own(principal)
            and self._hub.registry.get(USER + principal.user) is None
        )

    def _warn_of_roles(self) -> None:
        """Two changes that are right by themselves, made on two nodes, may not be so together."""
        if self.index is None:
            return
        for error in role_errors(self._rows.links()):
            self._log.warn("{error}", error=error)

    def _warn_of_resources(self, rows: Iterable[Row]) -> None:
        for warning in resource_warnings(rows):
            self._log.warn("{warning}", warning=warning)

    def _name_revision(self, keys: Sequence[str] = ()) -> None:
        self.rules.revision = revision_of(self._hub.registry, self._file)

    def _report(self, text: str) -> None:
        self._log.error("an entry of the registry is ignored: {text}", text=text)

    # Limits

    def _read_role_limits(self) -> None:
        self._role_limits = {
            role_subject(name): role.limits
            for name, role in self.directory.roles.items()
            if role.limits
        }

    def _quota_of(self, principal: Principal) -> Quota | None:
        """What the user of a client has instead of the listener's limits."""
        name = principal.user
        entry = self._hub.registry.get(USER + name) if name else None
        own: Mapping[str, Value] = {}
        if entry is not None:
            try:
                own = read(User, entry.key, entry.value).limits
            except EntryError:
                pass  # which was reported when it came
        limits = self._role_limits
        if not own and not limits:
            return None
        subjects = self.rules.reach(principal).subjects if limits else {}
        return self._quotas.of(own, [limits[each] for each in subjects if each in limits])

    # The file

    def _look_at_file(self) -> None:
        self._look = None
        if not self._file.path:
            return
        self._look = self._reactor.callLater(LOOK_S, self._look_at_file)
        if self._file.has_changed():
            self._reload_file()

    def _reload_file(self) -> None:
        file = PolicyFile(self._file.path)
        try:
            file.load(self._rows.links())
        except PolicyError as error:
            self._file.mark_read(file)
            self.problem = str(error)
            self._log.error(
                "the policy stays as it was, as its file has a mistake: {error}", error=error
            )
            return
        self._take_file(file)

    def _take_file(self, file: "PolicyFile") -> None:
        """The same file, read again."""
        self.problem = ""
        index = self.rules
        if not file.path:
            return
        before, after = self._file.rows, file.rows
        self._file = file
        known = {row.id for row in self._rows.rows()}
        added = [row for row_id, row in after.items() if row_id not in known]
        gone = [row_id for row_id in before if row_id not in after and row_id not in known]
        index.apply(added, gone)
        self.directory.extra = list(after.values())
        self._name_revision()
        self._warn_of_resources(added)
        self._log.info(
            "{file} read again: {count} rows, revision {revision}",
            file=self._file.path,
            count=len(after),
            revision=index.revision,
        )
        if self._role_limits:
            self._hub.quotas_changed(None)
        self._hub.rights_changed(None)
        self._settle()


def only_registry(sources: Iterable[SourceSettings]) -> bool:
    """Whether all users with passwords are those of the registry."""
    return all(source.type in NO_PASSWORDS for source in sources)


class PolicyFile:
    """Rows of a CSV file as they were when it was right; without a path there are none."""

    def __init__(self, path: str) -> None:
        self.path = "" if path == REGISTRY else path
        self.rows: dict[str, Row] = {}
        self.digest = ""
        self._mark: Mark = (0, 0, 0)

    def mark_read(self, other: "PolicyFile") -> None:
        """Its file has a mistake: it is not read again before it changes."""
        self._mark = other._mark

    def has_changed(self) -> bool:
        return self._stat() != self._mark

    def load(self, links: list[Row] | None = None) -> None:
        """Read it; `links` are roles that are given elsewhere.  Raises PolicyError.

        After a failure all is as it was.
        """
        if not self.path:
            return
        # Taken first: a change while reading is then seen at the next look.
        self._mark = self._stat()
        try:
            text = Path(self.path).read_bytes().decode("utf-8")
        except OSError as error:
            raise PolicyError([RowError(self.path, f"cannot be read: {error.strerror}")]) from None
        except UnicodeDecodeError as error:
            raise PolicyError(
                [RowError(self.path, f"is not UTF-8: see byte {error.start}")]
            ) from None
        rows = read_csv(text, self.path)
        Policy([*(links or ()), *rows])
        self.rows = {row.id: row for row in rows}
        self.digest = digest_of(self.rows)

    def _stat(self) -> Mark:
        try:
            found = os.stat(self.path)
        except OSError:
            return (0, 0, 0)
        return (found.st_mtime_ns, found.st_ino, found.st_size)


def revision_of(registry: Registry, file: PolicyFile) -> str:
    """What is in force; a policy that is in a file has a part of its own."""
    return f"{registry.revision}+{file.digest}" if file.path else registry.revision


def digest_of(row_ids: Iterable[str]) -> str:
    """The same for the same rows, in whatever order they stand."""
    return sha256("".join(sorted(row_ids)).encode()).hexdigest()[:8]
