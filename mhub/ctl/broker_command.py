"""`mhub ctl status`, `clients` and `kick`: see a running broker and its clients."""

import sys
from argparse import Namespace
from typing import Final

from mhub.ctl.broker_view import client_text, clients_text, kicked_text, status_text
from mhub.ctl.client import Api, facts
from mhub.ctl.command import (
    Single,
    add_paging,
    add_reason,
    add_scope,
    pages,
    scope_of,
    show,
    tell_missing,
    tell_rest,
    width,
)

SORTS: Final = (
    "connected_at, queued, queued_bytes, inflight, subscriptions, and messages_in, bytes_in,"
    " messages_out and bytes_out, as they are or with _per_s"
)


def status(argv: list[str]) -> int:
    return Single(
        "status",
        "Show a running broker: its listeners, connections, sessions, messages and store. The exit"
        " status is 1 if none answers.",
        _status,
    ).run(argv)


def clients(argv: list[str]) -> int:
    command = Single(
        "clients",
        "List clients, connected or not, or show one of them. Of each: since, how long it has been"
        " connected; subs, its subscriptions; in/s and out/s, the messages that it sends and gets"
        " in a second; queued, messages that wait for it; flight, those that it has not"
        " acknowledged.",
        _clients,
        "Client ids are escaped as in $'...' of a shell; --json prints them as JSON.",
    )
    parser = command.parser
    parser.add_argument(
        "client", metavar="CLIENT_ID", nargs="?", help="show this one, with its subscriptions"
    )
    parser.add_argument(
        "--match", default="", metavar="GLOB", help="only client ids that match, as 'pump-*'"
    )
    parser.add_argument(
        "--listener", default="", metavar="NAME", help="only those of this listener"
    )
    parser.add_argument("--user", default="", metavar="NAME", help="only those of this user")
    state = parser.add_mutually_exclusive_group()
    for name, text in (("connected", "that are connected"), ("offline", "that are not connected")):
        state.add_argument(
            f"--{name}", dest="state", action="store_const", const=name, help=f"only those {text}"
        )
    parser.add_argument(
        "--sort",
        default="",
        metavar="FIELD",
        help=f"by this instead of client_id, --sort=-FIELD descending: {SORTS}",
    )
    add_paging(parser)
    add_scope(parser)
    parser.set_defaults(about="client")
    return command.run(argv)


def kick(argv: list[str]) -> int:
    command = Single(
        "kick",
        "Close the connection of a client: one with MQTT 5.0 is told 0x98, administrative action."
        " Its will is published. Nothing keeps it from connecting again; `mhub ctl ban` does.",
        _kick,
    )
    parser = command.parser
    parser.add_argument("client", metavar="CLIENT_ID", help="the client to disconnect")
    parser.add_argument(
        "--delete-session",
        action="store_true",
        help="delete its session as well, also of one that is not connected: subscriptions,"
        " queued messages and messages in flight",
    )
    add_reason(parser)
    add_scope(parser)
    parser.set_defaults(about="client")
    return command.run(argv)


def _status(api: Api, args: Namespace) -> None:
    found = api.get("status")
    show(args, found, lambda: [status_text(found)])


def _clients(api: Api, args: Namespace) -> None:
    scope = scope_of(args)
    if args.client is not None:
        found = api.get("client", client_id=args.client, **scope)
        show(args, found, lambda: [client_text(found)])
        return
    asked = {name: getattr(args, name) for name in ("match", "listener", "user", "state", "sort")}
    clients, page = pages(api, "clients", "clients", args, **asked, **scope)
    show(args, {**page, "clients": clients}, lambda: clients_text(clients, width()))
    if args.json:
        return
    if not clients:
        print("no client fits" if page.get("sessions") else "no clients", file=sys.stderr)
        tell_missing(page)
    else:
        tell_rest(len(clients), page, "clients")


def _kick(api: Api, args: Namespace) -> None:
    if args.delete_session:
        asked = {"client_id": args.client, **scope_of(args)}
        found = facts(api.call("DELETE", "client/session", asked) or {})
    else:
        found = api.post("client/disconnect", scope_of(args), client_id=args.client)
    show(args, found, lambda: [kicked_text(found)])
