"""The endpoints, a module for each resource.

Each is a thin adapter from a request to a call of `Operations`; nothing is decided here.
"""

from types import ModuleType
from typing import Final

from mhub.admin.endpoint import Endpoint, endpoints_of
from mhub.admin.resources import (
    configuration,
    events,
    general,
    history,
    listeners,
    live,
    log,
    mqtt,
    plugins,
    session,
    stats,
    trace,
)

MODULES: Final[tuple[ModuleType, ...]] = (
    general,
    plugins,
    session,
    stats,
    history,
    live,
    events,
    mqtt,
    listeners,
    configuration,
    log,
    trace,
)
"""In the order in which docs/admin-api.md has them."""

ENDPOINTS: Final[tuple[Endpoint, ...]] = tuple(
    each for module in MODULES for each in endpoints_of(module)
)
