"""The store: how it is, and what is in it."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from mhub.admin.endpoint import LINES, Call, endpoint
from mhub.operations.contract import StoreStatus


@endpoint("GET", "/store", resource="store")
async def store(call: Call) -> StoreStatus:
    """Show the store of this node."""
    return call.operations.status().store


@endpoint("GET", "/store/export", resource="store", stream=LINES, tokens=False, codes=(409,))
async def export_store(call: Call) -> AsyncGenerator[bytes, None]:
    """Export sessions, messages and the registry, as JSON Lines.

    All of one moment, in the form that `mhub store import` reads. It has payloads in it, and hashes
    of passwords; so it is not for tokens.
    """
    async with aclosing(call.operations.store_export()) as pieces:
        async for piece in pieces:
            yield piece
