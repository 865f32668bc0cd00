"""The operations of all nodes of a cluster, asked at one of them.

    lists       each node gives its part, and they are merged in their order (`merging`)
    one client  done by the node that has its session, as the tables say (`places`)
    numbers     of each node, and their sums

Each item says at which node it is.  `missing` names the nodes that are not in an answer: those that
are down, are of an older release, or have not answered in time.  Without a cluster all of this is
the same as the operation of this broker.

What is the same on all nodes, as retained messages and the registry, is not here.
"""

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Final, cast

from mhub.core.hub import Hub
from mhub.core.scan import CLIENT_SORTS, SEPARATOR
from mhub.operations import cursors, loss, present, sums
from mhub.operations.cluster_results import (
    ClusterTotals,
    ClusterView,
    Forgotten,
    NodeReport,
    NodeStatus,
    PresencePage,
)
from mhub.operations.contract import (
    BadArgument,
    ClientDetail,
    ClientPage,
    GroupPage,
    Kicked,
    NotThere,
    RoutePage,
    Status,
    Subscribed,
    SubscriptionPage,
    Surroundings,
    TopicLevels,
    TopicTop,
    Unsubscribed,
)
from mhub.operations.merging import Key, Merged, Order, Source, merge
from mhub.operations.nodes import COMMAND_S, WITHIN_S, Nodes
from mhub.operations.present import Known
from mhub.operations.slices import Slices

if TYPE_CHECKING:
    from mhub.operations.operations import Operations

FIRST: Final = 100
"""Of a list by rate each node tells at least so many, as a topic may be in the middle of all of
them and be the first in their sum."""


class Everywhere:
    def __init__(
        self,
        operations: "Operations",
        hub: Hub,
        surroundings: Surroundings,
        slices: Callable[[], Slices],
    ) -> None:
        self._operations = operations
        self._hub = hub
        self._slices = slices
        self._nodes = Nodes(operations, hub, surroundings)
        self.known_presence: Known = lambda client_id: None
        """What was said last of a client of another node; with `[presence]` more than nothing."""

    # Lists

    async def _merged(
        self,
        name: str,
        arguments: dict[str, Any],
        items: str,
        key_of: Callable[[Any], Key],
        order: Order,
    ) -> tuple[Merged, list[Source]]:
        """The first items of all nodes; the arguments have `limit` and `cursor`."""
        limit, cursor = arguments["limit"], arguments["cursor"]
        cursors.check_limit(limit)

        def source(node: str) -> Source:
            def fetch(behind: str, most: int) -> Coroutine[Any, Any, Any]:
                return self._nodes.ask(node, name, {**arguments, "cursor": behind, "limit": most})

            def items_of(page: Any) -> tuple[Any, ...]:
                return cast(tuple[Any, ...], getattr(page, items))

            return Source(node, fetch, items_of, key_of, cursor, node == self._nodes.here)

        sources = [source(node) for node in self._nodes.names()]
        return await merge(sources, order, limit, self._slices()), sources

    async def clients(
        self,
        match: str = "",
        listener: str = "",
        user: str = "",
        state: str = "",
        limit: int = cursors.MOST,
        sort: str = "client_id",
        cursor: str = "",
    ) -> ClientPage:
        """As Operations.clients(), of all nodes."""
        index, descending = cursors.direction(sort, CLIENT_SORTS)
        field = CLIENT_SORTS[index]
        merged, sources = await self._merged(
            "clients",
            {
                "match": match,
                "listener": listener,
                "user": user,
                "state": state,
                "limit": limit,
                "sort": sort,
                "cursor": cursor,
            },
            "clients",
            lambda each: (_value(each, field) if index else 0.0, each.client_id),
            Order(descending, index == 0),
        )
        return ClientPage(
            tuple(merged.items),
            _left(sources),
            sum(each.page.sessions for each in sources if each.page is not None),
            _next(merged, sort),
            _missing(sources),
        )

    async def clients_top(self, by: str = "messages_in_per_s", limit: int = 10) -> ClientPage:
        """The clients with the most of something, in the whole cluster."""
        if by not in CLIENT_SORTS[1:]:
            raise BadArgument(f"by: expected one of {', '.join(CLIENT_SORTS[1:])}")
        return await self.clients(sort=f"-{by}", limit=limit)

    async def subscriptions(
        self,
        match: str = "",
        client_id: str = "",
        topic: str = "",
        group: str = "",
        kind: str = "",
        limit: int = cursors.MOST,
        sort: str = "filter",
        cursor: str = "",
    ) -> SubscriptionPage:
        index, descending = cursors.direction(sort, ("filter", "client_id"))

        def key_of(each: Any) -> Key:
            names = [each.filter, each.client_id]
            return 0.0, SEPARATOR.join([*(reversed(names) if index else names), each.group])

        merged, sources = await self._merged(
            "subscriptions",
            {
                "match": match,
                "client_id": client_id,
                "topic": topic,
                "group": group,
                "kind": kind,
                "limit": limit,
                "sort": sort,
                "cursor": cursor,
            },
            "subscriptions",
            key_of,
            Order(descending, True),
        )
        return SubscriptionPage(
            tuple(merged.items),
            _left(sources),
            sum(each.page.total for each in sources if each.page is not None),
            _next(merged, sort),
            _missing(sources),
        )

    async def groups(self, limit: int = cursors.MOST, cursor: str = "") -> GroupPage:
        """Shared groups; one that has members at several nodes is there for each of these."""
        merged, sources = await self._merged(
            "groups",
            {"limit": limit, "cursor": cursor},
            "groups",
            lambda each: (0.0, SEPARATOR.join([each.group, each.filter])),
            Order(False, True),
        )
        return GroupPage(tuple(merged.items), _next(merged, "group"), _missing(sources))

    async def routes(self, topic: str, limit: int = cursors.MOST, cursor: str = "") -> RoutePage:
        """Who would get a message of a topic, at all nodes."""
        merged, sources = await self._merged(
            "routes",
            {"topic": topic, "limit": limit, "cursor": cursor},
            "targets",
            lambda each: (0.0, each.client_id),
            Order(False, True),
        )
        pages = [source.page for source in sources if source.page is not None]
        others = {name for page in pages for name in page.nodes} - {self._nodes.here}
        return RoutePage(
            topic,
            tuple(merged.items),
            tuple(group for page in pages for group in page.groups),
            tuple(sorted(others)),
            _next(merged, "client_id"),
            _missing(sources),
        )

    async def presence(
        self, match: str = "", state: str = "", limit: int = cursors.MOST, cursor: str = ""
    ) -> PresencePage:
        """Who is connected, of all nodes, each client once.

        Of nodes that do not answer, what their tables said last, and what `known_presence` has.
        """
        silent: set[str] = set()
        while True:
            page, failed = await present.page(
                self._nodes,
                self._hub,
                self._slices(),
                silent,
                match,
                state,
                limit,
                cursor,
                self.known_presence,
            )
            if failed <= silent:
                return page
            silent |= failed

    # Topics

    async def topics_top(
        self, by: str = "messages_per_s", limit: int = 10, sys: bool = False
    ) -> TopicTop:
        """The topics that most is published to: the sums of what each node tells of its first."""
        cursors.check_limit(limit)
        most = min(max(4 * limit, FIRST), cursors.MOST)
        pages, missing = await self._nodes.ask_all(
            "topics_top", {"by": by, "limit": most, "sys": sys}
        )
        found = await sums.topics(pages, by, limit, self._slices())
        return TopicTop(
            tuple(found),
            max(page.counted for page in pages.values()),
            max(page.room for page in pages.values()),
            missing,
        )

    async def topics_tree(
        self, prefix: str = "", limit: int = cursors.MOST, cursor: str = "", sys: bool = False
    ) -> TopicLevels:
        """The levels below a prefix: rates are sums, counts the most that a node has."""
        pages, missing = await self._nodes.ask_all(
            "topics_tree", {"prefix": prefix, "limit": limit, "cursor": cursor, "sys": sys}
        )
        levels = await sums.levels(pages, self._slices())
        has_more = len(levels) > limit or any(page.next for page in pages.values())
        # Behind the last level of a node's page there may be more of it, as it may have been cut.
        ends = [page.levels[-1].name for page in pages.values() if page.next and page.levels]
        first = [each for each in levels if not ends or each.name <= min(ends)][:limit]
        following = cursors.write("level", 0.0, first[-1].name) if has_more and first else ""
        return TopicLevels(pages[self._nodes.here].prefix, tuple(first), following, missing)

    # One client

    async def client(self, client_id: str) -> ClientDetail:
        found: ClientDetail = await self._nodes.at_its_node("client", client_id, {}, WITHIN_S)
        return found

    async def kick(self, client_id: str, delete_session: bool = False) -> Kicked:
        """Close a client's connection, wherever it is."""
        arguments = {"delete_session": delete_session}
        found: Kicked = await self._nodes.at_its_node("kick", client_id, arguments, COMMAND_S)
        return found

    async def client_subscribe(
        self,
        client_id: str,
        topic_filter: str,
        qos: int = 0,
        no_local: bool = False,
        retain_as_published: bool = False,
        retain_handling: int = 0,
        identifier: int = 0,
    ) -> Subscribed:
        arguments = {
            "topic_filter": topic_filter,
            "qos": qos,
            "no_local": no_local,
            "retain_as_published": retain_as_published,
            "retain_handling": retain_handling,
            "identifier": identifier,
        }
        found: Subscribed = await self._nodes.at_its_node(
            "client_subscribe", client_id, arguments, COMMAND_S
        )
        return found

    async def client_unsubscribe(self, client_id: str, topic_filter: str) -> Unsubscribed:
        arguments = {"topic_filter": topic_filter}
        found: Unsubscribed = await self._nodes.at_its_node(
            "client_unsubscribe", client_id, arguments, COMMAND_S
        )
        return found

    # The cluster

    async def cluster(self) -> ClusterView:
        """How each node sees the others, and what the loss of each of them would mean."""
        found, missing = await self._nodes.ask_all("cluster_report", {})
        reports: dict[str, NodeReport] = found
        return loss.view(self._nodes.here, reports, missing)

    async def cluster_forget(self, node: str) -> Forgotten:
        """Forget a node at all nodes that can be reached."""
        if node == self._nodes.here or self._is_linked(node):
            self._operations.cluster_forget(node)  # which refuses it, and says why
        found: list[str] = []
        messages = 0
        asked, missing = await self._nodes.ask_all("cluster_forget_here", {"node": node}, COMMAND_S)
        for name, result in asked.items():
            if result is not None:
                found.append(name)
                messages += result
        if not found:
            raise NotThere(f'there is no node "{node}"; `mhub ctl cluster status` lists them')
        return Forgotten(node, tuple(found), messages, tuple(n for n in missing if n != node))

    def _is_linked(self, node: str) -> bool:
        peer = self._hub.peers.peers.get(node) if self._hub.peers is not None else None
        return peer is not None and peer.up

    # Numbers

    async def totals(self) -> ClusterTotals:
        """The status of each node, and the sums of their numbers."""
        found, missing = await self._nodes.ask_all("status", {})
        statuses: dict[str, Status] = found
        return ClusterTotals(
            sums.totals(list(statuses.values())),
            tuple(NodeStatus(node, status) for node, status in statuses.items()),
            missing,
        )


def _value(item: Any, field: str) -> float:
    """As the node that has sorted it sees it: what is not there is 0."""
    found = getattr(item, field)
    return 0.0 if found is None else float(found)


def _left(sources: list[Source]) -> int:
    return sum(source.left() for source in sources)


def _missing(sources: list[Source]) -> tuple[str, ...]:
    return tuple(source.node for source in sources if source.failed)


def _next(merged: Merged, sort: str) -> str:
    if not merged.has_more or merged.last is None:
        return ""
    return cursors.write(sort, *merged.last)
