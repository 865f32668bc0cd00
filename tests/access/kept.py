"""Cases to keep: what a difference between the evaluators shrunk to, and the right answer.

Differences of defects and of mutations that were tried on the code alike.
"""

from mhub.core.principal import Principal
from tests.access.strategies import principal

Case = tuple[list[tuple[str, ...]], Principal, tuple[str, str, int, bool], bool]

KEPT: list[Case] = [
    # `$SYS` as a user name must not lead to the broker's own topics.
    (
        [("p", "role:everyone", "*", "publish", "%u/#", "any", "allow")],
        principal("$x", "c", [], "", [], None, None),
        ("publish", "$x/a", 0, False),
        False,
    ),
    # A placeholder without a value is not the empty level.
    (
        [("p", "role:everyone", "*", "publish", "a/%u", "any", "allow")],
        principal("", "c", [], "", [], None, None),
        ("publish", "a/", 0, False),
        False,
    ),
    # All actions are those of MQTT: a rule about every topic makes nobody an administrator.
    (
        [("p", "role:everyone", "*", "*", "#", "any", "allow")],
        principal("a", "c", [], "", [], None, None),
        ("admin:write", "users", 0, False),
        False,
    ),
    # And a deny of them takes nothing of the admin side away.
    (
        [
            ("p", "role:everyone", "*", "*", "#", "any", "deny"),
            ("p", "user:a", "*", "admin:read", "clients", "any", "allow"),
        ],
        principal("a", "c", [], "", [], None, None),
        ("admin:read", "clients", 0, False),
        True,
    ),
]
