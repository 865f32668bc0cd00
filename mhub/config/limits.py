"""The keys of `[limits]`.

Those of `LIMIT_KEYS` hold for each client and may be set again for one listener; their defaults are
those of `mhub.core.limits.Limits`.  Those of `BrokerLimits` hold for the broker as a whole.
"""

from dataclasses import dataclass, replace
from typing import Any, Final

from mhub.config.kinds import (
    Boolean,
    Choice,
    Integer,
    Kind,
    Number,
    Place,
    Seconds,
    Size,
    Text,
    WholeSeconds,
)
from mhub.config.problems import Wrong
from mhub.config.schema import Key, ListOf, setting
from mhub.core.limits import (
    DELAY,
    DISCONNECT,
    DROP,
    DROP_NEWEST,
    DROP_OLDEST,
    NEVER,
    Limits,
)

# MQTT ends at 2**28 + 4 bytes; this is the round number below.
MAX_PACKET: Final = 256 << 20


class Version(Kind[int]):
    """A version of MQTT; the broker uses the protocol level that CONNECT carries."""

    LEVELS: Final = {"3.1": 3, "3.1.1": 4, "5.0": 5}
    name = '`"3.1"` or `"3.1.1"` or `"5.0"`'
    expected = 'one of "3.1", "3.1.1", "5.0"'

    def read(self, value: object, place: Place) -> int:
        if isinstance(value, str) and value in self.LEVELS:
            return self.LEVELS[value]
        raise Wrong(self.expected, "write it in quotes" if isinstance(value, (int, float)) else "")

    def show(self, value: int) -> str:
        return next(f'"{name}"' for name, level in self.LEVELS.items() if level == value)


def _is_mount_point(text: str) -> bool:
    # It becomes a part of every topic: no wildcards, and not among the broker's own topics.
    return not any(sign in text for sign in "+#\0") and not text.startswith("$")


def _message_rate(what: str) -> Key[Any]:
    return Key(Number(0, 10_000_000), f"How many messages a second {what}; 0 is any number.")


def _byte_rate(what: str) -> Key[Any]:
    return Key(Size(0), f"How many bytes a second {what}, all packets of MQTT; 0 is any number.")


def _beyond(name: str) -> Key[Any]:
    return Key(Choice(DELAY, DROP, DISCONNECT), f"What happens beyond `{name}`.")


def _count(what: str) -> Key[Any]:
    return Key(Integer(0), f"{what}, on this node; 0 is any number.")


_RATES: Final[dict[str, Key[Any]]] = {
    "rate_burst_s": Key(
        Seconds(0.5, 3600),
        "How much of a rate may come at once: what it allows in so many seconds.",
    ),
    "max_messages_per_s": _message_rate("a client may publish, in the long run"),
    "over_messages_per_s": Key(
        Choice(DELAY, DROP, DISCONNECT),
        "What happens beyond: nothing is read from the client until it may send again; or its QoS"
        " 0 messages are dropped, and others delayed; or it is disconnected, by the reason 0x96"
        " in MQTT 5.0 (0x97 if there are too many bytes).",
    ),
    "max_bytes_per_s": _byte_rate("a client may send"),
    "over_bytes_per_s": _beyond("max_bytes_per_s"),
    "max_messages_out_per_s": _message_rate("a client is sent"),
    "over_messages_out_per_s": Key(
        Choice(DELAY, DROP, DISCONNECT),
        "What happens to more messages: they wait in the client's queue; or those of QoS 0 are"
        " dropped, and others wait; or the client is disconnected.",
    ),
    "max_user_messages_per_s": _message_rate(
        "all connections of a user that is authenticated may publish together"
    ),
    "over_user_messages_per_s": _beyond("max_user_messages_per_s"),
    "max_user_bytes_per_s": _byte_rate("these may send together"),
    "over_user_bytes_per_s": _beyond("max_user_bytes_per_s"),
    "max_tenant_messages_per_s": _message_rate("all users of a tenant may publish together"),
    "over_tenant_messages_per_s": _beyond("max_tenant_messages_per_s"),
    "max_tenant_bytes_per_s": _byte_rate("these may send together"),
    "over_tenant_bytes_per_s": _beyond("max_tenant_bytes_per_s"),
    "max_listener_messages_per_s": _message_rate("all clients of a listener may publish together"),
    "over_listener_messages_per_s": _beyond("max_listener_messages_per_s"),
    "max_listener_bytes_per_s": _byte_rate("these may send together"),
    "over_listener_bytes_per_s": _beyond("max_listener_bytes_per_s"),
    "max_connects_per_s": Key(
        Number(0, 1_000_000),
        "How many connections a second a listener accepts; 0 is any number.",
    ),
    "over_connects_per_s": Key(
        Choice(DELAY, DISCONNECT),
        "What happens to more: they wait until they are accepted (the kernel holds `backlog` of"
        " them), or they are closed at once.",
    ),
    "max_address_connects_per_s": Key(
        Number(0, 1_000_000),
        "How many connections a second may come from one address, of IPv6 from one network (/64);"
        " more are closed at once. Behind a proxy it is the address that `proxy_protocol` tells."
        " 0 is any number.",
    ),
    "max_user_connections": _count(
        "How many clients of one user that is authenticated may be connected"
    ),
    "max_tenant_connections": _count("How many clients of one tenant may be connected"),
    "max_user_sessions": _count("How many sessions a user may have, connected or not"),
    "max_tenant_sessions": _count("How many sessions a tenant may have, connected or not"),
    "max_user_subscriptions": _count("How many subscriptions the sessions of a user may have"),
    "max_tenant_subscriptions": _count("How many subscriptions the sessions of a tenant may have"),
    "max_user_retained_messages": Key(
        Integer(0),
        "At how many topics there may be a retained message of which a user made the first one; 0"
        " is any number. Beyond, a message still goes to all subscribers, but is not kept.",
    ),
    "max_tenant_retained_messages": Key(
        Integer(0), "The same for all users of a tenant together; 0 is any number."
    ),
    "max_topic_length": Key(
        Integer(1, 65535), "How many bytes a topic or a filter may have, as the client writes it."
    ),
    "max_topic_levels": Key(Integer(1, 512), "How many levels a topic or a filter may have."),
}

_DOCUMENTED: Final[dict[str, Key[Any]]] = {
    "versions": Key(ListOf(Version(), low=1), "The versions of MQTT that are spoken."),
    "allow_anonymous": Key(
        Boolean(),
        "Let clients in that bring no password and that no `[[auth]]` identifies, whatever user"
        " name they give. A listener that others can reach (not on a loopback address or a Unix"
        " socket, or with `proxy_protocol`) needs an `[[auth]]` or this.",
        shown="`true` for a listener without `[[auth]]`, else `false`",
    ),
    "allow_empty_client_id": Key(
        Boolean(),
        "Let clients in that bring no client id; they get one. MQTT 3.1 has no such clients.",
    ),
    "client_id_prefix": Key(Text(), "What the client ids that the broker makes begin with."),
    "username_as_client_id": Key(
        Boolean(),
        "Take the name of the user as the client id, so that nobody can take over another user's"
        " session. The user has to be authenticated, so `allow_anonymous` has to be false. All"
        " listeners have the same sessions, so each of them needs it.",
    ),
    "max_client_id_length": Key(Integer(1, 65535), "How many characters a client id may have."),
    "max_client_id_length_v31": Key(
        Integer(1, 65535),
        "The same for clients of MQTT 3.1. Its limit is 23, but many clients never kept to it.",
    ),
    "mount_point": Key(
        Text(check=_is_mount_point, what="the beginning of a topic, without wildcards"),
        "What is put before every topic of the clients, and taken away on the way to them,"
        ' as `"site-a/"`. The subscriptions of a session follow its client to another mount point.',
    ),
    "max_qos": Key(Integer(0, 2), "The highest QoS that clients may publish with and are granted."),
    "retain_available": Key(Boolean(), "Whether messages can be retained."),
    "wildcard_subscriptions": Key(Boolean(), "Whether subscriptions may have `+` and `#`."),
    "shared_subscriptions": Key(Boolean(), "Whether there are shared subscriptions, `$share/…`."),
    "max_topic_alias": Key(
        Integer(0, 65535), "How many topic aliases a client may set; 0 is none."
    ),
    "max_topic_alias_out": Key(
        Integer(0, 65535),
        "How many topic aliases the broker sets towards a client that takes them; 0 is none.",
    ),
    "max_packet_size": Key(Size(64, MAX_PACKET), "The longest packet that clients may send."),
    "message_size_limit": Key(
        Size(0, MAX_PACKET),
        "The longest payload of a message that clients may publish, or leave as a will. A longer"
        " one is dropped, and acknowledged: MQTT 5.0 clients are told 0x83. 0 is what fits into a"
        " packet.",
    ),
    "max_control_size": Key(
        Size(64, MAX_PACKET),
        "The longest packet that carries no message, and the longest properties of one that does.",
    ),
    "max_subscriptions": Key(
        Integer(0), "How many subscriptions a session may have; 0 is any number."
    ),
    "receive_maximum": Key(
        Integer(1, 65535),
        "How many QoS 1 and 2 messages a client may have on the way to the broker at a time.",
    ),
    "max_inflight": Key(
        Integer(1, 65535),
        "How many QoS 1 and 2 messages are on the way to a client at a time, if it takes as many.",
    ),
    "max_inflight_bytes": Key(
        Size(0),
        "How much QoS 1 and 2 payload is on the way to a client before the next message waits; a"
        " longer message goes alone. 0 is any.",
    ),
    "max_queued_messages": Key(
        Integer(0), "How many messages wait for one session; 0 is any number."
    ),
    "max_queued_bytes": Key(
        Size(0), "How much memory the messages that wait for one session take; 0 is any."
    ),
    "queue_full": Key(
        Choice(DROP_NEWEST, DROP_OLDEST, DISCONNECT),
        "What goes when a queue is full: the new message, the oldest one, or the client.",
    ),
    "queue_qos0_offline": Key(
        Boolean(), "Whether QoS 0 messages wait for sessions that are not connected."
    ),
    "connect_timeout_s": Key(
        Seconds(0.1, 3600),
        "How long a connection may take until its CONNECT is complete, TLS and WebSocket included;"
        " it counts from when the broker has accepted it.",
    ),
    "authentication_timeout_s": Key(
        Seconds(0.1, 3600),
        "How long an authenticator may take to answer; then the client is refused.",
    ),
    "max_keepalive_s": Key(
        WholeSeconds(1, 65535),
        "The longest keep-alive; 5.0 clients that ask for more are told this one.",
    ),
    "allow_keepalive_off": Key(Boolean(), "Whether clients may turn keep-alive off (0)."),
    "max_session_expiry_s": Key(
        WholeSeconds(0, NEVER, forever=NEVER), "The longest that a session outlives its connection."
    ),
    "session_expiry_v3_s": Key(
        WholeSeconds(0, NEVER, forever=NEVER),
        "How long 3.1 and 3.1.1 sessions outlive their connection, unless clean session was set.",
    ),
    **_RATES,
}

LIMIT_KEYS: Final[dict[str, Key[Any]]] = {
    name: replace(entry, default=getattr(Limits(), name)) for name, entry in _DOCUMENTED.items()
}


@dataclass(frozen=True)
class BrokerLimits:
    max_connections: int = setting(
        Integer(0),
        0,
        "How many clients may be connected, over all listeners; 0 is any number. The system's limit"
        " of open files counts as well: see `running.md`.",
    )
    max_sessions: int = setting(
        Integer(0),
        0,
        "How many sessions there may be, of clients that are connected or may come back; new ones"
        " are refused with 0x97 (3.1 and 3.1.1: 3). Each node of a cluster counts its own, and who"
        " has a session always gets it. 0 is any number.",
    )
    max_retained_messages: int = setting(
        Integer(0),
        1_000_000,
        "How many retained messages are kept, besides those of `$SYS`; 0 is any number. Beyond, a"
        " message still goes to all subscribers, but is not kept, and its topic's earlier one is"
        " gone. Publishers of QoS 1 and 2 are told by the reason 0x97 in MQTT 5.0.",
    )
    max_retained_bytes: int = setting(
        Size(0),
        1 << 30,
        "How much memory the retained messages take, besides those of `$SYS`; 0 is any. Beyond, the"
        " same happens.",
    )
    max_queued_bytes_total: int = setting(
        Size(0),
        2 << 30,
        "How much all messages that wait in the queues of all sessions may have together; at the"
        " bound, `queue_full` applies. 0 is any.",
    )
    max_partial_bytes: int = setting(
        Size(0),
        256 << 20,
        "How much of incomplete packets is held, over all clients; 0 is any. Beyond, the client"
        " whose packet has made no progress for the longest time is disconnected, by the reason"
        " 0x97 in MQTT 5.0. Packets of up to 16 KiB do not count.",
    )
    max_wildcard_patterns: int = setting(
        Integer(0),
        256,
        "How many patterns of wildcards the filters with more than 8 levels may have, over all"
        " clients; 0 is any number. `a/b/+` and `x/y/+` have one pattern, `a/+/+` has another. A"
        " subscription with a further one is refused, by the reason 0x97 in MQTT 5.0, as each can"
        " make each search for subscribers longer. Filters of up to 8 levels are never refused.",
    )
    route_cache_size: int = setting(
        Integer(0),
        100_000,
        "For how many topics the subscribers are remembered; 0 looks them up for each message.",
    )
