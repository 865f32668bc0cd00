"""One bank of packets from clients, right and wrong: codec, connection and fuzz tests draw on it.

Wrong packets carry the reason that an MQTT 5 client is told; versions before that just close.
"""

from dataclasses import dataclass

from mhub.wire import reasons
from tests.helpers import packets as p
from tests.helpers.packets import Prop

MALFORMED = reasons.MALFORMED_PACKET
PROTOCOL = reasons.PROTOCOL_ERROR


@dataclass(frozen=True)
class Vector:
    name: str
    version: int
    data: bytes
    reason: int = 0


def _flags(version: int) -> int:
    """For bits that must be 0; MQTT 3.1 has no use for them and does not look at them."""
    return 0 if version == 3 else MALFORMED


def _connects() -> list[Vector]:
    """First packets of a connection."""
    found = []
    for version in (3, 4, 5):
        found += [
            Vector("plain", version, p.connect("c", version)),
            Vector("keep-alive", version, p.connect("c", version, keepalive=30)),
            Vector("a session to keep", version, p.connect("c", version, clean=False)),
            Vector("user and password", version, p.connect("c", version, True, 0, "u", b"\0p")),
            Vector("a will", version, p.connect("c", version, will=("w/t", b"bye", 2, True))),
            Vector("everything", version, p.connect("é€", version, False, 9, "u", "p", ("w", b""))),
            Vector("reserved bit", version, p.connect("c", version, flags=3), _flags(version)),
            Vector(
                "will QoS without will", version, p.connect("c", version, flags=8), _flags(version)
            ),
            Vector(
                "flags in the first byte",
                version,
                p.frame(0x19, p.split(p.connect("c", version))[1]),
                _flags(version),
            ),
            Vector("will QoS 3", version, p.connect("c", version, will=("w", b"", 3)), MALFORMED),
            Vector(
                "cut off", version, p.frame(0x10, p.split(p.connect("c", version))[1][:-1]), 0x81
            ),
            Vector(
                "too long", version, p.frame(0x10, p.split(p.connect("c", version))[1] + b"!"), 0x81
            ),
            Vector("bad UTF-8", version, p.connect(b"\xff", version), MALFORMED),
            Vector("U+0000 in the id", version, p.connect("a\0b", version), MALFORMED),
            Vector("a surrogate", version, p.connect(b"\xed\xa0\x80", version), MALFORMED),
        ]
    five = [
        ("receive maximum", [(Prop.RECEIVE_MAXIMUM, 1)], 0),
        ("all numbers", [(Prop.SESSION_EXPIRY, 9), (Prop.MAXIMUM_PACKET_SIZE, 999)], 0),
        (
            "user properties",
            [(Prop.USER_PROPERTY, ("a", "b")), (Prop.USER_PROPERTY, ("a", "b"))],
            0,
        ),
        ("topic aliases", [(Prop.TOPIC_ALIAS_MAXIMUM, 5)], 0),
        ("receive maximum 0", [(Prop.RECEIVE_MAXIMUM, 0)], PROTOCOL),
        ("packet size 0", [(Prop.MAXIMUM_PACKET_SIZE, 0)], PROTOCOL),
        ("problem information 2", [(Prop.REQUEST_PROBLEM_INFO, 2)], PROTOCOL),
        ("twice", [(Prop.SESSION_EXPIRY, 9), (Prop.SESSION_EXPIRY, 9)], PROTOCOL),
        ("authentication data alone", [(Prop.AUTH_DATA, b"x")], PROTOCOL),
        ("unknown method", [(Prop.AUTH_METHOD, "x")], reasons.BAD_AUTHENTICATION_METHOD),
        ("a server's property", [(Prop.ASSIGNED_CLIENT_ID, "x")], MALFORMED),
        ("no property", b"\x02\x7f\0", MALFORMED),
        ("a property cut off", b"\x03\x11\0\0", MALFORMED),
        ("a longer length than needed", b"\x80\x00", MALFORMED),
        ("properties beyond the packet", b"\x7f", MALFORMED),
    ]
    found += [Vector(name, 5, p.connect("c", 5, props=props), r) for name, props, r in five]
    return found


def _publishes(version: int) -> list[Vector]:
    def publish(name: str, data: bytes, reason: int = 0) -> Vector:
        return Vector(f"PUBLISH {name}", version, data, reason)

    end = b"\0" if version == 5 else b""
    return [
        publish("QoS 0", p.publish("t/1", b"x", version=version)),
        publish("empty", p.publish("t/1", b"", version=version)),
        publish("QoS 1", p.publish("t/1", b"x", 1, 1, version=version)),
        publish("QoS 1 again", p.publish("t/1", b"x", 1, 1, dup=True, version=version)),
        publish("QoS 2", p.publish("t/1", b"x", 2, 65535, version=version)),
        publish("retained", p.publish("t/1", b"x", 0, None, True, version=version)),
        publish("of 127 bytes", p.publish("t", bytes(124 - len(end)), version=version)),
        publish("of 128 bytes", p.publish("t", bytes(125 - len(end)), version=version)),
        publish("of 20 KB", p.publish("t", bytes(20_000), version=version)),
        publish("QoS 3", p.publish("t", b"x", 3, 1, version=version), MALFORMED),
        publish("DUP with QoS 0", p.publish("t", b"x", dup=True, version=version), _flags(version)),
        publish("packet id 0", p.publish("t", b"x", 1, 0, version=version), PROTOCOL),
        publish("wildcard +", p.publish("t/+", b"", version=version), MALFORMED),
        publish("wildcard #", p.publish("#", b"", version=version), MALFORMED),
        publish("no topic field", p.frame(0x30, b"\0"), MALFORMED),
        publish("topic cut off", p.frame(0x30, b"\0\x05t"), MALFORMED),
        publish("no packet id", p.frame(0x32, b"\0\x01t\0"), MALFORMED),
        publish("bad UTF-8", p.publish(b"\xc3\x28", b"", version=version), MALFORMED),
        publish("U+0000", p.publish("a\0b", b"", version=version), MALFORMED),
    ]


def _publishes_v5() -> list[Vector]:
    right = {
        "expiry": [(Prop.MESSAGE_EXPIRY, 10)],
        "text": [(Prop.PAYLOAD_FORMAT, 1)],
        "response": [(Prop.RESPONSE_TOPIC, "r/t"), (Prop.CORRELATION_DATA, b"\0\xff")],
        "content type": [(Prop.CONTENT_TYPE, "a/b")],
        "user properties": [(Prop.USER_PROPERTY, ("a", "b")), (Prop.USER_PROPERTY, ("a", "c"))],
        "alias": [(Prop.TOPIC_ALIAS, 1)],
    }
    wrong: dict[str, tuple[p.Properties, int]] = {
        "alias 0": ([(Prop.TOPIC_ALIAS, 0)], reasons.TOPIC_ALIAS_INVALID),
        "alias too large": ([(Prop.TOPIC_ALIAS, 65535)], reasons.TOPIC_ALIAS_INVALID),
        "subscription id": ([(Prop.SUBSCRIPTION_ID, 1)], PROTOCOL),
        "payload format 2": ([(Prop.PAYLOAD_FORMAT, 2)], PROTOCOL),
        "expiry twice": ([(Prop.MESSAGE_EXPIRY, 1), (Prop.MESSAGE_EXPIRY, 1)], PROTOCOL),
        "response to a filter": ([(Prop.RESPONSE_TOPIC, "r/#")], MALFORMED),
        "will delay": ([(Prop.WILL_DELAY, 1)], MALFORMED),
        "unknown property": (b"\x02\x7f\0", MALFORMED),
        "property cut off": (b"\x02\x02\0", MALFORMED),
        "length beyond the packet": (b"\x7f", MALFORMED),
    }
    found = [
        Vector(f"PUBLISH {name}", 5, p.publish("t/1", b"x", props=props, version=5))
        for name, props in right.items()
    ]
    found += [
        Vector(f"PUBLISH {name}", 5, p.publish("t/1", b"x", props=props, version=5), reason)
        for name, (props, reason) in wrong.items()
    ]
    not_text = p.publish("t", b"\xff", props=[(Prop.PAYLOAD_FORMAT, 1)], version=5)
    nameless = p.publish("", b"x", version=5)
    return [
        *found,
        Vector("PUBLISH not the text it claims", 5, not_text, reasons.PAYLOAD_FORMAT_INVALID),
        Vector("PUBLISH without name or alias", 5, nameless, PROTOCOL),
        Vector("PUBLISH without properties", 5, p.frame(0x30, b"\0\x01t"), MALFORMED),
    ]


def _requests(version: int) -> list[Vector]:
    """SUBSCRIBE and UNSUBSCRIBE."""
    five = version == 5
    none = b"\0" if five else b""
    return [
        Vector("SUBSCRIBE", version, p.subscribe(1, ("a/+", 1), ("b/#", 2), version=version)),
        Vector("SUBSCRIBE shared", version, p.subscribe(1, ("$share/g/a", 1), version=version)),
        Vector("SUBSCRIBE nothing", version, p.subscribe(1, version=version), PROTOCOL),
        Vector("SUBSCRIBE id 0", version, p.subscribe(0, ("a", 0), version=version), PROTOCOL),
        Vector("SUBSCRIBE QoS 3", version, p.subscribe(1, ("a", 3), version=version), PROTOCOL),
        Vector(
            "SUBSCRIBE reserved bits",
            version,
            p.subscribe(1, ("a", 0x40), version=version),
            _flags(version),
        ),
        Vector(
            "SUBSCRIBE bad filter",
            version,
            p.subscribe(1, ("a#", 0), version=version),
            MALFORMED,
        ),
        Vector(
            "SUBSCRIBE empty filter",
            version,
            p.subscribe(1, ("", 0), version=version),
            MALFORMED,
        ),
        Vector(
            "SUBSCRIBE empty share",
            version,
            p.subscribe(1, ("$share//a", 0), version=version),
            MALFORMED,
        ),
        Vector("SUBSCRIBE cut off", version, p.frame(0x82, b"\0\1" + none + b"\0\1a"), MALFORMED),
        Vector(
            "SUBSCRIBE flags", version, p.frame(0x80, b"\0\1" + none + b"\0\1a\0"), _flags(version)
        ),
        Vector("UNSUBSCRIBE", version, p.unsubscribe(1, "a", "b/#", version=version)),
        Vector("UNSUBSCRIBE empty", version, p.unsubscribe(1, "", version=version), MALFORMED),
        Vector(
            "UNSUBSCRIBE misplaced #", version, p.unsubscribe(1, "#a", version=version), MALFORMED
        ),
        Vector("UNSUBSCRIBE nothing", version, p.unsubscribe(1, version=version), PROTOCOL),
        Vector("UNSUBSCRIBE id 0", version, p.unsubscribe(0, "a", version=version), PROTOCOL),
        Vector("UNSUBSCRIBE cut off", version, p.frame(0xA2, b"\0\1" + none + b"\0\2a"), MALFORMED),
    ]


def _small(version: int) -> list[Vector]:
    """Acknowledgements and what has no body."""
    found = [
        Vector("PINGREQ", version, p.pingreq()),
        Vector("PINGREQ with a body", version, p.frame(0xC0, b"x"), MALFORMED),
        Vector("PINGREQ flags", version, p.frame(0xC1), _flags(version)),
        Vector("a second CONNECT", version, p.connect("c", version), PROTOCOL),
        Vector("CONNACK from a client", version, b"\x20\x02\0\0", PROTOCOL),
        Vector("SUBACK from a client", version, b"\x90\x03\0\x01\0", PROTOCOL),
        Vector("packet type 0", version, b"\0\0", MALFORMED),
        Vector("AUTH", version, p.auth(0x18), PROTOCOL),
        Vector("a remaining length of five bytes", version, b"\xc0\x80\x80\x80\x80\x01", MALFORMED),
    ]
    for name, first in (("PUBACK", 0x40), ("PUBREC", 0x50), ("PUBREL", 0x62), ("PUBCOMP", 0x70)):
        found += [
            Vector(name, version, p.frame(first, b"\0\x07")),
            Vector(f"{name} id 0", version, p.frame(first, b"\0\0"), PROTOCOL),
            Vector(f"{name} cut off", version, p.frame(first, b"\0"), MALFORMED),
            Vector(f"{name} flags", version, p.frame(first ^ 1, b"\0\x07"), _flags(version)),
        ]
        if version == 5:
            text = [(Prop.REASON_STRING, "why"), (Prop.USER_PROPERTY, ("a", "b"))]
            found += [
                Vector(f"{name} reason", 5, p.frame(first, b"\0\x07\0")),
                Vector(f"{name} properties", 5, p.frame(first, b"\0\x07\0" + p.properties(text))),
                Vector(f"{name} no reason", 5, p.frame(first, b"\0\x07\x01"), PROTOCOL),
                Vector(f"{name} tail", 5, p.frame(first, b"\0\x07\0\0!"), MALFORMED),
            ]
        else:
            found.append(Vector(f"{name} tail", version, p.frame(first, b"\0\x07\0"), MALFORMED))
    return found


def _ends() -> list[Vector]:
    expiry = [(Prop.SESSION_EXPIRY, 5)]
    return [
        Vector("DISCONNECT with a will", 5, p.disconnect(4)),
        Vector("DISCONNECT with text", 5, p.disconnect(0, [(Prop.REASON_STRING, "bye")])),
        Vector("DISCONNECT taken over", 5, p.disconnect(0x8E), PROTOCOL),
        Vector("DISCONNECT late expiry", 5, p.disconnect(0, expiry), PROTOCOL),
        Vector("DISCONNECT server", 5, p.disconnect(0, [(Prop.SERVER_REFERENCE, "x")]), PROTOCOL),
        *(Vector("DISCONNECT", version, p.disconnect()) for version in (3, 4, 5)),
        *(Vector("DISCONNECT tail", version, p.frame(0xE0, b"\0"), 0x81) for version in (3, 4)),
    ]


CONNECTS = _connects()
"""What may come first; a client of version 5 is told the reason in CONNACK."""

PACKETS = [
    vector
    for version in (3, 4, 5)
    for vector in (*_publishes(version), *_requests(version), *_small(version))
] + _publishes_v5()
"""What a connected client may send, wrong ones last told by DISCONNECT; the session is clean."""

ENDS = _ends()
"""What ends a connection in peace, or tries to."""

ALL = CONNECTS + PACKETS + ENDS


def by_version(version: int) -> list[Vector]:
    return [vector for vector in ALL if vector.version == version]
