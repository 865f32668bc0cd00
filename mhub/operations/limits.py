"""The limits in force, where each comes from, and how often it was reached."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mhub.access.access import Access
from mhub.access.quota import Value
from mhub.access.results import SubjectLimits
from mhub.config.limits import LIMIT_KEYS
from mhub.core.events import LIMITS
from mhub.core.hub import Hub
from mhub.core.limits import Limits

MOST_USERS: Final = 100


@dataclass(frozen=True)
class LimitsInForce:
    """For each name, what a user has counts; else the most generous of its roles; else the
    listener's."""

    default: Mapping[str, Value | bool | tuple[int, ...]]
    listeners: Mapping[str, Mapping[str, Value | bool | tuple[int, ...]]]  # what differs there
    roles: tuple[SubjectLimits, ...]  # that have any
    users: tuple[SubjectLimits, ...]  # the first of those that have any
    more_users: int
    reached: Mapping[str, int]  # how often each held a client of this node back, since the start


async def limits_in_force(
    hub: Hub, default: Limits, listeners: Mapping[str, Limits], access: Access | None
) -> LimitsInForce:
    usual = _values(default)
    roles: list[SubjectLimits] = []
    users: list[SubjectLimits] = []
    more = 0
    if access is not None:
        roles = access.limited_roles()
        users, more = await access.limited_users(MOST_USERS)
    return LimitsInForce(
        default=usual,
        listeners={
            name: {key: value for key, value in _values(own).items() if value != usual[key]}
            for name, own in listeners.items()
        },
        roles=tuple(roles),
        users=tuple(users),
        more_users=more,
        reached=dict(zip(LIMITS, hub.stats.limited, strict=True)),
    )


def _values(limits: Limits) -> dict[str, Value | bool | tuple[int, ...]]:
    return {name: getattr(limits, name) for name in LIMIT_KEYS}
