"""How much passes for each client and each topic: counts, and moving rates made of them.

Connections count their messages themselves, topics have a TopicTraffic, which their routes know: a
message costs two additions each.  Rates are made by a walk in the hub's ticks that goes through all
connections and topics once in INTERVAL_S, a portion at a time, so they cost a message nothing.

Topics are counted where a message is published, not where other nodes pass it on: the numbers of
all nodes can be added up.  There are as many of them as the cache of routes has room for.  One
without a message for IDLE_S is forgotten, together with its route.  While there is no room, those
are that had no message since the last walk; a topic that is new then is not counted before it has
found room.  Topics that no route is cached for, as they are too long, are never counted.
"""

from math import exp
from typing import TYPE_CHECKING, Final

from mhub.core.slots import NOWHERE, Slots

if TYPE_CHECKING:
    from mhub.core.connection import Connection
    from mhub.core.hub import Hub

INTERVAL_S: Final = 5.0
"""How long a walk through all clients and topics takes; longer, if there are more than 100,000."""

SMOOTHING_S: Final = 10.0
"""After so long without a message, a rate has gone down to a third."""

IDLE_S: Final = 600.0
"""A topic that nothing was published to for so long is forgotten."""

SHORTEST_S: Final = 1.0
"""Over less than this, no rate is measured."""

PORTION: Final = 5_000
"""Connections and topics that are looked at in one tick, at most: a millisecond or two."""

FORGOTTEN: Final = 500
"""Topics that are forgotten in one tick, at most: half a millisecond."""


def moved(per_s: float, more: int, elapsed_s: float, weight: float) -> float:
    """A moving rate, after so many more in so long; `weight`: what these count, of 1.

    Whole thousandths: what is shown is exactly what lists are sorted by, and ends at 0.
    """
    return (per_s + (more / elapsed_s - per_s) * weight) * 1000.0 // 1.0 / 1000.0


class ClientRates:
    """Of a connection that has published or received something."""

    def __init__(self, since: float) -> None:
        self.at = since  # when it was measured last,
        self.is_first = True
        self.seen_messages_in = 0  # and what the counters were then
        self.seen_bytes_in = 0
        self.seen_messages_out = 0
        self.seen_bytes_out = 0
        self.messages_in = 0.0  # per second
        self.bytes_in = 0.0
        self.messages_out = 0.0
        self.bytes_out = 0.0

    def update(self, connection: "Connection", now: float) -> None:
        elapsed_s = now - self.at
        if elapsed_s < SHORTEST_S:
            return
        weight = 1.0 if self.is_first else 1.0 - exp(-elapsed_s / SMOOTHING_S)
        more = connection.messages_in - self.seen_messages_in
        if more or self.messages_in or self.bytes_in:
            self.messages_in = moved(self.messages_in, more, elapsed_s, weight)
            more_bytes = connection.bytes_in - self.seen_bytes_in
            self.bytes_in = moved(self.bytes_in, more_bytes, elapsed_s, weight)
        more = connection.messages_out - self.seen_messages_out
        if more or self.messages_out or self.bytes_out:
            self.messages_out = moved(self.messages_out, more, elapsed_s, weight)
            more_bytes = connection.bytes_out - self.seen_bytes_out
            self.bytes_out = moved(self.bytes_out, more_bytes, elapsed_s, weight)
        self.at = now
        self.is_first = False
        self.seen_messages_in = connection.messages_in
        self.seen_bytes_in = connection.bytes_in
        self.seen_messages_out = connection.messages_out
        self.seen_bytes_out = connection.bytes_out


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


class Walk:
    """Makes rates of counts, a portion with each tick."""

    def __init__(self, hub: "Hub", now: float) -> None:
        self._hub = hub
        self._ticked_at = now
        self._next_client = 0
        self._next_topic = 0

    def tick(self, now: float) -> None:
        elapsed_s = now - self._ticked_at
        if elapsed_s <= 0.0:
            return
        self._ticked_at = now
        part = elapsed_s / INTERVAL_S
        if part > 1.0:
            part = 1.0
        self._clients(part, now)
        self._topics(part, now)

    def _clients(self, part: float, now: float) -> None:
        sessions = self._hub.slots.items
        start = self._next_client
        if start >= len(sessions):
            start = 0
        end = start + _portion(len(sessions), part)
        self._next_client = end
        for session in sessions[start:end]:
            if session is None:
                continue
            connection = session.connection
            if connection is None:
                continue
            rates = connection.rates
            if rates is None:
                if not connection.messages_in and not connection.messages_out:
                    continue
                rates = connection.rates = ClientRates(connection.connected_at)
            rates.update(connection, now)

    def _topics(self, part: float, now: float) -> None:
        router = self._hub.router
        topics = router.topics
        topics.now = now
        items = topics.slots.items
        start = self._next_topic
        if start >= len(items):
            start = 0
            if topics.turned_away and len(topics.known) < topics.most:
                topics.turned_away = 0
                router.forget_all()  # so that those without room are searched again
        end = start + _portion(len(items), part)
        index = start
        forgotten = 0
        for traffic in items[start:end]:
            index += 1
            if traffic is None:
                continue
            traffic.update(now)
            if topics.is_idle(traffic, now):
                topics.forget(traffic)
                router.forget_topic(traffic.topic, traffic.topic_data)
                forgotten += 1
                if forgotten >= FORGOTTEN:
                    break
        self._next_topic = index


def _portion(count: int, part: float) -> int:
    found = int(count * part) + 1
    return min(found, count, PORTION)
