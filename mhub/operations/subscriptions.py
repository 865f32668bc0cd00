"""All subscriptions, shared groups, and who would get a message: as results."""

from dataclasses import dataclass
from typing import Final

from mhub.core.delivery import Subscription
from mhub.core.hub import Hub
from mhub.core.scan import ANY, SEPARATOR, SubscriptionScan, TopicMatch
from mhub.core.shared import Group
from mhub.core.tally import GroupScan, ReceiverScan, Tally
from mhub.operations import cursors
from mhub.operations.contract import (
    BadArgument,
    GroupMember,
    GroupPage,
    GroupSummary,
    RoutePage,
    RouteTarget,
    SubscriptionEntry,
    SubscriptionPage,
)
from mhub.operations.cursors import MOST_TEXT
from mhub.operations.slices import Slices
from mhub.operations.walk import RESULTS, glob_of, walk
from mhub.wire.errors import ProtocolFault
from mhub.wire.topics import SHARE, check_name

SORTS: Final = ("filter", "client_id")
MOST_MEMBERS: Final = 20
"""Members of a group that are listed with it; a page of subscriptions has all of them."""

MOST_FILTERS: Final = 10
"""Filters of one client that are listed for a topic."""

MOST_GROUPS: Final = 100
"""Groups that are listed for a topic."""

STATES: Final = {"": ANY, "shared": 1, "plain": 0}


@dataclass(frozen=True)
class Wanted:
    """Which subscriptions; all of what is given has to fit."""

    match: str = ""  # a pattern with * and ? for the filter in full
    client_id: str = ""
    topic: str = ""  # those whose filter matches this topic
    group: str = ""  # the name of a shared group
    kind: str = ""  # "shared" or "plain"

    def apply(self, scan: SubscriptionScan, hub: Hub) -> None:
        if self.kind not in STATES:
            raise BadArgument("kind: expected one of shared, plain")
        scan.glob = glob_of(self.match)
        scan.client_id = self.client_id
        scan.group = self.group
        scan.shared = STATES[self.kind]
        if self.topic:
            scan.topic = TopicMatch(checked_topic(self.topic, hub))


def checked_topic(topic: str, hub: Hub) -> str:
    """Raises BadArgument if no message can have this topic."""
    try:
        check_name(topic, hub.router.max_levels)
    except ProtocolFault as fault:
        raise BadArgument(f"topic: {fault.text}") from None
    return topic


async def page(
    hub: Hub, wanted: Wanted, cursor: str, limit: int, sort: str, slices: Slices, node: str
) -> SubscriptionPage:
    cursors.check_limit(limit)
    field, descending = cursors.direction(sort, SORTS)
    by_client = field == 1
    scan = SubscriptionScan(hub, by_client, descending, limit)
    wanted.apply(scan, hub)
    if cursor:
        scan.selection.begin_after(*cursors.read(cursor, sort))
    await walk(scan, slices)
    found: list[SubscriptionEntry] = []
    names = [name for _, name in scan.selection.first()]
    await slices.pause_if_due()
    last = ""
    room = MOST_TEXT
    for index, name in enumerate(names):
        room -= 2 * len(name)
        if room < 0 and found:
            names = names[:index]
            break
        first, second, group = name.split(SEPARATOR)
        client_id, topic_filter = (first, second) if by_client else (second, first)
        entry = _entry(hub, client_id, topic_filter, group, node)
        if entry is not None:
            found.append(entry)
        last = name
        if index % RESULTS == RESULTS - 1:
            await slices.pause_if_due()
    left = max(0, scan.selection.fit - len(names))
    return SubscriptionPage(
        tuple(found),
        left,
        hub.router.subscriptions,
        cursors.write(sort, 0.0, last) if left and last else "",
    )


def _entry(
    hub: Hub, client_id: str, topic_filter: str, group: str, node: str
) -> SubscriptionEntry | None:
    """None: it is gone by now."""
    session = hub.sessions.get(client_id)
    if session is None:
        return None
    name = topic_filter if session.namespace is None else session.namespace.unmounted(topic_filter)
    if group:
        name = f"{SHARE}{group}/{name}"
    each = session.subscriptions.get(name)
    if each is None:
        return None
    return SubscriptionEntry(
        filter=topic_filter,
        client_id=client_id,
        group=group,
        name=name,
        qos=each.qos,
        no_local=each.no_local,
        retain_as_published=each.retain_as_published,
        connected=session.is_connected(),
        node=node,
    )


# Shared groups


async def groups(hub: Hub, cursor: str, limit: int, slices: Slices, node: str) -> GroupPage:
    cursors.check_limit(limit)
    scan = GroupScan(hub, limit)
    if cursor:
        scan.tallies.begin_after(cursors.read(cursor, "group")[1])
    await walk(scan, slices)
    found: list[GroupSummary] = []
    first = scan.tallies.first()
    await slices.pause_if_due()
    for name, tally in first:
        share, topic_filter = name.split(SEPARATOR)
        leaf = hub.router.filters.leaf(topic_filter)
        group = None if leaf is None or leaf.groups is None else leaf.groups.get(share)
        if group is not None:
            found.append(_group(group, tally.count, tally.live, node))
        await slices.pause_if_due()
    more = scan.tallies.has_more and first
    return GroupPage(tuple(found), cursors.write("group", 0.0, first[-1][0]) if more else "")


def _group(group: Group, members: int, connected: int, node: str) -> GroupSummary:
    return GroupSummary(
        group=group.name,
        filter=group.topic_filter,
        members=members,
        connected=connected,
        first_members=tuple(
            GroupMember(each.session.client_id, each.qos, each.session.is_connected())
            for each in group.members[:MOST_MEMBERS]
        ),
        nodes={peer.name: value >> 2 for peer, value in (group.peers or {}).items()},
        node=node,
    )


# Who would get a message


async def routes(
    hub: Hub, topic: str, cursor: str, limit: int, slices: Slices, node: str
) -> RoutePage:
    cursors.check_limit(limit)
    scan = ReceiverScan(hub, checked_topic(topic, hub), limit)
    if cursor:
        scan.tallies.begin_after(cursors.read(cursor, "client_id")[1])
    await walk(scan, slices)
    found: list[RouteTarget] = []
    first = scan.tallies.first()
    await slices.pause_if_due()
    for index, (client_id, tally) in enumerate(first):
        if client_id in hub.sessions:
            found.append(_target(hub, topic, client_id, tally, node))
        if index % RESULTS == RESULTS - 1:
            await slices.pause_if_due()
    shared: dict[str, Group] = {}
    peers: set[str] = set()
    for leaf in hub.router.filters.search(topic):
        peers.update(peer.name for peer in leaf.peers or ())
        for group in (leaf.groups or {}).values():
            shared[group.full_name] = group
    groups = []
    for _, group in sorted(shared.items())[:MOST_GROUPS]:
        members = list(group.members)
        connected = sum(1 for each in members if each.session.is_connected())
        groups.append(_group(group, len(members), connected, node))
        await slices.pause_if_due()
    more = scan.tallies.has_more and first
    return RoutePage(
        topic,
        tuple(found),
        tuple(groups),
        tuple(sorted(peers)),
        cursors.write("client_id", 0.0, first[-1][0]) if more else "",
    )


def _target(hub: Hub, topic: str, client_id: str, tally: Tally, node: str) -> RouteTarget:
    subscriptions = tally.subscriptions or []
    allowed = [each for each in subscriptions if _is_allowed(hub, topic, each)]
    counted = allowed or subscriptions
    return RouteTarget(
        client_id=client_id,
        qos=max(each.qos for each in counted),
        filters=tuple(sorted(each.topic_filter for each in counted)[:MOST_FILTERS]),
        connected=hub.sessions[client_id].is_connected(),
        allowed=bool(allowed),
        node=node,
    )


def _is_allowed(hub: Hub, topic: str, subscription: Subscription) -> bool:
    """As the router asks when it makes a route; nothing is told to anybody."""
    authorizer = hub.authorizer
    if authorizer is None:
        return True
    session = subscription.session
    if session.granted != hub.rights and authorizer.subscribe(
        session.principal, subscription.topic_filter, subscription.qos, subscription.share
    ):
        return False
    return authorizer.receive(session.principal, topic)
