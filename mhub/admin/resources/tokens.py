"""API tokens.  No token may use any of this: whoever has one must not be able to make another."""

from typing import Annotated, Final

from mhub.access.results import Deleted, TokenMade, TokenPage
from mhub.admin.caller import LOCAL
from mhub.admin.endpoint import LINE, Body, Call, Query, endpoint
from mhub.admin.resources.parts import (
    CURSOR,
    LIMIT,
    LONGEST_NOTE,
    MATCH,
    ROLE,
    TENANT,
    access_of,
    asked_by,
)

SCOPES: Final = (
    "What it may do at most: `read`, `write`, `read:RESOURCE`, `write:RESOURCE`, `mqtt` (MQTT over"
    " HTTP), `metrics`."
)

NAME: Final = r"^[A-Za-z0-9_.-]{1,64}$"
SCOPE: Final = r"^(mqtt|metrics|(read|write)(:(x/)?[a-z0-9_-]+)?)$"


@endpoint("GET", "/tokens", resource="tokens", tokens=False)
async def tokens(
    call: Call,
    match: Annotated[str, Query(MATCH, longest=256)] = "",
    cursor: Annotated[str, Query(CURSOR, longest=64)] = "",
    limit: Annotated[int, Query(LIMIT, low=1, high=1000)] = 100,
) -> TokenPage:
    """List API tokens, without their secrets."""
    return access_of(call).tokens.page(match, cursor, limit)


@endpoint("POST", "/tokens", resource="tokens", tokens=False, codes=(409,))
async def add_token(
    call: Call,
    name: Annotated[
        str, Body("Its name: letters, digits and . _ -", longest=64, shortest=1, pattern=NAME)
    ],
    scopes: Annotated[list[str], Body(SCOPES, shortest=1, pattern=SCOPE)],
    roles: Annotated[
        list[str],
        Body(
            "Roles that it has: some of the caller's, or any if it may change users.",
            pattern=ROLE,
        ),
    ] = [],  # noqa: B006 (never changed)
    tenant: Annotated[str, Body("Its tenant.", longest=128, pattern=TENANT)] = "",
    expires_at: Annotated[float, Body("Seconds since 1970; 0: never.", low=0)] = 0.0,
    note: Annotated[str, Body("For people.", longest=LONGEST_NOTE, pattern=LINE)] = "",
) -> TokenMade:
    """Make an API token.

    The answer has its secret, which is shown this once. It is used as
    `Authorization: Bearer mhub_…`, and may do what its scopes and the rules for its roles allow
    both. No token can manage users, roles, rules, tokens or the configuration.
    """
    creator = None if call.caller.kind == LOCAL else call.caller.principal
    done = await access_of(call).tokens.add(
        name, scopes, roles, tenant, expires_at, note, creator, **asked_by(call)
    )
    call.etag = done.version
    return done


@endpoint("DELETE", "/token", resource="tokens", tokens=False, codes=(404, 412))
async def revoke_token(
    call: Call, id: Annotated[str, Query("Its id, as the list has it.", longest=64, shortest=1)]
) -> Deleted:
    """Revoke an API token, with the rules about it; it is refused from now on."""
    return await access_of(call).tokens.delete(id, call.if_match, **asked_by(call))
