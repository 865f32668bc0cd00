"""Another node, as the cluster sees it: where it is, what is known of its state, its link."""

from typing import Final

from mhub.cluster.contract import LinkEnd
from mhub.core.peer import Peer
from mhub.wire.publish import Publish

UP: Final = "up"
SYNCING: Final = "syncing"
SUSPECT: Final = "suspect"
DOWN: Final = "down"
DEAD: Final = "dead"
LEFT: Final = "left"


class Filling:
    """How far it is with a table that another node has as well (`mhub.cluster.fill`)."""

    def __init__(self) -> None:
        self.asking: list[int] = []  # buckets that are still to be asked for
        self.awaited = 0  # answers that are to come
        self.complete = False  # all that it had is here
        self.index: dict[int, list[Publish]] | None = None  # bucket -> what is here


class Member:
    def __init__(self, name: str, peer: Peer, now: float) -> None:
        self.name = name
        self.peer = peer
        self.address = ""
        self.version = ""
        self.protocol = 0  # the version that both nodes speak
        self.instance = ""  # of its process, so that a restart is noticed
        self.host = ""  # the node in whose process it is, if that takes over from it
        self.shared_store = ""  # of which store another node could take over what it has
        self.state = DOWN
        self.since = now
        self.note = ""  # why it is in this state
        self.link: LinkEnd | None = None
        self.gone_at = now  # since when there is no link
        self.resumed = False
        self.received_at = now
        self.pinged_at = 0.0
        self.latency_s = -1.0
        # Names of its table by the word of others, and the number from which on they are there
        self.expected: dict[str, int] = {}
        self.expected_of = ""  # the process that they are about
        # Its table, while all of it is on its way: names that were there before
        self.stale: dict[str, None] | None = None
        self.has_table = False
        self.retained = Filling()
        self.revision = ""  # of its registry, as it said last

    def whole(self) -> bool:
        """Whether all that it has to tell a node that joins is here."""
        return self.has_table and self.retained.complete

    def is_current(self) -> bool:
        """Whether its table is known as it is now."""
        return self.peer.up and self.has_table

    def is_coming(self) -> bool:
        """Whether its table will be known in a moment."""
        return self.link is not None and not self.has_table

    def turn(self, state: str, note: str, now: float) -> bool:
        """Another state; False if it is the same one."""
        self.note = note
        if state == self.state:
            return False
        self.state = state
        self.since = now
        return True
