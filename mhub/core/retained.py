"""Retained messages: the last one of each topic, within bounds.

The bounds are for what clients publish: the broker's own messages under $SYS do not count.
"""

from typing import Final
from zlib import crc32

from mhub.core.stats import Stats
from mhub.core.tree import TopicTree
from mhub.wire.publish import Publish
from mhub.wire.topics import has_wildcard, reserved

BUCKETS: Final = 256
ODD: Final = 0x9E3779B97F4A7C15
MASK: Final = (1 << 56) - 1


class Retained:
    def __init__(self, stats: Stats, max_messages: int, max_bytes: int) -> None:
        self.stats = stats
        self.max_messages = max_messages  # 0: any number
        self.max_bytes = max_bytes  # 0: any number
        self.size_bytes = 0
        self.own = 0  # messages in the tree that are the broker's own, and count for no bound
        self.refused = False  # the last message that was to be stored was not, for a bound
        self.tree: TopicTree[Publish] = TopicTree()
        self.expiring: dict[str, Publish] = {}
        # In a cluster: what was erased and when, and for each bucket of topics a digest of what is
        # there, by which two nodes see where they differ.
        self.tombstones: dict[str, Publish] = {}
        self.tombstone_s = 86_400.0
        self.digests: list[int] | None = None

    def __len__(self) -> int:
        return self.tree.size

    def store(self, message: Publish) -> None:
        """Keep a message in the place of its topic's earlier one; an empty one only erases."""
        self.refused = False
        old = self.tree.get(message.topic)
        if not message.payload:  # [MQTT-3.3.1-6, MQTT-3.3.1-7]
            if old is not None:
                self.discard(old)
            return
        if reserved(message.topic):
            if old is None:
                self.own += 1
        elif self._is_full(message, old):
            # The topic's earlier message is out of date in any case [MQTT-3.3.1-5].
            self.stats.dropped_retained_full += 1
            self.refused = True
            if old is not None:
                self.discard(old)
            return
        else:
            self.size_bytes += _size(message) - (_size(old) if old is not None else 0)
        if old is not None:
            self._count(old)
            if old.expires_at:
                self.expiring.pop(old.topic, None)
        self._drop_tombstone(message.topic)
        self.tree.put(message.topic, message)
        self._count(message)
        if message.expires_at:
            self.expiring[message.topic] = message

    def _is_full(self, message: Publish, old: Publish | None) -> bool:
        """Whether a bound would be passed."""
        most = self.max_messages
        if most and old is None and self.tree.size - self.own >= most:
            return True
        grows = _size(message) - (_size(old) if old is not None else 0)
        return self.max_bytes != 0 and self.size_bytes + grows > self.max_bytes

    def discard(self, message: Publish) -> None:
        self.tree.remove(message.topic)
        self._count(message)
        if reserved(message.topic):
            self.own -= 1
        else:
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
        over = [tombstone for tombstone in self.tombstones.values() if tombstone.expires_at <= now]
        for tombstone in over:
            self._drop_tombstone(tombstone.topic)
        return [message.topic for message in expired] + [tombstone.topic for tombstone in over]

    # In a cluster

    def newer(self, message: Publish) -> bool:
        """Whether a message comes after what is known of its topic."""
        known = self.tree.get(message.topic)
        if known is None:
            known = self.tombstones.get(message.topic)
        if known is None or message.hlc > known.hlc:
            return True
        return message.hlc == known.hlc and message.payload > known.payload

    def put_tombstone(self, message: Publish, now: float) -> Publish:
        """Remember that a topic was erased."""
        tombstone = Publish(message.topic_data, b"", 0, True)
        tombstone.topic = message.topic
        tombstone.topic_field = message.topic_field
        tombstone.hlc = message.hlc
        tombstone.expires_at = now + self.tombstone_s
        self._drop_tombstone(tombstone.topic)
        self.tombstones[tombstone.topic] = tombstone
        self._count(tombstone)
        return tombstone

    def recall_tombstone(self, tombstone: Publish) -> None:
        """What was erased, as the store remembers it."""
        self.tombstones[tombstone.topic] = tombstone
        self._count(tombstone)

    def last_hlc(self) -> int:
        return max([message.hlc for message in self.known()], default=0)

    def _drop_tombstone(self, topic: str) -> None:
        tombstone = self.tombstones.pop(topic, None) if self.tombstones else None
        if tombstone is not None:
            self._count(tombstone)

    def count_for_peers(self) -> None:
        """From now on, keep the digests."""
        self.digests = [0] * BUCKETS
        for message in self.known():
            self._count(message)

    def _count(self, message: Publish) -> None:
        """A message into its bucket's digest, or out of it."""
        digests = self.digests
        if digests is not None and message.hlc:
            digests[bucket_of(message.topic_data)] ^= (
                message.hlc * ODD + crc32(message.topic_data)
            ) & MASK

    def known(self) -> list[Publish]:
        """All that the cluster has to agree on: messages, and what was erased."""
        return [m for m in self.tree.values() if m.hlc] + list(self.tombstones.values())


def bucket_of(topic_data: bytes) -> int:
    return crc32(topic_data) % BUCKETS


def _size(message: Publish) -> int:
    """What a message takes, with the tree's nodes for its levels."""
    levels = message.topic.count("/") + 1
    return len(message.payload) + len(message.topic_data) + len(message.properties) + 300 * levels
