"""Cursors: where the next page of a list begins.

A cursor is the last item of a page, by what the list is sorted by, in a form that its user need not
understand.  It says nothing of the node that made it: with the same one, each node of a cluster
gives what comes behind it there.
"""

import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

from mhub.operations.contract import BadArgument

MOST: Final = 1000
"""Items on one page, which makes an answer of a few 100 KiB."""

MOST_TEXT: Final = 1 << 18
"""Characters of names in one answer, which ends there: a client id, a user name and a filter may
have 65,535 each, and 1,000 of them take seconds to be made JSON."""

Place = tuple[float, str]
"""The value and the name of an item; lists by name have no value, and 0.0 there."""


def write(sort: str, value: float, name: str) -> str:
    data = json.dumps([sort, value, name], separators=(",", ":")).encode("ascii")
    return urlsafe_b64encode(data).rstrip(b"=").decode("ascii")


def read(cursor: str, sort: str) -> Place:
    """Raises BadArgument, also for the cursor of a list that is sorted differently."""
    try:
        data = urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        found = json.loads(data)
        of, value, name = found
        if not isinstance(of, str) or not isinstance(name, str) or type(value) not in (int, float):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise BadArgument("cursor: expected `next` of an earlier page, as it is") from None
    if of != sort:
        raise BadArgument(f"cursor: it is of a list by {of[:40]!r}, and this one is by {sort!r}")
    return float(value), name


def direction(sort: str, fields: tuple[str, ...]) -> tuple[int, bool]:
    """The index of a field, and whether it descends.  Raises BadArgument."""
    descending = sort.startswith("-")
    field = sort[1:] if descending else sort
    if field not in fields:
        raise BadArgument(f"sort: expected one of {', '.join(fields)}, or one with a - before it")
    return fields.index(field), descending


def check_limit(limit: int) -> None:
    if not 1 <= limit <= MOST:
        raise BadArgument(f"limit: expected from 1 to {MOST}")
