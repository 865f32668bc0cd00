"""Changes by operators are events, with who has made them and why."""

from typing import Annotated

from mhub.admin.caller import Caller, local
from mhub.admin.endpoint import Body, Call, Query, endpoint
from mhub.core.principal import Identity, Principal
from mhub.operations.contract import NotThere
from tests.access.facade import Told
from tests.admin.world import AdminCase


@endpoint("POST", "/thing", resource="listeners")
async def change_thing(
    call: Call,
    name: Annotated[str, Query("Its name.")],
    note: Annotated[str, Body("A note.")] = "",
    count: Annotated[int, Body("How many.")] = 3,
    gone: Annotated[bool, Body("Whether it is gone.")] = False,
) -> None:
    """Change a thing."""
    if name == "none":
        raise NotThere("there is no such thing")
    if name == "defect":
        raise ZeroDivisionError


@endpoint("POST", "/change", base="/admin/x/other", resource="x/other")
async def of_a_plugin(
    call: Call, name: Annotated[str, Query("A name.")], key: Annotated[str, Body("A secret.")]
) -> None:
    """Change something of a plugin."""


@endpoint("GET", "/thing", resource="listeners")
async def show_thing(call: Call) -> None:
    """Show a thing."""


class AuditTests(AdminCase):
    endpoints = (
        *AdminCase.endpoints,
        *(
            each.endpoint  # type: ignore[attr-defined]
            for each in (change_thing, of_a_plugin, show_thing)
        ),
    )

    def setUp(self) -> None:
        super().setUp()
        self.user("root", "admin")
        self.allow("p, role:admin, *, admin:read|admin:write, x/other, any, allow")
        self.log_in("root")
        self.told = Told()
        self.hub.events.sinks.append(self.told)

    def test_a_change(self) -> None:
        body = {"note": "n", "gone": True}
        reply = self.ask("POST", "/admin/v1/thing?name=a&reason=it+is+time", body)
        self.assertEqual(reply.status, 204)
        text = 'name "a", note "n", gone'
        self.assertEqual(self.told.last(), ("root", "change-thing", text, "it is time", "done"))
        self.assertEqual(len(self.told.events), 1)

    def test_a_change_that_fails(self) -> None:
        for name, status, outcome in (("none", 404, "refused"), ("defect", 500, "failed")):
            reply = self.ask("POST", f"/admin/v1/thing?name={name}", {})
            self.assertEqual((reply.status, self.told.last()[4]), (status, outcome))
        self.flushLoggedErrors(ZeroDivisionError)

    def test_what_changes_nothing_is_not_told(self) -> None:
        self.ask("GET", "/admin/v1/thing")
        self.ask("POST", "/admin/v1/thing?name=a&reason=two%0Alines", {})
        self.assertEqual(self.told.events, [])

    def test_a_user_is_told_of_once(self) -> None:
        self.ask("POST", "/admin/v1/users?reason=new", {"name": "bob"})
        self.assertEqual([each.cause for each in self.told.events], ["users.add"])

    def test_the_body_of_a_plugin_may_be_secret(self) -> None:
        self.ask("POST", "/admin/x/other/change?name=a", {"key": "hunter2"})
        self.assertEqual(self.told.last()[:3], ("root", "of-a-plugin", 'name "a"'))

    def test_names_of_callers(self) -> None:
        def named(user: str) -> str:
            principal = Principal("", "admin").identified(Identity(user, "password"))
            return Caller("session", principal, "").name

        self.assertEqual((local("ann").name, local().name), ("local:ann", "local"))
        self.assertEqual((named("ann"), named("local:ann")), ("ann", "user:local:ann"))
