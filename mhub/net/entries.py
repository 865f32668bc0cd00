"""The listeners of a running broker: each with its socket, its certificates and its connections.

An Entry lives as long as the listener of its name.  Its Acceptor, which the connections point to,
may get another socket, other limits and other layers; a connection notices nothing of that.
"""

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mhub.config import ListenerSettings
from mhub.config.view import listener_limits
from mhub.net.loop import Acceptor, Link
from mhub.net.tls import TlsContexts
from mhub.operations.contract import ListenerStatus
from mhub.operations.steering import CLOSED, OPEN, ListenerDetail
from mhub.wire import reasons

PORTION: Final = 200
"""Connections that are ended at a time: some milliseconds, with wills and what they bring about."""


class Entry:
    def __init__(
        self, settings: ListenerSettings, acceptor: Acceptor, tls: TlsContexts | None
    ) -> None:
        self.settings = settings  # as they are in the file
        self.acceptor = acceptor
        self.tls = tls
        self.is_open = False  # clients are accepted
        self.was_closed = False  # an operator did that, at run time

    @property
    def is_bound(self) -> bool:
        return self.acceptor.listener.fileno() >= 0

    @property
    def shown(self) -> ListenerSettings:
        """With the port that it got."""
        if self.settings.transport == "unix" or not self.is_bound:
            return self.settings
        return replace(self.settings, port=self.acceptor.listener.getsockname()[1])

    def status(self) -> ListenerStatus:
        acceptor = self.acceptor
        return ListenerStatus(
            self.settings.name,
            self.shown.address,
            acceptor.connections,
            acceptor.max_connections,
            acceptor.accepted,
        )

    def detail(self) -> ListenerDetail:
        settings = self.settings
        return ListenerDetail(
            name=settings.name,
            state=OPEN if self.is_open else CLOSED,
            address=self.shown.address,
            transport=settings.transport,
            proxy_protocol=settings.proxy_protocol,
            connections=self.acceptor.connections,
            max_connections=settings.max_connections,
            certificate_expires_at=None if self.tls is None else self.tls.expires_at,
            client_certificate="none" if settings.tls is None else settings.tls.client_certificate,
            limits=listener_limits(settings),
        )

    def close_socket(self) -> None:
        """Nobody can connect any more, and the address is free."""
        if not self.is_bound:
            return
        self.acceptor.listener.close()
        if self.settings.transport == "unix":
            Path(self.settings.path).unlink(missing_ok=True)


class Dismissals:
    """Connections that have to go, some at a time."""

    def __init__(self, reactor: Any, settle: Callable[[], None]) -> None:
        self._reactor = reactor
        self._settle = settle
        self._left: list[tuple[Link, str]] = []
        self._call: Any = None

    def add(self, links: Iterable[Link], text: str) -> None:
        """Tell their clients this, with 0x98, and close them; their sessions stay."""
        self._left += [(link, text) for link in links]
        if self._left and self._call is None:
            self._call = self._reactor.callLater(0, self._go_on)

    def _go_on(self) -> None:
        self._call = None
        portion, self._left = self._left[:PORTION], self._left[PORTION:]
        for link, text in portion:
            if link.fd >= 0 and not link.closing:
                link.connection.fail(reasons.ADMINISTRATIVE_ACTION, text)
        self._settle()
        if self._left:
            self._call = self._reactor.callLater(0, self._go_on)

    def stop(self) -> None:
        self._left = []
        if self._call is not None:
            self._call.cancel()
            self._call = None
