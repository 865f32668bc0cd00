"""Roles: those with an entry of their own, and those that only rules name."""

from typing import Annotated, Final

from mhub.access.quota import QUOTA_KEYS, Value
from mhub.access.results import Changed, Deleted, RoleDetail, RoleList
from mhub.admin.endpoint import LINE, Body, Call, Query, endpoint
from mhub.admin.resources.parts import LONGEST_NOTE, ROLE, access_of, asked_by, given

NAME: Final = "The role's name."
PARENTS: Final = "Roles that it inherits from."
LIMITS: Final = "Limits of users who have it, by the names of `[limits]`."
NOTE: Final = "For people."
QUOTAS: Final = tuple(QUOTA_KEYS)


@endpoint("GET", "/roles", resource="roles")
async def roles(call: Call) -> RoleList:
    """List all roles."""
    found = access_of(call).roles.all()
    call.etag = found.revision
    return found


@endpoint("POST", "/roles", resource="roles", codes=(409,))
async def add_role(
    call: Call,
    name: Annotated[str, Body(NAME, longest=128, shortest=1, pattern=ROLE)],
    parents: Annotated[list[str] | None, Body(PARENTS, pattern=ROLE)] = None,
    limits: Annotated[dict[str, Value] | None, Body(LIMITS, keys=QUOTAS)] = None,
    note: Annotated[str | None, Body(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = None,
) -> Changed:
    """Add a role."""
    values = given(parents=parents, limits=limits, note=note)
    done = await access_of(call).roles.add(name, values, **asked_by(call))
    call.etag = done.version
    return done


@endpoint("GET", "/role", resource="roles", codes=(404,))
async def role(
    call: Call, name: Annotated[str, Query(NAME, longest=128, shortest=1, pattern=ROLE)]
) -> RoleDetail:
    """Show a role: what it inherits, the rules about it, who has it."""
    found = access_of(call).roles.show(name)
    call.etag = found.role.version
    return found


@endpoint("PATCH", "/role", resource="roles", codes=(404, 412))
async def change_role(
    call: Call,
    name: Annotated[str, Query(NAME, longest=128, shortest=1, pattern=ROLE)],
    parents: Annotated[list[str] | None, Body(PARENTS, pattern=ROLE)] = None,
    limits: Annotated[dict[str, Value] | None, Body(LIMITS, keys=QUOTAS)] = None,
    note: Annotated[str | None, Body(NOTE, longest=LONGEST_NOTE, pattern=LINE)] = None,
) -> Changed:
    """Change a role; what is not given stays as it is."""
    values = given(parents=parents, limits=limits, note=note)
    done = await access_of(call).roles.update(name, values, call.if_match, **asked_by(call))
    call.etag = done.version
    return done


@endpoint("DELETE", "/role", resource="roles", codes=(404, 409, 412))
async def delete_role(
    call: Call,
    name: Annotated[str, Query(NAME, longest=128, shortest=1, pattern=ROLE)],
    cascade: Annotated[
        bool, Query("Also take it from all who have it, and remove the rules about it.")
    ] = False,
) -> Deleted:
    """Delete a role."""
    return await access_of(call).roles.delete(name, cascade, call.if_match, **asked_by(call))
