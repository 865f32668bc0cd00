"""Files of the dashboard: what is served, how it is compressed and cached."""

import gzip
from pathlib import Path

from klein import Klein
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from mhub.admin.static import StaticFiles
from mhub.web.site import BoundedSite, Bounds
from tests.admin.world import Reply


class StaticTests(SynchronousTestCase):
    def setUp(self) -> None:
        folder = Path(self.mktemp())
        (folder / "pages").mkdir(parents=True)
        (folder / "index.html").write_text("<!doctype html>" + " " * 1000)
        (folder / "pages" / "a.js").write_text("export const a = 1")
        (folder / "secret.txt").write_text("not one of a page")
        (folder.parent / "outside.js").write_text("not here")
        files = StaticFiles(folder, lambda host: [f"ws://{host}:8083"] if host else [])
        app = Klein()
        files.add_to(app)
        self.site = BoundedSite(
            app.resource(), Clock(), Bounds(), lambda *_: 0, lambda code, text: ("text/plain", b"")
        )

    def get(self, path: str, **headers: str) -> Reply:
        channel, transport = self.site.buildProtocol(None), StringTransport()
        channel.makeConnection(transport)
        fields = {"Host": "broker.example:8088", **headers}
        head = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in fields.items())
        channel.dataReceived(f"GET {path} HTTP/1.0\r\n{head}\r\n".encode())
        return Reply(transport.value())

    def test_types(self) -> None:
        self.assertEqual(self.get("/").headers["Content-Type"], "text/html; charset=utf-8")
        self.assertEqual(
            self.get("/pages/a.js").headers["Content-Type"], "text/javascript; charset=utf-8"
        )

    def test_compressed(self) -> None:
        reply = self.get("/", Accept_Encoding="gzip, br")
        self.assertEqual(reply.headers["Content-Encoding"], "gzip")
        self.assertEqual(gzip.decompress(reply.body), self.get("/").body)

    def test_cached(self) -> None:
        etag = self.get("/").headers["ETag"]
        reply = self.get("/", If_None_Match=etag)
        self.assertEqual((reply.status, reply.body), (304, b""))

    def test_nothing_else(self) -> None:
        for path in (
            "/secret.txt",
            "/../outside.js",
            "/pages/../../outside.js",
            "/%2e%2e/outside.js",
            "/pages/..%2f..%2foutside.js",
            "/pages",
        ):
            self.assertEqual(self.get(path).status, 404, path)

    def test_web_sockets(self) -> None:
        self.assertIn(
            "connect-src 'self' ws://broker.example:8083",
            self.get("/").headers["Content-Security-Policy"],
        )

    def test_a_host_that_is_none(self) -> None:
        for host in ("a;script-src *", "a b", "[::1", "'", ""):
            policy = self.get("/", Host=host).headers["Content-Security-Policy"]
            self.assertNotIn("connect-src", policy, host)
        policy = self.get("/", Host="[::1]:8088").headers["Content-Security-Policy"]
        self.assertIn("ws://[::1]:8083", policy)
