"""The nodes of the cluster, and the links between them."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from typing import Annotated

from mhub.admin.endpoint import LINES, Call, Query, endpoint
from mhub.admin.progress import progress_lines
from mhub.admin.resources.scope import SCOPE, SCOPES, everywhere
from mhub.operations.cluster_results import ClusterTotals, ClusterView, Forgotten
from mhub.operations.contract import BadArgument, Say
from mhub.operations.loss import own_view


@dataclass(frozen=True)
class Left:
    node: str
    sessions: int  # that were handed over
    clients: int  # that were sent elsewhere
    left: int  # sessions that could not be handed over: they stay in the store of the node


@endpoint("GET", "/cluster", resource="cluster")
async def cluster(
    call: Call, scope: Annotated[str, Query(SCOPE, choices=SCOPES)] = "cluster"
) -> ClusterView:
    """Show the cluster.

    The members as the node that is asked sees them, all links with their latency and queues, and
    what the loss of each node would mean. `missing` names nodes that have not answered. With the
    scope `node` no other one is asked: there are its own links alone, and no losses.
    """
    operations = call.operations
    if everywhere(scope):
        return await operations.everywhere.cluster()
    return own_view(await operations.cluster_report())


@endpoint("GET", "/cluster/totals", resource="stats")
async def cluster_totals(call: Call) -> ClusterTotals:
    """Show the numbers of all nodes, and their sums.

    What all nodes have, as retained messages, counts once. Without a cluster it is the broker's own
    status. `missing` names nodes that have not answered: they are not in the sums.
    """
    return await call.operations.everywhere.totals()


@endpoint("POST", "/cluster/leave", resource="cluster", stream=LINES)
async def cluster_leave(
    call: Call,
    node: Annotated[
        str, Query("The name of this node, so that no other one leaves by mistake.", shortest=1)
    ],
) -> AsyncGenerator[bytes, None]:
    """Take a node out of the cluster for good.

    Its clients are sent elsewhere and its sessions handed over, for a minute at most; then it
    stops. The answer is lines of JSON: any number of `{"progress": TEXT}`, and at the end
    `{"result": {"node": …, "sessions": …, "clients": …, "left": …}}`: how many sessions were handed
    over, how many clients were sent elsewhere, and how many sessions could not be handed over and
    stay in the store of the node. The node leaves also if the caller goes.
    """
    operations = call.operations
    here = operations.cluster_status()["node"]
    if node != here:
        raise BadArgument(f"node: this is node {here}; ask {node} itself, which has to stop")

    async def leave(say: Say) -> Left:
        done = await operations.cluster_leave(say)
        return Left(node, *(_number(done[each]) for each in ("sessions", "clients", "left")))

    async with aclosing(progress_lines(leave)) as lines:
        async for line in lines:
            yield line


@endpoint("POST", "/cluster/forget", resource="cluster")
async def cluster_forget(
    call: Call,
    node: Annotated[
        str, Query("A node that is gone and will not come back.", longest=256, shortest=1)
    ],
) -> Forgotten:
    """Forget a node, at all nodes that can be reached.

    What they keep for it is dropped, and sessions that only it had are given up. One that is linked
    cannot be forgotten: let it leave, or stop it first.
    """
    return await call.operations.everywhere.cluster_forget(node)


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
