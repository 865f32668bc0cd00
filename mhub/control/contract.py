"""What crosses the control socket: JSON objects, each on a line of its own.

    request  = {"command": NAME, ARGUMENT: VALUE, ...}
    answer   = *({"progress": TEXT}) ({"ok": true, "result": VALUE} / {"ok": false, "error": TEXT})

Requests are answered one after the other, in the order in which they came.
"""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MAX_REQUEST: Final = 64 << 10
"""How long a request may be, in bytes; an answer may be longer."""

MAX_UNIX_PATH: Final = 107
"""What the kernel's address structure holds, in bytes."""


class ControlError(Exception):
    """A command failed, or the socket cannot be used; the text is for whoever wanted it.

    A function that carries out a command raises it to tell the caller why it will not.
    """


def to_line(value: dict[str, object]) -> bytes:
    """An object as it crosses the socket.  Raises TypeError and ValueError."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def from_line(line: bytes) -> dict[str, object]:
    """The object that a line holds.  Raises ValueError."""
    try:
        value = json.loads(line)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(value, dict):
        raise ValueError("not an object")
    return value


@contextmanager
def short_name(path: str) -> Iterator[str]:
    """A name for a socket that the kernel takes: the folder of a longer one is opened first."""
    if len(os.fsencode(path)) <= MAX_UNIX_PATH:
        yield path
        return
    folder = os.open(Path(path).parent, os.O_PATH | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{Path(path).name}"
    finally:
        os.close(folder)
