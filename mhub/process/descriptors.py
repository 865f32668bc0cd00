"""How many files and sockets this process may have open, which bounds how many clients it can have.

The system gives a process a soft limit, often 1024, and a hard one up to which it may raise that by
itself.  There is no reason not to: nothing here uses select(), which the low one is there for.
"""

import resource
from dataclasses import dataclass
from typing import Final

from mhub.config import Settings

RESERVED: Final = 64
"""For all that is no client: store, log, control socket, epolls; about 20 of them are in use."""

RESERVED_IN_CLUSTER: Final = 128
"""For links to other nodes, and strangers at the port for peers."""


@dataclass(frozen=True)
class OpenFiles:
    limit: int  # in force; 0: none
    before: int


def raise_limit() -> OpenFiles:
    """Raise the soft limit to the hard one, as far as the system lets us."""
    before, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = before
    if before != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            limit = hard
        except (OSError, ValueError):
            pass  # a container may forbid it
    return OpenFiles(_number(limit), _number(before))


def _number(limit: int) -> int:
    return 0 if limit == resource.RLIM_INFINITY else limit


def reserved(settings: Settings) -> int:
    """How many are not for clients."""
    links = RESERVED_IN_CLUSTER if settings.cluster is not None else 0
    return RESERVED + len(settings.listeners) + links


def most_clients(settings: Settings) -> tuple[int, str]:
    """How many clients the configuration lets in, and the key that says so; 0: any number."""
    bounds = [listener.max_connections for listener in settings.listeners]
    by_listeners = sum(bounds) if all(bounds) else 0
    total = settings.broker.max_connections
    if total and (not by_listeners or total <= by_listeners):
        return total, "limits.max_connections"
    return by_listeners, "max_connections of the listeners"


def warning(settings: Settings, limit: int) -> str:
    """What is wrong with the limit for these settings; "" if nothing is."""
    clients, key = most_clients(settings)
    room = max(0, limit - reserved(settings))
    if not limit or clients <= room:
        return ""
    return (
        f"{key} = {clients} needs {clients + reserved(settings)} open files, and the system allows"
        f" {limit}, enough for {room} clients: raise the hard limit of open files (LimitNOFILE= of"
        f" systemd, `ulimit -Hn`) or lower max_connections"
    )
