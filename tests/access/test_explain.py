"""An explanation is about the decision that the broker makes, and names all that it rests on."""

import json

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.explain import Explanation, explain, lines
from mhub.access.index import NO_RULE, Index
from mhub.access.policy import Policy, read_csv
from mhub.core.principal import Principal
from mhub.wire.topics import matches
from tests.access import naive
from tests.access.strategies import filters, policies, principals, questions
from tests.access.three import Fields, Question, ask_index, policy_of
from tests.helpers.splits import steady

POLICY = """\
p, role:reader, *, subscribe|receive, devices/#, any, allow
p, role:operator, *, publish, devices/+/commands/#, retain=no, allow
g, role:operator, role:reader, *
g, user:olga, role:operator, plant
p, role:everyone, *, *, devices/secret/#, any, deny
p, role:device, *, publish, devices/%c/#, qos<=1, allow
"""


def index_of(text: str) -> Index:
    index = Policy(read_csv(text, "policy.csv")).index()
    index.revision = "5-abcd"
    return index


def client(user: str, client_id: str = "c1", tenant: str = "", *roles: str) -> Principal:
    principal = Principal("192.0.2.1", "tcp")
    principal.user = user
    principal.client_id = client_id
    principal.tenant = tenant
    principal.roles = roles
    return principal


class EqualTests(SynchronousTestCase):
    @given(policies, principals, st.lists(questions, min_size=3))
    @steady
    def test_it_says_what_the_broker_does(
        self, rows: list[Fields], who: Principal, asked: list[Question]
    ) -> None:
        index = policy_of(rows).index()
        for question in asked:
            action, topic, qos, retain = question
            live = ask_index(index, who, question)
            found = explain(index, who, action, topic, qos, retain)
            self.assertEqual(found.allowed, live)
            self.assertDeciding(index, rows, who, question, found)

    def assertDeciding(
        self,
        index: Index,
        rows: list[Fields],
        who: Principal,
        question: Question,
        found: Explanation,
    ) -> None:
        """All rules that match, and none that does not; the broker names one of them."""
        links = [row for row in rows if row[0] == "g"]
        expected = {"allow": set(), "deny": set()}  # type: dict[str, set[str]]
        for row in index.rows.values():
            alone = (*row.fields[:6], "allow")
            without = Principal("", "")
            without.user, without.client_id, without.roles = who.user, who.client_id, who.roles
            without.tenant, without.attributes = who.tenant, who.attributes
            without.certificate = who.certificate
            if row.kind == "p" and naive.decide([alone, *links], without, *question):
                expected[row.fields[6]].add(row.id)
        shown: dict[str, set[str]] = {"allow": set(), "deny": set()}
        for rule in (*found.deciding, *found.overruled):
            if rule.id in index.rows:
                shown[rule.effect].add(rule.id)
        self.assertEqual(shown, expected)
        named = index.rule_of(who, *question)
        if found.deciding:
            self.assertIn(named, [rule.id for rule in found.deciding])
            self.assertEqual(
                {rule.effect for rule in found.deciding}, {("deny", "allow")[found.allowed]}
            )
        else:
            self.assertEqual((named, found.allowed), (NO_RULE, False))

    @given(policies, principals, filters, st.integers(0, 2), st.booleans())
    @steady
    def test_filters(
        self, rows: list[Fields], who: Principal, topic_filter: str, qos: int, strict: bool
    ) -> None:
        index = policy_of(rows).index()
        index.strict = strict
        found = explain(index, who, "subscribe", topic_filter, qos)
        self.assertEqual(found.allowed, index.subscribe(who, topic_filter, qos, "") == 0)
        named = index.rule_of(who, "subscribe", topic_filter, qos, False)
        deciding = [rule.id for rule in found.deciding]
        self.assertTrue(named in deciding or (named == NO_RULE and not deciding), (named, deciding))
        if found.example:
            self.assertTrue(matches(topic_filter, found.example))
            decided = naive.decide(rows, who, "subscribe", found.example, qos, False)
            self.assertEqual(decided, not strict)
        elif "+" in topic_filter or "#" in topic_filter:
            self.assertEqual(found.allowed, strict)  # there is none, as all of it is, or nothing


class TextTests(SynchronousTestCase):
    maxDiff = None

    def setUp(self) -> None:
        self.index = index_of(POLICY)
        self.olga = client("olga", tenant="plant")

    def test_role_path_places_values_and_revision(self) -> None:
        found = explain(self.index, self.olga, "receive", "devices/d1/rpm")
        (rule,) = found.deciding
        self.assertTrue(found.allowed)
        self.assertEqual(rule.place, "policy.csv:1")
        self.assertEqual(
            [(step.subject, step.place) for step in rule.path],
            [("user:olga", ""), ("role:operator", "policy.csv:4"), ("role:reader", "policy.csv:3")],
        )
        self.assertEqual(found.revision, "5-abcd")
        device = client("", "d1", "", "device")
        (rule,) = explain(self.index, device, "publish", "devices/d1/rpm").deciding
        self.assertEqual(rule.values, {"%c": "d1"})
        self.assertEqual([step.subject for step in rule.path], ["role:device"])

    def test_a_deny_and_what_it_overrules(self) -> None:
        found = explain(self.index, self.olga, "receive", "devices/secret/x")
        self.assertFalse(found.allowed)
        self.assertEqual([rule.place for rule in found.deciding], ["policy.csv:5"])
        self.assertEqual([rule.place for rule in found.overruled], ["policy.csv:1"])
        self.assertEqual(found.nearest, ())

    def test_a_refused_subscription_has_a_counter_example(self) -> None:
        found = explain(self.index, self.olga, "subscribe", "$share/g/devices/#")
        self.assertEqual(found.example, "devices/secret")
        self.assertEqual(found.reason, "the filter matches devices/secret, which a rule denies")
        found = explain(self.index, self.olga, "subscribe", "+/d1")
        self.assertEqual(found.reason, "the filter matches any/d1, which no rule allows")
        self.assertEqual(found.nearest[0].place, "policy.csv:1")
        self.index.strict = False
        found = explain(self.index, self.olga, "subscribe", "#")
        self.assertTrue(found.allowed)
        self.assertIn("receive", found.reason)

    def nearest(
        self, who: Principal, action: str, topic: str, qos: int = 0
    ) -> tuple[str, str, str]:
        found = explain(self.index, who, action, topic, qos, retain=True)
        self.assertEqual((found.allowed, found.reason), (False, "no rule allows it"))
        near = found.nearest[0]
        return near.place, near.failed, near.why

    def test_the_nearest_rule_and_what_failed_first(self) -> None:
        command = "devices/d1/commands/stop"
        self.assertEqual(
            self.nearest(self.olga, "publish", command),
            ("policy.csv:2", "condition", "retain=no is not met"),
        )
        self.assertEqual(
            self.nearest(client("bob"), "receive", "devices/d1"),
            (
                "policy.csv:1",
                "subject",
                "the client is not role:reader and does not have that role",
            ),
        )
        self.assertEqual(
            self.nearest(self.olga, "receive", "device/d1"),
            ("policy.csv:1", "topic", "level 1 is 'device', the rule has 'devices'"),
        )
        device = client("", "d1", "", "device")
        self.assertEqual(
            self.nearest(device, "publish", "devices/d2/x"),
            ("policy.csv:6", "topic", "level 2 is 'd2', the rule has 'd1'"),
        )
        self.assertEqual(
            self.nearest(device, "publish", "devices/d1/x", 2),
            ("policy.csv:6", "condition", "qos<=1 is not met"),
        )
        place, failed, why = self.nearest(client("", "a/b", "", "device"), "publish", "devices/a/b")
        self.assertEqual((place, failed), ("policy.csv:6", "topic"))
        self.assertIn("a value with + # / or NUL never counts", why)
        self.assertIn(
            "no value for %c",
            self.nearest(client("", "", "", "device"), "publish", "devices//b")[2],
        )

    def test_tenants_and_actions(self) -> None:
        index = index_of(
            "p, role:everyone, t1, publish, a, any, allow\n"
            "p, role:everyone, *, receive, b, any, allow"
        )
        near = explain(index, client("u"), "publish", "a").nearest[0]
        self.assertEqual(
            (near.failed, near.why), ("tenant", "the rule is for 't1', the client's is none")
        )
        near = explain(index, client("u"), "publish", "b").nearest[0]
        self.assertEqual((near.failed, near.why), ("action", "the rule is for receive"))

    def test_wills_connects_and_the_brokers_own_topics(self) -> None:
        index = index_of(
            "p, role:everyone, *, *, #, any, allow\np, role:everyone, *, *, $SYS/#, any, allow"
        )
        self.assertTrue(explain(index, client("u"), "will", "a", 1, True).allowed)
        self.assertTrue(explain(index, client("u", "c1"), "connect").allowed)
        self.assertEqual(explain(index, client("u", "c1"), "connect").topic, "c1")
        found = explain(index, client("u"), "publish", "$SYS/x")
        self.assertFalse(found.allowed)
        self.assertIn("broker's own", found.reason)
        self.assertTrue(explain(index, client("u"), "receive", "$SYS/x").allowed)

    def test_a_grant_that_cannot_be_read(self) -> None:
        who = client("u")
        who.grants = ("publish, a, any",)
        found = explain(self.index, who, "publish", "a")
        self.assertIn("grant 1", found.reason)

    def test_what_nobody_can_ask(self) -> None:
        for action, topic, qos in (
            ("write", "a", 0),
            ("publish", "a/+", 0),
            ("publish", "", 0),
            ("receive", "#", 0),
            ("subscribe", "a/#/b", 0),
            ("publish", "a", 3),
            ("publish", "a\0", 0),
        ):
            self.assertRaises(ValueError, explain, self.index, self.olga, action, topic, qos)

    def test_as_json_and_for_a_terminal(self) -> None:
        found = explain(self.index, self.olga, "receive", "devices/d1/rpm")
        again = json.loads(json.dumps(found.to_json()))
        self.assertEqual(again["deciding"][0]["path"][1]["subject"], "role:operator")
        row = f"{found.deciding[0].id}  p, role:reader, *, subscribe|receive, devices/#, any, allow"
        self.assertEqual(
            lines(found),
            [
                "allowed: a rule allows it, and none denies it",
                f"  by {row}  (policy.csv:1)",
                "     for user:olga -> role:operator -> role:reader",
                "  revision 5-abcd",
            ],
        )
        near = lines(explain(self.index, self.olga, "receive", "device/d1"))
        self.assertIn(
            "     but the topic does not match: level 1 is 'device', the rule has 'devices'", near
        )
