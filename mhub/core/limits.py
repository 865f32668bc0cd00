"""What one listener allows its clients: every bound the core enforces, with its default.

The configuration (`mhub.config`) fills one `Limits` for each listener: the `[limits]` table, with
the listener's own values on top.  The core only reads them.  Times are seconds, sizes are bytes,
and 0 means "no limit" wherever the comment says so.
"""

from dataclasses import dataclass
from typing import Final

NEVER: Final = 0xFFFFFFFF
"""The Session Expiry Interval that means "does not expire"."""

DROP_NEWEST: Final = "drop-newest"
DROP_OLDEST: Final = "drop-oldest"
DISCONNECT: Final = "disconnect"
ACKNOWLEDGE: Final = "acknowledge"

# What happens to a client that is faster than it may be.
DELAY: Final = "delay"
DROP: Final = "drop"


@dataclass(frozen=True)
class Limits:
    # Who may come
    versions: tuple[int, ...] = (3, 4, 5)
    allow_anonymous: bool = True
    allow_empty_client_id: bool = True
    client_id_prefix: str = "auto-"
    username_as_client_id: bool = False
    max_client_id_length: int = 65535
    max_client_id_length_v31: int = 65535  # MQTT 3.1 allows 23, its clients never kept to it
    mount_point: str = ""

    # What MQTT offers here
    max_qos: int = 2
    retain_available: bool = True
    wildcard_subscriptions: bool = True
    shared_subscriptions: bool = True
    max_topic_alias: int = 32
    max_topic_alias_out: int = 32

    # How much of it
    max_packet_size: int = 8 * 1024 * 1024
    message_size_limit: int = 0  # of the payload of a message; 0: what fits into a packet
    max_control_size: int = 256 * 1024  # of a packet without a message, of properties of one with
    max_subscriptions: int = 10_000  # of one session; 0: any number
    max_listener_sessions: int = 0  # 0: any number; those of all listeners are bounded by the hub
    receive_maximum: int = 1000
    max_inflight: int = 100
    max_inflight_bytes: int = 0  # of payloads; 0: any number
    max_queued_messages: int = 100_000  # of one session; 0: any number
    max_queued_bytes: int = 64 * 1024 * 1024  # of one session; 0: any number
    queue_full: str = DROP_NEWEST
    queue_qos0_offline: bool = False

    # For how long
    connect_timeout_s: float = 10.0
    authentication_timeout_s: float = 10.0
    max_keepalive_s: int = 65535
    allow_keepalive_off: bool = True
    max_session_expiry_s: int = NEVER
    session_expiry_v3_s: int = NEVER

    # How fast, in the long run (0: as fast as it can), and what happens beyond: DELAY, DROP (what
    # has QoS 0; the rest is delayed) or DISCONNECT
    rate_burst_s: float = 1.0  # so much of a rate may come at once
    max_messages_per_s: float = 0.0
    over_messages_per_s: str = DELAY
    max_bytes_per_s: int = 0
    over_bytes_per_s: str = DELAY
    max_messages_out_per_s: float = 0.0
    over_messages_out_per_s: str = DELAY
    max_user_messages_per_s: float = 0.0  # of all connections of a user that was authenticated
    over_user_messages_per_s: str = DELAY
    max_user_bytes_per_s: int = 0
    over_user_bytes_per_s: str = DELAY
    max_tenant_messages_per_s: float = 0.0
    over_tenant_messages_per_s: str = DELAY
    max_tenant_bytes_per_s: int = 0
    over_tenant_bytes_per_s: str = DELAY
    max_listener_messages_per_s: float = 0.0
    over_listener_messages_per_s: str = DELAY
    max_listener_bytes_per_s: int = 0
    over_listener_bytes_per_s: str = DELAY
    max_connects_per_s: float = 0.0  # of the listener
    over_connects_per_s: str = DELAY  # or DISCONNECT
    max_address_connects_per_s: float = 0.0  # of one address; beyond, it is closed at once

    # How many, of one user or tenant on this node; 0: any number
    max_user_connections: int = 0
    max_tenant_connections: int = 0
    max_user_sessions: int = 0
    max_tenant_sessions: int = 0
    max_user_subscriptions: int = 0
    max_tenant_subscriptions: int = 0
    max_user_retained_messages: int = 0
    max_tenant_retained_messages: int = 0

    # Which topics
    max_topic_length: int = 65535  # bytes
    max_topic_levels: int = 128


class PeerLimits:
    """What may be on its way to another node of the cluster, and wait for it."""

    def __init__(self) -> None:
        self.window_bytes = 4 * 1024 * 1024
        self.max_queued_messages = 100_000
        self.max_queued_bytes = 64 * 1024 * 1024
        self.max_queued_bytes_qos0 = 8 * 1024 * 1024
        self.refuse_when_full = True
