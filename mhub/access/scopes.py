"""What an API token may do at most, whatever its roles may: its scopes, and what no token may.

    read, write                      everything that its roles allow to be seen, or changed
    read:RESOURCE, write:RESOURCE    of one resource, as `write:clients` or `read:x/NAME`
    mqtt                             MQTT over HTTP: publish, subscribe, as its roles allow it
    metrics                          /metrics and /stats

`write` does not include `read`.  A token is a secret that lies in files of programs, and whoever
gets hold of one must not be able to make himself another, or a user: so no scope and no rule lets a
token change users, roles, rules or the configuration, or have anything to do with tokens
(FORBIDDEN).
"""

from collections.abc import Iterable
from typing import Final

from mhub.access.resources import READ, WRITE, check_resource
from mhub.config.problems import nearest

TOKEN: Final = "token"
"""What proved the user, in the words of Principal.method."""

TOKEN_USER: Final = "token:"
"""How the names of all tokens as users begin, and no other user's name does."""

MQTT: Final = "mqtt"
METRICS: Final = "metrics"
PLAIN: Final = (READ, WRITE, MQTT, METRICS)

FORBIDDEN: Final = frozenset(
    {
        (WRITE, "users"),
        (WRITE, "roles"),
        (WRITE, "policies"),
        (WRITE, "configuration"),
        (READ, "tokens"),
        (WRITE, "tokens"),
    }
)
"""What no token may, whatever its scopes and the rules are."""


def check_scope(scope: str) -> None:
    """Raises ValueError."""
    if scope in PLAIN:
        return
    verb, colon, resource = scope.partition(":")
    if not colon or verb not in (READ, WRITE):
        near = nearest(scope, PLAIN)
        hint = f"did you mean {near!r}?" if near else f"expected {', '.join(PLAIN)}, read:RESOURCE"
        raise ValueError(f"{scope!r} is no scope; {hint}")
    check_resource(resource)
    if (verb, resource) in FORBIDDEN:
        raise ValueError(f"{scope!r}: no token can be allowed that; log in as a user instead")


def scopes_allow(scopes: Iterable[str], verb: str, resource: str) -> bool:
    """Whether a token with these scopes may read or write a resource, if the rules allow it."""
    if (verb, resource) in FORBIDDEN:
        return False
    return any(scope == verb or scope == f"{verb}:{resource}" for scope in scopes)
