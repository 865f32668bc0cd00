"""Admin plugins: their routes, their permission, and what is wrong with one."""

from pathlib import Path

from mhub.admin.endpoint import Call, endpoint
from mhub.admin.plugins import AdminPlugin
from tests.admin.world import AdminCase

HERE = Path(__file__)


@endpoint("GET", "/hello", public="open", resource="users")
async def hello(call: Call) -> dict[str, str]:
    """Say hello."""
    return {"hello": call.caller.name}


class Broken(AdminPlugin):
    @property
    def title(self) -> str:
        raise RuntimeError("oh")

    @title.setter
    def title(self, value: str) -> None:
        pass


class PluginTests(AdminCase):
    found = (
        AdminPlugin("greet", "Greetings", [hello], HERE.with_name("example") / "setup.py"),
        AdminPlugin("Bad Name", "", [hello]),
        AdminPlugin("greet", "again", [hello]),
        AdminPlugin("twice", "", [hello, hello]),
        Broken("broken"),
    )

    def setUp(self) -> None:
        super().setUp()
        self.user("root", "admin")

    def test_only_good_ones(self) -> None:
        self.assertEqual([each.name for each in self.plugins.all], ["greet"])

    def test_its_permission_is_its_own(self) -> None:
        """Whatever it says of itself: it is not open, and not about users."""
        self.assertEqual(self.ask("GET", "/admin/x/greet/hello").status, 401)
        self.allow("p, user:ann, *, admin:read, users, any, allow")
        self.user("ann")
        self.log_in("ann")
        self.assertEqual(self.ask("GET", "/admin/x/greet/hello").status, 403)
        self.allow("p, user:ann, *, admin:read, x/greet, any, allow")
        self.assertEqual(self.ask("GET", "/admin/x/greet/hello").json, {"hello": "ann"})

    def test_list(self) -> None:
        self.user("bob")
        self.log_in("bob")
        self.assertEqual(self.ask("GET", "/admin/v1/plugins").json, {"plugins": []})
        self.log_in()
        (found,) = self.ask("GET", "/admin/v1/plugins").json["plugins"]
        self.assertEqual(found["title"], "Greetings")
        self.assertEqual(found["script"], "/admin/x/greet/page.js")

    def test_page(self) -> None:
        self.assertEqual(self.ask("GET", "/admin/x/greet/page.js").status, 401)
        self.log_in()
        reply = self.ask("GET", "/admin/x/greet/page.js")
        self.assertEqual(reply.headers["Content-Type"], "text/javascript; charset=utf-8")
        self.assertIn(b"An admin plugin", reply.body)
