"""A message as the PUBLISH frame that one connection gets; made once for many where it can be.

`first` is the frame's first byte.  `follows` bytes of the payload are written behind the frame.
"""

from typing import Final

from mhub.core.aliases import TopicAliases
from mhub.wire.primitives import BYTES
from mhub.wire.publish import Publish, encode_v3, encode_v5, with_expiry

SHORT_TOPIC: Final = 5
"""A topic field up to this size is not longer than an alias in its place."""


def frame_v3(
    message: Publish, topic: bytes | None, first: int, pid: int, payload: bytes, follows: int
) -> bytes:
    """`topic`: the field of a topic that is not the message's; None: it is."""
    if topic is not None:
        return encode_v3(first, topic, pid, payload, follows)
    if first != 0x30:
        return encode_v3(first, message.topic_field, pid, payload, follows)
    frame = message.frame_v3
    if frame is None:
        frame = encode_v3(first, message.topic_field, 0, payload, 0)
        message.frame_v3 = frame
    return frame


def frame_v5(
    message: Publish,
    other_topic: bytes | None,
    first: int,
    pid: int,
    ids: bytes,
    payload: bytes,
    follows: int,
    now: float,
    aliases: TopicAliases | None,
    most: int,
) -> bytes:
    """`aliases`: those that may be used; `most`: the bytes that the client takes."""
    if message.expires_at:
        properties = with_expiry(message, now)
    else:
        properties = message.properties
    topic = message.topic_field if other_topic is None else other_topic
    if aliases is not None and aliases.max_outgoing and len(topic) > SHORT_TOPIC:
        alias = aliases.outgoing.get(message.topic, 0)
        if alias:
            topic = b"\0\0"
        # What is too large is not sent, and the client would not know an alias that began with it.
        elif len(topic) + len(properties) + len(ids) + len(message.payload) + 16 <= most:
            alias = aliases.introduce(message.topic)
        if alias:
            properties = b"\x23%b%b%b" % (BYTES[alias >> 8], BYTES[alias & 0xFF], properties)
            return encode_v5(first, topic, pid, properties + ids, payload, follows)
    if first != 0x30 or ids or message.expires_at or other_topic is not None:
        return encode_v5(first, topic, pid, properties + ids, payload, follows)
    frame = message.frame_v5
    if frame is None:
        frame = encode_v5(first, topic, 0, properties, payload, 0)
        message.frame_v5 = frame
    return frame
