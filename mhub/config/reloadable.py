"""Which keys of the file a reload takes, and which need a restart: the one table of both.

A reload (`mhub.process.reload`) gives each of these keys to the part of the broker that it names.
What is not in the table needs a restart, so that a new key is never said to be in force while
nobody has looked at it.  `docs/configuration.md` has the table, made from this one.
"""

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any, Final, TypeVar

from mhub.config.settings import Settings

T = TypeVar("T")

LISTENERS: Final = "listeners"
LIMITS: Final = "limits"
LOG: Final = "log"
LOGINS: Final = "logins"
ACCESS: Final = "access"
CLUSTER: Final = "cluster"
ADMIN: Final = "admin"

RELOADABLE: Final[dict[str, tuple[str, str]]] = {
    "listeners": (
        LISTENERS,
        "New ones are opened, removed ones closed and their clients disconnected (0x98). A changed"
        " one keeps its clients, unless its `name`, `transport` or `proxy_protocol` changes.",
    ),
    "limits": (
        LIMITS,
        "Clients that are connected have the new ones within seconds; what a client was told when"
        " it connected, as the longest packet, holds until it connects again.",
    ),
    "sys": (LIMITS, ""),
    "net": (LIMITS, ""),
    "log": (LOG, "Also where it goes to."),
    "auth": (LOGINS, "Logins that are under way end with the authenticators that they began with."),
    "passwords.max_queued": (LOGINS, ""),
    "passwords.memory": (LOGINS, "For passwords that are set from then on."),
    "passwords.iterations": (LOGINS, "The same."),
    "passwords.scram_iterations": (LOGINS, "The same."),
    "guard": (LOGINS, "Counts of failed logins begin anew where a threshold has changed."),
    "access": (ACCESS, "Sessions are reviewed, as after each change of rules."),
    "admin.origins": (ADMIN, ""),
    "admin.basic": (ADMIN, ""),
    "admin.metrics": (ADMIN, ""),
    "admin.require_reason": (ADMIN, ""),
    "admin.session_idle_s": (ADMIN, "Also for sessions that are there."),
    "admin.session_max_s": (ADMIN, "The same."),
    "admin.max_sessions": (ADMIN, "With the next login."),
    "admin.max_connections": (ADMIN, "With the next connection."),
    "admin.max_streams": (ADMIN, "Streams that are there stay."),
    "admin.max_requests_per_s": (ADMIN, ""),
    "admin.request_timeout_s": (ADMIN, "From the next request of each connection on."),
    "admin.idle_timeout_s": (ADMIN, "The same."),
    "admin.tls.certificate": (ADMIN, "For new connections; the files are read at each reload."),
    "admin.tls.key": (ADMIN, "The same."),
    "admin.tls.sni": (ADMIN, "The same."),
    "admin.tls.ca": (ADMIN, "The same."),
    "admin.tls.crl": (ADMIN, "The same."),
    "cluster.peers": (CLUSTER, "Links that are there stay."),
    "cluster.srv": (CLUSTER, ""),
    "cluster.dns": (CLUSTER, ""),
    "cluster.secret": (
        CLUSTER,
        "Links that are there stay. Nodes that still have the previous secret are let in for an"
        " hour.",
    ),
    "cluster.secret_file": (CLUSTER, "The same; the file is read at each reload."),
    "cluster.server_reference": (CLUSTER, ""),
    "cluster.tls.certificate": (CLUSTER, "For new links; the files are read at each reload."),
    "cluster.tls.key": (CLUSTER, "The same."),
    "cluster.tls.ca": (CLUSTER, "The same."),
}
"""Key or table: the part of the broker that takes it, and what there is to say about that."""

_TABLES: Final = {"broker": "limits"}
"""Where the name of a field of Settings is not that of its table."""


def needs_restart(key: str) -> bool:
    """Whether a key, as `store.path` or `listeners[0].port`, is taken by a restart only."""
    plain = key.split("[")[0] if "[" in key else key
    return not any(plain == known or plain.startswith(known + ".") for known in RELOADABLE)


def merged(old: Settings, new: Settings) -> Settings:
    """The settings that a reload puts in force: the new ones, where it can take them."""
    found: dict[str, Any] = {"file": new.file, "warnings": new.warnings, "lines": new.lines}
    for each in fields(Settings):
        if each.name not in found:
            before, after = getattr(old, each.name), getattr(new, each.name)
            found[each.name] = _merge(before, after, _TABLES.get(each.name, each.name))
    return Settings(**found)


def _merge(old: T, new: T, key: str) -> T:
    if old == new:
        return new
    if not needs_restart(key):
        return new
    if not is_dataclass(old) or type(old) is not type(new):
        return old
    inner = {
        each.name: _merge(getattr(old, each.name), getattr(new, each.name), f"{key}.{each.name}")
        for each in fields(old)
    }
    return replace(old, **inner)  # type: ignore[type-var]


def table() -> Iterator[str]:
    """The lines of the table in `docs/configuration.md`."""
    yield from ["| key | |", "| --- | --- |"]
    for key, (_, note) in RELOADABLE.items():
        yield f"| {_shown(key)} | {note} |"


def _shown(key: str) -> str:
    if "." in key:
        return f"`{key}`"
    return f"`[[{key}]]`" if key in ("listeners", "auth") else f"`[{key}]`"
