"""What happens in the broker, as one stream of events that any number of sinks hear.

    hub.events.connected(connection, ...)  -> Event -> sink.emit(event), for each sink in turn

Sinks are the log, the counters, and whatever else wants to know: an audit trail, a dashboard.  They
are called at once, take the time themselves, and must not keep the caller waiting.  A sink that
fails hurts neither the caller nor the others, which are told of it.

Nothing here runs per message.  What can happen to each message (it is dropped, it is denied) is
told as a burst: the first one of a client and a cause is an event, those that follow are counted,
and their number is an event at each interval until there are none.  So many clients can have a
burst at once, MOST_BURSTS; those beyond are counted together.  What has a counter of its own and
belongs to no client, as the messages that another node did not get, is told the same way by
watch(), which looks at that counter a few times a second and costs a message nothing.
"""

from typing import Final, Protocol

from mhub.core.authorization import Authorizer
from mhub.core.principal import NOBODY, Principal
from mhub.core.timers import Timed
from mhub.wire import reasons
from mhub.wire.topics import reserved

# Kinds
CONNECTED: Final = "connected"
REFUSED: Final = "refused"  # a CONNECT was answered with no, or did not come in time
REJECTED: Final = "rejected"  # closed before MQTT began: a limit, a layer that failed
STRANGER: Final = "stranger"  # closed before MQTT began: it is not MQTT
ACCEPT_FAILED: Final = "accept_failed"  # the system gave a listener no connection
DISCONNECTED: Final = "disconnected"  # after `connected`, always; `by` says who ended it
TAKEN_OVER: Final = "taken_over"  # another connection has the client id; `disconnected` follows
KICKED: Final = "kicked"  # by an operator; `disconnected` follows, if it was connected
SESSION_EXPIRED: Final = "session_expired"
DENIED: Final = "denied"  # `cause`: connect, publish, subscribe, receive or will; `rule`: why
DROPPED: Final = "dropped"  # `cause`: why `count` messages were
LIMITED: Final = "limited"  # `cause`: the setting that held somebody back, `count` times
LOCKED_OUT: Final = "locked_out"  # too many failed logins; `cause`: login, address or user
FLAPPING: Final = "flapping"  # the client id connected too often, and is banned for a while
OVERLOAD: Final = "overload"  # `cause`: `begin` or `end`; meanwhile no client can connect
CRASHED: Final = "crashed"  # a defect of ours came to light; what it hit was closed
NODE: Final = "node"  # another node; `cause`: its new state
STORE_FAILED: Final = "store_failed"  # at the first failure, each other reason, then at times
STORE_RECOVERED: Final = "store_recovered"
SOURCE_FAILED: Final = "source_failed"  # an authenticator cannot tell; `cause`: its name
SOURCE_RECOVERED: Final = "source_recovered"
PUSH_FAILED: Final = "push_failed"  # the numbers could not be sent to a server; `cause`: its name
PUSH_RECOVERED: Final = "push_recovered"
ADMIN: Final = "admin"  # somebody administers the broker: `by`, `cause`: what, `why`, `outcome`

KINDS: Final = (
    CONNECTED,
    REFUSED,
    REJECTED,
    STRANGER,
    ACCEPT_FAILED,
    DISCONNECTED,
    TAKEN_OVER,
    KICKED,
    SESSION_EXPIRED,
    DENIED,
    DROPPED,
    LIMITED,
    LOCKED_OUT,
    FLAPPING,
    OVERLOAD,
    CRASHED,
    NODE,
    STORE_FAILED,
    STORE_RECOVERED,
    SOURCE_FAILED,
    SOURCE_RECOVERED,
    PUSH_FAILED,
    PUSH_RECOVERED,
    ADMIN,
)

# What became of what an administrator wanted
DONE: Final = "done"
REFUSED_TO: Final = "refused"  # `text` has the reason
FAILED: Final = "failed"

# Who ended a connection
CLIENT: Final = "client"  # it sent DISCONNECT
BROKER: Final = "broker"
NETWORK: Final = "network"  # it closed without DISCONNECT, or was lost
OPERATOR: Final = "operator"

# Causes of what can happen to each message, as indices of CAUSES; the first six are drops.
QUEUE_FULL: Final = 0
OFFLINE: Final = 1
EXPIRED: Final = 2
TOO_LARGE: Final = 3
UNMOUNTED: Final = 4
OTHER_USER: Final = 5
PUBLISH: Final = 6
SUBSCRIBE: Final = 7
RECEIVE: Final = 8
WILL: Final = 9
CONNECT: Final = 10

_CAUSES: Final = (
    "queue_full",
    "offline",
    "expired",
    "too_large",
    "unmounted",
    "other_user",
    "publish",
    "subscribe",
    "receive",
    "will",
    "connect",
)

# Limits that clients reach, as indices of LIMITS: the names of the settings.
MESSAGES: Final = 0
BYTES: Final = 1
MESSAGES_OUT: Final = 2
USER_MESSAGES: Final = 3
USER_BYTES: Final = 4
TENANT_MESSAGES: Final = 5
TENANT_BYTES: Final = 6
LISTENER_MESSAGES: Final = 7
LISTENER_BYTES: Final = 8
CONNECTS: Final = 9
ADDRESS_CONNECTS: Final = 10
USER_CONNECTIONS: Final = 11
TENANT_CONNECTIONS: Final = 12
USER_SESSIONS: Final = 13
TENANT_SESSIONS: Final = 14
SUBSCRIPTIONS: Final = 15
USER_SUBSCRIPTIONS: Final = 16
TENANT_SUBSCRIPTIONS: Final = 17
USER_RETAINED: Final = 18
TENANT_RETAINED: Final = 19
TOPIC_LENGTH: Final = 20
TOPIC_LEVELS: Final = 21

LIMITS: Final = (
    "max_messages_per_s",
    "max_bytes_per_s",
    "max_messages_out_per_s",
    "max_user_messages_per_s",
    "max_user_bytes_per_s",
    "max_tenant_messages_per_s",
    "max_tenant_bytes_per_s",
    "max_listener_messages_per_s",
    "max_listener_bytes_per_s",
    "max_connects_per_s",
    "max_address_connects_per_s",
    "max_user_connections",
    "max_tenant_connections",
    "max_user_sessions",
    "max_tenant_sessions",
    "max_subscriptions",
    "max_user_subscriptions",
    "max_tenant_subscriptions",
    "max_user_retained_messages",
    "max_tenant_retained_messages",
    "max_topic_length",
    "max_topic_levels",
)

FIRST_LIMIT: Final = len(_CAUSES)

CAUSES: Final = (*_CAUSES, *[f"limits.{name}" for name in LIMITS])
"""Limits come behind the other causes, so that one burst counts all of them."""

RESERVED: Final = "reserved"
"""In the place of a rule: topics under `$SYS` are the broker's own."""

MOST_BURSTS: Final = 1000
"""Clients whose bursts are told one by one; those beyond are told together."""


class EventSource(Timed):
    """A connection, as far as events tell of it."""

    def __init__(self) -> None:
        super().__init__()
        self.principal = NOBODY
        self.version = 0
        self.burst: Burst | None = None  # what it was denied lately
        self.limited: dict[int, int] | None = None  # how often each of LIMITS held it back


class Event:
    """One thing that happened; fields that do not apply are empty."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.principal = NOBODY  # whom it is about
        self.version = 0  # of MQTT, as on the wire
        self.reason = 0  # an MQTT reason code
        self.text = ""  # for people
        self.cause = ""  # for programs; see the kinds
        self.by = ""  # who ended a connection; the name of an administrator
        self.topic = ""  # topic, filter or client id that was denied
        self.rule = ""  # the id of the rule by which it was; of those that follow, as of the first
        self.node = ""  # another node of the cluster
        self.why = ""  # what an administrator gave as the reason
        self.outcome = ""  # of what an administrator wanted: DONE, REFUSED_TO or FAILED
        self.count = 1
        self.is_first = True  # False: more of a burst that was told of before
        self.duration_s = 0.0  # how long it has been so
        self.session_present = False  # the client goes on with a session that it had
        self.error: Exception | None = None

    @property
    def client_id(self) -> str:
        return self.principal.client_id

    @property
    def user(self) -> str:
        return self.principal.user

    @property
    def claimed_user(self) -> str:
        return self.principal.claimed_user

    @property
    def address(self) -> str:
        return self.principal.address

    @property
    def listener(self) -> str:
        return self.principal.listener


class Sink(Protocol):
    """Whoever wants to know."""

    def emit(self, event: Event) -> None: ...


class Burst:
    """What happens again and again to the messages of one client."""

    def __init__(self, principal: Principal) -> None:
        self.principal = principal
        self.counts = [0] * len(CAUSES)  # since the last event
        self.is_told = [False] * len(CAUSES)
        self.rules = [""] * len(CAUSES)  # of what was denied first
        self.over = False  # whoever has it begins another one

    def add(self, cause: int) -> bool:
        """Count one; whether it is the first, which is an event."""
        if self.is_told[cause]:
            self.counts[cause] += 1
            return False
        self.is_told[cause] = True
        return True


class Watch:
    """A counter, and up to where events have told of it."""

    def __init__(self) -> None:
        self.told = 0
        self.quiet_until = 0.0  # it was told of: the next time is not before


class Events:
    def __init__(self, sinks: list[Sink], interval_s: float = 10.0) -> None:
        self.sinks = sinks
        self.interval_s = interval_s  # how often the number of what followed is told
        self.due_at = 0.0
        self.authorizer: Authorizer | None = None  # knows the rules
        self.bursts: list[Burst] = []
        self.others = Burst(NOBODY)
        self.others.over = True  # nobody keeps it
        self.watches: dict[tuple[str, str, str], Watch] = {}

    def emit(self, event: Event) -> None:
        for sink in self.sinks:
            try:
                sink.emit(event)
            except Exception as error:
                self._tell_others(sink, error)

    def _tell_others(self, broken: Sink, error: Exception) -> None:
        crash = Event(CRASHED)
        crash.text = "a sink of events"
        crash.error = error
        for sink in self.sinks:
            if sink is not broken:
                try:
                    sink.emit(crash)
                except Exception:
                    continue  # there is nobody left to tell

    # Connections

    def _about(self, kind: str, source: EventSource) -> Event:
        event = Event(kind)
        event.principal = source.principal
        event.version = source.version
        return event

    def connected(self, source: EventSource, session_present: bool) -> None:
        event = self._about(CONNECTED, source)
        event.session_present = session_present
        self.emit(event)

    def refused(self, source: EventSource, reason: int, text: str) -> None:
        event = self._about(REFUSED, source)
        event.reason = reason
        event.text = text
        self.emit(event)

    def disconnected(self, source: EventSource, reason: int, text: str, by: str) -> None:
        event = self._about(DISCONNECTED, source)
        event.reason = reason
        event.text = text
        event.by = by
        self.emit(event)

    def taken_over(self, source: EventSource, text: str) -> None:
        event = self._about(TAKEN_OVER, source)
        event.text = text
        self.emit(event)

    def kicked(self, principal: Principal, version: int, reason: int, text: str) -> None:
        """Also a client that is not connected, whose session is deleted."""
        event = Event(KICKED)
        event.principal = principal
        event.version = version
        event.reason = reason
        event.text = text
        event.by = OPERATOR
        self.emit(event)

    # Before MQTT

    def stranger(self, listener: str, address: str, text: str) -> None:
        self._at_listener(STRANGER, listener, address, text, "")

    def rejected(self, listener: str, address: str, text: str, limit: str = "") -> None:
        """`limit` is the setting that was reached, if it is one."""
        self._at_listener(REJECTED, listener, address, text, limit)

    def accept_failed(self, listener: str, text: str) -> None:
        self._at_listener(ACCEPT_FAILED, listener, "", text, "")

    def _at_listener(self, kind: str, listener: str, address: str, text: str, cause: str) -> None:
        event = Event(kind)
        event.principal = Principal(address, listener)
        event.text = text
        event.cause = cause
        self.emit(event)

    # Administrators

    def admin(self, by: str, what: str, text: str, why: str, outcome: str) -> None:
        """`what` is for programs, as `users.add`; `text` tells of what, and never a secret."""
        event = Event(ADMIN)
        event.by = by
        event.cause = what
        event.text = text
        event.why = why
        event.outcome = outcome
        self.emit(event)

    # The guard

    def locked_out(
        self, principal: Principal, cause: str, text: str, failures: int, duration_s: float
    ) -> None:
        """`principal` is whose login failed last, `text` who is locked out."""
        event = Event(LOCKED_OUT)
        event.principal = principal
        event.cause = cause
        event.text = text
        event.count = failures
        event.duration_s = duration_s
        self.emit(event)

    def flapping(self, principal: Principal, connects: int, duration_s: float) -> None:
        event = Event(FLAPPING)
        event.principal = principal
        event.count = connects
        event.duration_s = duration_s
        self.emit(event)

    # Messages, told as bursts

    def denied(
        self,
        source: EventSource,
        cause: int,
        topic: str,
        reason: int,
        qos: int = 0,
        retain: bool = False,
    ) -> str:
        """CONNECT, PUBLISH, SUBSCRIBE or WILL: what a client may not do.

        The rule, if it is told of with this one.
        """
        burst = source.burst
        if burst is None or burst.over:
            burst = self.begin_burst(source.principal)
            source.burst = burst
        if not burst.add(cause):
            return ""
        return self._tell_denied(
            burst, source.principal, source.version, cause, topic, reason, qos, retain
        )

    def denied_to(
        self,
        burst: Burst,
        principal: Principal,
        cause: int,
        topic: str,
        text: str,
        qos: int,
        retain: bool,
    ) -> str:
        """The same of a session, whose client may not be connected: RECEIVE, SUBSCRIBE or WILL."""
        if not burst.add(cause):
            return ""
        return self._tell_denied(
            burst, principal, 0, cause, topic, reasons.NOT_AUTHORIZED, qos, retain, text
        )

    def _tell_denied(
        self,
        burst: Burst,
        principal: Principal,
        version: int,
        cause: int,
        topic: str,
        reason: int,
        qos: int,
        retain: bool,
        text: str = "",
    ) -> str:
        event = Event(DENIED)
        event.principal = principal
        event.version = version
        event.cause = CAUSES[cause]
        event.topic = topic
        event.reason = reason
        event.text = text
        event.rule = self.rule_of(principal, cause, topic, qos, retain)
        burst.rules[cause] = event.rule
        self.emit(event)
        return event.rule

    def rule_of(self, principal: Principal, cause: int, topic: str, qos: int, retain: bool) -> str:
        if reserved(topic) and (cause == PUBLISH or cause == WILL):
            return RESERVED
        if self.authorizer is None:
            return ""
        action = CAUSES[PUBLISH] if cause == WILL else CAUSES[cause]
        try:
            return self.authorizer.rule_of(principal, action, topic, qos, retain)
        except Exception as error:
            self.crashed("the search for the rule of a denial", error)
            return ""

    def limited(self, source: EventSource, limit: int) -> None:
        """One of LIMITS held a client back."""
        if source.limited is None:
            source.limited = {}
        source.limited[limit] = source.limited.get(limit, 0) + 1
        burst = source.burst
        if burst is None or burst.over:
            burst = self.begin_burst(source.principal)
            source.burst = burst
        if burst.add(FIRST_LIMIT + limit):
            self.tell_burst(burst, FIRST_LIMIT + limit, 0)

    def begin_burst(self, principal: Principal) -> Burst:
        """For a client that has none, or one that is over."""
        if len(self.bursts) >= MOST_BURSTS:
            return self.others
        burst = Burst(principal)
        self.bursts.append(burst)
        return burst

    def tell_burst(self, burst: Burst, cause: int, count: int) -> None:
        """So many more; 0: the first one."""
        event = Event(DROPPED if cause < PUBLISH else DENIED if cause < FIRST_LIMIT else LIMITED)
        event.principal = burst.principal
        event.cause = CAUSES[cause]
        event.count = count if count else 1
        event.is_first = count == 0
        event.rule = burst.rules[cause]
        self.emit(event)

    def watch(self, kind: str, cause: str, node: str, total: int, now: float) -> None:
        """Tell by how much a counter has grown: at once, but once in an interval."""
        key = (kind, cause, node)
        watch = self.watches.get(key)
        if watch is None:
            if not total:
                return
            watch = self.watches[key] = Watch()
        if total == watch.told or now < watch.quiet_until:
            return
        event = Event(kind)
        event.cause = cause
        event.node = node
        event.count = total - watch.told
        # A burst goes on if it was told of in the interval before this one.
        event.is_first = now >= watch.quiet_until + self.interval_s
        watch.told = total
        watch.quiet_until = now + self.interval_s
        self.emit(event)

    def tick(self, now: float) -> None:
        """Tell the numbers of what followed, and forget bursts that are over."""
        if now < self.due_at:
            return
        self.due_at = now + self.interval_s
        kept: list[Burst] = []
        for burst in self.bursts:
            if self._tell_numbers(burst):
                kept.append(burst)
            else:
                burst.over = True
        self.bursts = kept
        self._tell_numbers(self.others)

    def _tell_numbers(self, burst: Burst) -> bool:
        """Whether there were any."""
        went_on = False
        for cause, count in enumerate(burst.counts):
            burst.is_told[cause] = count > 0
            if count:
                went_on = True
                burst.counts[cause] = 0
                self.tell_burst(burst, cause, count)
        return went_on

    # The rest

    def overload(self, begins: bool, text: str, refused: int, duration_s: float) -> None:
        """The broker falls behind, or has caught up after it refused so many clients."""
        event = Event(OVERLOAD)
        event.cause = "begin" if begins else "end"
        event.text = text
        event.count = refused
        event.duration_s = duration_s
        self.emit(event)

    def session_expired(self, principal: Principal) -> None:
        event = Event(SESSION_EXPIRED)
        event.principal = principal
        self.emit(event)

    def crashed(self, what: str, error: Exception) -> None:
        """A defect of ours came to light; what it hit was closed, everything else goes on."""
        event = Event(CRASHED)
        event.text = what
        event.error = error
        self.emit(event)

    def node(self, node: str, state: str, text: str) -> None:
        """Another node is in a new state: `up`, `down` and so on."""
        event = Event(NODE)
        event.node = node
        event.cause = state
        event.text = text
        self.emit(event)

    def store_failed(self, text: str, is_open: bool, is_first: bool, duration_s: float) -> None:
        """`is_open`: it did work, and the hub has messages for it."""
        event = Event(STORE_FAILED)
        event.text = text
        event.cause = "commit" if is_open else "open"
        event.is_first = is_first
        event.duration_s = duration_s
        self.emit(event)

    def store_recovered(self, duration_s: float) -> None:
        event = Event(STORE_RECOVERED)
        event.duration_s = duration_s
        self.emit(event)

    def source_failed(self, name: str, text: str) -> None:
        """An authenticator cannot tell who clients are; told once, until it can."""
        event = Event(SOURCE_FAILED)
        event.cause = name
        event.text = text
        self.emit(event)

    def source_recovered(self, name: str) -> None:
        event = Event(SOURCE_RECOVERED)
        event.cause = name
        self.emit(event)

    def push_failed(self, name: str, text: str) -> None:
        """A server does not take the broker's numbers; told once, until it does."""
        event = Event(PUSH_FAILED)
        event.cause = name
        event.text = text
        self.emit(event)

    def push_recovered(self, name: str) -> None:
        event = Event(PUSH_RECOVERED)
        event.cause = name
        self.emit(event)
