"""Topic -> who gets it.

Searching the filters costs a few microseconds, so what was found is kept as a `Route` in a bounded
cache, keyed by the topic's bytes as they stand in a PUBLISH: a cached topic is neither decoded nor
checked again.  A new or removed subscription drops exactly the routes that it matches, found
through a tree of the cached topics; a storm of subscribers does not empty the cache, unless their
filters have to be compared with so many topics that searching anew costs less.
"""

from typing import TYPE_CHECKING, Final

from mhub.core.authorization import Authorizer
from mhub.core.filters import Filters, Leaf
from mhub.core.shared import Group, RemoteNode
from mhub.core.slots import NOWHERE, Slots
from mhub.core.stats import Stats
from mhub.core.topic_traffic import UNCOUNTED, Topics
from mhub.core.tree import TopicTree
from mhub.wire.primitives import text_of
from mhub.wire.publish import topic_field
from mhub.wire.topics import check_name, has_wildcard, matches, reserved

if TYPE_CHECKING:
    from mhub.core.delivery import Subscriber, Subscription
    from mhub.core.table import Table
    from mhub.core.tracing import TopicTap

CACHED_BYTES: Final = 256
CACHED_LEVELS: Final = 16
"""Longer and deeper topics are looked up each time, so that nobody fills the memory with them."""

LOOKS: Final = 5
FREE_LOOKS: Final = 16
"""A new or removed filter may look at so many nodes of the tree of cached topics.  Beyond, searches
pay for the looks, each one for LOOKS of them: a look takes some 50 ns, a search some microseconds,
and when they are used up the cache costs more than it saves."""


class Route:
    """A topic and its subscribers: each session once, shared groups apart."""

    def __init__(self, topic: str, topic_data: bytes) -> None:
        self.topic = topic
        self.topic_field = topic_field(topic_data)
        self.reserved = reserved(topic)
        self.targets: list[Subscription] = []
        self.groups: list[Group] = []
        self.peers: list[RemoteNode] | None = None  # other nodes that want it
        self.denied: set[Subscription] | None = None  # members of `groups` that may not get it
        self.is_wanted = False  # somebody has subscribed to it, here or elsewhere
        self.traffic = UNCOUNTED


class Router:
    def __init__(
        self,
        stats: Stats,
        cache_size: int,
        max_levels: int,
        max_patterns: int = 0,
        now: float = 0.0,
    ) -> None:
        self.stats = stats
        self.cache_size = cache_size
        self.max_levels = max_levels
        self.max_patterns = max_patterns  # of filters with many levels; 0: any number
        self.filters = Filters()
        self.cache: dict[bytes, Route] = {}
        self.cached: TopicTree[bytes] = TopicTree()
        self.looks = 0  # how many nodes of it may be looked at before it is not worth having
        self.topics = Topics(cache_size, now)
        self.slots: Slots[Subscription] = Slots()  # of all sessions, for who walks through them
        self.owners: list[str] = []  # the client ids, for each slot
        self.subscriptions = 0
        self.shared_subscriptions = 0
        self.table: Table | None = None  # where it is written what is subscribed here
        self.authorizer: Authorizer | None = None
        self.rights = 0  # their revision
        self.taps: list[TopicTap] = []  # who looks on at topics, unknown to their publishers

    def find(self, topic_data: bytes) -> Route:
        """The route of a topic; ProtocolFault if it is no valid topic name."""
        route = self.cache.get(topic_data)
        return route if route is not None else self._search(topic_data)

    def find_once(self, topic_data: bytes) -> Route:
        """The same for a topic that is seldom published to: it takes no place in the cache."""
        route = self.cache.get(topic_data)
        return route if route is not None else self._make_route(topic_data)

    def _search(self, topic_data: bytes) -> Route:
        route = self._make_route(topic_data)
        topic = route.topic
        if self.cache_size and len(topic_data) <= CACHED_BYTES and topic.count("/") < CACHED_LEVELS:
            if len(self.cache) >= self.cache_size:
                self.forget_all()
            self.cache[topic_data] = route
            route.traffic = self.topics.get(topic, topic_data)
            self.cached.put(topic, topic_data)
            self.looks += LOOKS
        return route

    def _make_route(self, topic_data: bytes) -> Route:
        topic = text_of(topic_data)
        check_name(topic, self.max_levels)
        self.stats.route_cache_misses += 1
        route = Route(topic, topic_data)
        leaves = self.filters.search(topic)
        authorizer = self.authorizer
        if authorizer is not None:
            self._restrict(route, leaves, authorizer)
        elif len(leaves) == 1:
            route.targets = list(leaves[0].subscriptions.values())
        elif leaves:
            route.targets = _merge(leaves)
        for leaf in leaves:
            if leaf.groups is not None:
                route.groups.extend(leaf.groups.values())
            if leaf.peers is not None and not route.reserved:
                if route.peers is None:
                    route.peers = list(leaf.peers)
                else:
                    route.peers += [peer for peer in leaf.peers if peer not in route.peers]
        if authorizer is not None and route.groups:
            self._restrict_groups(route, authorizer)
        route.is_wanted = bool(route.targets) or bool(route.groups) or route.peers is not None
        for tap in self.taps:
            if matches(tap.topic_filter, topic):
                route.targets.append(tap.subscription)
        return route

    def _restrict(self, route: Route, leaves: list[Leaf], authorizer: Authorizer) -> None:
        """Only those who may receive the topic, by what they may subscribe to."""
        topic = route.topic
        merged: dict[Subscriber, Subscription] = {}
        refused: set[Subscriber] = set()
        for leaf in leaves:
            for session, subscription in leaf.subscriptions.items():
                if session in refused or not self._is_granted(subscription, authorizer):
                    continue
                other = merged.get(session)
                if other is not None:
                    if not other.covers(subscription):
                        merged[session] = other.overlapping(subscription)
                elif authorizer.receive(session.principal, topic):
                    merged[session] = subscription
                else:
                    refused.add(session)
        route.targets = list(merged.values())
        for session in refused:
            session.tell_denied_receive(topic)

    def _restrict_groups(self, route: Route, authorizer: Authorizer) -> None:
        """It is not known here whose turn it will be, so those are listed who may not."""
        denied: set[Subscription] = set()
        for group in route.groups:
            for member in group.members:
                if not self._is_granted(member, authorizer):
                    denied.add(member)
                elif not authorizer.receive(member.session.principal, route.topic):
                    denied.add(member)
                    member.session.tell_denied_receive(route.topic)
        if denied:
            route.denied = denied

    def _is_granted(self, subscription: "Subscription", authorizer: Authorizer) -> bool:
        """Whether its session may have it: asked, if the rights have changed and it was not."""
        session = subscription.session
        if session.granted == self.rights:
            return True
        return not authorizer.subscribe(
            session.principal, subscription.topic_filter, subscription.qos, subscription.share
        )

    def refuses(self, topic_filter: str) -> bool:
        """Whether a new filter would make searches too long.

        This is for new subscriptions only: those of stored sessions and of other nodes were
        admitted once.
        """
        most = self.max_patterns
        filters = self.filters
        return most != 0 and len(filters.patterns) >= most and filters.adds_pattern(topic_filter)

    def add(self, subscription: "Subscription") -> None:
        leaf = self.filters.make(subscription.topic_filter)
        if subscription.share:
            if leaf.groups is None:
                leaf.groups = {}
            group = leaf.groups.get(subscription.share)
            if group is None:
                group = Group(subscription.share, subscription.topic_filter)
                leaf.groups[subscription.share] = group
            old = group.join(subscription)
            subscription.group = group
            if old is None:
                self.shared_subscriptions += 1
                self.subscriptions += 1
        else:
            old = leaf.subscriptions.get(subscription.session)
            if old is None:
                self.subscriptions += 1
            elif old.lasting:
                leaf.lasting -= 1
            if subscription.lasting:
                leaf.lasting += 1
            leaf.subscriptions[subscription.session] = subscription
        self._place(subscription, old)
        self._forget(subscription.topic_filter)
        self._announce(subscription.topic_filter, leaf, subscription.group)

    def remove(self, subscription: "Subscription") -> None:
        if subscription.slot != NOWHERE:
            self.slots.remove(subscription.slot)
            subscription.slot = NOWHERE
        leaf = self.filters.leaf(subscription.topic_filter)
        if leaf is None:
            return
        self.subscriptions -= 1
        group = subscription.group
        if group is None:
            if leaf.subscriptions.pop(subscription.session, None) is not None:
                leaf.lasting -= 1 if subscription.lasting else 0
        else:
            self.shared_subscriptions -= 1
            group.leave(subscription.session)
            if not group.members and group.peers is None and leaf.groups is not None:
                leaf.groups.pop(group.name, None)
        if leaf.empty():
            self.filters.prune(subscription.topic_filter)
        self._forget(subscription.topic_filter)
        self._announce(subscription.topic_filter, leaf, group)

    def _place(self, subscription: "Subscription", old: "Subscription | None") -> None:
        """A slot, which is that of the one before if it takes its place."""
        if old is subscription:
            return
        if old is None or old.slot == NOWHERE:
            slot = self.slots.add(subscription, subscription.topic_filter)
            subscription.slot = slot
            if slot == len(self.owners):
                self.owners.append("")
            self.owners[slot] = subscription.session.client_id
        else:
            subscription.slot = old.slot
            old.slot = NOWHERE
            self.slots.replace(subscription.slot, subscription)

    # Other nodes

    def lasts(self, subscriptions: "dict[str, Subscription]", outlives: bool) -> None:
        """A session may outlive its connection now, or may not any more."""
        for subscription in subscriptions.values():
            lasting = subscription.qos > 0 and outlives
            if lasting != subscription.lasting:
                leaf = self.filters.make(subscription.topic_filter)
                if subscription.group is None:
                    leaf.lasting += 1 if lasting else -1
                subscription.lasting = lasting
                self._announce(subscription.topic_filter, leaf, subscription.group)

    def _announce(self, topic_filter: str, leaf: Leaf, group: Group | None) -> None:
        if self.table is None:
            return
        if group is None:
            self.table.interest(topic_filter, leaf)
        else:
            self.table.group_changed(group)

    def route_to_peer(self, topic_filter: str, peer: RemoteNode, wanted: bool) -> None:
        """A peer has subscribers to a filter, or has none any more."""
        leaf = self.filters.make(topic_filter)
        peers = leaf.peers if leaf.peers is not None else []
        if wanted == (peer in peers):
            if leaf.empty():
                self.filters.prune(topic_filter)
            return
        if wanted:
            leaf.peers = [*peers, peer]
        else:
            rest = [other for other in peers if other is not peer]
            leaf.peers = rest if rest else None
        if leaf.empty():
            self.filters.prune(topic_filter)
        self._forget(topic_filter)

    def share_with_peer(self, share: str, topic_filter: str, peer: RemoteNode, value: int) -> None:
        """A peer has members of a group, or has none any more."""
        leaf = self.filters.make(topic_filter)
        groups = leaf.groups if leaf.groups is not None else {}
        group = groups.get(share)
        if value:
            if group is None:
                group = Group(share, topic_filter)
                groups[share] = group
                leaf.groups = groups
                self._forget(topic_filter)
            if group.peers is None:
                group.peers = {}
            group.peers[peer] = value
        elif group is not None and group.peers is not None:
            group.peers.pop(peer, None)
            if not group.peers:
                group.peers = None
                if not group.members:
                    del groups[share]
                    self._forget(topic_filter)
        if leaf.empty():
            self.filters.prune(topic_filter)

    def watch(self, tap: "TopicTap") -> None:
        """Let it see the messages of its topics: the routes that are built from now on have it, so
        that those of other topics, and all of them while nobody looks on, cost nothing."""
        self.taps.append(tap)
        self._forget(tap.topic_filter)

    def unwatch(self, tap: "TopicTap") -> None:
        if tap in self.taps:
            self.taps.remove(tap)
            self._forget(tap.topic_filter)

    def forget(self, subscriptions: "dict[str, Subscription]") -> None:
        """Of a session that may receive other topics than before."""
        for subscription in subscriptions.values():
            self._forget(subscription.topic_filter)

    def forget_topic(self, topic: str, topic_data: bytes) -> None:
        if self.cache.pop(topic_data, None) is not None:
            self.cached.remove(topic)

    def forget_all(self) -> None:
        self.cache = {}
        self.cached.clear()
        self.looks = 0

    def _forget(self, topic_filter: str) -> None:
        """Drop the cached routes that a change of this filter's subscribers makes wrong."""
        if not self.cache:
            return
        if not has_wildcard(topic_filter):
            topic_data = topic_filter.encode("utf-8")
            if self.cache.pop(topic_data, None) is not None:
                self.cached.remove(topic_filter)
            return
        found = self.cached.match(topic_filter)
        if self.cached.visited > FREE_LOOKS:
            self.looks = min(self.looks, LOOKS * self.cache_size) - self.cached.visited
        if self.looks < 0 or len(found) == len(self.cache):
            self.forget_all()
            return
        for topic_data in found:
            self.cached.remove(self.cache.pop(topic_data).topic)


def _merge(leaves: list[Leaf]) -> "list[Subscription]":
    """Overlapping subscriptions of one session become one delivery [MQTT-3.3.4-2, -3, -4]."""
    merged: dict[Subscriber, Subscription] = {}
    for leaf in leaves:
        for session, subscription in leaf.subscriptions.items():
            other = merged.get(session)
            if other is None:
                merged[session] = subscription
            elif not other.covers(subscription):
                merged[session] = other.overlapping(subscription)
    return list(merged.values())
