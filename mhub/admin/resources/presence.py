"""Who is connected."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.admin.resources.scope import SCOPE, SCOPES, everywhere
from mhub.operations.cluster_results import PresencePage


@endpoint("GET", "/presence", resource="clients")
async def presence(
    call: Call,
    match: Annotated[str, Query("A pattern with * and ? for the client id.", longest=256)] = "",
    state: Annotated[str, Query("In which state.", choices=("connected", "offline"))] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=1000)] = 100,
    cursor: Annotated[str, Query("`next` of the page before.")] = "",
    scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster",
) -> PresencePage:
    """List who is connected since when and from where.

    Each client of the cluster once, by client id, with those that are offline and have a session.
    `missing` names nodes that have not answered: their clients are shown as they were known last,
    and more than their names and states is known of them only with `[presence]`, which also has all
    of this as retained messages.
    """
    operations = call.operations
    ask = operations.everywhere.presence if everywhere(scope) else operations.presence
    return await ask(match, state, limit, cursor)
