"""`mhub ctl events|denials|stats`: what happened lately, and the numbers of a broker."""

import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import Any, Final

from mhub.ctl.client import Api
from mhub.ctl.command import Single, as_json, rows, show, whole
from mhub.ctl.figures import clock, number_of, short_rate
from mhub.ctl.table import safe

FOLLOW_S: Final = 1.0


def events(argv: list[str]) -> int:
    command = Single(
        "events",
        "Show what has happened lately at this node: connections, refusals, denials and the like.",
        _events,
    )
    parser = command.parser
    parser.add_argument(
        "--kinds", default="", metavar="KIND,...", help="only these kinds, as denied,dropped"
    )
    parser.add_argument("--client", default="", metavar="GLOB", help="only client ids like this")
    parser.add_argument("--user", default="", metavar="NAME", help="only of this user")
    parser.add_argument("--address", default="", metavar="TEXT", help="only addresses from here")
    parser.add_argument("--listener", default="", metavar="NAME", help="only of this listener")
    parser.add_argument("--limit", type=whole, default=50, metavar="N", help="the last N (50)")
    parser.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    return command.run(argv)


def denials(argv: list[str]) -> int:
    command = Single(
        "denials",
        "Show what clients were not allowed lately, the last one first. `mhub ctl explain` says"
        " more about each.",
        _denials,
    )
    command.parser.add_argument(
        "--limit", type=whole, default=50, metavar="N", help="the last N (50)"
    )
    return command.run(argv)


def stats(argv: list[str]) -> int:
    return Single(
        "stats",
        "Show the numbers of this node: counters since its start, and rates over 1, 5 and 15"
        " minutes. docs/monitoring.md says what each means.",
        _stats,
    ).run(argv)


def _events(api: Api, args: Namespace) -> None:
    asked = {
        "kinds": args.kinds,
        "client_id": args.client,
        "user": args.user,
        "address": args.address,
        "listener": args.listener,
    }
    asked = {name: value for name, value in asked.items() if value}
    page = api.get("events", limit=args.limit or 1000, **asked)
    if not args.follow:
        found = page.get("events") or []
        show(args, page, lambda: [event_line(each) for each in found])
        if not found and not args.json:
            print("no events", file=sys.stderr)
        return
    while True:
        for each in page.get("events") or ():
            print(as_json(each) if args.json else event_line(each), flush=True)
        time.sleep(FOLLOW_S)
        page = api.get("events", after=page.get("next", 0), limit=1000, **asked)


def event_line(event: Mapping[str, Any]) -> str:
    """What of it there is: who, where, what, why."""
    get = event.get
    if get("kind") == "admin":
        return _line(event, _change(event))
    who = get("client_id") or get("address") or get("node") or get("listener") or ""
    user = get("user") or (f"{get('claimed_user')}?" if get("claimed_user") else "")
    parts = [f"{who} ({user})" if user and who else str(who or user)]
    if get("client_id") and get("address"):
        parts.append(str(get("address")))
    parts += [str(get(name)) for name in ("topic", "text", "cause") if get(name)]
    parts += [f"{name} {get(name)}" for name in ("rule", "by") if get(name)]
    if (number_of(event, "count") or 1) > 1:
        parts.append(f"{get('count')} times")
    return _line(event, ", ".join(part for part in parts if part))


def _change(event: Mapping[str, Any]) -> str:
    """As the log says it: who, what, what became of it, why."""
    by, what, text, outcome, why = (
        str(event.get(name) or "") for name in ("by", "cause", "text", "outcome", "why")
    )
    done = " ".join(part for part in (what, text) if part)
    return f"{by}: {done}: {outcome}" + (f"; {why}" if why else "")


def _line(event: Mapping[str, Any], text: str) -> str:
    get = event.get
    return f"{clock(number_of(event, 'time'))}  {safe(str(get('kind', '-'))):<12}  {safe(text)}"


def _denials(api: Api, args: Namespace) -> None:
    found = api.get("denials", limit=args.limit or 1000)

    def text() -> list[str]:
        shown = [
            {
                "last": clock(number_of(each, "last_at")),
                "times": str(each.get("count", "-")),
                "client": safe(str(each.get("client_id", "-"))),
                "user": safe(str(each.get("user") or "")),
                "action": safe(str(each.get("action", "-"))),
                "topic": safe(str(each.get("topic", ""))),
                "rule": safe(str(each.get("rule", ""))),
            }
            for each in found.get("denials") or ()
        ]
        flexible = ("client", "user", "topic", "rule")
        return rows(shown, flexible, "nothing was denied", frozenset({"times"}), ("rule", "user"))

    show(args, found, text)


def _stats(api: Api, args: Namespace) -> None:
    found = api.get("/stats")

    def text() -> list[str]:
        rates = found.get("rates") or {}
        shown = [
            {
                "per second": safe(name),
                "1 min": short_rate(number_of(each, "per_s_1min")),
                "5 min": short_rate(number_of(each, "per_s_5min")),
                "15 min": short_rate(number_of(each, "per_s_15min")),
            }
            for name, each in rates.items()
        ]
        lines = rows(shown, (), "", frozenset({"1 min", "5 min", "15 min"})) if shown else []
        rest = {name: value for name, value in found.items() if name not in ("rates", "clients")}
        return [*lines, "", *flat(rest)]

    show(args, found, text)


def flat(found: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """A line for each value, by the names that lead to it."""
    for name, value in found.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        elif isinstance(value, list):
            for n, each in enumerate(value):
                key = str(each.get("name", n)) if isinstance(each, Mapping) else str(n)
                inner = each if isinstance(each, Mapping) else {"": each}
                rest = {one: two for one, two in inner.items() if one != "name"}
                yield from flat(rest, f"{prefix}{name}.{safe(key)}.")
        else:
            shown = "-" if value is None else safe(str(value))
            yield f"{safe(prefix + name).rstrip('.')} = {shown}"
