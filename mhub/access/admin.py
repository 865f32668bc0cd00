"""Who may see and change the broker over HTTP: the same rules, asked about resources.

This is decided also where access control is off for MQTT, as in the quick start: there is always an
index with all rows, and the default policy in it.  Nobody who has not proved who they are may
anything, whatever the rules say of `role:everyone` and `role:anonymous`.
"""

from collections.abc import Iterable
from typing import Final

from mhub.access.index import Index
from mhub.access.resources import PLUGINS, READ, RESOURCES, WRITE
from mhub.access.rows import ADMIN_READ, ADMIN_WRITE, ADMIN_WRITE_BIT
from mhub.access.scopes import FORBIDDEN, TOKEN
from mhub.core.principal import Principal

ACTION_OF: Final = {READ: ADMIN_READ, WRITE: ADMIN_WRITE}


def may_admin(index: Index, principal: Principal, verb: str, resource: str) -> bool:
    """`verb`: "read" or "write".  Of a token, whose scopes have to allow it besides."""
    if not principal.user or (principal.method == TOKEN and (verb, resource) in FORBIDDEN):
        return False
    return index.admin(principal, ACTION_OF[verb], resource)


def permissions(
    index: Index, principal: Principal, plugins: Iterable[str] = ()
) -> dict[str, list[str]]:
    """All that somebody may see, and change, of the resources that there are."""
    names = resources(plugins)
    return {
        verb: [name for name in names if may_admin(index, principal, verb, name)]
        for verb in ACTION_OF
    }


def resources(plugins: Iterable[str] = ()) -> list[str]:
    """All that there are."""
    return [*RESOURCES, *(PLUGINS + name for name in sorted(plugins))]


def has_administrators(index: Index) -> bool:
    """Whether some rule lets anybody change anything: if none does, only the command line can."""
    return any(row.allows and row.mask & ADMIN_WRITE_BIT for row in index.rows.values())
