"""/stats, /metrics, /health, /ready, history, events and live: who may see them, what they say."""

import json
from dataclasses import replace

from mhub import __version__
from mhub.config.admin import AdminSettings
from mhub.operations.series import NAMES
from tests.admin.world import AdminCase

OPEN = ("/health", "/ready")
CLOSED = (
    "/stats",
    "/metrics",
    "/admin/v1/history",
    "/admin/v1/events",
    "/admin/v1/denials",
    "/admin/v1/live",
)
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


class PermissionTests(AdminCase):
    def test_who_has_not_logged_in(self) -> None:
        for path in OPEN:
            self.assertEqual(self.ask("GET", path).status, 200, path)
        for path in CLOSED:
            self.assertEqual(self.ask("GET", path).status, 401, path)

    def test_who_has_no_permission(self) -> None:
        self.user("bob")
        self.log_in("bob")
        for path in CLOSED:
            reply = self.ask("GET", path)
            self.assertEqual(reply.status, 403, path)
            self.assertIn("admin:read on 'stats'", reply.detail)

    def test_who_has(self) -> None:
        self.user("bob")
        self.allow("p, user:bob, *, admin:read, stats, any, allow")
        self.log_in("bob")
        for path in CLOSED:
            if path != "/admin/v1/live":
                self.assertEqual(self.ask("GET", path).status, 200, path)


class NumberTests(AdminCase):
    def setUp(self) -> None:
        super().setUp()
        self.user("bob")
        self.allow("p, user:bob, *, admin:read, stats, any, allow")
        self.log_in("bob")

    def test_stats(self) -> None:
        found = self.ask("GET", "/stats").json
        self.assertEqual((found["version"], found["ready"]), (__version__, "ready"))
        self.assertEqual(found["clients"], "/admin/v1/clients")
        self.assertEqual(found["rates"]["messages_in"]["per_s_1min"], 0.0)
        self.assertIsNone(found["cluster"])

    def test_metrics(self) -> None:
        reply = self.ask("GET", "/metrics")
        self.assertEqual(reply.headers["Content-Type"], "text/plain; version=0.0.4; charset=utf-8")
        self.assertIn(b"\nmhub_sessions 0.0\n", reply.body)
        self.assertIn(f'version="{__version__}"'.encode(), reply.body)

    def test_open_metrics(self) -> None:
        reply = self.ask("GET", "/metrics", headers={"Accept": OPEN_METRICS})
        self.assertEqual(reply.headers["Content-Type"], f"{OPEN_METRICS}; charset=utf-8")
        self.assertTrue(reply.body.endswith(b"\n# EOF\n"))

    def test_history(self) -> None:
        found = self.ask("GET", "/admin/v1/history?names=clients,cpu&span=1d").json
        self.assertEqual(set(found["series"]), {"clients", "cpu"})
        self.assertEqual((found["step_s"], len(found["series"]["cpu"])), (60, 1440))
        self.assertEqual(set(self.ask("GET", "/admin/v1/history").json["series"]), set(NAMES))
        reply = self.ask("GET", "/admin/v1/history?names=nonsense")
        self.assertEqual(reply.status, 400)
        self.assertIn("expected some of messages_in", reply.detail)
        self.assertEqual(self.ask("GET", "/admin/v1/history?span=1y").status, 400)

    def test_events(self) -> None:
        self.hub.events.node("b", "down", "<script>")
        self.hub.events.node("b", "up", "")
        found = self.ask("GET", "/admin/v1/events?kinds=node").json
        self.assertEqual([each["cause"] for each in found["events"]], ["down", "up"])
        after = found["events"][0]["seq"]
        found = self.ask("GET", f"/admin/v1/events?kinds=node&after={after}").json
        self.assertEqual([each["cause"] for each in found["events"]], ["up"])
        self.assertEqual(self.ask("GET", "/admin/v1/events?kinds=nonsense").status, 400)
        self.assertEqual(self.ask("GET", "/admin/v1/events?limit=0").status, 400)
        self.assertEqual(self.ask("GET", "/admin/v1/denials").json, {"denials": []})

    def test_live(self) -> None:
        channel, transport = self.connect()
        head = (
            f"GET /admin/v1/live HTTP/1.1\r\nHost: localhost:8088\r\nCookie: {self.cookie}\r\n\r\n"
        )
        channel.dataReceived(head.encode())
        self.assertIn(b"text/event-stream", transport.value())
        transport.clear()
        self.operations.monitor.tick()
        data = transport.value()
        begin = data.index(b"data: ") + len(b"data: ")
        live = json.loads(data[begin : data.index(b"\n\n", begin)])
        self.assertEqual(set(live["values"]), set(NAMES))
        self.assertEqual((live["ready"], live["store_state"]), ("ready", "none"))
        self.assertTrue(self.operations.monitor._ticker.is_watched)
        channel.timeoutConnection()
        channel.connectionLost()
        self.assertFalse(self.operations.monitor._ticker.is_watched)


class OpenTests(AdminCase):
    settings = replace(AdminSettings(port=8088), metrics="open")

    def test_metrics_for_everybody_without_the_version(self) -> None:
        reply = self.ask("GET", "/metrics")
        self.assertEqual(reply.status, 200)
        self.assertNotIn(__version__.encode(), reply.body)
        self.assertEqual(self.ask("GET", "/stats").status, 401)


class HealthTests(AdminCase):
    def test_no_version(self) -> None:
        for path in OPEN:
            self.assertNotIn(__version__, repr(self.ask("GET", path).body))
        self.assertEqual(self.ask("GET", "/health").json, {"status": "up"})
        self.assertEqual(self.ask("GET", "/ready").json, {"ready": True, "state": "ready"})

    def test_head(self) -> None:
        """Which load balancers like to use."""
        reply = self.ask("HEAD", "/ready")
        self.assertEqual((reply.status, reply.body), (200, b""))

    def test_not_ready(self) -> None:
        self.hub.storage.state = "failing: /var/lib/mhub is full"
        reply = self.ask("GET", "/ready")
        self.assertEqual((reply.status, reply.detail), (503, "store"))
        self.assertNotIn(b"/var/lib", reply.body)
        self.assertEqual(self.ask("GET", "/health").status, 200)

    def test_stopping(self) -> None:
        self.operations._around.state = lambda: "stopping"  # type: ignore[method-assign]
        self.assertEqual(self.ask("GET", "/ready").detail, "stopping")
        reply = self.ask("GET", "/health")
        self.assertEqual((reply.status, reply.detail), (503, "down"))
