"""`mhub ctl subscriptions list|groups|route|add|remove`: who gets what."""

from argparse import ArgumentParser, Namespace
from typing import Any

from mhub.ctl.client import Api
from mhub.ctl.command import (
    Commands,
    add_paging,
    add_scope,
    api_of,
    pages,
    rows,
    scope_of,
    show,
    tell_rest,
)
from mhub.ctl.figures import count
from mhub.ctl.table import safe

RIGHT = frozenset({"qos", "members", "connected"})


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = Commands("subscriptions", "Who subscribes to what.", api_of)
    found = commands.add("list", "list subscriptions", _list)
    found.add_argument(
        "--match", default="", metavar="GLOB", help="only filters that match, as 'plant/*'"
    )
    found.add_argument("--client", default="", metavar="ID", help="only those of this client")
    found.add_argument("--topic", default="", metavar="TOPIC", help="only filters that match it")
    found.add_argument("--group", default="", metavar="NAME", help="only those of a shared group")
    groups = commands.add("groups", "list the groups of shared subscriptions", _groups)
    for command in (found, groups):
        add_paging(command)
        add_scope(command)
    route = commands.add(
        "route",
        "say who would get a message of a topic",
        _route,
        "Of each shared group one member gets it. A client that may not receive the topic is"
        " named as such.",
    )
    route.add_argument("topic", metavar="TOPIC", help="the topic, in full: with the mount point")
    add_paging(route)
    add_scope(route)
    add = commands.add(
        "add", "subscribe on behalf of a client", _add, "As if it had sent SUBSCRIBE.", changes=True
    )
    _add_client(add)
    add.add_argument("--qos", type=int, default=0, choices=(0, 1, 2), help="at most this (0)")
    remove = commands.add("remove", "unsubscribe on behalf of a client", _remove, changes=True)
    _add_client(remove)
    return commands.run(argv)


def _add_client(command: ArgumentParser) -> None:
    command.add_argument("client", metavar="CLIENT_ID", help="the client")
    command.add_argument("filter", metavar="FILTER", help="as the client would write it")
    add_scope(command)
    command.set_defaults(about="client")


def _list(api: Api, args: Namespace) -> None:
    found, page = pages(
        api,
        "subscriptions",
        "subscriptions",
        args,
        match=args.match,
        client_id=args.client,
        topic=args.topic,
        group=args.group,
        **scope_of(args),
    )

    def text() -> list[str]:
        shown = [
            {
                "filter": safe(str(each.get("filter", "-"))),
                "group": safe(str(each.get("group", ""))),
                "client": safe(str(each.get("client_id", "-"))),
                "qos": str(each.get("qos", "-")),
                "": "" if each.get("connected") is not False else "offline",
                "node": safe(str(each.get("node", ""))),
            }
            for each in found
        ]
        return rows(shown, ("filter", "client", "group", "node"), "no subscriptions", RIGHT)

    show(args, {**page, "subscriptions": found}, text)
    if not args.json:
        tell_rest(len(found), page, "subscriptions")


def _groups(api: Api, args: Namespace) -> None:
    found, page = pages(api, "groups", "groups", args, **scope_of(args))

    show(args, {**page, "groups": found}, lambda: _group_rows(found, "no shared subscriptions"))
    if not args.json:
        tell_rest(len(found), page, "groups")


def _group_rows(found: list[dict[str, Any]], empty: str) -> list[str]:
    shown = [
        {
            "group": safe(str(each.get("group", "-"))),
            "filter": safe(str(each.get("filter", "-"))),
            "members": str(each.get("members", "-")),
            "connected": str(each.get("connected", "-")),
            "node": safe(str(each.get("node", ""))),
            "other nodes": safe(", ".join(each.get("nodes") or ())),
        }
        for each in found
    ]
    return rows(shown, ("filter", "group", "node", "other nodes"), empty, RIGHT)


def _route(api: Api, args: Namespace) -> None:
    found, page = pages(api, "routes", "targets", args, topic=args.topic, **scope_of(args))
    groups = page.get("groups") or []

    def text() -> list[str]:
        shown = [
            {
                "client": safe(str(each.get("client_id", "-"))),
                "qos": str(each.get("qos", "-")),
                "by": safe(", ".join(each.get("filters") or ())),
                "": _hindrance(each),
                "node": safe(str(each.get("node", ""))),
            }
            for each in found
        ]
        empty = "no client subscribes to it" if not groups else ""
        lines = rows(shown, ("client", "by", "node"), empty, RIGHT) if shown or empty else []
        if groups:
            lines += [""] * bool(lines)
            lines += [
                f"and one member of {'each of ' if len(groups) > 1 else ''}"
                f"{count(len(groups), 'shared group')}:"
            ]
            lines += _group_rows(groups, "")
        others = page.get("nodes") or []
        if others:
            lines.append(f"other nodes with subscribers: {safe(', '.join(map(str, others)))}")
        return lines

    show(args, {**page, "targets": found}, text)
    if not args.json:
        tell_rest(len(found), page, "clients")


def _hindrance(target: dict[str, Any]) -> str:
    if target.get("allowed") is False:
        return "not allowed"
    return "offline" if target.get("connected") is False else ""


def _add(api: Api, args: Namespace) -> None:
    done = api.post(
        "client/subscribe", scope_of(args), client_id=args.client, filter=args.filter, qos=args.qos
    )
    what = f"{safe(args.client)} subscribes to {safe(args.filter)}, QoS {done.get('qos', '-')}"
    show(args, done, lambda: [what])


def _remove(api: Api, args: Namespace) -> None:
    done = api.post("client/unsubscribe", scope_of(args), client_id=args.client, filter=args.filter)
    show(args, done, lambda: [f"{safe(args.client)} no longer subscribes to {safe(args.filter)}"])
