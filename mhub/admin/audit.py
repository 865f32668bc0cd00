"""Changes by operators, as events `admin`: who, what, why, and what became of it.

Users, roles, rules, bans and tokens tell of their changes themselves (`mhub.access.announce`),
since they are also changed without HTTP; all others are told of here.  Of the arguments just short
ones are shown, and of those of plugins, which may be secrets, only what stands in the URL.
"""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from mhub.admin.endpoint import BASE, Call, Endpoint
from mhub.core.events import DONE, FAILED, REFUSED_TO, Events
from mhub.operations.contract import OperationError

TELL_THEMSELVES: Final = frozenset({"users", "roles", "policies", "bans", "tokens"})

LONGEST: Final = 200
"""Characters of an argument that are shown."""


@contextmanager
def told(
    events: Events, endpoint: Endpoint, call: Call, arguments: Mapping[str, Any]
) -> Iterator[None]:
    """Around what an endpoint does."""
    if not endpoint.changes or endpoint.resource in TELL_THEMSELVES:
        yield
        return
    outcome = FAILED
    try:
        yield
        outcome = DONE
    except OperationError:
        outcome = REFUSED_TO
        raise
    finally:
        text = ", ".join(_shown(endpoint, arguments))
        events.admin(call.caller.name, endpoint.name, text, call.reason, outcome)


def _shown(endpoint: Endpoint, arguments: Mapping[str, Any]) -> Iterator[str]:
    in_url = endpoint.query.__struct_fields__
    parameters = inspect.signature(endpoint.function).parameters
    for name, value in arguments.items():
        if name not in in_url and not endpoint.path.startswith(BASE):
            continue
        if value == parameters[name].default:
            continue
        if isinstance(value, bool):
            if value:
                yield name
        elif isinstance(value, str) and value:
            yield f'{name} "{value[:LONGEST]}"'
        elif isinstance(value, (int, float)):
            yield f"{name} {value:g}"
