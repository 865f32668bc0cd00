"""The names of what there is to administer, in rules and in the scopes of tokens."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.access.policy import Policy, read_csv
from mhub.access.resources import RESOURCES, check_resource, unknown_resource
from mhub.access.scopes import FORBIDDEN, check_scope, scopes_allow


class ResourceTests(SynchronousTestCase):
    def test_what_there_is(self) -> None:
        for name in (*RESOURCES, "x/hello"):
            check_resource(name)
            self.assertEqual(unknown_resource(name), "")
        for name in ("", "x", "x/", "x/a/b", "#", "x/#", "clients/a", "Clients"):
            self.assertRaises(ValueError, check_resource, name)

    def test_what_a_rule_may_have(self) -> None:
        for pattern in ("#", "+", "+/#", "+/+", "x/#", "x/+", "clients/#", "x/hello"):
            self.assertEqual(unknown_resource(pattern), "", pattern)
        for pattern in ("x", "clients/a", "+/a", "x/a/b", "$SYS/#", "topic"):
            self.assertNotEqual(unknown_resource(pattern), "", pattern)

    def test_a_resource_that_is_misspelt_is_a_warning(self) -> None:
        policy = Policy(
            read_csv(
                "p, role:a, *, admin:read, cleints, any, allow\n"
                "p, role:a, *, admin:read, clients, any, allow\n"
                "p, role:a, *, publish, cleints, any, allow\n",
                "f",
            )
        )
        (warning,) = policy.warnings()
        self.assertEqual(
            str(warning), "f:1: there is no resource 'cleints'; did you mean 'clients'?"
        )


class ScopeTests(SynchronousTestCase):
    def test_what_they_allow(self) -> None:
        self.assertTrue(scopes_allow(["read"], "read", "users"))
        self.assertFalse(scopes_allow(["read"], "write", "clients"))
        self.assertFalse(scopes_allow(["write"], "read", "clients"))
        self.assertTrue(scopes_allow(["mqtt", "write:x/a"], "write", "x/a"))
        self.assertFalse(scopes_allow(["mqtt", "metrics"], "read", "stats"))

    def test_what_no_token_may(self) -> None:
        for verb, resource in FORBIDDEN:
            self.assertFalse(scopes_allow(["read", "write", f"{verb}:{resource}"], verb, resource))
            self.assertRaises(ValueError, check_scope, f"{verb}:{resource}")

    def test_how_they_are_written(self) -> None:
        for scope in ("read", "write", "mqtt", "metrics", "read:users", "write:x/hello"):
            check_scope(scope)
        for scope in ("", "red", "admin:read", "read:", "read:nothing", "mqtt:a", "read:#"):
            self.assertRaises(ValueError, check_scope, scope)
