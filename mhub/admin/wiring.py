"""The admin side of a broker as a whole: made, opened, reloaded and stopped.

    settings -> Gate, Logins, AdminApp -> at the control socket, always
                                       -> AdminService, the listener, if `[admin]` is there

A reload takes all keys of `[admin]` but those of the listener itself (`mhub.config.reloadable`).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from twisted.internet.task import deferLater

from mhub.access.access import Access
from mhub.access.service import AccessService
from mhub.admin import first_user
from mhub.admin.app import AdminApp
from mhub.admin.gate import Gate
from mhub.admin.logins import Logins
from mhub.admin.mqtt.gateway import Gateway
from mhub.admin.plugins import Plugins
from mhub.admin.resources import ENDPOINTS
from mhub.admin.service import AdminService, bounds_of
from mhub.admin.static import StaticFiles
from mhub.auth.chain import Chain
from mhub.auth.passwords import Passwords
from mhub.auth.wiring import make_admin_chain
from mhub.config import Settings, TlsSettings
from mhub.config.admin import AdminSettings
from mhub.config.reloadable import ADMIN
from mhub.core.hub import Hub
from mhub.core.limits import Limits
from mhub.log import logger
from mhub.operations.operations import Operations
from mhub.process.reload import Change, Prepared


@dataclass(frozen=True)
class Surroundings:
    """What it needs of the broker around it."""

    hub: Hub
    operations: Operations
    rights: AccessService
    passwords: Passwords
    reactor: Any
    settle: Callable[[], None]
    limits: Callable[[], Limits]  # of clients over HTTP
    web_sockets: Callable[[str], list[str]]  # where a page that came from a host finds MQTT
    make_contexts: Callable[[TlsSettings], Any]  # certificates of the listener


class AdminSide:
    """Also a Part of a reload (`mhub.process.reload`)."""

    name = ADMIN

    def __init__(self, settings: Settings, around: Surroundings) -> None:
        self._around = around
        self._log = logger("admin")
        access = around.operations.access
        assert access is not None
        self._access: Access = access
        admin = settings.admin if settings.admin is not None else AdminSettings()
        self._plugins = Plugins()
        around.rights.plugins = tuple(each.name for each in self._plugins.all)
        self._logins = Logins(around.hub, admin, time.monotonic, time.time)
        self._gate = Gate(
            self._logins, around.rights, access.tokens.find, admin, time.monotonic, self._plugins
        )
        reactor = around.reactor
        endpoints = (*ENDPOINTS, *self._plugins.endpoints())
        self.app = AdminApp(around.operations, self._gate, reactor, endpoints)
        self.app.mqtt = Gateway(
            around.hub,
            around.limits,
            reactor,
            time.monotonic,
            time.time,
            around.settle,
            lambda: deferLater(reactor, 0.0),
        )
        self._contexts: Any = None
        self.service: AdminService | None = None
        if settings.admin is not None and admin.enabled:
            if admin.tls is not None:
                self._contexts = around.make_contexts(admin.tls)
            static = StaticFiles(sockets=around.web_sockets)
            self.service = AdminService(self.app, admin, static, self._contexts, reactor)

    async def open(self, chain: Chain | None, console: Callable[[str], None] | None) -> None:
        """Let callers in.  `console` shows something to whoever has started the broker."""
        self._use(chain)
        self._plugins.start(self._around.operations)
        if self.service is None:
            return
        self.service.open()
        if not self._around.rights.has_administrators():
            self._log.warn(
                "no rule allows anybody to change anything over HTTP; to let role:admin, add the"
                " rule `{rule}`",
                rule="p, role:admin, *, admin:read|admin:write, #, any, allow",
            )
        hub = self._around.hub
        if first_user.is_wanted(hub, self._access):
            await first_user.make(hub, self._access, self.service.address, console)

    def stop(self) -> None:
        self._plugins.stop()

    # Authenticators

    def chain_changed(self, before: Chain | None, now: Chain | None) -> None:
        """MQTT clients have other authenticators: those of admins follow."""
        known = set(before.members) if before is not None else set()
        previous = self._logins.chain
        self._use(now)
        for member in previous.members if previous is not None else ():
            if member not in known:
                member.source.stop()

    def _use(self, chain: Chain | None) -> None:
        around = self._around
        self._logins.chain = make_admin_chain(
            chain, around.hub, around.passwords, around.reactor, time.monotonic
        )

    # Reload

    async def prepare(self, old: Settings, new: Settings) -> Prepared:
        """Raises TlsError."""
        admin = new.admin
        if admin is None:
            return Change(lambda: None)
        contexts = None
        if self._contexts is not None and admin.tls is not None:
            contexts = self._around.make_contexts(admin.tls)
        return Change(lambda: self._take(admin, contexts))

    def _take(self, admin: AdminSettings, contexts: Any) -> None:
        if contexts is not None:
            self._contexts.take_from(contexts)
        # The listener may have got another port than the file has, which is 0 then.
        self._gate.settings = replace(admin, port=self._gate.settings.port)
        self._logins.settings = admin
        if self.service is not None:
            self.service.site.take(bounds_of(admin))
