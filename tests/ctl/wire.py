"""The admin API without sockets: what a command sends is answered at once, by the real app."""

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport

from mhub.access.access import Access
from mhub.admin.app import AdminApp
from mhub.admin.gate import Gate
from mhub.admin.logins import Logins
from mhub.admin.plugins import Plugins
from mhub.admin.resources import ENDPOINTS
from mhub.config.admin import AdminSettings
from mhub.control.site import control_site
from mhub.core.hub import Hub
from mhub.ctl import client
from mhub.operations.operations import Operations
from mhub.web.site import BoundedSite
from tests.operations.around import Around, Pauses

TURNS = 100
"""Times that the clock is moved on for an answer that does not come at once."""


class Wire:
    """As a connected socket."""

    def __init__(self, site: BoundedSite, clock: Clock) -> None:
        self._clock = clock
        self._transport = StringTransport(peerAddress=IPv4Address("TCP", "127.0.0.1", 40_000))
        self._channel: Any = site.buildProtocol(None)
        self._channel.makeConnection(self._transport)
        self.sent = b""

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def settimeout(self, seconds: float) -> None:
        pass

    def sendall(self, data: bytes) -> None:
        self.sent += data
        self._channel.dataReceived(data)

    def recv(self, most: int) -> bytes:
        for _ in range(TURNS):
            if data := self._transport.value():
                self._transport.clear()
                return data
            if self._transport.disconnecting or self._transport.disconnected:
                return b""
            self._clock.advance(0.05)
        raise TimeoutError


class LocalApi:
    """The app as the control socket serves it."""

    def __init__(
        self, case: Any, hub: Hub, access: Access, clock: Clock, around: Around | None = None
    ) -> None:
        """`case.patch` puts it in the place of all sockets."""
        self.around = around or Around(hub)
        self.operations = Operations(hub, self.around, clock.seconds, Pauses(), access)
        settings = AdminSettings()
        gate = Gate(
            Logins(hub, settings, clock.seconds, clock.seconds),
            case,
            lambda text: None,
            settings,
            clock.seconds,
            Plugins(()),
        )
        self.app = AdminApp(self.operations, gate, clock, ENDPOINTS)
        self.site = control_site(self.app.klein(is_local=True).resource(), clock)
        self.wires: list[Wire] = []

        def connect(place: object) -> Wire:
            self.wires.append(Wire(self.site, clock))
            return self.wires[-1]

        case.patch(client, "_connect", connect)

    @property
    def requests(self) -> list[str]:
        """Method and target of each."""
        return [" ".join(wire.sent.decode().split(" ", 2)[:2]) for wire in self.wires]
