"""The table of this node: what it wants and has, as names with numbers.

    f FILTER             somebody here has subscribed: 1, + 2 if a lasting session has
    s $share/NAME/FILTER a group has members here: 1, + 2 if one of them lasts, + 4 for each that is
                         connected
    c CLIENT_ID          the session is here, or claimed: twice the epoch of the claim, + 1 while
                         the client is connected

Each change has a number of its own, and every peer gets the changes in their order
(`mhub.cluster.tables`).
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.core.shared import Group
from mhub.wire.topics import reserved

if TYPE_CHECKING:
    from mhub.core.filters import Leaf

FILTER: Final = "f"
SHARE: Final = "s"
CLIENT: Final = "c"

WANTED: Final = 1
LASTING: Final = 2

LOG: Final = 20_000
"""Changes that are remembered, for peers whose link was down for a moment."""


class Table:
    def __init__(self) -> None:
        self.names: dict[str, int] = {}
        self.routes = 0  # of these names
        self.number = 0
        self.log: deque[tuple[str, int]] = deque()  # the last changes
        self.sessions = True  # one session for each client id in the whole cluster

    def announce(self, name: str, value: int) -> None:
        """Something here is different from now on; 0: it is not there any more."""
        old = self.names.get(name, 0)
        if old == value:
            return
        if value:
            self.names[name] = value
        else:
            del self.names[name]
        if not name.startswith(CLIENT) and (not old or not value):
            self.routes += 1 if value else -1
        self.number += 1
        self.log.append((name, value))
        if len(self.log) > LOG:
            self.log.popleft()

    def own(self, client_id: str, epoch: int, live: bool) -> None:
        """A client's session is here, or claimed."""
        if self.sessions:
            self.announce(CLIENT + client_id, epoch << 1 | (1 if live else 0))

    def own_epoch(self, client_id: str) -> int:
        """The epoch under which a client's session is ours; 0: it is not."""
        return self.names.get(CLIENT + client_id, 0) >> 1

    def interest(self, topic_filter: str, leaf: "Leaf | None") -> None:
        """The local subscribers of a filter may have changed."""
        value = 0
        if leaf is not None and leaf.subscriptions and not reserved(topic_filter):
            value = WANTED | LASTING if leaf.lasting else WANTED
        self.announce(FILTER + topic_filter, value)

    def group_changed(self, group: Group) -> None:
        """Its local members, or how many of them are connected, may have changed."""
        group.recount()
        value = 0
        if group.members and not reserved(group.topic_filter):
            value = WANTED | (LASTING if group.lasting else 0) | group.live << 2
        self.announce(SHARE + group.full_name, value)

    def since(self, number: int) -> list[tuple[str, int]] | None:
        """The changes behind a number; None if they are not remembered any more."""
        known = number - (self.number - len(self.log))  # how many of the log
        if known < 0 or number > self.number:
            return None
        return [self.log[index] for index in range(known, len(self.log))]
