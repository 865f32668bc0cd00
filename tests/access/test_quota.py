"""Limits of users and roles: what may stand there, and what a user has of them."""

from pathlib import Path
from typing import Any
from unittest import TestCase

from mhub.access.quota import LimitsError, Quotas, check_limits, merge
from mhub.core.limits import Limits
from mhub.core.quota import NAMES

DOCS = Path(__file__).absolute().parent.parent.parent / "docs"


class CheckTests(TestCase):
    def test_values_are_those_of_the_configuration(self) -> None:
        found = check_limits(
            {"max_messages_per_s": 5, "max_bytes_per_s": "1 MiB", "over_bytes_per_s": "drop"}
        )
        self.assertEqual(
            found,
            {"max_messages_per_s": 5.0, "max_bytes_per_s": 1 << 20, "over_bytes_per_s": "drop"},
        )

    def test_nothing(self) -> None:
        self.assertEqual(check_limits({}), {})

    def assertWrong(self, value: object, *texts: str) -> None:
        with self.assertRaises(LimitsError) as caught:
            check_limits(value)
        self.assertEqual(len(caught.exception.problems), len(texts), caught.exception.problems)
        for problem, text in zip(caught.exception.problems, texts, strict=True):
            self.assertIn(text, problem)

    def test_all_that_is_wrong_is_said(self) -> None:
        self.assertWrong(
            {"max_messages_per_s": -1, "max_mesages_per_s": 1, "over_messages_per_s": "die"},
            "limits.max_messages_per_s: expected a number from 0",
            'limits.max_mesages_per_s: unknown key; did you mean "max_messages_per_s"?',
            'limits.over_messages_per_s: expected one of "delay", "drop", "disconnect"',
        )

    def test_what_is_no_object(self) -> None:
        for value in ([], "x", 5, None):
            self.assertWrong(value, "expected an object")

    def test_what_is_not_for_one_user(self) -> None:
        for name in ("max_tenant_sessions", "max_listener_bytes_per_s", "max_connects_per_s"):
            self.assertWrong({name: 1}, f"limits.{name}: unknown key")

    def test_numbers_that_are_none(self) -> None:
        for value in (True, "5", float("nan"), float("inf"), [5]):
            self.assertWrong({"max_messages_per_s": value}, "expected a number")

    def test_the_documentation_names_all_of_them(self) -> None:
        text = (DOCS / "limits.md").read_text("utf-8")
        found = text[text.index("These can be set:") : text.index("Those of tenants")]
        self.assertEqual(found.count("`") // 2, len(NAMES))
        for name in NAMES:
            self.assertIn(f"`{name}`", found)


class MergeTests(TestCase):
    def check(self, expected: dict[str, Any], user: dict[str, Any], *roles: dict[str, Any]) -> None:
        self.assertEqual(merge(user, roles), expected)
        self.assertEqual(merge(user, reversed(roles)), expected)

    def test_the_user_before_its_roles(self) -> None:
        self.check(
            {"max_messages_per_s": 1.0, "max_subscriptions": 9},
            {"max_messages_per_s": 1.0},
            {"max_messages_per_s": 100.0, "max_subscriptions": 9},
        )

    def test_the_most_generous_role(self) -> None:
        self.check(
            {"max_messages_per_s": 7.0},
            {},
            {"max_messages_per_s": 5.0},
            {},
            {"max_messages_per_s": 7.0},
        )

    def test_any_number_is_the_most(self) -> None:
        self.check(
            {"max_user_connections": 0},
            {},
            {"max_user_connections": 0},
            {"max_user_connections": 9},
        )

    def test_a_user_may_have_less_than_any_number(self) -> None:
        self.check(
            {"max_user_connections": 2}, {"max_user_connections": 2}, {"max_user_connections": 0}
        )

    def test_the_milder_action(self) -> None:
        name = "over_messages_per_s"
        self.check({name: "delay"}, {}, {name: "drop"}, {name: "delay"}, {name: "disconnect"})
        self.check({name: "drop"}, {}, {name: "drop"}, {name: "disconnect"})

    def test_bounds_of_which_0_is_no_value(self) -> None:
        self.check({"rate_burst_s": 5.0}, {}, {"rate_burst_s": 5.0}, {"rate_burst_s": 1.0})


class QuotasTests(TestCase):
    def test_nothing_is_the_listeners(self) -> None:
        self.assertIsNone(Quotas().of({}, [{}, {}]))

    def test_users_with_the_same_limits_share_them(self) -> None:
        quotas = Quotas()
        one = quotas.of({}, [check_limits({"max_bytes_per_s": "1 KiB"})])
        other = quotas.of(check_limits({"max_bytes_per_s": 1024}), [])
        self.assertIs(one, other)

    def test_on_top_of_a_listener(self) -> None:
        quota = Quotas().of(check_limits({"max_messages_per_s": 5}), [])
        assert quota is not None
        limits = Limits(max_qos=1, max_messages_per_s=50)
        found = quota.on_top_of(limits)
        self.assertEqual((found.max_qos, found.max_messages_per_s), (1, 5.0))
        self.assertIs(quota.on_top_of(limits), found)
