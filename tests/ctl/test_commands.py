"""All other commands, over the real app: that each asks what there is, and fits 80 columns."""

import json

from twisted.internet.task import Clock

from mhub.ctl.table import cells
from tests.access.facade import AccessCase
from tests.ctl.case import CtlCase
from tests.ctl.wire import LocalApi


class CommandTests(AccessCase, CtlCase):
    def setUp(self) -> None:
        CtlCase.setUp(self)
        AccessCase.setUp(self)
        self.api = LocalApi(self, self.hub, self.access, Clock())

    def ok(self, *argv: str) -> str:
        self.assertEqual(self.run_ctl(*argv, "--socket", "x"), 0, self.err)
        self.assertLessEqual(max(map(cells, self.out.split("\n"))), 80)
        return self.out

    def test_lists_of_nothing(self) -> None:
        for argv, text in (
            (("clients",), "no clients\n"),
            (("subscriptions", "list"), "no subscriptions\n"),
            (("subscriptions", "groups"), "no shared subscriptions\n"),
            (("subscriptions", "route", "a/b"), "no client subscribes to it\n"),
            (("topics", "top"), "no topics\n"),
            (("topics", "tree"), "no topics there\n"),
            (("retained", "list"), "no retained messages\n"),
            (("retained", "tree"), "no retained messages there\n"),
            (("token", "list"), "no tokens\n"),
        ):
            self.ok(*argv)
            self.assertEqual((self.out, self.err), ("", text))
            json.loads(self.ok(*argv, "--json"))

    def test_tokens(self) -> None:
        self.ok(
            "token", "add", "ci", "--scope", "read", "--until", "2099-01-01", "--note", "n" * 60
        )
        self.assertIn('made the token "ci", id ', self.err)
        self.assertTrue(self.out.startswith("mhub_"))
        self.assertIn("read", self.ok("token", "list"))
        (token,) = json.loads(self.ok("token", "list", "--json"))["tokens"]
        self.ok("token", "revoke", token["id"], "--reason", "done")
        self.assertIn("reason=done", self.api.requests[-1])

    def test_dry_run(self) -> None:
        row = "p, role:x, *, publish, a, any, allow"
        self.assertEqual(self.run_ctl("policy", "dry-run", "--add", row, "--socket", "x"), 1)
        self.assertIn("gains publish a", self.out)
        self.assertEqual(self.run_ctl("policy", "dry-run", "--socket", "x"), 1)
        self.assertIn("nothing to try", self.err)

    def test_not_there(self) -> None:
        for argv in (("retained", "get", "a"), ("kick", "a"), ("clients", "a")):
            self.assertEqual(self.run_ctl(*argv, "--socket", "x"), 1)
            self.assertRegex(self.err, r"^mhub ctl [a-z ]+: a: ")

    def test_the_store(self) -> None:
        self.assertIn("store         memory\n", self.ok("store", "status"))
