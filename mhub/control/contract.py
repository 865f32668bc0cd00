"""What crosses the control socket: HTTP/1.1, a request for each operation.

    POST /NAME, the arguments as a JSON object       or GET /NAME, if there are none

    answer   = *(data / {"progress": TEXT}) ({"result": VALUE} / {"error": TEXT})

The answer is JSON, an object on each line.  What is neither of these three is data, such as the
lines of an export.  An error that comes before anything else has the status 400 (the arguments are
wrong), 404 (there is no such thing), 409 (not now, not here) or 500 (a defect of the broker).  An
answer without its last line was cut off.
"""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

MAX_REQUEST: Final = 4 << 20
"""How long the arguments may be, in bytes: a policy of 10,000 rules, which is imported as a whole,
has a quarter of that."""

MAX_UNIX_PATH: Final = 107
"""What the kernel's address structure holds, in bytes."""


class ControlError(Exception):
    """An operation failed, or the socket cannot be used; the text is for whoever wanted it."""


def to_line(value: Mapping[str, object]) -> bytes:
    """An object as it crosses the socket; a dataclass is an object with its fields.

    Raises TypeError and ValueError.
    """
    text = json.dumps(value, default=vars, ensure_ascii=False, separators=(",", ":"))
    # Half of a surrogate pair is what a command line makes of bytes that are not UTF-8, and has no
    # UTF-8 itself; as an escape of Python's it is one of JSON's, too.
    return text.encode("utf-8", "backslashreplace") + b"\n"


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
