"""Bans of users, client ids and addresses, and what the broker has locked out itself."""

from typing import Annotated, Final

from mhub.access.results import BanPage, Changed
from mhub.admin.endpoint import LINE, Body, Call, Query, endpoint
from mhub.admin.resources.parts import CURSOR, LIMIT, LONGEST_NOTE, access_of, asked_by

KINDS: Final = ("user", "client", "address")
ALL_KINDS: Final = (*KINDS, "login")
BOTH: Final = ("ban", "lockout", "all")
WHAT: Final = "Bans, lock-outs after failed logins, or both."
LOCKOUTS: Final = ("user", "address", "login")
KIND: Final = "What is banned."
VALUE: Final = "The user, the client id, or the address or network."


@endpoint("GET", "/bans", resource="bans")
async def bans(
    call: Call,
    kind: Annotated[str, Query("Only of this kind.", choices=ALL_KINDS)] = "",
    what: Annotated[str, Query(WHAT, choices=BOTH)] = "ban",
    cursor: Annotated[str, Query(CURSOR)] = "",
    limit: Annotated[int, Query(LIMIT, low=1, high=1000)] = 100,
) -> BanPage:
    """List bans."""
    return access_of(call).bans.page(kind, cursor, limit, what)


@endpoint("POST", "/bans", resource="bans", codes=(409, 412))
async def add_ban(
    call: Call,
    kind: Annotated[str, Body(KIND, choices=KINDS)],
    value: Annotated[str, Body(VALUE, shortest=1)],
    until: Annotated[float, Body("Seconds since 1970; 0: for ever.", low=0)] = 0.0,
    why: Annotated[
        str, Body("The reason that is kept with the ban.", longest=LONGEST_NOTE, pattern=LINE)
    ] = "",
) -> Changed:
    """Ban a user, a client id, or an address; a ban that is there is replaced.

    Clients that it is about are disconnected.
    """
    by = asked_by(call)
    by["reason"] = why or by["reason"]
    done = await access_of(call).bans.add(kind, value, until=until, expected=call.if_match, **by)
    call.etag = done.version
    return done


@endpoint("DELETE", "/ban", resource="bans", codes=(404,))
async def remove_ban(
    call: Call,
    kind: Annotated[str, Query(KIND, choices=ALL_KINDS)],
    value: Annotated[str, Query(VALUE, shortest=1)],
    what: Annotated[str, Query(WHAT, choices=BOTH)] = "ban",
) -> Changed:
    """Remove a ban."""
    return await access_of(call).bans.remove(kind, value, what, **asked_by(call))


@endpoint("GET", "/lockouts", resource="bans")
async def lockouts(
    call: Call,
    kind: Annotated[
        str, Query("Only of this kind; `login` is a user at one address.", choices=LOCKOUTS)
    ] = "",
    cursor: Annotated[str, Query(CURSOR)] = "",
    limit: Annotated[int, Query(LIMIT, low=1, high=1000)] = 100,
) -> BanPage:
    """List who is locked out after failed logins."""
    return access_of(call).bans.page(kind, cursor, limit, "lockout")


@endpoint("DELETE", "/lockout", resource="bans", codes=(404,))
async def remove_lockout(
    call: Call,
    kind: Annotated[str, Query("What is locked out.", choices=LOCKOUTS)],
    value: Annotated[
        str, Query("The user, the address, or for `login` `ADDRESS NAME`.", shortest=1)
    ],
) -> Changed:
    """End a lock-out."""
    return await access_of(call).bans.remove(kind, value, "lockout", **asked_by(call))
