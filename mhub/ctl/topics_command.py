"""`mhub ctl topics top|tree` and `mhub ctl retained list|tree|get|delete`."""

import sys
from argparse import ArgumentParser, Namespace
from base64 import b64decode
from typing import Any, Final

from mhub.ctl.access_view import titled
from mhub.ctl.client import Api
from mhub.ctl.command import (
    FAILED,
    Commands,
    add_paging,
    add_scope,
    api_of,
    pages,
    rows,
    scope_of,
    show,
    tell_missing,
    tell_rest,
    whole,
)
from mhub.ctl.figures import clock, number_of, short_count, short_rate, short_size, short_time
from mhub.ctl.table import safe

MOST_PAYLOAD: Final = 1 << 20
"""What the API gives of a payload, at most."""

RIGHT: Final = frozenset(
    {"msg/s", "B/s", "messages", "bytes", "topics", "retained", "qos", "size", "expires in"}
)


def topics(argv: list[str]) -> int:
    commands = Commands(
        "topics",
        "What clients publish to. A broker counts the topics with the most messages; those that"
        " nobody publishes to are forgotten.",
        api_of,
    )
    top = commands.add("top", "list the topics with the most messages", _top)
    top.add_argument(
        "--by",
        default="messages_per_s",
        metavar="FIELD",
        choices=("messages_per_s", "bytes_per_s", "messages", "bytes"),
        help="messages_per_s, bytes_per_s, messages or bytes",
    )
    top.add_argument("--limit", type=whole, default=20, metavar="N", help="so many (20)")
    tree = commands.add("tree", "list one level of topics, with what is below each", _tree)
    _add_prefix(tree)
    for command in (top, tree):
        add_scope(command)
        _add_sys(command)
    return commands.run(argv)


def retained(argv: list[str]) -> int:
    commands = Commands("retained", "Messages that are kept for later subscribers.", api_of)
    found = commands.add("list", "list retained messages", _retained)
    found.add_argument(
        "--match", default="", metavar="GLOB", help="only topics that match, as 'plant/*'"
    )
    found.add_argument(
        "--filter", default="", metavar="FILTER", help="only topics that this MQTT filter matches"
    )
    add_paging(found)
    tree = commands.add("tree", "list one level of topics with retained messages", _retained_tree)
    _add_prefix(tree)
    for command in (found, tree):
        _add_sys(command)
    get = commands.add("get", "show a retained message", _get)
    get.add_argument(
        "--raw", action="store_true", help="write the payload to stdout, and nothing else"
    )
    delete = commands.add("delete", "delete a retained message", _delete, changes=True)
    for command in (get, delete):
        command.add_argument("topic", metavar="TOPIC", help="its topic, in full")
        command.set_defaults(about="topic")
    return commands.run(argv)


def _add_sys(command: ArgumentParser) -> None:
    command.add_argument("--sys", action="store_true", help="also the broker's own, under $SYS")


def _add_prefix(command: ArgumentParser) -> None:
    command.add_argument(
        "prefix", metavar="PREFIX", nargs="?", default="", help='below this, as "plant/hall-1/"'
    )
    add_paging(command, 200)


def _top(api: Api, args: Namespace) -> None:
    found = api.get(
        "topics/top", by=args.by, limit=args.limit or 1000, sys=args.sys, **scope_of(args)
    )
    show(args, found, lambda: topic_rows(found.get("topics") or []))
    if not args.json:
        tell_missing(found)


def topic_rows(topics: list[dict[str, Any]]) -> list[str]:
    shown = [
        {
            "topic": safe(str(each.get("topic", "-"))),
            "msg/s": short_rate(number_of(each, "messages_per_s")),
            "B/s": short_size(number_of(each, "bytes_per_s")),
            "messages": short_count(number_of(each, "messages")),
            "bytes": short_size(number_of(each, "bytes")),
            "": "retained" if each.get("retained") is True else "",
            "node": safe(str(each.get("node", ""))),
        }
        for each in topics
    ]
    return rows(shown, ("topic", "node"), "no topics", RIGHT)


def _tree(api: Api, args: Namespace) -> None:
    found, page = pages(
        api, "topics/tree", "levels", args, prefix=args.prefix, sys=args.sys, **scope_of(args)
    )

    def text() -> list[str]:
        shown = [
            {
                "level": safe(str(each.get("name", "-"))) + ("" if _is_leaf(each) else "/"),
                "topics": short_count(number_of(each, "topics")),
                "msg/s": short_rate(number_of(each, "messages_per_s")),
                "B/s": short_size(number_of(each, "bytes_per_s")),
                "retained": short_count(number_of(each, "retained_messages")),
            }
            for each in found
        ]
        return rows(shown, ("level",), "no topics there", RIGHT)

    show(args, {**page, "levels": found}, text)
    if not args.json:
        tell_rest(len(found), page, "levels")


def _is_leaf(level: dict[str, Any]) -> bool:
    return level.get("is_topic") is True and level.get("topics") == 1


def _retained(api: Api, args: Namespace) -> None:
    found, page = pages(
        api, "retained", "messages", args, match=args.match, filter=args.filter, sys=args.sys
    )

    def text() -> list[str]:
        shown = [
            {
                "topic": safe(str(each.get("topic", "-"))),
                "qos": str(each.get("qos", "-")),
                "size": short_size(number_of(each, "size_bytes")),
                "since": clock(number_of(each, "retained_at")),
                "expires in": _expiry(each),
            }
            for each in found
        ]
        return rows(shown, ("topic",), "no retained messages", RIGHT)

    show(args, {**page, "messages": found}, text)
    if not args.json:
        tell_rest(len(found), page, "messages")


def _expiry(message: dict[str, Any]) -> str:
    expires_in_s = number_of(message, "expires_in_s")
    return "" if expires_in_s is None else short_time(expires_in_s)


def _retained_tree(api: Api, args: Namespace) -> None:
    found, page = pages(api, "retained/tree", "levels", args, prefix=args.prefix, sys=args.sys)

    def text() -> list[str]:
        shown = []
        for each in found:
            messages = number_of(each, "messages")
            is_leaf = each.get("is_message") is True and messages == 1
            shown.append(
                {
                    "level": safe(str(each.get("name", "-"))) + ("" if is_leaf else "/"),
                    "messages": short_count(messages),
                    "": "a message itself" if each.get("is_message") and not is_leaf else "",
                }
            )
        return rows(shown, ("level",), "no retained messages there", RIGHT)

    show(args, {**page, "levels": found}, text)
    if not args.json:
        tell_rest(len(found), page, "levels")


def _get(api: Api, args: Namespace) -> int | None:
    asked = {"most_bytes": MOST_PAYLOAD} if args.raw else {}
    found = api.get("retained/message", topic=args.topic, **asked)
    if args.raw:
        if found.get("is_whole") is False:
            print(
                "mhub ctl retained get: the message is longer than the API gives", file=sys.stderr
            )
            return FAILED
        sys.stdout.flush()
        sys.stdout.buffer.write(b64decode(str(found.get("payload", ""))))
        sys.stdout.buffer.flush()
        return None
    message = found.get("message") or {}
    text = found.get("text")

    def lines() -> list[str]:
        return titled(
            ("topic", [safe(str(message.get("topic", args.topic)))]),
            ("QoS", [str(message.get("qos", "-"))]),
            ("size", [f"{short_size(number_of(message, 'size_bytes'))}B"]),
            ("since", [clock(number_of(message, "retained_at"))]),
            ("expires in", [_expiry(message)]),
            ("publisher", [safe(str(found.get("publisher") or ""))]),
            ("content type", [safe(str(found.get("content_type") or ""))]),
            ("response to", [safe(str(found.get("response_topic") or ""))]),
            (
                "properties",
                [
                    f"{safe(str(name))}={safe(str(value))}"
                    for name, value in found.get("user_properties") or ()
                ],
            ),
            (
                "payload" if isinstance(text, str) else "base64",
                [safe(text if isinstance(text, str) else str(found.get("payload", "")))],
            ),
            ("", ["... and more; --raw writes all of it"] if not found.get("is_whole") else []),
        )

    show(args, found, lines)
    return None


def _delete(api: Api, args: Namespace) -> None:
    done = api.call("DELETE", "retained/message", {"topic": args.topic}) or {"topic": args.topic}
    show(args, done, lambda: [f"deleted the retained message of {safe(args.topic)}"])
