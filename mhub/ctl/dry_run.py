"""`mhub ctl policy dry-run`: what a change of rules would do, and to whom."""

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any

from mhub.ctl.access_command import AccessCommands
from mhub.ctl.access_view import folded
from mhub.ctl.command import FAILED, OK, show, width
from mhub.ctl.registry_calls import RegistryCalls
from mhub.ctl.table import safe


def add_to(commands: AccessCommands) -> None:
    command = commands.add(
        "dry-run",
        "say what a change of the rules would do and to whom, without changing anything",
        _dry_run,
        "It covers all topics. The exit status is 1 if anybody would gain or lose a right.",
    )
    command.add_argument(
        "file",
        metavar="FILE",
        nargs="?",
        default="",
        help="add the rules of this CSV file; - is stdin",
    )
    command.add_argument(
        "--add", action="append", metavar="ROW", help="add this line of a policy; repeatable"
    )
    command.add_argument(
        "--remove", action="append", metavar="ID", help="remove this rule; repeatable"
    )
    command.add_argument(
        "--replace", action="store_true", help="remove all rules that are not among those added"
    )


def _dry_run(calls: RegistryCalls, args: Namespace) -> int:
    csv = ""
    if args.file == "-":
        csv = sys.stdin.read()
    elif args.file:
        with open(args.file, encoding="utf-8") as file:
            csv = file.read()
    if not (csv or args.add or args.remove or args.replace):
        raise ValueError("nothing to try: name a FILE, --add ROW or --remove ID")
    found = calls(
        "rules-dry-run",
        add=[[field.strip() for field in row.split(",")] for row in args.add or ()],
        remove=args.remove or [],
        replace_all=args.replace,
        csv=csv,
    )
    show(args, found, lambda: list(_text(found)))
    return FAILED if found.get("people") or found.get("clients") else OK


def _text(found: Mapping[str, Any]) -> Iterator[str]:
    for sign, name in (("+", "added"), ("-", "removed")):
        for row in found.get(name) or ():
            yield f"{sign} {safe(str(row))}"
        yield from _more(found.get(f"more_{name}"), "rules")
    people = found.get("people") or ()
    if not people:
        yield "nobody gains or loses anything"
    for each in people:
        who = safe(", ".join(each.get("who") or ()))
        more = f" and {each['more_who']} more" if each.get("more_who") else ""
        users = f" ({each['users']} users)" if each.get("users") else ""
        yield ""
        yield f"{who}{more}{users}:"
        for name, changes in (("gains", each.get("gained")), ("loses", each.get("lost"))):
            for change in changes or ():
                yield from folded(f"  {name} {_right(change)}", max(width() - 1, 40))
        yield from _more(each.get("more"), "rights")
    yield from _more(found.get("more_people"), "groups of people")
    for client in found.get("clients") or ():
        filters = safe(", ".join(client.get("filters") or ()))
        yield f"client {safe(str(client.get('client_id')))} loses its subscriptions to {filters}"
        yield from _more(client.get("more"), "subscriptions")
    yield from _more(found.get("more_clients"), "clients")
    for note in found.get("notes") or ():
        yield f"note: {safe(str(note))}"


def _right(change: Mapping[str, Any]) -> str:
    text = f"{change.get('action')} {safe(str(change.get('topics')))}"
    if change.get("condition") not in (None, "", "any"):
        text += f" if {safe(str(change['condition']))}"
    if change.get("exceptions"):
        text += f", but not {safe(', '.join(change['exceptions']))}"
        text += f" and {change['more_exceptions']} more" if change.get("more_exceptions") else ""
    if change.get("rules"):
        text += f"; by {safe(', '.join(change['rules']))}"
    return text


def _more(number: object, what: str) -> Iterator[str]:
    if number:
        yield f"  and {number} more {what}"
