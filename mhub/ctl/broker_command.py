"""`mhub ctl status`, `clients` and `kick`: see a running broker and its clients."""

import json
import os
import shutil
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from shlex import quote
from typing import Any, Final

from mhub.control.contract import ControlError
from mhub.ctl.broker_view import (
    client_text,
    clients_left,
    clients_text,
    kicked_text,
    status_text,
)
from mhub.ctl.client import NOT_UNDERSTOOD, call, facts
from mhub.ctl.place import add_place, socket_of
from mhub.ctl.table import safe

OK: Final = 0
FAILED: Final = 1

PAGE: Final = 1000
"""Clients that are asked for at a time: what `mhub.operations.cursors.MOST` allows.  This does not
import that, as all of the broker would come along."""

LIMIT: Final = 100
UNBOUND: Final = 1 << 30


def status(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub ctl status",
        description="Show a running broker: its listeners, connections, sessions, messages and"
        " store. The exit status is 1 if none answers.",
    )
    return _run(parser, argv, _status)


def clients(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub ctl clients",
        description="List the clients of a running broker by client id, connected or not, or show"
        " one of them. Of each: since, how long it has been connected; subs, its subscriptions;"
        " queued, messages that wait for it; flight, those that it has not acknowledged.",
        epilog="Client ids are escaped as in $'...' of a shell; --json prints them as JSON.",
    )
    parser.add_argument(
        "client", metavar="CLIENT_ID", nargs="?", help="show this one, with its subscriptions"
    )
    parser.add_argument(
        "--match", default="", metavar="GLOB", help="only client ids that match, as 'pump-*'"
    )
    parser.add_argument(
        "--listener", default="", metavar="NAME", help="only those of this listener"
    )
    parser.add_argument("--user", default="", metavar="NAME", help="only those of this user")
    state = parser.add_mutually_exclusive_group()
    for name, text in (("connected", "that are connected"), ("offline", "that are not connected")):
        state.add_argument(
            f"--{name}", dest="state", action="store_const", const=name, help=f"only those {text}"
        )
    parser.add_argument(
        "--limit",
        type=_whole,
        default=LIMIT,
        metavar="N",
        help="show at most N (%(default)s); 0 shows all",
    )
    parser.add_argument(
        "--after", default="", metavar="CLIENT_ID", help="only client ids that come after this one"
    )
    return _run(parser, argv, _clients)


def kick(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub ctl kick",
        description="Close the connection of a client: one with MQTT 5.0 is told 0x98,"
        " administrative action. Its will is published. Nothing keeps it from connecting again.",
    )
    parser.add_argument("client", metavar="CLIENT_ID", help="the client to disconnect")
    parser.add_argument(
        "--delete-session",
        action="store_true",
        help="delete its session as well, also of one that is not connected: subscriptions,"
        " queued messages and messages in flight",
    )
    return _run(parser, argv, _kick)


def _run(parser: ArgumentParser, argv: list[str], do: Callable[[str, Namespace], None]) -> int:
    add_place(parser, "broker")
    parser.add_argument("--json", action="store_true", help="print all there is, as JSON")
    args = parser.parse_args(argv)
    try:
        path = socket_of(args, "broker")
        if not path:
            return FAILED
        do(path, args)
    except ControlError as error:
        who = f"{safe(args.client)}: " if getattr(args, "client", None) else ""
        print(f"{parser.prog}: {who}{error}", file=sys.stderr)
        return FAILED
    return OK


def _status(path: str, args: Namespace) -> None:
    found = facts(call(path, "status"))
    print(_json(found) if args.json else status_text(found))


def _clients(path: str, args: Namespace) -> None:
    if args.client is not None:
        found = facts(call(path, "client", {"client_id": args.client}))
        print(_json(found) if args.json else client_text(found))
        return
    shown, left, last = _list(path, args)
    if args.json:
        print(_json({"clients": shown, "left": left, "sessions": last.get("sessions")}))
        return
    for line in clients_text(shown, _width()):
        print(line)
    if not shown:
        print("no client fits" if last.get("sessions") else "no clients", file=sys.stderr)
    elif left:
        print(
            f"\n{clients_left(len(shown), left)}: --limit 0 shows all, and the next come with\n"
            f"--after {_quoted(str(shown[-1].get('client_id', '')))}",
            file=sys.stderr,
        )


def _list(path: str, args: Namespace) -> tuple[list[dict[str, Any]], int, dict[str, Any]]:
    """Page after page, until there are enough: the clients, how many are left, the last page."""
    asked: dict[str, object] = {
        "match": args.match,
        "listener": args.listener,
        "user": args.user,
        "state": args.state or "",
        "after": args.after,
    }
    wanted = args.limit or UNBOUND
    shown: list[dict[str, Any]] = []
    while True:
        asked["limit"] = min(wanted - len(shown), PAGE)
        page = facts(call(path, "clients", asked))
        found = page.get("clients")
        if not isinstance(found, list):
            raise ControlError(NOT_UNDERSTOOD)
        shown += found
        left = int(page.get("left", 0))
        if not found or not left or len(shown) >= wanted:
            return shown, left, page
        asked["after"] = shown[-1].get("client_id", "")


def _kick(path: str, args: Namespace) -> None:
    asked: dict[str, object] = {
        "client_id": args.client,
        "delete_session": args.delete_session,
    }
    found = facts(call(path, "kick", asked))
    print(_json(found) if args.json else kicked_text(found))


def _whole(text: str) -> int:
    """Of argparse, which makes a message of the name and ValueError."""
    number = int(text)
    if number < 0:
        raise ValueError
    return number


_whole.__name__ = "number"


def _json(value: object) -> str:
    # Escaped: a client id may hold what acts on a terminal.
    return json.dumps(value, indent=2)


def _quoted(text: str) -> str:
    """For a shell."""
    shown = safe(text)
    return quote(text) if shown == text else "$'" + shown.replace("'", "\\'") + "'"


def _width() -> int:
    """What lines are cut to: nothing is, in a file or a pipe."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return 1 << 20
