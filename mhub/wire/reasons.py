"""MQTT 5 reason codes: their numbers, their names, and which packet may carry which.

The tables at the end hold what a *client* may send; a code outside of them is a Protocol Error.
"""

from typing import Final

SUCCESS: Final = 0x00
GRANTED_QOS_1: Final = 0x01
GRANTED_QOS_2: Final = 0x02
DISCONNECT_WITH_WILL: Final = 0x04
NO_MATCHING_SUBSCRIBERS: Final = 0x10
NO_SUBSCRIPTION_EXISTED: Final = 0x11
CONTINUE_AUTHENTICATION: Final = 0x18
REAUTHENTICATE: Final = 0x19
UNSPECIFIED: Final = 0x80
MALFORMED_PACKET: Final = 0x81
PROTOCOL_ERROR: Final = 0x82
IMPLEMENTATION_SPECIFIC: Final = 0x83
UNSUPPORTED_VERSION: Final = 0x84
CLIENT_ID_NOT_VALID: Final = 0x85
BAD_USER_OR_PASSWORD: Final = 0x86
NOT_AUTHORIZED: Final = 0x87
SERVER_UNAVAILABLE: Final = 0x88
SERVER_BUSY: Final = 0x89
BANNED: Final = 0x8A
SERVER_SHUTTING_DOWN: Final = 0x8B
BAD_AUTHENTICATION_METHOD: Final = 0x8C
KEEP_ALIVE_TIMEOUT: Final = 0x8D
SESSION_TAKEN_OVER: Final = 0x8E
TOPIC_FILTER_INVALID: Final = 0x8F
TOPIC_NAME_INVALID: Final = 0x90
PACKET_ID_IN_USE: Final = 0x91
PACKET_ID_NOT_FOUND: Final = 0x92
RECEIVE_MAXIMUM_EXCEEDED: Final = 0x93
TOPIC_ALIAS_INVALID: Final = 0x94
PACKET_TOO_LARGE: Final = 0x95
MESSAGE_RATE_TOO_HIGH: Final = 0x96
QUOTA_EXCEEDED: Final = 0x97
ADMINISTRATIVE_ACTION: Final = 0x98
PAYLOAD_FORMAT_INVALID: Final = 0x99
RETAIN_NOT_SUPPORTED: Final = 0x9A
QOS_NOT_SUPPORTED: Final = 0x9B
USE_ANOTHER_SERVER: Final = 0x9C
SERVER_MOVED: Final = 0x9D
SHARED_NOT_SUPPORTED: Final = 0x9E
CONNECTION_RATE_EXCEEDED: Final = 0x9F
MAXIMUM_CONNECT_TIME: Final = 0xA0
SUBSCRIPTION_IDS_NOT_SUPPORTED: Final = 0xA1
WILDCARDS_NOT_SUPPORTED: Final = 0xA2

NAMES: Final[dict[int, str]] = {
    SUCCESS: "success",
    GRANTED_QOS_1: "granted QoS 1",
    GRANTED_QOS_2: "granted QoS 2",
    DISCONNECT_WITH_WILL: "disconnect with will message",
    NO_MATCHING_SUBSCRIBERS: "no matching subscribers",
    NO_SUBSCRIPTION_EXISTED: "no subscription existed",
    CONTINUE_AUTHENTICATION: "continue authentication",
    REAUTHENTICATE: "re-authenticate",
    UNSPECIFIED: "unspecified error",
    MALFORMED_PACKET: "malformed packet",
    PROTOCOL_ERROR: "protocol error",
    IMPLEMENTATION_SPECIFIC: "implementation specific error",
    UNSUPPORTED_VERSION: "unsupported protocol version",
    CLIENT_ID_NOT_VALID: "client identifier not valid",
    BAD_USER_OR_PASSWORD: "bad user name or password",
    NOT_AUTHORIZED: "not authorized",
    SERVER_UNAVAILABLE: "server unavailable",
    SERVER_BUSY: "server busy",
    BANNED: "banned",
    SERVER_SHUTTING_DOWN: "server shutting down",
    BAD_AUTHENTICATION_METHOD: "bad authentication method",
    KEEP_ALIVE_TIMEOUT: "keep alive timeout",
    SESSION_TAKEN_OVER: "session taken over",
    TOPIC_FILTER_INVALID: "topic filter invalid",
    TOPIC_NAME_INVALID: "topic name invalid",
    PACKET_ID_IN_USE: "packet identifier in use",
    PACKET_ID_NOT_FOUND: "packet identifier not found",
    RECEIVE_MAXIMUM_EXCEEDED: "receive maximum exceeded",
    TOPIC_ALIAS_INVALID: "topic alias invalid",
    PACKET_TOO_LARGE: "packet too large",
    MESSAGE_RATE_TOO_HIGH: "message rate too high",
    QUOTA_EXCEEDED: "quota exceeded",
    ADMINISTRATIVE_ACTION: "administrative action",
    PAYLOAD_FORMAT_INVALID: "payload format invalid",
    RETAIN_NOT_SUPPORTED: "retain not supported",
    QOS_NOT_SUPPORTED: "QoS not supported",
    USE_ANOTHER_SERVER: "use another server",
    SERVER_MOVED: "server moved",
    SHARED_NOT_SUPPORTED: "shared subscriptions not supported",
    CONNECTION_RATE_EXCEEDED: "connection rate exceeded",
    MAXIMUM_CONNECT_TIME: "maximum connect time",
    SUBSCRIPTION_IDS_NOT_SUPPORTED: "subscription identifiers not supported",
    WILDCARDS_NOT_SUPPORTED: "wildcard subscriptions not supported",
}

PUBLISH_REPLIES: Final = frozenset(
    {
        SUCCESS,
        NO_MATCHING_SUBSCRIBERS,
        UNSPECIFIED,
        IMPLEMENTATION_SPECIFIC,
        NOT_AUTHORIZED,
        TOPIC_NAME_INVALID,
        PACKET_ID_IN_USE,
        QUOTA_EXCEEDED,
        PAYLOAD_FORMAT_INVALID,
    }
)
"""PUBACK and PUBREC [MQTT-3.4.2-1, MQTT-3.5.2-1]"""

RELEASE_REPLIES: Final = frozenset({SUCCESS, PACKET_ID_NOT_FOUND})
"""PUBREL and PUBCOMP [MQTT-3.6.2-1, MQTT-3.7.2-1]"""

CLIENT_DISCONNECTS: Final = frozenset(
    {
        SUCCESS,
        DISCONNECT_WITH_WILL,
        UNSPECIFIED,
        MALFORMED_PACKET,
        PROTOCOL_ERROR,
        IMPLEMENTATION_SPECIFIC,
        TOPIC_NAME_INVALID,
        RECEIVE_MAXIMUM_EXCEEDED,
        TOPIC_ALIAS_INVALID,
        PACKET_TOO_LARGE,
        MESSAGE_RATE_TOO_HIGH,
        QUOTA_EXCEEDED,
        ADMINISTRATIVE_ACTION,
        PAYLOAD_FORMAT_INVALID,
    }
)
"""DISCONNECT from a client [MQTT-3.14.2-1]"""

CLIENT_AUTHS: Final = frozenset({CONTINUE_AUTHENTICATION, REAUTHENTICATE})
"""AUTH from a client [MQTT-3.15.2-1]"""

# CONNACK return codes of MQTT 3.1 and 3.1.1.
V3_UNACCEPTABLE_VERSION: Final = 1
V3_IDENTIFIER_REJECTED: Final = 2
V3_SERVER_UNAVAILABLE: Final = 3
V3_BAD_USER_OR_PASSWORD: Final = 4
V3_NOT_AUTHORIZED: Final = 5

ELSEWHERE: Final = frozenset({USE_ANOTHER_SERVER, SERVER_MOVED})
"""Those that come with a Server Reference, if there is one."""

V3_RETURN_CODES: Final[dict[int, int]] = {
    UNSUPPORTED_VERSION: V3_UNACCEPTABLE_VERSION,
    CLIENT_ID_NOT_VALID: V3_IDENTIFIER_REJECTED,
    BAD_USER_OR_PASSWORD: V3_BAD_USER_OR_PASSWORD,
    NOT_AUTHORIZED: V3_NOT_AUTHORIZED,
    BANNED: V3_NOT_AUTHORIZED,
    SERVER_UNAVAILABLE: V3_SERVER_UNAVAILABLE,
    SERVER_BUSY: V3_SERVER_UNAVAILABLE,
    QUOTA_EXCEEDED: V3_SERVER_UNAVAILABLE,
    USE_ANOTHER_SERVER: V3_SERVER_UNAVAILABLE,
    SERVER_MOVED: V3_SERVER_UNAVAILABLE,
    CONNECTION_RATE_EXCEEDED: V3_SERVER_UNAVAILABLE,
}
"""Reason -> return code; a reason that is missing here closes without CONNACK [MQTT-3.2.2-6]."""


def name(reason: int) -> str:
    """The reason in words, for logs and Reason Strings."""
    return NAMES.get(reason, f"reason 0x{reason:02x}")
