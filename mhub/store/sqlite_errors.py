"""What SQLite and the system say when something fails, as what a person can do about it."""

import errno
import sqlite3
from typing import Final

from mhub.store.contract import StoreBroken, StoreError

_ADVICE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; it goes on when there is space",
    sqlite3.SQLITE_BUSY: "locked by another process; it goes on when that lets go",
    sqlite3.SQLITE_LOCKED: "locked by another process; it goes on when that lets go",
    sqlite3.SQLITE_IOERR: "I/O error; look at the disk and the system's log",
    sqlite3.SQLITE_READONLY: "it cannot be written; look at owner and mode of file and directory",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; look at owner and mode of file and directory",
}


_FOR_GOOD: Final = (
    errno.EACCES,
    errno.EPERM,
    errno.EROFS,
    errno.ENOTDIR,
    errno.EISDIR,
    errno.ELOOP,
    errno.ENAMETOOLONG,
)
"""What trying again does not help against; unlike a full disk, or too many open files."""


def explained(error: Exception, path: str) -> Exception:
    """The error for the caller; one that is not of SQLite or the system stays as it is."""
    if isinstance(error, sqlite3.Error):
        # An extended code has the plain one in its low byte.
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        advice = _ADVICE.get(code)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return StoreBroken(
                f"{path}: damaged ({error}); restore a backup, or move it away to start empty"
            )
        return StoreError(f"{path}: {advice} ({error})" if advice else f"{path}: {error}")
    if isinstance(error, OSError):
        kind = StoreBroken if error.errno in _FOR_GOOD else StoreError
        return kind(f"{error.filename or path}: {error.strerror or error}")
    return error
