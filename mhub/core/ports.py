"""What the core needs from the world, as narrow protocols given to it when it is built.

Three more have their own files, as they know nothing of the rest: `mhub.core.authentication` (who
is it?), `mhub.core.authorization` (may they?) and `mhub.core.events` (what happens, for any number
of sinks).
"""

from typing import TYPE_CHECKING, Protocol

from mhub.core.records import Batch, Row
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.core.channel_records import Entry
    from mhub.core.connection import Connection
    from mhub.core.delivery import Subscription
    from mhub.core.peer import Peer
    from mhub.core.session import Session


class Outlet(Protocol):
    """One connection's way out."""

    def write(self, data: bytes) -> bool:
        """Send or buffer all of data; False: full, call Connection.writable() when it has room."""

    def close(self, linger: bool) -> None:
        """Close once what was written is out, and with `linger` also read; lost() is not called."""

    def pause(self) -> None:
        """Read nothing more from the peer ..."""

    def resume(self) -> None:
        """... until now."""


class Tap(Protocol):
    """Who looks on at what a connection receives."""

    def received(self, data: bytes) -> None:
        """All bytes of one read, before they are handled.  Must not raise."""


class JournalWriter(Protocol):
    """The way to the store.  Both calls return at once."""

    def commit(self, batch: Batch) -> None:
        """Make a batch safe, however often it has to be tried; then call Storage.committed()."""

    def load(self, session: "Session", after: int, most: int, most_bytes: int) -> None:
        """Call Storage.loaded() with queued messages of a session that come behind seq `after`."""


class PeerOutlet(Protocol):
    """The way to another node."""

    def send(self, kind: int, body: bytes) -> None:
        """A frame; it arrives behind all that were sent before, or the link is lost."""


class Neighbours(Protocol):
    """What the cluster's node does for the hub."""

    def tell(self, peer: "Peer") -> None:
        """Send a peer the changes of our table that it was not told of."""

    def claim(self, connection: "Connection") -> bool:
        """Whether a CONNECT has to wait for what other nodes have of its session.

        Then its connection is WAITING, until Admission.welcome() goes on with it or it is closed.
        """

    def control(self, peer: "Peer", client_id: str, body: bytes) -> None:
        """A control record came, between the messages of a peer."""

    def direct(self, entry: "Entry") -> None:
        """A message came for the session of one client alone."""

    def loaded(self, session: "Session", rows: list[Row]) -> None:
        """Messages of a frozen session, which the store was asked for."""

    def ended(self, session: "Session") -> None:
        """A session is over."""

    def turn(self) -> None:
        """Go on with the sessions that migrate."""

    def stranger_numbers(self) -> dict[str, int]:
        """Connections to the peer port that have not logged in, and what became of others."""

    def session_numbers(self) -> dict[str, int]:
        """How many sessions are in which state between nodes, for $SYS."""

    def stored(self) -> None:
        """Go on with frames that wait for the store."""

    def owned(self, peer: "Peer", client_id: str, value: int) -> None:
        """A peer has the session of a client, or claims it, or (0) does not any more."""


class Intake(Protocol):
    """What decides for a session which messages are for it, while that is a question."""

    def admits(self, message: Publish, qos: int, subscription: "Subscription") -> bool:
        """Whether the session takes it; False: it is not for it, or was dealt with."""


class Tracer(Protocol):
    """Who looks on at clients as they come (`mhub.core.tracing`)."""

    def attached(self, connection: "Connection") -> None:
        """A client has its session; its CONNACK is still to be sent.  Must not raise."""
