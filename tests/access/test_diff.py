"""What flips between two policies, by enumeration: each topic over a small alphabet.

The alphabet is that of the tests of containment.
"""

import json
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.access.diff import Flip, diff
from mhub.access.policy import Policy, read_csv
from mhub.core.principal import Principal
from tests.access import naive
from tests.access.strategies import admin_acts, effects, links, resources, rule, subjects, whole
from tests.access.test_containment import LONGEST, TOPICS
from tests.access.test_containment import patterns as small_patterns
from tests.access.three import Fields, policy_of
from tests.helpers.splits import steady

acts = st.one_of(
    whole,
    st.sampled_from((("publish", "qos<=1"), ("publish", "retain=no"), ("subscribe", "qos=1"))),
)
topic_rules = st.builds(rule, subjects, st.sampled_from(("*", "t1")), acts, small_patterns, effects)
rules = st.one_of(
    topic_rules,
    topic_rules,
    topic_rules,
    st.builds(rule, subjects, st.sampled_from(("*", "t1")), admin_acts, resources, effects),
)
policies = st.builds(
    lambda p, g: list(dict.fromkeys([*p, *g])),
    st.lists(rules, max_size=6),
    st.lists(links(), max_size=2),
)
QUESTIONS = [
    *(("publish", qos, retain) for qos in range(3) for retain in (False, True)),
    *(("subscribe", qos, False) for qos in range(3)),
    ("receive", 0, False),
    ("connect", 0, False),
    ("admin:read", 0, False),
    ("admin:write", 0, False),
]


def client(user: str, client_id: str, role: str, own: list[str]) -> Principal:
    who = Principal("", "")
    who.user = user
    who.client_id = client_id
    who.roles = (role,)
    who.tenant = "t1"
    who.grants = tuple(own)
    return who


clients = st.builds(
    client,
    st.sampled_from(("a", "", "$x")),
    st.sampled_from(("b", "")),
    st.sampled_from(("r1", "r2")),
    st.sampled_from(([], ["publish, a/+, any, allow"], ["*, b/#, any, deny"])),
)


def holds(condition: str, qos: int, retain: bool) -> bool:
    """A condition of a flip; it may have `or` and `|` beside what rules have."""
    return any(
        all(
            any(naive.holds(one, qos, retain) for one in term.split("|"))
            for term in clause.split("&")
        )
        for clause in condition.split(" or ")
    )


def wrong_flips(
    before: list[Fields], after: list[Fields], both: list[Fields], who: Principal
) -> str:
    """What the flips say otherwise than an enumeration of topics; "" if nothing."""
    old_rows = list(dict.fromkeys([*before, *both]))
    new_rows = list(dict.fromkeys([*after, *both]))
    found = diff(policy_of(old_rows).index(), policy_of(new_rows).index(), [who])
    for action, qos, retain in QUESTIONS:
        flips = [f for f in found if f.action == action and holds(f.condition, qos, retain)]
        topics = [who.client_id] if action == "connect" and who.client_id else TOPICS
        for topic in topics:
            old = naive.decide(old_rows, who, action, topic, qos, retain)
            new = naive.decide(new_rows, who, action, topic, qos, retain)
            covering = [flip.allowed for flip in flips if flip.covers(topic)]
            if covering != ([new] if old != new else []):
                return f"{action} {topic} {qos} {retain}: {old} -> {new}, but {flips}"
    return ""


cases = (policies, policies, st.lists(rules, max_size=3), clients)


class EnumerationTests(TestCase):
    @given(*cases)
    @steady
    def test_exactly_what_flips(
        self, before: list[Fields], after: list[Fields], both: list[Fields], who: Principal
    ) -> None:
        self.assertEqual(wrong_flips(before, after, both, who), "")

    @given(policies, clients)
    @steady
    def test_nothing_flips_if_nothing_changes(self, rows: list[Fields], who: Principal) -> None:
        other_order = list(reversed(rows))
        self.assertEqual(diff(policy_of(rows).index(), policy_of(other_order).index(), [who]), [])

    def test_the_enumeration_goes_a_level_beyond_all_patterns(self) -> None:
        @given(small_patterns)
        @steady
        def run(pattern: str) -> None:
            self.assertLess(len(pattern.removesuffix("/#").split("/")), LONGEST)

        run()


def flips(before: str, after: str, who: Principal) -> list[Flip]:
    old, new = (Policy(read_csv(text, "f")).index() for text in (before, after))
    return diff(old, new, [who])


class TextTests(TestCase):
    """How it is written: as few filters as say it."""

    ALLOW = "p, role:r1, *, publish, a/#, any, allow\n"

    def who(self) -> Principal:
        return client("a", "%c", "r1", [])

    def seen(self, before: str, after: str) -> list[tuple[str, str, bool, str, tuple[str, ...]]]:
        return [
            (f.action, f.condition, f.allowed, f.topics, f.exceptions)
            for f in flips(before, after, self.who())
        ]

    def test_a_rule_more_or_less(self) -> None:
        self.assertEqual(self.seen("", self.ALLOW), [("publish", "any", True, "a/#", ())])
        self.assertEqual(self.seen(self.ALLOW, ""), [("publish", "any", False, "a/#", ())])

    def test_a_rule_inside_of_another(self) -> None:
        inner = "p, role:r1, *, publish, a/b/+, qos<=1, allow\n"
        self.assertEqual(self.seen(self.ALLOW, self.ALLOW + inner), [])
        self.assertEqual(
            self.seen(inner, self.ALLOW),
            [
                ("publish", "any", True, "a/#", ("a/b/#",)),
                ("publish", "any", True, "a/b", ()),
                ("publish", "qos=2", True, "a/b/+", ()),
                ("publish", "any", True, "a/b/+/+/#", ()),
            ],
        )

    def test_a_deny_with_exceptions(self) -> None:
        deny = "p, role:everyone, *, publish, +/x, retain=yes, deny\n"
        self.assertEqual(
            self.seen(self.ALLOW, self.ALLOW + deny),
            [("publish", "retain=yes", False, "a/x", ())],
        )

    def test_placeholders_of_a_client_in_general(self) -> None:
        after = "p, role:r1, *, receive, devices/%c/#, any, allow\n"
        self.assertEqual(self.seen("", after), [("receive", "any", True, "devices/%c/#", ())])

    def test_all_topics_are_one_filter(self) -> None:
        after = "p, role:r1, *, receive, #, any, allow\np, role:r1, *, receive, $x/#, any, allow\n"
        self.assertEqual(
            self.seen("", after),
            [("receive", "any", True, "#", ()), ("receive", "any", True, "$x/#", ())],
        )

    def test_roles(self) -> None:
        before = "p, role:r2, *, receive, a, any, allow\n"
        after = before + "g, role:r1, role:r2, *\n"
        (flip,) = flips(before, after, self.who())
        self.assertEqual((flip.topics, flip.allowed, len(flip.rules)), ("a", True, 1))
        self.assertEqual(json.loads(json.dumps(flip.to_json()))["topics"], "a")

    def test_a_client_without_rights_by_any_policy(self) -> None:
        self.assertEqual(flips("", self.ALLOW, client("a", "c", "r1", ["publish, a, any"])), [])

    def test_connect_is_about_the_client_id(self) -> None:
        after = "p, role:r1, *, connect, dev/#, any, allow\n"
        who = client("a", "dev/1", "r1", [])
        (flip,) = flips("", after, who)
        self.assertEqual((flip.action, flip.topics), ("connect", "dev/1"))
        self.assertEqual(flips("", after, client("a", "x", "r1", [])), [])
        self.assertEqual(self.seen("", after), [("connect", "any", True, "dev/#", ())])
