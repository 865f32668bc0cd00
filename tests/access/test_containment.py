"""Containment, by brute force: each topic over a small alphabet, up to a level behind all patterns.

The alphabet has a name that stands in no pattern, and a first level with `$`.
"""

import itertools
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.access.containment import readable
from mhub.core.principal import Principal
from mhub.wire.topics import matches
from tests.access import naive
from tests.access.strategies import UNUSED, filters, rule, whole
from tests.access.three import Fields, policy_of
from tests.helpers.splits import steady

NAMES = ("a", "b", UNUSED)
LONGEST = 5
TOPICS = [
    "/".join([first, *rest])
    for length in range(LONGEST)
    for first in (*NAMES, "$x")
    for rest in itertools.product(NAMES, repeat=length)
]

levels = st.sampled_from(("a", "b", "+", "+", "%u", "%c"))
firsts = st.sampled_from(("a", "b", "+", "+", "%u", "$x", "%c"))
patterns = st.one_of(
    st.sampled_from(("#", "+/#", "a/#", "$x/#")),
    st.builds(
        lambda first, rest, tail: "/".join([first, *rest, *(["#"] if tail else [])]),
        firsts,
        st.lists(levels, max_size=2),
        st.booleans(),
    ),
)
effects = st.sampled_from(("allow", "allow", "allow", "deny"))
subjects = st.sampled_from(("role:everyone", "role:everyone", "user:a", "role:other"))
acts = st.one_of(
    st.just(("subscribe", "any")), whole, st.just(("subscribe", "qos<=1")), st.just(("*", "any"))
)
rules = st.builds(rule, subjects, st.just("*"), acts, patterns, effects)
grants = st.builds(
    lambda pattern, effect: f"subscribe, {pattern}, any, {effect}", patterns, effects
)


def client(client_id: str, own: list[str]) -> Principal:
    who = Principal("", "")
    who.user = "a"
    who.client_id = client_id
    who.grants = tuple(own)
    return who


clients = st.builds(
    client, st.sampled_from(("b", "$x", "+", "", UNUSED)), st.lists(grants, max_size=2)
)


class ContainmentTests(TestCase):
    @given(st.lists(rules, max_size=8, unique=True), clients, filters, st.integers(0, 2))
    @steady
    def test_strict_is_all_topics_of_the_filter(
        self, rows: list[Fields], who: Principal, topic_filter: str, qos: int
    ) -> None:
        index = policy_of(rows).index()
        inside = [topic for topic in TOPICS if matches(topic_filter, topic)]
        denied = [t for t in inside if not naive.decide(rows, who, "subscribe", t, qos, False)]
        self.assertEqual(index.subscribe(who, topic_filter, qos, "") == 0, not denied)

    @given(st.lists(rules, max_size=8, unique=True), clients, filters, st.integers(0, 2))
    @steady
    def test_a_refusal_has_a_counter_example(
        self, rows: list[Fields], who: Principal, topic_filter: str, qos: int
    ) -> None:
        view = policy_of(rows).index().view(who)
        found = view.refused(1 << (6 + qos), topic_filter.split("/"))
        if found:
            topic = readable(found, view.names())
            self.assertTrue(matches(topic_filter, topic), topic)
            self.assertNotIn("\0", topic)
            self.assertFalse(naive.decide(rows, who, "subscribe", topic, qos, False), topic)

    @given(st.lists(rules, max_size=8, unique=True), clients, filters, st.integers(0, 2))
    @steady
    def test_else_it_is_any_topic_of_the_filter(
        self, rows: list[Fields], who: Principal, topic_filter: str, qos: int
    ) -> None:
        index = policy_of(rows).index()
        index.strict = False
        inside = [topic for topic in TOPICS if matches(topic_filter, topic)]
        expected = any(naive.decide(rows, who, "subscribe", t, qos, False) for t in inside)
        self.assertEqual(index.subscribe(who, topic_filter, qos, "") == 0, expected)
        view = index.view(who)
        found = view.allowed(1 << (6 + qos), topic_filter.split("/"))
        if found:
            topic = readable(found, view.names())
            self.assertTrue(matches(topic_filter, topic), topic)
            self.assertTrue(naive.decide(rows, who, "subscribe", topic, qos, False), topic)

    def test_the_random_filters_are_refused_and_allowed(self) -> None:
        answers: list[bool] = []

        @given(st.lists(rules, max_size=8, unique=True), clients, filters)
        @steady
        def run(rows: list[Fields], who: Principal, topic_filter: str) -> None:
            answers.append(policy_of(rows).index().subscribe(who, topic_filter, 0, "") == 0)

        run()
        self.assertGreater(sum(answers), len(answers) // 20)
        self.assertLess(sum(answers), len(answers) * 3 // 4)


class ReadableTests(TestCase):
    def test_a_name_that_stands_in_no_pattern(self) -> None:
        self.assertEqual(readable(["a", "\0"], {"any", "any2"}), "a/any3")
        self.assertEqual(readable(["any", "\0"], set()), "any/any2")
