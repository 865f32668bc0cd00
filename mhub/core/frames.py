"""A message as the PUBLISH frame that one connection gets; made once for many where it can be.

`first` is the frame's first byte.  `follows` bytes of the payload are written behind the frame.
"""

from typing import TYPE_CHECKING, Final

from mhub.wire.primitives import BYTES
from mhub.wire.publish import Publish, encode_v3, encode_v5, topic_field, with_expiry

if TYPE_CHECKING:
    from mhub.core.connection import Connection

SHORT_TOPIC: Final = 5
"""A topic field up to this size is not longer than an alias in its place."""


def frame_v3(
    connection: "Connection",
    message: Publish,
    first: int,
    pid: int,
    payload: bytes,
    follows: int,
) -> bytes:
    if connection.limits.mount_point:
        return encode_v3(first, _unmounted(connection, message), pid, payload, follows)
    if first != 0x30:
        return encode_v3(first, message.topic_field, pid, payload, follows)
    frame = message.frame_v3
    if frame is None:
        frame = encode_v3(first, message.topic_field, 0, payload, 0)
        message.frame_v3 = frame
    return frame


def frame_v5(
    connection: "Connection",
    message: Publish,
    first: int,
    pid: int,
    ids: bytes,
    payload: bytes,
    follows: int,
    later: bool,
) -> bytes:
    """`later`: it does not leave at once, so a topic alias must not begin with it."""
    if message.expires_at:
        properties = with_expiry(message, connection.hub.now)
    else:
        properties = message.properties
    topic = message.topic_field
    if connection.max_aliases_out or connection.limits.mount_point:
        if connection.limits.mount_point:
            topic = _unmounted(connection, message)
        alias = 0
        if connection.max_aliases_out and not later and len(topic) > SHORT_TOPIC:
            known = connection.aliases_out
            alias = known.get(message.topic, 0) if known is not None else 0
            if alias:
                topic = b"\0\0"
            else:
                alias = _new_alias(connection, message, len(topic) + len(properties) + len(ids))
        if alias:
            properties = b"\x23%b%b%b" % (BYTES[alias >> 8], BYTES[alias & 0xFF], properties)
        return encode_v5(first, topic, pid, properties + ids, payload, follows)
    if first != 0x30 or ids or message.expires_at:
        return encode_v5(first, topic, pid, properties + ids, payload, follows)
    frame = message.frame_v5
    if frame is None:
        frame = encode_v5(first, topic, 0, properties, payload, 0)
        message.frame_v5 = frame
    return frame


def _new_alias(connection: "Connection", message: Publish, head_size: int) -> int:
    """A topic alias that the client learns with this frame; 0: none."""
    if connection.aliases_out is None:
        connection.aliases_out = {}
    known = connection.aliases_out
    if len(known) >= connection.max_aliases_out:  # [MQTT-3.3.2-11]
        return 0
    if head_size + len(message.payload) + 16 > connection.max_packet_out:
        return 0  # it may not be sent at all, and then the client would not know it
    alias = len(known) + 1
    known[message.topic] = alias
    return alias


def _unmounted(connection: "Connection", message: Publish) -> bytes:
    mount = connection.limits.mount_point.encode("utf-8")
    return topic_field(message.topic_data[len(mount) :])
