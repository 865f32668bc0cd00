"""`mhub ctl explain`: why a client may do something, or may not."""

from argparse import ArgumentParser, Namespace
from typing import Any

from mhub.ctl.access_command import pairs
from mhub.ctl.access_view import titled
from mhub.ctl.command import OK, add_common, run, show
from mhub.ctl.registry_calls import PLACE_HELP, RegistryCalls
from mhub.ctl.table import safe


def main(argv: list[str]) -> int:
    parser = ArgumentParser(
        prog="mhub ctl explain",
        description="Say whether a client may do something, and which rules decide: of a client"
        " that has a session at the broker (--client alone), of a user, or of an anonymous client."
        f" {PLACE_HELP}",
    )
    parser.add_argument("--user", default="", metavar="NAME", help="the user")
    parser.add_argument(
        "--client",
        default="",
        metavar="ID",
        help="the client id; without --user or --anonymous, of a client that the broker has",
    )
    parser.add_argument("--anonymous", action="store_true", help="an anonymous client")
    parser.add_argument(
        "--action",
        required=True,
        metavar="ACTION",
        help="connect, publish, will, subscribe, receive, admin:read or admin:write",
    )
    parser.add_argument(
        "--topic",
        default="",
        metavar="TOPIC",
        help="the topic, the filter of a subscription, or the resource of an admin action",
    )
    parser.add_argument("--qos", type=int, default=0, choices=(0, 1, 2), help="of the message")
    parser.add_argument("--retain", action="store_true", help="a message that is retained")
    parser.add_argument(
        "--role", action="append", metavar="ROLE", help="if it had this role as well; repeatable"
    )
    parser.add_argument("--tenant", default="", metavar="NAME", help="if it had this tenant")
    parser.add_argument(
        "--attribute", action="append", metavar="NAME=VALUE", help="if it had this attribute"
    )
    parser.add_argument("--cn", default="", metavar="NAME", help="if its certificate had this name")
    add_common(parser)
    args = parser.parse_args(argv)
    if not args.user and not args.client and not args.anonymous:
        parser.error("name who: --user NAME, --client ID or --anonymous")
    if args.user and args.anonymous:
        parser.error("--user and --anonymous: one of them")
    if args.action != "connect" and not args.topic:
        parser.error(f"--topic is needed for {args.action}")
    return run("mhub ctl explain", RegistryCalls, _explain, args)


def _explain(calls: RegistryCalls, args: Namespace) -> int:
    found = calls(
        "explain",
        user=args.user,
        client=args.client,
        anonymous=args.anonymous,
        action=args.action,
        topic=args.topic,
        qos=args.qos,
        retain=args.retain,
        roles=args.role or [],
        tenant=args.tenant,
        attributes=pairs(args.attribute, "--attribute"),
        common_name=args.cn,
    )
    show(args, found, lambda: _text(found))
    return OK


def _text(found: dict[str, Any]) -> list[str]:
    why = found["explanation"]
    who = [f"user {why['user']}" if why["user"] else "an anonymous client"]
    who += [f"client id {why['client_id']}"] if why["client_id"] else []
    who += [f"tenant {why['tenant']}"] if why["tenant"] else []
    what = why["action"] if why["action"] == "connect" else f"{why['action']} {why['topic']}"
    if why["action"] == "publish":
        what += f", QoS {why['qos']}{', retained' if why['retain'] else ''}"
    elif why["action"] == "subscribe":
        what += f", QoS {why['qos']}"
    return titled(
        ("allowed" if why["allowed"] else "denied", [safe(why["reason"])]),
        ("who", [safe(", ".join(who))]),
        ("wants to", [safe(what)]),
        ("by", _rules(why["deciding"])),
        ("overruled", _rules(why["overruled"])),
        ("example" if why["allowed"] else "not allowed", [safe(why["example"])]),
        ("nearest", _nearest(why["nearest"])),
        ("besides", [safe(note) for note in found["notes"]]),
        ("revision", [why["revision"]]),
    )


def _rules(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for rule in found:
        lines.append(f"{rule['id']}  {safe(rule['text'])}")
        path = " -> ".join(step["subject"] for step in rule["path"])
        lines.append(f"  for {safe(path)}; in {safe(rule['place'])}")
        lines += [f"  {name} is {safe(value)}" for name, value in rule["values"].items()]
    return lines


def _nearest(found: list[dict[str, Any]]) -> list[str]:
    lines = []
    for rule in found:
        lines.append(f"{rule['id']}  {safe(rule['text'])}")
        lines.append(f"  the {rule['failed']} does not match: {safe(rule['why'])}")
    return lines
