"""Login, logout, and who one is."""

from dataclasses import dataclass
from typing import Annotated

from mhub.admin.caller import SESSION, may
from mhub.admin.endpoint import Body, Call, endpoint
from mhub.admin.logins import NotLoggedIn, Session
from mhub.admin.resources.parts import asked_by
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, Forbidden, NotThere


@dataclass(frozen=True)
class Whoami:
    user: str
    kind: str  # "session", "token", "basic" or "local"
    roles: tuple[str, ...]  # by its authenticator, the registry and rules, also by inheritance
    read: tuple[str, ...]  # resources that it may read
    write: tuple[str, ...]  # resources that it may change
    csrf: str  # of a session: what X-CSRF-Token has to be with each change
    ends_at: float | None  # of a session: when it is over without further requests
    require_reason: bool  # whether each change has to say why


@endpoint("POST", "/login", public="open", writes=False)
async def login(
    call: Call,
    user: Annotated[str, Body("The user name.", longest=1024)],
    password: Annotated[str, Body("The password.", longest=65535)],
) -> Whoami:
    """Log in.

    The answer sets a cookie that stands for the session. Programs use a token instead.
    """
    gate = call.gate
    name, session = await gate.logins.login(user, password, call.caller.address)
    call.headers["Set-Cookie"] = gate.set_cookie(name)
    return _whoami(call, session)


@endpoint("POST", "/logout", writes=False, tokens=False)
async def logout(call: Call) -> None:
    """End the session."""
    gate = call.gate
    gate.logins.logout(gate.session_name(call.request))
    call.headers["Set-Cookie"] = gate.set_cookie("")


@endpoint("GET", "/session", scope="read")
async def session(call: Call) -> Whoami:
    """Show who one is, and what one may."""
    return _whoami(
        call, call.gate.session_of(call.request) if call.caller.kind == SESSION else None
    )


@endpoint("PUT", "/session/password", writes=False, tokens=False)
async def change_password(
    call: Call,
    current: Annotated[str, Body("The password as it is.", longest=65535)],
    new: Annotated[str, Body("The new password.", longest=65535, shortest=8)],
) -> Whoami:
    """Change one's own password.

    All other sessions of the user end.
    """
    caller = call.caller
    if caller.kind != SESSION:
        raise Forbidden("log in first, with a session")
    try:
        await call.gate.logins.check(caller.principal.user, current, caller.address)
    except NotLoggedIn as error:
        raise Forbidden(str(error)) from None
    access = call.operations.access
    assert access is not None
    await access.users.passwd(caller.principal.user, new, **asked_by(call))
    name = call.gate.session_name(call.request)
    call.gate.logins.end_others(caller.principal.user, name)
    return _whoami(call, call.gate.session_of(call.request))


def _roles(call: Call, principal: Principal) -> tuple[str, ...]:
    found = set(principal.roles)
    access = call.operations.access
    if access is not None and principal.user:
        try:
            found.update(access.users.show(principal.user).all_roles)
        except (BadArgument, NotThere):
            pass  # a token, or a user whom another authenticator knows
    return tuple(sorted(found))


def _whoami(call: Call, session: Session | None) -> Whoami:
    gate = call.gate
    caller = gate.caller_with(session, call.caller.address) if session is not None else call.caller
    resources = gate.resources()
    return Whoami(
        user=caller.principal.user,
        kind=caller.kind,
        roles=_roles(call, caller.principal),
        read=tuple(each for each in resources if may(gate.rights, caller, "read", each)),
        write=tuple(each for each in resources if may(gate.rights, caller, "write", each)),
        csrf=session.csrf if session is not None else "",
        ends_at=round(gate.logins.ends_at(session), 3) if session is not None else None,
        require_reason=gate.settings.require_reason,
    )
