"""A policy, compiled: the decisions of the live broker.

    Index.apply(added, removed)          a live change costs what the changed rows are long
    publish, will, receive, connect      a search along the topic's levels            (trie)
    subscribe                            strict: every topic of the filter is allowed (containment);
                                         else: some topic is, and `receive` decides at the route
    admin                                the same search, by the resource

Who is asked about
    A client has the subjects `user:NAME` (if proved), its roles, and the built-in roles that it has
    by what it is; and all roles that these were given, directly or by way of others, in its tenant
    or in all of them.  A rule counts for the client if its subject is among these and its tenant is
    `*` or the client's.  A client without a tenant has only what is for all tenants.

    What counts is worked out once for a tenant, a user with rows of its own, and a set of roles
    (Reach), and again after a change.  Clients that agree in these share it.

The effect is that of Casbin's model: allowed if some rule allows and no rule denies.  Rows come
from a checked Policy (`mhub.access.policy`): without cycles, and with no chain of roles so long
that PyCasbin would cut it.  The tests compare this file with PyCasbin's own `enforce`.

Rules that an authenticator gave to one client (`principal.grants`) are kept in tries of their own,
by their text.  A client with a grant that cannot be read has no rights at all: it might be a deny.
"""

from typing import Final

from mhub.access import rows
from mhub.access.containment import Overlap, names_in, topic_in, uncovered
from mhub.access.rows import Row, RowError
from mhub.access.trie import Node, Search, add_rule, remove_rule, scope_of
from mhub.core.principal import Principal
from mhub.wire import reasons

NO_RULE: Final = "no rule"
"""What decided when nothing did: the default is to deny."""

BAD_GRANT: Final = "unreadable grant"

MOST_KEPT: Final = 4096
"""So many Reaches and sets of grants are remembered; then they are made again."""

_SELF_SCOPE: Final = scope_of(rows.SELF, rows.ALL_TENANTS)


class Reach:
    """What counts for clients of one tenant, user and set of roles."""

    def __init__(self) -> None:
        self.subjects: dict[str, Row | None] = {}  # with the row that gives it; None: its own
        self.scopes: dict[str, int] = {_SELF_SCOPE: 0}  # those that have rules
        self.parts: list[Scope] = []  # of these
        self.denied = 0  # all bits that some of these rules deny


class Grants:
    """Rules for one client alone."""

    def __init__(self, lines: tuple[str, ...]) -> None:
        self.allows = Node()
        self.denies = Node()
        self.denied = 0
        self.rows: list[Row] = []
        self.problem = ""
        try:
            for number, line in enumerate(lines):
                self._add(rows.parse_grant(line, f"grant {number + 1}"))
        except RowError as error:
            self.problem = str(error)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        add_rule(self.allows if row.allows else self.denies, row)
        if not row.allows:
            self.denied |= row.mask


class Scope:
    """The rules of one subject and tenant."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.denies: dict[str, Row] = {}
        self._own: dict[bool, Node] = {}

    def add(self, row: Row) -> None:
        self.rows[row.id] = row
        if not row.allows:
            self.denies[row.id] = row
        if row.allows in self._own:
            add_rule(self._own[row.allows], row)

    def remove(self, row: Row) -> None:
        del self.rows[row.id]
        self.denies.pop(row.id, None)
        if row.allows in self._own:
            remove_rule(self._own[row.allows], row)

    def own(self, allows: bool) -> Node:
        """A trie of these rules alone, those that allow or those that deny.

        A topic leads along one way through the tries of all.  A filter with wildcards goes all ways
        at once: what that costs must not depend on the rules of others, or who sends many such
        filters would keep the broker from everything else.
        """
        root = self._own.get(allows)
        if root is None:
            root = Node()
            for row in self.rows.values() if allows else self.denies.values():
                if row.allows == allows:
                    add_rule(root, row)
            self._own[allows] = root
        return root


class View:
    """The policy as it is for one client, while one question is answered."""

    def __init__(self, index: "Index", principal: Principal, reach: Reach) -> None:
        self.reach = reach
        self.search = Search(principal, reach.scopes)
        self.allows: list[Node] = [index.allows]
        self.denies: list[Node] = [index.denies]
        self.denied = reach.denied
        self.problem = ""
        self._grants: Grants | None = None

    def add(self, grants: Grants) -> None:
        self._grants = grants
        self.allows.append(grants.allows)
        self.denies.append(grants.denies)
        self.denied |= grants.denied
        self.problem = grants.problem

    def matching(self, roots: list[Node], levels: list[str]) -> int:
        """All bits of the rules in these tries that match a topic."""
        search = self.search
        search.begin(levels)
        for root in roots:
            search.walk(root, 0)
        return search.mask | search.rest_mask

    def rights(self, levels: list[str]) -> int:
        """All that is allowed on a topic, as bits."""
        if self.problem:
            return 0
        mask = self.matching(self.allows, levels)
        if mask & self.denied:
            mask &= ~self.matching(self.denies, levels)
        return mask

    def refused(self, bit: int, levels: list[str]) -> list[str]:
        """A topic of a filter that is not allowed, generic; [] if all of them are."""
        if self.problem:
            return topic_in(levels)
        denied = self.denies_in(bit, levels, 1).found
        return denied[0] if denied else uncovered(self.search, self.allows, bit, levels)

    def allowed(self, bit: int, levels: list[str]) -> list[str]:
        """A topic of a filter that is allowed, generic; [] if there is none."""
        if self.problem:
            return []
        found = self.allows_in(bit, levels, 1).found
        return found[0] if found else []

    def denies_in(self, bit: int, levels: list[str], most: int) -> Overlap:
        """Rules that deny something in a filter."""
        overlap = Overlap(self.search, bit, levels)
        overlap.most = most
        if self.denied & bit:
            for part in self.reach.parts:
                if part.denies:
                    overlap.walk(part.own(False))
            if self._grants is not None:
                overlap.walk(self._grants.denies)
        return overlap

    def allows_in(self, bit: int, levels: list[str], most: int) -> Overlap:
        """Rules that allow something in a filter that no rule denies."""
        overlap = Overlap(self.search, bit, levels)
        overlap.most = most
        if self.denied & bit:
            overlap.minus = self.denies
        for part in self.reach.parts:
            overlap.walk(part.own(True))
        if self._grants is not None:
            overlap.walk(self._grants.allows)
        return overlap

    def decide(self, is_filter: bool, bit: int, levels: list[str], strict: bool) -> "Decision":
        """The decision with all that it rests on."""
        decision = Decision()
        decision.problem = self.problem
        if is_filter and not strict:
            self._decide_any(decision, bit, levels)
        elif is_filter:
            self._decide_all(decision, bit, levels)
        else:
            decision.allowed = self.rights(levels) & bit != 0
            decision.denying = self._rows(self.denies, bit, levels)
            decision.allowing = self._rows(self.allows, bit, levels)
        return decision

    def _decide_all(self, decision: "Decision", bit: int, levels: list[str]) -> None:
        decision.topic = self.refused(bit, levels)
        decision.allowed = not decision.topic
        decision.denying = self.denies_in(bit, levels, 0).rows
        self.search.rows = []
        uncovered(self.search, self.allows, bit, levels)  # finds what covers it, as far as it goes
        decision.allowing = _with(bit, self.search.rows)
        self.search.rows = None

    def _decide_any(self, decision: "Decision", bit: int, levels: list[str]) -> None:
        decision.topic = self.allowed(bit, levels)
        decision.allowed = bool(decision.topic)
        decision.denying = self.denies_in(bit, levels, 0).rows
        decision.allowing = self.allows_in(bit, levels, 0).rows

    def _rows(self, roots: list[Node], bit: int, levels: list[str]) -> list[Row]:
        self.search.rows = []
        self.matching(roots, levels)
        found = _with(bit, self.search.rows)
        self.search.rows = None
        return found

    def names(self) -> set[str]:
        """All names that stand in a pattern."""
        found: set[str] = set()
        for root in self.allows + self.denies:
            names_in(root, self.search, found)
        return found


class Decision:
    """What was decided, and by what."""

    def __init__(self) -> None:
        self.allowed = False
        self.problem = ""  # with the client's grants
        self.denying: list[Row] = []
        self.allowing: list[Row] = []
        self.topic: list[str] = []  # in a filter: the topic, generic, that decides


def _with(bit: int, found: list[Row]) -> list[Row]:
    """The rules that have a bit, each once."""
    kept: dict[str, Row] = {}
    for row in found:
        if row.mask & bit:
            kept[row.id] = row
    return list(kept.values())


class Index:
    """An Authorizer (`mhub.core.authorization`)."""

    def __init__(self) -> None:
        self.strict = True  # a subscription needs all topics of its filter
        self.revision = ""
        self.rows: dict[str, Row] = {}
        self.allows = Node()
        self.denies = Node()
        self.scopes: dict[str, Scope] = {}
        self._links: dict[str, dict[str, Row]] = {}  # g, by scope of the subject
        self._users: dict[str, int] = {}  # users with rows of their own: how many
        self._reaches: dict[tuple[str, str, tuple[str, ...], bool], Reach] = {}
        self._grants: dict[tuple[str, ...], Grants] = {}

    # Changes

    def apply(self, added: list[Row], removed: list[str]) -> None:
        """Change rows, all of them or, if one to be removed is not there, none.

        What is to be checked about a policy as a whole, its Policy has checked.
        """
        for row_id in removed:
            if row_id not in self.rows:
                raise KeyError(row_id)
        for row_id in removed:
            if row_id in self.rows:
                self._remove(self.rows.pop(row_id))
        for row in added:
            known = self.rows.get(row.id)
            if known is not None:  # it may stand in another place now
                self._remove(known)
            self.rows[row.id] = row
            self._add(row)
        self._reaches = {}

    def _add(self, row: Row) -> None:
        scope = scope_of(row.subject, row.tenant)
        if row.subject.startswith("user:"):
            user = rows.unquote(row.subject[5:])
            self._users[user] = self._users.get(user, 0) + 1
        if row.kind == "g":
            links = self._links.get(scope)
            if links is None:
                links = {}
                self._links[scope] = links
            links[row.id] = row
            return
        known = self.scopes.get(scope)
        if known is None:
            known = Scope()
            self.scopes[scope] = known
        known.add(row)
        add_rule(self.allows if row.allows else self.denies, row)

    def _remove(self, row: Row) -> None:
        scope = scope_of(row.subject, row.tenant)
        if row.subject.startswith("user:"):
            user = rows.unquote(row.subject[5:])
            self._users[user] -= 1
            if not self._users[user]:
                del self._users[user]
        if row.kind == "g":
            links = self._links[scope]
            del links[row.id]
            if not links:
                del self._links[scope]
            return
        known = self.scopes[scope]
        known.remove(row)
        if not known.rows:
            del self.scopes[scope]
        remove_rule(self.allows if row.allows else self.denies, row)

    # Who

    def reach(self, principal: Principal) -> Reach:
        user = principal.user
        is_verified = user != ""
        if user not in self._users:
            user = ""
        key = (principal.tenant, user, principal.roles, is_verified)
        known = self._reaches.get(key)
        if known is None:
            known = self._reach(principal.tenant, user, principal.roles, is_verified)
            if len(self._reaches) >= MOST_KEPT:
                self._reaches = {}
            self._reaches[key] = known
        return known

    def _reach(self, tenant: str, user: str, roles: tuple[str, ...], is_verified: bool) -> Reach:
        reach = Reach()
        subjects = reach.subjects
        if user:
            subjects[rows.user_subject(user)] = None
        for role in roles:
            subject = rows.role_subject(role)
            if subject not in rows.BUILT_IN:
                subjects[subject] = None
        subjects[rows.EVERYONE] = None
        subjects[rows.AUTHENTICATED if is_verified else rows.ANONYMOUS] = None
        tenants = [rows.ALL_TENANTS]
        if tenant and tenant != rows.ALL_TENANTS:
            tenants.append(rows.quote(tenant))
        # Breadth first, so that the way that is remembered is a shortest one.
        left = list(subjects)
        while left:
            following: list[str] = []
            for subject in left:
                for name in tenants:
                    links = self._links.get(scope_of(subject, name))
                    if links is None:
                        continue
                    for row in links.values():
                        if row.role not in subjects:
                            subjects[row.role] = row
                            following.append(row.role)
            left = following
        for subject in subjects:
            for name in tenants:
                scope = scope_of(subject, name)
                known = self.scopes.get(scope)
                if known is not None:
                    reach.scopes[scope] = 0
                    reach.parts.append(known)
                    for row in known.denies.values():
                        reach.denied |= row.mask
        return reach

    def view(self, principal: Principal) -> View:
        view = View(self, principal, self.reach(principal))
        if principal.grants:
            view.add(self._grants_of(principal.grants))
        return view

    def _grants_of(self, lines: tuple[str, ...]) -> Grants:
        known = self._grants.get(lines)
        if known is None:
            known = Grants(lines)
            if len(self._grants) >= MOST_KEPT:
                self._grants = {}
            self._grants[lines] = known
        return known

    def grants_of(self, principal: Principal) -> Grants | None:
        return self._grants_of(principal.grants) if principal.grants else None

    # Decisions

    def rights(self, principal: Principal, topic: str) -> int:
        """All that a client may do on a topic, as the bits of `mhub.access.rows`."""
        return self.view(principal).rights(topic.split("/"))

    def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        bit = 1 << (qos * 2 + (1 if retain else 0))
        return 0 if self.rights(principal, topic) & bit else reasons.NOT_AUTHORIZED

    def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
        return self.publish(principal, topic, qos, retain)

    def receive(self, principal: Principal, topic: str) -> bool:
        return self.rights(principal, topic) & rows.RECEIVE_BIT != 0

    def connect(self, principal: Principal) -> int:
        """Whether it may connect with this client id."""
        if self.rights(principal, principal.client_id) & rows.CONNECT_BIT:
            return 0
        return reasons.NOT_AUTHORIZED

    def admin(self, principal: Principal, action: str, resource: str) -> bool:
        """Whether rules allow `admin:read` or `admin:write` on a resource."""
        return self.rights(principal, resource) & rows.bit_of(action, 0, False) != 0

    def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
        """`share` decides nothing: a group gets what its members could get each."""
        bit = 1 << (6 + qos)
        view = self.view(principal)
        levels = topic_filter.split("/")
        is_allowed = not view.refused(bit, levels) if self.strict else view.allowed(bit, levels)
        return 0 if is_allowed else reasons.NOT_AUTHORIZED

    def rule_of(self, principal: Principal, action: str, topic: str, qos: int, retain: bool) -> str:
        """The id of the rule that decides; NO_RULE if none does.  `topic` of subscribe: the filter.

        If several decide alike it is always the same one of them, on each node.
        """
        bit = rows.bit_of(action, qos, retain)
        is_filter = action == rows.SUBSCRIBE
        decision = self.view(principal).decide(is_filter, bit, topic.split("/"), self.strict)
        if decision.problem:
            return BAD_GRANT
        deciding = decision.allowing if decision.allowed else decision.denying
        return min([row.id for row in deciding]) if deciding else NO_RULE
