"""Rows as records: what a hub gets at the start, from a queue, and what pages() are made of."""

import sqlite3
from collections.abc import Callable
from typing import Final

from mhub.core.journal import (
    Batch,
    Contents,
    DeliveryRecord,
    MessageRecord,
    Row,
    SessionRecord,
    StoredSession,
    SubscriptionRecord,
)
from mhub.store.sqlite_rows import DELIVERY, SESSION, SUBSCRIPTION, Values

# A body that is missing, as only damage makes it, comes as b"", which is no message.
_ROWS: Final = (
    f"SELECT {', '.join('d.' + name for name in DELIVERY.split(', '))},"
    " CASE d.mid WHEN 0 THEN d.body ELSE coalesce(m.body, x'') END"
    " FROM deliveries AS d LEFT JOIN messages AS m ON m.mid = d.mid"
)
LOAD: Final = f"{_ROWS} WHERE d.sid = ? AND d.seq > ? AND d.pid = 0 ORDER BY d.seq LIMIT ?"
_INFLIGHT: Final = f"{_ROWS} WHERE d.sid = ? AND d.pid <> 0 ORDER BY d.seq LIMIT ?"
_LINES: Final = (
    "SELECT sid, count(*), sum(size_bytes), max(seq), sum(pid <> 0) FROM deliveries GROUP BY sid"
)


def _session(values: Values) -> SessionRecord:
    record = SessionRecord(values[0], values[1])
    record.username, record.listener, record.mount, record.expiry_s = values[2:6]
    record.ends_at, record.will_delay_s, record.will_at, record.will = values[6:]
    return record


def _subscription(values: Values) -> SubscriptionRecord:
    record = SubscriptionRecord(values[0], values[1])
    record.qos = values[2]
    record.no_local = bool(values[3])
    record.retain_as_published = bool(values[4])
    record.identifier = values[5]
    return record


def _delivery(values: Values) -> DeliveryRecord:
    sid, seq, mid, size_bytes, qos, retain, pid, released, ids, share, _ = values
    record = DeliveryRecord(sid, seq)
    record.mid = mid
    record.size_bytes = size_bytes
    record.qos = qos
    record.retain = retain != 0
    record.pid = pid
    record.released = released != 0
    record.ids = ids
    record.share = share
    return record


def row_of(values: Values) -> Row:
    return Row(_delivery(values), values[-1])


def contents_of(db: sqlite3.Connection) -> Contents:
    contents = Contents()
    numbers = db.execute("SELECT last_sid, last_mid FROM counters").fetchone()
    contents.last_sid, contents.last_mid = numbers
    contents.retained = [body for [body] in db.execute("SELECT body FROM retained")]
    contents.notes = dict(db.execute("SELECT name, text FROM notes"))
    found: dict[int, StoredSession] = {}
    for values in db.execute(f"SELECT {SESSION} FROM sessions"):
        found[values[0]] = StoredSession(_session(values))
    for values in db.execute(f"SELECT {SUBSCRIPTION} FROM subscriptions"):
        if values[0] in found:
            found[values[0]].subscriptions.append(_subscription(values))
    for sid, pid in db.execute("SELECT sid, pid FROM incoming"):
        if sid in found:
            found[sid].incoming.append(pid)
    # The queues may be larger than the memory: they are only counted here.
    for sid, deliveries, size_bytes, last_seq, inflight in db.execute(_LINES):
        if sid in found:
            stored = found[sid]
            stored.last_seq = last_seq
            # With the number of rows as a limit, the search ends at the last one.
            rows = db.execute(_INFLIGHT, (sid, inflight)) if inflight else ()
            stored.inflight = [row_of(values) for values in rows]
            stored.queued = deliveries - len(stored.inflight)
            sent_bytes = sum(row.record.size_bytes for row in stored.inflight)
            stored.queued_bytes = size_bytes - sent_bytes
    contents.sessions = list(found.values())
    return contents


# pages(): each kind of row from a key on


def _add_message(batch: Batch, values: Values) -> None:
    record = MessageRecord(values[0], values[2])
    record.refs = values[1]
    batch.messages.append(record)


def _add_delivery(batch: Batch, values: Values) -> None:
    record = _delivery(values)
    record.body = values[-1]
    batch.deliveries.append(record)


def _add_incoming(batch: Batch, values: Values) -> None:
    batch.incoming[values[0], values[1]] = True


def _add_session(batch: Batch, values: Values) -> None:
    batch.sessions[values[0]] = _session(values)


def _add_subscription(batch: Batch, values: Values) -> None:
    batch.subscriptions[values[0], values[1]] = _subscription(values)


def _add_retained(batch: Batch, values: Values) -> None:
    batch.retained[values[0]] = values[1]


def _add_note(batch: Batch, values: Values) -> None:
    batch.notes[values[1]] = values[2]


PAGES: Final[tuple[tuple[str, Values, Callable[[Batch, Values], None]], ...]] = (
    (
        "SELECT mid, refs, body FROM messages WHERE mid > ? ORDER BY mid LIMIT ?",
        (-1,),
        _add_message,
    ),
    (
        f"SELECT {DELIVERY}, body FROM deliveries WHERE (sid, seq) > (?, ?)"
        " ORDER BY sid, seq LIMIT ?",
        (-1, -1),
        _add_delivery,
    ),
    (
        "SELECT sid, pid FROM incoming WHERE (sid, pid) > (?, ?) ORDER BY sid, pid LIMIT ?",
        (-1, -1),
        _add_incoming,
    ),
    (
        f"SELECT {SESSION} FROM sessions WHERE sid > ? ORDER BY sid LIMIT ?",
        (-1,),
        _add_session,
    ),
    (
        f"SELECT {SUBSCRIPTION} FROM subscriptions WHERE (sid, name) > (?, ?)"
        " ORDER BY sid, name LIMIT ?",
        (-1, ""),
        _add_subscription,
    ),
    (
        "SELECT topic, body FROM retained WHERE topic > ? ORDER BY topic LIMIT ?",
        ("",),
        _add_retained,
    ),
    (
        # The 1 is there for a key before the first one: a name may be any text, even none.
        "SELECT 1, name, text FROM notes WHERE (1, name) > (?, ?) ORDER BY name LIMIT ?",
        (0, ""),
        _add_note,
    ),
)
"""Select, the key before the first one, and what a row becomes."""
