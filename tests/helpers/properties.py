"""The properties of MQTT 5 for tests: their ids, how each is written, where a broker may use it."""

from enum import IntEnum


class Prop(IntEnum):
    PAYLOAD_FORMAT = 0x01
    MESSAGE_EXPIRY = 0x02
    CONTENT_TYPE = 0x03
    RESPONSE_TOPIC = 0x08
    CORRELATION_DATA = 0x09
    SUBSCRIPTION_ID = 0x0B
    SESSION_EXPIRY = 0x11
    ASSIGNED_CLIENT_ID = 0x12
    SERVER_KEEP_ALIVE = 0x13
    AUTH_METHOD = 0x15
    AUTH_DATA = 0x16
    REQUEST_PROBLEM_INFO = 0x17
    WILL_DELAY = 0x18
    REQUEST_RESPONSE_INFO = 0x19
    RESPONSE_INFO = 0x1A
    SERVER_REFERENCE = 0x1C
    REASON_STRING = 0x1F
    RECEIVE_MAXIMUM = 0x21
    TOPIC_ALIAS_MAXIMUM = 0x22
    TOPIC_ALIAS = 0x23
    MAXIMUM_QOS = 0x24
    RETAIN_AVAILABLE = 0x25
    USER_PROPERTY = 0x26
    MAXIMUM_PACKET_SIZE = 0x27
    WILDCARD_AVAILABLE = 0x28
    SUBSCRIPTION_ID_AVAILABLE = 0x29
    SHARED_AVAILABLE = 0x2A


# How each property is written: the number of bytes of an integer, or the kind of the value.
KINDS: dict[int, int | str] = {
    Prop.PAYLOAD_FORMAT: 1,
    Prop.MESSAGE_EXPIRY: 4,
    Prop.CONTENT_TYPE: "text",
    Prop.RESPONSE_TOPIC: "text",
    Prop.CORRELATION_DATA: "binary",
    Prop.SUBSCRIPTION_ID: "varint",
    Prop.SESSION_EXPIRY: 4,
    Prop.ASSIGNED_CLIENT_ID: "text",
    Prop.SERVER_KEEP_ALIVE: 2,
    Prop.AUTH_METHOD: "text",
    Prop.AUTH_DATA: "binary",
    Prop.REQUEST_PROBLEM_INFO: 1,
    Prop.WILL_DELAY: 4,
    Prop.REQUEST_RESPONSE_INFO: 1,
    Prop.RESPONSE_INFO: "text",
    Prop.SERVER_REFERENCE: "text",
    Prop.REASON_STRING: "text",
    Prop.RECEIVE_MAXIMUM: 2,
    Prop.TOPIC_ALIAS_MAXIMUM: 2,
    Prop.TOPIC_ALIAS: 2,
    Prop.MAXIMUM_QOS: 1,
    Prop.RETAIN_AVAILABLE: 1,
    Prop.USER_PROPERTY: "pair",
    Prop.MAXIMUM_PACKET_SIZE: 4,
    Prop.WILDCARD_AVAILABLE: 1,
    Prop.SUBSCRIPTION_ID_AVAILABLE: 1,
    Prop.SHARED_AVAILABLE: 1,
}

# What a broker may put into each packet.
ALLOWED: dict[str, frozenset[int]] = {
    "CONNACK": frozenset(
        {
            Prop.SESSION_EXPIRY,
            Prop.RECEIVE_MAXIMUM,
            Prop.MAXIMUM_QOS,
            Prop.RETAIN_AVAILABLE,
            Prop.MAXIMUM_PACKET_SIZE,
            Prop.ASSIGNED_CLIENT_ID,
            Prop.TOPIC_ALIAS_MAXIMUM,
            Prop.REASON_STRING,
            Prop.USER_PROPERTY,
            Prop.WILDCARD_AVAILABLE,
            Prop.SUBSCRIPTION_ID_AVAILABLE,
            Prop.SHARED_AVAILABLE,
            Prop.SERVER_KEEP_ALIVE,
            Prop.RESPONSE_INFO,
            Prop.SERVER_REFERENCE,
            Prop.AUTH_METHOD,
            Prop.AUTH_DATA,
        }
    ),
    "PUBLISH": frozenset(
        {
            Prop.PAYLOAD_FORMAT,
            Prop.MESSAGE_EXPIRY,
            Prop.TOPIC_ALIAS,
            Prop.RESPONSE_TOPIC,
            Prop.CORRELATION_DATA,
            Prop.USER_PROPERTY,
            Prop.SUBSCRIPTION_ID,
            Prop.CONTENT_TYPE,
        }
    ),
    # Session Expiry Interval is the client's alone in DISCONNECT.
    "DISCONNECT": frozenset({Prop.REASON_STRING, Prop.USER_PROPERTY, Prop.SERVER_REFERENCE}),
    "AUTH": frozenset({Prop.AUTH_METHOD, Prop.AUTH_DATA, Prop.REASON_STRING, Prop.USER_PROPERTY}),
}
_ACK_PROPERTIES = frozenset({Prop.REASON_STRING, Prop.USER_PROPERTY})
for _name in ("PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "SUBACK", "UNSUBACK"):
    ALLOWED[_name] = _ACK_PROPERTIES


def varint(n: int) -> bytes:
    """A Variable Byte Integer; numbers too large for four bytes give five, for tests of that."""
    out = bytearray()
    while True:
        n, low = divmod(n, 128)
        out.append(low | 0x80 if n else low)
        if not n:
            return bytes(out)
