"""How much passes for each client: moving rates made of counts, for topics as well.

Connections count their messages themselves, topics have a TopicTraffic (`mhub.core.topic_traffic`).
Rates are made by a walk in the hub's ticks that goes through all connections and topics once in
INTERVAL_S, a portion at a time, so they cost a message nothing.
"""

from math import exp
from typing import TYPE_CHECKING, Final

from mhub.core.topic_traffic import INTERVAL_S, SHORTEST_S, SMOOTHING_S, moved

if TYPE_CHECKING:
    from mhub.core.connection import Connection
    from mhub.core.hub import Hub

PORTION: Final = 5_000
"""Connections and topics that are looked at in one tick, at most: a millisecond or two."""

FORGOTTEN: Final = 500
"""Topics that are forgotten in one tick, at most: half a millisecond."""


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
