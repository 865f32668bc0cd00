"""Where the running broker is: the options that name it, and the socket that they come to."""

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from mhub.control.contract import ControlError

DEFAULT_SOCKET: Final = "mhub-data/control.sock"


def add_place(parser: ArgumentParser, what: str) -> None:
    place = parser.add_mutually_exclusive_group()
    place.add_argument(
        "--config", metavar="FILE", help=f"the configuration of the running {what}, a TOML file"
    )
    place.add_argument(
        "--socket", metavar="PATH", help=f"its control socket; without either, {DEFAULT_SOCKET}"
    )


def socket_of(args: Namespace, what: str) -> str:
    """The socket; "" when the configuration is wrong, which was said then."""
    if args.socket:
        return str(args.socket)
    if not args.config:
        if not _is_there(DEFAULT_SOCKET):
            raise ControlError(
                f"there is no {DEFAULT_SOCKET} here; name the {what} by --config FILE or"
                " --socket PATH"
            )
        return DEFAULT_SOCKET

    from mhub.config import ConfigError, load

    try:
        path = load(args.config).control.path
    except ConfigError as error:
        print(error, file=sys.stderr)
        return ""
    if not path:
        raise ControlError(f"{args.config} turns the control socket off: [control] path is empty")
    return path


def _is_there(path: str) -> bool:
    """Also in a folder that may not be looked into: whoever uses it is told of that."""
    try:
        os.stat(path)
    except PermissionError:
        return True
    except OSError:
        return False
    return True
