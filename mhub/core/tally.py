"""Searches that add things up by name: levels of topics, shared groups, the receivers of a topic.

As in `mhub.core.scan`, a page is the first N names behind a cursor, and all slots are walked
through in portions.  A name that is behind the first N so far is forgotten, and does not come back,
so what is told of the names that are left is complete.
"""

from typing import TYPE_CHECKING

from mhub.core.scan import SEPARATOR, TopicMatch
from mhub.core.slots import NOWHERE
from mhub.wire.topics import SYS, reserved

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
        # First topics that are counted, if these are wanted, then retained messages.
        self._counted = hub.router.topics.slots.items
        self._topics = hub.router.topics.slots.names if with_topics else hub.retained.slots.names
        self._retained = hub.retained.slots.names
        self._with_topics = with_topics
        self._index = 0
        self._prefix = prefix
        self._found_topic = False  # whether the level that _level() has found is a topic itself
        self.tallies = Tallies(limit)
        self.with_reserved = prefix.startswith(SYS)

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._topics))
        self._index = end
        if self._with_topics:
            self._step_topics(start, end)
        else:
            self._step_retained(start, end)
        if end < len(self._topics):
            return True
        if not self._with_topics:
            return False
        self._with_topics = False
        self._topics = self._retained
        self._index = 0
        return True

    def _step_topics(self, start: int, end: int) -> None:
        for index, topic in enumerate(self._topics[start:end]):
            tally = self._level(topic)
            if tally is None:
                continue
            each = self._counted[start + index]
            if each is not None and each.messages:
                tally.count += 1
                tally.messages_per_s += each.messages_per_s
                tally.bytes_per_s += each.bytes_per_s
                if self._found_topic:
                    tally.is_topic = True

    def _step_retained(self, start: int, end: int) -> None:
        for topic in self._topics[start:end]:
            tally = self._level(topic)
            if tally is not None:
                tally.retained += 1
                if self._found_topic:
                    tally.is_topic = True
                    tally.is_retained = True

    def _level(self, topic: str) -> Tally | None:
        prefix = self._prefix
        if not topic:
            return None
        if prefix:
            if not topic.startswith(prefix):
                return None
        elif not self.with_reserved and reserved(topic):
            return None
        start = len(prefix)
        end = topic.find("/", start)
        self._found_topic = end < 0
        return self.tallies.get(topic[start:] if end < 0 else topic[start:end])


class GroupScan:
    """Shared groups, by name and filter."""

    def __init__(self, hub: "Hub", limit: int) -> None:
        self._items = hub.router.slots.items
        self._index = 0
        self.tallies = Tallies(limit)

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._items))
        self._index = end
        for each in self._items[start:end]:
            if each is None or not each.share or each.session.hub_slot == NOWHERE:
                continue
            tally = self.tallies.get(each.share + SEPARATOR + each.topic_filter)
            if tally is not None:
                tally.count += 1
                if each.session.is_connected():
                    tally.live += 1
        return end < len(self._items)


class ReceiverScan:
    """The clients whose subscriptions match a topic, without those of shared groups."""

    def __init__(self, hub: "Hub", topic: str, limit: int) -> None:
        self._items = hub.router.slots.items
        self._filters = hub.router.slots.names
        self._index = 0
        self._topic = TopicMatch(topic)
        self.tallies = Tallies(limit)

    def step(self, most: int) -> bool:
        start = self._index
        end = min(start + most, len(self._items))
        self._index = end
        for index, topic_filter in enumerate(self._filters[start:end]):
            if not topic_filter or not self._topic.fits(topic_filter):
                continue
            each = self._items[start + index]
            if each is None or each.share or each.session.hub_slot == NOWHERE:
                continue
            tally = self.tallies.get(each.session.client_id)
            if tally is not None:
                tally.count += 1
                if tally.subscriptions is None:
                    tally.subscriptions = []
                tally.subscriptions.append(each)
        return end < len(self._items)
