"""A broker's URL: what it means, where it leads, and whether it may be loaded.

A load generator is a weapon when pointed at somebody else's host.  So only loopback addresses and
Unix sockets are loaded without being asked twice.
"""

import ipaddress
import socket
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from mhub.bench.errors import BenchError

DEFAULT_URL: Final = "mqtt://127.0.0.1:1883"
CONSENT: Final = "--yes-this-host-is-mine"
WEBSOCKET_PATH: Final = "/mqtt"

_PORTS: Final = {"mqtt": 1883, "mqtts": 8883, "ws": 80, "wss": 443}
_EXAMPLES: Final = "mqtt://host:1883, mqtts://host:8883, ws://host:8083/mqtt, wss://…, unix:///path"


@dataclass(frozen=True)
class Target:
    scheme: str  # mqtt, mqtts, ws, wss, unix
    host: str = ""
    port: int = 0
    path: str = ""  # of the WebSocket resource, or of the Unix socket
    username: str | None = None
    password: str | None = None

    @property
    def tls(self) -> bool:
        return self.scheme in ("mqtts", "wss")

    @property
    def websocket(self) -> bool:
        return self.scheme in ("ws", "wss")

    @property
    def authority(self) -> str:
        """host:port, with an IPv6 address in brackets."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def __str__(self) -> str:
        """The URL without user name and password, fit for a report."""
        if self.scheme == "unix":
            return f"unix://{self.path}"
        return f"{self.scheme}://{self.authority}{self.path if self.websocket else ''}"


def parse(url: str) -> Target:
    """The target that `url` names.  Raises `BenchError`."""
    # A bare "host:1883" is what people type; urlsplit would take "host" for the scheme.
    if "://" not in url:
        url = f"mqtt://{url}"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BenchError(f"{url} is not a URL: {error}", f"Examples: {_EXAMPLES}") from None
    username = None if parts.username is None else unquote(parts.username)
    password = None if parts.password is None else unquote(parts.password)
    if parts.scheme == "unix":
        # unix:///run/mhub.sock; a relative path, unix://mhub.sock, is where urlsplit sees a host.
        path = unquote(parts.netloc.rpartition("@")[2] + parts.path)
        if not path:
            raise BenchError(f"{url} names no socket", "Example: unix:///run/mhub/mqtt.sock")
        return Target("unix", path=path, username=username, password=password)
    if parts.scheme not in _PORTS:
        raise BenchError(f"{parts.scheme}:// is no way to a broker", f"Examples: {_EXAMPLES}")
    if not parts.hostname:
        raise BenchError(f"{url} names no host", f"Examples: {_EXAMPLES}")
    if port == 0:
        raise BenchError(f"{url} names port 0", "Ports go from 1 to 65535.")
    path = ""
    if parts.scheme in ("ws", "wss"):
        path = (parts.path or WEBSOCKET_PATH) + (f"?{parts.query}" if parts.query else "")
    elif parts.path not in ("", "/"):
        raise BenchError(f"{url} has a path, {parts.path}", "Only ws:// and wss:// take one.")
    port = port or _PORTS[parts.scheme]
    return Target(parts.scheme, parts.hostname, port, path, username, password)


@dataclass(frozen=True)
class Address:
    """Where to connect a socket to."""

    family: int
    where: Any  # a path, or a host and port tuple: whatever the family takes

    @property
    def is_loopback(self) -> bool:
        if isinstance(self.where, str):
            return True
        return ipaddress.ip_address(self.where[0].partition("%")[0]).is_loopback


def resolve(target: Target) -> list[Address]:
    """The addresses behind `target`, best first.  Raises `BenchError`."""
    if target.scheme == "unix":
        return [Address(socket.AF_UNIX, target.path)]
    try:
        found = socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise BenchError(
            f"cannot find the host {target.host}: {reason}", "Check the host name in the URL."
        ) from None
    return [Address(family, where) for family, _, _, _, where in found]


def check_consent(target: Target, addresses: list[Address], consent: bool) -> None:
    """Refuse to load a host that is not this one, unless the user said that it is theirs."""
    if consent or all(address.is_loopback for address in addresses):
        return
    raise BenchError(
        f"{target.host} is another machine, and this makes as much load as it can",
        f"If that host is yours to load, add {CONSENT}.",
    )
