"""Whether a database can ever be opened here, found without opening it.

What this finds stays as it is until a person changes something: the start ends with it, instead of
trying again.  A running broker's file passes, so that a configuration can be checked meanwhile.
"""

import os
import pwd
import stat

from mhub.store.contract import StoreBroken
from mhub.store.sqlite_file import look


def fault_at(path: str) -> str:
    """Why the database cannot be opened, or made; "" if nothing is known to be in the way."""
    try:
        _check(os.path.abspath(path))
    except StoreBroken as error:
        return str(error)
    except OSError as error:
        return f"{error.filename or path}: {error.strerror or error}"
    return ""


def _check(path: str) -> None:
    folder = os.path.dirname(path)
    # What is missing will be made, below the first one that is there.
    while not _exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder):
        raise StoreBroken(f"{folder}: expected a directory, found a file")
    _want(folder, os.W_OK | os.X_OK, "nothing can be written there")
    if not _exists(path):
        return
    if not os.path.isfile(path):
        raise StoreBroken(f"{path}: expected a file, found something else")
    for file in (path, f"{path}-wal", f"{path}-shm", f"{path}.lock"):
        if _exists(file):
            _want(file, os.R_OK | os.W_OK, "it cannot be read and written")
    if os.path.getsize(path):
        look(path)


def _exists(path: str) -> bool:
    """As os.path.exists(), which takes a directory that may not be looked into for an empty one."""
    try:
        os.stat(path)
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        return False  # what is above it is a file, and found as such
    except PermissionError:
        folder = os.path.dirname(path)
        while not os.access(os.path.dirname(folder), os.X_OK):
            folder = os.path.dirname(folder)
        _want(folder, os.X_OK, "nothing can be opened there")
        raise
    return True


def _want(path: str, mode: int, what: str) -> None:
    if os.access(path, mode):
        return
    if os.statvfs(path).f_flag & os.ST_RDONLY:
        raise StoreBroken(f"{path}: {what}, the file system is read-only")
    found = os.stat(path)
    raise StoreBroken(
        f"{path}: {what} by user {_user(os.geteuid())}; it belongs to {_user(found.st_uid)}"
        f" and has mode {stat.S_IMODE(found.st_mode):04o}"
    )


def _user(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
