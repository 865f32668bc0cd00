"""What the endpoints about users, roles, rules, bans and tokens have in common."""

from collections.abc import Iterable
from typing import Final, TypedDict

from mhub.access.access import Access
from mhub.admin.endpoint import Call
from mhub.operations.contract import Unavailable

MATCH: Final = "A pattern with * and ? for the name."
CURSOR: Final = "`next` of the page before."
LIMIT: Final = "How many at most."

ROLE: Final = r"""^(role:)?[^\s,:'"()\[\]|&%*#+/]{1,128}$"""
TENANT: Final = r"""^[^\s,:'"()\[\]|&%*#+/]{0,128}$"""
TOPIC: Final = r"^[^+#\x00]+$"
FILTER: Final = r"^[^\x00]+$"
"""As far as a regular expression can say it."""

LONGEST_NOTE: Final = 1024


def some_of(words: Iterable[str]) -> str:
    """A pattern: words with commas in between, and perhaps spaces."""
    one = " *(" + "|".join(words) + ")? *"
    return f"^{one}(,{one})*$"


class AskedBy(TypedDict):
    by: str
    reason: str


def access_of(call: Call) -> Access:
    access = call.operations.access
    if access is None:
        raise Unavailable("this broker has no registry")
    return access


def asked_by(call: Call) -> AskedBy:
    """Who makes a change, and why."""
    return {"by": call.caller.name, "reason": call.reason}


def given(**values: object) -> dict[str, object]:
    """Those fields of a body that are there."""
    return {name: value for name, value in values.items() if value is not None}
