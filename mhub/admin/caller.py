"""Who asks, and what they may.

    local     at the control socket: whoever can write there may do everything; with the name of
              the Unix user, for the log
    session   a person who has logged in; the cookie
    basic     user name and password with each request, if `admin.basic` allows it
    token     a program, with an API token
    nobody    has not said who it is

What a person may is in the policy: `admin:read` and `admin:write` on a resource.  A token needs a
scope besides (`mhub.access.scopes`).
"""

from dataclasses import dataclass
from typing import Final, Protocol

from mhub.access.scopes import TOKEN as TOKEN
from mhub.access.scopes import scopes_allow
from mhub.core.principal import NOBODY, Principal

LOCAL: Final = "local"
SESSION: Final = "session"
BASIC: Final = "basic"
NOBODY_KIND: Final = "nobody"


@dataclass(frozen=True)
class Caller:
    kind: str
    principal: Principal
    address: str
    scopes: tuple[str, ...] = ()  # of a token
    unix_user: str = ""  # at the control socket

    @property
    def name(self) -> str:
        """For logs, and for what is kept of a change."""
        if self.unix_user:
            return f"{self.kind}:{self.unix_user}"
        user = self.principal.user
        # A user of the registry may have any name, but is not taken for one of the system.
        return f"user:{user}" if user.startswith(f"{LOCAL}:") else user or self.kind

    @property
    def is_known(self) -> bool:
        return self.kind != NOBODY_KIND


def nobody(address: str) -> Caller:
    return Caller(NOBODY_KIND, NOBODY, address)


def local(unix_user: str = "") -> Caller:
    return Caller(LOCAL, NOBODY, "control socket", unix_user=unix_user)


class Rights(Protocol):
    """The policy, as the admin side asks it: `mhub.access.service`."""

    def may_admin(self, principal: Principal, verb: str, resource: str) -> bool:
        """`verb` is "read" or "write"."""


def may(rights: Rights, caller: Caller, verb: str, resource: str) -> bool:
    if caller.kind == LOCAL:
        return True
    if not caller.is_known:
        return False
    if caller.kind == TOKEN and not scopes_allow(caller.scopes, verb, resource):
        return False
    return rights.may_admin(caller.principal, verb, resource)
