"""The admin listener as a Twisted service: bound early, open when the broker is."""

import os
import socket
from dataclasses import replace
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.protocols.tls import TLSMemoryBIOFactory

from mhub.admin.app import AdminApp
from mhub.admin.problem import CONTENT_TYPE, encoded
from mhub.admin.static import StaticFiles
from mhub.config.admin import AdminSettings
from mhub.log import logger
from mhub.web.site import BoundedSite, Bounds


class AdminListenError(Exception):
    """The listener cannot be; the text says why."""


def bounds_of(settings: AdminSettings) -> Bounds:
    return Bounds(settings.max_connections, settings.idle_timeout_s, settings.request_timeout_s)


class AdminService(Service):
    name = "admin"

    def __init__(
        self,
        app: AdminApp,
        settings: AdminSettings,
        static: StaticFiles,
        tls: Any,
        reactor: Any,
    ) -> None:
        """`tls` makes the server's side of a TLS connection; None: there is no TLS."""
        self._app = app
        self._settings = settings
        self._tls = tls
        self._reactor = reactor
        self._log = logger("admin")
        self._socket: socket.socket | None = None
        self._port: Any = None
        self.port = settings.port
        klein = app.klein()
        static.add_to(klein)
        self.site = BoundedSite(
            klein.resource(),
            reactor,
            bounds_of(settings),
            app.most_body,
            lambda code, text: (CONTENT_TYPE, encoded(code, text)),
        )

    def privilegedStartService(self) -> None:
        """Bind, while the process may still bind what only root may.  Raises AdminListenError."""
        settings = self._settings
        family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
        try:
            self._socket = socket.create_server(
                (settings.host, settings.port), family=family, backlog=128
            )
            self._socket.setblocking(False)
        except OSError as error:
            raise AdminListenError(
                f"admin: cannot listen on {settings.host}:{settings.port}:"
                f" {os.strerror(error.errno or 0)}"
            ) from error
        self.port = self._socket.getsockname()[1]
        # The name of the cookie has the port.
        self._app.gate.settings = replace(settings, port=self.port)

    def open(self) -> None:
        """Let clients in."""
        assert self._socket is not None
        factory: Any = self.site
        if self._tls is not None:
            factory = TLSMemoryBIOFactory(self._tls, False, factory)
            factory.noisy = False
        self._port = self._reactor.adoptStreamPort(
            self._socket.fileno(), self._socket.family, factory
        )
        self._log.info("admin API and dashboard on {address}", address=self.address)

    @property
    def address(self) -> str:
        """Where it is, with the port that it got."""
        return replace(self._settings, port=self.port).address

    def stopService(self) -> Deferred[None]:
        super().stopService()  # type: ignore[no-untyped-call]
        return Deferred.fromCoroutine(self._stop())

    async def _stop(self) -> None:
        self._app.stop()
        if self._port is not None:
            await self._port.stopListening()
        if self._socket is not None:
            self._socket.close()
        await self.site.close()
