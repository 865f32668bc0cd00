"""The contents of a SQLite file at one moment, while a broker goes on changing it.

A read transaction of a connection of its own: the broker is not asked, and does not wait.  Until it
ends, SQLite cannot use the WAL again from its start, so the WAL grows by what is written meanwhile.
"""

import contextlib
import os
import sqlite3
from typing import Any
from urllib.parse import quote

from mhub.core.records import SCHEMA, Contents
from mhub.store.contract import StoreBroken
from mhub.store.sqlite import SqliteStore
from mhub.store.sqlite_database import Database
from mhub.store.sqlite_file import check_version, look


class SnapshotDatabase(Database):
    """Reads what was there when it was opened; the lock is the broker's, and not asked for."""

    def open(self, now: float) -> Contents:
        look(self.path)
        db = self._db = sqlite3.connect(
            f"file:{quote(self.path)}?mode=ro", uri=True, timeout=self.busy_s, isolation_level=None
        )
        [version] = db.execute("PRAGMA user_version").fetchone()
        check_version(self.path, version)
        if version < SCHEMA:
            raise StoreBroken(f"{self.path}: its schema is older: start this mhub with it once")
        # The moment is that of the first read behind BEGIN.
        db.execute("BEGIN")
        db.execute("SELECT commits FROM counters").fetchone()
        return Contents()

    def close(self) -> None:
        db, self._db = self._db, None
        if db is not None:
            with contextlib.closing(db):
                if db.in_transaction:
                    db.execute("ROLLBACK")


class SqliteSnapshot(SqliteStore):
    """A store that can only be read, by pages() and check(); open() brings no contents."""

    def __init__(self, reactor: Any, path: str) -> None:
        super().__init__(reactor, path)
        self._database = SnapshotDatabase(os.path.abspath(path), "full")
