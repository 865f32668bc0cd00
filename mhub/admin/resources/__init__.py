"""The endpoints, a module for each resource.

Each is a thin adapter from a request to a call of `Operations`; nothing is decided here.
"""

from types import ModuleType
from typing import Final

from mhub.admin.endpoint import Endpoint, endpoints_of
from mhub.admin.resources import (
    bans,
    clients,
    cluster,
    configuration,
    events,
    explain,
    general,
    history,
    limits,
    listeners,
    live,
    log,
    mqtt,
    plugins,
    policies,
    presence,
    retained,
    roles,
    session,
    stats,
    status,
    store,
    subscriptions,
    tokens,
    topics,
    trace,
    users,
)

MODULES: Final[tuple[ModuleType, ...]] = (
    general,
    plugins,
    session,
    clients,
    subscriptions,
    topics,
    retained,
    users,
    roles,
    policies,
    explain,
    bans,
    limits,
    tokens,
    stats,
    status,
    store,
    history,
    live,
    events,
    mqtt,
    presence,
    cluster,
    listeners,
    configuration,
    log,
    trace,
)
"""In the order in which docs/admin-api.md has them."""

ENDPOINTS: Final[tuple[Endpoint, ...]] = tuple(
    each for module in MODULES for each in endpoints_of(module)
)
