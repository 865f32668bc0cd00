"""Rows as records: what a hub gets at the start, from a queue, and what pages() are made of."""

import sqlite3
from collections.abc import Callable
from typing import Final

from mhub.core.records import (
    DELIVERY,
    MESSAGE,
    SESSION,
    SUBSCRIPTION,
    Batch,
    Contents,
    Row,
    StoredSession,
)
from mhub.store.sqlite_rows import Values, columns

# A body that is missing, as only damage makes it, comes as b"", which is no message.
_BODY: Final = "CASE d.mid WHEN 0 THEN d.body ELSE coalesce(m.body, x'') END"
_ROW: Final = ", ".join(_BODY if name == "body" else f"d.{name}" for name in DELIVERY.names)
_ROWS: Final = f"SELECT {_ROW} FROM deliveries AS d LEFT JOIN messages AS m ON m.mid = d.mid"
LOAD: Final = f"{_ROWS} WHERE d.sid = ? AND d.seq > ? AND d.pid = 0 ORDER BY d.seq LIMIT ?"
_INFLIGHT: Final = f"{_ROWS} WHERE d.sid = ? AND d.pid <> 0 ORDER BY d.seq LIMIT ?"
_LINES: Final = (
    "SELECT sid, count(*), sum(size_bytes), max(seq), sum(pid <> 0) FROM deliveries GROUP BY sid"
)


def row_of(values: Values) -> Row:
    record = DELIVERY.record(values)
    body, record.body = record.body, b""
    return Row(record, body)


def contents_of(db: sqlite3.Connection) -> Contents:
    contents = Contents()
    numbers = db.execute("SELECT last_sid, last_mid FROM counters").fetchone()
    contents.last_sid, contents.last_mid = numbers
    contents.retained = [body for [body] in db.execute("SELECT body FROM retained")]
    contents.notes = dict(db.execute("SELECT name, text FROM notes"))
    found: dict[int, StoredSession] = {}
    for values in db.execute(f"SELECT {columns(SESSION)} FROM sessions"):
        found[values[0]] = StoredSession(SESSION.record(values))
    for values in db.execute(f"SELECT {columns(SUBSCRIPTION)} FROM subscriptions"):
        if values[0] in found:
            found[values[0]].subscriptions.append(SUBSCRIPTION.record(values))
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
    batch.messages.append(MESSAGE.record(values))


def _add_delivery(batch: Batch, values: Values) -> None:
    batch.deliveries.append(DELIVERY.record(values))


def _add_incoming(batch: Batch, values: Values) -> None:
    batch.incoming[values[0], values[1]] = True


def _add_session(batch: Batch, values: Values) -> None:
    batch.sessions[values[0]] = SESSION.record(values)


def _add_subscription(batch: Batch, values: Values) -> None:
    batch.subscriptions[values[0], values[1]] = SUBSCRIPTION.record(values)


def _add_retained(batch: Batch, values: Values) -> None:
    batch.retained[values[0]] = values[1]


def _add_note(batch: Batch, values: Values) -> None:
    batch.notes[values[1]] = values[2]


def _page(table: str, columns: str, key: str) -> str:
    places = ",".join("?" * (key.count(",") + 1))
    return f"SELECT {columns} FROM {table} WHERE ({key}) > ({places}) ORDER BY {key} LIMIT ?"


PAGES: Final[tuple[tuple[str, Values, Callable[[Batch, Values], None]], ...]] = (
    (_page("messages", columns(MESSAGE), "mid"), (-1,), _add_message),
    (_page("deliveries", columns(DELIVERY), "sid, seq"), (-1, -1), _add_delivery),
    (_page("incoming", "sid, pid", "sid, pid"), (-1, -1), _add_incoming),
    (_page("sessions", columns(SESSION), "sid"), (-1,), _add_session),
    (_page("subscriptions", columns(SUBSCRIPTION), "sid, name"), (-1, ""), _add_subscription),
    (_page("retained", "topic, body", "topic"), ("",), _add_retained),
    (
        # The 1 is there for a key before the first one: a name may be any text, even none.
        "SELECT 1, name, text FROM notes WHERE (1, name) > (?, ?) ORDER BY name LIMIT ?",
        (0, ""),
        _add_note,
    ),
)
"""Select, the key before the first one, and what a row becomes."""
