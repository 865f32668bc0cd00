"""What happened lately."""

from typing import Annotated

from mhub.admin.endpoint import Call, Query, endpoint
from mhub.admin.resources.parts import some_of
from mhub.core.events import KINDS
from mhub.operations.activity import MOST, MOST_DENIALS, DenialList, EventPage


@endpoint("GET", "/events", resource="stats")
async def events(
    call: Call,
    after: Annotated[
        int, Query("Only those behind this sequence number; 0: the last ones.", low=0)
    ] = 0,
    kinds: Annotated[
        str,
        Query(
            "Only of these kinds, with commas in between, as `denied,dropped`.",
            longest=500,
            pattern=some_of(KINDS),
        ),
    ] = "",
    client_id: Annotated[str, Query("A pattern with * and ? for the client id.", longest=256)] = "",
    user: Annotated[str, Query("The user, proved or claimed.")] = "",
    address: Annotated[str, Query("What the address begins with.", longest=100)] = "",
    listener: Annotated[str, Query("The listener.", longest=256)] = "",
    node: Annotated[str, Query("The other node that it is about.", longest=256)] = "",
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST)] = 100,
) -> EventPage:
    """Show recent events of this node, oldest first.

    To continue, give `next` as `after`. `lost` is how many behind `after` are not kept any more.
    After a restart the sequence numbers begin with 1 again.
    """
    wanted = tuple(kind.strip() for kind in kinds.split(",") if kind.strip())
    return call.operations.events(after, wanted, client_id, user, address, listener, node, limit)


@endpoint("GET", "/denials", resource="stats")
async def denials(
    call: Call,
    limit: Annotated[int, Query("How many at most.", low=1, high=MOST_DENIALS)] = 100,
) -> DenialList:
    """Show what was denied lately, the last one first.

    Denials of the same client, user, action, topic and rule are one entry. Of a burst only the
    first denial is known by its topic; those that follow are counted with it.
    """
    return call.operations.denials(limit)
