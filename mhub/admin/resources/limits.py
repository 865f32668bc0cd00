"""Limits."""

from mhub.admin.endpoint import Call, endpoint
from mhub.operations.limits import LimitsInForce


@endpoint("GET", "/limits", resource="limits")
async def limits(call: Call) -> LimitsInForce:
    """Show the limits in force, and how often each was reached."""
    return await call.operations.limits()
