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
    aliases = connection.aliases
    takes_aliases = aliases is not None and aliases.max_outgoing > 0
    if takes_aliases or connection.limits.mount_point:
        if connection.limits.mount_point:
            topic = _unmounted(connection, message)
        alias = 0
        if aliases is not None and takes_aliases and not later and len(topic) > SHORT_TOPIC:
            alias = aliases.outgoing.get(message.topic, 0)
            if alias:
                topic = b"\0\0"
            elif _fits(connection, message, len(topic) + len(properties) + len(ids)):
                alias = aliases.introduce(message.topic)
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


def _fits(connection: "Connection", message: Publish, head_size: int) -> bool:
    """Else it may not be sent at all, and the client would not know an alias that comes with it."""
    return head_size + len(message.payload) + 16 <= connection.max_packet_out


def _unmounted(connection: "Connection", message: Publish) -> bytes:
    mount = connection.limits.mount_point.encode("utf-8")
    return topic_field(message.topic_data[len(mount) :])
