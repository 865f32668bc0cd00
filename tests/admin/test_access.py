"""Users, roles, rules, bans, limits and tokens over HTTP: what each gives, and who may."""

import json
from types import ModuleType
from typing import Any
from urllib.parse import urlencode

from mhub.admin.endpoint import endpoints_of
from mhub.admin.resources import bans, explain, limits, policies, roles, tokens, users
from mhub.core.events import ADMIN, Event
from tests.admin.world import AdminCase, Reply

MODULES: tuple[ModuleType, ...] = (users, roles, policies, explain, bans, limits, tokens)
BASE = "/admin/v1"
RULE = ["p", "role:device", "*", "publish", "alarms/#", "any", "allow"]


class Told:
    def __init__(self) -> None:
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        if event.kind == ADMIN:
            self.events.append(event)


class AccessCase(AdminCase):
    def setUp(self) -> None:
        super().setUp()
        self.told = Told()
        self.hub.events.sinks.append(self.told)
        self.user("root", "admin")
        self.log_in("root")

    def call(self, method: str, path: str, body: object = None, **query: Any) -> Reply:
        headers = {}
        if "if_match" in query:
            headers["If-Match"] = f'"{query.pop("if_match")}"'
        text = f"?{urlencode(query, doseq=True)}" if query else ""
        return self.ask(method, BASE + path + text, body, headers)

    def got(self, *args: Any, **kwargs: Any) -> Any:
        reply = self.call(*args, **kwargs)
        self.assertEqual(reply.status, 200, reply)
        return reply.json

    def refused(self, status: int, *args: Any, **kwargs: Any) -> str:
        reply = self.call(*args, **kwargs)
        self.assertEqual(reply.status, status, reply)
        return reply.detail


class PermissionTests(AccessCase):
    def test_each_endpoint_needs_its_permission(self) -> None:
        self.user("eve")
        self.log_in("eve")
        token = self.do(self.access.tokens.add("all", ["read", "write"], ["admin"])).token
        for module in MODULES:
            for each in endpoints_of(module):
                reply = self.ask(each.method, each.path)
                self.assertEqual(reply.status, 403, each)
                self.assertIn(f"admin:{each.verb} on '{each.resource}'", reply.detail)
                self.log_out_here()
                self.assertEqual(self.ask(each.method, each.path).status, 401, each)
                reply = self.ask(
                    each.method, each.path, headers={"Authorization": f"Bearer {token}"}
                )
                barred = each.resource == "tokens" or (
                    each.writes and each.resource in ("users", "roles", "policies")
                )
                self.assertEqual(reply.status == 403, barred, (each, reply))
                self.log_in("eve")

    def test_a_rule_is_enough(self) -> None:
        self.user("eve")
        self.allow("p, user:eve, *, admin:read, users, any, allow")
        self.log_in("eve")
        self.got("GET", "/users")
        self.refused(403, "POST", "/users", {"name": "x"})
        self.refused(403, "GET", "/roles")


class UserTests(AccessCase):
    def test_from_the_first_to_the_last(self) -> None:
        fields = {"name": "bob", "password": "a long one", "roles": ["device"], "note": "n"}
        made = self.call("POST", "/users", fields, reason="he is new")
        self.assertEqual(made.status, 200)
        event = self.told.events[-1]
        self.assertEqual((event.by, event.why, event.cause), ("root", "he is new", "users.add"))
        shown = self.call("GET", "/user", name="bob")
        self.assertEqual(shown.headers["ETag"], made.headers["ETag"])
        self.assertNotIn("a long one", shown.body.decode())
        self.assertNotIn("argon2", shown.body.decode())
        version = shown.json["user"]["version"]
        self.got("PATCH", "/user", {"note": "m"}, name="bob", if_match=version)
        self.assertIn(
            "meanwhile",
            self.refused(412, "PATCH", "/user", {"note": "o"}, name="bob", if_match=version),
        )
        user = self.got("GET", "/user", name="bob")["user"]
        self.assertEqual((user["note"], user["roles"]), ("m", ["device"]))
        self.got("PUT", "/user/password", {"password": "another one"}, name="bob")
        self.got("PUT", "/user/lock", {"locked": True}, name="bob")
        self.assertIn("locked already", self.refused(409, "PUT", "/user/lock", {}, name="bob"))
        self.assertEqual(self.got("DELETE", "/user", name="bob")["rules"], 0)
        self.refused(404, "GET", "/user", name="bob")

    def test_what_is_refused(self) -> None:
        self.refused(409, "POST", "/users", {"name": "root"})
        for body, text in (
            ({"name": "token:x"}, "API tokens"),
            ({"name": "x", "roles": ["devcie"]}, 'did you mean "device"'),
            ({"name": "x", "limits": {"max_subscription": 3}}, "max_subscriptions"),
            ({"name": "x", "role": []}, "did you mean 'roles'"),
        ):
            self.assertIn(text, self.refused(400, "POST", "/users", body))
        self.assertIn("one line", self.refused(400, "POST", "/users", {"name": "y"}, reason="a\nb"))

    def test_pages(self) -> None:
        for number in range(25):
            self.do(self.access.users.add(f"u{number:02}", values={"roles": ["device"]}))
        names: list[str] = []
        cursor = ""
        while True:
            page = self.got("GET", "/users", limit=10, cursor=cursor, role="device")
            names += [user["name"] for user in page["users"]]
            cursor = page["next"]
            if not cursor:
                break
        self.assertEqual(names, [f"u{number:02}" for number in range(25)])
        page = self.got("GET", "/users", limit=10)
        self.assertEqual((page["left"], page["next"]), (16, "u08"))
        page = self.got("GET", "/users", match="u1*", limit=10)
        self.assertEqual((len(page["users"]), page["left"]), (10, 0))

    def test_import(self) -> None:
        text = json.loads(self.hub.registry.get("user/root").value)["password"]
        found = self.got("POST", "/users/import", {"hashes": {"ann": text, "root": text}})
        self.assertEqual((found["added"], found["there"]), (["ann"], ["root"]))
        self.log_out_here()
        self.assertEqual(self.log_in("ann").status, 200)
        self.log_in("root")
        wrong = self.refused(400, "POST", "/users/import", {"hashes": {"x": "plain"}})
        self.assertNotIn("plain", wrong)


class RoleTests(AccessCase):
    def test_from_the_first_to_the_last(self) -> None:
        made = self.call("POST", "/roles", {"name": "helpdesk", "parents": ["viewer"]})
        self.assertEqual(made.status, 200)
        self.got("PATCH", "/role", {"note": "n"}, name="helpdesk", if_match=made.json["version"])
        self.refused(412, "PATCH", "/role", {}, name="helpdesk", if_match=made.json["version"])
        shown = self.got("GET", "/role", name="helpdesk")
        self.assertEqual(shown["role"]["parents"], ["viewer"])
        self.assertIn("helpdesk", [each["name"] for each in self.got("GET", "/roles")["roles"]])
        self.assertIn("in use", self.refused(409, "DELETE", "/role", name="viewer"))
        self.got("DELETE", "/role", name="helpdesk")
        self.refused(404, "GET", "/role", name="helpdesk")


class PolicyTests(AccessCase):
    def test_rules_are_changed_by_revision(self) -> None:
        before = self.call("GET", "/policies")
        revision = before.json["revision"]
        self.assertEqual(before.headers["ETag"], f'"{revision}"')
        done = self.got("POST", "/policies/change", {"add": [RULE]}, if_match=revision)
        rule = done["added"][0]["id"]
        self.refused(412, "POST", "/policies/change", {"remove": [rule]}, if_match=revision)
        page = self.got("GET", "/policies", subject="role:device")
        self.assertIn(rule, [each["id"] for each in page["rules"]])
        self.got("POST", "/policies/change", {"remove": [rule]})
        self.refused(404, "POST", "/policies/change", {"remove": [rule]})
        self.assertIn("fields", self.refused(400, "POST", "/policies/change", {"add": [["p"]]}))
        self.assertEqual(self.got("GET", "/policies/in-force"), {"policy": ""})

    def test_pages(self) -> None:
        whole = [rule["id"] for rule in self.got("GET", "/policies")["rules"]]
        found: list[str] = []
        cursor, lefts = "", []
        while True:
            page = self.got("GET", "/policies", limit=3, cursor=cursor)
            found += [rule["id"] for rule in page["rules"]]
            lefts.append(page["left"])
            cursor = page["next"]
            if not cursor:
                break
        self.assertEqual(found, whole)
        self.assertEqual(lefts, [11, 8, 5, 2, 0])
        self.user("ann", "device", "reader")
        rows = self.got("GET", "/policies", all_rows="true", subject="user:ann")["rules"]
        self.assertEqual(len(rows), 2)

    def test_csv(self) -> None:
        reply = self.call("GET", "/policies/export")
        self.assertEqual(reply.headers["Content-Type"], "text/csv; charset=utf-8")
        self.assertIn(b"p, role:admin, *, admin:read|admin:write, #, any, allow\n", reply.body)
        text = reply.body + ", ".join(RULE).encode() + b"\n"
        path = f"{BASE}/policies/import"
        done = self.ask("POST", path, text, {"Content-Type": "text/csv"})
        self.assertEqual((len(done.json["added"]), done.json["removed"]), (1, []))
        done = self.ask(
            "POST", f"{path}?replace_all=true", reply.body, {"Content-Type": "text/csv"}
        )
        self.assertEqual(len(done.json["removed"]), 1)
        bad = self.ask("POST", path, b"p, x\n", {"Content-Type": "text/csv"})
        self.assertIn("line:1", bad.detail)
        bad = self.ask("POST", path, b"\xff", {"Content-Type": "text/csv"})
        self.assertIn("UTF-8", bad.detail)

    def test_dry_run_and_proposals_change_nothing(self) -> None:
        before = self.hub.registry.revision
        found = self.got("POST", "/policies/dry-run", {"add": [RULE]})
        self.assertEqual(found["people"][0]["who"], ["role:device"])
        self.assertEqual(found["people"][0]["gained"][0]["example"], "alarms/any")
        found = self.got(
            "GET", "/policies/proposals", action="admin:read", topic="stats", user="bob"
        )
        self.assertEqual(
            found["proposals"][0]["add"],
            [["p", "user:bob", "*", "admin:read", "stats", "any", "allow"]],
        )
        self.assertEqual(self.hub.registry.revision, before)

    def test_explain(self) -> None:
        found = self.got("GET", "/explain", action="admin:write", topic="users", user="root")
        self.assertTrue(found["explanation"]["allowed"])
        found = self.got(
            "GET", "/explain", action="admin:read", topic="log", user="x", role=["viewer"]
        )
        self.assertFalse(found["explanation"]["allowed"])
        self.assertIn("off", self.refused(409, "GET", "/explain", action="connect", user="x"))
        self.refused(400, "GET", "/explain", action="admin:read", topic="nothing", user="x")
        self.refused(400, "GET", "/explain", action="x", user="x")
        self.refused(
            400, "GET", "/explain", action="admin:read", topic="log", user="x", attribute="a"
        )


class BanTests(AccessCase):
    def test_bans_and_lockouts_are_apart(self) -> None:
        self.got("POST", "/bans", {"kind": "user", "value": "eve", "why": "spam"}, reason="asked")
        ban = self.got("GET", "/bans")["bans"][0]
        self.assertEqual((ban["reason"], ban["by"], ban["until"]), ("spam", "root", 0.0))
        self.hub.registry.change(
            {"lockout/user/eve": '{"until": 1900000000.0, "failures": 5}'}, self.hub.now
        )
        self.assertEqual(len(self.got("GET", "/bans")["bans"]), 1)
        self.assertEqual(self.got("GET", "/lockouts")["bans"][0]["what"], "lockout")
        self.got("DELETE", "/lockout", kind="user", value="eve")
        self.assertEqual(len(self.got("GET", "/bans", kind="user")["bans"]), 1)
        self.got("DELETE", "/ban", kind="user", value="eve")
        self.refused(404, "DELETE", "/ban", kind="user", value="eve")
        self.refused(400, "POST", "/bans", {"kind": "address", "value": "nonsense"})
        self.refused(400, "POST", "/bans", {"kind": "user", "value": "x", "until": 5})


class LimitTests(AccessCase):
    def test_where_limits_come_from(self) -> None:
        self.do(self.access.users.add("ann", values={"limits": {"max_subscriptions": 3}}))
        self.do(self.access.roles.add("slow", {"limits": {"max_messages_per_s": 1}}))
        found = self.got("GET", "/limits")
        self.assertEqual(found["default"]["max_subscriptions"], 10_000)
        self.assertEqual(found["listeners"], {"mqtt": {"max_subscriptions": 7}})
        self.assertEqual(found["users"], [{"name": "ann", "limits": {"max_subscriptions": 3}}])
        self.assertEqual(found["roles"], [{"name": "slow", "limits": {"max_messages_per_s": 1}}])
        self.assertEqual(found["reached"]["max_subscriptions"], 0)


class TokenTests(AccessCase):
    def test_from_the_first_to_the_last(self) -> None:
        body = {"name": "ci", "scopes": ["read:users"], "roles": ["admin"]}
        made = self.got("POST", "/tokens", body)
        listed = self.call("GET", "/tokens")
        self.assertNotIn(made["token"].split("_", 2)[2], listed.body.decode())
        self.assertEqual(listed.json["tokens"][0]["created_by"], "root")
        headers = {"Authorization": f"Bearer {made['token']}"}
        self.log_out_here()
        self.assertEqual(self.ask("GET", f"{BASE}/users", None, headers).status, 200)
        self.assertEqual(self.ask("GET", f"{BASE}/roles", None, headers).status, 403)
        self.log_in("root")
        self.got("DELETE", "/token", id=made["id"])
        self.log_out_here()
        self.assertEqual(self.ask("GET", f"{BASE}/users", None, headers).status, 401)

    def test_who_makes_one_gives_what_they_have(self) -> None:
        self.allow("p, role:lead, *, admin:read|admin:write, tokens, any, allow")
        self.user("eve", "lead")
        self.log_in("eve")
        body = {"name": "x", "scopes": ["read"], "roles": ["admin"]}
        self.assertIn('the role "admin"', self.refused(403, "POST", "/tokens", body))
        self.got("POST", "/tokens", {**body, "roles": ["lead"]})
