"""The calls about users, roles, rules and bans (`mhub.access.calls`) as requests of the admin API.

Arguments become parameters of the query or fields of the body.  `values` are fields of their own,
and `expected`, the version that must be the current one, is If-Match.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from mhub.control.contract import ControlError
from mhub.ctl.client import NOT_UNDERSTOOD, Api, Refused, facts

LOGIN: Final = "login"
BANNED: Final = ("user", "client", "address")
LOCKED_OUT: Final = ("user", "address", LOGIN)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: tuple[str, ...] = ()  # arguments that are parameters; of a GET, all are


REQUESTS: Final = {
    "users": Request("GET", "users"),
    "user": Request("GET", "user"),
    "user-add": Request("POST", "users"),
    "users-import": Request("POST", "users/import"),
    "user-set": Request("PATCH", "user", ("name",)),
    "user-passwd": Request("PUT", "user/password", ("name",)),
    "user-lock": Request("PUT", "user/lock", ("name",)),
    "user-delete": Request("DELETE", "user", ("name",)),
    "roles": Request("GET", "roles"),
    "role": Request("GET", "role"),
    "role-add": Request("POST", "roles"),
    "role-set": Request("PATCH", "role", ("name",)),
    "role-delete": Request("DELETE", "role", ("name", "cascade")),
    "rules": Request("GET", "policies"),
    "rules-change": Request("POST", "policies/change"),
    "rules-dry-run": Request("POST", "policies/dry-run"),
    "in-force": Request("GET", "policies/in-force"),
    "explain": Request("GET", "explain"),
    "ban-add": Request("POST", "bans"),
}

NAMES: Final = {
    "users": {"after": "cursor"},
    "rules": {"after": "cursor"},
    "explain": {"roles": "role", "attributes": "attribute"},
    "ban-add": {"reason": "why"},
}
"""Arguments that the API calls otherwise."""


def ask(api: Api, name: str, arguments: Mapping[str, object]) -> dict[str, Any]:
    """Raises ControlError."""
    if name == "bans":
        return _bans(api, str(arguments.get("kind", "")))
    if name == "ban-remove":
        return _remove(api, str(arguments["kind"]), str(arguments["value"]))
    request = REQUESTS[name]
    version = str(arguments.get("expected") or "")
    query: dict[str, object] = {}
    body: dict[str, object] = {}
    for key, value in arguments.items():
        if key == "values" and isinstance(value, Mapping):
            body.update(value)
        elif key not in ("expected", "by"):  # the broker knows by whom
            part = query if request.method == "GET" or key in request.query else body
            part[NAMES.get(name, {}).get(key, key)] = _plain(value) if part is query else value
    if request.method == "GET":
        query = {key: value for key, value in query.items() if value not in ("", [], 0, False)}
    has_body = request.method in ("POST", "PUT", "PATCH")
    return facts(
        api.call(request.method, request.path, query, body if has_body else None, version) or {}
    )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return [f"{name}={each}" for name, each in value.items()]
    return value


def _bans(api: Api, kind: str) -> dict[str, Any]:
    """Of both kinds of lists, all pages."""
    found: list[Any] = []
    page: dict[str, Any] = {}
    for path, kinds in (("bans", BANNED), ("lockouts", LOCKED_OUT)):
        if kind and kind not in kinds:
            continue
        query: dict[str, object] = {"limit": 1000, **({"kind": kind} if kind else {})}
        while True:
            page = api.get(path, **query)
            items = page.get("bans")
            if not isinstance(items, list):
                raise ControlError(NOT_UNDERSTOOD)
            found += items
            if not page.get("next"):
                break
            query["cursor"] = page["next"]
    return {**page, "bans": found, "left": 0}


def _remove(api: Api, kind: str, value: str) -> dict[str, Any]:
    """A ban, a lock-out, or both; whichever there is."""
    done: dict[str, Any] | None = None
    refused: Refused | None = None
    for path, kinds in (("ban", BANNED), ("lockout", LOCKED_OUT)):
        if kind not in kinds and kind in (*BANNED, LOGIN):
            continue
        try:
            done = facts(api.call("DELETE", path, {"kind": kind, "value": value}) or {})
        except Refused as error:
            if error.status != 404:
                raise
            refused = refused or error
    if done is None:
        assert refused is not None
        raise refused
    return done
