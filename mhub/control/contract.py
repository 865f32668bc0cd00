"""What both sides of the control socket know: how long requests may be, and how it is found."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MAX_REQUEST: Final = 4 << 20
"""How long a body may be, in bytes: a policy of 10,000 rules, which is imported as a whole, has a
quarter of that."""

MAX_HEAD: Final = 256 << 10
"""How long the lines before the body may be: the longest client id or topic of MQTT, of which each
byte is written as three, is a query of 192 KiB."""

MAX_UNIX_PATH: Final = 107
"""What the kernel's address structure holds, in bytes."""


class ControlError(Exception):
    """An operation failed, or the socket cannot be used; the text is for whoever wanted it."""


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
