"""The numbers of each second, as one stream for all that a dashboard shows."""

from collections.abc import AsyncGenerator

import msgspec

from mhub.admin.endpoint import EVENTS, Call, endpoint
from mhub.operations.live import Live

RETRY = b"retry: 2000\n\n"
"""A browser that loses the stream comes back after so many milliseconds."""

_last: tuple[Live | None, bytes] = (None, b"")
"""The last one, and its text: all watchers get the same."""


@endpoint("GET", "/live", resource="stats", stream=EVENTS)
async def live(call: Call) -> AsyncGenerator[bytes, None]:
    """Watch the numbers of this node.

    A server-sent event each second, whose data is a JSON object; see docs/monitoring.md. A client
    that reads too slowly misses some.
    """
    watch = call.operations.live()
    try:
        yield RETRY
        async for each in watch:
            yield text_of(each)
    finally:
        watch.close()


def text_of(live: Live) -> bytes:
    global _last
    if _last[0] is not live:
        _last = (live, b"data: " + msgspec.json.encode(live) + b"\n\n")
    return _last[1]
