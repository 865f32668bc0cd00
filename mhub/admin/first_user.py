"""The first start: a user `admin` with a random password, shown once on the console.

It is made where nobody has the role `admin` and none was ever made: a mark in the registry says so,
so that who deletes it does not get it again.  The password is shown to whoever has started the
broker in the foreground, and is kept nowhere but as a hash.  Where there is no console, the user is
made without one: `mhub ctl user passwd admin` gives it one.

In a cluster the registry is the same everywhere, so one node makes it: the first by name of those
that are there.  A node that cannot reach the others may make one that the cluster has already.  So
it is made as something that is older than any change: when the nodes find each other, the user that
was there before stays as it was.
"""

import secrets
from collections.abc import Callable
from typing import Final

from mhub.access.access import Access
from mhub.core.hub import Hub
from mhub.log import logger
from mhub.operations.contract import OperationError

NAME: Final = "admin"
ROLE: Final = "admin"
MARK: Final = "setting/first-admin"
BY: Final = "mhub"
REASON: Final = "first start"

MOST_VERSION: Final = 1 << 20
"""Versions are times, and so much higher than these; two nodes do not choose the same one."""

ALPHABET: Final = "abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without those that look like others."""


def make_password() -> str:
    """Some 117 bits, in groups that can be typed."""
    return "-".join("".join(secrets.choice(ALPHABET) for _ in range(5)) for _ in range(4))


def is_wanted(hub: Hub, access: Access) -> bool:
    if hub.registry.get(MARK) is not None:
        return False
    if access.users.page(role=ROLE, limit=1).users:
        return False
    peers = hub.peers
    if peers is not None and any(peer.up and peer.name < peers.node for peer in peers.all):
        return False
    return not access.users.page(match=NAME, limit=1).users


async def make(hub: Hub, access: Access, address: str, show: Callable[[str], None] | None) -> None:
    """`show` writes to the console; None: there is none."""
    log = logger("admin")
    password = make_password() if show is not None else ""
    values = {"roles": [ROLE], "note": "made at the first start"}
    version = 1 + secrets.randbelow(MOST_VERSION)
    try:
        if not await access.users.seed(NAME, password, values, version, BY, REASON):
            # The nodes of a cluster have agreed that what is so old and not there was deleted.
            await access.users.add(NAME, password, values=values, by=BY, reason=REASON)
            version = 0
    except OperationError as error:
        log.warn("the first user could not be made: {error}", error=error)
        return
    if version:
        hub.registry.take([(MARK, version, "{}")])
    else:
        hub.registry.change({MARK: "{}"}, hub.now, {})
    hub.flush()
    if show is None:
        log.info(
            "there is a user {name} without a password: `mhub ctl user passwd {name}` sets one",
            name=NAME,
        )
        return
    show(
        f"\n  The dashboard is at {address}\n"
        f"  Log in as    {NAME}\n"
        f"  Password     {password}\n"
        "  It is shown this once. `mhub ctl user passwd admin` sets another one.\n\n"
    )
