"""The one interface to users, roles, rules, bans, lock-outs and tokens.

    mhub ctl user|role|policy|ban -> control socket -> Access -> registry -> store, all other nodes

Every change is checked as a whole before anything of it is done, is done as a whole or not at all,
and is answered when it is durable: in the store of this node and with all nodes that are linked.
`expected` is the version that the caller has seen; a change of anything else is refused, so that
nobody overwrites what he has not read.  Without it, a change of some fields leaves the others as
they are at that moment.

What is refused is an OperationError whose text names the entry.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from mhub.access import admin
from mhub.access.bans import Bans
from mhub.access.directory import Directory
from mhub.access.entries import (
    BAN,
    LOCKOUT,
    LOGIN,
    USER,
    User,
    role_name,
    split_key,
    user_name,
)
from mhub.access.explain import Explanation, explain
from mhub.access.index import Index
from mhub.access.resources import WRITE, check_resource
from mhub.access.results import Explained, InForce
from mhub.access.roles import Roles
from mhub.access.rows import ADMIN_ACTIONS
from mhub.access.rules import Rules
from mhub.access.scopes import FORBIDDEN, TOKEN, scopes_allow
from mhub.access.table import Table, checked
from mhub.access.tokens import ApiToken, Creator, Tokens
from mhub.access.users import Secrets, Users
from mhub.core.events import Events
from mhub.core.principal import Certificate, Identity, Principal
from mhub.core.registry import Registry
from mhub.operations.contract import AccessStatus, BadArgument, OperationError


class Rights(Protocol):
    """What is in force: `mhub.access.service`, or a store's contents while no broker runs."""

    directory: Directory
    index: Index | None  # None: access control is off
    rules: Index  # that one; also where it is off, to decide about the admin side
    plugins: tuple[str, ...]  # names of admin plugins that there are
    policy: str  # where the rules are
    problem: str  # why they are not what is written there

    def principal(self, client_id: str) -> Principal:
        """Who a client of this broker is, connected or not.  Raises NotThere."""


class Access:
    def __init__(
        self,
        registry: Registry,
        rights: Rights,
        secrets: Secrets,
        clock: Callable[[], float],
        time_of_day: Callable[[], float],
        settle: Callable[[], None],
        events: Events,
    ) -> None:
        """`clock` is the hub's; settle() ends a turn that no socket began."""
        self._rights = rights
        self._table = Table(registry, rights.directory, clock, time_of_day, settle, events)
        self.users = Users(self._table, secrets)
        self.roles = Roles(self._table)
        self.rules = Rules(self._table)
        self.bans = Bans(self._table)
        self.tokens = Tokens(self._table, self._creator)

    def _creator(self, principal: Principal) -> Creator:
        subjects = list(self._rights.rules.reach(principal).subjects)
        return Creator(principal, self.may_admin(principal, WRITE, "users"), subjects)

    def in_force(self) -> InForce:
        """Where the rules are that decide."""
        return InForce(self._rights.policy if self._rights.index is not None else "")

    def status(self) -> AccessStatus | None:
        """What is in force; None: nothing is."""
        index = self._rights.index
        if index is None:
            return None
        rights = self._rights
        return AccessStatus(rights.policy, len(index.rows), index.revision, rights.problem)

    def may_admin(self, principal: Principal, verb: str, resource: str) -> bool:
        """Whether somebody may "read" or "write" a resource (`mhub.access.resources`)."""
        return admin.may_admin(self._rights.rules, principal, verb, resource)

    def permissions(self, principal: Principal) -> dict[str, list[str]]:
        """The resources that somebody may read, and write."""
        return admin.permissions(self._rights.rules, principal, self._rights.plugins)

    def explain(
        self,
        action: str,
        topic: str = "",
        user: str = "",
        client: str = "",
        anonymous: bool = False,
        qos: int = 0,
        retain: bool = False,
        roles: Sequence[str] = (),
        tenant: str = "",
        attributes: Mapping[str, str] | None = None,
        common_name: str = "",
    ) -> Explained:
        """The decision about a client, with what it rests on.

        `client` alone is one of this broker's; with a user, or `anonymous`, it is just a client id.
        Roles, tenant, attributes and the common name of a certificate are added to what it has.
        `admin:read` and `admin:write` are decided also where access control is off.
        """
        is_admin = action in ADMIN_ACTIONS
        index = self._rights.rules if is_admin else self._rights.index
        if index is None:
            raise OperationError(
                "access control is off, all clients may do everything: [access] in the"
                " configuration turns it on"
            )
        token = self.tokens.of_user(user)
        if token is not None:
            principal = token.principal()
            principal.client_id = client
        elif user:
            principal = self._as_user(checked(user_name, user), client)
        elif anonymous:
            principal = Principal("", "")
            principal.client_id = client
        elif client:
            principal = self._rights.principal(client)
        else:
            raise BadArgument("expected a user, a client, or anonymous")
        if is_admin:
            checked(check_resource, topic)
        principal = _supposed(principal, roles, tenant, attributes or {}, common_name)
        try:
            found = explain(index, principal, action, topic, qos, retain)
        except ValueError as error:
            raise BadArgument(str(error)) from None
        if token is not None and is_admin and found.allowed:
            found = _within_scopes(found, token)
        return Explained(found, tuple(self._notes(principal)))

    def _as_user(self, name: str, client_id: str) -> Principal:
        principal = Principal("", "")
        principal.user = name
        principal.client_id = client_id
        entry = self._table.registry.get(USER + name)
        if entry is not None:
            known = self._table.readable(User, entry)
            principal.tenant = known.tenant
            principal.attributes = dict(known.attributes)
        return principal

    def _notes(self, principal: Principal) -> Iterator[str]:
        """What keeps a client out, whatever the rules are."""
        name = principal.user
        entry = self._table.registry.get(USER + name) if name else None
        if principal.method == TOKEN:
            if principal.expires_at and principal.expires_at <= self._table.time_of_day():
                yield f'the token "{name}" has expired'
        elif name and entry is None:
            yield f'the user "{name}" is not in the registry' + self._table.meant(name, USER)
        elif entry is not None and self._table.readable(User, entry).locked:
            yield f'the user "{name}" is locked'
        for kind, value in (("user", name), ("client", principal.client_id)):
            for prefix in (BAN, LOCKOUT):
                found = self._table.registry.get(f"{prefix}{kind}/{value}")
                if value and found is not None:
                    ban = self._table.ban_summary(found)
                    if not ban.until or ban.until > self._table.time_of_day():
                        word = "banned" if prefix == BAN else "locked out"
                        reason = f": {ban.reason}" if ban.reason else ""
                        yield f'the {kind} "{value}" is {word}{reason}'
        if name:
            yield from self._locked_out_at(name)

    def _locked_out_at(self, name: str) -> Iterator[str]:
        for entry in self._table.registry.items(f"{LOCKOUT}{LOGIN}/"):
            host, _, who = split_key(entry.key)[1].partition(" ")
            ban = self._table.ban_summary(entry)
            if who == name and ban.until > self._table.time_of_day():
                yield f'the user "{name}" is locked out at {host}: {ban.reason}'


def _within_scopes(found: Explanation, token: ApiToken) -> Explanation:
    """What the rules allow a token, and what it may besides."""
    verb = found.action.removeprefix("admin:")
    if (verb, found.topic) in FORBIDDEN:
        reason = f"no token may {verb} {found.topic}, whatever the rules are"
    elif not scopes_allow(token.scopes, verb, found.topic):
        reason = f"rules allow it, but the scopes of the token do not: {', '.join(token.scopes)}"
    else:
        return found
    return replace(found, allowed=False, reason=reason)


def _supposed(
    principal: Principal,
    roles: Sequence[str],
    tenant: str,
    attributes: Mapping[str, str],
    common_name: str,
) -> Principal:
    """A principal as it would be with some more; itself stays as it is."""
    if not all(isinstance(each, str) for each in (*roles, *attributes.values())):
        raise BadArgument("roles and attributes: expected texts")
    identity = Identity(principal.user, principal.method)
    identity.roles = (*principal.roles, *(checked(role_name, role) for role in roles))
    identity.tenant = tenant or principal.tenant
    identity.attributes = {**principal.attributes, **attributes}
    identity.grants = principal.grants
    identity.expires_at = principal.expires_at
    found = principal.identified(identity)
    if common_name:
        found.certificate = Certificate(common_name)
    return found
