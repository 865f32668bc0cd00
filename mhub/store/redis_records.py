"""Records as the bytes that the scripts of `mhub.store.redis_lua` take and give, and back.

What a session was sent is two things: a head of fixed size with what scripts look at, followed by
the Subscription Identifiers and the name of the shared subscription; and the message itself, which
no script reads.  So the form of a delivery is written down here and not taken from the table of its
fields.  Numbers are little-endian; a text or a message stands behind its length.
"""

import struct
from collections.abc import Callable, Iterable
from typing import Any, Final

from mhub.core.records import (
    SESSION,
    SUBSCRIPTION,
    Batch,
    DeliveryRecord,
    Row,
    SessionRecord,
    StoredSession,
    SubscriptionRecord,
)

HEAD: Final = struct.Struct("<QQIHBBIH")
"""A delivery: seq, mid, size_bytes, pid, released, QoS and retain, sizes of ids and share."""

_SIZE: Final = struct.Struct("<I")
_SID: Final = struct.Struct("<Q")
_GROUP: Final = struct.Struct("<QIQ")
_MESSAGE: Final = struct.Struct("<QII")
_CHANGE: Final = struct.Struct("<QQHB")
_REFS: Final = struct.Struct("<Qi")
_INCOMING: Final = struct.Struct("<QHB")
_FIELDS: Final = struct.Struct("<QI")
_STORED: Final = struct.Struct("<QQQ")

_HASH_FIELDS: Final = SESSION.fields[1:]  # sid is in the name of the hash
_READ: Final[dict[str, Callable[[bytes], Any]]] = {
    "integer": int,
    "clock": int,
    "time": float,
    "text": bytes.decode,
    "body": bytes,
}

_SUBSCRIPTION: Final = b"sub "
"""What the fields with subscriptions begin with in the hash of a session."""


def sections(batch: Batch) -> list[bytes]:
    """A batch, as the script COMMIT takes it: one argument for each kind of record."""
    waiting, flying = _deliveries(batch.deliveries)
    return [
        b"".join(
            _MESSAGE.pack(each.mid, each.refs, len(each.body)) + each.body
            for each in batch.messages
            if each.refs
        ),
        waiting,
        flying,
        b"".join(
            _CHANGE.pack(each.sid, each.seq, each.pid, each.released)
            for each in batch.changes
            if not each.dead
        ),
        _removals(batch.removals),
        b"".join(_REFS.pack(mid, by) for mid, by in batch.refs.items()),
        b"".join(_INCOMING.pack(*packet, waits) for packet, waits in batch.incoming.items()),
        b"".join(_session(each) for each in batch.sessions.values()),
        b"".join(
            _SID.pack(sid) + _text(name.encode()) + _text(_options(each))
            for (sid, name), each in batch.subscriptions.items()
        ),
        b"".join(_text(topic.encode()) + _text(body) for topic, body in batch.retained.items()),
        b"".join(_text(name.encode()) + _text(text.encode()) for name, text in batch.notes.items()),
        sids(batch.ended),
    ]


def grows(batch: Batch) -> bool:
    """Whether it may add anything, so that a server without memory refuses it."""
    added = any(batch.incoming.values()) or any(batch.retained.values())
    noted = any(batch.notes.values())
    subscribed = any(each is not None for each in batch.subscriptions.values())
    stored = len(batch.deliveries) > batch.dead or any(each.refs for each in batch.messages)
    return bool(added or noted or subscribed or stored or batch.sessions)


def sids(numbers: Iterable[int]) -> bytes:
    return b"".join(_SID.pack(sid) for sid in numbers)


def refs_of(counts: Iterable[tuple[int, int]]) -> bytes:
    """Pairs of mid and refs."""
    return b"".join(_FIELDS.pack(mid, refs) for mid, refs in counts)


def _text(data: bytes) -> bytes:
    return _SIZE.pack(len(data)) + data


def _deliveries(records: list[DeliveryRecord]) -> tuple[bytes, bytes]:
    """Those that wait and those in flight, session by session."""
    waiting: dict[int, list[bytes]] = {}
    flying: dict[int, list[bytes]] = {}
    sizes: dict[int, int] = {}
    size = _SIZE.pack
    for record in records:
        if record.dead:
            continue
        sid = record.sid
        head = _head(record)
        body = b"" if record.mid else record.body
        if record.pid:
            parts = flying.setdefault(sid, [])
            parts.append(b"%b%b%b" % (size(len(head) + len(body)), head, body))
        else:
            parts = waiting.setdefault(sid, [])
            parts.append(b"%b%b%b%b" % (size(len(head)), head, size(len(body)), body))
            sizes[sid] = sizes.get(sid, 0) + record.size_bytes
    return (
        b"".join(
            _GROUP.pack(sid, len(parts), sizes[sid]) + b"".join(parts)
            for sid, parts in waiting.items()
        ),
        b"".join(_FIELDS.pack(sid, len(parts)) + b"".join(parts) for sid, parts in flying.items()),
    )


def _head(record: DeliveryRecord) -> bytes:
    ids = record.ids
    share = record.share.encode() if record.share else b""
    head = HEAD.pack(
        record.seq,
        record.mid,
        record.size_bytes,
        record.pid,
        record.released,
        record.qos | (4 if record.retain else 0),
        len(ids),
        len(share),
    )
    return head + ids + share if ids or share else head


def _removals(places: list[tuple[int, int]]) -> bytes:
    groups: dict[int, list[int]] = {}
    for sid, seq in places:
        seqs = groups.get(sid)
        if seqs is None:
            groups[sid] = [seq]
        else:
            seqs.append(seq)
    return b"".join(
        struct.pack(f"<QI{len(seqs)}Q", sid, len(seqs), *seqs) for sid, seqs in groups.items()
    )


def _session(record: SessionRecord) -> bytes:
    parts = [
        _text(field.name.encode()) + _text(_show(getattr(record, field.name)))
        for field in _HASH_FIELDS
    ]
    return _FIELDS.pack(record.sid, 2 * len(parts)) + b"".join(parts)


def _options(record: SubscriptionRecord | None) -> bytes:
    return b" ".join(map(_show, SUBSCRIPTION.values(record)[2:])) if record is not None else b""


def _show(value: Any) -> bytes:
    # As text where it is text: an operator may want to look at it.
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return repr(value).encode() if isinstance(value, float) else b"%d" % value


class Answer:
    """The answer of a script, read from its beginning to its end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def more(self) -> bool:
        return self._at < len(self._data)

    def number(self) -> int:
        return int(self._take(_SIZE)[0])

    def large(self) -> int:
        return int(self._take(_SID)[0])

    def text(self) -> bytes:
        size = self.number()
        self._at += size
        return self._data[self._at - size : self._at]

    def row(self, sid: int) -> Row:
        """A delivery; its message follows, or stands behind its head if it is in flight."""
        record = _delivery(sid, self.text())
        body = self.text()
        if not record.mid:
            record.body = body = record.body or body
        return Row(record, body)

    def session(self) -> tuple[int, StoredSession | None, bool]:
        """A session, or only its sid if its record is gone: it has expired.

        And whether what is in flight to it is too much to come with it.
        """
        sid, queued, last_seq = self._take(_STORED)
        fields: dict[bytes, bytes] = {}
        for _ in range(self.number() // 2):
            name = self.text()
            fields[name] = self.text()
        pids = self._take(struct.Struct(f"<{self.number()}H"))
        flying = self.number()
        inflight = [self.row(sid) for _ in range(self.number())]
        more = flying > len(inflight)
        if b"client_id" not in fields:
            return sid, None, more
        stored = StoredSession(_session_of(sid, fields))
        stored.subscriptions = [
            _subscription(sid, name[len(_SUBSCRIPTION) :], value)
            for name, value in sorted(fields.items())
            if name.startswith(_SUBSCRIPTION)
        ]
        stored.incoming = sorted(pids)
        stored.inflight = sorted(inflight, key=_seq)
        stored.queued = queued
        stored.queued_bytes = int(fields.get(b"queued_bytes", 0))
        stored.last_seq = max([last_seq, *(row.record.seq for row in inflight)])
        return sid, stored, more

    def _take(self, shape: struct.Struct) -> tuple[int, ...]:
        found = shape.unpack_from(self._data, self._at)
        self._at += shape.size
        return found


def _seq(row: Row) -> int:
    return row.record.seq


def _delivery(sid: int, data: bytes) -> DeliveryRecord:
    seq, mid, size_bytes, pid, released, flags, ids_size, share_size = HEAD.unpack_from(data)
    record = DeliveryRecord(sid, seq)
    record.mid = mid
    record.size_bytes = size_bytes
    record.pid = pid
    record.released = released != 0
    record.qos = flags & 3
    record.retain = flags & 4 != 0
    share_from = HEAD.size + ids_size
    record.ids = data[HEAD.size : share_from]
    record.share = data[share_from : share_from + share_size].decode()
    record.body = data[share_from + share_size :]
    return record


def _session_of(sid: int, found: dict[bytes, bytes]) -> SessionRecord:
    values: list[Any] = [sid]
    for field in _HASH_FIELDS:
        data = found.get(field.name.encode())
        # It is missing where an earlier mhub wrote the session, which did not know it.
        values.append(field.default if data is None else _READ[field.kind.name](data))
    return SESSION.record(values)


def _subscription(sid: int, name: bytes, options: bytes) -> SubscriptionRecord:
    return SUBSCRIPTION.record([sid, name.decode(), *map(int, options.split())])
