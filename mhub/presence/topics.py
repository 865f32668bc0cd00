"""Client ids as one level of a topic: what has a meaning there is percent-encoded.

Encoded, as the UTF-8 of RFC 3986, are `/`, `+`, `#` and `%`, a `$` at the beginning, and control
characters.  All else is as it is, so that most client ids stay as they are.
"""

import re
from typing import Final
from urllib.parse import unquote

LONGEST: Final = 65_535
"""Bytes of a topic."""

_SPECIAL: Final = re.compile("^\\$|[/+#%\x00-\x1f\x7f-\x9f]")


def encode(client_id: str) -> str:
    return _SPECIAL.sub(_escape, client_id)


def _escape(found: "re.Match[str]") -> str:
    return "".join(f"%{byte:02X}" for byte in found.group().encode("utf-8"))


def decode(level: str) -> str:
    return unquote(level)


def topic_of(prefix: str, client_id: str) -> str:
    """Where the presence of a client is; "": its id is too long for a topic."""
    topic = f"{prefix}/{encode(client_id)}"
    return topic if len(topic.encode("utf-8")) <= LONGEST else ""
