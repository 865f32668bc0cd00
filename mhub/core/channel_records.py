"""What stands in a channel, and how it crosses a link.  Pure functions; no state, no clock.

    PUBLISHES  u64: the number of the first record that has one, 0 if none has; then records
    record     flags, what they announce in this order, then the message as a PUBLISH with QoS 0
               COPY or DIRECT or both, then such a record; or CONTROL

Where no flag is set their byte is not there either: the first is that of the PUBLISH, BARE, which
as flags would make no sense.  Such a PUBLISH goes to most subscribers just as it came.
"""

import json
from typing import TYPE_CHECKING, Final, NamedTuple

from mhub.core.delivery import Delivery
from mhub.core.fields import CLOCK
from mhub.wire.decode import frame
from mhub.wire.packets import V5, V311
from mhub.wire.primitives import BYTES, malformed, read_u16, read_u32, read_u64, u16, u32, u64
from mhub.wire.publish import Publish, decode, encode_v3, encode_v5, with_expiry

if TYPE_CHECKING:
    from mhub.core.journal import AckTracker

PUBLISHES: Final = 1
"""The kind of a frame with messages."""

CONFIRM: Final = 2
"""The kind of a frame that says what came: frames, the last number that is safe, the table's."""

QOS: Final = 3
RETAIN: Final = 4
HLC: Final = 8  # 8 bytes: when it was retained
OWNED: Final = 16  # size (u32) and text: whose it is
APART: Final = 32  # not for plain subscriptions
SHARED: Final = 64  # a count (u32), and the names of shared subscriptions that it is for
PROPERTIES: Final = 128  # the PUBLISH is one of MQTT 5, else of 3.1.1

BARE: Final = 0x30

# In the place of flags, as QoS 3 would make no sense; then
CONTROL: Final = 3  # sizes of client id (u16) and body (u32), and these
COPY: Final = 7  # of its Origin: size (u32) and text (with newlines between), number (u64)
DIRECT: Final = 11  # session epoch (u64), sizes of client id and `via` (u16 each), and these

MAX_PROPERTIES: Final = 1 << 28


class Origin(NamedTuple):
    """Where a copy has been taken from: a number in another node's channel to the same peer."""

    node: str
    channel_epoch: str
    n: int
    controls: str  # what the control records in front of it say, for the cluster


class Entry(Delivery):
    """A message in the channel to a peer, or a control record."""

    def __init__(self, n: int, message: Publish, plain: bool, shares: list[str] | None) -> None:
        super().__init__(message, message.qos, message.retain, b"")
        self.n = n  # 0: QoS 0
        self.plain = plain  # for whoever has subscribed there
        self.shares = shares  # and for one member of each of these groups
        self.is_control = False  # no message: client id and body are in its topic and payload
        self.direct = ""  # the client whose session alone it is for
        self.session_epoch = 0  # under which that session is held
        self.via = ""  # the node and the place in its channel to another one, where it was at first
        self.origin: Origin | None = None  # if it is a copy
        self.after = 0  # it leaves when this batch is safe
        self.tracker: AckTracker | None = None  # whose sender waits for the peer
        self.also: list[AckTracker] | None = None  # others that do

    def size(self) -> int:
        return len(self.message.payload) + len(self.message.topic_data)

    def addressed(self) -> str:
        """Whom it is for and where it is from, as the journal has it; read_addressed() reads it."""
        sender = self.message.sender
        if self.plain and self.shares is None and self.origin is None and not self.direct:
            return "+" + sender
        direct = [self.direct, self.session_epoch, self.via]
        return json.dumps([sender, self.is_control, self.plain, self.shares, direct, self.origin])


def read_addressed(n: int, message: Publish, text: str) -> Entry:
    if text.startswith("+"):
        message.sender = text[1:]
        return Entry(n, message, True, None)
    message.sender, is_control, plain, shares, direct, origin = json.loads(text)
    entry = Entry(n, message, plain, shares)
    entry.is_control = is_control
    entry.direct, entry.session_epoch, entry.via = direct
    entry.origin = Origin(*origin) if origin is not None else None
    return entry


# Writing


def record_of(message: Publish, plain: bool, shares: list[str] | None, now: float) -> bytes:
    """A message as it crosses a link, by itself."""
    return head_of(message, plain, shares) + wire_of(message, now)


def head_of(message: Publish, plain: bool, shares: list[str] | None) -> bytes:
    """Flags and what they announce."""
    flags = message.qos
    head = b""
    if message.properties:
        flags |= PROPERTIES
    if message.retain:
        flags |= RETAIN
        if message.hlc:
            flags |= HLC
            head = u64(message.hlc)
        if message.owner:
            flags |= OWNED
            owner = message.owner.encode("utf-8")
            head += u32(len(owner)) + owner
    if not plain:
        flags |= APART
    if shares is not None:
        flags |= SHARED
        head += u32(len(shares))
        for name in shares:
            encoded = name.encode("utf-8")
            head += u32(len(encoded)) + encoded
    return BYTES[flags] + head if head else BYTES[flags]


def wire_of(message: Publish, now: float) -> bytes:
    if not message.properties:
        return encode_v3(0x30, message.topic_field, 0, message.payload, 0)
    properties = with_expiry(message, now)
    return encode_v5(0x30, message.topic_field, 0, properties, message.payload, 0)


def control_of(record: Publish) -> bytes:
    client_id = record.topic_data
    sizes = u16(len(client_id)) + u32(len(record.payload))
    return b"%b%b%b%b" % (BYTES[CONTROL], sizes, client_id, record.payload)


def special_of(entry: Entry, origin: Origin | None) -> bytes:
    """What stands in front of the record of a direct message, or of a copy of what is there."""
    head = b""
    if origin is not None:
        text = f"{origin.node}\n{origin.channel_epoch}\n{origin.controls}".encode()
        head = b"%b%b%b%b" % (BYTES[COPY], u32(len(text)), text, u64(origin.n))
    if entry.direct:
        name = entry.direct.encode("utf-8")
        via = entry.via.encode("utf-8")
        sizes = u16(len(name)) + u16(len(via))
        head += b"%b%b%b%b%b" % (BYTES[DIRECT], u64(entry.session_epoch), sizes, name, via)
    return head


# Reading; ProtocolFault, and nothing else, if it is not what the above writes


def read_bare(data: bytes, pos: int) -> tuple[Publish, int]:
    """A record without flags: the message, and the place behind it."""
    body, stop = _publish_at(data, pos)
    message = decode(data, 0x30, body, stop, V311, 0)
    message.frame_v3 = data[pos:stop]
    return message, stop


def read_record(data: bytes, pos: int, now: float) -> tuple[Publish, bool, list[str] | None, int]:
    """What head_of() and wire_of() wrote at pos: message, plain, shares, the place behind it."""
    flags = data[pos]
    pos += 1
    hlc = 0
    shares: list[str] | None = None
    if flags & QOS == QOS:
        raise malformed("a message from a peer with QoS 3")
    if flags & HLC:
        hlc, pos = read_u64(data, pos)
        if hlc > CLOCK.high:
            raise malformed("a message from a peer with an invalid timestamp")
    owner = ""
    if flags & OWNED:
        size, pos = read_u32(data, pos, len(data))
        owner, pos = _text(data, pos, size)
    if flags & SHARED:
        shares = []
        count, pos = read_u32(data, pos, len(data))
        for _ in range(count):
            size, pos = read_u32(data, pos, len(data))
            name, pos = _text(data, pos, size)
            shares.append(name)
    body, stop = _publish_at(data, pos)
    version = V5 if flags & PROPERTIES else V311
    message = decode(data, 0x30, body, stop, version, MAX_PROPERTIES)
    message.qos = flags & QOS
    message.retain = flags & RETAIN != 0
    message.hlc = hlc
    message.owner = owner
    if message.expiry_s >= 0:
        message.expires_at = now + message.expiry_s
    return message, flags & APART == 0, shares, stop


def read_control(data: bytes, pos: int) -> tuple[str, bytes, int]:
    """Client id, body, the place behind it."""
    client_size, pos = read_u16(data, pos + 1, len(data))
    size, pos = read_u32(data, pos, len(data))
    client_id, pos = _text(data, pos, client_size)
    if pos + size > len(data):
        raise malformed("a control record from a peer is cut off")
    return client_id, data[pos : pos + size], pos + size


def read_special(data: bytes, pos: int, now: float) -> tuple[Entry, int]:
    """A copy, or a message for one session, or both."""
    origin: Origin | None = None
    direct = ""
    via = ""
    session_epoch = 0
    end = len(data)
    if data[pos] == COPY:
        size, pos = read_u32(data, pos + 1, end)
        text, pos = _text(data, pos, size)
        n, pos = read_u64(data, pos)
        parts = text.split("\n")
        if len(parts) != 3 or not _is_controls(parts[2]):
            raise malformed("a copy from a peer with an invalid origin")
        origin = Origin(parts[0], parts[1], n, parts[2])
    if pos < end and data[pos] == DIRECT:
        session_epoch, pos = read_u64(data, pos + 1)
        size, pos = read_u16(data, pos, end)
        via_size, pos = read_u16(data, pos, end)
        direct, pos = _text(data, pos, size)
        via, pos = _text(data, pos, via_size)
        if session_epoch > CLOCK.high or not _is_via(via):
            raise malformed("a message from a peer with an invalid session epoch or path")
    if pos >= end:
        raise malformed("a message from a peer is cut off")
    message, plain, shares, pos = read_record(data, pos, now)
    entry = Entry(0, message, plain, shares)
    entry.origin = origin
    entry.direct = direct
    entry.session_epoch = session_epoch
    entry.via = via
    return entry, pos


def _text(data: bytes, pos: int, size: int) -> tuple[str, int]:
    if pos + size > len(data):
        raise malformed("a message from a peer is cut off")
    try:
        return data[pos : pos + size].decode("utf-8"), pos + size
    except UnicodeDecodeError:
        raise malformed("a text from a peer that is not UTF-8") from None


def _is_controls(text: str) -> bool:
    """Whether it is what Origin.controls has: an object of numbers, or nothing."""
    if not text:
        return True
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and {type(each) for each in found.values()} <= {int}


def _is_via(text: str) -> bool:
    """Whether it is what Entry.via has: a node, a channel epoch and a number; or nothing."""
    parts = text.split("\n")
    return not text or (len(parts) == 3 and parts[2].isdecimal() and len(parts[2]) < 20)


def _publish_at(data: bytes, pos: int) -> tuple[int, int]:
    """Where its body begins and ends."""
    end = len(data)
    body, stop = frame(data, pos, end)
    if body == 0 or stop > end:
        raise malformed("a message from a peer is cut off")
    return body, stop
