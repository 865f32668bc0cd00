"""The connections to the control socket: few, and no request is long."""

import json
from typing import Any, Final

from twisted.web.resource import Resource

from mhub.control.contract import MAX_HEAD, MAX_REQUEST
from mhub.web.site import BoundedSite, Bounds

BOUNDS: Final = Bounds(max_connections=16, idle_s=60.0, request_s=60.0, max_head=MAX_HEAD)


def control_site(resource: Resource, reactor: Any) -> BoundedSite:
    return BoundedSite(resource, reactor, BOUNDS, lambda method, path: MAX_REQUEST, _refusal)


def _refusal(code: int, text: str) -> tuple[str, bytes]:
    problem = {"type": "about:blank", "title": "Refused", "status": code, "detail": text}
    return "application/problem+json", json.dumps(problem).encode()
