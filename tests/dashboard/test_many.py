"""A list that is longer than what is in sight: only its visible rows are in the page."""

from playwright.sync_api import expect

from tests.dashboard.browser import PATIENCE_MS, picture
from tests.dashboard.case import DashboardCase
from tests.system.raw import Raw

expect.set_options(timeout=PATIENCE_MS)

CLIENTS = 700
MOST_ROWS = 80


class ManyTests(DashboardCase):
    def setUp(self) -> None:
        super().setUp()
        for number in range(CLIENTS):
            # Sessions that stay, of clients that are gone: a socket for each is not needed.
            client = Raw(("127.0.0.1", self.broker.port))
            client.connect(f"c{number:04}", clean=False)
            client.close()

    def test_scroll_to_the_end(self) -> None:
        window = self.window()
        page = self.login(window, "#/clients")
        rows = page.locator("mh-table tbody tr:not(.space)")
        expect(rows.first).to_contain_text("c0000")
        expect(page.locator("mh-table .status")).to_contain_text(f"{CLIENTS} sessions in all")
        self.assertLess(rows.count(), MOST_ROWS)
        scroll = page.locator("mh-table .scroll")
        last = page.get_by_role("link", name=f"c{CLIENTS - 1:04}")
        while not last.count():
            scroll.evaluate("each => { each.scrollTop = each.scrollHeight; }")
            self.assertLess(rows.count(), MOST_ROWS)
            page.wait_for_timeout(20)
        expect(last).to_be_visible()
        # The keyboard gets there, too: what has the focus is in sight.
        last.focus()
        picture(page, "many")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_have_text(f"c{CLIENTS - 1:04}")
        asked = [each for each in window.requests if "/clients?" in each and "cursor=" in each]
        self.assertGreaterEqual(len(asked), 2)
        window.check(page)
