"""Login and logout, sessions that end, and several tabs."""

from playwright.sync_api import expect

from tests.dashboard.browser import PATIENCE_MS, picture
from tests.dashboard.case import PASSWORD, Api, DashboardCase, log_in

expect.set_options(timeout=PATIENCE_MS)


class LoginTests(DashboardCase):
    def test_right_and_wrong(self) -> None:
        window = self.window()
        page = window.open()
        picture(page, "login")
        page.get_by_label("User", exact=True).fill("admin")
        page.get_by_label("Password", exact=True).fill("wrong")
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("alert")).to_contain_text("password is wrong")
        expect(page.get_by_label("Password", exact=True)).to_have_value("")
        log_in(page)
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        page.reload()
        expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
        window.check(page)

    def test_what_is_not_allowed_is_not_offered(self) -> None:
        self.user("viewer", "viewer")
        window = self.window()
        page = self.login(window, user="viewer")
        links = page.locator("#nav a").all_inner_texts()
        seen = ["Overview", "Clients", "Topics", "Subscriptions", "Cluster"]
        self.assertEqual(links, [*seen, "MQTT console", "Log", "Account"])
        self.client("pump")
        self.show(page, "client?id=pump")
        expect(page.locator(".badge.ok").first).to_have_text("connected")
        self.assertEqual(page.get_by_role("button", name="Disconnect").count(), 0)
        self.show(page, "access/users")
        expect(page.get_by_role("heading", level=1)).to_have_text("Nothing here")
        window.check(page)

    def test_a_session_that_has_ended(self) -> None:
        """The login comes, and then the page where one was."""
        window = self.window()
        page = self.login(window)
        self.show(page, "clients?match=pump")
        expect(page.locator("mh-table .status")).to_have_text("No client fits.")
        # Another password ends all sessions of the user.
        self.api("PUT", "/user/password?name=admin", {"password": "another long secret"})
        expect(page.get_by_role("status").first).to_contain_text("Your session has ended")
        log_in(page, password="another long secret")
        expect(page.get_by_role("heading", level=1)).to_have_text("Clients")
        expect(page.get_by_label("Client id")).to_have_value("pump")
        window.check(page)

    def test_a_session_that_has_ended_while_only_numbers_come(self) -> None:
        """The stream of numbers ends with it; nothing has to be clicked."""
        window = self.window()
        page = self.login(window)
        expect(page.locator(".state")).to_have_text("running")
        self.api("POST", "/users", {"name": "second", "password": PASSWORD, "roles": ["admin"]})
        Api(self.port).login("second")("PUT", "/user/lock?name=admin", {"locked": True})
        expect(page.get_by_role("status").first).to_contain_text("Your session has ended")
        window.check(page)

    def test_two_tabs(self) -> None:
        """They share the session: a logout in one shows in the other, and so does a login."""
        window = self.window()
        first = self.login(window)
        second = window.open("#/clients")
        expect(second.get_by_role("heading", level=1)).to_have_text("Clients")
        first.get_by_role("button", name="Log out").click()
        expect(second.get_by_label("Password", exact=True)).to_be_visible()
        expect(second.get_by_role("status").first).to_contain_text("in another tab")
        expect(first.get_by_label("Password", exact=True)).to_be_visible()
        log_in(second)
        expect(second.get_by_role("heading", level=1)).to_have_text("Clients")
        expect(first.get_by_role("heading", level=1)).to_have_text("Overview")
        # The first tab has the secret of the new session too: a change works there.
        self.client("pump")
        self.show(first, "client?id=pump")
        first.get_by_role("button", name="Disconnect").click()
        first.get_by_role("dialog").get_by_role("button", name="Disconnect").click()
        expect(first.locator(".toast")).to_contain_text("was disconnected")
        window.check(first)
        window.check(second)

    def test_another_password(self) -> None:
        window = self.window()
        page = self.login(window, "#/account")
        picture(page, "account")
        page.get_by_label("The password as it is").fill("wrong")
        page.get_by_label("The new password", exact=True).fill("another long secret")
        page.get_by_label("The new password again").fill("another long secret")
        page.get_by_role("button", name="Change the password").click()
        expect(page.get_by_role("alert")).to_contain_text("wrong")
        page.get_by_label("The password as it is").fill(PASSWORD)
        page.get_by_role("button", name="Change the password").click()
        expect(page.locator(".toast")).to_contain_text("You have a new password")
        Api(self.port).login(password="another long secret")
        window.check(page)
