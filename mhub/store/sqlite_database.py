"""The thread's side of the store: the one connection to the file, which no other thread touches.

A batch is one transaction, and so is the start, which removes what is over.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator
from typing import Final

from mhub.core.records import Batch, Contents, MessageRecord, Row
from mhub.store.contract import StoreBroken, StoreError
from mhub.store.sqlite_access import fault_at
from mhub.store.sqlite_check import problems
from mhub.store.sqlite_errors import explained
from mhub.store.sqlite_file import check_version, close_database, locked, look, make, upgrade
from mhub.store.sqlite_records import LOAD, contents_of, row_of
from mhub.store.sqlite_rows import END, Values, Work

CACHE_KIB: Final = 16_384
WAL_BYTES: Final = 16 << 20
"""A WAL that a large batch made longer is cut to this, once it was copied to the file."""

PAGE: Final = 500
PAGE_BYTES: Final = 1 << 20
"""Rows in one batch of pages(), or fewer if they are so large."""

# One with a will comes to the hub, which publishes it.
_OVER: Final = (
    "SELECT sid FROM sessions WHERE (expiry_s = 0 OR (ends_at > 0 AND ends_at <= ?)) AND will = x''"
)


class Database:
    """All of it blocks, so all but wants_tidying() is for the thread."""

    busy_s = 1.0  # a call waits for another process that has the file, then its caller tries again
    tidy_every = 64  # commits
    spare_pages = 2560  # free pages that stay in the file, for the next messages: 10 MiB
    most_pages = 1000  # given back to the system at a time

    def __init__(self, path: str, synchronous: str) -> None:
        self.path = path
        self._synchronous = synchronous
        self._lock = -1
        self._db: sqlite3.Connection | None = None
        self._commits = 0  # of all batches that are in the file for certain
        self._unsure = False  # whether the batch after them is
        self._untidied = 0

    def open(self, now: float) -> Contents:
        fault = fault_at(self.path)
        if fault:
            raise StoreBroken(fault)
        directory = os.path.dirname(self.path)
        os.makedirs(directory, mode=0o700, exist_ok=True)
        self._lock = locked(self.path)
        if os.path.exists(self.path) and os.path.getsize(self.path):
            look(self.path)  # once more: it may have come meanwhile
        else:
            make(self.path)
        self._connect()
        return self._begin(now)

    def _connect(self) -> None:
        db = self._db = sqlite3.connect(self.path, timeout=self.busy_s, isolation_level=None)
        [version] = db.execute("PRAGMA user_version").fetchone()
        check_version(self.path, version)  # that of the WAL, which may be newer than the file
        db.execute("PRAGMA journal_mode = WAL")
        db.execute(f"PRAGMA synchronous = {self._synchronous}")
        db.execute(f"PRAGMA journal_size_limit = {WAL_BYTES}")
        db.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
        upgrade(db, version)

    def _begin(self, now: float) -> Contents:
        """Remove what is over, and read the rest.  A damaged file shows here, before it changes."""
        db = self._connection()
        db.execute("BEGIN IMMEDIATE")
        with self._transaction():
            sids = db.execute(_OVER, (now,)).fetchall()
            for statement in END:
                db.executemany(statement, sids)
            db.execute("DELETE FROM retained WHERE expires_at > 0 AND expires_at <= ?", (now,))
            contents = contents_of(db)
            [self._commits] = db.execute("SELECT commits FROM counters").fetchone()
            self._unsure = False
            db.execute("COMMIT")
        return contents

    def commit(self, work: Work) -> None:
        db = self._connection()
        if db.in_transaction:  # what an earlier error left, and could not undo
            db.execute("ROLLBACK")
        db.execute("BEGIN IMMEDIATE")
        with self._transaction():
            if not self._unsure or not self._arrived():
                for statement, rows in work:
                    db.executemany(statement, rows)
                self._unsure = True  # a COMMIT that fails may yet have been one
            db.execute("COMMIT")
        self._unsure = False
        self._commits += 1
        self._untidied += 1

    def _arrived(self) -> bool:
        [commits] = self._connection().execute("SELECT commits FROM counters").fetchone()
        return bool(commits > self._commits)

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        db = self._connection()
        try:
            yield
        except BaseException:
            # SQLite may have ended it by itself.  If undoing fails too, it is the first error that
            # says why.
            if db.in_transaction:
                with contextlib.suppress(sqlite3.Error):
                    db.execute("ROLLBACK")
            raise

    def load(self, sid: int, after: int, most: int, most_bytes: int) -> list[Row]:
        rows: list[Row] = []
        size_bytes = 0
        for values in self._connection().execute(LOAD, (sid, after, most)):
            row = row_of(values)
            rows.append(row)
            size_bytes += row.record.size_bytes
            if size_bytes >= most_bytes:
                break
        return rows

    def numbers(self) -> Batch:
        """The highest ones ever used, by what is gone: this batch comes before all others."""
        sid, mid = self._connection().execute("SELECT last_sid, last_mid FROM counters").fetchone()
        batch = Batch(1)
        batch.messages.append(MessageRecord(mid, b""))
        batch.ended.append(sid)
        return batch

    def portion(self, select: str, after: Values) -> list[Values]:
        rows = []
        size_bytes = 0
        for row in self._connection().execute(select, (*after, PAGE)):
            rows.append(row)
            size_bytes += sum(len(value) for value in row if isinstance(value, (bytes, str)))
            if size_bytes >= PAGE_BYTES:
                break
        return rows

    def check(self) -> list[str]:
        wrong: list[str] = []
        try:
            for line in problems(self._connection()):
                wrong.append(line)
        except sqlite3.DatabaseError as error:
            problem = explained(error, self.path)
            if not isinstance(problem, StoreBroken):
                raise
            wrong.append(str(problem))
        return wrong

    def wants_tidying(self) -> bool:
        return self._untidied >= self.tidy_every

    def tidy(self) -> bool:
        """Give free pages back to the system: not all, as new messages need some, and in steps.

        Whether there is another step to do.
        """
        self._untidied = 0
        db = self._connection()
        try:
            [free] = db.execute("PRAGMA freelist_count").fetchone()
            pages = min(free - self.spare_pages, self.most_pages)
            if pages > 0:
                # Each step of it frees one page, and execute() stops after the first.
                db.executescript(f"PRAGMA incremental_vacuum({pages})")
        except sqlite3.Error:
            return False  # a later one may; and whatever is wrong, a commit will say so
        return bool(free - pages > self.spare_pages)

    def close(self) -> None:
        db, self._db = self._db, None
        lock, self._lock = self._lock, -1
        try:
            if db is not None:
                close_database(db)
        finally:
            if lock >= 0:
                os.close(lock)

    def _connection(self) -> sqlite3.Connection:
        if self._db is None:
            raise StoreError(f"{self.path}: it is not open")
        return self._db
