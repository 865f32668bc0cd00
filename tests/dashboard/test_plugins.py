"""A page that another package adds."""

import shutil
from pathlib import Path

from playwright.sync_api import expect

from tests.dashboard.browser import PATIENCE_MS, picture
from tests.dashboard.case import DashboardCase
from tests.system.process import Broker

expect.set_options(timeout=PATIENCE_MS)

EXAMPLE = Path(__file__).resolve().parent.parent / "admin" / "example"


class PluginTests(DashboardCase):
    def start_node(self, directory: Path, config: str) -> Broker:
        """A broker finds plugins below its folder (`tests.system.process.environment`)."""
        for name in ("mhub_example", "twisted"):
            shutil.copytree(EXAMPLE / name, directory / name)
        return super().start_node(directory, config)

    def test_a_page_of_a_plugin(self) -> None:
        note = "<img src=x onerror=window.pwned=1>"
        self.api("POST", "/admin/x/notes/notes", {"text": note})
        self.user("viewer", "viewer")
        window = self.window()
        page = self.login(window)
        page.locator("#nav").get_by_role("link", name="Notes").click()
        expect(page.locator("#example-notes li")).to_have_text(f"admin: {note}")
        picture(page, "plugin")
        page.reload()
        expect(page.locator("#example-notes li")).to_have_text(f"admin: {note}")
        window.check(page)
        window = self.window()
        page = self.login(window, user="viewer")
        expect(page.locator("#nav").get_by_role("link", name="Clients")).to_be_visible()
        self.assertEqual(page.locator("#nav").get_by_role("link", name="Notes").count(), 0)
