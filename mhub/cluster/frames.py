"""The kinds of frames that cross a link, and how their bodies are written.

Messages and confirmations are the core's (`mhub.core.peer`), as they are many.  All else is JSON,
or, where messages of sessions are in it, a line of JSON followed by records.  docs/peer-protocol.md
is the grammar of all of them.

What a peer sends is read by `mhub.cluster.said`.
"""

import json
from typing import Any, Final

# These two as well, so that all kinds have their names here.
from mhub.core.channel_records import CONFIRM as CONFIRM
from mhub.core.channel_records import PUBLISHES as PUBLISHES
from mhub.wire.primitives import malformed

RESUME: Final = 3  # where each side stands: channels and table
TABLE: Final = 4  # changes of a table, or a part of all of it
AGAIN: Final = 5  # the table has a gap: all of it, please
PING: Final = 6
PONG: Final = 7
MEMBERS: Final = 8  # whom we know
DIGESTS: Final = 9  # of retained messages, a number for each bucket
HAVE: Final = 10  # topics and timestamps of some buckets
RETAINED: Final = 11  # what the other side does not have of them
FILLED: Final = 12  # that was all for these buckets
CUT: Final = 13  # a session is elsewhere: send what is for it there
SESSION: Final = 14  # a session that you have claimed
ENTRIES: Final = 15  # messages of it
MORE: Final = 16  # the next ones
END: Final = 17  # that was all of it
DONE: Final = 18  # it is safe here
REFUSED: Final = 19  # it is not wanted: forget it
ASK: Final = 20  # did you take it?
UNKNOWN: Final = 21  # no
LEAVE: Final = 22  # we are going for good
OFFER: Final = 23  # claim a session, though its client is not there
PENDING: Final = 24  # what its client has published, for a node that cannot be reached
ACCEPT: Final = 25  # the session that was offered shall come
SWITCHED: Final = 26  # what is for a session goes to where it is now
REGISTRY_DIGESTS: Final = 27  # a round of the registry begins
REGISTRY_HAVE: Final = 28  # keys and versions of some buckets
REGISTRY_ENTRIES: Final = 29  # what the other side does not have of them
REGISTRY_FILLED: Final = 30  # that was all for these buckets
REGISTRY_TAKEN: Final = 31  # all of a round is here
REGISTRY_DROP: Final = 32  # entries of yours were deleted
QUERY: Final = 33  # what an operator asks of all nodes
ANSWER: Final = 34  # a part of the answer
ANSWER_MORE: Final = 35  # the next part, or no more of it


def pack(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


def unpack(body: bytes) -> dict[str, Any]:
    """ProtocolFault if it is no JSON object."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise malformed(f"a frame that is not JSON: {error}") from error
    if not isinstance(found, dict):
        raise malformed("a frame that is not a JSON object")
    return found


def with_data(data: bytes, **fields: Any) -> bytes:
    """A body with records behind its JSON."""
    return pack(**fields) + b"\n" + data
