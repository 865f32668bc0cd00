"""The limits of users and roles: checked, and merged to what one user has.

An entry `user/NAME` or `role/NAME` of the registry may have a field `limits`: a JSON object with
the names of the configuration.  For each name, what the user has counts; else the most generous
of what its roles have; else the listener's (`mhub.core.quota`).

    check_limits(value)          before an entry is written: all that is wrong with it
    Quotas.of(user, roles)       from what the entries have; the hub's port `quota_of` gives this

Values are read by the same kinds as the configuration's: sizes and durations may be text.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from mhub.config.kinds import Place
from mhub.config.limits import LIMIT_KEYS
from mhub.config.problems import Report
from mhub.config.schema import Key, Table
from mhub.core.limits import DELAY, DISCONNECT, DROP
from mhub.core.quota import NAMES, Quota

Value = int | float | str

QUOTA_KEYS: Final[dict[str, Key[Any]]] = {name: LIMIT_KEYS[name] for name in NAMES}

BOUNDED: Final = ("rate_burst_s", "max_topic_length", "max_topic_levels")
"""Of all other numbers 0 is any."""

GENEROUS: Final = (DISCONNECT, DROP, DELAY)


class LimitsError(ValueError):
    """What is wrong with the limits of an entry; `problems` are lines for people."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def check_limits(value: object) -> dict[str, Value]:
    """The limits of an entry as the broker uses them.  Raises LimitsError."""
    report = Report({})
    place = Place(report, Path(), "limits")
    if not isinstance(value, Mapping):
        raise LimitsError(["limits: expected an object"])
    found: dict[str, Value] = Table(QUOTA_KEYS).read(dict(value), place)
    if report.problems:
        raise LimitsError([f"{problem.key}: {problem.text}" for problem in report.problems])
    return found


def merge(user: Mapping[str, Value], roles: Iterable[Mapping[str, Value]]) -> dict[str, Value]:
    """What a user has, of limits that were checked."""
    found: dict[str, Value] = {}
    for limits in roles:
        for name, value in limits.items():
            found[name] = _more(name, found[name], value) if name in found else value
    found.update(user)
    return found


def _more(name: str, one: Value, other: Value) -> Value:
    """The more generous one."""
    if isinstance(one, str) or isinstance(other, str):
        return max(one, other, key=lambda action: GENEROUS.index(str(action)))
    if name not in BOUNDED and (not one or not other):
        return 0
    return max(one, other)


class Quotas:
    """One Quota for all users that have the same limits, so that a client costs none of its own."""

    def __init__(self) -> None:
        self._known: dict[tuple[tuple[str, Value], ...], Quota] = {}

    def of(self, user: Mapping[str, Value], roles: Iterable[Mapping[str, Value]]) -> Quota | None:
        """None: the listener's limits are all there is."""
        values = merge(user, roles)
        if not values:
            return None
        key = tuple(sorted(values.items()))
        quota = self._known.get(key)
        if quota is None:
            quota = self._known[key] = Quota(values)
        return quota

    def clear(self) -> None:
        """What was made of entries that are others now need not be kept."""
        self._known = {}
