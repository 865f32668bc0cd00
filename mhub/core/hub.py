"""The hub owns the state of the broker; connections only bring it packets.

One turn of the world around it:

    connection.receive(data, now)  for each socket that has something; frames gather
    hub.flush()                    one write for each connection that has output
    hub.proceed(now)               what the bounds of an earlier turn had put off (`unfinished`)
    hub.tick(now)                  a few times a second: keep-alive, expiry, delayed wills, $SYS

With a store there is a journal: flush() hands what has gathered there to the journal writer, and
`mhub.core.storage` is told when it is safe, which lets go the replies that waited.

The hub has more attributes than other classes: a dozen are the owners of one concern each, and what
each message touches (now, work, dirty, durable, journal) is one step away, not two.
"""

from collections.abc import Callable
from typing import Final

from mhub.core import events
from mhub.core.accounts import Accounts, owner_of
from mhub.core.admission import Admission
from mhub.core.authorization import Authorizer
from mhub.core.connection import Connection
from mhub.core.delivery import Delivery
from mhub.core.events import CONNECTS, DROPPED, LIMITED, Events
from mhub.core.inflight import UNLIMITED_BYTES
from mhub.core.journal import Journal, tracker_of
from mhub.core.limits import ACKNOWLEDGE, NEVER, Limits
from mhub.core.listener_limits import ListenerLimits
from mhub.core.metrics import Metrics
from mhub.core.outgoing import QueueTotal
from mhub.core.overload import Overload
from mhub.core.partial import PartialPackets
from mhub.core.peers import Peers
from mhub.core.ports import JournalWriter, Tracer
from mhub.core.principal import NOBODY, Principal
from mhub.core.promises import Promises
from mhub.core.publishing import Publishing
from mhub.core.quota import Quota
from mhub.core.rates import Throttle, is_metered, meter_of
from mhub.core.redistribution import pass_on, redistribute
from mhub.core.registry import TOPIC as CHANGE_SET
from mhub.core.registry import Registry
from mhub.core.retained import Retained
from mhub.core.revocation import UNKNOWN, Revocation
from mhub.core.router import Route, Router
from mhub.core.session import Session
from mhub.core.shared import Group, read_share
from mhub.core.slots import NOWHERE, Slots
from mhub.core.stats import Stats
from mhub.core.storage import Storage
from mhub.core.subscribing import Subscribing, remount
from mhub.core.sys import SysTopics
from mhub.core.timers import Wheel
from mhub.core.traffic import Walk
from mhub.wire import reasons
from mhub.wire.errors import ProtocolFault
from mhub.wire.publish import Publish
from mhub.wire.topics import reserved

NO_GROUPS: Final[list[Group]] = []

SWEEP_S: Final = 30.0
"""How often expired retained messages are looked for; nobody is sent one in the meantime."""

CATCH_UP: Final = 5_000
"""So many deliveries of what earlier turns have put off, a few milliseconds, then the sockets are
looked at: those who have something new do not wait for all who have much to catch up with."""

REVIEWED: Final = 2_500
"""So many clients may get other limits with a tick: some milliseconds."""

LOOK_UPS: Final = 2_000
"""So much work, in deliveries, may go into looking for retained messages before the next turn."""


class HubSettings:
    """Bounds of the broker as a whole; what concerns one client is in Limits."""

    def __init__(self) -> None:
        self.max_topic_levels = 128
        self.max_wildcard_patterns = 256  # of filters with many levels; 0: any number
        self.route_cache_size = 100_000
        self.max_sessions = 0  # 0: any number
        self.max_retained_messages = 1_000_000
        self.max_retained_bytes = 1024 * 1024 * 1024
        self.max_queued_bytes_total = 2048 * 1024 * 1024  # of all sessions; 0: any number
        self.max_partial_bytes = 256 * 1024 * 1024  # of unfinished packets; 0: any number
        self.sys_interval_s = 10.0
        self.work_per_turn = 20_000  # deliveries, then the next turn goes on
        self.overload_drift_s = 2.0  # as late as this, no new clients; 0: always
        self.portion = 500  # waiting messages sent to one client in one turn
        self.version = ""
        self.denied_publish = ACKNOWLEDGE  # of clients before MQTT 5: or DISCONNECT
        self.tell_withdrawn = True  # MQTT 5 clients that lose a subscription are disconnected
        self.publish_cache_size = 256  # topics for which a connection remembers that it may publish


class QuotaReview:
    """A walk through all sessions, for those whose users may have other limits."""

    def __init__(self, users: set[str] | None) -> None:
        self.users = users  # None: all
        self.left: list[str] | None = None  # client ids; None: it has not begun

    def add(self, users: set[str] | None) -> None:
        self.users = None if users is None or self.users is None else self.users | users


def no_quota(principal: Principal) -> Quota | None:
    """Where nobody knows of limits of users and roles."""
    return None


def nothing() -> None:
    """What wakes a hub that is driven by hand."""


class Redirect:
    """Clients go elsewhere, since this node leaves the cluster."""

    def __init__(self, reference: str) -> None:
        self.reference = reference  # where to; "": anywhere else
        self.reason = reasons.SERVER_MOVED if reference else reasons.USE_ANOTHER_SERVER


class Hub:
    def __init__(
        self, settings: HubSettings, events: Events, token: Callable[[], str], now: float
    ) -> None:
        self.events = events
        self.token = token  # makes client ids unique
        self.wake: Callable[[], None] = nothing  # `unfinished` is to be gone on with, now
        self.now = now
        self.stats = Stats()
        events.sinks.append(self.stats)
        self.wheel = Wheel()
        self.wheel.tick(now)
        self.router = Router(
            self.stats,
            settings.route_cache_size,
            settings.max_topic_levels,
            settings.max_wildcard_patterns,
            now,
        )
        self.retained = Retained(
            self.stats, settings.max_retained_messages, settings.max_retained_bytes
        )
        self.registry = Registry()
        self.registry.crashed = events.crashed
        self.admission = Admission(self)
        self.publishing = Publishing(self)
        self.subscribing = Subscribing(self)
        self.authorizer: Authorizer | None = None
        self.rights = 0  # their revision: each change that may concern everybody raises it
        self.revocation = Revocation()
        self.denied_publish = settings.denied_publish
        self.tell_withdrawn = settings.tell_withdrawn
        self.publish_cache_size = settings.publish_cache_size
        self.is_deleted: Callable[[Principal], bool] | None = None  # whether its user was
        self.unix_time: Callable[[], float] | None = None  # the time of day; None: that of the hub
        self.journal: Journal | None = None
        self.peers: Peers | None = None
        self.storage = Storage(self)
        self.durable = 0  # the number of the last batch that is safe
        self.promises = Promises()
        self.accounts = Accounts()
        self.retained.accounts = self.accounts
        self.throttle = Throttle()
        self.overload = Overload(settings.overload_drift_s)
        self.listener_limits = ListenerLimits()
        self.quota_of: Callable[[Principal], Quota | None] = no_quota
        self.sessions_per_tick = 50_000  # that are looked at for a change of limits
        self.quota_reviews: list[QuotaReview] = []  # of limits that may be others now
        self.sessions: dict[str, Session] = {}  # changed by put_session and drop_session alone
        self.slots: Slots[Session] = Slots()  # the same ones, for who walks through all of them
        self.traffic = Walk(self, now)
        self.max_sessions = settings.max_sessions
        self.sessions_at: dict[str, int] = {}  # how many, by the listener they came to last
        self.queues = QueueTotal(settings.max_queued_bytes_total)
        self.partials = PartialPackets(settings.max_partial_bytes)
        self.connected = 0
        self.stopping = False
        self.taken_over = False  # another node has all that this hub had, wills among it
        self.redirect: Redirect | None = None  # no client may come, and those here were sent away
        self.tracer: Tracer | None = None  # None: nobody looks on
        self.dirty: list[Connection] = []
        self.unfinished: list[Connection] = []
        self.dismissed: list[tuple[Connection, int, str]] = []
        self.work = 0
        self.work_per_turn = settings.work_per_turn
        self.look_ups = 0  # of this work, since proceed(): retained messages that were looked for
        self.portion = settings.portion
        self.version = settings.version
        self.started_at = now
        self.metrics = Metrics(self, now)
        self.sys = SysTopics(
            settings.sys_interval_s, now, self.metrics.snapshot, self.publish_local
        )
        self.sweep_at = now + SWEEP_S

    # The turn

    def flush(self) -> None:
        self.work = 0
        if self.registry.waiting:
            self.registry.release()
        if self.promises.waiting:
            self.promises.release(self.durable, self.events)
        while True:
            if self.journal is not None:
                self.storage.send(self.journal)
            if not self.dirty and not self.dismissed:
                if self.peers is None:
                    return
                self.peers.flush()
                # Sessions that migrate may have gone on, with something to store or to send.
                if not self.dirty and not self.dismissed and not self.storage.can_send():
                    return
                continue
            self._dismiss()
            dirty = self.dirty
            self.dirty = []
            for connection in dirty:
                try:
                    connection.flush()
                except Exception as error:
                    self.crash(connection, error)

    def dismiss(self, connection: Connection, reason: int, text: str) -> None:
        """Close a connection once the message at hand has reached everybody.

        At once would be a recursion: the will of the one fills the queue of the next.
        """
        self.dismissed.append((connection, reason, text))

    def _dismiss(self) -> None:
        while self.dismissed:
            dismissed = self.dismissed
            self.dismissed = []
            for connection, reason, text in dismissed:
                connection.fail(reason, text)

    def crash(self, connection: Connection, error: Exception) -> None:
        """A defect hit one connection: close that one, and go on."""
        client_id = connection.client_id
        self.events.crashed(repr(client_id) if client_id else connection.principal.address, error)
        try:
            connection.close(reasons.UNSPECIFIED, "an internal error")
        except Exception as again:
            self.events.crashed("closing it", again)

    def continue_later(self, connection: Connection) -> None:
        if not connection.unfinished:
            connection.unfinished = True
            self.unfinished.append(connection)

    def is_unfinished(self) -> bool:
        """Whether there is something to do, though nothing comes from any socket."""
        return bool(self.unfinished) or self.revocation.is_pending() or bool(self.dirty)

    def proceed(self, now: float) -> None:
        """Go on with connections in turn; those that the budget does not reach come first next."""
        if self.revocation.is_pending():
            self.now = now
            self._review()
        most = min(self.work_per_turn, CATCH_UP)
        self.look_ups = 0
        unfinished = self.unfinished
        self.unfinished = []
        for index, connection in enumerate(unfinished):
            if self.work >= most:
                self.unfinished = unfinished[index:] + self.unfinished
                return
            connection.unfinished = False
            try:
                connection.proceed(now)
            except Exception as error:
                self.crash(connection, error)

    def _review(self) -> None:
        try:
            self.revocation.turn()
        except Exception as error:
            self.events.crashed("the review of sessions after a change of rights", error)

    def may_look_up(self) -> bool:
        """Whether retained messages may be looked for in this turn."""
        return self.look_ups < LOOK_UPS and self.work < self.work_per_turn

    def looked_up(self, effort: int) -> None:
        self.work += effort
        self.look_ups += effort

    def tick(self, now: float) -> None:
        self.now = now
        self.throttle.tick(now)
        if self.quota_reviews:
            self._review_quotas()
        for timed in self.wheel.tick(now):
            try:
                timed.fire(now)
                self.wheel.arm(timed, timed.deadline())
            except Exception as error:
                self.events.crashed("a timer", error)
        if self.journal is not None:
            self.journal.hurry()
        self._watch(now)
        self.traffic.tick(now)
        self.events.tick(now)
        self.metrics.tick(now)
        self.sys.tick(now)
        if now >= self.sweep_at:
            self.sweep_at = now + SWEEP_S
            self.accounts.sweep(now)
            for topic in self.retained.sweep(now):
                if self.journal is not None:
                    self.journal.forget_retained(topic)
            self.registry.collect(now)

    # Limits

    def limited(self, connection: Connection, limit: int) -> None:
        """One of events.LIMITS has held a client back."""
        self.stats.limited[limit] += 1
        self.events.limited(connection, limit)

    def set_limits(self, connection: Connection) -> None:
        """What the user of a connection may have, on top of what its listener gives to all."""
        quota = self.quota_of(connection.principal)
        base = self.listener_limits.of(connection.principal.listener, connection.listener_limits)
        connection.listener_limits = base
        connection.limits = base if quota is None else quota.on_top_of(base)

    def limits_of(self, session: Session) -> Limits:
        """What the client of a session may have, also while it is away."""
        if session.connection is not None:
            return session.connection.limits
        quota = self.quota_of(session.principal)  # not in those of a stored one
        return session.limits if quota is None else quota.on_top_of(session.limits)

    def set_meter(self, connection: Connection) -> None:
        """What is asked about each packet of a connection, if its limits need that."""
        limits = connection.limits
        most_levels = self.router.max_levels
        if not is_metered(limits, most_levels):
            connection.set_meter(None)
            return
        principal = connection.principal
        user = self.accounts.user(principal.user)
        tenant = self.accounts.tenant(principal.tenant)
        throttle = self.throttle
        connection.set_meter(
            meter_of(
                limits,
                most_levels,
                throttle.of_client(connection.client_id),
                user.rates() if user is not None else None,
                tenant.rates() if tenant is not None else None,
                throttle.of_listener(principal.listener),
            )
        )

    def quotas_changed(self, users: set[str] | None) -> None:
        """quota_of() says something else of these users, or (None) of any: clients that are
        connected have it within the next ticks."""
        reviews = self.quota_reviews
        if len(reviews) < 2:
            reviews.append(QuotaReview(users))
        else:  # the first one is under way
            reviews[1].add(users)

    def _review_quotas(self) -> None:
        review = self.quota_reviews[0]
        left = review.left
        if left is None:
            left = review.left = list(self.sessions)
        until = max(0, len(left) - self.sessions_per_tick)
        reviewed = 0
        while len(left) > until and reviewed < REVIEWED:
            session = self.sessions.get(left.pop())
            if session is None or session.connection is None:
                continue
            if review.users is None or session.principal.user in review.users:
                reviewed += 1
                self.review_quota(session, session.connection)
        if not left:
            del self.quota_reviews[0]

    def review_quota(self, session: Session, connection: Connection) -> None:
        before = connection.limits
        self.set_limits(connection)
        if connection.limits is not before:
            session.limits = connection.limits
            session.inflight.window_bytes = connection.limits.max_inflight_bytes or UNLIMITED_BYTES
            self.set_meter(connection)

    def count(self, session: Session) -> None:
        """What a session counts for, of its user and tenant."""
        session.counted = self.accounts.update(
            session.counted,
            session.principal,
            session.connection is not None,
            len(session.subscriptions),
        )

    def retained_quota_reached(self, connection: Connection, topic: str) -> bool:
        """Whether a client may not retain a message at another topic."""
        limit = self._retained_limit(connection.principal, connection.limits, topic)
        if limit >= 0:
            self.limited(connection, limit)
        return limit >= 0

    def _retained_limit(self, principal: Principal, allowed: Limits, topic: str) -> int:
        """The limit that a retained message would pass; -1: none."""
        if not allowed.max_user_retained_messages and not allowed.max_tenant_retained_messages:
            return -1
        if self.retained.tree.get(topic) is not None:
            return -1
        return self.accounts.retained_limit(principal, allowed)

    def check_accounts(self, connection: Connection, client_id: str) -> None:
        """Refuse a client whose user or tenant has enough connections or sessions here."""
        before = self.sessions.get(client_id)
        limit = self.accounts.connect_limit(
            connection.principal,
            connection.limits,
            before.counted if before is not None else None,
            self.peers is not None and self.peers.has_session(client_id),
        )
        if limit >= 0:
            self.limited(connection, limit)
            raise ProtocolFault(reasons.QUOTA_EXCEEDED, f"limits.{events.LIMITS[limit]} is reached")

    def measure_drift(self, drift_s: float, now: float) -> None:
        """By how much the loop is late."""
        overload = self.overload
        if not overload.measure(drift_s, now):
            return
        if overload.active:
            self.stats.overloads += 1
            self.events.overload(True, f"it is {drift_s:.1f} s late", 0, 0.0)
        else:
            self.events.overload(False, "", overload.refused, now - overload.began_at)

    def _watch(self, now: float) -> None:
        """Tell of what is counted where a message passes, and belongs to no client."""
        events = self.events
        stats = self.stats
        events.watch(DROPPED, "retained_full", "", stats.dropped_retained_full, now)
        events.watch(LIMITED, "store.max_pending_bytes", "", stats.store_behind, now)
        connects = stats.limited[CONNECTS]
        events.watch(LIMITED, "limits.max_connects_per_s", "", connects, now)
        events.watch(LIMITED, "passwords.max_queued", "", stats.passwords_refused, now)
        if self.peers is not None:
            for peer in self.peers.all:
                counters = peer.counters
                dropped = counters.dropped_qos0 + counters.dropped_full
                events.watch(DROPPED, "peer_queue_full", peer.name, dropped, now)
                events.watch(LIMITED, "cluster.max_queued", peer.name, counters.refused, now)

    # The store

    def keep_in(self, writer: JournalWriter, journal: Journal) -> None:
        """From now on, what has to outlive the process goes there."""
        self.storage.writer = writer
        self.journal = journal
        self.registry.keep_in(journal, self.peers is not None)

    def join(self, peers: Peers) -> None:
        """From now on, this hub is one of several."""
        self.peers = peers
        self.router.table = peers.table
        self.retained.count_for_peers()
        self.registry.join(peers.clock, peers.forward_to_all, self.token)

    def require_peers(self) -> Peers:
        """The other nodes, for what only a node of a cluster has."""
        peers = self.peers
        assert peers is not None
        return peers

    def require_journal(self) -> Journal:
        """The journal of a hub that has one, as every session with a sid shows."""
        journal = self.journal
        assert journal is not None
        return journal

    def mark(self, session: Session) -> int:
        """The batch to wait for before a session is promised anything; 0: none."""
        return self.journal.mark() if self.journal is not None and session.sid else 0

    # Rights

    def authorize_with(self, authorizer: Authorizer | None) -> None:
        """From now on, it is asked whether a client may; None: everybody may do everything.

        It has to know all rules: what it does not allow now is withdrawn for good.
        """
        self.authorizer = authorizer
        self.router.authorizer = authorizer
        self.events.authorizer = authorizer
        self.rights_changed()

    def judge_wills_as(self, host: "Hub") -> None:
        """This hub has no clients, and gives its sessions to others: what is left to be decided
        here is which wills may be published."""
        self.authorizer = host.authorizer
        self.events.authorizer = host.authorizer

    def rights_changed(self, users: set[str] | None = None) -> None:
        """The authorizer has other answers: to these users, or to anybody.

        "" is the user of all who have proved nothing.  `mhub.core.revocation` says what follows.
        """
        if users is None:
            self.rights += 1
            self.router.rights = self.rights
            self.router.forget_all()
            self.revocation.begin(list(self.sessions.values()))
        else:
            for session in list(self.sessions.values()):
                if session.principal.user in users:
                    self.review(session)
        for connection in list(self.admission.waiting):
            if users is None or connection.principal.user in users:
                self._check_waiting(connection)
        self.wake()

    def review(self, session: Session) -> None:
        """What a session may do is another thing than before, or is not known."""
        session.rights = UNKNOWN
        session.granted = UNKNOWN
        if session.connection is not None:
            session.connection.rights = UNKNOWN
        if self.authorizer is not None or self.is_deleted is not None:
            self.router.forget(session.subscriptions)
            self.revocation.add(session)

    def review_if_stale(self, session: Session) -> None:
        """A session is this hub's again, and the rights may have changed meanwhile."""
        if session.granted != self.rights:
            self.review(session)

    def _check_waiting(self, connection: Connection) -> None:
        """A client whose session is on its way was let in under other rights."""
        try:
            self.admission.check_connect(connection)
        except ProtocolFault as fault:
            connection.fail(fault.reason, fault.text)

    def disconnect_user(self, user: str, reason: int, text: str, end_sessions: bool = False) -> int:
        """A user is locked, banned, or (end_sessions) deleted; how many clients and sessions.

        `text` is for the client as well.  Sessions of a deleted user that are on their way between
        nodes, or in a store, are found by `is_deleted` when they come.
        """
        return self.disconnect_where(lambda p: p.user == user, reason, text, end_sessions)

    def disconnect_where(
        self,
        concerns: Callable[[Principal], bool],
        reason: int,
        text: str,
        end_sessions: bool = False,
    ) -> int:
        """The same for all clients of whom `concerns` says so."""
        found = 0
        for connection in list(self.admission.waiting):
            if concerns(connection.principal):
                found += 1
                connection.fail(reason, text)
        for session in list(self.sessions.values()):
            if not concerns(session.principal):
                continue
            if session.frozen or (session.connection is None and not end_sessions):
                continue
            found += 1
            if session.connection is not None:
                session.connection.kick(reason, text)
            # It may have ended with its connection, or by what its will brought about.
            if end_sessions and self.sessions.get(session.client_id) is session:
                self.end_session(session)
        self.wake()
        return found

    def update_principals(self, user: str, update: Callable[[Principal], Principal]) -> int:
        """What is known of a user has changed, as its tenant: how many principals it concerns.

        `update` makes another one of each (`Principal.copy`) and does not change it; the same one
        says that nothing is new.
        """
        found = 0
        for connection in list(self.admission.waiting):
            if connection.principal.user == user:
                found += 1
                connection.principal = update(connection.principal)
                self._check_waiting(connection)
        for session in list(self.sessions.values()):
            if session.principal.user == user:
                found += 1
                principal = update(session.principal)
                if principal is session.principal:
                    continue
                if session.connection is not None:
                    session.connection.principal = principal
                self.set_principal(session, principal)
                if session.sid:
                    self.require_journal().session(session)
        self.wake()
        return found

    def pass_on(self, session: Session, delivery: Delivery) -> bool:
        """Whether another member of a shared group takes what is not for this one any more."""
        return pass_on(session, delivery, None, True)

    # Messages

    def may_leave_will(self, principal: Principal, message: Publish) -> int:
        """0 if a will may be left or published, else the reason why not."""
        if reserved(message.topic):
            return reasons.NOT_AUTHORIZED
        authorizer = self.authorizer
        if authorizer is None:
            return 0
        return authorizer.will(principal, message.topic, message.qos, message.retain)

    def publish(self, message: Publish, route: Route) -> bool:
        """Give a message to everybody on its route; False if there is nobody."""
        traffic = route.traffic
        traffic.messages += 1
        traffic.bytes += len(message.payload)
        peers = self.peers
        if peers is not None and not route.reserved:
            if message.retain:
                message.hlc = peers.clock.timestamp(self.now)
            if message.retain or route.peers is not None or route.groups:
                peers.forward(message, route)
        self._deliver(message, route, route.groups)
        return route.is_wanted

    def publish_from_peer(self, message: Publish, plain: bool, shares: list[str] | None) -> None:
        """A message of another node's client, for those that are here; or of that node itself."""
        if message.hlc and message.topic_data == CHANGE_SET:
            self.registry.take_change(message.payload)
            return
        route = self.router.find(message.topic_data)
        message.topic = route.topic
        message.topic_field = route.topic_field
        if message.hlc and self.peers is not None:
            self.peers.clock.saw(message.hlc)
        if plain:
            self._deliver(message, route, NO_GROUPS)
        elif message.retain:
            self._retain(message, route)
        if shares is not None:
            for name in shares:
                full_name, denied_at = read_share(name)
                for group in route.groups:
                    if group.full_name == full_name:
                        self._deliver_shared(message, route, group, denied_at)

    def share_again(self, message: Publish, share: str) -> None:
        """A message of a group, whose member cannot have it."""
        message.retain = False  # it was kept when it was published
        self.publish_from_peer(message, False, [share])

    def _deliver_shared(
        self, message: Publish, route: Route, group: Group, denied_at: list[str]
    ) -> None:
        """One member gets it; else one on another node, but for those where none may."""
        chosen = group.choose(None, route.denied)
        peers = self.peers
        if chosen is not None:
            qos = message.qos if message.qos < chosen.qos else chosen.qos
            chosen.session.deliver(message, qos, chosen)
        elif peers is None:
            self.stats.dropped_offline += 1
        elif route.denied is not None:
            if not peers.pass_on_denied(message, group, denied_at):
                self.stats.receive_denied += 1
        elif not peers.pass_on(message, group, denied_at):
            self.stats.dropped_offline += 1

    def peers_refuse(self, route: Route) -> bool:
        return self.peers is not None and self.peers.refuses(route)

    def _deliver(self, message: Publish, route: Route, groups: list[Group]) -> None:
        """Everybody here: the route's subscribers, and one of each group."""
        if message.retain:
            self._retain(message, route)
        if self.journal is not None and len(route.targets) + len(groups) > 1:
            message.shared = True
        for subscription in route.targets:
            if subscription.no_local and message.sender == subscription.session.client_id:
                own = subscription.own  # [MQTT-3.8.3-3]
                if own is None:
                    continue
                subscription = own
            qos = message.qos if message.qos < subscription.qos else subscription.qos
            subscription.session.deliver(message, qos, subscription)
        for group in groups:
            if group.elsewhere:  # `Peers.forward` has sent it there
                group.elsewhere = False
                continue
            chosen = group.choose(None, route.denied)
            if chosen is None:
                if route.denied is not None and self.peers is not None:
                    self.peers.pass_on_denied(message, group, [])
            else:
                qos = message.qos if message.qos < chosen.qos else chosen.qos
                chosen.session.deliver(message, qos, chosen)
        if message.retain:  # it is kept: the frames that it was sent in are not needed any more
            message.frame_v3 = None
            message.frame_v5 = None

    def _retain(self, message: Publish, route: Route) -> None:
        if message.hlc and not self.retained.newer(message):
            return  # another node knows of a later one
        self.retained.store(message, self.now)
        journal = self.journal
        if message.hlc and not message.payload:
            tombstone = self.retained.put_tombstone(message, self.now)
            if journal is not None:
                journal.retain(tombstone, True)
                tracker = tracker_of(message)
                tracker.batch = journal.batch.number
                tracker.unsettled += 1
        elif journal is not None and not route.reserved:
            journal.retain(message, self.retained.tree.get(message.topic) is message)

    def publish_local(self, topic: str, payload: bytes, retain: bool) -> None:
        """A message of the broker's own."""
        topic_data = topic.encode("utf-8")
        self._publish_local(topic_data, payload, retain, self.router.find(topic_data))

    def publish_seldom(self, topic: str, payload: bytes, retain: bool) -> None:
        """The same on one of very many topics: they must not displace those of clients from the
        cache of routes."""
        topic_data = topic.encode("utf-8")
        self._publish_local(topic_data, payload, retain, self.router.find_once(topic_data))

    def _publish_local(self, topic_data: bytes, payload: bytes, retain: bool, route: Route) -> None:
        message = Publish(topic_data, payload, 0, retain)
        message.topic = route.topic
        message.topic_field = route.topic_field
        self.publish(message, route)

    def publish_will(self, session: Session) -> None:
        """The will, once [MQTT-3.1.2-8, MQTT-3.1.2-10]."""
        will = session.will
        if will is None or self.taken_over:
            return
        session.will = None
        if session.sid:
            self.require_journal().session(session)
        message = will.message
        if self.may_leave_will(session.principal, message):
            self.stats.publish_denied += 1  # it could be left, and its client may not any more
            text = "it is not published"
            session.tell_denied(events.WILL, message.topic, text, message.qos, message.retain)
            return
        if message.expiry_s >= 0:
            message.expires_at = self.now + message.expiry_s
        message.sender = session.client_id
        if message.retain:
            message.owner = owner_of(session.principal)
            allowed = self.limits_of(session)
            limit = self._retained_limit(session.principal, allowed, message.topic)
            if message.payload and limit >= 0:
                message.retain = False  # on all nodes
                session.tell_limited(limit)
        self.stats.wills_published += 1
        self.publish(message, self.router.find(message.topic_data))

    def publish_due_wills(self, now: float) -> None:
        """Those that were due before this hub had its first tick: of clients that were connected
        when the broker was killed.  Nobody is let in before; see also attach().
        """
        self.now = now
        for session in list(self.sessions.values()):
            if session.is_will_due(now):
                self.publish_will(session)

    # Sessions

    def attach(self, connection: Connection, clean: bool) -> tuple[Session, bool]:
        """The session for a CONNECT, and whether it had been there before."""
        client_id = connection.client_id
        session = self.sessions.get(client_id)
        if session is not None and session.is_will_due(self.now):
            self.publish_will(session)  # the client is back too late, though before the tick
        if session is not None and session.connection is not None:
            self.events.taken_over(
                session.connection, f"the client has connected from {connection.principal.address}"
            )
            session.connection.fail(  # [MQTT-3.1.4-3]
                reasons.SESSION_TAKEN_OVER, "another connection has the same client id"
            )
            session = self.sessions.get(client_id)  # it may have ended with its connection
        if session is not None and (clean or not connection.principal.owns(session.principal)):
            self.end_session(session)
            session = None
        present = session is not None and not session.state_lost
        if session is None:
            session = self.new_session(client_id, connection.limits)
            session.began = connection.epoch
            session.clean = clean
            # It may have another one, at a node that cannot be asked: until it has read that this
            # one is new, it is told so again, wherever it comes.
            session.state_lost = not clean and self.peers is not None and self.peers.some_away()
        if session.state_lost:
            session.reset_state()
            connection.untold = True
        session.limits = connection.limits
        self.count_at(session, connection.principal.listener)
        session.inflight.window_bytes = connection.limits.max_inflight_bytes or UNLIMITED_BYTES
        if session.namespace is not connection.namespace:
            remount(session, connection.namespace)
        self.set_principal(session, connection.principal)
        session.connection = connection
        self.count(session)
        self.set_meter(connection)
        session.ends_at = 0.0
        if session.will is not None:
            session.will.due_at = 0.0
        self.wheel.disarm(session)
        connection.session = session
        connection.connected_at = self.now
        self.connected += 1
        self._regroup(session)
        if self.connected > self.stats.clients_maximum:
            self.stats.clients_maximum = self.connected
        if self.tracer is not None:
            self.tracer.attached(connection)
        return session, present

    def set_principal(self, session: Session, principal: Principal) -> None:
        """Who the client of a session is, which may not be who it was the last time."""
        before = session.principal
        session.principal = principal
        if before is not NOBODY and not principal.receives_as(before):
            self.review(session)
        if session.counted is not None or principal.user or principal.tenant:
            self.count(session)

    def new_session(self, client_id: str, limits: Limits) -> Session:
        session = Session(self, client_id, limits)
        session.rights = session.granted = self.rights
        self.put_session(session)
        if self.peers is not None:
            session.inflight.last_pid = self.peers.first_pid(client_id)
        return session

    def put_session(self, session: Session) -> None:
        """From now on, a session is the one of its client."""
        before = self.sessions.get(session.client_id)
        self.sessions[session.client_id] = session
        if before is None:
            session.hub_slot = self.slots.add(session, session.client_id)
        elif before is not session:
            # In the same slot, so that no walk sees the client twice.
            session.hub_slot = before.hub_slot
            before.hub_slot = NOWHERE
            self.slots.replace(session.hub_slot, session)

    def drop_session(self, session: Session) -> None:
        """It is not any more, if it was."""
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]
            self.slots.remove(session.hub_slot)
            session.hub_slot = NOWHERE

    def check_session_limit(self, connection: Connection, client_id: str) -> None:
        """Refuse to make a session, if there are enough; whoever has one always gets it."""
        if client_id in self.sessions:
            return
        allowed = connection.limits.max_listener_sessions
        if self.max_sessions and len(self.sessions) >= self.max_sessions:
            text = f"there are {self.max_sessions} sessions, as many as may be"
        elif allowed and self.sessions_at.get(connection.principal.listener, 0) >= allowed:
            text = f"the listener has {allowed} sessions, as many as may be"
        else:
            return
        if self.peers is None or not self.peers.has_session(client_id):
            self.stats.sessions_refused += 1
            raise ProtocolFault(reasons.QUOTA_EXCEEDED, text)

    def count_at(self, session: Session, listener: str) -> None:
        """A session is among those of a listener; "": it is over."""
        if session.counted_at != listener:
            for name, change in ((session.counted_at, -1), (listener, 1)):
                if name:
                    self.sessions_at[name] = self.sessions_at.get(name, 0) + change
            session.counted_at = listener
        if not listener and session.counted is not None:
            self.accounts.forget(session.counted)
            session.counted = None

    def detach(self, connection: Connection) -> None:
        """A connection has ended; the session goes on for as long as it may."""
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        session.offline_at = self.now
        session.inflight.resend = None
        self.connected -= 1
        if session.counted is not None:
            self.count(session)
        self._regroup(session)
        expiry_s = session.expiry_s
        will = session.will
        if will is not None:
            if will.delay_s == 0 or expiry_s == 0:
                self.publish_will(session)
            else:
                will.due_at = self.now + min(will.delay_s, expiry_s)
        if expiry_s == 0:
            self.end_session(session)
            return
        if expiry_s != NEVER:
            session.ends_at = self.now + expiry_s
        if self.peers is not None:
            table = self.peers.table
            table.own(session.client_id, table.own_epoch(session.client_id), False)
        if session.sid:
            self.require_journal().session(session)
        redistribute(session, None, False)
        self.wheel.arm(session, session.deadline())

    def _regroup(self, session: Session) -> None:
        """Peers count the members of groups that are connected here."""
        if self.peers is not None and session.shares:
            for subscription in session.subscriptions.values():
                if subscription.group is not None:
                    self.peers.table.group_changed(subscription.group)

    def end_session(self, session: Session) -> None:
        """Forget a session; a will that was still delayed goes out now."""
        if session.will is not None:
            self.publish_will(session)
        for subscription in session.subscriptions.values():
            self.router.remove(subscription)
        session.subscriptions = {}
        self.wheel.disarm(session)
        redistribute(session, None, True)
        session.forget_queue()
        session.lose_state(False)
        self.count_at(session, "")
        if session.sid:
            self.require_journal().ended(session)
        self.drop_session(session)
        if self.peers is not None:
            self.peers.neighbours.ended(session)

    def kick(self, session: Session, delete_session: bool) -> None:
        """An operator disconnects a client, and may delete its session with that."""
        gone = "session deleted by an operator"
        connection = session.connection
        if connection is not None:
            text = gone if delete_session else "disconnected by an operator"
            connection.kick(reasons.ADMINISTRATIVE_ACTION, text)
        else:
            self.events.kicked(session.principal, 0, 0, gone)
        # It may have ended with its connection, or by what its will brought about.
        if delete_session and self.sessions.get(session.client_id) is session:
            self.end_session(session)

    def end_if_deleted(self, session: Session) -> bool:
        """Whether the session of a deleted user has come, and was ended."""
        is_deleted = self.is_deleted
        principal = session.principal
        if is_deleted is None or not principal.user or not is_deleted(principal):
            return False
        gone = "the user was deleted"
        if session.connection is not None:
            session.connection.kick(reasons.ADMINISTRATIVE_ACTION, gone)
        else:
            self.events.kicked(principal, 0, 0, gone)
        if self.sessions.get(session.client_id) is session:
            self.end_session(session)
        return True

    # The end

    def reference(self, reason: int) -> str:
        """The server that a client is told of with this reason."""
        redirect = self.redirect
        return redirect.reference if redirect is not None and reason in reasons.ELSEWHERE else ""

    def evacuate(self, reference: str) -> int:
        """Send all clients elsewhere; their sessions stay for now.  How many clients it were."""
        redirect = Redirect(reference)
        self.redirect = redirect
        sent = 0
        for session in list(self.sessions.values()):
            if session.connection is not None:
                session.connection.fail(redirect.reason, "this node is leaving the cluster")
                sent += 1
        return sent

    def shut_down(self, now: float) -> None:
        """Publish the wills that are not to wait for the next start, and tell every client.

        The wills come first, while subscribers are still connected; for those who are not, and as
        retained messages, they are stored with the rest.
        """
        self.now = now
        self.stopping = True
        for session in list(self.sessions.values()):
            if session.will is not None and session.leaves_will_at_stop(now):
                self.publish_will(session)
        for session in list(self.sessions.values()):
            if session.connection is not None:
                session.connection.fail(reasons.SERVER_SHUTTING_DOWN, "the broker is stopping")
        self.flush()
