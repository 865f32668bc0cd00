"""`mhub ctl token add|list|revoke` and `mhub ctl limits`."""

import os
import sys
from argparse import Namespace
from collections.abc import Mapping
from typing import Any, Final

from mhub.control.contract import ControlError
from mhub.ctl.access_command import AccessCommands
from mhub.ctl.access_view import joined, titled
from mhub.ctl.ban_command import until_of
from mhub.ctl.client import Api
from mhub.ctl.command import Single, rows, show
from mhub.ctl.figures import clock, number_of, short_count
from mhub.ctl.registry_calls import RegistryCalls
from mhub.ctl.table import safe

SCOPES: Final = (
    "A scope is read, write, read:RESOURCE, write:RESOURCE, mqtt (MQTT over HTTP) or metrics. What"
    " a token may do has to be allowed by its scopes and, by its roles, by the rules. No token can"
    " manage users, roles, rules, tokens or the configuration."
)


def token(argv: list[str]) -> int:
    commands = AccessCommands(
        "token", "API tokens: what programs, and `mhub ctl --url`, log in with."
    )
    add = commands.add(
        "add",
        "make a token, and show its secret, this once",
        _add,
        f"The secret goes to stdout, all else to stderr. {SCOPES}",
        changes=True,
    )
    add.add_argument("name", metavar="NAME", help="letters, digits and . _ -")
    add.add_argument("--scope", action="append", required=True, metavar="SCOPE", help="repeatable")
    add.add_argument("--role", action="append", metavar="ROLE", help="a role of it; repeatable")
    add.add_argument("--tenant", default="", metavar="NAME", help="its tenant")
    limit = add.add_mutually_exclusive_group()
    limit.add_argument("--for", dest="lasts", metavar="TIME", help='how long, as "90d"; for ever')
    limit.add_argument("--until", metavar="TIME", help='until when, as "2027-01-31 12:00"')
    add.add_argument("--note", default="", metavar="TEXT", help="for people")
    add.add_argument(
        "--output",
        default="",
        metavar="FILE",
        help="write the secret to a new file that only you can read",
    )
    found = commands.add("list", "list tokens, without their secrets", _list)
    found.add_argument("--match", default="", metavar="GLOB", help="only names that match")
    revoke = commands.add(
        "revoke", "revoke a token, with the rules about it", _revoke, changes=True
    )
    revoke.add_argument("id", metavar="ID", help="as in `mhub ctl token list`")
    revoke.set_defaults(about="id")
    return commands.run(argv)


def limits(argv: list[str]) -> int:
    return Single(
        "limits",
        "Show the limits in force: those of all listeners, what is different for some, and how"
        " often each has been reached. docs/limits.md says what they mean.",
        _limits,
    ).run(argv)


def _add(calls: RegistryCalls, args: Namespace) -> None:
    expires_at = until_of(args)
    if args.output and os.path.lexists(args.output):
        raise ControlError(f"{args.output}: there is such a file already")
    made = calls(
        "token-add",
        name=args.name,
        scopes=args.scope,
        roles=args.role or [],
        tenant=args.tenant,
        expires_at=expires_at,
        note=args.note,
    )
    secret = str(made.get("token", ""))
    if args.output:
        mode = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with open(os.open(args.output, mode, 0o600), "w", encoding="ascii") as file:
            file.write(f"{secret}\n")
    if args.json:
        show(args, made, list)
        return
    lasts = f", valid until {clock(expires_at)}" if expires_at else ""
    print(f'made the token "{safe(args.name)}", id {made.get("id")}{lasts}', file=sys.stderr)
    if args.output:
        print(f"its secret is in {args.output}", file=sys.stderr)
    else:
        print(safe(secret))


def _list(calls: RegistryCalls, args: Namespace) -> None:
    page = calls.all("tokens", "tokens", "id", match=args.match)

    def text() -> list[str]:
        shown = [
            {
                "id": safe(str(each.get("id", "-"))),
                "name": safe(str(each.get("name", "-"))),
                "scopes": joined(each.get("scopes") or ()),
                "roles": joined(each.get("roles") or ()),
                "until": _until(each),
                "last used": clock(at) if (at := number_of(each, "last_used_at")) else "",
                "note": safe(str(each.get("note", ""))),
            }
            for each in page["tokens"]
        ]
        return rows(
            shown, ("name", "scopes", "roles", "note"), "no tokens", optional=("note", "last used")
        )

    show(args, page, text)


def _until(token: Mapping[str, Any]) -> str:
    expires_at = number_of(token, "expires_at")
    if token.get("is_expired") is True:
        return "expired"
    return clock(expires_at)[:10] if expires_at else "for ever"


def _revoke(calls: RegistryCalls, args: Namespace) -> None:
    done = calls("token-revoke", token_id=args.id)
    show(args, done, lambda: [f"revoked the token {safe(args.id)}"])


def _limits(api: Api, args: Namespace) -> None:
    found = api.get("limits")

    def text() -> list[str]:
        reached = found.get("reached") or {}
        default = found.get("default") or {}
        shown = [
            {
                "limit": safe(name),
                "value": _value(value),
                "reached": short_count(number_of(reached, name)) if reached.get(name) else "",
            }
            for name, value in default.items()
        ]
        lines = rows(shown, ("limit", "value"), "no limits", frozenset({"value", "reached"}))
        parts: list[tuple[str, list[str]]] = [
            (f"listener {safe(name)}", _pairs(own))
            for name, own in (found.get("listeners") or {}).items()
        ]
        for what, key in (("role", "roles"), ("user", "users")):
            for each in found.get(key) or ():
                parts.append((f"{what} {safe(str(each.get('name')))}", _pairs(each.get("limits"))))
        for title, pairs in parts:
            if pairs:
                lines += ["", title, *titled(("", pairs))]
        if number_of(found, "more_users"):
            lines += ["", f"and {found['more_users']} more users with limits of their own"]
        return lines

    show(args, found, text)


def _pairs(limits: object) -> list[str]:
    if not isinstance(limits, Mapping):
        return []
    return [f"{safe(str(name))} = {_value(value)}" for name, value in limits.items()]


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float) and value == int(value):
        value = int(value)
    return "-" if value is None else safe(str(value))
