"""The store, and an export of what is in it."""

from collections.abc import AsyncGenerator

from mhub.admin.caller import LOCAL
from mhub.admin.endpoint import LINES, Call, endpoint
from mhub.operations.contract import StoreStatus


@endpoint("GET", "/store", resource="store")
async def store(call: Call) -> StoreStatus:
    """Show the store of this node."""
    return call.operations.status().store


@endpoint("GET", "/store/export", resource="store", stream=LINES)
async def store_export(call: Call) -> AsyncGenerator[bytes, None]:
    """Export sessions, queued and retained messages, as lines of JSON.

    `mhub store import` reads them. At the control socket the registry is among it, with the hashes
    of passwords; over the network secrets are not given.
    """
    async for lines in call.operations.store_export(with_registry=call.caller.kind == LOCAL):
        if lines:
            yield lines
