"""What a change of rules would do, and to whom, while the broker goes on.

    people     whom rules tell apart (`mhub.access.population`): anonymous clients, users without
               roles, each role, each set of roles that users of the registry have, and each user
               that a rule names; for each of them exactly what is gained and lost
               (`mhub.access.diff`), with a topic as an example
    clients    those with a session at this node whose subscriptions would be withdrawn

The rows are copied first, so that a change meanwhile makes no difference; users are not among them:
their roles are given to whom is asked about.  There may be 100,000 of them, and just their sets of
roles count.  All of it is done in slices, and shown up to a bound.
"""

from collections.abc import AsyncGenerator, Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from mhub.access.diff import Comparison, Flip
from mhub.access.directory import Directory, name_in
from mhub.access.entries import ROLE, RULE, USER
from mhub.access.index import Index
from mhub.access.policy import resource_warnings
from mhub.access.population import GENERAL_USER, Maker
from mhub.access.results import ClientLoses, DryRun, PeopleChange, RightChange
from mhub.access.rows import ALL_TENANTS, BUILT_IN, Row, quote, user_subject
from mhub.access.rules import Plan
from mhub.core.principal import Principal
from mhub.core.registry import Registry
from mhub.core.session import Session
from mhub.operations.slices import Slices

MOST_ROWS: Final = 100
MOST_PEOPLE: Final = 50
MOST_RIGHTS: Final = 20
"""Of one group, of those that are gained and lost together."""

MOST_EXCEPTIONS: Final = 10
MOST_CLIENTS: Final = 50
MOST_FILTERS: Final = 10
MOST_NAMES: Final = 5
"""Groups that are named where the same happens to several."""

PORTION: Final = 20
"""Rows, users or sessions between two looks at the clock: some 0.1 ms."""


@dataclass
class People:
    """Clients that rules do not tell apart."""

    who: str
    principal: Principal
    users: int = 0  # of the registry


@dataclass
class Affected:
    flips: list[Flip]
    more: int
    who: list[str] = field(default_factory=list)
    users: int = 0


class Trial:
    """One dry run."""

    def __init__(
        self,
        registry: Registry,
        directory: Directory,
        plan: Plan,
        slices: Slices,
        strict: bool = True,
    ) -> None:
        self._strict = strict
        self._registry = registry
        self._directory = directory
        self._plan = plan
        self._slices = slices
        self._rows: dict[str, Row] = {}  # of both policies
        self._comparison = Comparison(Index(), Index(), ())

    @property
    def after(self) -> Index:
        """The policy after the change, without the roles of users; once it has run."""
        return self._comparison.new

    async def run(self, sessions: dict[str, Session], notes: Iterable[str] = ()) -> DryRun:
        plan = self._plan
        revision = self._registry.revision
        await self._compile()
        people, more_people = await self._people_changes()
        clients, more_clients = await self._clients(sessions)
        warnings = [str(each) for each in resource_warnings(plan.added.values())]
        return DryRun(
            revision=revision,
            added=tuple(row.text() for row in islice(plan.added.values(), MOST_ROWS)),
            more_added=max(0, len(plan.added) - MOST_ROWS),
            removed=tuple(", ".join(rule.row) for rule in plan.removed[:MOST_ROWS]),
            more_removed=max(0, len(plan.removed) - MOST_ROWS),
            unchanged=plan.unchanged,
            people=people,
            more_people=more_people,
            clients=clients,
            more_clients=more_clients,
            notes=(*notes, *warnings[:MOST_ROWS]),
        )

    # Both policies

    async def _compile(self) -> None:
        before: dict[str, Row] = {}
        after: dict[str, Row] = {}
        values = self._plan.values
        for prefix in (RULE, ROLE):
            for key in self._registry.keys(prefix):
                for row in self._directory.rows_of(key):
                    before[row.id] = row
                    if key not in values:
                        after[row.id] = row
                await self._pause(len(before))
        for row in self._plan.added.values():
            after[row.id] = row
        self._rows = {**before, **after}
        old, new = await self._index(before), await self._index(after)
        self._comparison = Comparison(old, new, before.keys() ^ after.keys())

    async def _index(self, rows: dict[str, Row]) -> Index:
        index = Index()
        index.strict = self._strict
        left = iter(rows.values())
        while portion := list(islice(left, PORTION)):
            index.apply(portion, [])
            await self._slices.pause_if_due()
        return index

    async def _pause(self, number: int) -> None:
        if number % PORTION == 0:
            await self._slices.pause_if_due()

    # People

    async def _people_changes(self) -> tuple[tuple[PeopleChange, ...], int]:
        found: dict[tuple[object, ...], Affected] = {}
        for people in await self._people():
            steps = self._comparison.steps(people.principal, MOST_RIGHTS)
            flips, more = await self._slices.through(steps)
            if not flips:
                continue
            same = tuple(
                (flip.action, flip.condition, flip.allowed, flip.topics, flip.exceptions)
                for flip in flips
            )
            known = found.setdefault(same, Affected(flips, more))
            known.who.append(people.who)
            known.users += people.users
        shown = [_change(each) for each in islice(found.values(), MOST_PEOPLE)]
        return tuple(shown), max(0, len(found) - MOST_PEOPLE)

    async def _people(self) -> list[People]:
        changed = self._comparison.changed
        make = Maker()
        found_tenants: set[str] = set()
        subjects: set[str] = set()
        for number, row in enumerate(self._rows.values()):
            await self._pause(number)
            make.know(row)
            subjects.update((row.subject, row.role))
            if row.id in changed:
                found_tenants.add(row.tenant)
        tenants = sorted(found_tenants - {ALL_TENANTS})
        named = {each for each in subjects if each.startswith("user:")}
        roles = sorted(each for each in subjects if each.startswith("role:"))
        roles = [each for each in roles if each not in BUILT_IN]
        found: dict[tuple[tuple[str, ...], str], People] = {}
        single: list[People] = []
        for tenant in ["", *tenants]:
            where = f" in tenant {tenant}" if tenant else ""
            single.append(People(f"anonymous clients{where}", make("", (), tenant)))
            for given in [(), *((role,) for role in roles)]:
                name = given[0] if given else "users without roles"
                found[given, tenant] = People(f"{name}{where}", make(GENERAL_USER, given, tenant))
        async for key in self._users():
            name = key[len(USER) :]
            links = self._directory.rows_of(key)
            tenant = next((row.tenant for row in links if row.tenant != ALL_TENANTS), "")
            given = tuple(sorted({row.role for row in links}))
            subject = user_subject(name)
            if subject in named:
                named.discard(subject)
                single.append(People(subject, make(name, given, tenant), 1))
                continue
            known = found.get((given, tenant))
            if known is None:
                text = " with ".join(given) or "users without roles"
                where = f" in tenant {tenant}" if tenant else ""
                known = People(f"{text}{where}", make(GENERAL_USER, given, tenant))
                found[given, tenant] = known
            known.users += 1
        for other in sorted(named):
            single.append(People(other, make(name_in(other), (), "")))
        return [*found.values(), *single]

    async def _users(self) -> AsyncGenerator[str, None]:
        """The keys of all users."""
        after = ""
        while keys := self._registry.keys(USER, after, PORTION):
            for key in keys:
                yield key
            after = keys[-1]
            await self._slices.pause_if_due()

    # Clients

    async def _clients(self, sessions: dict[str, Session]) -> tuple[tuple[ClientLoses, ...], int]:
        found: list[ClientLoses] = []
        more = 0
        concerned: dict[tuple[object, ...], bool] = {}
        # At once, 2 to 5 ms for 200,000: the dictionary may change before the next slice.
        for number, session in enumerate(list(sessions.values())):
            await self._pause(number)
            if not session.subscriptions:
                continue
            who = with_roles(session.principal, self._directory)
            key = (who.user, who.roles, who.tenant)
            known = concerned.get(key)
            if known is None:
                known = concerned[key] = self._comparison.concerns(who)
            if not known:
                continue
            lost = await self._withdrawn(session, who)
            if lost and len(found) < MOST_CLIENTS:
                filters = tuple(lost[:MOST_FILTERS])
                left = len(lost) - len(filters)
                found.append(ClientLoses(session.client_id, who.user, filters, left))
            elif lost:
                more += 1
        return tuple(found), more

    async def _withdrawn(self, session: Session, who: Principal) -> list[str]:
        old, new = self._comparison.old, self._comparison.new
        lost = []
        for number, (name, each) in enumerate(list(session.subscriptions.items())):
            await self._pause(number)
            if not old.subscribe(who, each.topic_filter, each.qos, each.share) and new.subscribe(
                who, each.topic_filter, each.qos, each.share
            ):
                lost.append(name)
        return lost


def with_roles(principal: Principal, directory: Directory) -> Principal:
    """The same one with the roles that the registry gives to its user."""
    links = directory.rows_of(USER + principal.user) if principal.user else ()
    given = [
        name_in(row.role)
        for row in links
        if row.tenant == ALL_TENANTS or row.tenant == quote(principal.tenant)
    ]
    if not given:
        return principal
    found = principal.copy()
    found.roles = tuple(dict.fromkeys([*principal.roles, *given]))
    return found


def _change(affected: Affected) -> PeopleChange:
    rights = [(flip.allowed, _right(flip)) for flip in affected.flips]
    return PeopleChange(
        who=tuple(affected.who[:MOST_NAMES]),
        more_who=max(0, len(affected.who) - MOST_NAMES),
        users=affected.users,
        gained=tuple(right for allowed, right in rights if allowed),
        lost=tuple(right for allowed, right in rights if not allowed),
        more=affected.more,
    )


def _right(flip: Flip) -> RightChange:
    return RightChange(
        action=flip.action,
        topics=flip.topics,
        exceptions=flip.exceptions[:MOST_EXCEPTIONS],
        more_exceptions=max(0, len(flip.exceptions) - MOST_EXCEPTIONS),
        condition=flip.condition,
        example=example_of(flip),
        rules=flip.rules[:MOST_EXCEPTIONS],
    )


def example_of(flip: Flip) -> str:
    """A topic that flips; "" if none is found at once."""
    levels = flip.topics.split("/")
    for name in ("any", "other", "some-other"):
        topic = "/".join(name if level in ("+", "#") else level for level in levels)
        if flip.covers(topic):
            return topic
    return ""
