"""Containment, by brute force: each topic over a small alphabet, up to a level behind all patterns.

The alphabet has all names that can stand in a pattern, also by way of a placeholder, with one that
begins with `$`; and a name that stands in none.
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

NAMES = ("a", "b", "$x", UNUSED)
LONGEST = 4  # patterns have three levels and perhaps "#"
TOPICS = [
    "/".join(levels)
    for length in range(1, LONGEST + 1)
    for levels in itertools.product(NAMES, repeat=length)
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


clients = st.builds(client, st.sampled_from(("b", "$x", "+", "")), st.lists(grants, max_size=2))


def wrong_containment(rows: list[Fields], who: Principal, topic_filter: str, qos: int) -> str:
    """What the index says otherwise than an enumeration of topics; "" if nothing."""
    index = policy_of(rows).index()
    view = index.view(who)
    bit = 1 << (6 + qos)
    inside = [topic for topic in TOPICS if matches(topic_filter, topic)]
    answers = {naive.decide(rows, who, "subscribe", topic, qos, False) for topic in inside}
    for strict, expected, example in (
        (True, False not in answers, view.refused(bit, topic_filter.split("/"))),
        (False, True in answers, view.allowed(bit, topic_filter.split("/"))),
    ):
        index.strict = strict
        if (index.subscribe(who, topic_filter, qos, "") == 0) != expected:
            return f"strict {strict}: it should be {expected}"
        if bool(example) == (strict == expected):
            return f"strict {strict}: an example {example}"
        if example:
            topic = readable(example, view.names())
            if "\0" in topic or not matches(topic_filter, topic):
                return f"{topic!r} is not in the filter"
            if naive.decide(rows, who, "subscribe", topic, qos, False) == strict:
                return f"{topic!r} is no example for strict {strict}"
    return ""


cases = (st.lists(rules, max_size=8, unique=True), clients, filters, st.integers(0, 2))


class ContainmentTests(TestCase):
    @given(*cases)
    @steady
    def test_it_is_what_an_enumeration_says_with_an_example(
        self, rows: list[Fields], who: Principal, topic_filter: str, qos: int
    ) -> None:
        """Strict: each topic of the filter is allowed.  Else: one of them is."""
        self.assertEqual(wrong_containment(rows, who, topic_filter, qos), "")

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
