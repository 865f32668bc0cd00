"""Topics by what is published to them."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.admin.resources.scope import SCOPE, SCOPES, everywhere
from mhub.operations.contract import TopicLevels, TopicTop
from mhub.operations.cursors import MOST
from mhub.operations.topics import TOP_SORTS


@endpoint("GET", "/topics/top", resource="stats")
async def topics_top(
    call: Call,
    by: Annotated[str, Query("What they have most of.", choices=TOP_SORTS)] = "messages_per_s",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 10,
    sys: Annotated[bool, Query("With the broker's own topics, under `$SYS`.")] = False,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> TopicTop:
    """Show the topics that most is published to.

    As many topics are counted as `limits.route_cache_size` allows; one that nothing is published to
    for ten minutes is forgotten, or sooner if there is no room. Longer and deeper topics than the
    cache takes are not counted.
    """
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.topics_top(by, limit, sys)


@endpoint("GET", "/topics/tree", resource="stats")
async def topics_tree(
    call: Call,
    prefix: Annotated[str, Query("The level above, as `prefix` of it says; empty: the top.")] = "",
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
    sys: Annotated[bool, Query("With the broker's own topics, under `$SYS`.")] = False,
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> TopicLevels:
    """Show one level of the tree of topics: those that were published to, or have a message."""
    operations = call.operations.everywhere if everywhere(scope) else call.operations
    return await operations.topics_tree(prefix, limit, cursor, sys)
