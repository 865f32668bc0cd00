"""Text of others never becomes markup or script: client ids, topics, payloads, names, reasons."""

from urllib.parse import quote

from playwright.sync_api import Page, expect

from tests.dashboard.browser import PATIENCE_MS, picture
from tests.dashboard.case import PASSWORD, DashboardCase

expect.set_options(timeout=PATIENCE_MS)

IMAGE = "<img src=x onerror=window.pwned=1>"
SCRIPT = "<script>window.pwned=1</script>"
SVG = "<svg onload=window.pwned=1>"
FRAME = "<iframe srcdoc='<script>parent.pwned=1</script>'>"
QUOTE = "\"'><img src=x onerror=window.pwned=1>"
LINK = "javascript:window.pwned=1"
ALL = (IMAGE, SCRIPT, SVG, FRAME, QUOTE, LINK, "a${window.pwned=1}", "{{window.pwned=1}}")

MARKUP = """() => document.querySelectorAll(
  "main :is(img, iframe, script, [onload], [onerror], [onclick], [srcdoc])"
).length + [...document.querySelectorAll("a[href]")].filter(
  (each) => !["http:", "https:"].includes(each.protocol)
).length"""


class HostileTests(DashboardCase):
    def setUp(self) -> None:
        super().setUp()
        self.rules("p, role:anonymous, *, publish|subscribe|receive, #, any, allow")
        self.rules("p, role:anonymous, *, publish, secret/#, any, deny")
        for text in ALL:
            level = text.replace("/", "\\")
            client = self.client(text)
            client.subscribe(f"plant/{level}/#", 1)
            client.publish(f"plant/{level}", text.encode(), 1, retain=True)
            client.publish(f"secret/{level}", b"x", 1)
            self.user(text)
        self.api("POST", "/bans", {"kind": "client", "value": SVG + "2", "why": IMAGE})
        self.window_ = self.window()

    def look(self, page: Page, path: str, text: str) -> None:
        """Show a page, find the text there as text, and no markup of it."""
        self.show(page, path)
        expect(page.locator("main")).to_contain_text(text)
        self.assertEqual(page.evaluate(MARKUP), 0, path)
        self.window_.check(page)

    def test_no_page_runs_it(self) -> None:
        page = self.login(self.window_)
        self.look(page, "overview", IMAGE)
        self.look(page, "clients", IMAGE)
        picture(page, "hostile-clients")
        for text in ALL:
            self.look(page, f"client?id={quote(text)}", text)
        self.look(page, "subscriptions", IMAGE)
        self.look(page, "subscriptions/routes?topic=" + quote(f"plant/{IMAGE}"), IMAGE)
        self.look(page, "access/users", IMAGE)
        self.look(page, f"access/users?match={quote(IMAGE)}", IMAGE)
        self.look(page, "access/denials", IMAGE)
        self.look(page, "access/bans", IMAGE)
        self.look(page, "log", "onerror=window.pwned=1")
        self.look(
            page, f"access/explain?action=publish&topic={quote(IMAGE)}&user={quote(IMAGE)}", ""
        )
        for path in (f"x/{quote(IMAGE)}", quote(IMAGE, safe="")):
            page.goto(f"{self.base}#/{path}")
            expect(page.get_by_role("heading", level=1)).to_have_text("Nothing here")
            self.assertEqual(page.evaluate(MARKUP), 0, path)
        self.window_.check(page)

    def test_topics_and_payloads(self) -> None:
        page = self.login(self.window_, "#/topics")
        page.get_by_role("treeitem", name="plant").locator(".mark").first.click()
        for text in ALL:
            level = text.replace("/", "\\")
            page.locator(".tree .label").get_by_text(level, exact=True).click()
            expect(page.locator(".payload")).to_have_text(text)
            self.assertEqual(page.evaluate(MARKUP), 0)
        picture(page, "hostile-topics")
        self.window_.check(page)

    def test_console_and_dialogs(self) -> None:
        page = self.login(self.window_, "#/console")
        page.get_by_label("User", exact=True).fill("admin")
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(page.locator("form + [role=status]")).to_contain_text("connected as")
        page.get_by_label("Topic filter").fill("plant/#")
        page.get_by_role("button", name="Subscribe").click()
        expect(page.get_by_role("log")).to_contain_text(FRAME)
        self.assertEqual(page.evaluate(MARKUP), 0)
        self.show(page, f"client?id={quote(IMAGE)}")
        page.get_by_role("button", name="Disconnect").click()
        expect(page.get_by_role("dialog")).to_contain_text(IMAGE)
        self.assertEqual(page.locator("dialog img").count(), 0)
        page.get_by_role("button", name="Cancel").click()
        self.show(page, "access/denials")
        row = page.locator("tr", has_text=IMAGE).first
        row.get_by_role("button", name="Allow this…").click()
        expect(page.get_by_role("dialog")).to_be_visible()
        self.assertEqual(page.locator("dialog img").count(), 0)
        self.window_.check(page)
