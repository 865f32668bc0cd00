"""`mhub ctl policy diff`: whom it is about, and that nobody is left out."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.access.policy import Policy, read_csv
from mhub.access.population import compare, population

BASE = """
p, role:authenticated, *, connect, #, any, allow
p, role:device, *, publish, devices/%c/#, any, allow
p, role:reader, *, subscribe|receive, devices/#, any, allow
g, user:alice, role:device, *
g, user:alice, role:reader, *
g, user:bob, role:reader, *
g, user:carol, role:device, acme
"""


def policy(text: str) -> Policy:
    return Policy(read_csv(text, "p.csv"))


class CompareTests(SynchronousTestCase):
    def changes(self, old: str, new: str) -> dict[str, list[str]]:
        """What flips, by who it is."""
        return {
            who: [
                f"{'+' if flip.allowed else '-'} {flip.action} {flip.topics}"
                + "".join(f" not {each}" for each in flip.exceptions)
                for flip in each.flips
            ]
            for each in compare(policy(old), policy(new))
            for who in each.who
        }

    def test_nothing(self) -> None:
        self.assertEqual(self.changes(BASE, BASE), {})

    def test_a_role(self) -> None:
        """Those who have it, alone or beside others, and nobody else."""
        found = self.changes(BASE, BASE + "p, role:reader, *, publish, notes/%u, any, allow\n")
        self.assertEqual(
            found,
            {
                "role:reader": ["+ publish notes/%u"],
                "role:device with role:reader (user:alice)": ["+ publish notes/%u"],
            },
        )

    def test_a_deny_that_matters_to_some(self) -> None:
        deny = "p, role:reader, *, publish, devices/+/secret, any, deny\n"
        found = self.changes(BASE, BASE + deny)
        self.assertEqual(
            found,
            {"role:device with role:reader (user:alice)": ["- publish devices/%c/secret"]},
        )

    def test_a_user(self) -> None:
        found = self.changes(BASE, BASE + "p, user:bob, *, receive, x/#, any, allow\n")
        self.assertEqual(found, {"user:bob": ["+ receive x/#"]})

    def test_a_role_that_is_taken(self) -> None:
        found = self.changes(BASE, BASE.replace("g, user:bob, role:reader, *\n", ""))
        self.assertEqual(found, {"user:bob": ["- subscribe devices/#", "- receive devices/#"]})

    def test_tenants(self) -> None:
        found = self.changes(BASE, BASE + "p, role:device, acme, publish, t/%t, any, allow\n")
        self.assertEqual(
            found,
            {
                "role:device in tenant acme": ["+ publish t/acme"],
                "role:device in tenant acme (user:carol)": ["+ publish t/acme"],
            },
        )

    def test_everybody(self) -> None:
        found = self.changes(
            BASE, BASE + "p, role:anonymous, *, connect, guest-%{cn}, any, allow\n"
        )
        self.assertEqual(found, {"anonymous clients": ["+ connect guest-%{cn}"]})
        found = self.changes(BASE, BASE + "p, role:everyone, *, publish, %{site}/x, any, allow\n")
        self.assertEqual(set().union(*found.values()), {"+ publish %{site}/x"})
        self.assertEqual(len(found), 6)

    def test_many_alike_are_one(self) -> None:
        text = BASE + "".join(
            f"g, user:u{n}, role:device, *\ng, user:u{n}, role:reader, *\n" for n in range(100)
        )
        names = [who for who, _ in population(policy(text), policy(text))]
        self.assertEqual(len(names), 6)
        self.assertIn("and 96 more", names[-2] + names[-1])
