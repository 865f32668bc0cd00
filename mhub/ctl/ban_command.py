"""`mhub ctl ban add|remove|list`."""

import os
import time
from argparse import Namespace
from datetime import datetime

from mhub.ctl.access_command import AccessCommands, note_unknown
from mhub.ctl.access_view import until_text
from mhub.ctl.command import rows, show
from mhub.ctl.registry_calls import RegistryCalls
from mhub.ctl.table import safe

KINDS = ("user", "client", "address")
WHAT = (
    "KIND is user, client (a client id) or address (an IP address, or a network such as"
    " 192.0.2.0/24)."
)

LOGINS = 'A lock-out of a user at one address is "login", with "ADDRESS NAME" as its value.'


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = AccessCommands(
        "ban",
        "Who may not connect, on any node. A ban disconnects at once. What the broker itself has"
        " locked out after failed logins is listed and removed in the same way.",
    )
    add = commands.add("add", "ban a user, a client id, or an address", _add, WHAT)
    remove = commands.add(
        "remove", "end a ban or a lock-out", _remove, f"{WHAT} {LOGINS}", changes=True
    )
    for command, kinds in ((add, KINDS), (remove, (*KINDS, "login"))):
        command.add_argument("kind", metavar="KIND", help=", ".join(kinds))
        command.add_argument("value", metavar="VALUE", help="the name, the client id, the address")
    limit = add.add_mutually_exclusive_group()
    limit.add_argument("--for", dest="lasts", metavar="TIME", help='how long, as "10m", "2h", "7d"')
    limit.add_argument("--until", metavar="TIME", help='until when, as "2027-01-31 12:00"')
    add.add_argument("--reason", default="", metavar="TEXT", help="for people, and for the log")
    found = commands.add("list", "list bans and lock-outs", _list)
    found.add_argument(
        "--kind", default="", choices=(*KINDS, "login"), help="only those of this kind"
    )
    return commands.run(argv)


def _add(calls: RegistryCalls, args: Namespace) -> None:
    until = until_of(args)
    done = calls(
        "ban-add",
        kind=args.kind,
        value=args.value,
        reason=args.reason,
        until=until,
        by=_by(),
    )
    lasts = f" until {until_text(until)}" if until else ""
    if args.kind == "user":
        note_unknown(calls, args.value)
    value = args.value
    if args.kind == "address":
        from mhub.access.entries import address

        value = address(value)  # as `list` shows it: a network without what is behind its prefix
    show(args, done, lambda: [f'banned the {args.kind} "{safe(value)}"{lasts}'])


def until_of(args: Namespace) -> float:
    """What --for or --until say; 0: for ever.  Raises ValueError."""
    if args.lasts:
        from mhub.config.units import parse_duration

        seconds = parse_duration(args.lasts)
        if seconds is None or seconds <= 0:
            raise ValueError(f'--for: expected a time such as "10m" or "2h", found {args.lasts!r}')
        return round(time.time() + seconds, 3)
    if args.until:
        try:
            return datetime.fromisoformat(args.until).timestamp()
        except ValueError:
            raise ValueError(
                f'--until: expected a time such as "2027-01-31 12:00", found {args.until!r}'
            ) from None
    return 0.0


def _by() -> str:
    """Who types this."""
    try:
        from pwd import getpwuid

        return getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _remove(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("ban-remove", kind=args.kind, value=args.value)
    what = "lock-out" if args.kind == "login" else f"ban of the {args.kind}"
    show(args, done, lambda: [f'the {what} "{safe(args.value)}" has ended'])


def _list(calls: RegistryCalls, args: Namespace) -> None:
    page = calls.all("bans", "bans", "key", kind=args.kind, what="all")

    def text() -> list[str]:
        found = [
            {
                "kind": ban["kind"],
                "who": safe(ban["value"]),
                "until": until_text(ban["until"]),
                "reason": safe(ban["reason"]),
                "by": safe(ban["by"]) if ban["what"] == "ban" else "the broker",
            }
            for ban in page["bans"]
        ]
        return rows(found, ("who", "reason", "by"), "no bans")

    show(args, page, text)
