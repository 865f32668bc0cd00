"""What the endpoints about users, roles, rules, bans and tokens have in common."""

from typing import Final, TypedDict

from mhub.access.access import Access
from mhub.admin.endpoint import Call
from mhub.operations.contract import Unavailable

MATCH: Final = "A pattern with * and ? for the name."
CURSOR: Final = "`next` of the page before."
LIMIT: Final = "How many at most."


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
