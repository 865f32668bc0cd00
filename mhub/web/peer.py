"""Which Unix user is at the other end of a Unix socket."""

import socket
import struct
from functools import lru_cache
from typing import Any, Final

CREDENTIALS: Final = struct.Struct("3i")
"""`struct ucred` of Linux: process, user, group."""

PASSWD: Final = "/etc/passwd"


def peer_name(transport: Any) -> str:
    """As of the connect(); "" where the system does not tell."""
    get_handle = getattr(transport, "getHandle", None)
    handle = get_handle() if get_handle is not None else None
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None or not isinstance(handle, socket.socket):
        return ""
    try:
        found = handle.getsockopt(socket.SOL_SOCKET, option, CREDENTIALS.size)
    except OSError:
        return ""
    return user_name(CREDENTIALS.unpack(found)[1])


@lru_cache(maxsize=100)
def user_name(uid: int, file: str = PASSWD) -> str:
    """The name of a user of this machine, or the number.

    Not by the module `pwd`, which may ask a server on the network, and wait for it.
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                name, *fields = line.split(":")
                if len(fields) >= 2 and fields[1] == str(uid) and name.isprintable():
                    return name
    except OSError:
        pass
    return str(uid)
