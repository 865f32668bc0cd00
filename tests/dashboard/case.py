"""A broker with an admin listener, and pages of its dashboard."""

import atexit
import http.client
import json
import re
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from tests.dashboard.browser import HEIGHT, WIDTH, Watched, chromium
from tests.system.case import PLAIN, BrokerCase, place
from tests.system.paho import V5, Paho
from tests.system.process import PATIENCE_S, Broker, environment, wait_until

PASSWORD = "a long enough secret"

CONFIG = """allow_anonymous = true

[[listeners]]
name = "web"
transport = "ws"
port = 0

[[auth]]
type = "registry"

[access]

[passwords]
scram_iterations = 4096

[control]
path = "control.sock"

[admin]
port = 0
"""

RULES = (
    "p, role:anonymous, *, connect, #, any, allow",
    "p, role:anonymous, *, publish|subscribe|receive, plant/#, any, allow",
)
"""Clients of the tests have no user, unless a test is about users."""

_ADMIN = re.compile(r"admin API and dashboard on (http://\S+:(\d+))")


class Api:
    """The admin API, as a test uses it to prepare something, or to look what came of a change."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._headers: dict[str, str] = {}

    def login(self, user: str = "admin", password: str = PASSWORD) -> "Api":
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        body = json.dumps({"user": user, "password": password})
        connection.request("POST", "/admin/v1/login", body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = json.loads(response.read())
        assert response.status == 200, answer
        cookie = response.getheader("Set-Cookie") or ""
        self._headers = {"Cookie": cookie.partition(";")[0], "X-CSRF-Token": answer["csrf"]}
        connection.close()
        return self

    def __call__(self, method: str, path: str, body: object = None) -> Any:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=PATIENCE_S)
        headers = dict(self._headers)
        data = None
        if body is not None:
            headers["Content-Type"] = "application/json"
            data = json.dumps(body)
        path = path if path.startswith("/admin/") else f"/admin/v1{path}"
        connection.request(method, path, data, headers)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        assert response.status < 300, (method, path, response.status, text)
        return json.loads(text) if text else None


class DashboardCase(BrokerCase):
    """Each test has a broker of its own, with a user `admin`, and windows of a browser."""

    config = CONFIG

    def setUp(self) -> None:
        chromium()  # which may be missing
        self.place = place(self)
        self.broker = self.start_node(self.place, self.config)
        self.port = admin_port(self.broker)
        self.base = f"http://127.0.0.1:{self.port}/"
        self.api = Api(self.port).login()

    def start_node(self, directory: Path, config: str) -> Broker:
        """A broker that has a user `admin` from the start, and RULES."""
        shutil.copytree(prepared() / "mhub-data", directory / "mhub-data")
        return self.start(config, directory)

    def restart(self, broker: Broker) -> None:
        """Start one that was killed; what its log says from now on is of the new process."""
        log = broker.directory / "broker.log"
        self.assertNotIn("Traceback", broker.log())
        log.rename(log.with_suffix(".before"))
        broker.start()

    def user(self, name: str, *roles: str, password: str = PASSWORD) -> None:
        self.api("POST", "/users", {"name": name, "password": password, "roles": list(roles)})

    def rules(self, *rows: str) -> None:
        add = [[part.strip() for part in row.split(",")] for row in rows]
        self.api("POST", "/policies/change", {"add": add})

    def client(self, client_id: str, user: str | None = None, **options: Any) -> Paho:
        """A real MQTT client."""
        return Paho(
            self,
            ("127.0.0.1", self.broker.port),
            client_id,
            V5,
            username=user,
            password=PASSWORD,
            **options,
        )

    def window(self, size: tuple[int, int] = (WIDTH, HEIGHT), scheme: str = "light") -> Watched:
        return Watched(self, self.base, size, scheme)

    def login(self, window: Watched, path: str = "", user: str = "admin") -> Page:
        """A page of a window, where somebody has logged in."""
        page = window.open(path)
        log_in(page, user)
        return page

    def show(self, page: Page, path: str) -> None:
        """Another page of the dashboard."""
        page.evaluate("path => { location.hash = `#/${path}`; }", path)
        name = path.partition("?")[0].partition("/")[0]
        page.locator(f".page[data-page='{name}'][data-ready]").wait_for()


def log_in(page: Page, user: str = "admin", password: str = PASSWORD) -> None:
    form = page.get_by_role("form", name="Log in")  # other pages have a field "User", too
    form.get_by_label("User", exact=True).fill(user)
    form.get_by_label("Password", exact=True).fill(password)
    form.get_by_role("button", name="Log in").click()
    page.locator("header.top").wait_for()
    page.locator(".page[data-ready]").wait_for()


def admin_port(broker: Broker) -> int:
    found: list[str] = []

    def is_open() -> bool:
        found[:] = [port for _, port in _ADMIN.findall(broker.log())]
        return bool(found)

    wait_until(is_open, "the admin listener is open")
    return int(found[-1])


@cache
def prepared() -> Path:
    """A folder with a store that has what each test begins with: made once."""
    made = Path(tempfile.mkdtemp(prefix="mhub-"))
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    (made / "broker.toml").write_text(PLAIN + CONFIG)
    command(made, "user", "add", "admin", "--role", "admin", stdin=PASSWORD)
    for rule in RULES:
        command(made, "policy", "add", rule)
    return made


def command(directory: Path, *words: str, stdin: str = "") -> None:
    """`mhub ctl`, on the store of a broker that does not run."""
    password = ["--password-file", "-"] if stdin else []
    ended = subprocess.run(
        [sys.executable, "-m", "mhub", "ctl", *words, *password, "--config", "broker.toml"],
        input=stdin,
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment(),
        timeout=PATIENCE_S,
    )
    assert ended.returncode == 0, (words, ended.stdout, ended.stderr)
