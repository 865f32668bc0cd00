"""Another node, as the hub sees it: its link, what it wants, and what it knows of our table.

Messages cross in two channels, to it (`outgoing`) and from it (`incoming`), which outlive links and
processes.  While it responds, publishers wait for it; while it does not, for the store.
"""

from collections import deque
from typing import TYPE_CHECKING

from mhub.core.channel_in import IncomingChannel
from mhub.core.channel_out import OutgoingChannel
from mhub.core.journal import AckTracker
from mhub.core.ports import PeerOutlet
from mhub.core.shared import RemoteNode
from mhub.core.stats import PeerStats
from mhub.wire.primitives import read_u64

if TYPE_CHECKING:
    from mhub.core.peers import Peers


class Peer(RemoteNode):
    def __init__(self, peers: "Peers", name: str) -> None:
        super().__init__()
        self.peers = peers
        self.name = name
        self.hub = peers.hub
        self.limits = peers.limits
        self.counters = PeerStats()
        self.outlet: PeerOutlet | None = None
        self.suspected = False  # there is a link, but nothing comes
        # What it wants
        self.routes: dict[str, int] = {}
        self.clients: dict[str, int] = {}
        self.table_received = 0  # its table is known up to this number; -1: all of it has to come
        # Our table, as far as it
        self.told = 0  # was told of it
        self.knows = 0  # has confirmed it
        self.awaiting: deque[tuple[int, AckTracker]] = deque()  # who waits until it has a number
        self.outgoing = OutgoingChannel(self)
        self.incoming = IncomingChannel(self)

    def send(self, kind: int, body: bytes) -> None:
        if self.outlet is not None:
            self.outlet.send(kind, body)

    def full(self) -> bool:
        return self.outgoing.full()

    def responds(self) -> bool:
        """Whether somebody may have to wait for it."""
        return self.up and not self.suspected

    # Links come and go

    def linked(self, outlet: PeerOutlet, epoch: str, n: int, their_epoch: str) -> None:
        """There is a link; the peer has our channel of `epoch` up to n, and its own has another."""
        self.outlet = outlet
        self.up = True
        self.suspected = False
        self.outgoing.linked(epoch, n)
        self.incoming.linked(their_epoch)

    def unlinked(self) -> None:
        """The link is gone: what the peer may not have is kept, as the store promises."""
        if self.up:
            self.up = False
            self.outlet = None
            self.outgoing.unlinked()
            self._stop_waiting()

    def suspect(self) -> None:
        """It has been silent for too long: as without a link, but what comes is taken."""
        self.suspected = True
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        while self.awaiting:
            self.awaiting.popleft()[1].arrived()
        self.outgoing.stop_waiting()

    def confirmed(self, body: bytes) -> None:
        """What the peer says that it has."""
        frames, pos = read_u64(body, 0)
        n, pos = read_u64(body, pos)
        number, pos = read_u64(body, pos)
        self.outgoing.confirmed(frames, n)
        self.knows = number
        while self.awaiting and self.awaiting[0][0] <= number:
            self.awaiting.popleft()[1].arrived()
