"""What can be wrong with the contents of a database, as queries: a line for each that is found."""

import sqlite3
from collections.abc import Iterable, Iterator
from typing import Final

from mhub.core.records import publish_of

MOST_LINES: Final = 1000
"""How many problems of a kind are named."""

_CHECKS: Final = (
    "SELECT 'delivery ' || sid || '/' || seq || ': there is no such session' FROM deliveries"
    " WHERE sid NOT IN (SELECT sid FROM sessions)",
    "SELECT 'delivery ' || sid || '/' || seq || ': there is no message ' || mid FROM deliveries"
    " WHERE mid <> 0 AND mid NOT IN (SELECT mid FROM messages)",
    "SELECT 'message ' || m.mid || ': refs ' || m.refs || ', but ' || coalesce(n, 0)"
    " || ' deliveries' FROM messages AS m LEFT JOIN"
    " (SELECT mid, count(*) AS n FROM deliveries WHERE mid <> 0 GROUP BY mid) AS counted"
    " ON counted.mid = m.mid WHERE m.refs <> coalesce(n, 0)",
    "SELECT 'subscription ' || sid || '/' || name || ': there is no such session'"
    " FROM subscriptions WHERE sid NOT IN (SELECT sid FROM sessions)",
    "SELECT 'incoming ' || sid || '/' || pid || ': there is no such session'"
    " FROM incoming WHERE sid NOT IN (SELECT sid FROM sessions)",
    "SELECT 'last_sid: there is a higher one, ' || sid FROM sessions, counters"
    " WHERE sid > last_sid",
    "SELECT 'last_mid: there is a higher one, ' || mid FROM messages, counters"
    " WHERE mid > last_mid",
    "SELECT 'note ' || name || ': it has no text' FROM notes WHERE text = ''",
)
_BODIES: Final = (
    "SELECT 'message ' || mid, body FROM messages",
    "SELECT 'delivery ' || sid || '/' || seq, body FROM deliveries WHERE mid = 0",
    "SELECT 'retained ' || topic, body FROM retained",
    "SELECT 'will of session ' || sid, will FROM sessions WHERE will <> x''",
)


def problems(db: sqlite3.Connection) -> Iterator[str]:
    wrong = [line for [line] in db.execute("PRAGMA integrity_check") if line != "ok"]
    yield from wrong
    if not wrong:  # else what the rows say is worth nothing
        for select in _CHECKS:
            yield from [line for [line] in db.execute(f"{select} LIMIT {MOST_LINES}")]
        for select in _BODIES:
            yield from _wrong_bodies(db.execute(select))


def _wrong_bodies(rows: Iterable[tuple[str, bytes]]) -> list[str]:
    wrong: list[str] = []
    for where, body in rows:
        try:
            publish_of(body, 0.0)
        except ValueError as error:
            wrong.append(f"{where}: {error}")
        if len(wrong) == MOST_LINES:
            break
    return wrong
