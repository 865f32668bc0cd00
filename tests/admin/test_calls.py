"""The table of calls that the command line has: each is answered by the admin API as by Python."""

import json
from typing import Any
from urllib.parse import urlencode

import msgspec

from mhub.access.calls import CALLS, perform, request_of
from mhub.admin.resources import ENDPOINTS
from tests.admin.world import AdminCase

SPREAD = {
    "user-add": {"roles", "tenant", "attributes", "limits", "note"},
    "user-set": {"roles", "tenant", "attributes", "limits", "note"},
    "role-add": {"parents", "limits", "note"},
    "role-set": {"parents", "limits", "note"},
}
ALLOW = ["p", "role:device", "*", "publish", "alarms/#", "any", "allow"]


class TableTests(AdminCase):
    def test_each_call_has_its_endpoint(self) -> None:
        known = {(each.method, each.path): each for each in ENDPOINTS}
        for name, call in CALLS.items():
            each = known[call.http, f"/admin/v1{call.path}"]
            self.assertEqual(each.changes, call.changes, name)
            query = {field.name for field in msgspec.structs.fields(each.query)}
            body = (
                {field.name for field in msgspec.structs.fields(each.body)} if each.body else set()
            )
            for parameter in {*call.parameters} - {"expected", "by", "reason", call.spread}:
                called = call.names.get(parameter, parameter)
                self.assertIn(called, query if parameter in call.query else body, name)
            self.assertLessEqual(SPREAD.get(name, set()), body, name)

    def test_each_change_gives_its_reason_as_one(self) -> None:
        """Where `admin.require_reason` looks for it."""
        for name, call in CALLS.items():
            given = {key: "x" for key, value in call.parameters.items() if isinstance(value, type)}
            if call.changes:
                request = request_of(call, {**given, "reason": "because"})
                self.assertEqual(request.query.get("reason"), "because", name)

    def test_what_is_missing(self) -> None:
        self.assertRaises(ValueError, request_of, CALLS["user"], {})


class CallTests(AdminCase):
    def setUp(self) -> None:
        super().setUp()
        self.user("root", "admin")
        self.log_in()

    def over_http(self, name: str, /, **arguments: Any) -> Any:
        wanted = request_of(CALLS[name], arguments)
        query = urlencode(wanted.query, doseq=True)
        headers = {"If-Match": f'"{wanted.version}"'} if wanted.version else {}
        path = f"/admin/v1{wanted.path}?{query}"
        reply = self.ask(wanted.method, path, wanted.body, headers)
        self.assertEqual(reply.status, 200, reply)
        return reply.json

    def in_python(self, name: str, /, **arguments: Any) -> Any:
        result: Any = perform(self.access, CALLS[name], **arguments)
        if hasattr(result, "__await__"):
            result = self.do(result)
        return json.loads(msgspec.json.encode(result, enc_hook=vars))

    def test_what_is_asked_is_answered_alike(self) -> None:
        self.do(self.access.users.add("ann", values={"roles": ["reader"]}))
        self.do(self.access.bans.add("user", "eve"))
        self.do(self.access.tokens.add("ci", ["read"]))
        for name, arguments in (
            ("users", {"match": "a*"}),
            ("users", {"role": "reader"}),
            ("user", {"name": "ann"}),
            ("roles", {}),
            ("role", {"name": "reader"}),
            ("rules", {"subject": "role:admin"}),
            ("rules", {"all_rows": True}),
            ("in-force", {}),
            ("bans", {}),
            ("tokens", {}),
            (
                "explain",
                {
                    "action": "admin:read",
                    "topic": "stats",
                    "user": "ann",
                    "roles": ["viewer", "reader"],
                    "attributes": {"site": "a=b"},
                },
            ),
            ("proposals", {"action": "admin:read", "topic": "stats", "user": "ann"}),
            ("rules-dry-run", {"add": [ALLOW]}),
        ):
            self.assertEqual(
                self.over_http(name, **arguments), self.in_python(name, **arguments), name
            )

    def test_changes(self) -> None:
        made = self.over_http("user-add", name="bob", values={"note": "x"}, reason="new")
        self.over_http("user-set", name="bob", values={"note": "y"}, expected=made["version"])
        self.over_http("user-passwd", name="bob", password="a long one")
        self.over_http("user-lock", name="bob")
        self.over_http("user-lock", name="bob", locked=False)
        self.over_http("role-add", name="r", values={"parents": ["reader"]})
        self.over_http("role-set", name="r", values={"note": "n"})
        self.over_http("role-delete", name="r", cascade=True)
        done = self.over_http("rules-change", add=[ALLOW], note="n")
        self.over_http("rules-change", remove=[done["added"][0]["id"]])
        self.over_http("ban-add", kind="user", value="eve", reason="spam", by="me")
        self.assertEqual(self.in_python("bans")["bans"][0]["reason"], "spam")
        self.assertEqual(self.in_python("bans")["bans"][0]["by"], "root")
        self.over_http("ban-remove", kind="user", value="eve")
        token = self.over_http("token-add", name="ci", scopes=["read"])
        self.over_http("token-revoke", token_id=token["id"])
        self.over_http("user-delete", name="bob", reason="gone")
