"""Where the running broker is: the options and variables that name it.

    --config FILE    the control socket that the configuration names
    --socket PATH    a control socket: no login, whoever may write to the file may do everything
    --url URL        the [admin] listener, also of another machine, with a token

A token is read from a file or from the environment, and is never an argument: those of a process
are visible to all users of a machine.
"""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Final, NamedTuple

from mhub.control.contract import ControlError

DEFAULT_SOCKET: Final = "mhub-data/control.sock"
URL: Final = "MHUB_URL"
TOKEN: Final = "MHUB_TOKEN"
CA: Final = "MHUB_CA"
LOOPBACK: Final = ("localhost", "127.", "::1")


class Place(NamedTuple):
    """Where to ask; either a socket, or host and port."""

    socket: str = ""
    hostname: str = ""
    port: int = 0
    is_tls: bool = False
    prefix: str = ""  # of all paths, behind a proxy
    ca: str = ""  # a file with the authorities to trust; "": those of the system
    token: str = ""

    @property
    def host(self) -> str:
        """The header of that name."""
        if self.socket:
            return "mhub"
        name = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{name}:{self.port}"

    @property
    def address(self) -> str:
        return self.socket or f"{'https' if self.is_tls else 'http'}://{self.host}{self.prefix}"

    @property
    def name(self) -> str:
        return f"the broker at {self.address}"

    @property
    def expected(self) -> str:
        return "a broker's control socket" if self.socket else "the [admin] listener of a broker"

    def not_logged_in(self, detail: str) -> str:
        if self.token:
            return f"{self.address} does not accept the token: {detail}"
        return (
            f"{self.address} wants a token: give one by --token-file FILE or {TOKEN};"
            " `mhub ctl token add` at the broker makes one"
        )


def add_place(parser: ArgumentParser, what: str = "broker") -> None:
    group = parser.add_argument_group("where the broker is")
    place = group.add_mutually_exclusive_group()
    place.add_argument("--config", metavar="FILE", help=f"the configuration of the running {what}")
    place.add_argument(
        "--socket", metavar="PATH", help=f"its control socket; without any, {DEFAULT_SOCKET}"
    )
    place.add_argument(
        "--url", metavar="URL", help=f"its [admin] listener, as https://HOST:PORT; or {URL}"
    )
    group.add_argument(
        "--token-file", metavar="FILE", help=f"the API token for --url; or {TOKEN} with the token"
    )
    group.add_argument(
        "--ca", metavar="FILE", help=f"who signs the certificate at --url; or {CA} with the file"
    )


def place_of(args: Namespace) -> Place | None:
    """Where to ask; None when the configuration is wrong, which was said then.

    Raises ControlError, OSError and ValueError.
    """
    url = getattr(args, "url", None)
    if not (url or args.socket or args.config):
        url = os.environ.get(URL)
    if url:
        return remote(url, args)
    for option in ("token_file", "ca"):
        if getattr(args, option, None):
            raise ControlError(f"--{option.replace('_', '-')}: this is for --url URL (or {URL})")
    if args.socket:
        return Place(socket=str(args.socket))
    if not args.config:
        if not _is_there(DEFAULT_SOCKET):
            raise ControlError(
                f"there is no {DEFAULT_SOCKET} here; name the broker by --config FILE, --socket"
                " PATH or --url URL"
            )
        return Place(socket=DEFAULT_SOCKET)

    from mhub.config import ConfigError, load

    try:
        path = load(args.config).control.path
    except ConfigError as error:
        print(error, file=sys.stderr)
        return None
    if not path:
        raise ControlError(f"{args.config} turns the control socket off: [control] path is empty")
    return Place(socket=path)


def remote(url: str, args: Namespace) -> Place:
    """Raises ControlError, and OSError of a file that cannot be read."""
    scheme, found, rest = url.partition("://")
    if not found or scheme not in ("http", "https"):
        raise ControlError(f"--url: expected https://HOST:PORT, found {url!r}")
    netloc, slash, path = rest.partition("/")
    if "@" in netloc or "?" in rest or "#" in rest or not (slash + path).isascii():
        raise ControlError(f"--url: expected https://HOST:PORT and no more, found {url!r}")
    is_tls = scheme == "https"
    hostname, port = _host_and_port(netloc, 443 if is_tls else 80, url)
    token = _token(args)
    if token and not is_tls and not hostname.startswith(LOOPBACK):
        raise ControlError(
            f"{url}: a token is not sent over a network without TLS; use https, or a tunnel to the"
            " broker's machine"
        )
    prefix = (slash + path).rstrip("/")
    ca = args.ca or os.environ.get(CA, "")
    return Place("", hostname, port, is_tls, prefix, ca, token)


def _host_and_port(netloc: str, default: int, url: str) -> tuple[str, int]:
    host, colon, port = netloc.rpartition(":")
    if not colon or netloc.endswith("]"):
        host, port = netloc, str(default)
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isdigit() or not 0 < int(port) < 65536 or not host.isprintable():
        raise ControlError(f"--url: expected https://HOST:PORT, found {url!r}")
    return host, int(port)


def _token(args: Namespace) -> str:
    if args.token_file == "-":
        token = sys.stdin.readline().strip() if sys.stdin is not None else ""
    elif args.token_file:
        with open(args.token_file, encoding="utf-8", errors="replace") as file:
            token = file.readline().strip()
    else:
        token = os.environ.get(TOKEN, "").strip()
        if not token:
            return ""
    where = f"--token-file {args.token_file}" if args.token_file else TOKEN
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise ControlError(f"{where}: there is no token in it")
    return token


def _is_there(path: str) -> bool:
    """Also in a folder that may not be looked into: whoever uses it is told of that."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
