"""What operations take and give: results, errors, and the broker as they need it.

Times of day are seconds of the Unix epoch, durations are seconds, sizes are bytes.  None says that
there is nothing to tell, as of the address of a client that is not connected.

What lists consist of is not frozen: an object of 20 fields takes 1.3 us to make instead of 5, and
there are 1,000 on a page.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mhub.core.limits import Limits
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
    accepted: int = 0  # since the start


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
    received_per_s: float | None  # over the last minute or so; None: it has just started
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
class PushStatus:
    """A server that the broker sends its numbers to."""

    name: str
    state: str  # "ok", or "failing: " and why
    sent: int  # points
    failures: int  # requests that did not work
    dropped: int  # points that it never got
    waiting: int  # points that it has not got yet


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


@dataclass
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
    messages_in: int = 0  # PUBLISH packets since it has connected
    bytes_in: int = 0  # their payloads
    messages_out: int = 0
    bytes_out: int = 0
    messages_in_per_s: float = 0.0  # over the last 10 s or so
    bytes_in_per_s: float = 0.0
    messages_out_per_s: float = 0.0
    bytes_out_per_s: float = 0.0
    node: str = ""  # "": there is no cluster


@dataclass(frozen=True)
class ClientPage:
    clients: tuple[ClientSummary, ...]  # in the order that was asked for
    left: int  # how many more are wanted and come behind these
    sessions: int  # all there are, wanted or not
    next: str = ""  # the cursor of the next page; "": there is none
    missing: tuple[str, ...] = ()  # nodes that are not in it: they did not answer in time


@dataclass(frozen=True)
class SubscriptionSummary:
    name: str  # as the client wrote it
    qos: int
    no_local: bool
    retain_as_published: bool


@dataclass
class SubscriptionEntry:
    """One of all subscriptions."""

    filter: str  # in full: with the mount point, and without $share/NAME/
    client_id: str
    group: str  # NAME of a shared one, or ""
    name: str  # as the client wrote it
    qos: int
    no_local: bool
    retain_as_published: bool
    connected: bool
    node: str = ""


@dataclass(frozen=True)
class SubscriptionPage:
    subscriptions: tuple[SubscriptionEntry, ...]
    left: int
    total: int  # all there are, wanted or not
    next: str = ""
    missing: tuple[str, ...] = ()  # nodes that are not in it: they did not answer in time


@dataclass(frozen=True)
class GroupMember:
    client_id: str
    qos: int
    connected: bool


@dataclass(frozen=True)
class GroupSummary:
    """A shared group, as this node knows it."""

    group: str
    filter: str  # in full
    members: int  # on this node
    connected: int  # of these
    first_members: tuple[GroupMember, ...]
    nodes: Mapping[str, int]  # others that have members: how many of those are connected
    node: str = ""


@dataclass(frozen=True)
class GroupPage:
    groups: tuple[GroupSummary, ...]  # by name and filter
    next: str = ""
    missing: tuple[str, ...] = ()  # nodes that are not in it: they did not answer in time


@dataclass
class RouteTarget:
    """A client that subscribes to a topic, by whatever filters."""

    client_id: str
    qos: int  # at most
    filters: tuple[str, ...]  # in full, the first of them
    connected: bool
    allowed: bool  # False: it may not receive the topic, and does not
    node: str = ""


@dataclass(frozen=True)
class RoutePage:
    """Who would get a message of a topic; each group gives it to one of its members."""

    topic: str
    targets: tuple[RouteTarget, ...]  # by client id
    groups: tuple[GroupSummary, ...]  # the first of them
    nodes: tuple[str, ...]  # others that have subscribers
    next: str = ""
    missing: tuple[str, ...] = ()  # nodes that are not in it: they did not answer in time


@dataclass(frozen=True)
class Subscribed:
    client_id: str
    name: str  # as the client would write it
    qos: int  # that it was given
    node: str = ""  # that has the session; "": this one


@dataclass(frozen=True)
class Unsubscribed:
    client_id: str
    name: str
    node: str = ""  # that has the session; "": this one


@dataclass
class TopicSummary:
    """What was published to a topic by clients of this node."""

    topic: str
    messages: int
    bytes: int  # their payloads
    since: float  # when counting has begun
    messages_per_s: float  # over the last 10 s or so
    bytes_per_s: float
    retained: bool
    node: str = ""


@dataclass(frozen=True)
class TopicTop:
    topics: tuple[TopicSummary, ...]  # the first is the one with the most
    counted: int  # topics that are counted
    room: int  # for so many
    missing: tuple[str, ...] = ()


@dataclass(frozen=True)
class TopicLevel:
    """One level of topics, below another one."""

    name: str
    prefix: str  # what to ask with for the levels below it
    topics: int  # that it is, or are below it, and were published to lately
    messages_per_s: float  # of all these
    bytes_per_s: float
    is_topic: bool  # and not only a part of others
    retained: bool  # there is a retained message with this very topic
    retained_messages: int  # with it and below it


@dataclass(frozen=True)
class TopicLevels:
    prefix: str
    levels: tuple[TopicLevel, ...]  # by name
    next: str = ""
    missing: tuple[str, ...] = ()  # nodes that are not in it: they did not answer in time


@dataclass
class RetainedSummary:
    topic: str
    qos: int
    size_bytes: int  # of the payload
    retained_at: float | None  # None: before this broker was started
    expires_in_s: float | None


@dataclass(frozen=True)
class RetainedPage:
    messages: tuple[RetainedSummary, ...]  # by topic
    left: int
    total: int  # of clients: what is under $SYS does not count
    next: str = ""


@dataclass(frozen=True)
class RetainedLevel:
    name: str
    prefix: str
    messages: int  # with this very topic and below it
    is_message: bool  # there is one with this very topic


@dataclass(frozen=True)
class RetainedLevels:
    prefix: str
    levels: tuple[RetainedLevel, ...]  # by name
    next: str = ""


@dataclass(frozen=True)
class RetainedMessage:
    message: RetainedSummary
    payload: str  # base64, of as much as was asked for
    is_whole: bool  # that is all of it
    text: str | None  # the same as text, if it is UTF-8
    payload_is_text: bool | None  # what its publisher says; None: nothing
    content_type: str | None
    response_topic: str | None
    correlation_data: str | None  # base64
    user_properties: tuple[tuple[str, str], ...]
    publisher: str  # a client id; "": it is not known any more


@dataclass(frozen=True)
class RetainedDeleted:
    topic: str


@dataclass(frozen=True)
class WillSummary:
    topic: str
    qos: int
    retain: bool
    size_bytes: int
    delay_s: int


@dataclass(frozen=True)
class DenialSummary:
    """What a client was not allowed, the last of its kind."""

    action: str  # "publish", "subscribe", "receive", "will"
    topic: str  # or filter, in full
    qos: int
    retain: bool
    rule: str  # its id; "no rule": there is none that allows it; "reserved": it is the broker's own
    at: float
    count: int  # how often in a row, of this topic


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
    denials: tuple[DenialSummary, ...] = ()  # the last one first


@dataclass(frozen=True)
class Kicked:
    client_id: str
    was_connected: bool
    session_deleted: bool
    node: str = ""  # that has the session; "": this one


@dataclass(frozen=True)
class Reply:
    """What another node has said to a question, or why it has not."""

    data: bytes  # the answer, as JSON
    error: str = ""  # the name of an OperationError; "": there is none
    text: str = ""  # of the error


Respond = Callable[[str, Mapping[str, object]], Awaitable[bytes]]
"""The answer to a question of another node, by name and arguments, as JSON."""


class Cluster(Protocol):
    """What a node can do about its cluster."""

    is_ready: bool  # it has joined

    def nodes(self) -> Mapping[str, str]:
        """All others that are known, and their states."""

    def ask(
        self, node: str, name: str, arguments: Mapping[str, object], within_s: float
    ) -> Awaitable[Reply]:
        """Ask another node; it is asked at once, also if nobody waits yet."""

    def serve(self, respond: Respond) -> None:
        """Who answers the questions of other nodes."""

    def watch_clients(self, changed: Callable[[str], None]) -> None:
        """`changed` is told of each client of which the table of another node says otherwise."""

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

    def pushes(self) -> list[PushStatus]: ...

    def limits(self) -> tuple[Limits, Mapping[str, Limits]]:
        """Those of `[limits]`, and of each listener by its name."""

    def snapshot(self) -> AsyncGenerator[Batch, None] | None:
        """What the store has, of one moment, as Store.pages(); None: there is no store."""

    def settle(self) -> None:
        """End a turn that no socket began: write and store what has come of it."""

    async def leave(self, say: Say) -> Mapping[str, object]:
        """Out of the cluster for good, and stop."""
