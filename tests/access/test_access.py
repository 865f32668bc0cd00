"""The access interface: what it changes, what it refuses, and that nothing gets lost."""

import json

from twisted.internet.defer import Deferred

from mhub.access.index import Index
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, NotThere, OperationError
from tests.access.facade import AccessCase

DEVICE = ["p", "role:device", "*", "publish", "devices/%c/#", "any", "allow"]
READER = ["p", "role:reader", "*", "subscribe|receive", "devices/#", "any", "allow"]


class UserTests(AccessCase):
    def setUp(self) -> None:
        super().setUp()
        self.do(self.access.roles.add("device"))

    def test_add(self) -> None:
        """One password serves CONNECT and AUTH, and nothing that is given back has either."""
        done = self.do(
            self.access.users.add(
                "alice",
                "secret",
                4096,
                {"roles": ["device"], "tenant": "acme", "attributes": {"site": "hall-1"}},
            )
        )
        self.assertEqual(done.revision, self.registry.revision)
        entry = self.registry.get("user/alice")
        kept = json.loads(entry.value)
        self.assertEqual(kept["password"], "$argon2id$secret")
        self.assertEqual(kept["scram"], "SCRAM-SHA-256$4096:secret")
        self.assertEqual(kept["created_at"], self.now)
        shown = self.access.users.show("alice")
        self.assertEqual(shown.user.roles, ("device",))
        self.assertEqual(shown.user.attributes, {"site": "hall-1"})
        self.assertTrue(shown.user.has_password and shown.user.has_scram)
        self.assertEqual(shown.user.version, done.version)
        self.assertNotIn("secret", json.dumps(shown, default=vars))
        rows = self.directory.rows_of("user/alice")
        self.assertEqual([row.fields for row in rows], [("g", "user:alice", "role:device", "acme")])

    def test_without_password(self) -> None:
        self.do(self.access.users.add("pump"))
        self.assertFalse(self.access.users.show("pump").user.has_password)

    def test_twice(self) -> None:
        self.do(self.access.users.add("alice", "a"))
        text = self.refused(self.access.users.add("alice", "b"), OperationError)
        self.assertIn('there is a user "alice" already', text)

    def test_added_meanwhile(self) -> None:
        """Of two who add the same user at the same time, one does."""
        self.secrets.held = Deferred()
        late = Deferred.fromCoroutine(self.access.users.add("alice", "late"))
        held, self.secrets.held = self.secrets.held, None
        self.do(self.access.users.add("alice", "first"))
        held.callback(None)
        self.failureResultOf(late, OperationError)
        self.assertIn("first", self.registry.get("user/alice").value)

    def test_names(self) -> None:
        """A name is kept in one form; what could not be typed again is refused."""
        self.do(self.access.users.add("ﬁve"))
        self.assertEqual(self.access.users.show("five").user.name, "five")
        for name in ("", " a", "a\x07", "x" * 300):
            self.refused(self.access.users.add(name), BadArgument)

    def test_unknown_role(self) -> None:
        text = self.refused(self.access.users.add("a", "", 0, {"roles": ["devcie"]}), BadArgument)
        self.assertIn('user/a: there is no role "devcie"; did you mean "device"?', text)

    def test_built_in_role(self) -> None:
        text = self.refused(self.access.users.add("a", "", 0, {"roles": ["everyone"]}), BadArgument)
        self.assertIn("given to nobody", text)

    def test_unknown_value(self) -> None:
        text = self.refused(self.access.users.add("a", "", 0, {"role": ["device"]}), BadArgument)
        self.assertIn('did you mean "roles"?', text)
        text = self.refused(self.access.users.add("a", "", 0, {"password": "x"}), BadArgument)
        self.assertIn('"password" cannot be set', text)

    def test_bad_password(self) -> None:
        text = self.refused(self.access.users.add("a", "\x07"), BadArgument)
        self.assertIn("U+0007", text)
        self.do(self.access.users.add("a", "x" * 65535))
        text = self.refused(self.access.users.add("b", "é" * 32768), BadArgument)
        self.assertIn("longer than 65535 bytes", text)

    def test_unknown(self) -> None:
        self.do(self.access.users.add("alice"))
        text = str(self.assertRaises(NotThere, self.access.users.show, "alcie"))
        self.assertEqual(text, 'there is no user "alcie"; did you mean "alice"?')

    def test_set(self) -> None:
        """What is not given stays, the password among it."""
        self.do(self.access.users.add("alice", "secret", 0, {"note": "of the plant"}))
        self.do(self.access.users.update("alice", {"roles": ["device"]}))
        user = self.access.users.show("alice").user
        self.assertEqual((user.roles, user.note), (("device",), "of the plant"))
        self.assertTrue(user.has_password)

    def test_lost_update(self) -> None:
        """Who has read an older version is refused, and what the other one did stays."""
        self.do(self.access.users.add("alice"))
        version = self.access.users.show("alice").user.version
        self.do(self.access.users.update("alice", {"note": "first"}, version))
        text = self.refused(
            self.access.users.update("alice", {"note": "second"}, version), OperationError
        )
        self.assertIn("user/alice was changed meanwhile", text)
        self.refused(self.access.users.delete("alice", version), OperationError)
        self.refused(self.access.users.lock("alice", True, version), OperationError)
        self.refused(self.access.users.passwd("alice", "x", 0, version), OperationError)
        self.assertEqual(self.access.users.show("alice").user.note, "first")

    def test_password_beside_other_changes(self) -> None:
        """A role that is taken away while a password is hashed stays away."""
        self.do(self.access.users.add("alice", "old", 0, {"roles": ["device"]}))
        self.secrets.held = Deferred()
        change = Deferred.fromCoroutine(self.access.users.passwd("alice", "new"))
        held, self.secrets.held = self.secrets.held, None
        self.do(self.access.users.update("alice", {"roles": []}))
        held.callback(None)
        self.successResultOf(change)
        self.assertEqual(self.access.users.show("alice").user.roles, ())
        self.assertIn("$argon2id$new", self.registry.get("user/alice").value)

    def test_password_of_a_user_who_is_deleted_meanwhile(self) -> None:
        self.do(self.access.users.add("alice", "old"))
        self.secrets.held = Deferred()
        change = Deferred.fromCoroutine(self.access.users.passwd("alice", "new"))
        self.do(self.access.users.delete("alice"))
        self.secrets.held.callback(None)
        self.failureResultOf(change, NotThere)
        self.assertIsNone(self.registry.get("user/alice"))

    def test_delete(self) -> None:
        """The rules about a user go with it: who gets the name later does not inherit them."""
        self.do(self.access.users.add("alice", "", 0, {"roles": ["device"]}))
        row = ["p", "user:alice", "*", "publish", "a", "any", "allow"]
        self.do(self.access.rules.change([row, DEVICE]))
        self.assertEqual(self.do(self.access.users.delete("alice")).rules, 1)
        self.assertEqual([rule.row[1] for rule in self.access.rules.page().rules], ["role:device"])
        self.do(self.access.users.add("alice"))
        self.assertEqual(self.access.users.show("alice").rules, ())

    def test_lock(self) -> None:
        self.do(self.access.users.add("alice"))
        self.do(self.access.users.lock("alice", True))
        self.assertTrue(self.access.users.show("alice").user.locked)
        text = self.refused(self.access.users.lock("alice", True), OperationError)
        self.assertIn("locked already", text)
        self.do(self.access.users.lock("alice", False))
        self.assertFalse(self.access.users.show("alice").user.locked)

    def test_unlock_ends_a_lockout(self) -> None:
        self.do(self.access.users.add("alice"))
        lockout = json.dumps({"until": self.now + 60, "failures": 5, "times": 1})
        self.registry.change({"lockout/user/alice": lockout}, 100.0)
        self.assertEqual(self.access.users.show("alice").bans[0].reason, "5 failed logins")
        self.do(self.access.users.lock("alice", False))
        self.assertIsNone(self.registry.get("lockout/user/alice"))

    def test_pages(self) -> None:
        for number in range(5):
            roles = ["device"] if number % 2 else []
            self.do(self.access.users.add(f"u{number}", "", 0, {"roles": roles}))
        page = self.access.users.page(limit=2)
        self.assertEqual(([user.name for user in page.users], page.left), (["u0", "u1"], 3))
        page = self.access.users.page(after="u1", limit=2)
        self.assertEqual(([user.name for user in page.users], page.left), (["u2", "u3"], 1))
        self.assertEqual(
            [user.name for user in self.access.users.page(role="device").users], ["u1", "u3"]
        )
        self.assertEqual([user.name for user in self.access.users.page(match="*4").users], ["u4"])
        self.assertRaises(BadArgument, self.access.users.page, limit=0)

    def test_damaged(self) -> None:
        """An entry that cannot be read gives no rights, can be seen, and can be deleted."""
        self.registry.change({"user/x": "nonsense", "user/y": '{"roles": 7}'}, 100.0)
        self.assertEqual(self.directory.rows_of("user/x"), ())
        self.assertEqual(
            self.reports,
            ["user/x: expected a JSON object", "user/y: roles: expected a list of roles"],
        )
        self.assertEqual(self.access.users.show("y").user.roles, ())
        self.do(self.access.users.delete("x"))


class RoleTests(AccessCase):
    def test_inheritance(self) -> None:
        self.do(self.access.roles.add("reader", {"note": "sees all"}))
        self.do(self.access.roles.add("operator", {"parents": ["reader"]}))
        self.do(self.access.roles.add("chief", {"parents": ["operator"]}))
        self.assertEqual(self.access.roles.show("chief").all_parents, ("operator", "reader"))
        self.do(self.access.users.add("alice", "", 0, {"roles": ["chief"]}))
        self.assertEqual(self.access.users.show("alice").all_roles, ("chief", "operator", "reader"))
        self.assertEqual(self.access.roles.show("chief").users, ("alice",))

    def test_cycle(self) -> None:
        """The error names the entry, and nothing is changed."""
        self.do(self.access.roles.add("a"))
        self.do(self.access.roles.add("b", {"parents": ["a"]}))
        text = self.refused(self.access.roles.update("a", {"parents": ["b"]}), BadArgument)
        self.assertIn("roles in a circle", text)
        self.assertIn("role/", text)
        text = self.refused(self.access.roles.update("a", {"parents": ["a"]}), BadArgument)
        self.assertIn("given to itself", text)

    def test_chain_too_long(self) -> None:
        """What PyCasbin would not follow to its end is refused: for a user, one link less."""
        for number in range(1, 10):
            parents = [f"r{number - 1}"] if number > 1 else []
            self.do(self.access.roles.add(f"r{number}", {"parents": parents}))
        self.do(self.access.users.add("alice", "", 0, {"roles": ["r9"]}))
        self.do(self.access.roles.add("r10", {"parents": ["r9"]}))
        text = self.refused(self.access.users.update("alice", {"roles": ["r10"]}), BadArgument)
        self.assertIn("user:alice would have role:r1 by 10 links", text)
        self.do(self.access.roles.delete("r10"))
        self.do(self.access.roles.add("r0"))
        text = self.refused(self.access.roles.update("r1", {"parents": ["r0"]}), BadArgument)
        self.assertIn("user:alice would have role:r0 by 10 links", text)

    def test_delete_in_use(self) -> None:
        self.do(self.access.rules.change([DEVICE]))
        self.do(self.access.roles.add("child", {"parents": ["device"]}))
        self.do(self.access.users.add("alice", "", 0, {"roles": ["device"]}))
        text = self.refused(self.access.roles.delete("device"), OperationError)
        self.assertIn("1 user (alice), 1 role (child), 1 rule", text)
        done = self.do(self.access.roles.delete("device", cascade=True))
        self.assertEqual((done.users, done.rules), (1, 1))
        self.assertEqual(self.access.users.show("alice").user.roles, ())
        self.assertEqual(self.access.roles.show("child").role.parents, ())
        self.assertRaises(NotThere, self.access.roles.show, "device")

    def test_delete_built_in(self) -> None:
        text = self.refused(self.access.roles.delete("everyone", cascade=True), BadArgument)
        self.assertIn("built in", text)

    def test_known_by_rules(self) -> None:
        """A role that a rule names is there, without an entry of its own."""
        self.do(self.access.rules.change([DEVICE]))
        names = [role.name for role in self.access.roles.all().roles]
        self.assertEqual(names, ["anonymous", "authenticated", "device", "everyone"])
        self.do(self.access.users.add("alice", "", 0, {"roles": ["device"]}))
        self.do(self.access.roles.update("device", {"note": "things"}, "0"))
        self.assertEqual(self.access.roles.show("device").role.note, "things")

    def test_names(self) -> None:
        for name in ("", "a b", "a,b", "everyone", "a/b", "x" * 200):
            self.refused(self.access.roles.add(name), BadArgument)


class RuleTests(AccessCase):
    def test_change(self) -> None:
        done = self.do(self.access.rules.change([DEVICE, READER, DEVICE], note="first"))
        self.assertEqual((len(done.added), done.unchanged), (2, 1))
        again = self.do(self.access.rules.change([DEVICE]))
        self.assertEqual((again.added, again.unchanged), ((), 1))
        self.assertEqual(again.revision, done.revision)
        rule = done.added[0]
        gone = self.do(self.access.rules.change(remove=[rule.id]))
        self.assertEqual([each.id for each in gone.removed], [rule.id])
        self.assertEqual([each.note for each in self.access.rules.page().rules], ["first"])

    def test_all_or_nothing(self) -> None:
        """One row that is wrong, and nothing is changed; the error names it."""
        bad = [*DEVICE[:6], "alow"]
        text = self.refused(
            self.access.rules.change([READER, bad], places=["p.csv:1", "p.csv:2"]), BadArgument
        )
        self.assertIn("p.csv:2: 'alow': the effect is allow or deny", text)
        text = self.refused(self.access.rules.change([READER], ["000000000000"]), NotThere)
        self.assertIn('no rule "000000000000"', text)

    def test_cycle(self) -> None:
        rows = [["g", "role:a", "role:b", "*"], ["g", "role:b", "role:a", "*"]]
        text = self.refused(
            self.access.rules.change(rows, places=["p.csv:1", "p.csv:2"]), BadArgument
        )
        self.assertIn("roles in a circle", text)
        self.assertIn("p.csv:", text)

    def test_cycle_with_an_entry(self) -> None:
        self.do(self.access.roles.add("a"))
        self.do(self.access.roles.add("b", {"parents": ["a"]}))
        rows = [["g", "role:a", "role:b", "*"]]
        self.refused(self.access.rules.change(rows), BadArgument)

    def test_replace(self) -> None:
        self.do(self.access.rules.change([DEVICE]))
        done = self.do(self.access.rules.change([READER], replace_all=True))
        self.assertEqual([rule.row[1] for rule in done.removed], ["role:device"])
        self.assertEqual([rule.row[1] for rule in self.access.rules.page().rules], ["role:reader"])

    def test_expected(self) -> None:
        before = self.registry.revision
        self.do(self.access.rules.change([DEVICE], expected=before))
        text = self.refused(self.access.rules.change([READER], expected=before), OperationError)
        self.assertIn(self.registry.revision, text)

    def test_same_row_twice(self) -> None:
        """A rule that says what an entry says: whoever goes, the other one stays in force."""
        self.do(self.access.roles.add("device"))
        self.do(self.access.users.add("alice", "", 0, {"roles": ["device"]}))
        self.deltas.clear()
        row = ["g", "user:alice", "role:device", "*"]
        self.registry.change({"rule/x": json.dumps({"row": row})}, 100.0)
        self.assertEqual((self.deltas[-1].added, self.deltas[-1].removed), ([], []))
        self.do(self.access.users.update("alice", {"roles": []}))
        self.assertEqual((self.deltas[-1].added, self.deltas[-1].removed), ([], []))
        self.do(self.access.rules.change(remove=["x"]))
        self.assertEqual(len(self.deltas[-1].removed), 1)

    def test_list(self) -> None:
        self.do(self.access.rules.change([DEVICE, READER]))
        self.do(self.access.users.add("alice", "", 0, {"roles": ["device"]}))
        found = self.access.rules.page(subject="role:device").rules
        self.assertEqual([rule.row[4] for rule in found], ["devices/%c/#"])
        self.assertEqual(len(self.access.rules.page(topic="devices/*").rules), 2)
        found = self.access.rules.page(all_rows=True).rules
        self.assertIn("user/alice", [rule.place for rule in found])

    def test_page_of_users_with_several_roles(self) -> None:
        """No row is lost between two pages."""
        self.do(self.access.rules.change([DEVICE, READER]))
        for name in ("a", "b"):
            self.do(self.access.users.add(name, "", 0, {"roles": ["device", "reader"]}))
        seen, after = [], ""
        while True:
            page = self.access.rules.page(all_rows=True, after=after, limit=1)
            seen += [rule.row for rule in page.rules]
            if not page.left:
                break
            after = page.rules[-1].place
        self.assertEqual(len(seen), 6)


class BanTests(AccessCase):
    def test_bans(self) -> None:
        self.do(self.access.bans.add("address", "192.0.2.77/24", "noise", self.now + 60, "op"))
        self.do(self.access.bans.add("client", "a/b c"))
        found = self.access.bans.page().bans
        self.assertEqual(
            [(ban.kind, ban.value, ban.reason) for ban in found],
            [("address", "192.0.2.0/24", "noise"), ("client", "a/b c", "")],
        )
        self.do(self.access.bans.remove("address", "192.0.2.0/24"))
        self.assertEqual(len(self.access.bans.page().bans), 1)
        self.refused(self.access.bans.remove("address", "192.0.2.0/24"), NotThere)

    def test_wrong(self) -> None:
        text = self.refused(self.access.bans.add("adress", "::1"), BadArgument)
        self.assertIn('did you mean "address"?', text)
        self.refused(self.access.bans.add("address", "300.1.1.1"), BadArgument)
        self.refused(self.access.bans.add("user", "a", until=self.now - 1), BadArgument)
        self.refused(self.access.bans.add("user", ""), BadArgument)
        self.refused(self.access.bans.add("user", "a", reason="two\nlines"), BadArgument)

    def test_users_that_others_know(self) -> None:
        """A token or a database may have a name that SASLprep would make another one's of."""
        self.do(self.access.users.add("alice"))
        for name in ("ªlice", "al\xadice", "soft\nware"):
            self.do(self.access.bans.add("user", name))
            self.assertEqual([ban.value for ban in self.access.bans.page().bans], [name])
            self.do(self.access.bans.remove("user", name))
        self.refused(self.access.bans.add("user", "\udcff"), BadArgument)

    def test_users_of_the_registry_in_another_spelling(self) -> None:
        self.do(self.access.users.add("café"))
        self.do(self.access.bans.add("user", "cafe\u0301"))
        self.assertEqual([ban.value for ban in self.access.bans.page().bans], ["café"])
        self.do(self.access.bans.remove("user", "cafe\u0301"))

    def test_lockouts(self) -> None:
        lockout = json.dumps({"until": self.now + 60, "failures": 5, "times": 1})
        self.registry.change({"lockout/address/::1": lockout}, 100.0)
        (ban,) = self.access.bans.page("address").bans
        self.assertEqual((ban.what, ban.value), ("lockout", "::1"))
        self.do(self.access.bans.remove("address", "::1"))
        self.assertEqual(self.access.bans.page().bans, ())

    def test_mapped_addresses(self) -> None:
        """A client that comes to an IPv6 socket is the one of IPv4."""
        self.do(self.access.bans.add("address", "::ffff:192.0.2.1"))
        self.do(self.access.bans.remove("address", "192.0.2.1"))

    def test_lockouts_of_a_user_at_an_address(self) -> None:
        lockout = json.dumps({"until": self.now + 60, "failures": 5, "times": 1})
        keys = ["lockout/login/192.0.2.1 al ice", "lockout/login/2001:db8::/64 al ice"]
        self.registry.change(dict.fromkeys([*keys, "lockout/login/192.0.2.1 bob"], lockout), 100.0)
        (first, *_) = self.access.bans.page("login").bans
        self.assertEqual((first.kind, first.value), ("login", "192.0.2.1 al ice"))
        self.refused(self.access.bans.remove("login", "192.0.2.2 al ice"), NotThere)
        self.refused(self.access.bans.add("login", "192.0.2.1 al ice"), BadArgument)
        self.do(self.access.users.add("al ice", "x"))
        self.assertEqual(len(self.access.users.show("al ice").bans), 2)
        self.do(self.access.users.lock("al ice", False))
        self.assertEqual(len(self.access.bans.page().bans), 1)
        text = self.refused(self.access.bans.remove("login", "bob"), BadArgument)
        self.assertIn('expected "ADDRESS NAME"', text)
        self.do(self.access.bans.remove("login", "192.0.2.1 bob"))
        self.assertEqual(self.access.bans.page().bans, ())

    def test_unlock_of_a_user_whom_another_authenticator_knows(self) -> None:
        lockout = json.dumps({"until": self.now + 60, "failures": 5, "times": 1})
        self.registry.change(dict.fromkeys(["lockout/login/192.0.2.1 bob"], lockout), 100.0)
        self.do(self.access.users.lock("bob", False))
        self.assertEqual(self.access.bans.page().bans, ())
        self.refused(self.access.users.lock("bob", False), NotThere)
        self.refused(self.access.users.lock("bob", True), NotThere)


class ImportedUserTests(AccessCase):
    HASH = "$7$101$c2FsdHNhbHRzYWx0$aGFzaGhhc2g="

    def test_hashes_stay(self) -> None:
        done = self.do(self.access.users.bring({"alice": self.HASH, "bob": self.HASH}, "old"))
        self.assertEqual((done.added, done.there), (("alice", "bob"), ()))
        entry = self.registry.get("user/alice")
        assert entry is not None
        kept = json.loads(entry.value)
        self.assertEqual((kept["password"], kept["scram"]), (self.HASH, ""))
        self.assertEqual((kept["note"], kept["created_at"]), ("old", self.now))

    def test_users_that_are_there_stay(self) -> None:
        self.do(self.access.users.add("alice", "secret"))
        before = self.registry.get("user/alice")
        done = self.do(self.access.users.bring({"alice": self.HASH, "bob": self.HASH}))
        self.assertEqual((done.added, done.there), (("bob",), ("alice",)))
        self.assertEqual(self.registry.get("user/alice").value, before.value)
        done = self.do(self.access.users.bring({"alice": self.HASH}))
        self.assertEqual((done.added, done.revision), ((), self.registry.revision))

    def test_all_or_none(self) -> None:
        for name, text in (("b\u00aa", self.HASH), ("", self.HASH), ("b", "plain"), ("b", "")):
            wrong = {"alice": self.HASH, name: text}
            said = self.refused(self.access.users.bring(wrong), BadArgument)
            self.assertNotIn("plain", said)
            self.assertIsNone(self.registry.get("user/alice"))


class ExplainTests(AccessCase):
    def setUp(self) -> None:
        super().setUp()
        self.do(self.access.rules.change([DEVICE, READER]))
        self.do(
            self.access.users.add("alice", "", 0, {"roles": ["device"], "attributes": {"a": "b"}})
        )
        self.rights.index = Index()
        self.rights.index.apply(self.directory.rows(), [])

    def test_off(self) -> None:
        self.assertEqual(self.access.status().rows, 3)
        self.rights.index = None
        self.assertIsNone(self.access.status())
        text = str(self.assertRaises(OperationError, self.access.explain, "publish", "a", "alice"))
        self.assertIn("access control is off", text)

    def test_user(self) -> None:
        found = self.access.explain("publish", "devices/d1/x", "alice", "d1")
        self.assertTrue(found.explanation.allowed)
        self.assertEqual(found.notes, ())
        self.assertFalse(self.access.explain("publish", "x", "alice").explanation.allowed)

    def test_client(self) -> None:
        """Who it is at the broker; it stays as it is, whatever is supposed."""
        principal = Principal("", "")
        principal.user, principal.client_id, principal.roles = "bob", "d1", ("device",)
        self.rights.clients["d1"] = principal
        found = self.access.explain("publish", "devices/d1/x", client="d1").explanation
        self.assertEqual((found.user, found.allowed), ("bob", True))
        found = self.access.explain(
            "subscribe", "devices/#", client="d1", roles=["reader"], tenant="t", common_name="n"
        ).explanation
        self.assertEqual((found.tenant, found.allowed), ("t", True))
        self.assertEqual((principal.roles, principal.tenant), (("device",), ""))
        self.assertRaises(NotThere, self.access.explain, "publish", "a", client="d2")

    def test_counter_example(self) -> None:
        found = self.access.explain("subscribe", "devices/#", "alice", "d1").explanation
        self.assertFalse(found.allowed)
        self.assertTrue(found.example.startswith("devices"))

    def test_notes(self) -> None:
        """What keeps a client out beside the rules."""
        self.do(self.access.users.lock("alice", True))
        self.do(self.access.bans.add("client", "d1", "noise"))
        self.do(self.access.bans.add("user", "alice", until=self.now + 1))
        notes = self.access.explain("connect", user="alice", client="d1").notes
        self.assertEqual(
            notes,
            (
                'the user "alice" is locked',
                'the user "alice" is banned',
                'the client "d1" is banned: noise',
            ),
        )
        self.now += 2.0
        self.assertEqual(len(self.access.explain("connect", user="alice").notes), 1)
        lockout = json.dumps({"until": self.now + 60, "failures": 5, "times": 1})
        self.registry.change({"lockout/login/192.0.2.1 alice": lockout}, 100.0)
        _, note = self.access.explain("connect", user="alice").notes
        self.assertEqual(note, 'the user "alice" is locked out at 192.0.2.1: 5 failed logins')
        (note,) = self.access.explain("connect", user="alcie").notes
        self.assertIn('did you mean "alice"?', note)

    def test_wrong(self) -> None:
        for arguments in (
            {"action": "publihs", "topic": "a", "user": "alice"},
            {"action": "publish", "topic": "a/#", "user": "alice"},
            {"action": "publish", "topic": "a"},
            {"action": "publish", "topic": "a", "user": "alice", "qos": 3},
            {"action": "publish", "topic": "a", "user": "alice", "attributes": {"a": 1}},
        ):
            self.assertRaises(BadArgument, self.access.explain, **arguments)


class DurableTests(AccessCase):
    """A change answers when it is safe, and not before."""

    def test_waits_for_the_store(self) -> None:
        from mhub.core.journal import Journal

        batches: list[object] = []

        class Writer:
            def commit(self, batch: object) -> None:
                batches.append(batch)

            def load(self, *_: object) -> None:
                raise AssertionError

        self.hub.keep_in(Writer(), Journal(0.0, 256, 1 << 20))
        done = Deferred.fromCoroutine(self.access.users.add("alice"))
        self.assertNoResult(done)
        self.assertEqual(len(batches), 1)
        self.hub.storage.committed()
        self.hub.flush()
        self.successResultOf(done)
