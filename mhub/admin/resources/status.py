"""The broker as a whole."""

from mhub.admin.endpoint import Call, endpoint
from mhub.operations.contract import Status


@endpoint("GET", "/status", resource="stats")
async def status(call: Call) -> Status:
    """Show this node: its listeners, connections, sessions, messages and store.

    What `mhub ctl status` shows. The numbers of all its parts are in `/stats`.
    """
    return call.operations.status()
