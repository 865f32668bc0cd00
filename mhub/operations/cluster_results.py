"""What operations give that are about all nodes of a cluster, or about where clients are.

Units and None are as in `contract`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from mhub.operations.contract import (
    ConnectionNumbers,
    MessageNumbers,
    QueueNumbers,
    SessionNumbers,
    Status,
)


@dataclass(frozen=True)
class Presence:
    """Whether a client is there, since when and from where; each client of a cluster once."""

    client_id: str
    state: str  # "connected", "offline"
    node: str  # that has the session; "": there is no cluster
    node_state: str  # "up"; "down": it cannot be reached, and this is what was known of it last
    user: str | None  # proved; "": it is anonymous; None: nothing is known of it
    address: str | None  # of an offline one: where it was last
    listener: str | None  # the same
    version: str | None  # of MQTT, while it is connected
    since: float | None  # it has connected, or its last connection has ended; None: not known


@dataclass(frozen=True)
class Held:
    """A client as the node that has its session tells it to others."""

    value: int  # in the table of the node, by which it is seen whether this is still so
    presence: Presence


@dataclass(frozen=True)
class HeldPage:
    clients: tuple[Held, ...]  # by client id
    next: str = ""


@dataclass(frozen=True)
class PresencePage:
    clients: tuple[Presence, ...]  # by client id
    next: str = ""
    missing: tuple[str, ...] = ()  # nodes that have not answered: what was known of their clients


@dataclass(frozen=True)
class NodeStatus:
    node: str
    status: Status


@dataclass(frozen=True)
class Totals:
    """The sums over all nodes that have answered; of what all nodes have, as retained messages are
    had by all, the most."""

    connections: ConnectionNumbers
    sessions: SessionNumbers
    messages: MessageNumbers
    queues: QueueNumbers


@dataclass(frozen=True)
class ClusterTotals:
    total: Totals
    nodes: tuple[NodeStatus, ...]
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class ClusterMember:
    """Another node, as one sees it, and the link with it."""

    node: str
    host: str  # the node in whose process it is, during a failover
    state: str  # "up", "syncing", "suspect", "down", "dead", "left"
    address: str
    version: str
    latency_ms: float | None  # of the last heartbeat
    queued_messages: int  # that wait for it
    queued_bytes: int
    routes: int  # filters and groups that it wants messages for
    clients: int  # sessions that it has
    since_s: float  # for how long it has had this state
    sent: int
    received: int
    dropped: int
    dropped_qos0: int
    dropped_full: int
    refused: int
    sessions: Mapping[str, int]  # that wait for it
    held_s: float | None
    calls_failed: int
    call_error: str
    next_call_s: float | None
    revision: str  # of its registry
    takeover: bool  # when it is gone, another node takes over what is in its store
    note: str  # why it is in this state


@dataclass(frozen=True)
class RegistryState:
    revision: str
    entries: int
    tombstones: int
    collected: int
    refused: int
    known: tuple[str, ...]  # nodes
    behind: tuple[str, ...]  # those of them that tombstones are kept for


@dataclass(frozen=True)
class UnreachableAddress:
    address: str
    node: str
    reason: str
    since_s: float
    attempts: int
    next_call_s: float


@dataclass(frozen=True)
class ClusterState:
    """The cluster as one node sees it."""

    cluster: str
    node: str
    version: str
    protocol: int
    ready: bool
    leaving: bool
    address: str
    routes: int
    clients: int
    refused: int
    sessions: Mapping[str, int]  # that migrate, or wait for another node
    registry: RegistryState
    members: tuple[ClusterMember, ...]
    strangers: Mapping[str, int]
    unreachable: tuple[UnreachableAddress, ...]


@dataclass(frozen=True)
class Holdings:
    """What a node has that no other one has."""

    connected: int  # clients
    lasting: int  # sessions that outlive their connection
    queued_bytes: int  # messages that wait for them, as far as they are in memory
    store: str  # "memory": what it has ends with its process


@dataclass(frozen=True)
class NodeReport:
    state: ClusterState
    holdings: Holdings


@dataclass(frozen=True)
class Link:
    """One direction of a link between two nodes."""

    node: str
    to: str
    state: str
    latency_ms: float | None
    queued_messages: int
    queued_bytes: int


@dataclass(frozen=True)
class NodeLoss:
    """What the loss of a node would mean, or means, if it is lost."""

    node: str
    is_known: bool  # it has answered; else sessions are what its table said last
    connected: int  # clients that have to connect elsewhere
    sessions: int  # that no other node has
    queued_bytes: int
    fate: str  # of these sessions: "taken over", "kept in its store", "lost", "unknown"
    text: str  # the same, for people


@dataclass(frozen=True)
class ClusterView:
    state: ClusterState  # as the node sees it that was asked
    links: tuple[Link, ...]  # as all nodes see them
    losses: tuple[NodeLoss, ...]
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Forgotten:
    node: str
    at: tuple[str, ...]  # the nodes that knew it
    messages: int  # that were kept for it there
    missing: tuple[str, ...]  # nodes that may still know it
