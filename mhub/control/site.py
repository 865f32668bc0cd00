"""The connections to the control socket: few, and no request is long."""

from typing import Any, Final

from twisted.web.resource import Resource

from mhub.control.contract import MAX_REQUEST, to_line
from mhub.web.site import BoundedSite, Bounds

BOUNDS: Final = Bounds(max_connections=16, idle_s=60.0, request_s=60.0)


def control_site(resource: Resource, reactor: Any) -> BoundedSite:
    return BoundedSite(
        resource,
        reactor,
        BOUNDS,
        lambda method, path: MAX_REQUEST,
        lambda code, text: ("application/x-ndjson", to_line({"error": text})),
    )
