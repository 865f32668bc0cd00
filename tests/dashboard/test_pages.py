"""Each page, with real clients and their messages behind it."""

import json
import threading

from playwright.sync_api import Page, expect

from tests.dashboard.browser import PATIENCE_MS, PHONE, picture
from tests.dashboard.case import PASSWORD, DashboardCase

expect.set_options(timeout=PATIENCE_MS)

HALLS = 4
BINARY = bytes((0, 255, 1, 254)) * 4

# Whether all that can be used has a name, and ids are unique: what screen readers need.
NAMELESS = """() => {
  const found = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const label = (each) => each.getAttribute("aria-label") || each.labels?.[0]?.textContent
    || document.getElementById(each.getAttribute("aria-labelledby"))?.textContent
    || each.textContent.trim() || each.title;
  const used = "button, a[href], input, select, textarea, [role=region], [role=tree], nav";
  for (const each of all(used)) {
    if (each.checkVisibility() && !label(each)) found.push(each.outerHTML.slice(0, 200));
  }
  const ids = all("[id]").map((each) => each.id);
  if (new Set(ids).size !== ids.length) found.push(`an id twice: ${ids}`);
  for (const each of all("table")) {
    if (!each.caption || !each.querySelector("th[scope=col]")) found.push("a table without heads");
  }
  for (const each of all("svg[role=img]")) {
    if (!each.getAttribute("aria-label")) found.push("a picture without a text");
  }
  if (all("h1").length !== 1) found.push("not one h1");
  if (all("main").length !== 1) found.push("not one main");
  return found;
}"""

# Cells with a badge that has no room: its end would be cut off.
CUT = """() => [...document.querySelectorAll("td:has(> .badge)")]
  .filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"""

# Whether the tab of the page is in sight, where tabs have to be scrolled.
TAB_IN_SIGHT = """() => {
  const tab = document.querySelector(".tabs [aria-current]");
  return !tab || tab.getBoundingClientRect().right <= innerWidth;
}"""

NOTHING = "\N{EN DASH}"


class PageTests(DashboardCase):
    def setUp(self) -> None:
        super().setUp()
        self.halls = [self.client(f"hall-{number}") for number in range(HALLS)]
        self.sink = self.client("sink", expiry_s=3600)
        self.sink.subscribe("plant/#", 1)
        for each in self.halls:
            each.subscribe("$share/workers/plant/+/alarm", 1)
        self.publish()
        self.window_ = self.window()

    def publish(self) -> None:
        for number, each in enumerate(self.halls):
            for value in range(5):
                payload = json.dumps({"celsius": 20 + value, "hall": number}).encode()
                each.publish(f"plant/hall{number}/temperature", payload, 1, retain=True)
        self.halls[0].publish("plant/hall0/image", BINARY, 1, retain=True)
        self.halls[0].publish("forbidden/topic", b"x", 0)

    def keep_publishing(self) -> None:
        """Traffic while a test looks at rates."""
        stop = threading.Event()

        def run() -> None:
            while not stop.wait(0.05):
                self.halls[1].publish("plant/hall1/power", b"1", 0)

        thread = threading.Thread(target=run)
        thread.start()
        self.addCleanup(thread.join)
        self.addCleanup(stop.set)

    def done(self, page: Page, name: str) -> None:
        """The end of a test of a page: nothing went wrong, and it is usable without a mouse."""
        self.assertEqual(page.evaluate(NAMELESS), [])
        picture(page, name)
        self.window_.check(page)

    def test_overview(self) -> None:
        self.keep_publishing()
        page = self.login(self.window_)
        tile = page.locator(".tile", has_text="Clients").locator(".value")
        expect(tile).to_have_text(str(HALLS + 1))
        rate = page.locator("[data-series=messages_in] .value")
        expect(rate).not_to_have_text(NOTHING)
        expect(rate).not_to_have_text("0/s")
        # The curve comes from the broker's history: it has a line as soon as there are two values.
        page.locator("[data-series=messages_in] path.line[d*=L]").wait_for(state="attached")
        page.locator("mh-chart path.line-1[d*=L]").first.wait_for(state="attached")
        self.assertEqual(len([url for url in self.window_.requests if "/history" in url]), 1)
        page.locator(".events td", has_text="hall-3").first.wait_for()
        expect(page.locator("table", has_text="ws://127.0.0.1").first).to_be_visible()
        self.done(page, "overview")

    def test_clients(self) -> None:
        page = self.login(self.window_, "#/clients")
        rows = page.locator("mh-table tbody tr:not(.space)")
        expect(rows).to_have_count(HALLS + 1)
        self.assertEqual(page.evaluate(CUT), [])
        self.done(page, "clients")
        page.get_by_label("Client id").fill("hall")
        expect(rows).to_have_count(HALLS)
        page.get_by_role("button", name="Client id").click()
        expect(rows.first).to_contain_text("hall-3")
        self.assertIn("sort=-client_id", page.url)
        self.sink.stop()
        page.get_by_label("Client id").fill("sink")
        expect(rows.first).to_contain_text("offline")

    def test_client(self) -> None:
        page = self.login(self.window_, "#/client?id=hall-0")
        expect(page.locator(".facts")).to_contain_text("5.0")
        expect(page.locator("table", has_text="$share/workers/plant/+/alarm")).to_be_visible()
        expect(page.locator("table", has_text="forbidden/topic")).to_be_visible()
        page.get_by_role("button", name="Start the trace").click()
        lines = page.get_by_role("log")
        expect(page.locator(".trace")).to_contain_text("Waiting for packets")
        # The first packets may pass before the broker has begun to look.
        while "plant/hall0/traced" not in lines.inner_text():
            self.halls[0].publish("plant/hall0/traced", b"look at this", 1)
            page.wait_for_timeout(50)
        expect(lines).to_contain_text("look at this")
        # Counts that change with each packet are not announced.
        expect(page.locator(".trace [role=status]")).to_have_text("")
        page.get_by_role("button", name="Stop").click()
        self.done(page, "client")

    def test_topics(self) -> None:
        self.keep_publishing()
        page = self.login(self.window_, "#/topics")
        page.get_by_role("treeitem", name="plant").locator(".mark").first.click()
        page.get_by_role("treeitem", name="hall0", exact=True).locator(".mark").first.click()
        page.get_by_role("treeitem", name="temperature").click()
        expect(page.locator(".payload")).to_contain_text('"celsius": 24')
        expect(page.locator(".rate.busy").first).to_be_visible()
        self.done(page, "topics")
        page.get_by_role("treeitem", name="image").click()
        expect(page.locator(".payload")).to_contain_text("00 ff 01 fe")
        # By keyboard: to the parent, and close it.
        page.keyboard.press("ArrowLeft")
        page.keyboard.press("ArrowLeft")
        expect(page.get_by_role("treeitem", name="image")).to_have_count(0)
        page.keyboard.press("ArrowRight")
        page.get_by_role("treeitem", name="image").click()
        page.get_by_role("button", name="Delete the retained message").click()
        page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        expect(page.locator(".toast")).to_contain_text("was deleted")
        late = self.client("late")
        late.subscribe("plant/hall0/#", 0)
        self.assertEqual(late.receive().topic, "plant/hall0/temperature")
        self.assertTrue(late.messages.empty())

    def test_what_is_drawn_again_keeps_focus_and_selection(self) -> None:
        """Pages that refresh themselves can be used with the keyboard, and copied from."""
        self.keep_publishing()
        page = self.login(self.window_)
        events = page.get_by_role("region", name="Recent events")
        link = events.get_by_role("link", name="hall-2", exact=True).first
        link.focus()
        self.client("newcomer")
        expect(events).to_contain_text("newcomer")
        expect(link).to_be_focused()
        self.show(page, "client?id=hall-1")
        count = page.locator("dt:has-text('Since it has connected') + dd")
        before = count.inner_text()
        page.locator("dt:has-text('Address') + dd").evaluate(
            "each => getSelection().selectAllChildren(each)"
        )
        address = page.evaluate("String(getSelection())")
        self.assertIn("127.0.0.1:", address)
        expect(count).not_to_have_text(before)
        self.assertEqual(page.evaluate("String(getSelection())"), address)
        self.show(page, "topics")
        busiest = page.locator(".scroll-x[aria-label='Busiest topics']")
        busiest.focus()
        row = busiest.locator("tr", has_text="plant/hall1/power")
        before = row.inner_text()
        expect(row).not_to_have_text(before)
        expect(busiest).to_be_focused()

    def test_a_page_that_goes_before_its_answers_come(self) -> None:
        """That is no error; an answer that nobody has waited for, and that fails, is shown."""
        page = self.login(self.window_, "#/log")
        page.route("**/log/level", lambda route: None)  # without an end
        page.get_by_role("button", name="Level for a client…").click()
        with page.expect_request("**/log/level"):
            page.keyboard.press("Escape")
        self.show(page, "access/tokens")
        page.wait_for_timeout(100)
        self.window_.check(page)
        page.route("**/tokens?*", lambda route: route.fulfill(status=500, body="{}"))
        page.get_by_role("button", name="Make a token…").click()
        page.keyboard.press("Escape")
        expect(page.locator(".toast.bad")).to_contain_text("Status 500")
        self.window_.check(page)

    def test_subscriptions(self) -> None:
        page = self.login(self.window_, "#/subscriptions")
        rows = page.locator("mh-table tbody tr:not(.space)")
        expect(rows).to_have_count(HALLS + 1)
        self.done(page, "subscriptions")
        page.get_by_role("link", name="Shared groups").click()
        expect(rows).to_have_count(1)
        expect(rows.first).to_contain_text("workers")
        picture(page, "groups")
        page.get_by_role("link", name="Who gets a topic").click()
        page.get_by_label("Topic").fill("plant/hall1/alarm")
        page.get_by_role("button", name="Show").click()
        expect(page.locator("table", has_text="sink")).to_contain_text("now")
        expect(page.locator("table", has_text="workers")).to_be_visible()
        self.done(page, "routes")

    def test_console(self) -> None:
        self.user("operator", "admin")
        self.rules("p, user:operator, *, subscribe, forbidden/#, any, deny")
        page = self.login(self.window_, "#/console")
        page.get_by_label("User", exact=True).fill("operator")
        page.get_by_label("Password", exact=True).fill("wrong")
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(page.locator("form + [role=status]")).to_contain_text("0x86")
        page.get_by_label("Password", exact=True).fill(PASSWORD)
        page.get_by_role("button", name="Connect", exact=True).click()
        expect(page.locator("form + [role=status]")).to_contain_text("connected as console-")
        page.get_by_label("Topic filter").fill("forbidden/#")
        page.get_by_role("button", name="Subscribe", exact=True).click()
        problem = page.locator("section", has_text="Topic filter").get_by_role("alert")
        expect(problem).to_have_text("The subscription was refused: not authorized (0x87)")
        page.get_by_label("Topic filter").fill("plant/console/#")
        page.get_by_role("button", name="Subscribe").click()
        expect(page.locator(".changes")).to_contain_text("plant/console/#")
        log = page.get_by_role("log")
        for qos in (0, 1, 2):
            self.halls[0].publish(f"plant/console/{qos}", BINARY, qos)
            expect(log).to_contain_text(f"plant/console/{qos}")
        expect(log).to_contain_text("00 ff 01 fe")
        for qos in ("0", "1", "2"):
            publish = page.locator("section", has=page.get_by_role("heading", name="Publish"))
            publish.get_by_label("Topic", exact=True).fill("plant/from/browser")
            publish.get_by_label("Payload", exact=True).fill(f"at QoS {qos}")
            publish.get_by_label("QoS").select_option(qos)
            publish.get_by_role("button", name="Publish").click()
            self.assertEqual(self.wait_for("plant/from/browser"), f"at QoS {qos}".encode())
        publish.get_by_label("Payload is").select_option("hex")
        publish.get_by_label("Payload", exact=True).fill("00 ff")
        publish.get_by_role("button", name="Publish").click()
        self.assertEqual(self.wait_for("plant/from/browser"), b"\0\xff")
        self.done(page, "console")

    def wait_for(self, topic: str) -> bytes:
        """The next message that the sink gets with a topic."""
        while True:
            message = self.sink.receive()
            if message.topic == topic:
                return bytes(message.payload)

    def test_configuration(self) -> None:
        page = self.login(self.window_, "#/configuration")
        expect(page.locator("table", has_text="plain").first).to_contain_text("open")
        page.get_by_label("TOML").fill("[[listeners]]\nprot = 1\n")
        page.get_by_role("button", name="Check").click()
        expect(page.locator(".changes").first).to_contain_text("prot")
        config = self.place / "broker.toml"
        config.write_text(config.read_text() + '\n[log]\nlevel = "warn"\n')
        page.get_by_role("button", name="Reload the file…").click()
        page.get_by_role("dialog").get_by_role("button", name="Reload").click()
        expect(page.locator(".card", has_text="Reload").first).to_contain_text("log.level")
        page.get_by_role("button", name="Close the listener web").click()
        page.get_by_role("dialog").get_by_role("button", name="Close").click()
        expect(page.get_by_role("button", name="Open the listener web")).to_be_visible()
        self.assertEqual(
            [each["state"] for each in self.api("GET", "/listeners") if each["name"] == "web"],
            ["closed"],
        )
        self.done(page, "configuration")

    def test_log(self) -> None:
        page = self.login(self.window_, "#/log")
        log = page.get_by_role("log")
        expect(log).to_contain_text("listening on mqtt://")
        self.client("newcomer")
        expect(log).to_contain_text("newcomer")
        page.get_by_label("Search").fill("newcomer")
        expect(log.locator("div:visible", has_text="listening on")).to_have_count(0)
        page.get_by_role("button", name="Level for a client…").click()
        dialog = page.get_by_role("dialog")
        dialog.get_by_label("Client id").fill("hall-0")
        dialog.get_by_role("button", name="Set").click()
        expect(page.locator("table", has_text="hall-0").first).to_contain_text("debug")
        self.done(page, "log")

    def test_on_a_phone_and_in_the_dark(self) -> None:
        """No page is wider than the screen."""
        phone = self.window(PHONE, "dark")
        page = self.login(phone)
        for path in (
            *("overview", "clients", "client?id=hall-0", "topics", "subscriptions", "console"),
            *("access/users", "access/policies", "access/denials", "access/tokens", "cluster"),
            *("configuration", "log", "account"),
        ):
            self.show(page, path)
            if path == "clients":
                page.locator("mh-table tbody tr:not(.space)").first.wait_for()
            wide = page.evaluate("document.documentElement.scrollWidth")
            picture(page, f"phone-{path.partition('?')[0].replace('/', '-')}")
            self.assertLessEqual(wide, PHONE[0], path)
            page.wait_for_function(TAB_IN_SIGHT)
        menu = page.get_by_role("button", name="Menu")
        menu.press("Enter")
        page.locator("#nav a").first.press("Escape")
        expect(menu).to_be_focused()
        expect(page.locator("#nav a", has_text="Cluster")).to_be_hidden()
        menu.click()
        expect(page.locator("#nav a", has_text="Cluster")).to_be_visible()
        picture(page, "phone-menu")
        phone.check(page)
        page.evaluate("document.documentElement.dataset.theme")
        page.get_by_role("button", name="Light or dark").click()
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "light")
        page.reload()
        page.locator("header.top").wait_for()
        self.assertEqual(page.evaluate("document.documentElement.dataset.theme"), "light")
        dark = self.window(scheme="dark")
        page = self.login(dark)
        page.locator("mh-chart path.line[d*=L]").first.wait_for(state="attached")
        picture(page, "dark-overview")
        dark.check(page)
