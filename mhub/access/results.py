"""What the access interface gives back: frozen, without secrets, ready to be made JSON.

`version` is that of an entry: whoever changes it may say which version he has seen, and is refused
if that is not the one that is there.  `revision` is that of all entries together.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mhub.access.explain import Explanation
from mhub.access.quota import Value


@dataclass(frozen=True)
class Changed:
    """What a change has come to; the change is durable."""

    revision: str
    version: str = ""  # of the entry; "": there are several, or none any more


@dataclass(frozen=True)
class UserSummary:
    name: str
    roles: tuple[str, ...]
    tenant: str
    attributes: Mapping[str, str]
    locked: bool
    limits: Mapping[str, Value]
    note: str
    created_at: float
    has_password: bool  # for CONNECT
    has_scram: bool  # for AUTH
    version: str


@dataclass(frozen=True)
class UsersImported:
    """Users with the hashes that they had elsewhere; the change is durable."""

    revision: str
    added: tuple[str, ...]
    there: tuple[str, ...]  # those that were there already, and stay as they are


@dataclass(frozen=True)
class UserPage:
    users: tuple[UserSummary, ...]  # by name
    left: int  # how many more are wanted and come behind these
    revision: str
    next: str = ""  # what the next page comes behind; "": there is none


@dataclass(frozen=True)
class RuleSummary:
    id: str
    row: tuple[str, ...]
    place: str  # the entry that it stands in: a rule, or a user or a role for what they are given
    note: str
    version: str


@dataclass(frozen=True)
class RulePage:
    rules: tuple[RuleSummary, ...]  # by place
    left: int
    revision: str
    next: str = ""


@dataclass(frozen=True)
class BanSummary:
    key: str  # where it stands in the registry
    what: str  # "ban", or "lockout" for one that the broker made after failed logins
    kind: str  # "user", "client", "address"
    value: str
    reason: str
    until: float  # seconds since 1970; 0: for ever
    by: str
    created_at: float
    version: str


@dataclass(frozen=True)
class BanPage:
    bans: tuple[BanSummary, ...]
    left: int
    revision: str
    next: str = ""


@dataclass(frozen=True)
class UserDetail:
    user: UserSummary
    all_roles: tuple[str, ...]  # with those that its roles inherit from, and those of rules
    rules: tuple[RuleSummary, ...]  # that name it
    bans: tuple[BanSummary, ...]  # of its name
    revision: str


@dataclass(frozen=True)
class RoleSummary:
    name: str
    parents: tuple[str, ...]
    limits: Mapping[str, Value]
    note: str
    rules: int
    version: str  # "": it has no entry of its own, rules name it


@dataclass(frozen=True)
class RoleList:
    roles: tuple[RoleSummary, ...]  # by name
    revision: str


@dataclass(frozen=True)
class RoleDetail:
    role: RoleSummary
    all_parents: tuple[str, ...]
    users: tuple[str, ...]  # the first of those that were given it
    user_count: int
    rules: tuple[RuleSummary, ...]  # that name it
    revision: str


@dataclass(frozen=True)
class TokenSummary:
    """An API token, without its secret, which nobody knows but who has it."""

    id: str
    name: str
    user: str  # as rules call it
    scopes: tuple[str, ...]
    roles: tuple[str, ...]
    tenant: str
    created_at: float
    created_by: str
    expires_at: float  # seconds since 1970; 0: never
    is_expired: bool
    last_used_at: float  # at this node, since it has started; 0: not at all
    note: str
    version: str


@dataclass(frozen=True)
class TokenPage:
    tokens: tuple[TokenSummary, ...]  # by id
    left: int
    revision: str
    next: str = ""


@dataclass(frozen=True)
class TokenMade:
    """A new token: this is the only time that its secret is shown."""

    id: str
    name: str
    token: str  # what a program sends as `Authorization: Bearer`
    version: str
    revision: str


@dataclass(frozen=True)
class SubjectLimits:
    name: str
    limits: Mapping[str, Value]


@dataclass(frozen=True)
class InForce:
    policy: str  # "registry", or the file that the rules are in; "": access control is off


@dataclass(frozen=True)
class RulesChanged:
    revision: str
    added: tuple[RuleSummary, ...]
    removed: tuple[RuleSummary, ...]
    unchanged: int  # rows that were there already
    warnings: tuple[str, ...] = ()  # about rows that are added, and decide nothing


@dataclass(frozen=True)
class RightChange:
    """Topics on which somebody's right to do something changes."""

    action: str
    topics: str  # a filter; of connect: of client ids; of admin actions: a resource
    exceptions: tuple[str, ...]  # filters of what does not change
    more_exceptions: int
    condition: str  # as in a rule
    example: str  # a topic of these
    rules: tuple[str, ...]  # ids of the rules that are the cause


@dataclass(frozen=True)
class PeopleChange:
    """What some clients gain and lose, all of them the same."""

    who: tuple[str, ...]  # role:NAME, user:NAME, "anonymous clients", "users without roles"
    more_who: int
    users: int  # of the registry, that these are
    gained: tuple[RightChange, ...]
    lost: tuple[RightChange, ...]
    more: int  # that are not shown


@dataclass(frozen=True)
class ClientLoses:
    """A client of this node whose subscriptions would be withdrawn."""

    client_id: str
    user: str
    filters: tuple[str, ...]
    more: int


@dataclass(frozen=True)
class DryRun:
    """What a change of rules would do; nothing was changed."""

    revision: str  # of the registry that it was tried on
    added: tuple[str, ...]  # rows, as in a CSV file
    more_added: int
    removed: tuple[str, ...]
    more_removed: int
    unchanged: int
    people: tuple[PeopleChange, ...]  # to whom something happens
    more_people: int
    clients: tuple[ClientLoses, ...]
    more_clients: int
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Proposal:
    """A change of rules that would allow what was denied."""

    summary: str
    add: tuple[tuple[str, ...], ...]  # rows
    remove: tuple[str, ...]  # ids of rules
    allows: bool  # whether it would, alone
    dry_run: DryRun


@dataclass(frozen=True)
class Proposals:
    allowed: bool  # it is allowed already
    reason: str  # as explain says it
    proposals: tuple[Proposal, ...]  # those that give the least first


@dataclass(frozen=True)
class PolicyText:
    """All rules as a CSV file."""

    text: str
    rows: int
    revision: str


@dataclass(frozen=True)
class Deleted:
    revision: str
    rules: int  # that went with it
    users: int = 0  # that had it, of a role


@dataclass(frozen=True)
class Explained:
    explanation: Explanation
    notes: tuple[str, ...]  # what keeps the client out beside the rules
