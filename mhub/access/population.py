"""Whom a comparison of two policies is about: everybody, in few groups.

What a policy says about a client depends on its user and roles, its tenant, and on what fills the
placeholders.  Clients that differ in the latter alone are one here: their client id is `%c`, their
user `%u`, an attribute `%{NAME}`, each filled with itself (`mhub.access.diff`).  So these are all:

    clients that have proved nothing; users without roles
    users with one role, for each role that a policy names
    users with several roles, for each such set of roles that some user has
    each user about whom there is a rule, or who is given other roles by the two policies

each of them without a tenant, and in every tenant that a row names which just one policy has.
Groups to which the same happens are shown as one.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from mhub.access import rows
from mhub.access.diff import GENERAL_CLIENT, Flip, diff
from mhub.access.policy import Policy
from mhub.access.rows import ALL_TENANTS, BUILT_IN, Row, unquote
from mhub.core.principal import Certificate, Principal

GENERAL_USER = "%u"
SHOWN = 5
"""Users of a group that are named."""


@dataclass(frozen=True)
class Flipped:
    """What becomes of the rights of some clients."""

    who: tuple[str, ...]
    flips: tuple[Flip, ...]


def compare(old: Policy, new: Policy) -> list[Flipped]:
    """All that becomes allowed or denied, and to whom."""
    before, after = old.index(), new.index()
    found: dict[tuple[object, ...], Flipped] = {}
    for who, principal in population(old, new):
        flips = diff(before, after, [principal])
        if not flips:
            continue
        same = tuple(
            (flip.action, flip.condition, flip.allowed, flip.topics, flip.exceptions)
            for flip in flips
        )
        known = found.get(same)
        names = (who,) if known is None else (*known.who, who)
        found[same] = Flipped(names, tuple(flips) if known is None else known.flips)
    return list(found.values())


def population(old: Policy, new: Policy) -> list[tuple[str, Principal]]:
    """Each group by its name, with a client that stands for it."""
    all_rows = {**old.rows, **new.rows}
    changed = [row for row in all_rows.values() if (row.id in old.rows) != (row.id in new.rows)]
    tenants = sorted({row.tenant for row in changed} - {ALL_TENANTS})
    roles = sorted(
        {
            subject
            for row in all_rows.values()
            for subject in (row.subject, row.role)
            if subject.startswith("role:") and subject not in BUILT_IN
        }
    )
    make = Maker(all_rows.values())
    found: list[tuple[str, Principal]] = []
    for tenant in ["", *tenants]:
        where = f" in tenant {tenant}" if tenant else ""
        found.append((f"anonymous clients{where}", make("", (), tenant)))
        found.append((f"users without roles{where}", make(GENERAL_USER, (), tenant)))
        for role in roles:
            found.append((f"{role}{where}", make(GENERAL_USER, (role,), tenant)))
    return found + _users(old, new, make)


class Maker:
    """Clients whose facts are the placeholders themselves."""

    def __init__(self, found: Iterable[Row] = ()) -> None:
        self._attributes: dict[str, str] = {}
        for row in found:
            self.know(row)

    def know(self, row: Row) -> None:
        """A row whose placeholders have to be filled."""
        for level in row.levels:
            for part in level.parts:
                if part.kind == rows.ATTRIBUTE:
                    self._attributes[part.text] = f"%{{{part.text}}}"

    def __call__(self, user: str, subjects: tuple[str, ...], tenant: str) -> Principal:
        principal = Principal("", "")
        principal.user = user
        principal.client_id = GENERAL_CLIENT
        principal.roles = tuple(unquote(subject[len("role:") :]) for subject in subjects)
        principal.tenant = unquote(tenant)
        principal.attributes = self._attributes
        principal.certificate = Certificate("%{cn}")
        return principal


def _users(old: Policy, new: Policy, make: Maker) -> list[tuple[str, Principal]]:
    before, after = _rows_by_user(old), _rows_by_user(new)
    alike: dict[tuple[tuple[str, ...], str], list[str]] = {}
    found = []
    for subject in sorted({*before, *after}):
        mine = [*before.get(subject, {}).values(), *after.get(subject, {}).values()]
        tenants = sorted({row.tenant for row in mine} - {ALL_TENANTS}) or [""]
        is_plain = all(row.kind == "g" for row in mine)
        for tenant in tenants:
            if is_plain and before.get(subject, {}).keys() == after.get(subject, {}).keys():
                roles = tuple(
                    sorted({row.role for row in mine if row.tenant in (ALL_TENANTS, tenant)})
                )
                if len(roles) > 1 or tenant:
                    alike.setdefault((roles, tenant), []).append(subject)
            else:
                where = f" in tenant {tenant}" if tenant else ""
                name = unquote(subject[len("user:") :])
                found.append((f"{subject}{where}", make(name, (), tenant)))
    for (roles, tenant), subjects in alike.items():
        found.append((_described(roles, tenant, subjects), make(GENERAL_USER, roles, tenant)))
    return found


def _described(roles: tuple[str, ...], tenant: str, subjects: list[str]) -> str:
    names = ", ".join(subjects[:SHOWN])
    more = f" and {len(subjects) - SHOWN} more" if len(subjects) > SHOWN else ""
    where = f" in tenant {tenant}" if tenant else ""
    return f"{' with '.join(roles)}{where} ({names}{more})"


def _rows_by_user(policy: Policy) -> dict[str, dict[str, Row]]:
    found: dict[str, dict[str, Row]] = {}
    for row in policy.rows.values():
        if row.subject.startswith("user:"):
            found.setdefault(row.subject, {})[row.id] = row
    return found
