"""What a node has that no other one has, and what its loss would mean."""

from collections.abc import Mapping
from itertools import islice
from typing import Final

from mhub.core.hub import Hub
from mhub.operations.cluster_results import (
    ClusterMember,
    ClusterView,
    Holdings,
    Link,
    NodeLoss,
    NodeReport,
)
from mhub.operations.contract import Surroundings
from mhub.operations.slices import Slices

PORTION: Final = 500
"""Sessions that are looked at between two looks at the clock."""

TAKEN_OVER: Final = "taken over"
KEPT: Final = "kept in its store"
LOST: Final = "lost"
UNKNOWN: Final = "unknown"


async def holdings(hub: Hub, surroundings: Surroundings, slices: Slices) -> Holdings:
    lasting = 0
    sessions = iter(list(hub.sessions.values()))  # which may change before the next slice
    while portion := list(islice(sessions, PORTION)):
        lasting += sum(1 for session in portion if session.expiry_s)
        await slices.pause_if_due()
    return Holdings(
        connected=hub.connected,
        lasting=lasting,
        queued_bytes=hub.queues.size_bytes,
        store=surroundings.store_name,
    )


def view(node: str, reports: Mapping[str, NodeReport], missing: tuple[str, ...]) -> ClusterView:
    """What `node`, which was asked, shows of all."""
    state = reports[node].state
    known = {member.node: member for member in state.members}
    losses = [_loss(name, report, reports) for name, report in sorted(reports.items())]
    losses += [_of_silent(known[name]) for name in missing if name in known]
    return ClusterView(state, tuple(_links(reports)), tuple(losses), missing)


def own_view(report: NodeReport) -> ClusterView:
    """What one node knows by itself; what a loss would mean is not among it."""
    return ClusterView(report.state, tuple(_links({report.state.node: report})), (), ())


def _links(reports: Mapping[str, NodeReport]) -> list[Link]:
    return [
        Link(
            name,
            member.node,
            member.state,
            member.latency_ms,
            member.queued_messages,
            member.queued_bytes,
        )
        for name, report in sorted(reports.items())
        for member in report.state.members
    ]


def _loss(name: str, report: NodeReport, reports: Mapping[str, NodeReport]) -> NodeLoss:
    has = report.holdings
    is_replaced = any(
        member.node == name and member.takeover
        for other, seen in reports.items()
        if other != name
        for member in seen.state.members
    )
    fate = TAKEN_OVER if is_replaced else LOST if has.store == "memory" else KEPT
    text = f"{_count(has.connected, 'client')} would have to connect to another node"
    if has.lasting:
        text += f"; {_count(has.lasting, 'session')} {_FATES[fate]}"
    return NodeLoss(name, True, has.connected, has.lasting, has.queued_bytes, fate, text)


_FATES: Final = {
    TAKEN_OVER: "would be taken over by another node within seconds",
    KEPT: "would be in its store alone: until it is back, their clients get new ones elsewhere, and"
    " what waits for them comes later",
    LOST: "would be lost, with what waits for them: it has no store",
}


def _of_silent(member: ClusterMember) -> NodeLoss:
    """A node that has not answered."""
    were = "was" if member.clients == 1 else "were"
    text = f"it is {member.state}; {_count(member.clients, 'session')} {were} there"
    if member.takeover:
        text += ", which another node takes over if it is gone"
    if member.queued_messages:
        wait = "waits" if member.queued_messages == 1 else "wait"
        text += f"; {_count(member.queued_messages, 'message')} {wait} for it here"
    fate = TAKEN_OVER if member.takeover else UNKNOWN
    return NodeLoss(member.node, False, 0, member.clients, 0, fate, text)


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
