"""Retained messages: the last one of each topic, within bounds."""

from mhub.core.stats import Stats
from mhub.core.tree import TopicTree
from mhub.wire.publish import Publish
from mhub.wire.topics import has_wildcard


class Retained:
    def __init__(self, stats: Stats, max_messages: int, max_bytes: int) -> None:
        self.stats = stats
        self.max_messages = max_messages  # 0: any number
        self.max_bytes = max_bytes  # 0: any number
        self.size_bytes = 0
        self.tree: TopicTree[Publish] = TopicTree()
        self.expiring: dict[str, Publish] = {}

    def __len__(self) -> int:
        return self.tree.size

    def store(self, message: Publish) -> None:
        """Keep a message in the place of its topic's earlier one; an empty one only erases."""
        old = self.tree.get(message.topic)
        if not message.payload:  # [MQTT-3.3.1-6, MQTT-3.3.1-7]
            if old is not None:
                self.discard(old)
            return
        grows = _size(message) - (_size(old) if old is not None else 0)
        if (self.max_bytes and self.size_bytes + grows > self.max_bytes) or (
            old is None and self.max_messages and self.tree.size >= self.max_messages
        ):
            # The topic's earlier message is out of date in any case [MQTT-3.3.1-5].
            self.stats.dropped_retained_full += 1
            if old is not None:
                self.discard(old)
            return
        if old is not None and old.expires_at:
            self.expiring.pop(old.topic, None)
        self.tree.put(message.topic, message)
        self.size_bytes += grows
        if message.expires_at:
            self.expiring[message.topic] = message

    def discard(self, message: Publish) -> None:
        self.tree.remove(message.topic)
        self.size_bytes -= _size(message)
        if message.expires_at:
            self.expiring.pop(message.topic, None)

    def match(self, topic_filter: str, now: float) -> list[Publish]:
        if has_wildcard(topic_filter):
            found = self.tree.match(topic_filter)
        else:
            one = self.tree.get(topic_filter)
            found = [one] if one is not None else []
            self.tree.visited = 10
        if self.expiring:
            found = [m for m in found if not m.expires_at or m.expires_at > now]
        return found

    def effort(self) -> int:
        """What the last match() cost, in deliveries: a node of the tree takes a tenth of one."""
        return self.tree.visited // 10

    def sweep(self, now: float) -> list[str]:
        """Forget what has expired; the topics."""
        expired = [m for m in self.expiring.values() if m.expires_at <= now]
        for message in expired:
            self.discard(message)
        self.stats.dropped_expired += len(expired)
        return [message.topic for message in expired]


def _size(message: Publish) -> int:
    """What a message takes, with the tree's nodes for its levels."""
    levels = message.topic.count("/") + 1
    return len(message.payload) + len(message.topic_data) + len(message.properties) + 300 * levels
