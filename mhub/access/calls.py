"""The calls of the access interface by name, with what they take: for all that is not Python.

The command line uses these names whether a broker runs (`mhub.ctl.access_requests` makes them
requests of the admin API) or it works on the store itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Final

from mhub.access.access import Access
from mhub.access.table import MOST


@dataclass(frozen=True)
class Call:
    method: str  # of Access or one of its parts
    parameters: Mapping[str, object]  # a default, or the type of what must be given
    changes: bool = False


CALLS: Final[dict[str, Call]] = {
    "users": Call("users.page", {"match": "", "role": "", "after": "", "limit": MOST}),
    "user": Call("users.show", {"name": str}),
    "user-add": Call(
        "users.add", {"name": str, "password": "", "iterations": 0, "values": {}}, True
    ),
    "users-import": Call("users.bring", {"hashes": dict, "note": ""}, True),
    "user-set": Call("users.update", {"name": str, "values": dict, "expected": ""}, True),
    "user-passwd": Call(
        "users.passwd", {"name": str, "password": str, "iterations": 0, "expected": ""}, True
    ),
    "user-lock": Call("users.lock", {"name": str, "locked": True, "expected": ""}, True),
    "user-delete": Call("users.delete", {"name": str, "expected": ""}, True),
    "roles": Call("roles.all", {}),
    "role": Call("roles.show", {"name": str}),
    "role-add": Call("roles.add", {"name": str, "values": {}}, True),
    "role-set": Call("roles.update", {"name": str, "values": dict, "expected": ""}, True),
    "role-delete": Call("roles.delete", {"name": str, "cascade": False, "expected": ""}, True),
    "rules": Call(
        "rules.page", {"subject": "", "topic": "", "all_rows": False, "after": "", "limit": MOST}
    ),
    "rules-change": Call(
        "rules.change",
        {
            "add": [],
            "remove": [],
            "replace_all": False,
            "note": "",
            "places": [],
            "expected": "",
        },
        True,
    ),
    "rules-dry-run": Call(
        "rules_dry_run", {"add": [], "remove": [], "replace_all": False, "csv": ""}
    ),
    "in-force": Call("in_force", {}),
    "explain": Call(
        "explain",
        {
            "action": str,
            "topic": "",
            "user": "",
            "client": "",
            "anonymous": False,
            "qos": 0,
            "retain": False,
            "roles": [],
            "tenant": "",
            "attributes": {},
            "common_name": "",
        },
    ),
    "bans": Call("bans.page", {"kind": "", "after": "", "limit": MOST}),
    "ban-add": Call(
        "bans.add",
        {"kind": str, "value": str, "reason": "", "until": 0.0, "by": "", "expected": ""},
        True,
    ),
    "ban-remove": Call("bans.remove", {"kind": str, "value": str}, True),
}


def perform(access: Access, call: Call, **arguments: object) -> object:
    """What the interface answers: a result, or an awaitable of one."""
    result: object = attrgetter(call.method)(access)(**arguments)
    return result
