"""Searches that add things up by name: levels of topics, shared groups, the receivers of a topic.

As in `mhub.core.scan`, a page is the first N names behind a cursor, and all slots are walked
through in portions.  A name that is behind the first N so far is forgotten, and does not come back,
so what is told of the names that are left is complete.
"""

from typing import TYPE_CHECKING

from mhub.core.scan import SEPARATOR, TopicMatch
from mhub.core.slots import NOWHERE
from mhub.wire.topics import reserved

if TYPE_CHECKING:
    from mhub.core.delivery import Subscription
    from mhub.core.hub import Hub


class Tally:
    """What is added up for one name."""

    def __init__(self) -> None:
        self.count = 0
        self.retained = 0
        self.live = 0
        self.is_topic = False  # and not only a part of others
        self.is_retained = False
        self.messages_per_s = 0.0
        self.bytes_per_s = 0.0
        self.subscriptions: list[Subscription] | None = None


class Tallies:
    """The first names, with their tallies."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._has_after = False
        self._after = ""
        self._is_full = False
        self._last = ""
        self.known: dict[str, Tally] = {}
        self.has_more = False  # there are names behind the first ones

    def begin_after(self, name: str) -> None:
        self._has_after = True
        self._after = name

    def get(self, name: str) -> Tally | None:
        """The tally of a name; None: it is not on this page."""
        found = self.known.get(name)
        if found is not None:
            return found
        if self._has_after and name <= self._after:
            return None
        if self._is_full and name > self._last:
            self.has_more = True
            return None
        found = self.known[name] = Tally()
        if len(self.known) >= 2 * self._limit:
            self._cut()
            return self.known.get(name)
        return found

    def _cut(self) -> None:
        names = sorted(self.known)
        if len(names) <= self._limit:
            return
        for name in names[self._limit :]:
            del self.known[name]
        self._last = names[self._limit - 1]
        self._is_full = True
        self.has_more = True

    def first(self) -> list[tuple[str, Tally]]:
        self._cut()
        return [(name, self.known[name]) for name in sorted(self.known)]


class LevelScan:
    """The next level of the topics below a prefix, which is empty or ends with a slash."""

    def __init__(self, hub: "Hub", prefix: str, limit: int, with_topics: bool) -> None:
        # Retained messages come second: a walk goes through both.
        self._topics = hub.router.topics.slots.items
        self._retained = hub.retained.slots.items
        self._with_topics = with_topics
        self._index = 0
        self._now = hub.now
        self._prefix = prefix
        self._length = 0  # of the prefix with the level that _level() has found
        self.tallies = Tallies(limit)
        self.with_reserved = prefix.startswith("$SYS/")

    def step(self, most: int) -> bool:
        if self._with_topics:
            self._step_topics(most)
        else:
            self._step_retained(most)
        if self._with_topics and self._index >= len(self._topics):
            self._with_topics = False
            self._index = 0
            return True
        return self._with_topics or self._index < len(self._retained)

    def _step_topics(self, most: int) -> None:
        end = min(self._index + most, len(self._topics))
        for index in range(self._index, end):
            each = self._topics[index]
            if each is None or not each.messages:
                continue
            tally = self._level(each.topic)
            if tally is not None:
                tally.count += 1
                tally.messages_per_s += each.messages_per_s
                tally.bytes_per_s += each.bytes_per_s
        self._index = end

    def _step_retained(self, most: int) -> None:
        end = min(self._index + most, len(self._retained))
        for index in range(self._index, end):
            each = self._retained[index]
            if each is None or (each.expires_at and each.expires_at <= self._now):
                continue
            tally = self._level(each.topic)
            if tally is not None:
                tally.retained += 1
                if len(each.topic) == self._length:
                    tally.is_retained = True
        self._index = end

    def _level(self, topic: str) -> Tally | None:
        prefix = self._prefix
        if prefix:
            if not topic.startswith(prefix):
                return None
        elif not self.with_reserved and reserved(topic):
            return None
        start = len(prefix)
        end = topic.find("/", start)
        is_topic = end < 0
        if is_topic:
            end = len(topic)
        self._length = end
        tally = self.tallies.get(topic[start:end])
        if tally is not None and is_topic:
            tally.is_topic = True
        return tally


class GroupScan:
    """Shared groups, by name and filter."""

    def __init__(self, hub: "Hub", limit: int) -> None:
        self._items = hub.router.slots.items
        self._index = 0
        self.tallies = Tallies(limit)

    def step(self, most: int) -> bool:
        items = self._items
        end = min(self._index + most, len(items))
        for index in range(self._index, end):
            each = items[index]
            if each is None or not each.share or each.session.hub_slot == NOWHERE:
                continue
            tally = self.tallies.get(each.share + SEPARATOR + each.topic_filter)
            if tally is not None:
                tally.count += 1
                if each.session.is_connected():
                    tally.live += 1
        self._index = end
        return end < len(items)


class ReceiverScan:
    """The clients whose subscriptions match a topic, without those of shared groups."""

    def __init__(self, hub: "Hub", topic: str, limit: int) -> None:
        self._items = hub.router.slots.items
        self._index = 0
        self._topic = TopicMatch(topic)
        self.tallies = Tallies(limit)
        self.groups: dict[str, Subscription] = {}  # one member of each that matches

    def step(self, most: int) -> bool:
        items = self._items
        end = min(self._index + most, len(items))
        for index in range(self._index, end):
            each = items[index]
            if each is None or each.session.hub_slot == NOWHERE:
                continue
            if not self._topic.fits(each.topic_filter):
                continue
            if each.share:
                self.groups[each.share + SEPARATOR + each.topic_filter] = each
                continue
            tally = self.tallies.get(each.session.client_id)
            if tally is not None:
                tally.count += 1
                if tally.subscriptions is None:
                    tally.subscriptions = []
                tally.subscriptions.append(each)
        self._index = end
        return end < len(items)
