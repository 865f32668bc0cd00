"""`mhub ctl policy test` and `mhub ctl policy check`: expectations, and a second opinion."""

from typing import Any
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mhub.access.expectations import Expectation, is_allowed, read_expectations, stranger
from mhub.access.index import Index
from mhub.access.policy import Policy, PolicyError, default_rows, read_csv
from mhub.access.second_opinion import compare
from mhub.core.principal import Principal

POLICY = """
p, role:everyone, *, connect, dev-1, any, allow
p, role:device, *, publish, d/%u/%c, qos<=1&retain=no, allow
p, role:device, acme, receive, t/%t/%{site}/%{cn}, any, allow
p, role:reader, *, subscribe|receive, d/#, any, allow
p, role:reader, *, receive, d/secret, any, deny
g, user:alice, role:reader, *
"""


class ReadTests(SynchronousTestCase):
    def one(self, line: str, **more: Any) -> Expectation:
        (found,) = read_expectations(line, "t.csv", **more)
        return found

    def test_who(self) -> None:
        who = self.one("allow, user:al%2Cice, publish, a").question.principal
        self.assertEqual((who.user, who.roles), ("al,ice", ()))
        who = self.one("allow, role:device, publish, a, role=other").question.principal
        self.assertEqual((who.user, who.roles), ("device", ("device", "other")))
        who = self.one("deny, anonymous, publish, a, client=c, cn=n").question.principal
        self.assertEqual((who.user, who.client_id), ("", "c"))
        self.assertEqual(who.certificate.common_name, "n")
        line = "allow, role:x, publish, a, user=u, tenant=t, attribute.site=s, qos=2, retain=yes"
        found = self.one(line).question
        who = found.principal
        self.assertEqual((who.user, who.tenant, who.attributes), ("u", "t", {"site": "s"}))
        self.assertEqual((found.qos, found.retain), (2, True))

    def test_users_are_looked_up(self) -> None:
        def lookup(name: str) -> Principal:
            principal = stranger(name)
            principal.tenant = "acme"
            return principal

        found = self.one("allow, user:alice, publish, a", lookup=lookup)
        self.assertEqual(found.question.principal.tenant, "acme")

    def test_connect_and_shared(self) -> None:
        found = self.one("allow, anonymous, connect, dev-1").question
        self.assertEqual((found.topic, found.principal.client_id), ("dev-1", "dev-1"))
        self.assertEqual(self.one("deny, anonymous, subscribe, $share/g/a/#").question.topic, "a/#")

    def test_comments(self) -> None:
        found = read_expectations("# one\n\n  allow, anonymous, publish, a  \n", "t.csv")
        self.assertEqual([each.place for each in found], ["t.csv:3"])

    def test_all_mistakes_with_their_lines(self) -> None:
        text = """permit, anonymous, publish, a
allow, anonymous, publish
allow, alice, publish, a
allow, user:alice, publihs, a
allow, user:alice, publish, a/#
allow, user:alice, subscribe, a/#/b
allow, user:alice, publish, a, cleint=x
allow, user:alice, publish, a, qos=3
allow, user:alice, publish, a, retain=maybe
deny, anonymous, publish, a, user=alice
allow, user:alice, publish, a
"""
        error = self.assertRaises(PolicyError, read_expectations, text, "t.csv")
        self.assertEqual(
            [each.place for each in error.errors], [f"t.csv:{number}" for number in range(1, 11)]
        )
        self.assertIn("did you mean 'publish'?", str(error.errors[3]))
        self.assertIn("did you mean 'client'?", str(error.errors[6]))


class DecideTests(SynchronousTestCase):
    def test_decisions(self) -> None:
        index = Policy(read_csv(POLICY, "p.csv")).index()
        text = """
allow, role:device, publish, d/u/c, user=u, client=c, qos=1
deny, role:device, publish, d/u/c, user=u, client=c, qos=2
deny, role:device, publish, d/u/c, user=u, client=c, retain=yes
deny, role:device, publish, d/u/x, user=u, client=c
allow, role:device, receive, t/acme/s/n, tenant=acme, attribute.site=s, cn=n
deny, role:device, receive, t/acme/s/n, tenant=other, attribute.site=s, cn=n
deny, user:alice, subscribe, #
allow, user:alice, subscribe, d/+
deny, user:alice, receive, d/secret
deny, anonymous, connect, other
"""
        wrong = [
            each.text
            for each in read_expectations(text, "t.csv")
            if is_allowed(index, each.question) != each.allowed
        ]
        self.assertEqual(wrong, [])


class OpinionTests(SynchronousTestCase):
    def test_alike(self) -> None:
        for rows in (default_rows(), read_csv(POLICY, "p.csv")):
            opinion = compare(Policy(rows))
            self.assertEqual(opinion.differences, [])
            self.assertGreater(opinion.compared, 50)

    def test_a_difference_is_found(self) -> None:
        """An index that lets everybody receive everything."""
        with mock.patch.object(Index, "receive", lambda *_: True):
            opinion = compare(Policy(default_rows()))
        self.assertIn("receive", opinion.differences[0])
        self.assertIn("default.csv:", opinion.differences[0])

    def test_patience(self) -> None:
        """It ends in time, with rows from all over the policy."""
        times = iter(range(1000))
        opinion = compare(Policy(default_rows()), lambda: float(next(times)), 3.0)
        self.assertLess(opinion.compared, compare(Policy(default_rows())).compared)
