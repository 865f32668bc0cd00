"""Users of the registry."""

from typing import Annotated, Final

from mhub.access.quota import QUOTA_KEYS, Value
from mhub.access.results import Changed, Deleted, UserDetail, UserPage, UsersImported
from mhub.admin.endpoint import LINE, Body, Call, Query, endpoint
from mhub.admin.resources.parts import (
    CURSOR,
    LIMIT,
    LONGEST_NOTE,
    MATCH,
    ROLE,
    access_of,
    asked_by,
    given,
)
from mhub.admin.resources.parts import TENANT as TENANT_PATTERN

NAME: Final = "The user's name."
PASSWORD: Final = "The password, as text; the broker keeps hashes alone."
ITERATIONS: Final = (
    "Rounds of hashing that each login by SCRAM costs the client; 0: as many as is usual."
)
ROLES: Final = "Names of roles that it is given."
TENANT: Final = "Its tenant."
ATTRIBUTES: Final = "What rules have as `%{NAME}`."
LIMITS: Final = "Limits that it has instead of its listener's, by the names of `[limits]`."
NOTE: Final = "For people."
QUOTAS: Final = tuple(QUOTA_KEYS)


@endpoint("GET", "/users", resource="users")
async def users(
    call: Call,
    match: Annotated[str, Query(MATCH, longest=256)] = "",
    role: Annotated[str, Query("Only those who were given this role.", longest=128)] = "",
    cursor: Annotated[str, Query(CURSOR, longest=512)] = "",
    limit: Annotated[int, Query(LIMIT, low=1, high=1000)] = 100,
) -> UserPage:
    """Search users, by name.

    `left` is how many more there are behind this page; of a search, 1 if there are more.
    """
    return await access_of(call).users.search(match, role, cursor, limit)


@endpoint("POST", "/users", resource="users", codes=(409,))
async def add_user(
    call: Call,
    name: Annotated[str, Body(NAME, longest=256, shortest=1)],
    password: Annotated[str, Body(PASSWORD + " Without one, nobody can log in by password.")] = "",
    iterations: Annotated[int, Body(ITERATIONS, low=0, high=10_000_000)] = 0,
    roles: Annotated[list[str] | None, Body(ROLES, pattern=ROLE)] = None,
    tenant: Annotated[str | None, Body(TENANT, longest=128, pattern=TENANT_PATTERN)] = None,
    attributes: Annotated[dict[str, str] | None, Body(ATTRIBUTES)] = None,
    limits: Annotated[dict[str, Value] | None, Body(LIMITS, keys=QUOTAS)] = None,
    note: Annotated[str | None, Body(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = None,
) -> Changed:
    """Add a user."""
    values = given(roles=roles, tenant=tenant, attributes=attributes, limits=limits, note=note)
    done = await access_of(call).users.add(name, password, iterations, values, **asked_by(call))
    return _changed(call, done)


@endpoint("POST", "/users/import", resource="users")
async def import_users(
    call: Call,
    hashes: Annotated[dict[str, str], Body("Names, each with the hash of its password.")],
    note: Annotated[str, Body(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = "",
) -> UsersImported:
    """Add users with the hashes that they had elsewhere.

    Those who are there already stay as they are. The hashes of Mosquitto and of mosquitto-go-auth
    are known, among others.
    """
    return await access_of(call).users.bring(hashes, note, **asked_by(call))


@endpoint("GET", "/user", resource="users", codes=(404,))
async def user(
    call: Call, name: Annotated[str, Query(NAME, longest=256, shortest=1)]
) -> UserDetail:
    """Show a user: roles, rules about it, bans."""
    found = access_of(call).users.show(name)
    call.etag = found.user.version
    return found


@endpoint("PATCH", "/user", resource="users", codes=(404, 412))
async def change_user(
    call: Call,
    name: Annotated[str, Query(NAME, longest=256, shortest=1)],
    roles: Annotated[list[str] | None, Body(ROLES, pattern=ROLE)] = None,
    tenant: Annotated[str | None, Body(TENANT, longest=128, pattern=TENANT_PATTERN)] = None,
    attributes: Annotated[dict[str, str] | None, Body(ATTRIBUTES)] = None,
    limits: Annotated[dict[str, Value] | None, Body(LIMITS, keys=QUOTAS)] = None,
    note: Annotated[str | None, Body(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = None,
) -> Changed:
    """Change a user; what is not given stays as it is."""
    values = given(roles=roles, tenant=tenant, attributes=attributes, limits=limits, note=note)
    done = await access_of(call).users.update(name, values, call.if_match, **asked_by(call))
    return _changed(call, done)


@endpoint("DELETE", "/user", resource="users", codes=(404, 412))
async def delete_user(
    call: Call, name: Annotated[str, Query(NAME, longest=256, shortest=1)]
) -> Deleted:
    """Delete a user, with the rules about it.

    Its clients are disconnected, and their sessions end.
    """
    return await access_of(call).users.delete(name, call.if_match, **asked_by(call))


@endpoint("PUT", "/user/password", resource="users", codes=(404, 412))
async def set_user_password(
    call: Call,
    name: Annotated[str, Query(NAME, longest=256, shortest=1)],
    password: Annotated[str, Body(PASSWORD, shortest=1)],
    iterations: Annotated[int, Body(ITERATIONS, low=0, high=10_000_000)] = 0,
) -> Changed:
    """Give a user another password."""
    done = await access_of(call).users.passwd(
        name, password, iterations, call.if_match, **asked_by(call)
    )
    return _changed(call, done)


@endpoint("PUT", "/user/lock", resource="users", codes=(404, 409, 412))
async def lock_user(
    call: Call,
    name: Annotated[str, Query(NAME, longest=256, shortest=1)],
    locked: Annotated[bool, Body("Whether it is locked.")] = True,
) -> Changed:
    """Lock a user out, or let it in again.

    A user that is locked is disconnected. To let it in ends lock-outs after failed logins as well.
    """
    done = await access_of(call).users.lock(name, locked, call.if_match, **asked_by(call))
    return _changed(call, done)


def _changed(call: Call, done: Changed) -> Changed:
    call.etag = done.version
    return done
