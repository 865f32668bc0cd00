"""Packets that a server sends, PUBLISH aside, as bytes.

A Reason String explains a refusal to whoever reads the client's log.  It is left out when the
packet would outgrow the client's Maximum Packet Size: callers pass `room`, the size that the whole
packet may have, and an empty text when the client asked for no problem information.
"""

from typing import Final

from mhub.wire import properties
from mhub.wire.packets import AUTH, CONNACK, DISCONNECT, PUBREL, SUBACK, UNSUBACK, V5
from mhub.wire.primitives import BYTES, u16, varint

PINGRESP: Final = b"\xd0\x00"


def packet(first: int, body: bytes) -> bytes:
    return b"%b%b%b" % (BYTES[first], varint(len(body)), body)


def ack(kind: int, pid: int, reason: int) -> bytes:
    """PUBACK, PUBREC, PUBREL or PUBCOMP; a reason only ever goes to MQTT 5 clients."""
    first = kind << 4 | 2 if kind == PUBREL else kind << 4
    if reason == 0:
        return b"%b%b%b%b" % (BYTES[first], b"\x02", BYTES[pid >> 8], BYTES[pid & 0xFF])
    return b"%b%b%b%b%b" % (
        BYTES[first],
        b"\x03",
        BYTES[pid >> 8],
        BYTES[pid & 0xFF],
        BYTES[reason],
    )


def _explained(
    first: int, head: bytes, tail: bytes, text: str, room: int, reference: str = ""
) -> bytes:
    """head, properties with a Server Reference and a Reason String if they fit, tail."""
    props = properties.text(properties.SERVER_REFERENCE, reference) if reference else b""
    if text:
        reason = properties.block(props + properties.text(properties.REASON_STRING, text))
        whole = packet(first, head + reason + tail)
        if len(whole) <= room:
            return whole
    whole = packet(first, head + properties.block(props) + tail)
    return whole if len(whole) <= room else packet(first, head + b"\0" + tail)


def ack_explained(kind: int, pid: int, reason: int, text: str, room: int) -> bytes:
    """The same with a Reason String, for refusals."""
    first = kind << 4 | 2 if kind == PUBREL else kind << 4
    whole = _explained(first, u16(pid) + BYTES[reason], b"", text, room)
    return whole if len(whole) <= room else ack(kind, pid, reason)


def connack_v3(session_present: bool, code: int) -> bytes:
    return b"\x20\x02" + BYTES[1 if session_present else 0] + BYTES[code]


def connack_v5(session_present: bool, reason: int, props: bytes) -> bytes:
    head = BYTES[1 if session_present else 0] + BYTES[reason]
    return packet(CONNACK << 4, head + properties.block(props))


def refusal_v5(reason: int, text: str, room: int, reference: str = "") -> bytes:
    """A CONNACK that says no, and where else to go [MQTT-3.2.2-6, MQTT-3.2.2-19]."""
    return _explained(CONNACK << 4, b"\0" + BYTES[reason], b"", text, room, reference)


def suback(pid: int, codes: bytes, version: int, text: str, room: int) -> bytes:
    if version < V5:
        return packet(SUBACK << 4, u16(pid) + codes)
    return _explained(SUBACK << 4, u16(pid), codes, text, room)


def unsuback(pid: int, codes: bytes, version: int) -> bytes:
    if version < V5:
        return packet(UNSUBACK << 4, u16(pid))
    return packet(UNSUBACK << 4, u16(pid) + b"\0" + codes)


def disconnect(reason: int, text: str, room: int, reference: str = "") -> bytes:
    """For MQTT 5 clients only; never with a Session Expiry Interval [MQTT-3.14.2-2]."""
    whole = _explained(DISCONNECT << 4, BYTES[reason], b"", text, room, reference)
    return whole if len(whole) <= room else packet(DISCONNECT << 4, BYTES[reason])


def auth(reason: int, method: str, data: bytes) -> bytes:
    props = properties.text(properties.AUTH_METHOD, method)
    if data:
        props += properties.binary(properties.AUTH_DATA, data)
    return packet(AUTH << 4, BYTES[reason] + properties.block(props))
