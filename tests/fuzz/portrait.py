"""Packets as plain values, so that they can be compared: with an expectation, or across builds."""

from typing import Any

from mhub.core.limits import Limits
from mhub.wire import decode, publish, reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.packets import NAMES, Auth, Connect, Disconnect, Subscribe, Unsubscribe
from mhub.wire.properties import Properties
from mhub.wire.publish import Publish

PUBLISH_FIELDS = (
    *("topic_data", "payload", "qos", "retain", "dup", "pid", "alias"),
    *("properties", "expiry_s", "expiry_at"),
)
CONNECT_FIELDS = (
    *("version", "client_id", "clean", "keepalive_s", "username", "password", "will_delay_s"),
)
REQUEST_FIELDS = ("topic_filter", "qos", "no_local", "retain_as_published", "retain_handling")


MAX_PROPERTIES = Limits().max_control_size


def fields(thing: Any, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: getattr(thing, name) for name in names}


def of_properties(found: Properties) -> dict[str, Any]:
    return fields(found, ("numbers", "texts", "binary"))


def of_publish(message: Publish) -> dict[str, Any]:
    return fields(message, PUBLISH_FIELDS)


def of_connect(packet: Connect) -> dict[str, Any]:
    return {
        **fields(packet, CONNECT_FIELDS),
        "will": None if packet.will is None else of_publish(packet.will),
        "properties": of_properties(packet.properties),
    }


def of_subscribe(packet: Subscribe) -> dict[str, Any]:
    return {
        "pid": packet.pid,
        "subscription_id": packet.subscription_id,
        "requests": [fields(request, REQUEST_FIELDS) for request in packet.requests],
    }


def of_unsubscribe(packet: Unsubscribe) -> dict[str, Any]:
    return fields(packet, ("pid", "filters"))


def of_disconnect(packet: Disconnect) -> dict[str, Any]:
    return fields(packet, ("reason", "session_expiry_s"))


def of_auth(packet: Auth) -> dict[str, Any]:
    return fields(packet, ("reason", "method", "data"))


def body(data: bytes, first: int, start: int, end: int, version: int) -> Any:
    """What the decoder makes of the packet whose body is data[start:end]."""
    kind = NAMES[first >> 4]
    if kind == "PUBLISH":
        return of_publish(publish.decode(data, first, start, end, version, MAX_PROPERTIES))
    if kind == "CONNECT":
        level, known, at = decode.connect_version(data, start, end)
        if not known:
            return f"unknown version, answered as {level}"
        return of_connect(decode.connect(data, at, end, level))
    if kind in ("PUBACK", "PUBREC"):
        return decode.ack(data, start, end, version, reasons.PUBLISH_REPLIES)
    if kind in ("PUBREL", "PUBCOMP"):
        return decode.ack(data, start, end, version, reasons.RELEASE_REPLIES)
    if kind == "SUBSCRIBE":
        return of_subscribe(decode.subscribe(data, start, end, version))
    if kind == "UNSUBSCRIBE":
        return of_unsubscribe(decode.unsubscribe(data, start, end, version))
    if kind == "DISCONNECT":
        return of_disconnect(decode.disconnect(data, start, end, version))
    if kind == "AUTH":
        return of_auth(decode.auth(data, start, end))
    if kind in ("PINGREQ", "reserved packet 0"):
        decode.empty(start, end)
    return None  # the others are not for clients to send, and nobody looks into them


def stream(data: bytes, version: int) -> list[Any]:
    """All packets of a byte stream, then what the end is: a fault, or bytes that are missing."""
    found: list[Any] = []
    pos = 0
    try:
        while pos < len(data):
            start, end = decode.frame(data, pos, len(data))
            if end == 0 or end > len(data):
                found.append(("more", end - len(data) if end else 0))
                break
            kind = NAMES[data[pos] >> 4]
            found.append((kind, body(data, data[pos], start, end, version)))
            pos = end
    except ProtocolFault as fault:
        found.append(("fault", fault.reason, fault.text))
    return found
