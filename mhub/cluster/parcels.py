"""The kinds of parcels that cross a link, and how their bodies are written.

Messages and confirmations are the core's (`mhub.core.peer`), as they are many.  All else is JSON,
or, where messages of sessions are in it, a line of JSON followed by records.  docs/peer-protocol.md
is the grammar of all of them.
"""

import json
from typing import Any, Final

# These two as well, so that all kinds have their names here.
from mhub.core.peer import CONFIRM as CONFIRM
from mhub.core.peer import PUBLISHES as PUBLISHES
from mhub.wire.primitives import malformed

GREET: Final = 3  # where each side stands: lines and table
TABLE: Final = 4  # changes of a table, or a part of all of it
AGAIN: Final = 5  # the table has a gap: all of it, please
PING: Final = 6
PONG: Final = 7
MEMBERS: Final = 8  # whom we know
SUMS: Final = 9  # of retained messages, a number for each bucket
HAVE: Final = 10  # topics and stamps of some buckets
RETAINED: Final = 11  # what the other side does not have of them
FILLED: Final = 12  # that was all for these buckets
MOVE: Final = 13  # a session is for you
ITEMS: Final = 14  # messages of it
GOT: Final = 15
ASK: Final = 16  # who knows of your routes?
ROUTED: Final = 17
BARRIER: Final = 18  # how far is your line to me?
BARRED: Final = 19
END: Final = 20  # that was all of the session
DONE: Final = 21  # it is safe here
LEAVE: Final = 22  # we are going for good
OFFER: Final = 23  # take a session, though its client is not there


def pack(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def unpack(body: bytes) -> dict[str, Any]:
    """ProtocolFault if it is no JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise malformed(f"a parcel that is no JSON: {error}") from error
    if not isinstance(found, dict):
        raise malformed("a parcel that is no JSON object")
    return found
