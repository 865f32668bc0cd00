"""Records as bytes, for whatever carries them from node to node; it knows nothing of links.

    head      one byte for what it is (S session, R rows, B batch), one for SCHEMA
    record    its numbers, flags and times, and the sizes of its texts and data, as one struct; then
              the texts and data; each in the order of the fields of its Shape
    list      how many there are, four bytes; then each

Numbers are little-endian and as wide as the Kind of their field says.  Only what SCHEMA says is
read: there is one form of everything, so a node that knows another SCHEMA has to be told in time.

Both directions raise ValueError and nothing else: encoding, for a value beyond the bounds of its
field; decoding, for bytes that encoding does not make.  What is inside of a message is not looked
at: publish_of() does that.
"""

import struct
from collections.abc import Callable
from math import isfinite
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar

from mhub.core.fields import BODY, DATA, FLAG, TEXT, TIME, Shape
from mhub.core.records import (
    DELIVERY,
    MESSAGE,
    SCHEMA,
    SESSION,
    SUBSCRIPTION,
    Batch,
    ChangeRecord,
    Row,
    StoredSession,
)

T = TypeVar("T")

_WIDEST: Final = {"B": 0xFF, "H": 0xFFFF, "I": 0xFFFFFFFF, "Q": (1 << 64) - 1}
_SIZE: Final = struct.Struct("<I")
_NUMBER: Final = struct.Struct("<Q")
_CHANGE: Final = struct.Struct("<QQH?")
_PLACE: Final = struct.Struct("<QQ")
_REFS: Final = struct.Struct("<Qq")
_INCOMING: Final = struct.Struct("<QH?")
_BATCH: Final = struct.Struct("<QQ?")


class Layout(Generic[T]):
    """The form of one kind of record; a field that is left out comes back with its default."""

    def __init__(self, shape: Shape[T], *left_out: str) -> None:
        self._make = shape.make
        first, second = shape.fields[:2]
        self._first = first.default
        self._second = second.default
        kept = [field for field in shape.fields if field.name not in left_out]
        sized = [field for field in kept if field.kind in (TEXT, DATA, BODY)]
        fixed = [field for field in kept if field not in sized]
        self._texts = [(field.name, field.kind is TEXT) for field in sized]
        self._names = [field.name for field in fixed]
        self._numbers: Callable[[T], tuple[Any, ...]] = attrgetter(*self._names)
        codes = "".join([field.kind.code for field in fixed + sized])
        self._head = struct.Struct("<" + codes)
        self._head_size = self._head.size
        self._times = [n for n, field in enumerate(fixed) if field.kind is TIME]
        # What the struct does not bound by itself.
        self._bounds = [
            (n, field.kind.high)
            for n, field in enumerate(fixed)
            if field.kind not in (FLAG, TIME) and field.kind.high < _WIDEST[field.kind.code]
        ]

    def put(self, parts: list[bytes], record: T) -> None:
        numbers = self._numbers(record)
        self._check(numbers)
        texts: list[bytes] = []
        sizes: list[int] = []
        for name, is_text in self._texts:
            value = getattr(record, name)
            data: bytes = value.encode("utf-8") if is_text else value
            texts.append(data)
            sizes.append(len(data))
        parts.append(self._head.pack(*numbers, *sizes))
        parts.extend(texts)

    def take(self, data: bytes, pos: int) -> tuple[T, int]:
        at = pos + self._head_size
        if at > len(data):
            raise ValueError("cut off inside a record")
        values = self._head.unpack_from(data, pos)
        self._check(values)
        record = self._make(self._first, self._second)
        n = 0
        for name in self._names:
            setattr(record, name, values[n])
            n += 1
        for name, is_text in self._texts:
            size: int = values[n]
            n += 1
            if at + size > len(data):
                raise ValueError("cut off inside a record")
            value = data[at : at + size]
            setattr(record, name, value.decode("utf-8") if is_text else value)
            at += size
        return record, at

    def _check(self, values: tuple[Any, ...]) -> None:
        for n, high in self._bounds:
            value: int = values[n]
            if value > high:
                raise ValueError(f"{self._names[n]}: {value} is more than {high}")
        for n in self._times:
            if not isfinite(values[n]):
                raise ValueError(f"{self._names[n]}: {values[n]} is no time")


_SESSION: Final = Layout(SESSION)
_SUBSCRIPTION: Final = Layout(SUBSCRIPTION)
_MESSAGE: Final = Layout(MESSAGE)
_DELIVERY: Final = Layout(DELIVERY)
_ROW: Final = Layout(DELIVERY, "sid", "mid", "body")


def encode_session(stored: StoredSession) -> bytes:
    """A session, its subscriptions and its `incoming` packet ids; not what it is sent."""
    parts = [_head("S")]
    try:
        _SESSION.put(parts, stored.record)
        parts.append(_SIZE.pack(len(stored.subscriptions)))
        for subscription in stored.subscriptions:
            _SUBSCRIPTION.put(parts, subscription)
        pids = stored.incoming
        parts.append(struct.pack(f"<I{len(pids)}H", len(pids), *pids))
    except struct.error as error:
        raise ValueError(f"a session cannot be encoded: {error}") from None
    return b"".join(parts)


def decode_session(data: bytes) -> StoredSession:
    pos = _begin(data, "S")
    record, pos = _SESSION.take(data, pos)
    stored = StoredSession(record)
    count, pos = _count(data, pos)
    for _ in range(count):
        subscription, pos = _SUBSCRIPTION.take(data, pos)
        stored.subscriptions.append(subscription)
    count, pos = _count(data, pos)
    if pos + 2 * count > len(data):
        raise ValueError("cut off inside the packet ids")
    stored.incoming = list(struct.unpack_from(f"<{count}H", data, pos))
    _end(data, pos + 2 * count)
    return stored


def encode_rows(rows: list[Row]) -> bytes:
    """Deliveries with their messages.

    `sid` and `mid` are numbers of the store that they come from, and mean nothing in another one:
    both come back as 0, and each record has its message as its own.
    """
    parts = [_head("R"), _SIZE.pack(len(rows))]
    try:
        for row in rows:
            _ROW.put(parts, row.record)
            parts.append(_SIZE.pack(len(row.body)))
            parts.append(row.body)
    except struct.error as error:
        raise ValueError(f"a delivery cannot be encoded: {error}") from None
    return b"".join(parts)


def decode_rows(data: bytes) -> list[Row]:
    pos = _begin(data, "R")
    count, pos = _count(data, pos)
    rows: list[Row] = []
    for _ in range(count):
        record, pos = _ROW.take(data, pos)
        record.body, pos = _data(data, pos)
        rows.append(Row(record, record.body))
    _end(data, pos)
    return rows


def encode_batch(batch: Batch) -> bytes:
    """All that a store would do with a batch.

    What it would not look at is left out: deliveries and changes that are dead, and the body of a
    message with refs 0, of which only the number counts.
    """
    parts = [_head("B")]
    try:
        parts.append(_BATCH.pack(batch.number, batch.size_bytes, batch.urgent))
        _put_messages(parts, batch)
        _put_changes(parts, batch)
        _put_others(parts, batch)
    except struct.error as error:
        raise ValueError(f"a batch cannot be encoded: {error}") from None
    return b"".join(parts)


def decode_batch(data: bytes) -> Batch:
    pos = _begin(data, "B")
    values, pos = _take(_BATCH, data, pos)
    batch = Batch(values[0])
    batch.size_bytes = values[1]
    batch.urgent = values[2]
    pos = _take_messages(batch, data, pos)
    pos = _take_changes(batch, data, pos)
    _end(data, _take_others(batch, data, pos))
    return batch


def _put_messages(parts: list[bytes], batch: Batch) -> None:
    parts.append(_SIZE.pack(len(batch.messages)))
    for message in batch.messages:
        if message.refs:
            _MESSAGE.put(parts, message)
        else:
            _MESSAGE.put(parts, MESSAGE.make(message.mid, b""))
    deliveries = [delivery for delivery in batch.deliveries if not delivery.dead]
    parts.append(_SIZE.pack(len(deliveries)))
    for delivery in deliveries:
        _DELIVERY.put(parts, delivery)


def _take_messages(batch: Batch, data: bytes, pos: int) -> int:
    count, pos = _count(data, pos)
    for _ in range(count):
        message, pos = _MESSAGE.take(data, pos)
        batch.messages.append(message)
    count, pos = _count(data, pos)
    for _ in range(count):
        delivery, pos = _DELIVERY.take(data, pos)
        batch.deliveries.append(delivery)
    return pos


def _put_changes(parts: list[bytes], batch: Batch) -> None:
    changes = [change for change in batch.changes if not change.dead]
    parts.append(_SIZE.pack(len(changes)))
    for change in changes:
        parts.append(_CHANGE.pack(change.sid, change.seq, change.pid, change.released))
    parts.append(_SIZE.pack(len(batch.removals)))
    for sid, seq in batch.removals:
        parts.append(_PLACE.pack(sid, seq))
    parts.append(_SIZE.pack(len(batch.refs)))
    for mid, by in batch.refs.items():
        parts.append(_REFS.pack(mid, by))
    parts.append(_SIZE.pack(len(batch.incoming)))
    for packet, waits in batch.incoming.items():
        parts.append(_INCOMING.pack(packet[0], packet[1], waits))


def _take_changes(batch: Batch, data: bytes, pos: int) -> int:
    count, pos = _count(data, pos)
    for _ in range(count):
        values, pos = _take(_CHANGE, data, pos)
        batch.changes.append(ChangeRecord(values[0], values[1], values[2], values[3]))
    count, pos = _count(data, pos)
    for _ in range(count):
        values, pos = _take(_PLACE, data, pos)
        batch.removals.append((values[0], values[1]))
    count, pos = _count(data, pos)
    for _ in range(count):
        values, pos = _take(_REFS, data, pos)
        batch.refs[values[0]] = values[1]
    count, pos = _count(data, pos)
    for _ in range(count):
        values, pos = _take(_INCOMING, data, pos)
        batch.incoming[(values[0], values[1])] = values[2]
    return pos


def _put_others(parts: list[bytes], batch: Batch) -> None:
    parts.append(_SIZE.pack(len(batch.sessions)))
    for session in batch.sessions.values():
        _SESSION.put(parts, session)
    gone = [key for key, record in batch.subscriptions.items() if record is None]
    parts.append(_SIZE.pack(len(batch.subscriptions) - len(gone)))
    for subscription in batch.subscriptions.values():
        if subscription is not None:
            _SUBSCRIPTION.put(parts, subscription)
    parts.append(_SIZE.pack(len(gone)))
    for sid, name in gone:
        parts.append(_NUMBER.pack(sid))
        _put_data(parts, name.encode("utf-8"))
    parts.append(_SIZE.pack(len(batch.retained)))
    for topic, body in batch.retained.items():
        _put_data(parts, topic.encode("utf-8"))
        _put_data(parts, body)
    parts.append(_SIZE.pack(len(batch.notes)))
    for name, text in batch.notes.items():
        _put_data(parts, name.encode("utf-8"))
        _put_data(parts, text.encode("utf-8"))
    parts.append(_SIZE.pack(len(batch.ended)))
    for sid in batch.ended:
        parts.append(_NUMBER.pack(sid))


def _take_others(batch: Batch, data: bytes, pos: int) -> int:
    count, pos = _count(data, pos)
    for _ in range(count):
        session, pos = _SESSION.take(data, pos)
        batch.sessions[session.sid] = session
    count, pos = _count(data, pos)
    for _ in range(count):
        subscription, pos = _SUBSCRIPTION.take(data, pos)
        batch.subscriptions[(subscription.sid, subscription.name)] = subscription
    count, pos = _count(data, pos)
    for _ in range(count):
        values, pos = _take(_NUMBER, data, pos)
        name, pos = _data(data, pos)
        batch.subscriptions[(values[0], name.decode("utf-8"))] = None
    count, pos = _count(data, pos)
    for _ in range(count):
        topic, pos = _data(data, pos)
        batch.retained[topic.decode("utf-8")], pos = _data(data, pos)
    count, pos = _count(data, pos)
    for _ in range(count):
        name, pos = _data(data, pos)
        text, pos = _data(data, pos)
        batch.notes[name.decode("utf-8")] = text.decode("utf-8")
    count, pos = _count(data, pos)
    for _ in range(count):
        values, pos = _take(_NUMBER, data, pos)
        batch.ended.append(values[0])
    return pos


def _head(kind: str) -> bytes:
    return bytes([ord(kind), SCHEMA])


def _begin(data: bytes, kind: str) -> int:
    """The position behind the head."""
    if len(data) < 2 or data[0] != ord(kind):
        raise ValueError(f"not of the kind {kind}")
    if data[1] != SCHEMA:
        raise ValueError(f"records of schema {data[1]}; this mhub knows {SCHEMA}")
    return 2


def _end(data: bytes, pos: int) -> None:
    if pos != len(data):
        raise ValueError("more bytes than there are records")


def _put_data(parts: list[bytes], data: bytes) -> None:
    parts.append(_SIZE.pack(len(data)))
    parts.append(data)


def _data(data: bytes, pos: int) -> tuple[bytes, int]:
    size, pos = _count(data, pos)
    if pos + size > len(data):
        raise ValueError("cut off inside a text or a message")
    return data[pos : pos + size], pos + size


def _count(data: bytes, pos: int) -> tuple[int, int]:
    if pos + 4 > len(data):
        raise ValueError("cut off inside a size")
    return (
        data[pos] | data[pos + 1] << 8 | data[pos + 2] << 16 | data[pos + 3] << 24,
        pos + 4,
    )


def _take(shape: struct.Struct, data: bytes, pos: int) -> tuple[tuple[Any, ...], int]:
    at = pos + shape.size
    if at > len(data):
        raise ValueError("cut off inside a record")
    return shape.unpack_from(data, pos), at
