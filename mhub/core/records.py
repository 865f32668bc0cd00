"""What a store keeps, as records, and a batch of changes to it.

    Journal (`mhub.core.journal`)  writes down what changed, as one Batch a turn
    Batch                        goes to the store as a whole, all of it or nothing
    Row                          what the store gives back of a queue
    Contents                     what the store gives back at the start

A batch says how things shall be, not what to do: applied twice it has the effect of once, except
for `refs`, so a store that is unsure whether a batch arrived has to know its number.  Times in
records are seconds of the Unix epoch, since the hub's clock does not survive the process.
"""

import struct
from typing import Final

from mhub.core.fields import (
    BODY,
    CLOCK,
    COUNT,
    DATA,
    FLAG,
    NUMBER,
    QOS,
    TEXT,
    TIME,
    U16,
    U28,
    U32,
    Shape,
)
from mhub.wire.primitives import read_u64, u32, u64
from mhub.wire.publish import Publish, topic_field

SCHEMA: Final = 4
"""The version of everything in here; a store that holds a higher one is left alone."""

HEAD: Final = struct.Struct("<BBqidHI")
"""A message: QoS and retain, 0, expiry_s, expiry_at, expires_at, sizes of topic and properties."""

HEAD_SIZE: Final = 28

EXPIRES_AT: Final = struct.Struct("<d")
EXPIRES_AT_POS: Final = 14

MARKED: Final = 8
"""A flag beside QoS and retain: eight bytes that say nothing any more and the timestamp of the
cluster follow the head."""

MARKS_SIZE: Final = 16

OWNED: Final = 16
"""Another flag: then come the size of `owner`, four bytes, and its text."""


class SessionRecord:
    """A session without its subscriptions and messages."""

    def __init__(self, sid: int, client_id: str) -> None:
        self.sid = sid  # never used again for another session
        self.client_id = client_id
        self.principal = ""  # who its client is: Principal.to_text()
        self.listener = ""  # whose limits it has until it comes back
        self.mount = ""
        self.expiry_s = 0  # 0: it ends with its connection, and so with the process
        self.ends_at = 0.0  # 0: not before its connection does
        self.will = b""  # a message(), or nothing
        self.will_delay_s = 0
        self.will_at = 0.0  # 0: not before its connection ends
        self.epoch = 0  # of the claim under which this node holds it; 0: it is in no cluster
        self.began = 0  # the epoch with which it began anew, that is, without an earlier state


SESSION: Final = Shape(
    SessionRecord,
    ("sid", NUMBER),
    ("client_id", TEXT),
    ("principal", TEXT),
    ("listener", TEXT),
    ("mount", TEXT),
    ("expiry_s", U32),
    ("ends_at", TIME),
    ("will", BODY),
    ("will_delay_s", U32),
    ("will_at", TIME),
    ("epoch", CLOCK),
    ("began", CLOCK),
)


class SubscriptionRecord:
    def __init__(self, sid: int, name: str) -> None:
        self.sid = sid
        self.name = name  # as the client wrote it, with $share/GROUP/
        self.qos = 0
        self.no_local = False
        self.retain_as_published = False
        self.identifier = 0  # the Subscription Identifier; 0: none


SUBSCRIPTION: Final = Shape(
    SubscriptionRecord,
    ("sid", NUMBER),
    ("name", TEXT),
    ("qos", QOS),
    ("no_local", FLAG),
    ("retain_as_published", FLAG),
    ("identifier", U28),
)


class MessageRecord:
    """A message that several deliveries share."""

    def __init__(self, mid: int, body: bytes) -> None:
        self.mid = mid
        self.refs = 0  # deliveries with this mid
        self.body = body
        self.batch = 0  # number of the batch that brings it


MESSAGE: Final = Shape(MessageRecord, ("mid", NUMBER), ("body", BODY), ("refs", U32))


class DeliveryRecord:
    """A message on its way to one session; `seq` is its place in the session's queue."""

    def __init__(self, sid: int, seq: int) -> None:
        self.sid = sid
        self.seq = seq
        self.mid = 0  # of the MessageRecord; 0: the message is in `body`
        self.body = b""
        self.size_bytes = 0  # that count for the bounds of a queue: topic and payload
        self.qos = 0
        self.retain = False
        self.ids = b""  # Subscription Identifiers as properties
        self.share = ""  # the name of the shared subscription that it came by
        self.pid = 0  # 0: it waits in the queue, else it is in flight
        self.released = False  # QoS 2: PUBREC came
        self.born = 0  # number of the batch that brings it
        self.batch = 0  # number of the batch with its last change, which is
        self.change: ChangeRecord | None = None  # this one, if it did not come with its birth
        self.dead = False  # it was over before its batch was taken: nothing to store


DELIVERY: Final = Shape(
    DeliveryRecord,
    ("sid", NUMBER),
    ("seq", COUNT),
    ("mid", COUNT),
    ("body", BODY),
    ("size_bytes", U32),
    ("qos", QOS),
    ("retain", FLAG),
    ("ids", DATA),
    ("share", TEXT),
    ("pid", U16),
    ("released", FLAG),
)
"""Only what is stored: the rest is the journal's own, and ends with the process."""


class ChangeRecord:
    """What happened to a delivery of an earlier batch."""

    def __init__(self, sid: int, seq: int, pid: int, released: bool) -> None:
        self.sid = sid
        self.seq = seq
        self.pid = pid
        self.released = released
        self.dead = False  # what it changes was over before the batch was taken


class Batch:
    """All changes of a turn or more.  A store applies it in the order of these fields."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.messages: list[MessageRecord] = []  # those with refs 0 are not to be stored
        self.deliveries: list[DeliveryRecord] = []  # but for the dead ones
        self.changes: list[ChangeRecord] = []  # of deliveries that may be gone
        self.removals: list[tuple[int, int]] = []  # (sid, seq), which is there
        self.refs: dict[int, int] = {}  # mid -> by how much its refs fall, as -1; at 0 it goes
        self.incoming: dict[tuple[int, int], bool] = {}  # (sid, QoS 2 packet id): waits for PUBREL?
        self.sessions: dict[int, SessionRecord] = {}  # sid -> as it is now
        self.subscriptions: dict[tuple[int, str], SubscriptionRecord | None] = {}  # None: removed
        self.retained: dict[str, bytes] = {}  # topic -> message(); b"": erased
        self.notes: dict[str, str] = {}  # name -> what is to be remembered; "": nothing any more
        self.ended: list[int] = []  # sids: sessions to remove with all they had
        self.dead = 0  # of the deliveries
        self.size_bytes = 0
        self.urgent = False  # somebody waits for it

    def touched(self) -> bool:
        """Whether anything was written down."""
        return bool(self.deliveries) or self._others()

    def worth_storing(self) -> bool:
        """Whether anything of it is still to be done."""
        return len(self.deliveries) > self.dead or self._others()

    def _others(self) -> bool:
        return bool(
            self.changes
            or self.removals
            or self.refs
            or self.incoming
            or self.sessions
            or self.subscriptions
            or self.retained
            or self.notes
            or self.ended
        )


class Row:
    """One delivery as it comes back from a store, with its message."""

    def __init__(self, record: DeliveryRecord, body: bytes) -> None:
        self.record = record
        self.body = body


class StoredSession:
    """One session as it comes back at the start."""

    def __init__(self, record: SessionRecord) -> None:
        self.record = record
        self.subscriptions: list[SubscriptionRecord] = []
        self.incoming: list[int] = []  # QoS 2 packet ids that wait for PUBREL
        self.inflight: list[Row] = []  # in the order of their seq
        self.queued = 0  # how many wait with pid 0; load() brings them
        self.queued_bytes = 0
        self.last_seq = 0  # the highest one there is


class Contents:
    """All that a hub needs to go on where an earlier one ended."""

    def __init__(self) -> None:
        self.sessions: list[StoredSession] = []
        self.retained: list[bytes] = []
        self.notes: dict[str, str] = {}
        self.last_sid = 0  # the highest one ever used
        self.last_mid = 0


def message(publish: Publish, clock_offset_s: float) -> bytes:
    """A message as bytes; `clock_offset_s` is what turns the hub's clock into the time of day."""
    expires_at = publish.expires_at + clock_offset_s if publish.expires_at else 0.0
    marks = b""
    flags = publish.qos | (4 if publish.retain else 0)
    if publish.hlc:
        marks = u64(0) + u64(publish.hlc)
        flags |= MARKED
    if publish.owner:
        owner = publish.owner.encode("utf-8")
        marks += u32(len(owner)) + owner
        flags |= OWNED
    head = HEAD.pack(
        flags,
        0,
        publish.expiry_s,
        publish.expiry_at,
        expires_at,
        len(publish.topic_data),
        len(publish.properties),
    )
    return b"%b%b%b%b%b" % (
        head,
        marks,
        publish.topic_data,
        publish.properties,
        publish.payload,
    )


def publish_of(body: bytes, clock_offset_s: float) -> Publish:
    """The message that message() made bytes of; ValueError if it did not."""
    if len(body) < HEAD_SIZE:
        raise ValueError("a stored message is cut off")
    flags, _, expiry_s, expiry_at, expires_at, topic_size, properties_size = HEAD.unpack(
        body[:HEAD_SIZE]
    )
    topic_from = HEAD_SIZE + MARKS_SIZE if flags & MARKED else HEAD_SIZE
    owner = ""
    if flags & OWNED:
        owner_from = topic_from + 4
        topic_from = owner_from + int.from_bytes(body[topic_from:owner_from], "big")
        owner = body[owner_from:topic_from].decode("utf-8")
    properties_from = topic_from + topic_size
    payload_from = properties_from + properties_size
    if payload_from > len(body):
        raise ValueError("a stored message is cut off")
    topic_data = body[topic_from:properties_from]
    found = Publish(topic_data, body[payload_from:], flags & 3, flags & 4 != 0)
    found.topic = topic_data.decode("utf-8")
    found.topic_field = topic_field(topic_data)
    found.properties = body[properties_from:payload_from]
    found.expiry_s = expiry_s
    found.expiry_at = expiry_at
    found.expires_at = expires_at - clock_offset_s if expires_at else 0.0
    found.owner = owner
    if flags & MARKED:
        found.hlc, _ = read_u64(body, HEAD_SIZE + 8)
    return found


def shifted(body: bytes, by: float) -> bytes:
    """A stored message whose times of day are those of another machine."""
    expires_at = EXPIRES_AT.unpack_from(body, EXPIRES_AT_POS)[0] if len(body) >= HEAD_SIZE else 0.0
    if not expires_at:
        return body
    patch = EXPIRES_AT.pack(expires_at + by)
    return body[:EXPIRES_AT_POS] + patch + body[EXPIRES_AT_POS + EXPIRES_AT.size :]
