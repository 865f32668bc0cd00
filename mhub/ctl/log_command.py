"""`mhub ctl log level|recent` and `mhub ctl trace`: what a broker tells about itself and others."""

import sys
import time
from argparse import Namespace
from base64 import b64decode
from collections.abc import Mapping
from typing import Any, Final

from mhub.ctl.client import Api, events
from mhub.ctl.command import Commands, Single, api_of, rows, show, whole
from mhub.ctl.figures import clock, number_of, short_size, short_time
from mhub.ctl.table import safe

LEVELS: Final = ("debug", "info", "warn", "error", "critical")
FOLLOW_S: Final = 1.0
SILENT_S: Final = 90.0
"""How long a trace may tell nothing beyond its time."""


def log(argv: list[str]) -> int:
    commands = Commands("log", "The log of a running broker.", api_of)
    level = commands.add(
        "level",
        "show or set the level of the log",
        _level,
        "For all of it until it is set again or a reload changes it, or for one client for a"
        " while: at debug with a line for each of its packets.",
        changes=True,
    )
    level.add_argument(
        "level", metavar="LEVEL", nargs="?", choices=LEVELS, help=f"set it: {', '.join(LEVELS)}"
    )
    level.add_argument("--client", default="", metavar="ID", help="only of what concerns this one")
    level.add_argument("--for", dest="lasts", default="10m", metavar="TIME", help="so long (10m)")
    recent = commands.add("recent", "show the last lines of the log", _recent)
    recent.add_argument(
        "--least", default="debug", choices=LEVELS, metavar="LEVEL", help="only from this level on"
    )
    recent.add_argument("--limit", type=whole, default=100, metavar="N", help="the last N (100)")
    recent.add_argument("--follow", action="store_true", help="go on until Ctrl-C")
    return commands.run(argv)


def trace(argv: list[str]) -> int:
    command = Single(
        "trace",
        "Watch the packets of a client, or the messages of some topics, until Ctrl-C or the end of"
        " the time.",
        _trace,
    )
    parser = command.parser
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--client", default="", metavar="ID", help="the client")
    what.add_argument("--topic", default="", metavar="FILTER", help="messages that this matches")
    parser.add_argument("--for", dest="lasts", default="1m", metavar="TIME", help="so long (1m)")
    parser.add_argument(
        "--limit", type=whole, default=10_000, metavar="N", help="so many events (10000)"
    )
    parser.add_argument(
        "--payload", type=whole, default=0, metavar="BYTES", help="so much of each payload (0)"
    )
    return command.run(argv)


def _seconds(text: str) -> float:
    from mhub.config.units import parse_duration

    seconds = parse_duration(text)
    if seconds is None or seconds <= 0:
        raise ValueError(f'--for: expected a time such as "10m" or "2h", found {text!r}')
    return seconds


def _level(api: Api, args: Namespace) -> None:
    if args.level is None:
        api.reason = ""
        found = api.get("log/level")
    else:
        asked: dict[str, object] = {"level": args.level}
        if args.client:
            asked.update(client_id=args.client, seconds=_seconds(args.lasts))
        found = api.call("PUT", "log/level", None, asked) or {}

    def text() -> list[str]:
        lines = [f"level {safe(str(found.get('level', '-')))}"]
        if found.get("configured") not in (None, found.get("level")):
            lines[0] += f"; the configuration says {safe(str(found['configured']))}"
        clients = [
            {
                "client": safe(str(each.get("client_id", "-"))),
                "level": safe(str(each.get("level", "-"))),
                "for": short_time(number_of(each, "left_s")),
            }
            for each in found.get("clients") or ()
        ]
        return lines + (["", *rows(clients, ("client",), "")] if clients else [])

    show(args, found, text)


def _recent(api: Api, args: Namespace) -> None:
    page = api.get("log/recent", least=args.least, limit=args.limit or 500)
    if not args.follow:
        show(args, page, lambda: [log_line(each) for each in page.get("lines") or ()])
        return
    while True:
        for each in page.get("lines") or ():
            print(one_line(each) if args.json else log_line(each), flush=True)
        if number_of(page, "missed"):
            print(f"{page['missed']} lines came too fast to be shown", file=sys.stderr)
        time.sleep(FOLLOW_S)
        page = api.get("log/recent", least=args.least, after=page.get("next", -1), limit=500)


def one_line(found: object) -> str:
    import json

    return json.dumps(found)


def log_line(line: Mapping[str, Any]) -> str:
    get = line.get
    return (
        f"{clock(number_of(line, 'time'))} {safe(str(get('level', '-'))):<5}"
        f" {safe(str(get('part', '-')))}: {safe(str(get('text', '')))}"
    )


def _trace(api: Api, args: Namespace) -> None:
    seconds = _seconds(args.lasts)
    api.silence_s = seconds + SILENT_S
    asked = {"client_id": args.client, "topic": args.topic, "seconds": seconds, "most": args.limit}
    query = {name: value for name, value in asked.items() if value}
    if args.payload:
        query["payload_bytes"] = args.payload
    for _, event in events(api.lines("GET", "trace", query)):
        print(one_line(event) if args.json else trace_line(event), flush=True)


def trace_line(event: Mapping[str, Any]) -> str:
    get = event.get
    kind = get("kind", "-")
    arrow = {"in": "<", "out": ">"}.get(str(get("direction")), "-")
    parts = [str(get("packet") or kind)]
    for name, text in (
        ("client_id", "{}"),
        ("topic", "{}"),
        ("qos", "QoS {}"),
        ("packet_id", "id {}"),
    ):
        if get(name) not in (None, ""):
            parts.append(text.format(safe(str(get(name)))))
    parts += [name for name in ("retain", "dup") if get(name) is True]
    if get("filters"):
        parts.append(safe(" ".join(get("filters") or ())))
    if get("reasons"):
        parts.append(" ".join(f"0x{code:02x}" for code in get("reasons") or ()))
    size = number_of(event, "payload_bytes" if get("payload_bytes") is not None else "size_bytes")
    if size is not None:
        parts.append(f"{short_size(size)}B")
    if get("text"):
        parts.append(safe(str(get("text"))))
    if get("payload"):
        parts.append(safe(b64decode(str(get("payload"))).decode("utf-8", "backslashreplace")))
    if number_of(event, "dropped"):
        parts.append(f"{get('dropped')} before it left out")
    at = number_of(event, "time")
    millis = f"{(at or 0) % 1:.3f}"[1:]
    return f"{clock(at)[11:]}{millis} {arrow} {', '.join(parts)}"
