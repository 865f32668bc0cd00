"""Values of a mosquitto.conf as mhub has them, and which keys simple options become.

What needs more than one option, or a word to the user, is in `mhub.config.mosquitto_import`.
"""

from collections.abc import Callable
from typing import Final

LEVELS: Final = {
    "debug": "debug",
    "all": "debug",
    "subscribe": "info",
    "unsubscribe": "info",
    "websockets": "info",
    "information": "info",
    "notice": "info",
    "warning": "warn",
    "error": "error",
    "none": "critical",
}
DESTINATIONS: Final = ("stdout", "file", "syslog")
NO_DESTINATIONS: Final = ("android", "dlt", "none", "stderr", "topic")

ORDER: Final = ("debug", "info", "warn", "error", "critical")

VERSIONS: Final = {"3": "3.1", "4": "3.1.1", "5": "5.0"}
MAX_PACKET: Final = 256 << 20

# Users, and rules of what they may do: without them, nobody is let in.
GUARDS: Final = frozenset(
    {
        "acl_file",
        "auth_plugin",
        "global_plugin",
        "password_file",
        "plugin",
        "plugin_load",
        "plugin_use",
    }
)

SECONDS: Final = {"h": 3600, "d": 86400, "w": 604800, "m": 30 * 86400, "y": 365 * 86400}


class Mistake(Exception):
    """A value that Mosquitto would not take either."""


def boolean(text: str) -> bool:
    if text.lower() not in ("true", "false", "1", "0"):
        raise Mistake(f'expected true or false, found "{text}"')
    return text.lower() in ("true", "1")


def integer(low: int, high: int | None = None) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise Mistake(f'expected a number, found "{text}"') from None
        if number < low or (high is not None and number > high):
            most = "" if high is None else f" to {high}"
            raise Mistake(f"expected a number from {low}{most}, found {text}")
        return number

    return convert


def limit(text: str) -> int:
    """Where Mosquitto has -1 for "any number"."""
    return max(integer(-1)(text), 0)


def seconds(text: str) -> int:
    try:
        return int(text[:-1]) * SECONDS[text[-1:]]
    except (ValueError, KeyError):
        raise Mistake(f'expected a number with h, d, w, m or y, found "{text}"') from None


def versions(text: str) -> list[str]:
    found = [word.strip() for word in text.split(",")]
    for word in found:
        if word not in VERSIONS:
            raise Mistake(f'expected 3, 4 and 5 with commas, found "{text}"')
    return [VERSIONS[word] for word in found]


# option: the keys of [limits] that it becomes, and how.
LIMITS: Final[dict[str, tuple[tuple[str, ...], Callable[[str], object]]]] = {
    "allow_zero_length_clientid": (("allow_empty_client_id",), boolean),
    "auto_id_prefix": (("client_id_prefix",), str),
    "global_max_clients": (("max_sessions",), limit),
    "global_max_connections": (("max_connections",), limit),
    "max_inflight_bytes": (("max_inflight_bytes",), integer(0)),
    "max_inflight_messages": (
        ("max_inflight", "receive_maximum"),
        lambda text: integer(0, 65535)(text) or 65535,
    ),
    "max_packet_size": (
        ("max_packet_size",),
        lambda text: min(max(integer(0)(text), 64), MAX_PACKET) if text != "0" else MAX_PACKET,
    ),
    "max_queued_bytes": (("max_queued_bytes",), integer(0)),
    "max_queued_messages": (("max_queued_messages",), integer(0)),
    "message_size_limit": (("message_size_limit",), integer(0, MAX_PACKET)),
    "persistent_client_expiration": (("session_expiry_v3_s", "max_session_expiry_s"), seconds),
    "queue_qos0_messages": (("queue_qos0_offline",), boolean),
    "retain_available": (("retain_available",), boolean),
}

# The same for a listener.
LISTENER: Final[dict[str, tuple[str, Callable[[str], object]]]] = {
    "allow_zero_length_clientid": ("allow_empty_client_id", boolean),
    "auto_id_prefix": ("client_id_prefix", str),
    "listener_auto_id_prefix": ("client_id_prefix", str),
    "max_connections": ("max_connections", limit),
    "max_qos": ("max_qos", integer(0, 2)),
    "max_topic_alias": ("max_topic_alias", integer(0, 65535)),
    "max_topic_alias_broker": ("max_topic_alias_out", integer(0, 65535)),
    "mount_point": ("mount_point", str),
}

TLS: Final = (
    "cafile",
    "certfile",
    "ciphers",
    "ciphers_tls1.3",
    "crlfile",
    "keyfile",
    "require_certificate",
    "tls_version",
    "use_identity_as_username",
    "use_subject_as_username",
)
