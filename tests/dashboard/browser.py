"""Chromium, shared by all tests of a process, and pages that are watched.

Each test has a context of its own: cookies and storage of one test are not another's.  A page
collects what must not happen: errors of scripts, violations of the content security policy, dialogs
that a script opens, requests to other hosts.
"""

import atexit
import shutil
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from mhub import build

PATIENCE_MS = 60_000
"""How long anything may take before a test gives up: only failures wait that long."""

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-color-profile=srgb",
)

PICTURES = Path(__file__).resolve().parent.parent.parent / "build" / "screenshots" / build.kind()

# What a script of somebody else would have done: tests look for `window.pwned`.
WATCH = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => {
  window.violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
"""

WIDTH, HEIGHT = 1280, 800
PHONE = (390, 844)


@cache
def chromium() -> Browser:
    """Started by the first test that needs it; ends with the process."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        raise SkipTest("this needs chromium")
    playwright = sync_playwright().start()
    browser = playwright.chromium.launch(executable_path=found, args=list(FLAGS))

    def close() -> None:
        browser.close()
        playwright.stop()

    atexit.register(close)
    return browser


class Watched:
    """A browser window of a test: its own cookies, one page or several."""

    def __init__(
        self,
        case: SynchronousTestCase,
        base: str,
        size: tuple[int, int] = (WIDTH, HEIGHT),
        scheme: Any = "light",
    ) -> None:
        self.base = base
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.context: BrowserContext = chromium().new_context(
            viewport={"width": size[0], "height": size[1]},
            color_scheme=scheme,
            reduced_motion="reduce",
            locale="en-GB",
            timezone_id="UTC",
        )
        self.context.set_default_timeout(PATIENCE_MS)
        self.context.add_init_script(WATCH)
        case.addCleanup(self.context.close)

    def open(self, path: str = "") -> Page:
        page = self.context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._dialog)
        page.on("request", self._request)
        page.goto(self.base + path)
        return page

    def check(self, page: Page) -> None:
        """Nothing has happened that must not.  Raises AssertionError."""
        violations = page.evaluate("window.violations")
        assert not violations, violations
        assert page.evaluate("window.pwned") is None, "a script of somebody else has run"
        assert not self.faults, self.faults

    def _console(self, message: Any) -> None:
        # What the broker refuses, or a broker that is gone, is no fault of the page.
        if message.type == "error" and "Failed to load resource" not in message.text:
            if "net::ERR" not in message.text:
                self.faults.append(f"console: {message.text}")

    def _dialog(self, dialog: Any) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request: Any) -> None:
        self.requests.append(request.url)
        if not request.url.startswith((self.base, "data:", "ws://127.0.0.1")):
            self.faults.append(f"request: {request.url}")


def picture(page: Page, name: str, whole: bool = False) -> Path:
    """A screenshot, for people to look at."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    path = PICTURES / f"{name}.png"
    page.screenshot(path=path, full_page=whole)
    return path
