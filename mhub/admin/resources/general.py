"""What there is, for programs."""

from typing import Any

from mhub.admin.endpoint import Call, endpoint


@endpoint("GET", "/openapi.json", scope="read")
async def openapi(call: Call) -> dict[str, Any]:
    """Show this API as an OpenAPI document."""
    return call.gate.document()
