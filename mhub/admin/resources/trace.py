"""Traces: the packets of a client, or the messages of some topics, while they come."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

import msgspec

from mhub.admin.endpoint import EVENTS, Call, Query, endpoint
from mhub.operations.traces import LONGEST_S, MOST_EVENTS, MOST_PAYLOAD


@endpoint("GET", "/trace", resource="trace", stream=EVENTS, codes=(409,))
async def trace(
    call: Call,
    client_id: Annotated[str, Query("The client whose packets are shown.")] = "",
    topic: Annotated[str, Query("A topic filter, instead: the messages that it matches.")] = "",
    seconds: Annotated[float, Query("For how long.", low=0.1, high=LONGEST_S)] = 60.0,
    most: Annotated[int, Query("How many events at most.", low=1, high=MOST_EVENTS)] = 10_000,
    payload_bytes: Annotated[
        int, Query("How much of each payload is shown, in base64.", low=0, high=MOST_PAYLOAD)
    ] = 0,
) -> AsyncGenerator[bytes, None]:
    """Trace a client or topics, as server-sent events.

    The name of an event is its kind, and its data are JSON. The first one is `begin`, the last one
    `end`. Events that come too fast are left out, and counted in `dropped` of the next one.
    """
    found = call.operations.trace(client_id, topic, seconds, most, payload_bytes)
    async with aclosing(found):
        async for event in found:
            data = msgspec.json.encode(event)
            yield b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, event.kind.encode(), data)
