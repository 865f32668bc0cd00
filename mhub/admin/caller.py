"""Who asks, and what they may.

    local     at the control socket: whoever can write there may do everything
    session   a person who has logged in; the cookie
    basic     user name and password with each request, if `admin.basic` allows it
    token     a program, with an API token
    nobody    has not said who it is

What a person may is in the policy: `admin:read` and `admin:write` on a resource.  A token needs a
scope besides, and there is one rule that no policy and no scope can lift: a token manages neither
people nor tokens nor secrets.  Whoever has got hold of one must not be able to make himself a user.
"""

from dataclasses import dataclass
from typing import Final, Protocol

from mhub.core.principal import NOBODY, Principal

LOCAL: Final = "local"
SESSION: Final = "session"
BASIC: Final = "basic"
TOKEN: Final = "token"
NOBODY_KIND: Final = "nobody"

NOT_WRITTEN_BY_TOKENS: Final = frozenset({"users", "roles", "policies", "configuration"})
NOT_SEEN_BY_TOKENS: Final = frozenset({"tokens"})


@dataclass(frozen=True)
class Caller:
    kind: str
    principal: Principal
    address: str
    scopes: tuple[str, ...] = ()  # of a token

    @property
    def name(self) -> str:
        """For logs, and for what is kept of a change."""
        return self.principal.user or self.kind

    @property
    def is_known(self) -> bool:
        return self.kind != NOBODY_KIND


def nobody(address: str) -> Caller:
    return Caller(NOBODY_KIND, NOBODY, address)


def local(address: str = "control socket") -> Caller:
    return Caller(LOCAL, NOBODY, address)


class Rights(Protocol):
    """The policy, as the admin side asks it: `mhub.access.service`."""

    def may_admin(self, principal: Principal, verb: str, resource: str) -> bool:
        """`verb` is "read" or "write"."""


def may(rights: Rights, caller: Caller, verb: str, resource: str) -> bool:
    if caller.kind == LOCAL:
        return True
    if not caller.is_known:
        return False
    if caller.kind == TOKEN:
        if is_kept_from_tokens(verb, resource):
            return False
        if verb not in caller.scopes and f"{verb}:{resource}" not in caller.scopes:
            return False
    return rights.may_admin(caller.principal, verb, resource)


def is_kept_from_tokens(verb: str, resource: str) -> bool:
    """What no token may do, whatever its scopes and roles are."""
    if resource in NOT_SEEN_BY_TOKENS:
        return True
    return verb == "write" and resource in NOT_WRITTEN_BY_TOKENS
