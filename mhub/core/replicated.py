"""A map that all nodes of a cluster have: the newest value of each topic wins, a deletion is one.

    newer()       whether a value comes after what is known of its topic
    tombstones    what was deleted, and when; without them an older value would come back
    digests       for each bucket of topics one number over all that is there, by which two nodes
                  see where they differ

Retained messages (`mhub.core.retained`) and the registry (`mhub.core.registry`) are such maps, and
`mhub.cluster.fill` compares both.  They differ in where values are, and in how long a tombstone
lasts.  A value is a `Publish`: its topic is the key, `hlc` its version, a tombstone has no payload.
"""

from typing import Final
from zlib import crc32

from mhub.wire.publish import Publish

BUCKETS: Final = 256
ODD: Final = 0x9E3779B97F4A7C15
MASK: Final = (1 << 56) - 1


class ReplicatedMap:
    def __init__(self) -> None:
        self.tombstones: dict[str, Publish] = {}
        self.digests: list[int] | None = None  # None: there is no cluster

    def value_of(self, topic: str) -> Publish | None:
        """What is there, if it was not deleted."""
        raise NotImplementedError

    def values(self) -> list[Publish]:
        """All that is there and was not deleted."""
        raise NotImplementedError

    def digest_of(self, message: Publish) -> int:
        """What a message contributes to its bucket."""
        return (message.hlc * ODD + crc32(message.topic_data)) & MASK

    def newer(self, message: Publish) -> bool:
        """Whether a message comes after what is known of its topic."""
        known = self.value_of(message.topic)
        if known is None:
            known = self.tombstones.get(message.topic)
        if known is None or message.hlc > known.hlc:
            return True
        return message.hlc == known.hlc and message.payload > known.payload

    def known(self) -> list[Publish]:
        """All that the cluster has to agree on: values, and what was deleted."""
        return [m for m in self.values() if m.hlc] + list(self.tombstones.values())

    def last_hlc(self) -> int:
        return max([message.hlc for message in self.known()], default=0)

    def recall_tombstone(self, tombstone: Publish) -> None:
        """What was deleted, as the store remembers it."""
        self.tombstones[tombstone.topic] = tombstone
        self._count(tombstone)

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
            digests[bucket_of(message.topic_data)] ^= self.digest_of(message)


def bucket_of(topic_data: bytes) -> int:
    return crc32(topic_data) % BUCKETS
