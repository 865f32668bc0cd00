"""The admin app over a real hub, registry and policy, with a clock and requests made by hand."""

import json
from collections.abc import Iterable
from dataclasses import replace
from email.parser import BytesParser
from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.defer import Deferred
from twisted.internet.testing import StringTransport
from twisted.trial.unittest import SynchronousTestCase

from mhub.access.access import Access
from mhub.access.service import AccessService
from mhub.admin.app import AdminApp
from mhub.admin.endpoint import Endpoint
from mhub.admin.gate import Gate
from mhub.admin.logins import Logins
from mhub.admin.plugins import Plugins
from mhub.admin.problem import CONTENT_TYPE, encoded
from mhub.admin.resources import ENDPOINTS
from mhub.auth.guard import LoginGuard
from mhub.auth.wiring import make_admin_chain
from mhub.config.admin import AdminSettings
from mhub.config.guard import GuardSettings
from mhub.operations.operations import Operations
from mhub.web.site import BoundedChannel, BoundedSite, Bounds
from tests.auth.world import World
from tests.operations.around import Around, Pauses

WALL = 1_800_000_000.0


class Reply:
    def __init__(self, data: bytes) -> None:
        head, _, self.body = data.partition(b"\r\n\r\n")
        line, _, fields = head.partition(b"\r\n")
        self.status = int(line.split()[1])
        self.headers = BytesParser().parsebytes(fields)

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def detail(self) -> str:
        return str(self.json["detail"])

    def __repr__(self) -> str:
        return f"<{self.status} {self.body[:200]!r}>"


class AdminCase(SynchronousTestCase):
    settings = AdminSettings(port=8088)
    endpoints: Iterable[Endpoint] = ENDPOINTS
    found: Iterable[Any] = ()  # plugins

    def setUp(self) -> None:
        self.world = World()
        self.hub = self.world.hub
        self.clock = self.world.clock
        self.guard = LoginGuard(
            replace(GuardSettings(), shared_addresses=()),
            self.hub,
            self.wall,
            lambda call: call(),
            self.hub.flush,
        )
        self.hub.admission.guard = self.guard
        self.service = AccessService(None, self.hub, self.clock, self.hub.flush, False)
        self.access = Access(
            self.hub.registry,
            self.service,
            self.world.passwords,
            self.clock.seconds,
            self.wall,
            self.hub.flush,
            self.hub.events,
            Pauses(),
        )
        self.pauses = Pauses()
        self.operations = Operations(
            self.hub, Around(self.hub), self.clock.seconds, self.pauses, self.access
        )
        self.service.start()
        self.plugins = Plugins(self.found)
        self.logins = Logins(self.hub, self.settings, self.clock.seconds, self.wall)
        self.logins.chain = make_admin_chain(
            None, self.hub, self.world.passwords, self.clock, self.clock.seconds
        )
        self.gate = Gate(
            self.logins,
            self.service,
            self.find_token,
            self.settings,
            self.clock.seconds,
            self.plugins,
        )
        self.app = AdminApp(
            self.operations,
            self.gate,
            self.clock,
            (*self.endpoints, *self.plugins.endpoints()),
        )
        self.site = BoundedSite(
            self.app.klein().resource(),
            self.clock,
            Bounds(self.settings.max_connections, 60.0, 30.0),
            self.app.most_body,
            lambda code, text: (CONTENT_TYPE, encoded(code, text)),
        )
        self.host = "192.0.2.7"
        self.next_port = 40_000
        self.csrf = ""
        self.cookie = ""

    def wall(self) -> float:
        return WALL + self.clock.seconds()

    def find_token(self, text: str) -> Any:
        return self.access.tokens.find(text)

    def user(self, name: str, *roles: str, password: str = "right password") -> None:
        self.do(self.access.users.add(name, password, values={"roles": list(roles)}))

    def allow(self, *rows: str) -> None:
        """Rows of a policy."""
        add = [[field.strip() for field in row.split(",")] for row in rows]
        self.do(self.access.rules.change(add=add))

    def do(self, call: Any) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(call))

    # Requests

    def connect(self) -> tuple[BoundedChannel, StringTransport]:
        channel = self.site.buildProtocol(None)
        self.next_port += 1
        transport = StringTransport(peerAddress=IPv4Address("TCP", self.host, self.next_port))
        channel.makeConnection(transport)
        return channel, transport

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str] | None = None,
    ) -> Reply:
        """One request on a connection of its own, answered at once."""
        data = b""
        fields = {"Host": "localhost:8088", **(headers or {})}
        if isinstance(body, bytes):
            data = body
        elif body is not None:
            data = json.dumps(body).encode()
            fields.setdefault("Content-Type", "application/json")
        if self.cookie:
            fields.setdefault("Cookie", self.cookie)
        if self.csrf and method != "GET":
            fields.setdefault("X-CSRF-Token", self.csrf)
        if data:
            fields["Content-Length"] = str(len(data))
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        channel, transport = self.connect()
        channel.dataReceived(f"{method} {path} HTTP/1.0\r\n{head}\r\n".encode() + data)
        return Reply(transport.value())

    def log_in(self, name: str = "root", password: str = "right password") -> Reply:
        reply = self.ask("POST", "/admin/v1/login", {"user": name, "password": password})
        if reply.status == 200:
            self.cookie = str(reply.headers["Set-Cookie"]).partition(";")[0]
            self.csrf = reply.json["csrf"]
        return reply

    def log_out_here(self) -> None:
        """As if it were another browser."""
        self.cookie = self.csrf = ""
