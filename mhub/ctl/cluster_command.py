"""`mhub ctl cluster status|leave|forget`: see and change the cluster of a running node.

All of it happens in the node, which is asked through its control socket.
"""

import json
import shutil
import sys
from argparse import ArgumentParser
from typing import Final

from mhub.control.contract import ControlError
from mhub.ctl.client import call, facts
from mhub.ctl.cluster_view import render
from mhub.ctl.figures import count
from mhub.ctl.place import add_place, socket_of

OK: Final = 0
FAILED: Final = 1

STATUS_HELP: Final = (
    " Of each other node: ms is how long a message takes there and back; queue, the messages and"
    " bytes that wait for it; routes, the filters that it wants messages for; since, how long it"
    " has been in this state."
)
LEAVING_S: Final = 600.0
"""How long a node may hand over its sessions without a word."""


def main(argv: list[str]) -> int:
    """Run one of the commands; the result is the exit status."""
    args = _parser().parse_args(argv)
    try:
        path = socket_of(args, "node")
        if not path:
            return FAILED
        if args.what == "status":
            _status(path, args.json)
        elif args.what == "leave":
            _leave(path)
        else:
            _forget(path, args.node)
    except ControlError as error:
        print(f"mhub ctl cluster {args.what}: {error}", file=sys.stderr)
        return FAILED
    return OK


def _status(path: str, as_json: bool) -> None:
    status = facts(call(path, "cluster-status"))
    if as_json:
        print(json.dumps(status, indent=2))
    else:
        print(render(status, shutil.get_terminal_size().columns))


def _leave(path: str) -> None:
    def say(text: str) -> None:
        print(text, flush=True)

    done = facts(call(path, "cluster-leave", None, say, LEAVING_S))
    print(
        f"left the cluster: {count(done.get('sessions'), 'session')} handed over,"
        f" {count(done.get('clients'), 'client')} disconnected"
    )


def _forget(path: str, node: str) -> None:
    done = facts(call(path, "cluster-forget", {"node": node}))
    print(
        f"forgot {done.get('node', node)}: {count(done.get('messages'), 'message')} for it and"
        f" {count(done.get('routes'), 'route')} of it dropped"
    )


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="mhub ctl cluster", description="See and change the cluster of a running node."
    )
    commands = parser.add_subparsers(dest="what", required=True, metavar="COMMAND")
    for what, text in (
        ("status", "show the node, and how it sees each other node"),
        (
            "leave",
            "take the node out of its cluster: hand its sessions over to other nodes, send its"
            " clients away",
        ),
        (
            "forget",
            "give up a node that will not come back, with the messages that are kept for it",
        ),
    ):
        more = STATUS_HELP if what == "status" else ""
        command = commands.add_parser(
            what, help=text, description=f"{text[0].upper()}{text[1:]}.{more}"
        )
        add_place(command, "node")
        if what == "status":
            command.add_argument("--json", action="store_true", help="print all there is, as JSON")
        elif what == "forget":
            command.add_argument("node", metavar="NODE", help="the name of the node to forget")
    return parser
