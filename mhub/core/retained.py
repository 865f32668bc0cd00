"""Retained messages: the last one of each topic, within bounds.

The bounds are for what clients publish: the broker's own messages under $SYS do not count.
"""

from mhub.core.accounts import Accounts
from mhub.core.replicated import ReplicatedMap
from mhub.core.slots import NOWHERE, Slots
from mhub.core.stats import Stats
from mhub.core.tree import TopicTree
from mhub.wire.publish import Publish
from mhub.wire.topics import has_wildcard, reserved


class Retained(ReplicatedMap):
    def __init__(self, stats: Stats, max_messages: int, max_bytes: int) -> None:
        super().__init__()
        self.stats = stats
        self.max_messages = max_messages  # 0: any number
        self.max_bytes = max_bytes  # 0: any number
        self.size_bytes = 0
        self.own = 0  # messages in the tree that are the broker's own, and count for no bound
        self.accounts: Accounts | None = None  # where it is counted whose they are
        self.refused = False  # the last message that was to be stored was not, for a bound
        self.tree: TopicTree[Publish] = TopicTree()
        self.slots: Slots[Publish] = Slots()  # the same ones, for who walks through all of them
        self.kept_at: list[float] = []  # since when, for each slot; 0: before this process began
        self.expiring: dict[str, Publish] = {}
        self.tombstone_s = 86_400.0  # how long it is remembered in a cluster what was erased

    def __len__(self) -> int:
        return self.tree.size

    def store(self, message: Publish, now: float = 0.0) -> None:
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
            message.owner = old.owner  # it counts for whoever made the first one of its topic
        elif message.owner and self.accounts is not None:
            self.accounts.add_retained(message.owner, 1)
        if old is not None:
            self._count(old)
            if old.expires_at:
                self.expiring.pop(old.topic, None)
        self._drop_tombstone(message.topic)
        self.tree.put(message.topic, message)
        self._place(message, old, now)
        self._count(message)
        if message.expires_at:
            self.expiring[message.topic] = message

    def _place(self, message: Publish, old: Publish | None, now: float) -> None:
        if old is not None:
            message.slot = old.slot
            old.slot = NOWHERE
            self.slots.replace(message.slot, message)
        else:
            message.slot = self.slots.add(message, message.topic)
            if message.slot == len(self.kept_at):
                self.kept_at.append(now)
        self.kept_at[message.slot] = now

    def _is_full(self, message: Publish, old: Publish | None) -> bool:
        """Whether a bound would be passed."""
        most = self.max_messages
        if most and old is None and self.tree.size - self.own >= most:
            return True
        grows = _size(message) - (_size(old) if old is not None else 0)
        return self.max_bytes != 0 and self.size_bytes + grows > self.max_bytes

    def discard(self, message: Publish) -> None:
        self.tree.remove(message.topic)
        self.slots.remove(message.slot)
        message.slot = NOWHERE
        if message.owner and self.accounts is not None:
            self.accounts.add_retained(message.owner, -1)
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

    def value_of(self, topic: str) -> Publish | None:
        return self.tree.get(topic)

    def values(self) -> list[Publish]:
        return self.tree.values()

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


def _size(message: Publish) -> int:
    """What a message takes, with the tree's nodes for its levels."""
    levels = message.topic.count("/") + 1
    return len(message.payload) + len(message.topic_data) + len(message.properties) + 300 * levels
