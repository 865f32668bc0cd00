"""A batch as the statements that apply it: each with its rows, in the order of a batch's fields.

Nothing here touches a database; the columns are the fields of the records, in `schema/*.sql` too.
"""

from typing import Any, Final

from mhub.core.fields import Shape
from mhub.core.records import DELIVERY, MESSAGE, SESSION, SUBSCRIPTION, Batch
from mhub.store.contract import expires_at_of

Values = tuple[Any, ...]
Work = list[tuple[str, list[Values]]]
"""A batch as statements, each with the rows to execute it with."""


def columns(shape: Shape[Any]) -> str:
    return ", ".join(shape.names)


def _put(table: str, shape: Shape[Any]) -> str:
    places = ",".join("?" * len(shape.names))
    return f"INSERT OR REPLACE INTO {table} ({columns(shape)}) VALUES ({places})"


_PUT_SESSION: Final = _put("sessions", SESSION)
_PUT_SUBSCRIPTION: Final = _put("subscriptions", SUBSCRIPTION)
_DROP_SUBSCRIPTION: Final = "DELETE FROM subscriptions WHERE sid = ? AND name = ?"
_PUT_MESSAGE: Final = _put("messages", MESSAGE)
_PUT_DELIVERY: Final = _put("deliveries", DELIVERY)
_CHANGE: Final = "UPDATE deliveries SET pid = ?, released = ? WHERE sid = ? AND seq = ?"
_REMOVE: Final = "DELETE FROM deliveries WHERE sid = ? AND seq = ?"
_REFER: Final = "UPDATE messages SET refs = refs + ? WHERE mid = ?"
_DROP_MESSAGE: Final = "DELETE FROM messages WHERE mid = ? AND refs <= 0"
_PUT_INCOMING: Final = "INSERT OR IGNORE INTO incoming (sid, pid) VALUES (?,?)"
_DROP_INCOMING: Final = "DELETE FROM incoming WHERE sid = ? AND pid = ?"
_PUT_RETAINED: Final = "INSERT OR REPLACE INTO retained (topic, expires_at, body) VALUES (?,?,?)"
_DROP_RETAINED: Final = "DELETE FROM retained WHERE topic = ?"
_PUT_NOTE: Final = "INSERT OR REPLACE INTO notes (name, text) VALUES (?,?)"
_DROP_NOTE: Final = "DELETE FROM notes WHERE name = ?"
_COUNT: Final = (
    "UPDATE counters SET last_sid = max(last_sid, ?), last_mid = max(last_mid, ?),"
    " commits = commits + 1"
)
END: Final = (
    # A session may have several deliveries of one message.
    "UPDATE messages SET refs = refs - gone.deliveries FROM"
    " (SELECT mid, count(*) AS deliveries FROM deliveries WHERE sid = ? AND mid <> 0 GROUP BY mid)"
    " AS gone WHERE messages.mid = gone.mid",
    "DELETE FROM messages WHERE refs <= 0"
    " AND mid IN (SELECT mid FROM deliveries WHERE sid = ? AND mid <> 0)",
    "DELETE FROM deliveries WHERE sid = ?",
    "DELETE FROM incoming WHERE sid = ?",
    "DELETE FROM subscriptions WHERE sid = ?",
    "DELETE FROM sessions WHERE sid = ?",
)
"""In this order: the messages are found by the deliveries."""


def work_of(batch: Batch) -> Work:
    sids = (*batch.sessions, *batch.ended)
    mids = [each.mid for each in batch.messages]
    subscriptions = batch.subscriptions.items()
    ended: list[Values] = [(sid,) for sid in batch.ended]
    work: Work = [
        (_COUNT, [(max(sids, default=0), max(mids, default=0))]),
        (_PUT_MESSAGE, [MESSAGE.values(each) for each in batch.messages if each.refs]),
        (_PUT_DELIVERY, [DELIVERY.values(each) for each in batch.deliveries if not each.dead]),
        (_CHANGE, [(each.pid, each.released, each.sid, each.seq) for each in batch.changes]),
        (_REMOVE, [*batch.removals]),
        (_REFER, [(by, mid) for mid, by in batch.refs.items() if by]),
        (_DROP_MESSAGE, [(mid,) for mid, by in batch.refs.items() if by < 0]),
        (_PUT_INCOMING, [packet for packet, waits in batch.incoming.items() if waits]),
        (_DROP_INCOMING, [packet for packet, waits in batch.incoming.items() if not waits]),
        (_PUT_SESSION, [SESSION.values(each) for each in batch.sessions.values()]),
        (_PUT_SUBSCRIPTION, [SUBSCRIPTION.values(each) for _, each in subscriptions if each]),
        (_DROP_SUBSCRIPTION, [key for key, each in subscriptions if each is None]),
        (
            _PUT_RETAINED,
            [(topic, expires_at_of(body), body) for topic, body in batch.retained.items() if body],
        ),
        (_DROP_RETAINED, [(topic,) for topic, body in batch.retained.items() if not body]),
        (_PUT_NOTE, [(name, text) for name, text in batch.notes.items() if text]),
        (_DROP_NOTE, [(name,) for name, text in batch.notes.items() if not text]),
        *((statement, ended) for statement in END),
    ]
    return [(statement, rows) for statement, rows in work if rows]
