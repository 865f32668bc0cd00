"""What operations take and give: frozen results, errors, and the broker as they need it.

Times of day are seconds of the Unix epoch, durations are seconds, sizes are bytes.  None says that
there is nothing to tell, as of the address of a client that is not connected.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mhub.core.records import Batch

Say = Callable[[str], None]
"""Tells the caller how far a long operation has come."""


class OperationError(Exception):
    """The broker does not do it; the text says why, for whoever asked."""


class NotThere(OperationError):
    """There is no such client, or no such node."""


class BadArgument(OperationError):
    """What was asked for makes no sense, whatever the broker is doing."""


class Forbidden(OperationError):
    """Whoever asks may not."""


class Stale(OperationError):
    """It is another version by now than the one that the caller has seen."""


class LimitReached(OperationError):
    """Not now: there are too many, or it came too fast."""


class Unavailable(OperationError):
    """The broker cannot do it at the moment; later it can."""


class TimedOut(OperationError):
    """Nobody answered in time; what was asked for may have been done all the same."""


@dataclass(frozen=True)
class ListenerStatus:
    name: str
    address: str
    connections: int
    max_connections: int  # 0: any number


@dataclass(frozen=True)
class ConnectionNumbers:
    open: int  # sockets, with those that have not sent their CONNECT
    accepted: int
    refused: int  # by CONNACK
    rejected: int  # before MQTT
    kicked: int


@dataclass(frozen=True)
class SessionNumbers:
    total: int
    connected: int
    connected_most: int
    expired: int
    taken_over: int
    subscriptions: int
    shared_subscriptions: int


@dataclass(frozen=True)
class MessageNumbers:
    received: int
    sent: int
    dropped: int
    received_per_s: float | None  # over the last minute or so; None: it is not measured
    sent_per_s: float | None
    bytes_received_per_s: float | None
    bytes_sent_per_s: float | None


@dataclass(frozen=True)
class AuthenticatorStatus:
    """One of `[[auth]]`, and what it has said about clients."""

    name: str
    state: str  # "ok", or "failing: " and why
    accepted: int
    refused: int
    passed_on: int  # to the next one: it did not know them
    errors: int  # it could not tell


@dataclass(frozen=True)
class QueueNumbers:
    queued_bytes: int  # of all sessions
    max_queued_bytes: int  # 0: any number
    retained: int  # of clients: what is under $SYS does not count
    retained_bytes: int


@dataclass(frozen=True)
class StoreStatus:
    name: str
    state: str  # "none", "ok", or "failing: " and why
    pending_bytes: int  # that are on their way to it
    commits: int
    failures: int
    behind: int  # how often publishers had to wait for it


@dataclass(frozen=True)
class ClusterSummary:
    cluster: str
    node: str
    ready: bool
    members_up: int
    members: int  # without this one
    queued_messages: int  # for other nodes
    queued_bytes: int


@dataclass(frozen=True)
class AccessStatus:
    policy: str  # "registry", or the file that it is in
    rows: int  # in force, with those that users and roles stand for
    revision: str
    problem: str  # why the file as it is now is not in force; "": it is


@dataclass(frozen=True)
class Status:
    version: str
    build: str
    pid: int
    state: str  # "starting", "running", "leaving", "stopping"
    uptime_s: float
    listeners: tuple[ListenerStatus, ...]
    authenticators: tuple[AuthenticatorStatus, ...]
    connections: ConnectionNumbers
    sessions: SessionNumbers
    messages: MessageNumbers
    queues: QueueNumbers
    store: StoreStatus
    cluster: ClusterSummary | None
    access: AccessStatus | None = None  # None: there are no rules


@dataclass(frozen=True)
class ClientSummary:
    client_id: str
    user: str  # proved
    claimed_user: str  # the User Name in CONNECT, which may not be
    state: str  # "connected", "offline", "migrating"
    listener: str  # of an offline one: where it was last
    address: str  # the same
    version: str | None  # of MQTT
    connected_at: float | None
    connected_s: float | None
    subscriptions: int
    queued: int
    queued_bytes: int
    inflight: int


@dataclass(frozen=True)
class ClientPage:
    clients: tuple[ClientSummary, ...]  # by client id
    left: int  # how many more are wanted and come behind these
    sessions: int  # all there are, wanted or not


@dataclass(frozen=True)
class SubscriptionSummary:
    name: str  # as the client wrote it
    qos: int
    no_local: bool
    retain_as_published: bool


@dataclass(frozen=True)
class WillSummary:
    topic: str
    qos: int
    retain: bool
    size_bytes: int
    delay_s: int


@dataclass(frozen=True)
class ClientDetail:
    client: ClientSummary
    keepalive_s: int | None
    expiry_s: int | None  # how long the session outlives its connection; None: for ever
    expires_in_s: float | None  # of an offline one
    inflight_most: int
    incoming: int  # QoS 2 messages of the client that wait for their PUBREL
    is_reading: bool | None  # False: its socket takes no more
    waits_for: tuple[str, ...]  # why nothing is read from it, or sent to it
    limited: Mapping[str, int]  # how often each limit held it back, since it has connected
    rates: Mapping[str, float]  # the limits that it has, of those that are asked for each packet
    will: WillSummary | None
    subscriptions: tuple[SubscriptionSummary, ...]  # the first of them


@dataclass(frozen=True)
class Kicked:
    client_id: str
    was_connected: bool
    session_deleted: bool


class Cluster(Protocol):
    """What a node can do about its cluster."""

    def status(self) -> Mapping[str, object]: ...

    def forget(self, name: str) -> Mapping[str, object] | None:
        """None: there is no such node.  Raises OperationError for one that is there."""


class Surroundings(Protocol):
    """The broker around the hub."""

    store_name: str

    @property
    def cluster(self) -> Cluster | None: ...

    def state(self) -> str:
        """As in Status."""

    def listeners(self) -> list[ListenerStatus]: ...

    def authenticators(self) -> list[AuthenticatorStatus]: ...

    def snapshot(self) -> AsyncGenerator[Batch, None] | None:
        """What the store has, of one moment, as Store.pages(); None: there is no store."""

    def settle(self) -> None:
        """End a turn that no socket began: write and store what has come of it."""

    async def leave(self, say: Say) -> Mapping[str, object]:
        """Out of the cluster for good, and stop."""
