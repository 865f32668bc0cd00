"""One MQTT client of the load: bytes in, bytes out, no socket.

`feed` is the hot loop.  It takes everything that one `recv` got, looks at the few bytes of each
packet that it needs, and leaves the acknowledgements that are due in lists of two-byte packet
identifiers: joined with a packet's first two bytes between them they are the packets to send.
Acknowledgements of one kind leave in the order in which their cause came (MQTT-4.6.0).
"""

from typing import Final

from mhub.bench.load.histogram import Histogram
from mhub.bench.load.packets import COUNTING, FIRST_ID, HEAD_SIZE, IDS, MOST_PACKET, PublishFrames
from mhub.bench.load.reasons import words
from mhub.bench.load.track import Source, Track

_LEAST_REPEATS: Final = 6
_ENOUGH: Final = 80_000  # the longest topic fits, with properties as we know them and our 16 bytes
_PUBLISHED: Final = 1  # waits for PUBACK or PUBREC
_RELEASED: Final = 2  # waits for PUBCOMP
_FREE: Final = 0


class PeerFault(Exception):
    """The broker said what is not MQTT, or not allowed here."""


class Client:
    def __init__(self, version: int, run: int, latency: Histogram) -> None:
        self.v5 = version == 5
        self.run = run
        self.latency = latency
        # What the broker answered.
        self.up = False
        self.refused = ""  # why CONNACK said no
        self.goodbye = ""  # why DISCONNECT came
        self.receive_max = 65535
        self.most_qos = 2
        self.most_packet = MOST_PACKET
        self.keepalive_s = -1  # as the broker ordered; -1: it did not
        self.subacks: list[int] = []
        # The publishing side.
        self.frames: PublishFrames | None = None
        self.source = Source()
        self.acked = 0
        self.rejected = 0
        self.reject_reason = ""
        self.strange_acks = 0
        self._inflight = bytearray()  # by packet identifier
        # The receiving side: publishers `first` … `first + len(tracks) - 1` are expected.
        self.first = 0
        self.tracks: list[Track] = []
        self.received = 0
        self.misrouted = 0  # of this run, but for another subscriber
        self.foreign = 0  # not of this run
        self.last_foreign = b""  # how such a message began
        # Bytes that wait: a packet of which only the start is here, and what is to be sent.
        self._start = b""
        self._missing = 0  # bytes of a message whose start tells all; they need not be kept
        self.out: list[bytes | bytearray] = []
        self.blocked = False  # the socket takes no more for now
        self._pubacks: list[bytes] = [b""]
        self._pubrecs: list[bytes] = [b""]
        self._pubrels: list[bytes] = [b""]
        self._pubcomps: list[bytes] = [b""]

    def publishes(self, frames: PublishFrames) -> None:
        self.frames = frames
        if frames.qos:
            self._inflight = bytearray(FIRST_ID + IDS)

    def expects(self, first: int, tracks: list[Track]) -> None:
        self.first = first
        self.tracks = tracks

    # ---- out

    def inflight(self) -> int:
        """Messages that the broker has not acknowledged."""
        if self.frames is None or not self.frames.qos:
            return 0
        return self.source.sent - self.acked

    def room(self, window: int, fan: int) -> int:
        """How many messages may leave now, in a closed loop.

        At most `window` are unacknowledged, and undelivered (each goes to `fan` subscribers).
        0 until a quarter of the window is free: topping up for every single message would cost
        this side more than it costs the broker."""
        frames = self.frames
        if frames is None:
            return 0
        sent = self.source.sent
        free = window - (sent * fan - self.source.seen + fan - 1) // fan
        if frames.qos:
            if self.receive_max < window:
                window = self.receive_max
            unacknowledged = window - (sent - self.acked)
            if unacknowledged < free:
                free = unacknowledged
        if free * 4 < window:
            return 0
        most = frames.at_once()
        return free if free < most else most

    def publish(self, count: int, time_ns: int) -> int:
        """Queue `count` messages of this moment; how many were queued.

        Fewer when they are large, or a packet identifier whose turn it is still is in flight."""
        frames = self.frames
        if frames is None:
            return 0
        count = min(count, frames.at_once())
        done = 0
        while done < count:
            seq = self.source.sent
            few = min(count - done, 256 - (seq & 255))
            if frames.qos:
                first = FIRST_ID + seq % IDS
                if self._inflight.count(_FREE, first, first + few) < few:
                    break
                self._inflight[first : first + few] = b"\x01" * few
            self.out.append(frames.cut(seq, time_ns, few))
            self.source.sent = seq + few
            done += few
        return done

    def take(self) -> bytes | bytearray:
        """Everything that is to be sent, and forget it."""
        out = self.out
        if len(self._pubacks) > 1:
            out.append(b"\x40\x02".join(self._pubacks))
            self._pubacks = [b""]
        if len(self._pubrecs) > 1:
            out.append(b"\x50\x02".join(self._pubrecs))
            self._pubrecs = [b""]
        if len(self._pubrels) > 1:
            out.append(b"\x62\x02".join(self._pubrels))
            self._pubrels = [b""]
        if len(self._pubcomps) > 1:
            out.append(b"\x70\x02".join(self._pubcomps))
            self._pubcomps = [b""]
        self.out = []
        return out[0] if len(out) == 1 else b"".join(out)

    # ---- in

    def feed(self, data: bytes, now: int) -> None:
        """Take what came at `now`.  Raises `PeerFault`."""
        pos = 0
        if self._missing:
            if len(data) < self._missing:
                self._missing -= len(data)
                return
            pos = self._missing
            self._end_of_large(now)
        elif self._start:
            data = self._start + data
            self._start = b""
        end = len(data)
        if not self.up and end and data[0] != 0x20:
            # Said at the first byte: the length that something else seems to have may never come.
            raise PeerFault(f"a first packet that begins with 0x{data[0]:02x}, not a CONNACK")
        # Messages of one batch carry one time stamp: they go into the histogram together.
        time_ns = -1
        batch = 0
        while end - pos >= 2:
            head = data[pos]
            size = data[pos + 1]
            at = pos + 2
            if size > 127:
                size &= 127
                shift = 7
                unfinished = True
                while unfinished and at < end:
                    byte = data[at]
                    at += 1
                    if shift > 21:
                        raise PeerFault("a packet length of more than four bytes")
                    size |= (byte & 127) << shift
                    shift += 7
                    unfinished = byte > 127
                if unfinished:
                    break
            stop = at + size
            if stop > end:
                if head & 0xF0 == 0x30 and self.up and end - at > _ENOUGH:
                    self._missing = stop - end
                break
            start = pos
            pos = stop
            if head & 0xF0 == 0x30 and self.up:
                seen = self._message(data, head, at, stop)
                if seen >= 0:
                    if seen != time_ns:
                        if batch:
                            self.latency.add(now - time_ns, batch)
                        time_ns = seen
                        batch = 0
                    batch += 1
                    if not head & 6 and end - stop >= _LEAST_REPEATS * (stop - start):
                        more = self._repeats(data, start, at, stop)
                        batch += more
                        pos += more * (stop - start)
            elif size >= 2 and 0x40 <= head < 0x80 and self.up:
                self._acknowledgement(head, data[at : at + 2], data[at + 2] if size > 2 else 0)
            else:
                self._other(head, data[at:stop])
        if batch:
            self.latency.add(now - time_ns, batch)
        if pos < end:
            self._start = data[pos:] if pos else data

    def _end_of_large(self, now: int) -> None:
        """A message is complete of which only the start was kept."""
        start = self._start
        self._start = b""
        size, at = _varint(start, 1)
        self._missing = 0
        seen = self._message(start, start[0], at, at + size)
        if seen >= 0:
            self.latency.add(now - seen)

    def _message(self, data: bytes, head: int, at: int, stop: int) -> int:
        """A PUBLISH: its time stamp, or -1 when it is not to be timed."""
        if stop - at < 2:
            raise PeerFault("a PUBLISH without a topic")
        at += 2 + (data[at] << 8 | data[at + 1])
        if head & 6:
            if head & 4:
                self._pubrecs.append(data[at : at + 2])
            else:
                self._pubacks.append(data[at : at + 2])
            at += 2
        if self.v5 and at < stop:
            if data[at] == 0:
                at += 1
            else:
                at = _after_properties(data, at, stop)
        if at > stop:
            raise PeerFault("a PUBLISH shorter than its fields")
        if stop - at < HEAD_SIZE or self.run != (
            data[at] << 24 | data[at + 1] << 16 | data[at + 2] << 8 | data[at + 3]
        ):
            self.foreign += 1
            self.last_foreign = data[at : min(stop, at + 80)]
            return -1
        index = (data[at + 4] << 8 | data[at + 5]) - self.first
        if index < 0 or index >= len(self.tracks):
            self.misrouted += 1
            return -1
        track = self.tracks[index]
        seq = data[at + 6] << 24 | data[at + 7] << 16 | data[at + 8] << 8 | data[at + 9]
        if seq == track.next:
            track.next = seq + 1
            track.source.seen += 1
        elif not track.unexpected(seq):
            return -1
        self.received += 1
        return (
            data[at + 10] << 40
            | data[at + 11] << 32
            | data[at + 12] << 24
            | data[at + 13] << 16
            | data[at + 14] << 8
            | data[at + 15]
        )

    def _repeats(self, data: bytes, start: int, at: int, stop: int) -> int:
        """How many messages of the batch that the QoS 0 message before `stop` is of follow at once.

        They differ from it in one byte, so all of them are compared with what they must be, every
        byte, in one go.  It pays from a handful of messages on, most of all where this is not
        compiled."""
        length = stop - start
        at += 2 + (data[at] << 8 | data[at + 1])
        if self.v5:
            if data[at]:
                return 0
            at += 1
        track = self.tracks[(data[at + 4] << 8 | data[at + 5]) - self.first]
        if data[at + 6 : at + 10] != (track.next - 1).to_bytes(4, "big"):
            return 0  # it filled a gap
        low = track.next & 255
        count = min((len(data) - stop) // length, 256 - low if low else 0)
        # The batch ends where the time stamp changes; its lowest byte nearly always tells.
        times = data[at + 15 + length : stop + count * length : length]
        count -= len(times.lstrip(data[at + 15 : at + 16]))
        if count < _LEAST_REPEATS:
            return 0
        block = bytearray(data[start:stop] * count)
        block[at + 9 - start :: length] = COUNTING[low : low + count]
        if not data.startswith(block, stop):
            return 0
        track.next += count
        track.source.seen += count
        self.received += count
        return count

    def _acknowledgement(self, head: int, packet_id: bytes, reason: int) -> None:
        if head == 0x62:  # PUBREL: of a message to us
            self._pubcomps.append(packet_id)
            return
        number = packet_id[0] << 8 | packet_id[1]
        state = self._inflight[number] if number < len(self._inflight) else _FREE
        if head == 0x40 and state == _PUBLISHED:  # PUBACK
            self._settle(number, reason)
        elif head == 0x70 and state == _RELEASED:  # PUBCOMP
            self._settle(number, reason)
        elif head == 0x50 and state == _PUBLISHED:  # PUBREC
            if reason < 0x80:
                self._inflight[number] = _RELEASED
                self._pubrels.append(packet_id)
            else:
                self._settle(number, reason)
        elif head in (0x40, 0x50, 0x70):
            self.strange_acks += 1
        else:
            raise PeerFault(f"a packet that begins with 0x{head:02x}")

    def _settle(self, number: int, reason: int) -> None:
        self._inflight[number] = _FREE
        self.acked += 1
        if reason >= 0x80:
            self.rejected += 1
            self.reject_reason = words(reason, self.v5)

    def _other(self, head: int, body: bytes) -> None:
        """The packets that come a few times in a connection's life."""
        if not self.up:
            if head != 0x20 or len(body) < 2:
                raise PeerFault("a CONNACK that is none")
            self._connack(body)
        elif head == 0x90 and len(body) > 2:
            self.subacks.append(body[-1])  # one filter to a SUBSCRIBE
        elif head == 0xE0 and self.v5:
            self.goodbye = words(body[0] if body else 0, True)
        elif head != 0xD0:
            raise PeerFault(f"a packet that begins with 0x{head:02x}")

    def _connack(self, body: bytes) -> None:
        if body[1]:
            self.refused = words(body[1], self.v5 and len(body) > 2)
            return
        self.up = True
        if self.v5:
            self._limits(body)

    def _limits(self, body: bytes) -> None:
        """The properties of a CONNACK that tell how much the broker takes."""
        size, at = _varint(body, 2)
        stop = min(at + size, len(body))
        while at < stop:
            name = body[at]
            at += 1
            width = _WIDTHS.get(name, 0)
            if width:
                value = int.from_bytes(body[at : at + width], "big")
                at += width
                if name == 0x21:
                    self.receive_max = value
                elif name == 0x24:
                    self.most_qos = value
                elif name == 0x27:
                    self.most_packet = value
                elif name == 0x13:
                    self.keepalive_s = value
            else:  # strings; a user property is two of them
                for _ in range(2 if name == 0x26 else 1):
                    at += 2 + int.from_bytes(body[at : at + 2], "big")


_WIDTHS: Final = {
    0x11: 4,
    0x13: 2,
    0x21: 2,
    0x22: 2,
    0x24: 1,
    0x25: 1,
    0x27: 4,
    0x28: 1,
    0x29: 1,
    0x2A: 1,
}
"""CONNACK's properties that are numbers, and their bytes; the others are strings."""


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """A length at `at`, and where it ends."""
    value = 0
    shift = 0
    while at < len(data) and shift <= 21:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
    raise PeerFault("a property length that does not end")


def _after_properties(data: bytes, at: int, stop: int) -> int:
    size, after = _varint(data, at)
    return after + size
