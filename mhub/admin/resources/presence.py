"""Who is connected."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.operations.cluster_results import PresencePage

SCOPE = "Of all nodes of the cluster, or of the node that is asked alone."


@endpoint("GET", "/presence", resource="clients")
async def presence(
    call: Call,
    match: Annotated[str, Query("A pattern with * and ? for the client id.", longest=256)] = "",
    state: Annotated[str, Query("In which state.", choices=("connected", "offline"))] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=1000)] = 100,
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    scope: Annotated[str, Query(SCOPE, choices=("cluster", "node"))] = "cluster",
) -> PresencePage:
    """List who is connected since when and from where.

    Each client of the cluster once, by client id, with those that are offline and have a session.
    `missing` names nodes that have not answered: of their clients, it is shown what was known last.
    The same is there as retained messages, see `[presence]`.
    """
    operations = call.operations
    ask = operations.everywhere.presence if scope == "cluster" else operations.presence
    return await ask(match, state, limit, cursor)
