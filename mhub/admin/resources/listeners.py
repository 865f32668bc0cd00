"""Listeners: what they are, and opening and closing them."""

from typing import Annotated

from mhub.admin.endpoint import Body, Call, endpoint
from mhub.operations.steering import ListenerDetail


@endpoint("GET", "/listeners", resource="listeners")
async def listeners(call: Call) -> list[ListenerDetail]:
    """List the listeners.

    Those of this node, open or closed, with their limits and when their certificates expire.
    """
    return call.operations.listeners()


@endpoint("POST", "/listener/open", resource="listeners", codes=(404, 409))
async def open_listener(
    call: Call, name: Annotated[str, Body("The name of the listener.", longest=256, shortest=1)]
) -> ListenerDetail:
    """Open a listener that was closed."""
    return call.operations.listener_open(name)


@endpoint("POST", "/listener/close", resource="listeners", codes=(404, 409))
async def close_listener(
    call: Call,
    name: Annotated[str, Body("The name of the listener.", longest=256, shortest=1)],
    disconnect: Annotated[
        bool, Body("Whether clients that came by it are disconnected, with the reason 0x98.")
    ] = False,
) -> ListenerDetail:
    """Close a listener.

    No new clients can connect there. Those that are connected stay, unless `disconnect` is true;
    their sessions, and what waits for them, stay in any case. It stays closed until it is opened
    again, its settings change, or the broker is restarted.
    """
    return call.operations.listener_close(name, disconnect)
