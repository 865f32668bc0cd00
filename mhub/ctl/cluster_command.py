"""`mhub ctl cluster status|leave|forget` and `mhub ctl presence`: nodes, and who is where."""

import shutil
import sys
from argparse import Namespace
from textwrap import wrap
from typing import Any, Final

from mhub.control.contract import ControlError
from mhub.ctl.client import Api, fact_of, facts
from mhub.ctl.cluster_view import render
from mhub.ctl.command import (
    Commands,
    Single,
    add_paging,
    add_scope,
    api_of,
    pages,
    rows,
    scope_of,
    show,
    tell_missing,
    tell_rest,
)
from mhub.ctl.figures import clock, count, number_of
from mhub.ctl.table import safe

STATUS_HELP: Final = (
    "Of each other node: ms is how long a message takes there and back; queue, the messages and"
    " bytes that wait for it; routes, the filters that it wants messages for; since, how long it"
    " has been in this state."
)
LEAVING_S: Final = 120.0
"""How long a node that hands over its sessions may say nothing."""


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    commands = Commands("cluster", "See and change the cluster of a running node.", api_of)
    status = commands.add(
        "status", "show the node, and how it sees each other node", _status, STATUS_HELP
    )
    add_scope(status)
    leave = commands.add(
        "leave",
        "take the node out of its cluster: hand its sessions over to other nodes, send its clients"
        " away",
        _leave,
        changes=True,
    )
    leave.add_argument(
        "node", metavar="NODE", nargs="?", help="refuse if another node than this one answers"
    )
    forget = commands.add(
        "forget",
        "give up a node that will not come back, with the messages that are kept for it",
        _forget,
        changes=True,
    )
    forget.add_argument("node", metavar="NODE", help="the name of the node to forget")
    return commands.run(argv)


def presence(argv: list[str]) -> int:
    command = Single(
        "presence",
        "Show which clients are connected, since when, from where and at which node; each client of"
        " a cluster once.",
        _presence,
    )
    parser = command.parser
    parser.add_argument("--match", default="", metavar="GLOB", help="only client ids that match")
    state = parser.add_mutually_exclusive_group()
    for name in ("connected", "offline"):
        state.add_argument(
            f"--{name}", dest="state", action="store_const", const=name, help="only those"
        )
    add_paging(parser)
    add_scope(parser)
    return command.run(argv)


def _status(api: Api, args: Namespace) -> None:
    found = api.get("cluster", **scope_of(args))
    state = facts(found.get("state", found))

    def text() -> list[str]:
        columns = shutil.get_terminal_size().columns
        lines = [render(state, columns)]
        losses = [each for each in found.get("losses") or () if each.get("text")]
        if losses:
            lines += ["", "if a node is lost:"]
            lines += [
                line
                for each in losses
                for line in wrap(
                    f"{safe(str(each.get('node')))}: {safe(str(each['text']))}",
                    columns,
                    initial_indent="  ",
                    subsequent_indent="    ",
                    break_long_words=False,
                    break_on_hyphens=False,
                )
            ]
        return lines

    show(args, found, text)
    if not args.json:
        tell_missing(found)


def _leave(api: Api, args: Namespace) -> None:
    node = args.node or facts(api.get("cluster", scope="node").get("state")).get("node", "")
    api.silence_s = LEAVING_S
    done: dict[str, Any] = {}
    for line in api.lines("POST", "cluster/leave", {"node": node}):
        fact = fact_of(line)
        if "progress" in fact:
            print(safe(str(fact["progress"])), file=sys.stderr, flush=True)
        done = facts(fact.get("result", done))
    if not done:
        raise ControlError("the node went away before it had left the cluster: see its log")
    text = (
        f"left the cluster: {count(number_of(done, 'sessions'), 'session')} handed over,"
        f" {count(number_of(done, 'clients'), 'client')} disconnected"
    )
    show(args, done, lambda: [text])


def _forget(api: Api, args: Namespace) -> None:
    done = api.post("cluster/forget", {"node": args.node})

    def text() -> list[str]:
        messages = count(number_of(done, "messages"), "message")
        made = f"forgot {safe(str(done.get('node', args.node)))}: {messages} for it"
        if "routes" in done:
            made += f" and {count(number_of(done, 'routes'), 'route')} of it"
        return [f"{made} dropped"]

    show(args, done, text)
    missing = done.get("missing") or ()
    if missing:
        names = safe(", ".join(map(str, missing)))
        print(f"these nodes have not answered, and may still know it: {names}", file=sys.stderr)


def _presence(api: Api, args: Namespace) -> None:
    asked = {"match": args.match, "state": args.state, **scope_of(args)}
    found, page = pages(api, "presence", "clients", args, **asked)

    def text() -> list[str]:
        shown = [
            {
                "client": safe(str(each.get("client_id", "-"))),
                "state": safe(str(each.get("state", "-"))),
                "since": clock(number_of(each, "since")),
                "address": safe(str(each.get("address") or "")),
                "user": safe(str(each.get("user") or "")),
                "node": _node(each),
            }
            for each in found
        ]
        flexible = ("client", "user", "address", "node")
        return rows(shown, flexible, "no clients", optional=("user", "address"))

    show(args, {**page, "clients": found}, text)
    if not args.json:
        tell_rest(len(found), page, "clients")


def _node(client: dict[str, Any]) -> str:
    name = safe(str(client.get("node") or ""))
    return f"{name} (down)" if client.get("node_state") == "down" else name
