"""The one interface to users, roles, rules, bans, lock-outs and tokens.

    mhub ctl user|role|policy|ban -> control socket -> Access -> registry -> store, all other nodes

Every change is checked as a whole before anything of it is done, is done as a whole or not at all,
and is answered when it is durable: in the store of this node and with all nodes that are linked.
`expected` is the version that the caller has seen; a change of anything else is refused, so that
nobody overwrites what he has not read.  Without it, a change of some fields leaves the others as
they are at that moment.

What is refused is an OperationError whose text names the entry.
"""

from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol

from mhub.access import admin
from mhub.access.bans import Bans
from mhub.access.diff import at_once
from mhub.access.directory import Directory
from mhub.access.dry_run import Trial, with_roles
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
from mhub.access.explain import Explanation, explaining
from mhub.access.index import Index
from mhub.access.proposals import candidates
from mhub.access.resources import WRITE, check_resource
from mhub.access.results import (
    DryRun,
    Explained,
    InForce,
    Proposal,
    Proposals,
    SubjectLimits,
)
from mhub.access.roles import Roles
from mhub.access.rows import ADMIN_ACTIONS, Row
from mhub.access.rules import Rules, rows_of
from mhub.access.scopes import FORBIDDEN, TOKEN, scopes_allow
from mhub.access.table import Table, checked
from mhub.access.tokens import Creator, Tokens
from mhub.access.users import Secrets, Users
from mhub.config.access import REGISTRY
from mhub.core.events import Events
from mhub.core.principal import Certificate, Identity, Principal
from mhub.core.registry import Registry
from mhub.core.session import Session
from mhub.operations.contract import (
    AccessStatus,
    BadArgument,
    LimitReached,
    NotThere,
    OperationError,
)
from mhub.operations.slices import Slices

MOST_TRIALS: Final = 2
"""Dry runs at a time: each has a copy of all rules."""


PORTION: Final = 100
"""Users between two looks at the clock."""

NO_LIMITS: Final = '"limits":{}'
"""In the entry of a user who has none: it need not be read."""


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

    def sessions(self) -> dict[str, Session]:
        """Those of this broker, by client id."""


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
        pause: Callable[[], Awaitable[object]],
    ) -> None:
        """`clock` is the hub's; settle() ends a turn that no socket began; pause() as of Slices."""
        self._rights = rights
        self._table = Table(registry, rights.directory, clock, time_of_day, settle, events)
        self._slices: Callable[[], Slices] = lambda: Slices(clock, pause)
        self.users = Users(self._table, secrets, self._slices)
        self.roles = Roles(self._table)
        self._trials = 0  # that are under way
        self.rules = Rules(self._table, self._slices)
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

    async def limited_users(self, most: int) -> tuple[list[SubjectLimits], int]:
        """Users with limits of their own, the first ones, and how many more there are."""
        registry, slices = self._table.registry, self._slices()
        found: list[SubjectLimits] = []
        more = 0
        key = USER
        while keys := registry.keys(USER, key, PORTION):
            key = keys[-1]
            for each in keys:
                entry = registry.get(each)
                if entry is None or NO_LIMITS in entry.value:
                    continue
                limits = self._table.readable(User, entry).limits
                if limits and len(found) < most:
                    found.append(SubjectLimits(each[len(USER) :], limits))
                elif limits:
                    more += 1
            await slices.pause_if_due()
        return found, more

    def limited_roles(self) -> list[SubjectLimits]:
        roles = self._rights.directory.roles
        return [
            SubjectLimits(name, roles[name].limits) for name in sorted(roles) if roles[name].limits
        ]

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
        principal = self._who(user, client, anonymous)
        principal = _supposed(principal, roles, tenant, attributes or {}, common_name)
        return at_once(self._explaining(principal, action, topic, qos, retain))

    async def explain_in_slices(
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
        """The same, while the broker goes on: with 5,000 rules it takes 50 ms."""
        principal = self._who(user, client, anonymous)
        principal = _supposed(principal, roles, tenant, attributes or {}, common_name)
        steps = self._explaining(principal, action, topic, qos, retain)
        return await self._slices().through(steps)

    def _explaining(
        self, principal: Principal, action: str, topic: str, qos: int, retain: bool
    ) -> Generator[None, None, Explained]:
        is_admin = action in ADMIN_ACTIONS
        index = self._rights.rules if is_admin else self._rights.index
        if index is None:
            raise OperationError(
                "access control is off, all clients may do everything: [access] in the"
                " configuration turns it on"
            )
        if is_admin:
            checked(check_resource, topic)
        try:
            found = yield from explaining(index, principal, action, topic, qos, retain)
        except ValueError as error:
            raise BadArgument(str(error)) from None
        if principal.method == TOKEN and is_admin and found.allowed:
            token = self.tokens.of_user(principal.user)
            found = _within_scopes(found, token.scopes if token is not None else ())
        return Explained(found, tuple(self._notes(principal)))

    def _who(self, user: str, client: str, anonymous: bool) -> Principal:
        token = self.tokens.of_user(user)
        if token is not None:
            principal = token.principal()
            principal.client_id = client
            return principal
        if user:
            return self._as_user(checked(user_name, user), client)
        if anonymous:
            principal = Principal("", "")
            principal.client_id = client
            return principal
        if client:
            return self._rights.principal(client)
        raise BadArgument("expected a user, a client, or anonymous")

    # Changes that are only tried

    async def rules_dry_run(
        self,
        add: Sequence[Sequence[str]] = (),
        remove: Sequence[str] = (),
        replace_all: bool = False,
        csv: str = "",
    ) -> DryRun:
        """What a change of rules would do, and to whom; `csv`: rows to add, as a file has them."""
        rows = [*rows_of(add), *(await self.rules.parse(csv))]
        with self._trial():
            return (await self._try(rows, remove, replace_all))[0]

    async def propose(
        self,
        action: str,
        topic: str = "",
        user: str = "",
        client: str = "",
        anonymous: bool = False,
        qos: int = 0,
        retain: bool = False,
    ) -> Proposals:
        """Changes of rules that would allow what a client was denied, each with its dry run."""
        principal = self._who(user, client, anonymous)
        slices = self._slices()
        steps = self._explaining(principal, action, topic, qos, retain)
        found = (await slices.through(steps)).explanation
        if found.allowed:
            return Proposals(True, found.reason, ())
        subjects = self._rights.rules.reach(principal).subjects
        proposals = []
        with self._trial():
            for each in candidates(principal, subjects, found):
                try:
                    ran, after = await self._try(rows_of([list(r) for r in each.add]), each.remove)
                except (NotThere, BadArgument):
                    continue  # a rule of a file, or a name that no rule can have
                who = with_roles(principal, self._rights.directory)
                try:
                    tried = explaining(after, who, action, topic, qos, retain)
                    allows = (await slices.through(tried)).allowed
                except ValueError:
                    allows = False
                proposals.append(Proposal(each.summary, each.add, each.remove, allows, ran))
        return Proposals(False, found.reason, tuple(proposals))

    async def _try(
        self, rows: Sequence[Row], remove: Sequence[str], replace_all: bool = False
    ) -> tuple[DryRun, Index]:
        rights = self._rights
        planning = self.rules.planning(rows, remove, replace_all)
        plan = await self._slices().through(planning)
        notes = []
        sessions: dict[str, Session] = {}
        if rights.index is None:
            notes.append("access control is off: rules decide about the admin side alone")
        elif rights.policy != REGISTRY:
            notes.append(f"not in force: the rules are those of {rights.policy}")
        else:
            sessions = rights.sessions()
        strict = rights.rules.strict
        trial = Trial(self._table.registry, rights.directory, plan, self._slices(), strict)
        return await trial.run(sessions, notes), trial.after

    @contextmanager
    def _trial(self) -> Iterator[None]:
        if self._trials >= MOST_TRIALS:
            raise LimitReached("other dry runs are under way: try again in a moment")
        self._trials += 1
        try:
            yield
        finally:
            self._trials -= 1

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


def _within_scopes(found: Explanation, scopes: Sequence[str]) -> Explanation:
    """What the rules allow a token, and what it may besides."""
    verb = found.action.removeprefix("admin:")
    if (verb, found.topic) in FORBIDDEN:
        reason = f"no token may {verb} {found.topic}, whatever the rules are"
    elif not scopes_allow(scopes, verb, found.topic):
        reason = f"rules allow it, but the scopes of the token do not: {', '.join(scopes)}"
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
