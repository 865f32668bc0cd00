"""API tokens: what is kept of them, what they are found by, and who may make which."""

from mhub.access.entries import Role, User, write
from mhub.access.index import Index
from mhub.access.policy import default_rows
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, Forbidden, NotThere, OperationError, Stale
from tests.access.facade import AccessCase


def who(user: str, *roles: str) -> Principal:
    principal = Principal("", "")
    principal.user = user
    principal.roles = roles
    principal.method = "password"
    return principal


def facts(event: object) -> dict[str, object]:
    """All that an event says; a compiled one has no `__dict__`."""
    names = [name for name in dir(event) if not name.startswith("_")]
    return {name: getattr(event, name) for name in names}


class TokenCase(AccessCase):
    def setUp(self) -> None:
        super().setUp()
        self.do(self.access.rules.change(add=[list(row.fields) for row in default_rows()]))
        self.follow()

    def follow(self) -> None:
        self.rights.rules = Index()
        self.rights.rules.apply(self.directory.rows(), [])


class SecretTests(TokenCase):
    def test_a_token_is_found_by_its_secret_alone(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["read"], ["viewer"]))
        self.assertRegex(made.token, "^mhub_[0-9a-f]{12}_[A-Za-z0-9_-]{43}$")
        found = self.access.tokens.find(made.token)
        self.assertEqual(
            (found.user, found.roles, found.scopes), ("token:ci", ("viewer",), ("read",))
        )
        other = "A" if made.token[-1] != "A" else "B"
        for text in (
            made.token[:-1] + other,
            made.token[:-1],
            made.token + "A",
            made.token.upper(),
            made.token.replace(made.id, "0" * 12),
            f"mhub_{made.id}_",
            "",
            "mhub_é_x",
        ):
            self.assertIsNone(self.access.tokens.find(text), text)

    def test_the_secret_is_kept_nowhere(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["read"], by="root", reason="a build server"))
        secret = made.token.split("_", 2)[2]
        entry = self.registry.get(f"token/{made.id}")
        self.assertNotIn(secret, entry.value)
        self.assertNotIn(secret, repr(self.access.tokens.page()))
        self.assertNotIn(secret, repr([facts(event) for event in self.told.events]))
        self.assertEqual(
            self.told.last(),
            ("root", "tokens.add", 'name "ci", scopes read', "a build server", "done"),
        )

    def test_expiry(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["read"], expires_at=self.now + 10))
        self.assertIsNotNone(self.access.tokens.find(made.token))
        self.now += 10
        self.assertIsNone(self.access.tokens.find(made.token))
        self.assertTrue(self.access.tokens.show(made.id).is_expired)
        why = self.refused(
            self.access.tokens.add("late", ["read"], expires_at=self.now), BadArgument
        )
        self.assertIn("expired", why)

    def test_when_it_was_used(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["read"]))
        self.assertEqual(self.access.tokens.show(made.id).last_used_at, 0.0)
        before = self.registry.revision
        self.access.tokens.find(made.token)
        self.assertEqual(self.access.tokens.show(made.id).last_used_at, self.now)
        self.assertEqual(self.registry.revision, before)

    def test_a_revoked_token_is_gone_with_the_rules_about_it(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["mqtt"]))
        row = ["p", "user:token:ci", "*", "publish", "builds/#", "any", "allow"]
        self.do(self.access.rules.change(add=[row]))
        self.refused(self.access.tokens.delete(made.id, expected="1"), Stale)
        done = self.do(self.access.tokens.delete(made.id, expected=made.version, by="root"))
        self.assertEqual(done.rules, 1)
        self.assertIsNone(self.access.tokens.find(made.token))
        self.refused(self.access.tokens.delete(made.id), NotThere)

    def test_an_entry_that_is_damaged_lets_nobody_in_and_can_be_revoked(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["read"]))
        self.registry.change({f"token/{made.id}": '{"name": "ci", "scopes": 3}'}, 100.0)
        self.assertIsNone(self.access.tokens.find(made.token))
        self.assertEqual(len(self.access.tokens.page().tokens), 1)
        self.do(self.access.tokens.delete(made.id))

    def test_pages(self) -> None:
        for name in ("a", "b", "c"):
            self.do(self.access.tokens.add(name, ["read"]))
        first = self.access.tokens.page(limit=2)
        second = self.access.tokens.page(after=first.tokens[-1].id, limit=2)
        names = [token.name for token in (*first.tokens, *second.tokens)]
        self.assertEqual((sorted(names), first.left, second.left), (["a", "b", "c"], 1, 0))
        self.assertEqual([t.name for t in self.access.tokens.page(match="b*").tokens], ["b"])


class MakingTests(TokenCase):
    def test_what_is_refused(self) -> None:
        tokens = self.access.tokens
        self.do(tokens.add("ci", ["read"]))
        self.assertIn("already", self.refused(tokens.add("ci", ["read"]), OperationError))
        for name, scopes, roles, text in (
            ("a b", ["read"], [], "letters"),
            ("x", [], [], "scopes"),
            ("x", ["raed"], [], "did you mean 'read'"),
            ("x", ["write:users"], [], "no token can"),
            ("x", ["read:cleints"], [], "did you mean 'clients'"),
            ("x", ["read"], ["viwer"], 'did you mean "viewer"'),
            ("x", ["read"], ["everyone"], "given to nobody"),
        ):
            why = self.refused(tokens.add(name, scopes, roles), BadArgument)
            self.assertIn(text, why)
        self.assertEqual(self.told.last()[4], "refused")

    def test_who_makes_one_gives_what_they_have(self) -> None:
        self.registry.change(
            {
                "role/lead": write(Role(parents=("viewer",))),
                "user/eve": write(User(roles=("lead",))),
                "user/root": write(User(roles=("admin",))),
            },
            100.0,
        )
        self.follow()
        tokens = self.access.tokens
        for role in ("lead", "viewer"):
            self.do(tokens.add(role, ["read"], [role], creator=who("eve")))
        why = self.refused(tokens.add("x", ["read"], ["admin"], creator=who("eve")), Forbidden)
        self.assertIn('the role "admin"', why)
        self.refused(tokens.add("x", ["read"], tenant="acme", creator=who("eve")), Forbidden)
        self.do(tokens.add("x", ["read"], ["admin"], "acme", creator=who("root")))

    def test_a_name_that_rules_wait_for_is_not_for_everybody(self) -> None:
        row = ["g", "user:token:deploy", "role:admin", "*"]
        self.do(self.access.rules.change(add=[row]))
        self.follow()
        why = self.refused(
            self.access.tokens.add("deploy", ["write"], creator=who("eve", "viewer")), Forbidden
        )
        self.assertIn("user:token:deploy", why)
        self.do(self.access.tokens.add("deploy", ["write"], creator=who("eve", "admin")))

    def test_no_token_makes_a_token(self) -> None:
        made = self.do(self.access.tokens.add("ci", ["write"], ["admin"]))
        token = self.access.tokens.find(made.token)
        assert token is not None
        self.refused(self.access.tokens.add("x", ["read"], creator=token.principal()), Forbidden)

    def test_no_user_is_called_like_a_token(self) -> None:
        why = self.refused(self.access.users.add("token:ci"), BadArgument)
        self.assertIn("API tokens", why)


class ExplainTests(TokenCase):
    def test_rules_and_scopes(self) -> None:
        self.do(self.access.tokens.add("ci", ["read:stats", "write"], ["admin"]))

        def allowed(action: str, resource: str) -> bool:
            found = self.access.explain(action, resource, user="token:ci").explanation
            return found.allowed

        self.assertTrue(allowed("admin:read", "stats"))
        self.assertFalse(allowed("admin:read", "clients"))
        self.assertTrue(allowed("admin:write", "clients"))
        self.assertFalse(allowed("admin:write", "users"))
        why = self.access.explain("admin:write", "users", user="token:ci")
        self.assertIn("no token may write users", why.explanation.reason)
        self.assertEqual(why.notes, ())
        why = self.access.explain("admin:read", "clients", user="token:ci")
        self.assertIn("scopes", why.explanation.reason)

    def test_a_token_that_has_expired(self) -> None:
        self.do(self.access.tokens.add("ci", ["read"], ["viewer"], expires_at=self.now + 1))
        self.now += 1
        why = self.access.explain("admin:read", "stats", user="token:ci")
        self.assertEqual(why.notes, ('the token "token:ci" has expired',))

    def test_a_resource_that_there_is_not(self) -> None:
        with self.assertRaises(BadArgument) as caught:
            self.access.explain("admin:read", "cleints", user="a")
        self.assertIn("did you mean 'clients'", str(caught.exception))


class AnnounceTests(TokenCase):
    def test_what_is_changed_is_told_and_no_secret(self) -> None:
        do, access = self.do, self.access
        do(access.users.add("bob", "pa55word", values={"note": "x"}, by="root", reason="new"))
        self.assertEqual(
            self.told.last(), ("root", "users.add", 'name "bob", values note', "new", "done")
        )
        do(access.users.passwd("bob", "0ther", by="root"))
        self.assertEqual(self.told.last()[1:3], ("users.passwd", 'name "bob"'))
        do(access.users.lock("bob", True))
        self.assertEqual(
            self.told.last(), ("local", "users.lock", 'name "bob", locked', "", "done")
        )
        do(access.roles.add("r", by="root"))
        do(access.bans.add("user", "eve", reason="spam", by="root"))
        self.assertEqual(
            self.told.last(), ("root", "bans.add", 'kind "user", value "eve"', "spam", "done")
        )
        row = ["p", "role:r", "*", "publish", "a", "any", "allow"]
        do(access.rules.change(add=[row], by="root"))
        self.assertEqual(self.told.last()[1:3], ("rules.change", "add 1"))
        self.refused(access.users.delete("nobody", by="root", reason="why"), NotThere)
        self.assertEqual(
            self.told.last(), ("root", "users.delete", 'name "nobody"', "why", "refused")
        )
        told = repr([facts(event) for event in self.told.events])
        self.assertNotIn("pa55word", told)
        self.assertNotIn("0ther", told)

    def test_a_reason_is_one_line(self) -> None:
        self.refused(self.access.users.add("bob", reason="a\nb"), BadArgument)
