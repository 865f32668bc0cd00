"""Clients: search, one in detail, disconnect, delete, subscriptions on their behalf."""

from typing import Annotated, Final

from mhub.admin.endpoint import Body, Call, Query, endpoint
from mhub.admin.resources.parts import FILTER
from mhub.admin.resources.scope import SCOPE, SCOPES, everywhere
from mhub.core.scan import CLIENT_SORTS
from mhub.operations.contract import ClientDetail, ClientPage, Kicked, Subscribed, Unsubscribed
from mhub.operations.cursors import MOST

SORTS: Final = tuple(sort for field in CLIENT_SORTS for sort in (field, f"-{field}"))


@endpoint("GET", "/clients", resource="clients")
async def clients(
    call: Call,
    match: Annotated[str, Query("A pattern with * and ? for the client id.", longest=256)] = "",
    listener: Annotated[str, Query("Where it is connected, or was last.", longest=256)] = "",
    user: Annotated[str, Query("The user, proved or claimed.")] = "",
    state: Annotated[
        str, Query("Only those with this state.", choices=("connected", "offline"))
    ] = "",
    sort: Annotated[
        str, Query("What they are sorted by; with - before it, descending.", choices=SORTS)
    ] = "client_id",
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> ClientPage:
    """Search clients, connected or not.

    A client that stays is on exactly one page, if the list is by client id or by the time of
    connection; other values may change between two pages.
    """
    if everywhere(scope):
        return await call.operations.everywhere.clients(
            match, listener, user, state, limit, sort, cursor
        )
    return await call.operations.clients(
        match, listener, user, state, limit=limit, sort=sort, cursor=cursor
    )


@endpoint("GET", "/clients/top", resource="clients")
async def clients_top(
    call: Call,
    by: Annotated[str, Query("What they have most of.", choices=CLIENT_SORTS[1:])] = (
        "messages_in_per_s"
    ),
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 10,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> ClientPage:
    """Show the clients with the highest rates, or the longest queues."""
    if everywhere(scope):
        return await call.operations.everywhere.clients_top(by, limit)
    return await call.operations.clients_top(by, limit)


@endpoint("GET", "/client", resource="clients")
async def client(
    call: Call,
    client_id: Annotated[str, Query("The client id.", shortest=1)],
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> ClientDetail:
    """Show one client: connection, session, subscriptions, rates, what it was denied last."""
    if everywhere(scope):
        return await call.operations.everywhere.client(client_id)
    return call.operations.client(client_id)


@endpoint("POST", "/client/disconnect", resource="clients")
async def client_disconnect(
    call: Call,
    client_id: Annotated[str, Body("The client id.", shortest=1)],
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> Kicked:
    """Close the connection of a client.

    MQTT 5.0 clients are told so (0x98). A session that outlives its connection stays, and the
    client may connect again.
    """
    if everywhere(scope):
        return await call.operations.everywhere.kick(client_id)
    return call.operations.kick(client_id)


@endpoint("DELETE", "/client/session", resource="clients")
async def client_session_delete(
    call: Call,
    client_id: Annotated[str, Query("The client id.", shortest=1)],
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> Kicked:
    """Delete the session of a client: its subscriptions and all messages that wait for it.

    If it is connected, that ends before.
    """
    if everywhere(scope):
        return await call.operations.everywhere.kick(client_id, True)
    return call.operations.kick(client_id, True)


@endpoint("POST", "/client/subscribe", resource="clients")
async def client_subscribe(
    call: Call,
    client_id: Annotated[str, Body("The client id.", shortest=1)],
    filter: Annotated[
        str, Body("The topic filter, as the client would write it.", shortest=1, pattern=FILTER)
    ],
    qos: Annotated[int, Body("The highest QoS.", low=0, high=2)] = 0,
    no_local: Annotated[bool, Body("Without the messages of the client itself.")] = False,
    retain_as_published: Annotated[bool, Body("Messages keep their retain flag.")] = False,
    retain_handling: Annotated[
        int,
        Body(
            "Retained messages: 0 are sent, 1 only if the subscription is new, 2 are not sent.",
            low=0,
            high=2,
        ),
    ] = 0,
    identifier: Annotated[
        int, Body("The Subscription Identifier; 0: none.", low=0, high=268_435_455)
    ] = 0,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> Subscribed:
    """Subscribe on behalf of a client.

    It is checked as a SUBSCRIBE of the client would be: by its own rights and limits. The answer
    comes when the subscription is durable and known to all nodes.
    """
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.client_subscribe(
        client_id, filter, qos, no_local, retain_as_published, retain_handling, identifier
    )


@endpoint("POST", "/client/unsubscribe", resource="clients")
async def client_unsubscribe(
    call: Call,
    client_id: Annotated[str, Body("The client id.", shortest=1)],
    filter: Annotated[str, Body("The topic filter, as the client wrote it.", shortest=1)],
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> Unsubscribed:
    """Take a subscription from a client, which is not told of it."""
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.client_unsubscribe(client_id, filter)
