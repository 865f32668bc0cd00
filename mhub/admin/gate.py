"""What every request has to pass before its endpoint is called: rate, identity, origin, permission.

Who asks is found out from, in this order: the socket (local), `Authorization: Bearer` (a token),
`Authorization: Basic`, the cookie of a session.  A cookie is sent by browsers also for pages that
its owner did not open, so a change by a session needs the second secret of that session in
`X-CSRF-Token`, and must not come from a page of another origin.
"""

import base64
import hmac
from collections.abc import Callable
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from mhub.access.resources import RESOURCES
from mhub.access.scopes import FORBIDDEN, scopes_allow
from mhub.admin.caller import BASIC, SESSION, TOKEN, Caller, Rights, local, may, nobody
from mhub.admin.endpoint import Endpoint
from mhub.admin.logins import Logins, NotLoggedIn, Session
from mhub.admin.plugins import Plugins
from mhub.auth.addresses import host_of
from mhub.config.admin import LISTENER, AdminSettings
from mhub.core.principal import Identity, Principal
from mhub.operations.contract import BadArgument, Forbidden, LimitReached
from mhub.web.peer import peer_name

BURST_S: Final = 5.0
"""What an address did not ask for, so many seconds long, it may ask for later at once."""

MOST_ADDRESSES: Final = 10_000

SAFE: Final = ("GET", "HEAD", "OPTIONS")


class Token(Protocol):
    """An API token that is in force."""

    @property
    def user(self) -> str: ...

    @property
    def scopes(self) -> tuple[str, ...]: ...

    @property
    def roles(self) -> tuple[str, ...]: ...

    @property
    def tenant(self) -> str: ...


class Gate:
    def __init__(
        self,
        logins: Logins,
        rights: Rights,
        find_token: Callable[[str], Token | None],
        settings: AdminSettings,
        clock: Callable[[], float],
        plugins: Plugins,
    ) -> None:
        self.plugins = plugins
        self.document: Callable[[], dict[str, Any]] = dict  # the OpenAPI document
        self.logins = logins
        self.settings = settings
        self.limited = 0  # requests that came too fast
        self.rights = rights
        self._find_token = find_token
        self._clock = clock
        self._full_at: dict[str, float] = {}  # by address: when its bucket is full again

    @property
    def cookie(self) -> str:
        """Its name has the port: a browser sends cookies of one host to all ports of it."""
        prefix = "__Host-" if self.settings.tls is not None else ""
        return f"{prefix}mhub_{self.settings.port}"

    def resources(self) -> list[str]:
        """The names of all that there are permissions for."""
        return [*RESOURCES, *(each.resource for each in self.plugins.all)]

    # Rate

    def pass_rate(self, address: str) -> None:
        """Raises LimitReached."""
        rate = self.settings.max_requests_per_s
        if not rate:
            return
        now = self._clock()
        host = host_of(address)
        full_at = max(self._full_at.pop(host, 0.0), now)
        if full_at - now > BURST_S:
            self._full_at[host] = full_at
            self.limited += 1
            raise LimitReached("too many requests from this address (admin.max_requests_per_s)")
        self._full_at[host] = full_at + 1.0 / rate
        while len(self._full_at) > MOST_ADDRESSES:
            del self._full_at[next(iter(self._full_at))]

    # Identity

    async def caller_of(
        self, request: Any, address: str, is_local: bool, renews: bool = True
    ) -> Caller:
        """Raises NotLoggedIn for credentials that are wrong, and for who is banned.

        `renews`: the request makes a session last longer.
        """
        if is_local:
            return local(peer_name(request.transport))
        caller = await self._caller_of(request, address, renews)
        if caller.is_known and self.logins.is_banned(caller.principal):
            raise NotLoggedIn("this user, or this address, is banned")
        return caller

    async def _caller_of(self, request: Any, address: str, renews: bool) -> Caller:
        scheme, _, rest = (request.getHeader("authorization") or "").strip().partition(" ")
        if scheme:
            if scheme.lower() == "bearer":
                return self._token(rest.strip(), address)
            if scheme.lower() == "basic" and self.settings.basic:
                user, password = _basic(rest)
                return Caller(BASIC, await self.logins.basic(user, password, address), address)
            known = "Bearer or Basic" if self.settings.basic else "Bearer"
            raise NotLoggedIn(f"Authorization: {scheme[:20]!r} is not known here, but {known}")
        session = self.session_of(request, renews)
        return self.caller_with(session, address) if session is not None else nobody(address)

    def caller_with(self, session: Session, address: str) -> Caller:
        """At the address of this request, which need not be that of the login."""
        principal = session.principal.copy()
        principal.address = address
        return Caller(SESSION, principal, address)

    def set_cookie(self, name: str) -> str:
        """The header that gives a session to a browser; "" takes it away."""
        secure = "; Secure" if self.settings.tls is not None else ""
        ends = "" if name else "; Max-Age=0"
        return f"{self.cookie}={name}; Path=/; HttpOnly; SameSite=Strict{secure}{ends}"

    def session_of(self, request: Any, renews: bool = True) -> Session | None:
        name = self.session_name(request)
        return self.logins.find(name, renews) if name else None

    def session_name(self, request: Any) -> str:
        value = request.getCookie(self.cookie.encode())
        return value.decode("ascii", "replace") if value else ""

    def _token(self, text: str, address: str) -> Caller:
        token = self._find_token(text)
        if token is None:
            raise NotLoggedIn("this token is unknown, was revoked, or has expired")
        identity = Identity(token.user, TOKEN)
        identity.roles = token.roles
        identity.tenant = token.tenant
        principal = Principal(address, LISTENER).identified(identity)
        return Caller(TOKEN, principal, address, token.scopes)

    # Origin

    def check_origin(self, request: Any, method: str, caller: Caller) -> None:
        """That a change which a browser sends is one that its owner wants.  Raises Forbidden."""
        if method in SAFE:
            return
        origin = request.getHeader("origin")
        if origin is not None and not self.is_own(request, origin):
            if caller.kind == SESSION or origin not in self.settings.origins:
                raise Forbidden(f"pages of {origin[:100]!r} may not do this (admin.origins)")
        if caller.kind != SESSION:
            return
        session = self.session_of(request)
        given = request.getHeader("x-csrf-token") or ""
        if session is None or not hmac.compare_digest(given.encode(), session.csrf.encode()):
            raise Forbidden(
                "a change by a session needs its secret in the header X-CSRF-Token; the answers of"
                " login and session have it"
            )

    def is_own(self, request: Any, origin: str) -> bool:
        """Whether a page is one of this listener's own."""
        host = request.getHeader("host") or ""
        try:
            found = urlsplit(origin)
        except ValueError:
            return False
        scheme = "https" if self.settings.tls is not None else "http"
        return bool(host) and found.netloc == host and found.scheme in (scheme, "https")

    # Permission

    def check(self, caller: Caller, endpoint: Endpoint, reason: str) -> None:
        """Raises NotLoggedIn, Forbidden, or BadArgument for want of a reason."""
        if endpoint.public and getattr(self.settings, endpoint.public, endpoint.public) == "open":
            return
        if not caller.is_known:
            raise NotLoggedIn("log in first: see docs/admin-api.md")
        if caller.kind == TOKEN:
            if not endpoint.tokens:
                raise Forbidden("this is not for tokens: log in as a user")
            if not endpoint.resource and endpoint.scope not in caller.scopes:
                raise Forbidden(f'the token needs the scope "{endpoint.scope}"')
        if not self._is_permitted(caller, endpoint):
            raise Forbidden(self._what_is_missing(caller, endpoint))
        if self.settings.require_reason and endpoint.changes and not reason:
            raise BadArgument("say why, with the parameter `reason` (admin.require_reason)")

    def _what_is_missing(self, caller: Caller, endpoint: Endpoint) -> str:
        verb, resource = endpoint.verb, endpoint.resource
        if caller.kind == TOKEN and endpoint.scope not in caller.scopes:
            # Rules would be changed in vain.
            if (verb, resource) in FORBIDDEN:
                return f"no token may {verb} {resource!r}, whatever its scopes: log in as a user"
            if not scopes_allow(caller.scopes, verb, resource):
                least = endpoint.scope or f"{verb}:{resource}"
                return f'the token needs the scope "{least}", or "{verb}"'
        return f"{caller.name!r} needs the permission admin:{verb} on {resource!r}"

    def _is_permitted(self, caller: Caller, endpoint: Endpoint) -> bool:
        if not endpoint.resource:
            return True
        if endpoint.scope and endpoint.scope in caller.scopes:  # narrower than that of the resource
            return self.rights.may_admin(caller.principal, endpoint.verb, endpoint.resource)
        return self.may(caller, endpoint.verb, endpoint.resource)

    def may(self, caller: Caller, verb: str, resource: str) -> bool:
        return may(self.rights, caller, verb, resource)


def _basic(text: str) -> tuple[str, str]:
    try:
        pair = base64.b64decode(text.strip(), validate=True).decode("utf-8")
    except ValueError:
        raise NotLoggedIn("Authorization: Basic is not base64 of UTF-8") from None
    user, _, password = pair.partition(":")
    return user, password
