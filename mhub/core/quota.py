"""Limits of a user or a role, in the place of those of the listener.

Whoever knows users and roles (`mhub.access.quota`) makes a Quota, and gives it by the hub's port
`quota_of`.  Users with the same limits may share one.  What it is on top of a listener's limits is
made once for each listener, so that a client costs no Limits of its own.
"""

from dataclasses import replace
from typing import Final

from mhub.core.limits import Limits

NAMES: Final = (
    "message_size_limit",
    "max_subscriptions",
    "max_inflight_bytes",
    "max_queued_messages",
    "max_queued_bytes",
    "rate_burst_s",
    "max_messages_per_s",
    "over_messages_per_s",
    "max_bytes_per_s",
    "over_bytes_per_s",
    "max_messages_out_per_s",
    "over_messages_out_per_s",
    "max_user_messages_per_s",
    "over_user_messages_per_s",
    "max_user_bytes_per_s",
    "over_user_bytes_per_s",
    "max_user_connections",
    "max_user_sessions",
    "max_user_subscriptions",
    "max_user_retained_messages",
    "max_topic_length",
    "max_topic_levels",
)
"""The limits that a user or a role may have: those that one client or one user reaches, and that
can be changed while it is connected.  Those of a tenant or a listener are for all of its users."""


class Quota:
    def __init__(self, values: dict[str, int | float | str]) -> None:
        self.values = values  # by the names of Limits, those of NAMES
        self._merged: list[tuple[Limits, Limits]] = []

    def on_top_of(self, limits: Limits) -> Limits:
        """The limits of a listener, with these in their place."""
        for known, merged in self._merged:
            if known is limits:
                return merged
        merged = replace(limits, **self.values)  # type: ignore[arg-type]
        self._merged.append((limits, merged))
        return merged
