"""Clients, subscriptions, topics and retained messages over HTTP."""

from types import SimpleNamespace
from typing import Any
from urllib.parse import urlencode

from mhub.core.limits import Limits
from tests.admin.world import AdminCase
from tests.core.world import Client
from tests.helpers import packets as p

READS = (
    ("clients", "clients", {}),
    ("clients/top", "clients", {}),
    ("client", "clients", {"client_id": "a b/ä"}),
    ("subscriptions", "subscriptions", {}),
    ("groups", "subscriptions", {}),
    ("routes", "subscriptions", {"topic": "t/1"}),
    ("topics/top", "stats", {}),
    ("topics/tree", "stats", {}),
    ("retained", "retained", {}),
    ("retained/tree", "retained", {}),
    ("retained/message", "retained", {"topic": "t/1"}),
)


class ListCase(AdminCase):
    def setUp(self) -> None:
        super().setUp()
        self.user("root", "admin")
        self.log_in()
        self.clients = SimpleNamespace(hub=self.hub, now=self.clock.seconds())
        self.client = self.connected("a b/ä")
        self.client.subscribe("t/#", 1)
        self.client.subscribe("$share/g/work")
        self.client.publish("t/1", b"21.5", retain=True)
        self.client.take()

    def connected(self, client_id: str) -> Client:
        client = Client(self.clients, 4, Limits())  # type: ignore[arg-type]
        client.send(p.connect(client_id, 4, clean=False))
        client.next("CONNACK")
        return client

    def get(self, path: str, **asked: Any) -> Any:
        query = f"?{urlencode(asked)}" if asked else ""
        reply = self.ask("GET", f"/admin/v1/{path}{query}")
        self.assertEqual(reply.status, 200, reply)
        return reply.json


class ReadTests(ListCase):
    def test_clients(self) -> None:
        for n in range(5):
            self.connected(f"c{n}")
        for scope in ("cluster", "node"):
            page = self.get("clients", limit=4, sort="-client_id", scope=scope)
            found = [each["client_id"] for each in page["clients"]]
            self.assertEqual((page["left"], page["sessions"]), (2, 6))
            page = self.get("clients", limit=4, sort="-client_id", cursor=page["next"], scope=scope)
            found += [each["client_id"] for each in page["clients"]]
            self.assertEqual((found, page["next"]), (["c4", "c3", "c2", "c1", "c0", "a b/ä"], ""))
        (top,) = self.get("clients/top", by="messages_in", limit=1)["clients"]
        self.assertEqual((top["client_id"], top["messages_in"]), ("a b/ä", 1))
        detail = self.get("client", client_id="a b/ä")
        self.assertEqual(detail["client"]["state"], "connected")
        self.assertEqual(len(detail["subscriptions"]), 2)

    def test_subscriptions(self) -> None:
        page = self.get("subscriptions", topic="t/9")
        self.assertEqual([each["filter"] for each in page["subscriptions"]], ["t/#"])
        (group,) = self.get("groups")["groups"]
        self.assertEqual((group["group"], group["members"]), ("g", 1))
        route = self.get("routes", topic="t/9")
        self.assertEqual([each["client_id"] for each in route["targets"]], ["a b/ä"])

    def test_topics(self) -> None:
        (topic,) = self.get("topics/top", by="messages")["topics"]
        self.assertEqual((topic["topic"], topic["messages"]), ("t/1", 1))
        (level,) = self.get("topics/tree")["levels"]
        self.assertEqual((level["name"], level["prefix"], level["topics"]), ("t", "t/", 1))

    def test_retained(self) -> None:
        (message,) = self.get("retained", filter="t/+")["messages"]
        self.assertEqual((message["topic"], message["size_bytes"]), ("t/1", 4))
        (level,) = self.get("retained/tree", prefix="t")["levels"]
        self.assertEqual((level["name"], level["is_message"]), ("1", True))
        self.assertEqual(self.get("retained/message", topic="t/1")["text"], "21.5")

    def test_what_is_not_there(self) -> None:
        for path in ("client?client_id=x", "retained/message?topic=x"):
            self.assertEqual(self.ask("GET", f"/admin/v1/{path}").status, 404, path)
        for path in (
            "clients?sort=colour",
            "clients?cursor=x",
            "clients?scope=world",
            "clients?limit=1001",
            "routes?topic=a/%23",
            "routes",
            "retained?filter=a/%23/b",
            "topics/top?by=topic",
        ):
            self.assertEqual(self.ask("GET", f"/admin/v1/{path}").status, 400, path)

    def test_permissions(self) -> None:
        """Each resource by itself, to read and to change."""
        self.allow(
            "p, role:readers, *, admin:read, subscriptions, any, allow",
            "p, role:keepers, *, admin:read|admin:write, clients, any, allow",
        )
        self.user("eve", "readers")
        self.user("bob", "keepers")
        for name, resource in (("eve", "subscriptions"), ("bob", "clients")):
            self.log_out_here()
            self.log_in(name)
            for path, needed, asked in READS:
                reply = self.ask("GET", f"/admin/v1/{path}?{urlencode(asked)}")
                self.assertEqual(reply.status == 200, needed == resource, (name, path, reply))
        topic = "/admin/v1/retained/message?topic=t/1"
        self.assertIn(self.ask("DELETE", topic).status, (403, 404))
        self.assertEqual(len(self.hub.retained), 1)


class ChangeTests(ListCase):
    def test_disconnect_and_delete(self) -> None:
        reply = self.ask("POST", "/admin/v1/client/disconnect", {"client_id": "a b/ä"})
        self.assertEqual((reply.status, reply.json["was_connected"]), (200, True))
        self.assertTrue(self.client.closed)
        self.assertIn("a b/ä", self.hub.sessions)
        query = urlencode({"client_id": "a b/ä"})
        reply = self.ask("DELETE", f"/admin/v1/client/session?{query}")
        self.assertEqual((reply.status, reply.json["session_deleted"]), (200, True))
        self.assertEqual(self.hub.sessions, {})
        self.assertEqual(self.ask("DELETE", f"/admin/v1/client/session?{query}").status, 404)

    def test_subscribe_and_unsubscribe(self) -> None:
        asked = {"client_id": "a b/ä", "filter": "new/#", "qos": 1}
        reply = self.ask("POST", "/admin/v1/client/subscribe", asked)
        self.assertEqual((reply.status, reply.json["qos"]), (200, 1))
        self.connected("p").publish("new/1", b"x")
        self.assertEqual(self.client.payloads(), [b"x"])
        del asked["qos"]
        self.assertEqual(self.ask("POST", "/admin/v1/client/unsubscribe", asked).status, 200)
        self.assertEqual(self.ask("POST", "/admin/v1/client/unsubscribe", asked).status, 404)
        asked["filter"] = "a/#/b"
        self.assertEqual(self.ask("POST", "/admin/v1/client/subscribe", asked).status, 400)

    def test_delete_a_retained_message(self) -> None:
        path = "/admin/v1/retained/message?topic=t/1"
        self.assertEqual(self.ask("DELETE", path).status, 200)
        self.assertEqual(len(self.hub.retained), 0)
        self.assertEqual(self.client.payloads(), [b""])
        self.assertEqual(self.ask("DELETE", path).status, 404)
