"""Another package that is installed, by pip, where a broker finds it: an admin plugin."""

import shutil
import sys
from pathlib import Path

from tests.system.case import BrokerCase, place
from tests.system.process import run
from tests.system.test_admin_permissions import CONFIG
from tests.system.web import Web

EXAMPLE = Path(__file__).resolve().parent.parent / "admin" / "example"
NOTES = "/admin/x/notes/notes"


def install(package: Path, directory: Path) -> None:
    """Build it as it stands, and put it into a folder; nothing is fetched."""
    source = directory / "source"
    shutil.copytree(package, source)  # setuptools writes beside it
    done = run(
        [
            *(sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"),
            *("--no-index", "--no-deps", "--no-build-isolation"),
            *("--target", str(directory), str(source)),
        ]
    )
    assert done.returncode == 0, done.stdout
    shutil.rmtree(source)


class PluginTests(BrokerCase):
    def test_its_routes_and_its_permission(self) -> None:
        directory = place(self)
        install(EXAMPLE, directory)
        self.assertTrue(list(directory.glob("mhub_example_plugin-*.dist-info")))
        web = Web(self.start(CONFIG, directory))
        for name, role in (("root", "admin"), ("watcher", "viewer"), ("clerk", "")):
            web.add_user(name, *([role] if role else []))
        web.allow("p, user:clerk, *, admin:read, x/notes, any, allow")
        root, watcher, clerk = (web.as_user(name) for name in ("root", "watcher", "clerk"))

        reply = root.ask("POST", NOTES, {"text": "hello"})
        self.assertEqual((reply.status, reply.json["notes"]), (200, ["root: hello"]))
        self.assertEqual(clerk.get(NOTES).json["notes"], ["root: hello"])
        for who, method, status in (
            (clerk, "POST", 403),
            (watcher, "GET", 403),
            (web, "GET", 401),
            (web.as_token("read:x/notes"), "GET", 200),
            (web.as_token("read:clients"), "GET", 403),
        ):
            body = {"text": "x"} if method == "POST" else None
            self.assertEqual(who.ask(method, NOTES, body).status, status)
        self.assertEqual(root.ask("POST", NOTES, {"txt": "x"}).status, 400)

        listed = root.get("/admin/v1/plugins").json["plugins"]
        self.assertEqual([each["name"] for each in listed], ["notes"])
        self.assertEqual(watcher.get("/admin/v1/plugins").json["plugins"], [])
        self.assertIn(NOTES, root.get("/admin/v1/openapi.json").json["paths"])
        self.assertEqual(root.get("/admin/x/other/notes").status, 404)
