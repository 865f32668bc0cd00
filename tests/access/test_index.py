"""What clients may do, by the rows of a policy."""

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.casbin_model import RowsAdapter, enforce, make_enforcer
from mhub.access.index import BAD_GRANT, NO_RULE, Index
from mhub.access.policy import Policy, default_rows, read_csv
from mhub.access.rows import Row, parse_row, quote
from mhub.core.principal import Certificate, Principal
from mhub.wire.reasons import NOT_AUTHORIZED
from tests.access.strategies import policies, principals, questions
from tests.access.three import Fields, Question, ask_index, policy_of
from tests.helpers.splits import steady


def who(user: str = "", client_id: str = "c1", roles: tuple[str, ...] = ()) -> Principal:
    principal = Principal("192.0.2.1", "tcp")
    principal.user = user
    principal.client_id = client_id
    principal.roles = roles
    return principal


def index_of(text: str) -> Index:
    return Policy(read_csv(text, "test.csv")).index()


class PlaceholderTests(SynchronousTestCase):
    """A client cannot choose a name that gives it the topics of others."""

    INJECTED = ("+", "#", "a/b", "a/#", "+/x", "\0", "a\0", "")

    def setUp(self) -> None:
        rules = ("devices/%c/#", "users/%u/#", "tenants/%t/#", "certs/%{cn}/#", "sites/%{site}/#")
        self.index = index_of(
            "\n".join(f"p, role:everyone, *, *, {rule}, any, allow" for rule in rules)
        )

    def facts(self, value: str) -> Principal:
        principal = who(value, value)
        principal.tenant = value
        principal.certificate = Certificate(value)
        principal.attributes = {"site": value}
        return principal

    def test_what_looks_like_a_pattern_matches_nothing(self) -> None:
        for value in self.INJECTED:
            principal = self.facts(value)
            for kind in ("devices", "users", "tenants", "certs", "sites"):
                for topic in (f"{kind}/{value}/x", f"{kind}/a/b", f"{kind}//x", f"{kind}/x/y"):
                    self.assertEqual(self.index.rights(principal, topic), 0, (value, topic))
                for topic_filter in (
                    f"{kind}/{value}/x",
                    f"{kind}/+/x",
                    f"{kind}/#",
                    f"{kind}/a/#",
                ):
                    for strict in (True, False):
                        self.index.strict = strict
                        reason = self.index.subscribe(principal, topic_filter, 0, "")
                        self.assertEqual(reason, NOT_AUTHORIZED, (value, topic_filter, strict))

    def test_plain_names_do(self) -> None:
        principal = self.facts("name with (signs), %u and $")
        for kind in ("devices", "users", "tenants", "certs", "sites"):
            topic = f"{kind}/name with (signs), %u and $/x"
            self.assertEqual(self.index.publish(principal, topic, 0, False), 0)
            self.assertEqual(self.index.publish(principal, f"{kind}/x/x", 0, False), NOT_AUTHORIZED)

    def test_a_name_with_a_dollar_does_not_lead_to_the_brokers_topics(self) -> None:
        index = index_of(
            "p, role:everyone, *, *, %u/#, any, allow\np, role:everyone, *, *, %c%u/#, any, allow"
        )
        principal = who("$SYS", "$S")
        self.assertEqual(index.rights(principal, "$SYS/broker"), 0)
        self.assertEqual(index.subscribe(principal, "$SYS/#", 0, ""), NOT_AUTHORIZED)
        self.assertEqual(index.publish(who("alice"), "alice/x", 0, False), 0)

    def test_a_claimed_user_fills_nothing(self) -> None:
        principal = who("", "c1")
        principal.claimed_user = "alice"
        self.assertEqual(self.index.publish(principal, "users/alice/x", 0, False), NOT_AUTHORIZED)

    def test_a_deny_with_a_value_that_matches_nothing_denies_nothing_else(self) -> None:
        index = index_of(
            "p, role:everyone, *, publish, #, any, allow\n"
            "p, role:everyone, *, publish, secret/%c, any, deny"
        )
        self.assertEqual(index.publish(who("", "+"), "secret/x", 0, False), 0)
        self.assertEqual(index.publish(who("", "x"), "secret/x", 0, False), NOT_AUTHORIZED)


class AdministratorTests(SynchronousTestCase):
    """There is no flag that passes all rules: an administrator has a role, with `#`."""

    def test_a_deny_holds_for_administrators_too(self) -> None:
        index = Policy(
            [*default_rows(), parse_row(["p", "role:everyone", "*", "*", "vault/#", "any", "deny"])]
        ).index()
        admin = who("root", roles=("admin",))
        self.assertEqual(index.publish(admin, "anything/at/all", 2, True), 0)
        self.assertEqual(index.publish(admin, "vault/x", 0, False), NOT_AUTHORIZED)
        self.assertFalse(index.receive(admin, "vault/x"))
        self.assertEqual(index.subscribe(admin, "#", 0, ""), NOT_AUTHORIZED)

    def test_a_user_called_admin_is_nobody_special(self) -> None:
        index = Policy(default_rows()).index()
        for name in ("admin", "role:admin", "everyone"):
            self.assertEqual(index.publish(who(name), "a", 0, False), NOT_AUTHORIZED)

    def test_without_its_row_the_role_is_nothing(self) -> None:
        rows = [row for row in default_rows() if row.subject != "role:admin"]
        self.assertEqual(
            Policy(rows).index().publish(who("root", roles=("admin",)), "a", 0, False),
            NOT_AUTHORIZED,
        )


class DefaultPolicyTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.index = Policy(default_rows()).index()

    def test_what_nobody_is_granted_by_default(self) -> None:
        for principal in (
            who(),
            who("alice"),
            who("alice", roles=("device",)),
            who("alice", roles=("reader",)),
            who("alice", roles=("operator",)),
        ):
            for topic_filter in ("$SYS/#", "#", "+/#", "+", "$SYS/broker/uptime", "$SYS/+/x"):
                reason = self.index.subscribe(principal, topic_filter, 0, "")
                self.assertEqual(reason, NOT_AUTHORIZED, topic_filter)
            self.assertFalse(self.index.receive(principal, "$SYS/broker/uptime"))
            self.assertEqual(
                self.index.publish(principal, "$SYS/broker/uptime", 0, False), NOT_AUTHORIZED
            )

    def test_unless_granted(self) -> None:
        admin = who("root", roles=("admin",))
        for topic_filter in ("$SYS/#", "#", "+/#"):
            self.assertEqual(self.index.subscribe(admin, topic_filter, 0, ""), 0)
        row = parse_row(["p", "role:reader", "*", "subscribe|receive", "$SYS/#", "any", "allow"])
        self.index.apply([row], [])
        self.assertEqual(self.index.subscribe(who("a", roles=("reader",)), "$SYS/#", 0, ""), 0)

    def test_anonymous_clients_do_not_even_connect(self) -> None:
        self.assertEqual(self.index.connect(who()), NOT_AUTHORIZED)
        self.assertEqual(self.index.connect(who("alice")), 0)

    def test_users_devices_and_operators(self) -> None:
        alice = who("alice")
        self.assertEqual(self.index.publish(alice, "users/alice/x", 0, False), 0)
        self.assertEqual(self.index.publish(alice, "users/bob/x", 0, False), NOT_AUTHORIZED)
        device = who("pump-1", "pump-2", ("device",))  # the client id counts for nothing
        self.assertEqual(self.index.publish(device, "devices/pump-1/rpm", 1, True), 0)
        self.assertEqual(self.index.subscribe(device, "devices/pump-1/commands/#", 1, ""), 0)
        for topic in ("devices/pump-2/rpm", "devices/pump-1/commands/stop"):
            self.assertEqual(self.index.publish(device, topic, 1, False), NOT_AUTHORIZED)
        operator = who("o", roles=("operator",))
        self.assertEqual(self.index.subscribe(operator, "devices/#", 1, ""), 0)
        command = "devices/pump-1/commands/stop"
        self.assertEqual(self.index.publish(operator, command, 1, False), 0)
        self.assertEqual(self.index.publish(operator, command, 1, True), NOT_AUTHORIZED)


class TenantTests(SynchronousTestCase):
    def test_roles_and_rules_of_a_tenant(self) -> None:
        index = index_of(
            "p, role:reader, t1, receive, a, any, allow\n"
            "p, role:reader, *, receive, b, any, allow\n"
            "g, user:u, role:reader, t1\n"
            "g, user:v, role:reader, *"
        )
        seen = {}
        for user in ("u", "v"):
            for tenant in ("", "t1", "t2", "*"):
                principal = who(user)
                principal.tenant = tenant
                seen[user, tenant] = [t for t in "ab" if index.receive(principal, t)]
        self.assertEqual(seen["u", "t1"], ["a", "b"])
        self.assertEqual(seen["v", "t1"], ["a", "b"])
        for tenant in ("", "t2", "*"):
            self.assertEqual(seen["u", tenant], [])
            self.assertEqual(seen["v", tenant], ["b"])


class NameTests(SynchronousTestCase):
    """Names that a row cannot have as they are, in each place: as Casbin, too, sees it."""

    NAMES = ("CN=a,O=b", "100%", " (x) ", '"[]"', "ünï cödé", "a\tb", "*")

    def test_users_roles_and_tenants(self) -> None:
        for name in self.NAMES:
            text = quote(name)
            rows = [
                parse_row(["p", f"user:{text}", text, "publish", "user", "any", "allow"]),
                parse_row(["p", f"role:{text}", "*", "publish", "role", "any", "allow"]),
                parse_row(["g", f"user:{text}", f"role:{quote(name + '2')}", text]),
                parse_row(
                    ["p", f"role:{quote(name + '2')}", "*", "publish", "link", "any", "allow"]
                ),
            ]
            index = Policy(rows).index()
            enforcer = make_enforcer(RowsAdapter(rows))
            own = who(name, roles=(name,))
            own.tenant = name
            for topic in ("user", "role", "link"):
                self.assertEqual(index.publish(own, topic, 0, False), 0, (name, topic))
                self.assertTrue(enforce(enforcer, own, "publish", topic), (name, topic))
                other = who("other")
                self.assertEqual(index.publish(other, topic, 0, False), NOT_AUTHORIZED)
                self.assertFalse(enforce(enforcer, other, "publish", topic))


class BuiltInRoleTests(SynchronousTestCase):
    def test_nobody_is_given_them_from_outside(self) -> None:
        index = index_of(
            "p, role:authenticated, *, publish, a, any, allow\n"
            "p, role:anonymous, *, publish, b, any, allow"
        )
        outsider = who("", roles=("authenticated",))
        self.assertEqual(index.publish(outsider, "a", 0, False), NOT_AUTHORIZED)
        insider = who("u", roles=("anonymous",))
        self.assertEqual(index.publish(insider, "b", 0, False), NOT_AUTHORIZED)


class GrantTests(SynchronousTestCase):
    def test_for_one_client_alone(self) -> None:
        index = index_of("p, role:everyone, *, publish, a/#, any, allow")
        principal = who("", "c7")
        principal.grants = ("publish, own/%c/#, qos<=1, allow", "publish, a/secret, any, deny")
        self.assertEqual(index.publish(principal, "own/c7/x", 1, False), 0)
        self.assertEqual(index.publish(principal, "own/c7/x", 2, False), NOT_AUTHORIZED)
        self.assertEqual(index.publish(principal, "a/secret", 0, False), NOT_AUTHORIZED)
        self.assertEqual(index.publish(who("", "c7"), "own/c7/x", 1, False), NOT_AUTHORIZED)
        self.assertEqual(index.publish(who("", "c7"), "a/secret", 0, False), 0)

    def test_one_that_cannot_be_read_takes_all_rights(self) -> None:
        """It might be a deny."""
        index = index_of("p, role:everyone, *, *, #, any, allow")
        principal = who()
        principal.grants = ("publish, a/#, any, Deny",)
        self.assertEqual(index.rights(principal, "a"), 0)
        self.assertEqual(index.connect(principal), NOT_AUTHORIZED)
        for strict in (True, False):
            index.strict = strict
            self.assertEqual(index.subscribe(principal, "a", 0, ""), NOT_AUTHORIZED)
            self.assertEqual(index.rule_of(principal, "subscribe", "a", 0, False), BAD_GRANT)


class RuleOfTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.index = index_of(
            "p, role:everyone, *, *, a/#, any, allow\np, role:everyone, *, *, a/b/+, any, deny"
        )
        self.allow, self.deny = self.index.rows

    def rule(self, action: str, topic: str) -> str:
        return self.index.rule_of(who(), action, topic, 0, False)

    def test_the_rule_that_decides(self) -> None:
        for action in ("publish", "will", "receive", "connect", "subscribe"):
            self.assertEqual(self.rule(action, "a/x"), self.allow)
            self.assertEqual(self.rule(action, "a/b/x"), self.deny)
            self.assertEqual(self.rule(action, "b"), NO_RULE)

    def test_filters(self) -> None:
        self.assertEqual(self.rule("subscribe", "a/c/#"), self.allow)
        self.assertEqual(self.rule("subscribe", "a/#"), self.deny)
        self.assertEqual(self.rule("subscribe", "#"), self.deny)
        self.assertEqual(self.rule("subscribe", "+/c"), NO_RULE)
        self.index.strict = False
        self.assertEqual(self.rule("subscribe", "#"), self.allow)
        self.assertEqual(self.rule("subscribe", "a/b/+"), self.deny)


class ChangeTests(SynchronousTestCase):
    @given(policies, policies, st.lists(principals, min_size=1), st.lists(questions, min_size=3))
    @steady
    def test_a_changed_index_decides_as_one_made_anew(
        self,
        before: list[Fields],
        after: list[Fields],
        clients: list[Principal],
        asked: list[Question],
    ) -> None:
        index = policy_of(before).index()
        wanted = policy_of(after)
        for client in clients:  # what it remembers has to go
            for question in asked:
                ask_index(index, client, question)
        removed = [row_id for row_id in index.rows if row_id not in wanted.rows]
        index.apply(list(wanted.rows.values()), removed)
        fresh = wanted.index()
        for client in clients:
            for question in asked:
                self.assertEqual(
                    ask_index(index, client, question), ask_index(fresh, client, question)
                )
        index.apply([], list(index.rows))
        for root in (index.allows, index.denies):
            self.assertTrue(root.is_empty())
        self.assertEqual((index.scopes, index._links, index._users), ({}, {}, {}))

    def test_of_two_rules_with_one_pattern_the_other_stays(self) -> None:
        index = index_of(
            "p, role:everyone, *, publish, a/%c, any, allow\n"
            "p, role:everyone, *, receive, a/%c, any, allow"
        )
        first, second = index.rows
        index.apply([], [first])
        self.assertEqual(index.publish(who("", "c"), "a/c", 0, False), NOT_AUTHORIZED)
        self.assertTrue(index.receive(who("", "c"), "a/c"))
        index.apply([], [second])
        self.assertTrue(index.allows.is_empty())

    def test_a_row_to_remove_that_is_not_there_leaves_all_as_it_was(self) -> None:
        index = index_of("p, role:everyone, *, publish, a, any, allow")
        known = next(iter(index.rows))
        added: list[Row] = [parse_row(["p", "role:everyone", "*", "publish", "b", "any", "allow"])]
        self.assertRaises(KeyError, index.apply, added, [known, "missing"])
        self.assertEqual(list(index.rows), [known])
        self.assertEqual(index.publish(who(), "a", 0, False), 0)

    def test_many_placeholders_at_one_level(self) -> None:
        """Only those that lead to rules of the client are tried, and all of these."""
        lines = [f"p, role:r{n}, *, publish, x{n}-%c/#, any, allow" for n in range(50)]
        index = index_of("\n".join(lines))
        client = who("", "c", ("r7", "r30"))
        allowed = [n for n in range(50) if not index.publish(client, f"x{n}-c/a", 0, False)]
        self.assertEqual(allowed, [7, 30])


class CostTests(SynchronousTestCase):
    """What a filter with wildcards costs does not depend on the rules of others."""

    FILTERS = ("+/+/+/+", "+/+/+/+/+", "#", "a1/+/+/#", "secret/+", "open/+/x")

    def setUp(self) -> None:
        self.index = index_of(
            "p, role:everyone, *, subscribe, secret/#, any, deny\n"
            "p, role:everyone, *, subscribe, open/+/x, any, allow\n"
        )

    def others(self) -> list[Row]:
        return [
            parse_row(
                ["p", f"user:u{n}", "*", "subscribe", f"a{n % 10}/b{n}/+/c", "any", effect],
                str(n),
            )
            for n in range(500)
            for effect in ("allow", "deny")
        ]

    def visited(self) -> list[int]:
        view = self.index.view(who("alice"))
        found = []
        for topic_filter in self.FILTERS:
            levels = topic_filter.split("/")
            found.append(view.denies_in(1 << 6, levels, 1).visited)
            found.append(view.allows_in(1 << 6, levels, 1).visited)
        return found

    def answers(self, user: str) -> list[int]:
        found = []
        for self.index.strict in (True, False):
            for topic_filter in (*self.FILTERS, "a1/b1/+/c", "a1/+/+/c"):
                found.append(self.index.subscribe(who(user), topic_filter, 0, ""))
        return found

    def test_rules_of_others(self) -> None:
        before = self.visited()
        self.assertLess(max(before), 10)
        self.index.apply(self.others(), [])
        self.assertEqual(self.visited(), before)

    def test_own_rules_come_and_go(self) -> None:
        """What was made for a question is kept up to date."""
        rows = ["g, user:u1, role:r, *", "p, role:r, *, subscribe, a1/b1/#, any, allow"]
        rows += ["p, user:u1, *, subscribe, a1/+/+/c, qos=2, deny"]
        known = [parse_row(row.split(", "), "x") for row in rows]
        plain = self.answers("u1")
        for number in range(len(known)):
            self.index.apply([known[number]], [])
            fresh = Index()
            fresh.apply(list(self.index.rows.values()), [])
            changed, self.index = self.index, fresh
            expected = self.answers("u1")
            self.index = changed
            self.assertEqual(self.answers("u1"), expected)
        self.assertNotEqual(self.answers("u1"), plain)
        self.index.apply([], [row.id for row in known])
        self.assertEqual(self.answers("u1"), plain)
