"""How much is published to each topic: counts, and moving rates made of them.

The route of a topic knows its TopicTraffic, to which a message costs two additions.  Topics are
counted where a message is published, not where other nodes pass it on: the numbers of all nodes can
be added up.  There are as many of them as the cache of routes has room for.  One without a message
for IDLE_S is forgotten, together with its route.  While there is no room, those are that had no
message since the last walk (`mhub.core.traffic`); a topic that is new then is not counted before it
has found room.  Topics that no route is cached for, as they are too long, are never counted.
"""

from math import exp
from typing import Final

from mhub.core.slots import NOWHERE, Slots

INTERVAL_S: Final = 5.0
"""How long a walk through all clients and topics takes; longer, if there are more than 100,000."""

SMOOTHING_S: Final = 10.0
"""After so long without a message, a rate has gone down to a third."""

IDLE_S: Final = 600.0
"""A topic that nothing was published to for so long is forgotten."""

SHORTEST_S: Final = 1.0
"""Over less than this, no rate is measured."""


def moved(per_s: float, more: int, elapsed_s: float, weight: float) -> float:
    """A moving rate, after so many more in so long; `weight`: what these count, of 1.

    Whole thousandths: what is shown is exactly what lists are sorted by, and ends at 0.
    """
    return (per_s + (more / elapsed_s - per_s) * weight) * 1000.0 // 1.0 / 1000.0


class TopicTraffic:
    """What was published to one topic."""

    def __init__(self, topic: str, topic_data: bytes, now: float) -> None:
        self.topic = topic
        self.topic_data = topic_data
        self.slot = NOWHERE
        self.messages = 0  # since `since`
        self.bytes = 0  # of their payloads
        self.since = now
        self.at = now  # when it was measured last,
        self.seen_messages = 0  # and what the counters were then
        self.seen_bytes = 0
        self.is_first = True
        self.messages_per_s = 0.0
        self.bytes_per_s = 0.0
        self.published_at = now  # about: when a measurement found a new message

    def update(self, now: float) -> None:
        elapsed_s = now - self.at
        if elapsed_s < SHORTEST_S:
            return
        more = self.messages - self.seen_messages
        if more:
            self.published_at = now
        weight = 1.0 if self.is_first else 1.0 - exp(-elapsed_s / SMOOTHING_S)
        if more or self.messages_per_s or self.bytes_per_s:
            self.messages_per_s = moved(self.messages_per_s, more, elapsed_s, weight)
            more_bytes = self.bytes - self.seen_bytes
            self.bytes_per_s = moved(self.bytes_per_s, more_bytes, elapsed_s, weight)
        self.at = now
        self.is_first = False
        self.seen_messages = self.messages
        self.seen_bytes = self.bytes


UNCOUNTED: Final = TopicTraffic("", b"", 0.0)
"""Of all topics that are not counted: nobody looks at it."""


class Topics:
    """The topics that are counted; the router asks for each that it searches subscribers of."""

    def __init__(self, most: int, now: float) -> None:
        self.most = most
        self.now = now
        self.slots: Slots[TopicTraffic] = Slots()
        self.known: dict[bytes, TopicTraffic] = {}
        self.turned_away = 0  # topics that found no room since the last walk

    def get(self, topic: str, topic_data: bytes) -> TopicTraffic:
        found = self.known.get(topic_data)
        if found is not None:
            return found
        if len(self.known) >= self.most:
            self.turned_away += 1
            return UNCOUNTED
        found = TopicTraffic(topic, topic_data, self.now)
        self.known[topic_data] = found
        found.slot = self.slots.add(found, topic)
        return found

    def is_idle(self, traffic: TopicTraffic, now: float) -> bool:
        quiet_s = now - traffic.published_at
        return quiet_s >= IDLE_S or (self.turned_away > 0 and quiet_s >= INTERVAL_S)

    def forget(self, traffic: TopicTraffic) -> None:
        del self.known[traffic.topic_data]
        self.slots.remove(traffic.slot)
        traffic.slot = NOWHERE
