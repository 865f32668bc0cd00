"""Who is connected, as a list of all nodes: each client once.

Each node gives the clients whose sessions it has, and of these only those count that the tables
place there: an older session of a client that is elsewhere by now is not shown.  The clients of a
node that does not answer are those that its table had last; who they are is known where presence is
published (`mhub.presence`).
"""

from collections.abc import Callable, Coroutine
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from mhub.core.hub import Hub
from mhub.core.peer import Peer
from mhub.core.scan import HERE, PASSED, Selection
from mhub.operations import cursors
from mhub.operations.cluster_results import HeldPage, Presence, PresencePage
from mhub.operations.contract import BadArgument
from mhub.operations.merging import Order, Source, merge
from mhub.operations.nodes import Nodes
from mhub.operations.places import place_of
from mhub.operations.slices import Slices
from mhub.operations.walk import glob_of

SORT: Final = "client_id"
STATES: Final = ("", "connected", "offline")
Known = Callable[[str], Presence | None]

PORTION: Final = 500
"""Client ids that are looked at between two looks at the clock."""


async def page(
    nodes: Nodes,
    hub: Hub,
    slices: Slices,
    silent: set[str],
    match: str,
    state: str,
    limit: int,
    cursor: str,
    known: Known,
) -> tuple[PresencePage, set[str]]:
    """A page, if no node has failed that is not among the silent ones; and the nodes that have."""
    cursors.check_limit(limit)
    if state not in STATES:
        raise BadArgument(f"state: expected one of {', '.join(STATES[1:])}")
    wanted: dict[str, Any] = {"match": match, "state": state}
    missing = []

    def source(node: str) -> Source:
        peer = hub.peers.peers.get(node) if hub.peers is not None else None
        if peer is not None and (node in silent or not peer.up):
            missing.append(node)
            return Source(
                node,
                lambda behind, most: of_table(hub, peer, match, state, behind, most, slices, known),
                lambda found: tuple(found.clients),
                lambda each: (0.0, each.client_id),
                cursor,
                False,
            )

        def fetch(behind: str, most: int) -> Coroutine[Any, Any, Any]:
            return nodes.ask(node, "held_page", {**wanted, "cursor": behind, "limit": most})

        return Source(
            node,
            fetch,
            lambda found: tuple(_placed(hub, peer, found)),
            lambda each: (0.0, each.client_id),
            cursor,
            peer is None,
        )

    sources = [source(node) for node in nodes.names()]
    merged = await merge(sources, Order(False, True), limit, slices)
    following = ""
    if merged.has_more and merged.last is not None:
        following = cursors.write(SORT, *merged.last)
    failed = {each.node for each in sources if each.failed}
    return PresencePage(tuple(merged.items), following, tuple(missing)), failed


def _placed(hub: Hub, peer: Peer | None, found: HeldPage) -> list[Presence]:
    """Those of a node's clients that are at this node, as far as is known here."""
    placed = []
    for each in found.clients:
        place = place_of(hub, each.presence.client_id)
        if place is None or place.peer is peer:
            placed.append(each.presence)
    return placed


async def of_table(
    hub: Hub,
    peer: Peer,
    match: str,
    state: str,
    cursor: str,
    limit: int,
    slices: Slices,
    known: Known,
) -> PresencePage:
    """The clients of a node that does not answer."""
    glob = glob_of(match)
    selection = Selection(limit, False, True)
    if cursor:
        selection.begin_after(*cursors.read(cursor, SORT))
    client_ids = iter(list(peer.clients))
    while portion := list(islice(client_ids, PORTION)):
        for client_id in portion:
            where = selection.place_of(client_id)
            if where == PASSED or (glob and not glob.fits(client_id)):
                continue
            place = place_of(hub, client_id)
            if place is None or place.peer is not peer:
                continue
            if not state or state == _state(peer, place.value):
                if where == HERE:
                    selection.keep(0.0, client_id)
                else:
                    selection.fit += 1
        await slices.pause_if_due()
    first = [name for _, name in selection.first()]
    found = tuple(
        _last_known(peer, name, value, known(name))
        for name in first
        if (value := peer.clients.get(name, 0))
    )
    has_more = selection.fit > len(first)
    return PresencePage(found, cursors.write(SORT, 0.0, first[-1]) if has_more and first else "")


def _last_known(peer: Peer, name: str, value: int, known: Presence | None) -> Presence:
    state = _state(peer, value)
    node_state = "up" if peer.up else "down"
    if known is None or known.node != peer.name:
        return Presence(name, state, peer.name, node_state, None, None, None, None, None)
    if known.state == state:
        return replace(known, node_state=node_state)
    # Nothing was said yet of what has happened since: not for how long it is so, either.
    return replace(known, state=state, node_state=node_state, version=None, since=None)


def _state(peer: Peer, value: int) -> str:
    return "connected" if peer.up and value & 1 else "offline"
