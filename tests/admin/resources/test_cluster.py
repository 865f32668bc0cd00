"""Presence and the cluster over HTTP, at a broker without one; tests/system has real nodes."""

from mhub.core.limits import Limits
from tests.admin.world import AdminCase


class EndpointTests(AdminCase):
    def setUp(self) -> None:
        super().setUp()
        self.user("root", "admin")
        self.user("nobody")

    def come(self, client_id: str) -> None:
        self.hub.new_session(client_id, Limits())

    def test_presence(self) -> None:
        self.assertEqual(self.log_in().status, 200)
        for number in range(3):
            self.come(f"c{number}")
        reply = self.ask("GET", "/admin/v1/presence?limit=2")
        self.assertEqual(reply.status, 200, reply)
        found = reply.json
        self.assertEqual([each["client_id"] for each in found["clients"]], ["c0", "c1"])
        self.assertEqual(found["clients"][0]["state"], "offline")
        self.assertEqual(found["missing"], [])
        reply = self.ask("GET", f"/admin/v1/presence?limit=2&cursor={found['next']}")
        self.assertEqual([each["client_id"] for each in reply.json["clients"]], ["c2"])
        reply = self.ask("GET", "/admin/v1/presence?scope=node&state=connected")
        self.assertEqual((reply.status, reply.json["clients"]), (200, []))
        for wrong in ("state=here", "limit=0", "limit=1001", "cursor=x", "scope=world"):
            self.assertEqual(self.ask("GET", f"/admin/v1/presence?{wrong}").status, 400, wrong)

    def test_totals(self) -> None:
        self.log_in()
        self.come("x")
        found = self.ask("GET", "/admin/v1/cluster/totals").json
        self.assertEqual(found["total"]["sessions"]["total"], 1)
        self.assertEqual([each["node"] for each in found["nodes"]], [""])

    def test_there_is_no_cluster(self) -> None:
        self.log_in()
        for method, path in (
            ("GET", "cluster"),
            ("POST", "cluster/leave?node=a"),
            ("POST", "cluster/forget?node=a"),
        ):
            reply = self.ask(method, f"/admin/v1/{path}")
            self.assertEqual(reply.status, 409, path)
            self.assertIn("not part of a cluster", reply.detail)

    def test_permissions(self) -> None:
        paths = (
            ("GET", "presence"),
            ("GET", "cluster"),
            ("GET", "cluster/totals"),
            ("POST", "cluster/leave?node=a"),
            ("POST", "cluster/forget?node=a"),
        )
        for method, path in paths:
            self.assertEqual(self.ask(method, f"/admin/v1/{path}").status, 401, path)
        self.log_in("nobody")
        for method, path in paths:
            self.assertIn(self.ask(method, f"/admin/v1/{path}").status, (403, 404), path)
        self.log_out_here()
        self.user("reader", "reader")
        self.allow("p, role:reader, *, admin:read, cluster, any, allow")
        self.log_in("reader")
        self.assertEqual(self.ask("GET", "/admin/v1/cluster").status, 409)
        self.assertIn(self.ask("POST", "/admin/v1/cluster/forget?node=a").status, (403, 404))
        self.assertIn(self.ask("GET", "/admin/v1/presence").status, (403, 404))
