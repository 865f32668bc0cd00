"""Subscriptions, shared groups, and who would get a message."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.admin.resources.parts import TOPIC
from mhub.admin.resources.scope import SCOPE, SCOPES, everywhere
from mhub.operations.contract import GroupPage, RoutePage, SubscriptionPage
from mhub.operations.cursors import MOST


@endpoint("GET", "/subscriptions", resource="subscriptions")
async def subscriptions(
    call: Call,
    match: Annotated[str, Query("A pattern with * and ? for the filter.", longest=256)] = "",
    client_id: Annotated[str, Query("Of this client.")] = "",
    topic: Annotated[str, Query("Those whose filter matches this topic.")] = "",
    group: Annotated[str, Query("Of the shared group with this name.")] = "",
    kind: Annotated[
        str, Query("Only those of shared groups, or only others.", choices=("shared", "plain"))
    ] = "",
    sort: Annotated[
        str,
        Query(
            "What they are sorted by; with - before it, descending.",
            choices=("filter", "-filter", "client_id", "-client_id"),
        ),
    ] = "filter",
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> SubscriptionPage:
    """Search subscriptions of all clients.

    Filters are in full, with the mount point of the client's listener; `name` is what the client
    wrote.
    """
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.subscriptions(match, client_id, topic, group, kind, limit, sort, cursor)


@endpoint("GET", "/groups", resource="subscriptions")
async def groups(
    call: Call,
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> GroupPage:
    """List shared groups with their first members.

    All members are the subscriptions of the group. One that has members at several nodes is there
    for each of these.
    """
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.groups(limit, cursor)


@endpoint("GET", "/routes", resource="subscriptions")
async def routes(
    call: Call,
    topic: Annotated[str, Query("The topic of a message.", shortest=1, pattern=TOPIC)],
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> RoutePage:
    """Show who would get a message.

    Clients that subscribe to the topic and may not receive it are there with `allowed` false. Of
    each shared group one member gets it.
    """
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.routes(topic, limit, cursor)
