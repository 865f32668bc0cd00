"""Topic -> who gets it.

Searching the filters costs a few microseconds, so what was found is kept as a `Route` in a bounded
cache, keyed by the topic's bytes as they stand in a PUBLISH: a cached topic is neither decoded nor
checked again.  A new or removed subscription drops exactly the routes that it matches, found
through a tree of the cached topics; a storm of subscribers does not empty the cache.
"""

from typing import TYPE_CHECKING, Final

from mhub.core.filters import Filters, Leaf
from mhub.core.shared import Group
from mhub.core.stats import Stats
from mhub.core.tree import TopicTree
from mhub.wire.primitives import text_of
from mhub.wire.publish import topic_field
from mhub.wire.topics import check_name, has_wildcard

if TYPE_CHECKING:
    from mhub.core.session import Session, Subscription

SYS: Final = "$SYS/"

CACHED_BYTES: Final = 256
CACHED_LEVELS: Final = 16
"""Longer and deeper topics are looked up each time, so that nobody fills the memory with them."""


def reserved(topic: str) -> bool:
    """Whether a topic is the broker's own: clients may not publish there."""
    return topic.startswith(SYS)


class Route:
    """A topic and its subscribers: each session once, shared groups apart."""

    def __init__(self, topic: str, topic_data: bytes) -> None:
        self.topic = topic
        self.topic_field = topic_field(topic_data)
        self.reserved = reserved(topic)
        self.targets: list[Subscription] = []
        self.groups: list[Group] = []


class Router:
    def __init__(self, stats: Stats, cache_size: int, max_levels: int) -> None:
        self.stats = stats
        self.cache_size = cache_size
        self.max_levels = max_levels
        self.filters = Filters()
        self.cache: dict[bytes, Route] = {}
        self.cached: TopicTree[bytes] = TopicTree()
        self.subscriptions = 0
        self.shared_subscriptions = 0

    def find(self, topic_data: bytes) -> Route:
        """The route of a topic; ProtocolFault if it is no valid topic name."""
        route = self.cache.get(topic_data)
        return route if route is not None else self._search(topic_data)

    def _search(self, topic_data: bytes) -> Route:
        topic = text_of(topic_data)
        check_name(topic, self.max_levels)
        self.stats.route_cache_misses += 1
        route = Route(topic, topic_data)
        leaves = self.filters.search(topic)
        if len(leaves) == 1:
            route.targets = list(leaves[0].subscriptions.values())
        elif leaves:
            route.targets = _merge(leaves)
        for leaf in leaves:
            if leaf.groups is not None:
                route.groups.extend(leaf.groups.values())
        if self.cache_size and len(topic_data) <= CACHED_BYTES and topic.count("/") < CACHED_LEVELS:
            if len(self.cache) >= self.cache_size:
                self.cache = {}
                self.cached.clear()
            self.cache[topic_data] = route
            self.cached.put(topic, topic_data)
        return route

    def add(self, subscription: "Subscription") -> None:
        leaf = self.filters.make(subscription.topic_filter)
        if subscription.share:
            if leaf.groups is None:
                leaf.groups = {}
            group = leaf.groups.get(subscription.share)
            if group is None:
                group = Group(subscription.share, subscription.topic_filter)
                leaf.groups[subscription.share] = group
            before = len(group.members)
            group.join(subscription)
            subscription.group = group
            self.shared_subscriptions += len(group.members) - before
            self.subscriptions += len(group.members) - before
        else:
            if subscription.session not in leaf.subscriptions:
                self.subscriptions += 1
            leaf.subscriptions[subscription.session] = subscription
        self._forget(subscription.topic_filter)

    def remove(self, subscription: "Subscription") -> None:
        leaf = self.filters.leaf(subscription.topic_filter)
        if leaf is None:
            return
        self.subscriptions -= 1
        group = subscription.group
        if group is None:
            leaf.subscriptions.pop(subscription.session, None)
        else:
            self.shared_subscriptions -= 1
            group.leave(subscription.session)
            if not group.members and leaf.groups is not None:
                leaf.groups.pop(group.name, None)
        if leaf.empty():
            self.filters.prune(subscription.topic_filter)
        self._forget(subscription.topic_filter)

    def _forget(self, topic_filter: str) -> None:
        """Drop the cached routes that a change of this filter's subscribers makes wrong."""
        if not self.cache:
            return
        if not has_wildcard(topic_filter):
            topic_data = topic_filter.encode("utf-8")
            if self.cache.pop(topic_data, None) is not None:
                self.cached.remove(topic_filter)
            return
        for topic_data in self.cached.match(topic_filter):
            self.cached.remove(self.cache.pop(topic_data).topic)


def _merge(leaves: list[Leaf]) -> "list[Subscription]":
    """Overlapping subscriptions of one session become one delivery [MQTT-3.3.4-2, -3, -4]."""
    merged: dict[Session, Subscription] = {}
    for leaf in leaves:
        for session, subscription in leaf.subscriptions.items():
            other = merged.get(session)
            merged[session] = subscription if other is None else other.overlapping(subscription)
    return list(merged.values())
