"""The index decides as PyCasbin does, and both as the specification reads.

`make policy-proof` asks 100,000 questions more, other ones each time.
"""

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.core.principal import Principal
from tests.access import naive
from tests.access.kept import KEPT
from tests.access.strategies import policies, principals, questions
from tests.access.three import Fields, Question, differences
from tests.helpers.splits import steady


class ThreeTests(TestCase):
    @given(policies, st.lists(principals, min_size=2, max_size=4), st.lists(questions, min_size=4))
    @steady
    def test_all_three_say_the_same(
        self, rows: list[Fields], clients: list[Principal], asked: list[Question]
    ) -> None:
        self.assertEqual(differences(rows, clients, asked), [])

    def test_what_once_differed(self) -> None:
        for rows, who, question, expected in KEPT:
            self.assertEqual(differences(rows, [who], [question]), [])
            self.assertEqual(naive.decide(rows, who, *question), expected)

    def test_an_empty_policy_allows_nothing(self) -> None:
        """PyCasbin asks its matcher about a row of empty fields then."""
        who = Principal("", "")
        self.assertEqual(differences([], [who], [("publish", "a", 0, False)]), [])
        self.assertFalse(naive.decide([], who, "publish", "a", 0, False))


class CoverageTests(TestCase):
    """The random cases are worth something: both answers, and by each reason."""

    def test_answers_of_both_kinds_are_frequent(self) -> None:
        answers: list[bool] = []

        @given(policies, principals, questions)
        @steady
        def run(rows: list[Fields], who: Principal, question: Question) -> None:
            answers.append(naive.decide(rows, who, *question))

        run()
        self.assertGreater(sum(answers), len(answers) // 20)
        self.assertLess(sum(answers), len(answers) // 2)
