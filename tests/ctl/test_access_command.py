"""`mhub ctl user|role|policy|ban|explain`: what they ask, print where, and how they end.

They go to the real app, over an access interface in memory; sockets and stores are in the system
tests.
"""

import getpass
import json
from unittest import mock

from twisted.internet.task import Clock

from mhub.access.index import Index
from mhub.ctl.table import cells
from tests.access.facade import AccessCase
from tests.ctl.case import CtlCase
from tests.ctl.wire import LocalApi

DEVICE = "p, role:device, *, publish|subscribe|receive, devices/%c/#, any, allow"


class CommandCase(AccessCase, CtlCase):
    def setUp(self) -> None:
        CtlCase.setUp(self)
        AccessCase.setUp(self)
        self.api = LocalApi(self, self.hub, self.access, Clock())

    def run_ctl(self, *argv: str, stdin: str = "") -> int:
        if "--file" not in argv and argv[:2] != ("user", "ad"):
            argv = (*argv, "--socket", "x")
        return super().run_ctl(*argv, stdin=stdin)

    def ok(self, *argv: str, stdin: str = "") -> str:
        self.assertEqual(self.run_ctl(*argv, stdin=stdin), 0, self.err)
        if argv[1] in ("list", "show") or argv[0] == "explain":
            self.assertLessEqual(max(map(cells, self.out.split("\n"))), 80)
        return self.out

    def fails(self, *argv: str, status: int = 1, stdin: str = "") -> str:
        """What it says; that is one line."""
        self.assertEqual(self.run_ctl(*argv, stdin=stdin), status, self.out)
        self.assertEqual(self.err.count("\n"), 1, self.err)
        return self.err


class UserTests(CommandCase):
    def test_all(self) -> None:
        self.ok("role", "add", "device")
        self.ok("user", "add", "a", "--role", "device", "--password-file", "-", stdin="x\n")
        self.assertEqual(self.out, 'added the user "a"\n')
        self.assertIn("$argon2id$x", self.registry.get("user/a").value)
        self.ok("user", "add", "b" * 100, "--no-password", "--note", "n" * 80)
        self.ok("user", "list")
        self.assertEqual(len(self.out.split("\n")), 4)
        self.ok("user", "set", "a", "--attribute", "x=1", "--attribute", "y=2", "--tenant", "t")
        self.ok("user", "set", "a", "--remove-attribute", "x", "--note", "N")
        self.ok(
            "user", "set", "a", "--limit", "max_subscriptions=7", "--limit", "over_bytes_per_s=drop"
        )
        self.ok("user", "set", "a", "--remove-limit", "over_bytes_per_s")
        user = json.loads(self.ok("user", "show", "a", "--json"))["user"]
        self.assertEqual((user["attributes"], user["tenant"], user["note"]), ({"y": "2"}, "t", "N"))
        self.assertEqual(user["limits"], {"max_subscriptions": 7})
        self.ok("user", "show", "a")
        self.assertIn("limits        max_subscriptions=7\n", self.out)
        self.ok("user", "set", "a", "--role", "")
        self.assertEqual(self.access.users.show("a").user.roles, ())
        self.ok("user", "passwd", "a", "--password-file", "-", stdin="y\n")
        self.assertEqual(self.ok("user", "lock", "a"), 'locked the user "a"\n')
        self.assertIn("locked", self.ok("user", "list"))
        self.assertEqual(self.ok("user", "unlock", "a"), 'unlocked the user "a"\n')
        self.assertEqual(self.ok("user", "delete", "a"), 'deleted the user "a"\n')

    def test_nobody(self) -> None:
        self.ok("user", "list")
        self.assertEqual((self.out, self.err), ("", "no users\n"))
        self.ok("user", "list", "--match", "x*")
        self.assertEqual(self.err, "no user matches\n")

    def test_mistakes(self) -> None:
        self.ok("user", "add", "a", "--no-password")
        for argv, text in (
            (("set", "a", "--limit", "max_subscripions=1"), 'did you mean "max_subscriptions"?'),
            (("set", "a", "--limit", "max_subscriptions=-1"), "expected an integer"),
            (("set", "a", "--remove-role", "x"), "'x' is not among them"),
            (("set", "a", "--remove-attribute", "x"), "there is no 'x'"),
            (("set", "a", "--attribute", "cn=x"), "nobody's attribute"),
            (("set", "a", "--note", "x", "--expect", "1"), "changed meanwhile"),
            (("add", "b", "--password-file", "/nowhere/x"), "No such file"),
        ):
            self.assertIn(text, self.fails("user", *argv))
        self.assertEqual(self.run_ctl("user", "set", "nobody", "--note", "x"), 1)
        self.assertEqual(
            self.fails("user", "ad", "x", status=2),
            'mhub ctl user: no command "ad"; did you mean "add"?\n',
        )

    def test_empty_password(self) -> None:
        text = self.fails("user", "add", "b", "--password-file", "-", stdin="")
        self.assertIn("--no-password adds a user without one", text)

    def test_name_as_it_is_kept(self) -> None:
        """What is shown is what a client has to send."""
        self.assertEqual(self.ok("user", "add", "ﬁ", "--no-password"), 'added the user "fi"\n')

    def test_password_file_that_is_not_there(self) -> None:
        text = self.fails("user", "list", "--file", str(self.folder / "x"))
        self.assertIn("No such file", text)
        text = self.fails("user", "add", "a", "--password-file", "/nowhere/x")
        self.assertEqual(text, "mhub ctl user add: /nowhere/x: No such file or directory\n")

    def test_end_of_input_at_the_prompt(self) -> None:
        """Ctrl-D is not a missing terminal."""
        self.patch(getpass, "getpass", mock.Mock(side_effect=EOFError))
        self.assertEqual(self.run_ctl("user", "add", "a"), 1)
        self.assertIn("no password was given", self.err)

    def test_pages(self) -> None:
        """All are listed, page after page."""
        for number in range(5):
            self.ok("user", "add", f"u{number}", "--no-password")
        with mock.patch("mhub.ctl.registry_calls.PAGE", 2):
            self.ok("user", "list")
        self.assertEqual(self.out.count("\n"), 6)

    def test_terminal(self) -> None:
        """Nothing in a name acts on the terminal."""
        self.registry.change({"user/\x1b[2J": "{}"}, 100.0)
        self.assertNotIn("\x1b", self.ok("user", "list"))
        self.assertNotIn("\x1b", self.ok("user", "list", "--json"))


class RoleTests(CommandCase):
    def test_all(self) -> None:
        self.ok("role", "add", "reader", "--note", "sees all", "--limit", "max_subscriptions=5")
        self.ok("role", "add", "chief", "--parent", "reader")
        self.ok("user", "add", "a", "--no-password", "--role", "chief")
        self.assertIn("chief          reader         0", self.ok("role", "list"))
        self.assertIn("users         a\n", self.ok("role", "show", "chief"))
        self.ok("role", "set", "chief", "--remove-parent", "reader", "--note", "x")
        self.assertIn("--cascade", self.fails("role", "delete", "chief"))
        self.assertEqual(
            self.ok("role", "delete", "chief", "--cascade"),
            'deleted the role "chief", took it from 1 user\n',
        )
        self.assertIn("nothing to change", self.fails("role", "set", "reader"))
        self.assertIn('did you mean "reader"?', self.fails("role", "show", "raeder"))


class PolicyTests(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.rights.index = Index()

    def test_rules_that_are_not_in_force(self) -> None:
        """Rules of the registry while a file decides, or nothing does."""
        for argv in (("add", DEVICE), ("list",)):
            self.ok("policy", *argv)
            self.assertNotIn("in force", self.err)
            with mock.patch.object(self.rights, "policy", "acl.csv"):
                self.ok("policy", *argv)
            self.assertIn("note: not in force; the rules are those of acl.csv\n", self.err)
            with mock.patch.object(self.rights, "index", None):
                self.ok("policy", *argv)
            self.assertIn("note: access control is off", self.err)

    def test_rules(self) -> None:
        self.ok("policy", "add", DEVICE, "--note", "of devices")
        rule = self.out.split()[1].rstrip(":")
        self.assertEqual(self.ok("policy", "add", DEVICE), "this rule is there already\n")
        self.ok("policy", "add", "role:device", "publish", "x/#", "--deny", "--tenant", "t")
        self.ok("policy", "add", "role:pump", "has", "role:device")
        self.ok("policy", "add", "role:d", "publish", "a", "--condition", "qos<=1&retain=no")
        self.assertEqual(
            [rule.row for rule in self.access.rules.page(subject="role:d").rules],
            [("p", "role:d", "*", "publish", "a", "qos<=1&retain=no", "allow")],
        )
        self.ok("policy", "list")
        self.assertRegex(self.out, r"deny +role:dev\S+ +pub +x/# +t\n")
        self.assertRegex(self.out, "has +role:pump +role:device\n")
        self.ok("policy", "list", "--subject", "role:nobody")
        self.assertEqual(self.err, "no rule matches\n")
        self.ok("policy", "remove", rule)
        self.assertIn(f"removed {rule}: p, role:device", self.out)
        self.assertIn("expected a line of a policy", self.fails("policy", "add", "a", "b"))

    def test_import(self) -> None:
        file = self.folder / "p.csv"
        file.write_text(f"# x\n{DEVICE}\n")
        self.ok("policy", "import", str(file))
        self.assertIn("1 added, 0 removed, 0 there already", self.out)
        other = "p, role:x, *, publish, a, any, allow\n"
        self.ok("policy", "import", "-", "--replace", stdin=other)
        self.assertIn("1 added, 1 removed, 0 there already", self.out)
        file.write_text("g, role:a, role:b, *\ng, role:b, role:a, *\n")
        self.assertIn("roles in a circle", self.fails("policy", "import", str(file)))
        self.ok("policy", "export", "--output", str(file))
        self.assertEqual(file.read_text().split("\n")[1:], [other.strip(), ""])

    def test_files_need_no_broker(self) -> None:
        """Check, diff and test of files ask nobody."""
        one, two, tests = (str(self.folder / name) for name in ("a.csv", "b.csv", "t.csv"))
        for name, text in (
            (one, f"{DEVICE}\n"),
            (two, ""),
            (tests, "allow, role:device, publish, devices/c/x, client=c\n"),
        ):
            with open(name, "w") as file:
                file.write(text)
        self.ok("policy", "check", one)
        self.ok("policy", "test", tests, "--policy", one)
        self.assertEqual(self.run_ctl("policy", "test", tests, "--policy", two), 1)
        self.assertEqual(self.run_ctl("policy", "diff", one, two), 1)
        self.assertEqual(
            self.out,
            "role:device\n  - publish devices/%c/#\n  - subscribe devices/%c/#\n"
            "  - receive devices/%c/#\n",
        )
        self.assertEqual(self.api.requests, [])

    def test_names_that_nothing_else_has(self) -> None:
        """A rule for them is added: roles and users may come from elsewhere."""
        self.ok("role", "add", "device")
        for rule, note in (
            (("role:device", "publish", "a"), ""),
            (("role:everyone", "publish", "a"), ""),
            (("role:devcie", "publish", "a"), 'role "devcie"; did you mean "device"?\n'),
            (("role:devcie", "publish", "b"), ""),
            (("user:eve", "publish", "a"), 'note: there is no user "eve"\n'),
            (("role:device", "has", "role:reader"), 'role "reader"\n'),
        ):
            self.ok("policy", "add", *rule)
            self.assertTrue(self.err.endswith(note) and bool(self.err) == bool(note), self.err)

    def test_no_expectations(self) -> None:
        """A test that tests nothing does not pass."""
        file = self.folder / "e.csv"
        file.write_text("# later\n")
        self.assertIn("there are no expectations in it", self.fails("policy", "test", str(file)))

    def test_check_warns(self) -> None:
        file = self.folder / "p.csv"
        file.write_text(f"{DEVICE}\n{DEVICE}\ng, user:a, role:b, *\n")
        self.ok("policy", "check", str(file))
        self.assertIn("warning: ", self.out)


class BanTests(CommandCase):
    def test_all(self) -> None:
        self.now = 1.0  # long ago
        self.ok("ban", "add", "address", "10.1.2.3/8", "--for", "1h", "--reason", "noise")
        self.ok("ban", "add", "user", "eve", "--until", "2099-01-31 12:00")
        self.ok("ban", "add", "client", "x" * 200)
        self.ok("ban", "list")
        self.assertIn("address  10.0.0.0/8", self.out)
        self.assertIn("2099-01-31 12:00:00", self.out)
        self.assertIn("for ever", self.out)
        self.ok("ban", "list", "--kind", "user")
        self.assertEqual(self.out.count("\n"), 2)
        self.ok("ban", "remove", "user", "eve")
        self.assertIn('no ban of the user "eve"', self.fails("ban", "remove", "user", "eve"))
        self.assertIn("expected a time", self.fails("ban", "add", "user", "x", "--until", "soon"))

    def test_what_was_banned(self) -> None:
        """A network is shown as it is kept; a user that the registry lacks may be a typo."""
        self.assertIn('"10.0.0.0/8"', self.ok("ban", "add", "address", "10.1.2.3/8"))
        self.ok("user", "add", "alice", "--no-password")
        self.ok("ban", "add", "user", "alice")
        self.assertEqual(self.err, "")
        self.ok("ban", "add", "user", "alcie")
        self.assertEqual(self.err, 'note: there is no user "alcie"; did you mean "alice"?\n')


class ExplainTests(CommandCase):
    def setUp(self) -> None:
        super().setUp()
        self.ok("policy", "add", DEVICE)
        self.ok("user", "add", "a", "--no-password", "--role", "device")
        self.rights.index = Index()
        self.rights.index.apply(self.directory.rows(), [])

    def test_text(self) -> None:
        ask = ("explain", "--user", "a", "--client", "c1", "--action")
        self.ok(*ask, "publish", "--topic", "devices/c1/x", "--retain", "--qos", "2")
        self.assertIn("allowed       a rule allows it, and none denies it\n", self.out)
        self.assertIn("publish devices/c1/x, QoS 2, retained\n", self.out)
        self.assertIn("for user:a -> role:device; in rule/", self.out)
        self.assertIn("%c is c1\n", self.out)
        self.ok(*ask, "publish", "--topic", "devices/c2/x")
        self.assertIn("denied        no rule allows it\n", self.out)
        self.assertIn("level 2 is 'c2', the rule has 'c1'", self.out)
        self.ok(*ask, "subscribe", "--topic", "devices/#")
        self.assertRegex(self.out, r"\nnot allowed +devices")
        self.ok("explain", "--anonymous", "--action", "connect", "--client", "x")
        self.assertIn("an anonymous client", self.out)

    def test_usage(self) -> None:
        for argv in (
            ("--action", "publish", "--topic", "a"),
            ("--user", "a", "--action", "publish"),
            ("--user", "a", "--topic", "a"),
            ("--user", "a", "--anonymous", "--action", "connect"),
        ):
            self.assertEqual(self.run_ctl("explain", *argv), 2)
        self.assertEqual(self.run_ctl("explain", "--user", "a", "--action", "x", "--topic", "a"), 1)
        self.assertIn("action: expected one of", self.err)


class PlaceTests(CtlCase):
    def test_no_broker(self) -> None:
        self.assertEqual(self.run_ctl("user", "list", "--socket", str(self.folder / "x")), 1)
        self.assertIn("no broker answers at", self.err)
        self.assertEqual(self.run_ctl("user", "list", "--config", self.file("[acess]\n")), 1)
        self.assertIn('did you mean "access"?', self.err)
