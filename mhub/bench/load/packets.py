"""What a client says: CONNECT, SUBSCRIBE, and PUBLISH in batches.

A batch is one frame, repeated, with the bytes that differ put in afterwards, a column at a time.
For that the packet identifier runs in step with the sequence number: its low byte is the same.
So within 256 messages only that one byte changes, and cutting a batch costs a few nanoseconds a
message, compiled or not.

    payload = run:4  publisher:2  sequence:4  time:6  filler        (big-endian; time in ns)
"""

from typing import Final

from mhub.wire.encode import packet
from mhub.wire.primitives import MAX_VARINT, text_field, u16, varint

HEAD_SIZE: Final = 16
MOST_PUBLISHERS: Final = 65536
MOST_PACKET: Final = MAX_VARINT
PINGREQ: Final = b"\xc0\x00"
DISCONNECT: Final = b"\xe0\x00"

FIRST_ID: Final = 256
IDS: Final = 65280
"""Packet identifiers are FIRST_ID + sequence % IDS: never 0, the low byte that of the sequence."""

MOST_QUEUED: Final = 1 << 18
"""Bytes that a publisher queues at once.  More does not make a broker faster, and this side slower:
larger blocks of memory come from the system, page by page."""

COUNTING: Final = bytes(range(256))


def connect(
    client_id: str, version: int, keepalive_s: int, username: str | None, password: str | None
) -> bytes:
    flags = 0x02  # clean session: a bench leaves nothing behind
    tail = text_field(client_id)
    if username is not None:
        flags |= 0x80
        tail += text_field(username)
        if password is not None:
            flags |= 0x40
            tail += text_field(password)
    head = text_field("MQTT") + bytes((version, flags)) + u16(keepalive_s)
    return packet(0x10, head + (b"\x00" if version == 5 else b"") + tail)


def subscribe(packet_id: int, topic_filter: str, qos: int, version: int) -> bytes:
    properties = b"\x00" if version == 5 else b""
    body = u16(packet_id) + properties + text_field(topic_filter) + bytes((qos,))
    return packet(0x82, body)


class PublishFrames:
    """The PUBLISH packets of one publisher on one topic, each of the same length."""

    def __init__(
        self, topic: str, qos: int, size: int, version: int, run: int, publisher: int
    ) -> None:
        properties = b"\x00" if version == 5 else b""
        name = text_field(topic)
        body = len(name) + (2 if qos else 0) + len(properties) + size
        start = bytes((0x30 | qos << 1,)) + varint(body) + name
        fixed = properties + run.to_bytes(4, "big") + publisher.to_bytes(2, "big")
        packet_id = b"\x00\x00" if qos else b""
        moment = bytes(HEAD_SIZE - 6)
        filler = b"x" * (size - HEAD_SIZE)
        self._frame = bytearray(b"".join((start, packet_id, fixed, moment, filler)))
        self.qos = qos
        self.length = len(self._frame)
        self._id = len(start)
        self._seq = self.length - size + 6

    def at_once(self) -> int:
        """How many messages to queue before the socket takes some."""
        return max(1, MOST_QUEUED // self.length)

    def cut(self, seq: int, time_ns: int, count: int) -> bytearray:
        """`count` messages from number `seq` on, of one moment, not beyond a multiple of 256.

        One large message is not copied: it is to be sent before the next one is cut."""
        frame = self._frame
        at = self._seq
        frame[at : at + 10] = seq.to_bytes(4, "big") + time_ns.to_bytes(6, "big")
        if self.qos:
            frame[self._id : self._id + 2] = (FIRST_ID + seq % IDS).to_bytes(2, "big")
        if self.length > MOST_QUEUED // 2:
            return frame
        block = frame * count
        if count > 1:
            low = seq & 255
            column = COUNTING[low : low + count]
            block[at + 3 :: self.length] = column
            if self.qos:
                block[self._id + 1 :: self.length] = column
        return block
