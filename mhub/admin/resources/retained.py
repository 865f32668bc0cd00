"""Retained messages.  All nodes of a cluster have the same."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.operations.contract import RetainedDeleted, RetainedLevels, RetainedMessage, RetainedPage
from mhub.operations.cursors import MOST
from mhub.operations.retained import MOST_PREVIEW, PREVIEW


@endpoint("GET", "/retained", resource="retained")
async def retained(
    call: Call,
    filter: Annotated[str, Query("An MQTT topic filter.")] = "",
    match: Annotated[str, Query("A pattern with * and ? for the topic.", longest=256)] = "",
    sys: Annotated[bool, Query("With the broker's own, under `$SYS`.")] = False,
    sort: Annotated[
        str, Query("Ascending, or with - before it descending.", choices=("topic", "-topic"))
    ] = "topic",
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
) -> RetainedPage:
    """Search retained messages by topic."""
    return await call.operations.retained(filter, match, sys, limit, sort, cursor)


@endpoint("GET", "/retained/tree", resource="retained")
async def retained_tree(
    call: Call,
    prefix: Annotated[str, Query("The level above, as `prefix` of it says; empty: the top.")] = "",
    sys: Annotated[bool, Query("With the broker's own, under `$SYS`.")] = False,
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
) -> RetainedLevels:
    """Show one level of the tree of retained messages."""
    return await call.operations.retained_tree(prefix, limit, cursor, sys)


@endpoint("GET", "/retained/message", resource="retained")
async def retained_message(
    call: Call,
    topic: Annotated[str, Query("The topic.", shortest=1)],
    most_bytes: Annotated[
        int, Query("How much of the payload is shown.", low=0, high=MOST_PREVIEW)
    ] = PREVIEW,
) -> RetainedMessage:
    """Read a retained message.

    The payload is base64, and also text if it is UTF-8.
    """
    return call.operations.retained_message(topic, most_bytes)


@endpoint("DELETE", "/retained/message", resource="retained")
async def retained_delete(
    call: Call,
    topic: Annotated[str, Query("The topic.", shortest=1)],
) -> RetainedDeleted:
    """Delete a retained message.

    As a client does it: by an empty message, which subscribers get. The answer comes when it is
    durable and known to all nodes.
    """
    return await call.operations.retained_delete(topic)
