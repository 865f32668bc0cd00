"""`mhub ctl listener list|open|close` and `mhub ctl config show|check|reload`."""

import json
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mhub.control.contract import ControlError
from mhub.ctl.access_view import titled
from mhub.ctl.client import NOT_UNDERSTOOD, Api
from mhub.ctl.command import FAILED, Commands, api_of, rows, show
from mhub.ctl.figures import clock, count, number_of
from mhub.ctl.table import safe

EXPIRES_AT: Final = "certificate_expires_at"


def listener(argv: list[str]) -> int:
    commands = Commands("listener", "Where clients connect, on this node.", api_of)
    commands.add("list", "list the listeners, open and closed", _listeners)
    opened = commands.add("open", "open a listener that was closed", _open, changes=True)
    closed = commands.add(
        "close",
        "let no new clients in at a listener",
        _close,
        "Those that are connected stay. It stays closed until it is opened again, its settings"
        " change, or the broker is restarted.",
        changes=True,
    )
    closed.add_argument(
        "--disconnect",
        action="store_true",
        help="disconnect its clients as well; their sessions stay",
    )
    for command in (opened, closed):
        command.add_argument("name", metavar="NAME", help="the listener")
        command.set_defaults(about="name")
    return commands.run(argv)


def config(argv: list[str]) -> int:
    commands = Commands("config", "The configuration of a running broker.", api_of)
    shown = commands.add(
        "show",
        "show the settings that are in force",
        _show,
        "Those that the file sets, with the line, and no secrets; --all shows defaults, too.",
    )
    shown.add_argument("--all", action="store_true", help="also those that have their default")
    check = commands.add(
        "check",
        "check a file against what is in force, and say what it would change",
        _check,
        "The broker does not look at the files that it names, as certificates; `mhub check-config`"
        " does. The exit status is 1 if it has a mistake.",
    )
    check.add_argument("file", metavar="FILE", help="the file, a TOML file; - is stdin")
    commands.add(
        "reload",
        "let the broker read its configuration again, as SIGHUP does",
        _reload,
        "It is applied as a whole, or refused as a whole.",
        changes=True,
    )
    return commands.run(argv)


# Listeners


def _listeners(api: Api, args: Namespace) -> None:
    found = api.call("GET", "listeners")
    listeners = found.get("listeners") if isinstance(found, dict) else found
    if not isinstance(listeners, list):
        raise ControlError(NOT_UNDERSTOOD)

    def text() -> list[str]:
        shown = [
            {
                "name": safe(str(each.get("name", "-"))),
                "state": safe(str(each.get("state", "-"))),
                "address": safe(str(each.get("address", "-"))),
                "clients": _connections(each),
                "certificate until": clock(at)[:10] if (at := number_of(each, EXPIRES_AT)) else "",
            }
            for each in listeners
        ]
        return rows(shown, ("name", "address"), "no listeners", frozenset({"clients"}))

    show(args, found, text)


def _connections(listener: Mapping[str, Any]) -> str:
    most = number_of(listener, "max_connections")
    return f"{listener.get('connections', '-')}" + (f" of {most:.0f}" if most else "")


def _open(api: Api, args: Namespace) -> None:
    done = api.post("listener/open", name=args.name)
    address = safe(str(done.get("address", "-")))
    show(args, done, lambda: [f"{safe(args.name)} is open at {address}"])


def _close(api: Api, args: Namespace) -> None:
    done = api.post("listener/close", name=args.name, disconnect=args.disconnect)
    left = count(number_of(done, "connections"), "client")
    show(args, done, lambda: [f"{safe(args.name)} is closed; {left} connected by it"])


# The configuration


def _show(api: Api, args: Namespace) -> None:
    found = api.get("configuration")

    def text() -> list[str]:
        lines = found.get("lines") or {}
        shown = [
            {
                "key": safe(key),
                "value": safe(json.dumps(value, ensure_ascii=False)),
                "line": str(lines.get(key, "")),
            }
            for key, value in settings(found.get("settings") or {})
            if args.all or key in lines
        ]
        made = [f"# {safe(str(found.get('file')))}" if found.get("file") else "# no file"]
        made += rows(shown, ("value", "key"), "all settings have their defaults")
        restart = found.get("needs_restart") or ()
        if restart:
            made += ["", f"needs a restart: {safe(', '.join(restart))}"]
        return made

    show(args, found, text)


def settings(table: object, key: str = "") -> Iterator[tuple[str, object]]:
    """Each setting by its key, as the file would name it."""
    if isinstance(table, Mapping):
        for name, value in table.items():
            yield from settings(value, f"{key}.{name}" if key else str(name))
    elif isinstance(table, list) and table and isinstance(table[0], Mapping):
        for n, value in enumerate(table):
            yield from settings(value, f"{key}[{n}]")
    else:
        yield key, table


def _check(api: Api, args: Namespace) -> int | None:
    if args.file == "-":
        text = sys.stdin.read()
    else:
        with open(args.file, encoding="utf-8") as file:
            text = file.read()
    name = "stdin" if args.file == "-" else args.file
    found = api.post("configuration/check", text=text)
    problems = found.get("problems") or []

    def lines() -> list[str]:
        if problems:
            return [
                f"{safe(name)}:{each.get('line') or ''}: {safe(str(each.get('key') or 'the file'))}"
                f": {safe(str(each.get('text', '')))}"
                for each in problems
            ]
        changed = found.get("changed") or []
        restart = found.get("needs_restart") or []
        return [
            f"{safe(name)}: fine" + ("" if changed else "; it changes nothing"),
            *titled(
                ("changes", [safe(", ".join(key for key in changed if key not in restart))]),
                ("restart", [safe(", ".join(restart))]),
            ),
        ]

    show(args, found, lines)
    _warn(found)
    return FAILED if problems else None


def _reload(api: Api, args: Namespace) -> None:
    done = api.post("configuration/reload")

    def text() -> list[str]:
        taken = done.get("in_force") or []
        restart = done.get("needs_restart") or []
        return [
            f"reloaded {safe(str(done.get('file') or 'what files there are'))}:"
            f" {count(len(taken), 'change')} in force",
            *titled(
                ("in force", [safe(", ".join(taken))]), ("restart", [safe(", ".join(restart))])
            ),
        ]

    show(args, done, text)
    _warn(done)


def _warn(found: Mapping[str, Any]) -> None:
    for warning in found.get("warnings") or ():
        print(f"warning: {safe(str(warning))}", file=sys.stderr)
