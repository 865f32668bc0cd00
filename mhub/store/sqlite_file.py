"""The file of a database: its lock, whether it is ours, how it is made and brought up to date.

    path          the database, in WAL mode; path-wal and path-shm are SQLite's
    path.lock     held by the broker that uses the file, with its process id in it
    path.new      a database that is being made; it gets its name when it is complete

`PRAGMA user_version` is the version of the schema, `application_id` marks the file as mhub's; a
file that is not, or is newer, is read as plain bytes and left alone.
"""

import contextlib
import fcntl
import os
import socket
import sqlite3
import struct
from pathlib import Path
from typing import Final

from mhub.core.records import SCHEMA
from mhub.store.contract import StoreBroken, StoreInUse

APPLICATION_ID: Final = 0x6D687562
"""The letters mhub."""


def locked(path: str) -> int:
    """The descriptor of the lock, which is held as long as that is open."""
    lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        # flock() and not lockf(), which would let a second store of this process in.
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(lock, 0)
        os.write(lock, f"process {os.getpid()} on {socket.gethostname()}\n".encode())
    except BlockingIOError:
        holder = os.read(lock, 1000).decode(errors="replace").strip() or "another process"
        os.close(lock)
        raise StoreInUse(f"{path}: in use by {holder}; two brokers cannot share a file") from None
    except BaseException:
        os.close(lock)
        raise
    return lock


def look(path: str) -> None:
    """Whether the file is ours, without SQLite, which might write beside it or into it."""
    with open(path, "rb") as file:
        head = file.read(100)
    if len(head) < 100 or not head.startswith(b"SQLite format 3\0"):
        raise StoreBroken(f"{path}: not a database; it was not changed, use another file")
    version, application = struct.unpack_from(">i4xi", head, 60)
    if application != APPLICATION_ID:
        raise StoreBroken(f"{path}: not a database of mhub; it was not changed, use another")
    check_version(path, version)


def check_version(path: str, version: int) -> None:
    if version > SCHEMA:
        raise StoreBroken(
            f"{path}: its schema has version {version}, and this mhub knows those up to {SCHEMA};"
            " it was not changed: run the newer mhub, or name another file"
        )


def make(path: str) -> None:
    """A new file, which has its name only when it is complete."""
    if os.path.exists(f"{path}-wal"):
        # SQLite would take it for the new file's.
        raise StoreBroken(f"{path}: it is gone, but {path}-wal is there; restore or remove both")
    new = f"{path}.new"
    for left in (new, f"{new}-journal", f"{new}-wal", f"{new}-shm"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(left)
    os.close(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    db = sqlite3.connect(new, isolation_level=None)
    with contextlib.closing(db):
        # Only possible before there is a table.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute(f"PRAGMA application_id = {APPLICATION_ID}")
        upgrade(db, 0)
        db.execute("PRAGMA journal_mode = WAL")
    os.replace(new, path)
    directory = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


def upgrade(db: sqlite3.Connection, version: int) -> None:
    for following in range(version + 1, SCHEMA + 1):
        script = Path(__file__).with_name("schema").joinpath(f"{following}.sql").read_text()
        try:
            db.executescript(
                f"BEGIN IMMEDIATE;\n{script}\nPRAGMA user_version = {following};\nCOMMIT;"
            )
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise


def close_database(db: sqlite3.Connection) -> None:
    try:
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.Error:
        pass  # it stays in the WAL, where the next start finds it
    finally:
        db.close()
