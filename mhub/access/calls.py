"""The calls of the access interface by name, with what they take: for all that is not Python.

The command line uses these names whether a broker runs, which it then asks over HTTP, or it works
on the store itself.  So each call says both: the method of Access, and the endpoint of the admin
API (`mhub.admin.resources`) that calls the same method.

    arguments of a call        in the request
    those of `query`           query parameters; a list is repeated, an object is NAME=VALUE each
    `expected`                 the header If-Match
    `reason`                   the query parameter `reason`, of calls that change something
    `spread`                   an object whose items are fields of the body
    all others                 fields of the body
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mhub.access.access import Access

MOST: Final = 1000
"""Items on one page."""


@dataclass(frozen=True)
class Call:
    method: str  # of Access or one of its parts
    parameters: Mapping[str, object]  # a default, or the type of what must be given
    changes: bool = False
    http: str = "GET"
    path: str = ""  # below /admin/v1
    query: tuple[str, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)  # what some are called in the request
    spread: str = ""


@dataclass(frozen=True)
class Request:
    """A call as the admin API takes it."""

    method: str
    path: str  # below /admin/v1
    query: Mapping[str, object]  # texts, numbers, true or false, and lists of these
    body: Mapping[str, object] | None  # None: there is none
    version: str = ""  # for If-Match


def _read(method: str, path: str, parameters: Mapping[str, object], **names: str) -> Call:
    return Call(method, parameters, False, "GET", path, tuple(parameters), names)


def _change(
    http: str,
    path: str,
    method: str,
    parameters: Mapping[str, object],
    query: tuple[str, ...] = (),
    spread: str = "",
    **names: str,
) -> Call:
    """`names`: what some arguments are called in the request."""
    taken = {**parameters, "reason": ""}
    return Call(method, taken, True, http, path, query, names, spread)


CALLS: Final[dict[str, Call]] = {
    "users": _read(
        "users.page",
        "/users",
        {"match": "", "role": "", "after": "", "limit": MOST},
        after="cursor",
    ),
    "user": _read("users.show", "/user", {"name": str}),
    "user-add": _change(
        "POST",
        "/users",
        "users.add",
        {"name": str, "password": "", "iterations": 0, "values": {}},
        spread="values",
    ),
    "users-import": _change("POST", "/users/import", "users.bring", {"hashes": dict, "note": ""}),
    "user-set": _change(
        "PATCH",
        "/user",
        "users.update",
        {"name": str, "values": dict, "expected": ""},
        query=("name",),
        spread="values",
    ),
    "user-passwd": _change(
        "PUT",
        "/user/password",
        "users.passwd",
        {"name": str, "password": str, "iterations": 0, "expected": ""},
        query=("name",),
    ),
    "user-lock": _change(
        "PUT",
        "/user/lock",
        "users.lock",
        {"name": str, "locked": True, "expected": ""},
        query=("name",),
    ),
    "user-delete": _change(
        "DELETE", "/user", "users.delete", {"name": str, "expected": ""}, query=("name",)
    ),
    "roles": _read("roles.all", "/roles", {}),
    "role": _read("roles.show", "/role", {"name": str}),
    "role-add": _change(
        "POST", "/roles", "roles.add", {"name": str, "values": {}}, spread="values"
    ),
    "role-set": _change(
        "PATCH",
        "/role",
        "roles.update",
        {"name": str, "values": dict, "expected": ""},
        query=("name",),
        spread="values",
    ),
    "role-delete": _change(
        "DELETE",
        "/role",
        "roles.delete",
        {"name": str, "cascade": False, "expected": ""},
        query=("name", "cascade"),
    ),
    "rules": _read(
        "rules.page",
        "/policies",
        {"subject": "", "topic": "", "all_rows": False, "after": "", "limit": MOST},
        after="cursor",
    ),
    "rules-change": _change(
        "POST",
        "/policies/change",
        "rules.change",
        {
            "add": [],
            "remove": [],
            "replace_all": False,
            "note": "",
            "places": [],
            "expected": "",
        },
    ),
    "rules-dry-run": Call(
        "rules_dry_run",
        {"add": [], "remove": [], "replace_all": False, "csv": ""},
        False,
        "POST",
        "/policies/dry-run",
    ),
    "proposals": _read(
        "propose",
        "/policies/proposals",
        {
            "action": str,
            "topic": "",
            "user": "",
            "client": "",
            "anonymous": False,
            "qos": 0,
            "retain": False,
        },
    ),
    "in-force": _read("in_force", "/policies/in-force", {}),
    "explain": _read(
        "explain",
        "/explain",
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
        roles="role",
        attributes="attribute",
    ),
    "bans": _read(
        "bans.page",
        "/bans",
        {"kind": "", "after": "", "limit": MOST, "what": "all"},
        after="cursor",
    ),
    "ban-add": _change(
        "POST",
        "/bans",
        "bans.add",
        {"kind": str, "value": str, "until": 0.0, "by": "", "expected": ""},
    ),
    "ban-remove": _change(
        "DELETE",
        "/ban",
        "bans.remove",
        {"kind": str, "value": str, "what": "all"},
        query=("kind", "value", "what"),
    ),
    "tokens": _read(
        "tokens.page", "/tokens", {"match": "", "after": "", "limit": MOST}, after="cursor"
    ),
    "token-add": _change(
        "POST",
        "/tokens",
        "tokens.add",
        {"name": str, "scopes": list, "roles": [], "tenant": "", "expires_at": 0.0, "note": ""},
    ),
    "token-revoke": _change(
        "DELETE",
        "/token",
        "tokens.delete",
        {"token_id": str, "expected": ""},
        query=("token_id",),
        token_id="id",
    ),
}


def perform(access: "Access", call: Call, **arguments: object) -> object:
    """What the interface answers: a result, or an awaitable of one."""
    result: object = attrgetter(call.method)(access)(**arguments)
    return result


def request_of(call: Call, arguments: Mapping[str, object]) -> Request:
    """The request by which the admin API does a call.

    What is not given is what the call has for it, so that the answer does not depend on where the
    call is made.  `by` is not sent: the broker knows who asks.  Raises ValueError.
    """
    taken = {**call.parameters, **arguments}
    query: dict[str, object] = {}
    body: dict[str, object] = {}
    version = ""
    for name, value in taken.items():
        called = call.names.get(name, name)
        if isinstance(value, type):
            raise ValueError(f"{name} is missing")
        if name == "by" or (called == "reason" and not value):
            continue
        if name == "expected":
            version = str(value)
        elif name == call.spread and isinstance(value, Mapping):
            body.update(value)
        elif name in call.query or called == "reason":
            query[called] = _in_query(value)
        else:
            body[called] = value
    has_body = call.http not in ("GET", "DELETE")
    return Request(call.http, call.path, query, body if has_body else None, version)


def _in_query(value: object) -> object:
    if isinstance(value, Mapping):
        return [f"{name}={text}" for name, text in value.items()]
    if isinstance(value, bool):
        return "true" if value else "false"
    return value
