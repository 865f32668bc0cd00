"""Changes by the dashboard, and what they do to real clients."""

import re

from playwright.sync_api import Page, expect

from tests.dashboard.browser import PATIENCE_MS, picture
from tests.dashboard.case import CONFIG, DashboardCase

expect.set_options(timeout=PATIENCE_MS)


class ChangeTests(DashboardCase):
    def confirm(self, page: Page, name: str) -> None:
        page.get_by_role("dialog").last.get_by_role("button", name=name, exact=True).click()

    def test_disconnect_a_client(self) -> None:
        client = self.client("pump", expiry_s=3600)
        window = self.window()
        page = self.login(window, "#/clients")
        page.get_by_role("link", name="pump").click()
        page.get_by_role("button", name="Disconnect").click()
        picture(page, "dialog")
        self.confirm(page, "Disconnect")
        self.assertIn("Administrative", client.wait_gone())
        expect(page.locator(".badge.off").first).to_have_text("offline")
        page.get_by_role("button", name="Delete session").click()
        self.confirm(page, "Delete")
        expect(page.get_by_role("heading", level=1)).to_have_text("Clients")
        expect(page.locator("mh-table .status")).to_have_text("No client fits.")
        window.check(page)

    def test_allow_what_was_denied(self) -> None:
        """The proposal shows its dry run, and nothing changes before it is confirmed."""
        self.user("pump")
        sink = self.client("sink")
        self.rules("p, role:anonymous, *, subscribe|receive, yard/#, any, allow")
        sink.subscribe("yard/#", 1)
        pump = self.client("pump-1", "pump")
        pump.publish("yard/level", b"before", 1)
        window = self.window()
        page = self.login(window, "#/access/denials")
        row = page.locator("tr", has_text="yard/level")
        expect(row).to_contain_text("pump-1")
        picture(page, "denials")
        row.get_by_role("button", name="Allow this…").click()
        dialog = page.get_by_role("dialog")
        expect(dialog).to_contain_text("user:pump")
        picture(page, "proposal")
        revision = self.api("GET", "/policies")["revision"]
        dialog.get_by_role("button", name="Apply…").first.click()
        expect(page.locator(".dry-run")).to_contain_text("may now publish")
        self.assertEqual(self.api("GET", "/policies")["revision"], revision)
        picture(page, "dry-run")
        self.confirm(page, "Apply")
        expect(page.locator(".toast")).to_contain_text("in force")
        pump.publish("yard/level", b"after", 1)
        self.assertEqual(sink.receive().payload, b"after")
        window.check(page)

    def test_policies(self) -> None:
        window = self.window()
        page = self.login(window, "#/access/policies")
        expect(page.locator("mh-table")).to_contain_text("role:anonymous")
        text = page.get_by_label("Rules, one a line")
        text.fill("p, role:anonymous, *, publish, plant/#, any, deny")
        page.get_by_role("button", name="Dry run").click()
        expect(page.locator("section", has_text="Add rules")).to_contain_text("may no longer")
        picture(page, "policies")
        pump = self.client("pump")
        sink = self.client("sink")
        sink.subscribe("plant/#", 1)
        page.get_by_role("button", name="Add…").click()
        self.confirm(page, "Apply")
        expect(page.locator(".toast")).to_contain_text("in force")
        pump.publish("plant/a", b"denied", 1)
        expect(page.locator("mh-table")).to_contain_text("publish, plant/#, any, deny")
        row = page.locator("mh-table tr", has_text="publish, plant/#, any, deny")
        row.get_by_role("button", name="Remove").click()
        self.confirm(page, "Apply")
        expect(page.locator("mh-table")).not_to_contain_text("plant/#, any, deny")
        pump.publish("plant/a", b"allowed", 1)
        self.assertEqual(sink.receive().payload, b"allowed")
        page.get_by_label("Rules, one a line").fill("# nothing yet")
        page.get_by_role("button", name="Add…").click()
        expect(page.locator("section .problem")).to_contain_text("There is no rule yet")
        page.get_by_label("Rules, one a line").fill("p, nonsense")
        page.get_by_role("button", name="Dry run").click()
        expect(page.locator("section .problem")).to_be_visible()
        window.check(page)

    def test_users_roles_bans_and_tokens(self) -> None:
        window = self.window()
        page = self.login(window, "#/access/users")
        page.get_by_role("button", name="Add a user…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("operator")
        dialog.get_by_label("Password").fill("a long enough secret")
        dialog.get_by_label("Roles").fill("operator, viewer")
        dialog.get_by_label("Attributes").fill("site=north")
        self.confirm(page, "Add")
        page.get_by_role("button", name="operator", exact=True).click()
        expect(page.locator(".detail")).to_contain_text("site=north")
        picture(page, "users")
        operator = self.client("console", "operator")
        page.get_by_role("button", name="Lock…").click()
        self.confirm(page, "Lock")
        operator.wait_gone()
        expect(page.locator(".detail .badge.bad")).to_have_text("locked")

        page.get_by_role("link", name="Roles").click()
        page.get_by_role("button", name="operator", exact=True).click()
        expect(page.locator(".detail")).to_contain_text("operator")
        picture(page, "roles")

        page.get_by_role("link", name="Bans").click()
        page.get_by_role("button", name="Ban…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("What").select_option("client")
        dialog.get_by_label("Who").fill("pump")
        dialog.get_by_label("Reason (optional)").fill("it leaks")
        self.confirm(page, "Ban")
        expect(page.locator("table", has_text="pump")).to_contain_text("it leaks")
        picture(page, "bans")

        page.get_by_role("link", name="Tokens").click()
        page.get_by_role("button", name="Make a token…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Name").fill("grafana")
        dialog.get_by_label("Roles").fill("viewer")
        self.confirm(page, "Make")
        shown = page.get_by_label("Token", exact=True)
        expect(shown).to_have_value(re.compile("^mhub_"))
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        expect(page.locator("table", has_text="grafana")).to_be_visible()
        picture(page, "tokens")
        window.check(page)

    def test_explain(self) -> None:
        self.user("pump")
        window = self.window()
        page = self.login(window, "#/access/explain?action=publish&topic=a/b&user=pump")
        expect(page.locator(".verdict")).to_have_text("Denied")
        picture(page, "explain")
        page.get_by_label("Topic, filter or resource").fill("users/pump/a")
        page.get_by_role("button", name="Explain").click()
        expect(page.locator(".verdict")).to_have_text("Allowed")
        window.check(page)


class ReasonTests(DashboardCase):
    config = CONFIG + "require_reason = true\n"

    def test_a_change_needs_a_reason(self) -> None:
        client = self.client("pump")
        window = self.window()
        page = self.login(window, "#/client?id=pump")
        page.get_by_role("button", name="Disconnect").click()
        reason = page.get_by_role("dialog").get_by_label("Reason")
        self.assertIsNotNone(reason.get_attribute("required"))
        page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        reason.fill("it floods the plant")
        page.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        self.assertIn("Administrative", client.wait_gone())
        window.check(page)
