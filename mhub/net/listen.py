"""Listening sockets as the configuration wants them, and the layers that their connections get."""

import errno
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Final

from mhub.config import ListenerSettings
from mhub.net.layers import ProxyLayer, TlsLayer, WebSocketLayer
from mhub.net.loop import Acceptor, Layer
from mhub.net.tls import TlsContexts

FIRST_FREE: Final = 1024
"""The first port that everybody may bind, unless the system says otherwise."""


class ListenError(Exception):
    """A listener cannot be opened; the text says which one and why."""


def layers(settings: ListenerSettings, tls: TlsContexts | None) -> Callable[[], list[Layer]] | None:
    """What makes the layers of one connection, from the socket upwards; None for plain MQTT."""
    web = settings.transport in ("ws", "wss")
    if not settings.proxy_protocol and tls is None and not web:
        return None

    def stack() -> list[Layer]:
        built: list[Layer] = []
        if settings.proxy_protocol:
            built.append(ProxyLayer())
        if tls is not None:
            built.append(TlsLayer(tls))
        if web:
            built.append(
                WebSocketLayer(settings.http_path, settings.origins, settings.max_handshake_size)
            )
        return built

    return stack


def bind(settings: ListenerSettings) -> socket.socket:
    """A socket that is bound, and does not listen yet.  Raises ListenError."""
    try:
        listener = _unix(settings) if settings.transport == "unix" else _internet(settings)
    except OSError as error:
        raise ListenError(
            f"listener {settings.name}: cannot listen on {settings.address}: "
            f"{error.strerror or error}{_hint(settings, error)}"
        ) from error
    listener.setblocking(False)
    return listener


def _hint(settings: ListenerSettings, error: OSError) -> str:
    if error.errno == errno.EACCES and 0 < settings.port < FIRST_FREE:
        return (
            f"; ports below {FIRST_FREE} are for root, and for who has CAP_NET_BIND_SERVICE: a"
            " broker that has become another user (twistd --uid) can only bind it at a restart"
        )
    return ""


def acceptor(settings: ListenerSettings, tls: TlsContexts | None) -> Acceptor:
    """A listener that is bound, but not open: `Loop.listen` opens it."""
    made = Acceptor(settings.name, bind(settings), settings.limits)
    configure(made, settings, tls)
    return made


def configure(acceptor: Acceptor, settings: ListenerSettings, tls: TlsContexts | None) -> None:
    """What the connections to come get."""
    acceptor.limits = settings.limits
    acceptor.backlog = settings.backlog
    acceptor.max_connections = settings.max_connections
    acceptor.layers = layers(settings, tls)
    acceptor.is_proxied = settings.proxy_protocol


def adjust(listener: socket.socket, settings: ListenerSettings) -> None:
    """Options of a socket that was bound for other settings.  Raises OSError."""
    if settings.transport == "unix":
        os.chmod(settings.path, settings.mode)
    else:
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(settings.tcp_nodelay))


def _internet(settings: ListenerSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    found = socket.getaddrinfo(
        settings.host, settings.port, family=0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, kind, protocol, _, address = found[0]
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # Accepted sockets inherit these two, which saves two system calls for each.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, int(settings.tcp_nodelay))
        if family == socket.AF_INET6:
            both = int(settings.host != "::")
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, both)
        if settings.bind_interface:
            name = settings.bind_interface.encode()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, name)
        listener.bind(address)
    except OSError:
        listener.close()
        raise
    return listener


def _unix(settings: ListenerSettings) -> socket.socket:
    path = Path(settings.path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        _clear_stale(path)
        # Nobody may connect before the mode is what it should be.
        mask = os.umask(0o777 & ~settings.mode)
        try:
            listener.bind(str(path))
        finally:
            os.umask(mask)
    except OSError:
        listener.close()
        raise
    return listener


def _clear_stale(path: Path) -> None:
    """Remove the socket that a broker left which ended without a chance to; never a live one."""
    if not path.exists() or not stat.S_ISSOCK(path.stat().st_mode):
        return
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
