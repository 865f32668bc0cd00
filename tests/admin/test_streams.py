"""Streams last no longer than the login, and the permission, of who reads them."""

from collections.abc import AsyncGenerator
from typing import Any

from twisted.internet.defer import Deferred

from mhub.admin.app import CHECK_S
from mhub.admin.endpoint import EVENTS, Call, endpoint
from mhub.admin.resources import ENDPOINTS
from mhub.config.admin import AdminSettings
from tests.admin.world import AdminCase

ended: list[str] = []


@endpoint("GET", "/watch", resource="stats", stream=EVENTS)
async def watch(call: Call) -> AsyncGenerator[bytes, None]:
    """Watch something."""
    try:
        yield b": hello\n\n"
        await Deferred()
    finally:
        ended.append("stream")


class StreamCase(AdminCase):
    settings = AdminSettings(port=8088, session_idle_s=1800.0, max_streams=8, basic=True)
    endpoints = (*ENDPOINTS, watch.endpoint)  # type: ignore[attr-defined]

    def setUp(self) -> None:
        super().setUp()
        ended.clear()
        self.user("root", "admin")
        self.user("eve", "viewer")
        self.log_in("eve")

    def begin(self, method: str = "GET", **headers: str) -> Any:
        fields = {"Cookie": self.cookie, **headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        channel, transport = self.connect()
        channel.dataReceived(f"{method} /admin/v1/watch HTTP/1.0\r\n{head}\r\n".encode())
        return transport

    def wait(self, seconds: float) -> None:
        for _ in range(int(seconds / CHECK_S) + 1):
            self.clock.advance(CHECK_S)


class EndTests(StreamCase):
    def test_goes_on(self) -> None:
        reader = self.begin()
        self.assertIn(b": hello", reader.value())
        self.wait(600)
        self.assertFalse(reader.disconnected)
        self.assertEqual(self.app.streams, 1)

    def test_logout(self) -> None:
        reader = self.begin()
        self.assertEqual(self.ask("POST", "/admin/v1/logout").status, 204)
        self.wait(CHECK_S)
        self.assertTrue(reader.disconnected)

    def test_permission_withdrawn(self) -> None:
        reader = self.begin()
        self.do(self.access.users.update("eve", {"roles": []}))
        self.wait(CHECK_S)
        self.assertTrue(reader.disconnected)

    def test_locked(self) -> None:
        reader = self.begin()
        self.do(self.access.users.lock("eve", True))
        self.wait(CHECK_S)
        self.assertTrue(reader.disconnected)

    def test_revoked_token(self) -> None:
        made = self.do(self.access.tokens.add("t", ["read"], ["viewer"]))
        reader = self.begin(Cookie="", Authorization=f"Bearer {made.token}")
        self.wait(CHECK_S)
        self.assertFalse(reader.disconnected)
        self.do(self.access.tokens.delete(made.id))
        self.wait(CHECK_S)
        self.assertTrue(reader.disconnected)

    def test_idle(self) -> None:
        """To look on is not to ask for something."""
        reader = self.begin()
        self.wait(1790)
        self.assertFalse(reader.disconnected)
        self.wait(20)
        self.assertTrue(reader.disconnected)
        self.assertEqual(self.ask("GET", "/admin/v1/session").status, 401)

    def test_requests_keep_it(self) -> None:
        reader = self.begin()
        for _ in range(3):
            self.wait(1500)
            self.assertEqual(self.ask("GET", "/admin/v1/session").status, 200)
        self.assertFalse(reader.disconnected)

    def test_head(self) -> None:
        """There is nothing to read: it is over at once."""
        reader = self.begin("HEAD")
        self.assertIn(b"200 OK", reader.value())
        self.assertEqual(self.app.streams, 0)


class ShareTests(StreamCase):
    def test_of_one_user(self) -> None:
        """Nobody can take those of all others."""
        for _ in range(2):
            self.assertIn(b"200 OK", self.begin().value())
        refused = self.begin().value()
        self.assertIn(b"429", refused.partition(b"\r\n")[0])
        self.log_out_here()
        self.log_in("root")
        self.assertIn(b"200 OK", self.begin().value())
