"""The default policy, for a registry that never had rules: put there once.

Marks in the registry say what was put there, so that who removes a rule does not get it again:

    setting/default-policy   the registry has, or has had, rules
    setting/admin-policy     rules about `admin:read` and `admin:write` were among them

A registry from before there was an admin side has the first mark alone.  It gets the rules of the
default policy about the admin side if its role:admin is still what the default policy made it, one
that may do everything; whoever has made something else of that role has to say who administers the
broker.
"""

from typing import Final

from mhub.access.entries import RULE, Rule, write
from mhub.access.policy import default_rows
from mhub.access.rows import ADMIN_BITS, row_id_of
from mhub.core.registry import Registry

DEFAULT_POLICY: Final = "setting/default-policy"
"""There as soon as the registry has had rules: the default policy never comes again."""

ADMIN_POLICY: Final = "setting/admin-policy"
"""The same, of the part of it about the admin side."""

OLDEST: Final = 1
"""The version of what the default policy puts there."""

NOTE: Final = "default policy"
EVERYTHING: Final = ("p", "role:admin", "*", "*", "#", "any", "allow")


def seed(registry: Registry, now: float) -> bool:
    """Put the default policy into a registry that never had it; whether it did."""
    if registry.get(DEFAULT_POLICY) is None and not registry.items(RULE):
        marks = [DEFAULT_POLICY, ADMIN_POLICY]
        rows = default_rows()
    elif registry.get(ADMIN_POLICY) is None:
        marks = [ADMIN_POLICY]
        is_default = registry.get(RULE + row_id_of(EVERYTHING)) is not None
        rows = [row for row in default_rows() if is_default and row.mask & ADMIN_BITS]
    else:
        return False
    values = dict.fromkeys(marks, "{}")
    for row in rows:
        values[RULE + row.id] = write(Rule(row.fields, NOTE))
    if registry.floors.floor < OLDEST:
        # As something that is older than anything else: a node that finds its cluster later has
        # then brought nothing back that was removed there, and two new nodes have the same.
        registry.take([(key, OLDEST, value) for key, value in values.items()])
    else:
        # The nodes of a cluster have agreed that what is older than the floor and not there was
        # deleted; so it is as new as it is.
        missing = {key: value for key, value in values.items() if registry.get(key) is None}
        registry.change(dict(missing), now)
    return bool(rows)
