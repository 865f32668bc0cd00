"""Why somebody may do something, or may not."""

from typing import Annotated, Final

from mhub.access.results import Explained
from mhub.admin.endpoint import Call, Query, endpoint
from mhub.admin.resources.parts import access_of
from mhub.operations.contract import BadArgument

ACTIONS: Final = (
    *("connect", "publish", "will", "subscribe", "receive"),
    *("admin:read", "admin:write"),
)


@endpoint("GET", "/explain", resource="policies", codes=(404, 409))
async def explain(
    call: Call,
    action: Annotated[
        str,
        Query("What it wants to do.", choices=ACTIONS),
    ],
    topic: Annotated[
        str, Query("The topic, the filter of a subscription, or the resource of an admin action.")
    ] = "",
    user: Annotated[str, Query("The user; `token:NAME` is an API token.", longest=256)] = "",
    client: Annotated[
        str, Query("The client id; without a user, of a client with a session at this node.")
    ] = "",
    anonymous: Annotated[bool, Query("A client without a user.")] = False,
    qos: Annotated[int, Query("Of the message, or of the subscription.", low=0, high=2)] = 0,
    retain: Annotated[bool, Query("Whether the message is retained.")] = False,
    role: Annotated[list[str], Query("If it had this role as well; repeatable.")] = [],  # noqa: B006
    tenant: Annotated[str, Query("If it had this tenant.", longest=128)] = "",
    attribute: Annotated[
        list[str],
        Query("If it had this attribute, as NAME=VALUE; repeatable.", pattern="^[^=]+="),
    ] = [],  # noqa: B006
    common_name: Annotated[str, Query("If its certificate had this name.", longest=256)] = "",
) -> Explained:
    """Say whether somebody may do something, and which rules decide."""
    attributes = {}
    for text in attribute:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise BadArgument(f"attribute: expected NAME=VALUE, found {text[:40]!r}")
        attributes[name] = value
    return await access_of(call).explain_in_slices(
        action,
        topic,
        user,
        client,
        anonymous,
        qos,
        retain,
        role,
        tenant,
        attributes,
        common_name,
    )
