"""What there is to administer: the names that stand in the place of a topic where rules are about
`admin:read` and `admin:write`.

    clients          a resource of the broker's own, one of RESOURCES
    x/NAME           what the admin plugin NAME adds

A rule may have wildcards: `#` is all of them, `x/#` all plugins.  A plugin's package may be
installed later than its rules are written, so any name is taken for one.
"""

from typing import Final

from mhub.config.problems import nearest

READ: Final = "read"
WRITE: Final = "write"

PLUGINS: Final = "x/"

RESOURCES: Final[dict[str, str]] = {
    "users": "users of the registry, their passwords, roles, attributes and limits",
    "roles": "roles, what they inherit and their limits",
    "policies": "the rules, and explanations of what they decide",
    "bans": "bans and lock-outs",
    "limits": "limits in force, and how often they were reached",
    "tokens": "API tokens",
    "clients": "clients and their sessions",
    "subscriptions": "subscriptions, shared groups and routes",
    "retained": "retained messages, with their contents",
    "listeners": "listeners",
    "cluster": "members of the cluster and their links",
    "store": "the store and its export",
    "configuration": "the configuration, without secrets",
    "log": "log lines and the log level",
    "trace": "packets of a client or a topic as they pass",
    "stats": "numbers, topics by rate and recent events",
}


def check_resource(name: str) -> None:
    """Raises ValueError for what is no resource."""
    if name in RESOURCES or _is_plugin(name):
        return
    raise ValueError(_unknown(name))


def unknown_resource(pattern: str) -> str:
    """What is wrong with the resource of a rule, "" if nothing is."""
    first, _, rest = pattern.partition("/")
    if first in ("#", "+"):
        # `+/NAME` could be nothing but a plugin.
        return "" if rest in ("", "#", "+") else _unknown(pattern)
    if first in RESOURCES and rest in ("", "#"):
        return ""
    if pattern in ("x/#", "x/+") or _is_plugin(pattern):
        return ""
    return _unknown(pattern)


def _is_plugin(name: str) -> bool:
    plugin = name.removeprefix(PLUGINS)
    return plugin != name and plugin != "" and not set(plugin) & set("/+#\0")


def _unknown(name: str) -> str:
    near = nearest(name, RESOURCES)
    hint = f"did you mean {near!r}?" if near else f"expected one of {', '.join(RESOURCES)}, x/NAME"
    return f"there is no resource {name!r}; {hint}"
