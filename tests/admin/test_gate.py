"""Logins, sessions, CSRF, origins, permissions and rates, in front of every endpoint."""

from dataclasses import replace

from mhub.admin.endpoint import Call, endpoint
from mhub.admin.resources import ENDPOINTS
from mhub.config.admin import AdminSettings
from tests.admin.world import AdminCase


@endpoint("GET", "/clients", resource="clients")
async def read_it(call: Call) -> dict[str, str]:
    """Read."""
    return {"by": call.caller.name}


@endpoint("POST", "/clients", resource="clients")
async def write_it(call: Call) -> dict[str, str]:
    """Write."""
    return {"reason": call.reason}


SOME = (
    *(each for each in ENDPOINTS if each.path != "/admin/v1/clients"),
    read_it.endpoint,  # type: ignore[attr-defined]
    write_it.endpoint,  # type: ignore[attr-defined]
)


class GateCase(AdminCase):
    endpoints = SOME

    def setUp(self) -> None:
        super().setUp()
        self.user("root", "admin")

    def read(self, **headers: str) -> int:
        return self.ask("GET", "/admin/v1/clients", headers=headers).status

    def write(self, **headers: str) -> int:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.ask("POST", "/admin/v1/clients", headers=named).status


class LoginTests(GateCase):
    def test_nothing_without_a_login(self) -> None:
        reply = self.ask("GET", "/admin/v1/clients")
        self.assertEqual(reply.status, 401)
        self.assertEqual(reply.headers["Content-Type"], "application/problem+json")
        self.assertIn("Bearer", reply.headers["WWW-Authenticate"])

    def test_login_and_logout(self) -> None:
        reply = self.log_in()
        self.assertEqual(reply.status, 200)
        self.assertIn("clients", reply.json["write"])
        self.assertEqual(self.read(), 200)
        self.assertEqual(self.write(), 200)
        self.assertEqual(self.ask("POST", "/admin/v1/logout").status, 204)
        self.assertEqual(self.read(), 401)

    def test_the_cookie(self) -> None:
        cookie = str(self.log_in().headers["Set-Cookie"])
        for part in ("HttpOnly", "SameSite=Strict", "Path=/"):
            self.assertIn(part, cookie)
        self.assertNotIn("Secure", cookie)

    def test_failures_say_the_same(self) -> None:
        wrong = self.log_in("root", "wrong")
        unknown = self.log_in("nobody", "wrong")
        self.assertEqual((wrong.status, wrong.body), (unknown.status, unknown.body))
        self.assertEqual(wrong.status, 401)

    def test_failures_cost_the_same(self) -> None:
        """An unknown name is checked against a hash as well."""
        self.log_in("root", "wrong")
        before = self.hub.stats.passwords_checked
        self.log_in("nobody", "wrong")
        self.assertEqual(self.hub.stats.passwords_checked, before + 1)

    def test_lock_out(self) -> None:
        """As for MQTT: whoever guesses is locked out where he is, also with the right password."""
        for _ in range(5):
            self.assertEqual(self.log_in("root", "wrong").status, 401)
        self.assertEqual(self.log_in().status, 401)
        self.host = "192.0.2.8"
        self.assertEqual(self.log_in().status, 200)

    def test_locked_user(self) -> None:
        self.log_in()
        self.do(self.access.users.lock("root", True))
        self.assertEqual(self.read(), 401)
        self.assertEqual(self.log_in().status, 401)

    def test_deleted_user(self) -> None:
        self.log_in()
        self.do(self.access.users.delete("root"))
        self.assertEqual(self.read(), 401)
        self.user("root")
        self.assertEqual(self.read(), 401)

    def test_banned_user(self) -> None:
        self.log_in()
        self.do(self.access.bans.add("user", "root"))
        self.assertEqual(self.read(), 401)

    def test_banned_address(self) -> None:
        """Wherever the login was: what counts is where a request comes from."""
        made = self.do(self.access.tokens.add("t", ["read"], ["admin"]))
        token = {"Authorization": f"Bearer {made.token}"}
        self.log_in()
        self.host = "198.51.100.9"
        for headers in ({}, token):
            reply = self.ask("GET", "/admin/v1/session", headers=headers)
            self.assertEqual(reply.status, 200, reply)
        self.do(self.access.bans.add("address", "198.51.100.0/24"))
        for headers in ({}, token):
            self.assertEqual(self.ask("GET", "/admin/v1/session", headers=headers).status, 401)
        self.host = "192.0.2.7"
        for headers in ({}, token):
            reply = self.ask("GET", "/admin/v1/session", headers=headers)
            self.assertEqual(reply.status, 200, reply)

    def test_what_a_token_lacks(self) -> None:
        """A rule would not help a token that has no scope for it, or cannot have one."""
        for scopes, roles, path, text in (
            (
                ["read"],
                ["admin"],
                "clients",
                'the token needs the scope "write:clients", or "write"',
            ),
            (
                ["read", "write"],
                ["admin"],
                "users",
                "no token may write 'users', whatever its scopes: log in as a user",
            ),
            (["write"], [], "clients", "'token:t' needs the permission admin:write on 'clients'"),
        ):
            made = self.do(self.access.tokens.add("t", scopes, roles))
            headers = {"Authorization": f"Bearer {made.token}"}
            reply = self.ask("POST", f"/admin/v1/{path}", headers=headers)
            self.assertEqual((reply.status, reply.detail), (403, text))
            self.do(self.access.tokens.delete(made.id))
        made = self.do(self.access.tokens.add("t", ["mqtt"], ["admin"]))
        reply = self.ask("GET", "/metrics", headers={"Authorization": f"Bearer {made.token}"})
        self.assertEqual(reply.detail, 'the token needs the scope "metrics", or "read"')

    def test_banned_token(self) -> None:
        made = self.do(self.access.tokens.add("t", ["read"], ["admin"]))
        self.do(self.access.bans.add("user", "token:t"))
        headers = {"Authorization": f"Bearer {made.token}"}
        self.assertEqual(self.ask("GET", "/admin/v1/session", headers=headers).status, 401)

    def test_who_has_changed_a_password(self) -> None:
        self.log_in()
        body = {"current": "right password", "new": "another one"}
        self.assertEqual(self.ask("PUT", "/admin/v1/session/password", body).status, 200)
        found = self.operations.events(0, ("admin",)).events[-1]
        self.assertEqual((found.by, found.cause), ("root", "users.passwd"))

    def test_another_password_ends_the_sessions(self) -> None:
        self.log_in()
        self.clock.advance(1)
        self.do(self.access.users.passwd("root", "another password"))
        self.assertEqual(self.read(), 401)

    def test_roles_are_those_of_now(self) -> None:
        self.log_in()
        self.do(self.access.users.update("root", {"roles": []}))
        self.assertEqual(self.read(), 403)

    def test_own_password(self) -> None:
        self.log_in()
        other = self.cookie
        self.log_in()
        path = "/admin/v1/session/password"
        wrong = {"current": "wrong", "new": "longer than that"}
        self.assertEqual(self.ask("PUT", path, wrong).status, 403)
        short = {"current": "right password", "new": "short"}
        self.assertEqual(self.ask("PUT", path, short).status, 400)
        self.clock.advance(1)
        right = {"current": "right password", "new": "longer than that"}
        self.assertEqual(self.ask("PUT", path, right).status, 200)
        self.assertEqual(self.read(), 200)
        self.cookie = other
        self.assertEqual(self.read(), 401)

    def test_idle(self) -> None:
        self.log_in()
        for _ in range(3):
            self.clock.advance(self.settings.session_idle_s - 1)
            self.assertEqual(self.read(), 200)
        self.clock.advance(self.settings.session_idle_s)
        self.assertEqual(self.read(), 401)

    def test_no_session_lasts_for_ever(self) -> None:
        self.log_in()
        passed = 0.0
        while passed + 1000 < self.settings.session_max_s:
            self.clock.advance(1000)
            passed += 1000
            self.assertEqual(self.read(), 200)
        self.clock.advance(1000)
        self.assertEqual(self.read(), 401)


class FewSessionsTests(GateCase):
    settings = AdminSettings(max_sessions=20, max_requests_per_s=0)

    def test_so_many_of_a_user(self) -> None:
        """A tenth of all; a further one ends the oldest."""
        cookies = []
        for _ in range(3):
            self.log_in()
            cookies.append(self.cookie)
        found = []
        for self.cookie in cookies:
            found.append(self.read())
        self.assertEqual(found, [401, 200, 200])


class CsrfTests(GateCase):
    def setUp(self) -> None:
        super().setUp()
        self.log_in()

    def test_without_the_secret(self) -> None:
        self.csrf = ""
        self.assertEqual(self.read(), 200)
        self.assertEqual(self.write(), 403)

    def test_wrong_secret(self) -> None:
        self.csrf = "x" * len(self.csrf)
        self.assertEqual(self.write(), 403)

    def test_secret_of_another_session(self) -> None:
        mine = self.cookie
        self.log_in()
        self.cookie = mine
        self.assertEqual(self.write(), 403)

    def test_other_origins(self) -> None:
        for origin in ("https://evil.example", "null", "http://localhost:8089", "http://["):
            self.assertEqual(self.write(Origin=origin), 403, origin)

    def test_own_origin(self) -> None:
        self.assertEqual(self.write(Origin="http://localhost:8088"), 200)

    def test_login_from_another_origin(self) -> None:
        reply = self.ask(
            "POST",
            "/admin/v1/login",
            {"user": "root", "password": "right password"},
            {"Origin": "https://evil.example"},
        )
        self.assertEqual(reply.status, 403)

    def test_forms(self) -> None:
        """What a page can send without being asked whether it may is refused."""
        for kind in ("application/x-www-form-urlencoded", "text/plain", ""):
            reply = self.ask("POST", "/admin/v1/login", b'{"user":"root"}', {"Content-Type": kind})
            self.assertEqual(reply.status, 415, kind)


class PermissionTests(GateCase):
    def test_by_resource_and_verb(self) -> None:
        self.allow("p, user:ann, *, admin:read, clients, any, allow")
        self.user("ann")
        self.log_in("ann")
        self.assertEqual(self.read(), 200)
        reply = self.ask("POST", "/admin/v1/clients")
        self.assertEqual(reply.status, 403)
        self.assertIn("admin:write on 'clients'", reply.detail)

    def test_nobody_in_particular(self) -> None:
        self.user("ann")
        self.assertEqual(self.log_in("ann").json["read"], [])
        self.assertEqual(self.read(), 403)

    def test_deny_is_stronger(self) -> None:
        self.allow("p, user:root, *, admin:write, clients, any, deny")
        self.log_in()
        self.assertEqual((self.read(), self.write()), (200, 403))


class ReasonTests(GateCase):
    settings = AdminSettings(require_reason=True)

    def test_required(self) -> None:
        self.log_in()
        self.assertEqual(self.read(), 200)
        self.assertEqual(self.write(), 400)
        reply = self.ask("POST", "/admin/v1/clients?reason=because")
        self.assertEqual(reply.json, {"reason": "because"})


class BasicTests(GateCase):
    settings = AdminSettings(basic=True)

    def test_right_and_wrong(self) -> None:
        right = "Basic cm9vdDpyaWdodCBwYXNzd29yZA=="
        self.assertEqual(self.read(Authorization=right), 200)
        before = self.hub.stats.passwords_checked
        self.assertEqual(self.read(Authorization=right), 200)
        self.assertEqual(self.hub.stats.passwords_checked, before)  # it is remembered
        self.clock.advance(61)
        self.assertEqual(self.read(Authorization=right), 200)
        self.assertEqual(self.hub.stats.passwords_checked, before + 1)
        for wrong in ("Basic cm9vdDp3cm9uZw==", "Basic !", "Basic", "Digest x"):
            self.assertEqual(self.read(Authorization=wrong), 401, wrong)

    def test_what_is_remembered_ends_with_the_password(self) -> None:
        right = "Basic cm9vdDpyaWdodCBwYXNzd29yZA=="
        self.assertEqual(self.read(Authorization=right), 200)
        self.clock.advance(1)
        self.do(self.access.users.passwd("root", "another password"))
        self.assertEqual(self.read(Authorization=right), 401)

    def test_a_browser_is_not_asked(self) -> None:
        self.assertNotIn("Basic", self.ask("GET", "/admin/v1/clients").headers["WWW-Authenticate"])


class NoBasicTests(GateCase):
    def test_off(self) -> None:
        self.assertEqual(self.read(Authorization="Basic cm9vdDpyaWdodCBwYXNzd29yZA=="), 401)


class RateTests(GateCase):
    settings = replace(AdminSettings(), max_requests_per_s=2.0)

    def test_rate(self) -> None:
        """Five seconds' worth at once, then as many as the rate brings."""
        found = [self.read() for _ in range(13)]
        self.assertEqual(found, [401] * 11 + [429] * 2)
        self.assertEqual(self.gate.limited, 2)
        self.clock.advance(1)
        self.assertEqual([self.read() for _ in range(3)], [401, 401, 429])

    def test_others(self) -> None:
        for _ in range(13):
            self.read()
        self.host = "192.0.2.8"
        self.assertEqual(self.read(), 401)
