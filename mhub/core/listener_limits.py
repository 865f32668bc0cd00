"""What listeners allow now, where a reload has changed it, for the connections that are there.

A connection begins with the limits of its listener at that time.  Of those that replace them it
gets what nobody has promised to its client, LIVE: bounds and rates.  What a CONNACK has told, as
the longest packet or the highest QoS, and what a CONNECT was judged by, holds until the client
connects again.  All connections that began alike get the same object, so that none costs a Limits
of its own.
"""

from dataclasses import replace
from typing import Final

from mhub.core.limits import Limits
from mhub.core.quota import NAMES

LIVE: Final = (
    *NAMES,
    "queue_full",
    "queue_qos0_offline",
    "authentication_timeout_s",
    "max_control_size",
    "max_tenant_messages_per_s",
    "over_tenant_messages_per_s",
    "max_tenant_bytes_per_s",
    "over_tenant_bytes_per_s",
    "max_listener_messages_per_s",
    "over_listener_messages_per_s",
    "max_listener_bytes_per_s",
    "over_listener_bytes_per_s",
    "max_tenant_connections",
    "max_tenant_sessions",
    "max_tenant_subscriptions",
    "max_tenant_retained_messages",
    "max_listener_sessions",
)
"""The limits that a client gets while it is connected."""


class ListenerLimits:
    def __init__(self) -> None:
        self._now: dict[str, Limits] = {}  # by the name of the listener, since a reload
        self._merged: dict[str, list[tuple[Limits, Limits]]] = {}  # what became of earlier ones

    def put(self, listener: str, limits: Limits) -> None:
        """From now on, this is what a listener allows."""
        self._now[listener] = limits
        self._merged[listener] = []

    def of(self, listener: str, begun_with: Limits) -> Limits:
        """What a connection has that began with these, or was given them at the last change."""
        now = self._now.get(listener)
        if now is None or now is begun_with:
            return begun_with
        known = self._merged[listener]
        for before, merged in known:
            if before is begun_with or merged is begun_with:
                return merged
        merged = merge(begun_with, now)
        known.append((begun_with, merged))
        return merged


def merge(begun_with: Limits, now: Limits) -> Limits:
    values: dict[str, object] = {name: getattr(now, name) for name in LIVE}
    return replace(begun_with, **values)  # type: ignore[arg-type]
