"""The hub owns the state of the broker; connections only bring it packets.

One turn of the world around it:

    connection.receive(data, now)  for each socket that has something; frames gather
    hub.flush()                    one write for each connection that has output
    hub.proceed(now)               what the bounds of an earlier turn had put off (`unfinished`)
    hub.tick(now)                  a few times a second: keep-alive, expiry, delayed wills, $SYS
"""

from collections.abc import Callable
from typing import Final

from mhub.core.admission import Admission
from mhub.core.connection import Connection
from mhub.core.limits import NEVER
from mhub.core.ports import Authorizer, Events
from mhub.core.publishing import Publishing
from mhub.core.retained import Retained
from mhub.core.router import Route, Router
from mhub.core.session import Session
from mhub.core.stats import Stats
from mhub.core.subscribing import Subscribing
from mhub.core.sys import SysTopics
from mhub.core.timers import Wheel
from mhub.wire import reasons
from mhub.wire.publish import Publish

SWEEP_S: Final = 30.0
"""How often expired retained messages are looked for; nobody is sent one in the meantime."""


class HubSettings:
    """Bounds of the broker as a whole; what concerns one client is in Limits."""

    def __init__(self) -> None:
        self.max_topic_levels = 128
        self.route_cache_size = 100_000
        self.max_retained_messages = 1_000_000
        self.max_retained_bytes = 1024 * 1024 * 1024
        self.sys_interval_s = 10.0
        self.work_per_turn = 20_000  # deliveries, then the next turn goes on
        self.portion = 500  # waiting messages sent to one client in one turn
        self.version = ""


class Hub:
    def __init__(
        self, settings: HubSettings, events: Events, token: Callable[[], str], now: float
    ) -> None:
        self.events = events
        self.token = token  # makes client ids unique
        self.now = now
        self.stats = Stats()
        self.wheel = Wheel()
        self.wheel.tick(now)
        self.router = Router(self.stats, settings.route_cache_size, settings.max_topic_levels)
        self.retained = Retained(
            self.stats, settings.max_retained_messages, settings.max_retained_bytes
        )
        self.admission = Admission(self)
        self.publishing = Publishing(self)
        self.subscribing = Subscribing(self)
        self.authorizer: Authorizer | None = None
        self.sessions: dict[str, Session] = {}
        self.connected = 0
        self.stopping = False
        self.dirty: list[Connection] = []
        self.unfinished: list[Connection] = []
        self.dismissed: list[tuple[Connection, int, str]] = []
        self.work = 0
        self.work_per_turn = settings.work_per_turn
        self.portion = settings.portion
        self.sys = SysTopics(self, settings.sys_interval_s, settings.version, now)
        self.sweep_at = now + SWEEP_S

    # The turn

    def flush(self) -> None:
        self.work = 0
        while self.dirty or self.dismissed:
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
        self.events.crashed(f"{connection.client_id or connection.peer}", error)
        try:
            connection.close(reasons.UNSPECIFIED, "an internal error")
        except Exception as again:
            self.events.crashed("closing it", again)

    def continue_later(self, connection: Connection) -> None:
        if not connection.unfinished:
            connection.unfinished = True
            self.unfinished.append(connection)

    def proceed(self, now: float) -> None:
        """Go on with connections in turn; those that the budget does not reach come first next."""
        unfinished = self.unfinished
        self.unfinished = []
        for index, connection in enumerate(unfinished):
            if self.work >= self.work_per_turn:
                self.unfinished = unfinished[index:] + self.unfinished
                return
            connection.unfinished = False
            try:
                connection.proceed(now)
            except Exception as error:
                self.crash(connection, error)

    def tick(self, now: float) -> None:
        self.now = now
        for timed in self.wheel.tick(now):
            try:
                deadline = timed.fire(now)
                if deadline:
                    self.wheel.arm(timed, deadline)
            except Exception as error:
                self.events.crashed("a timer", error)
        self.sys.tick(now)
        if now >= self.sweep_at:
            self.sweep_at = now + SWEEP_S
            self.retained.sweep(now)

    # Messages

    def may_publish(self, connection: Connection, topic: str, is_reserved: bool) -> int:
        """0 if it may, else the reason why not."""
        if is_reserved:
            return reasons.NOT_AUTHORIZED
        return 0 if self.authorizer is None else self.authorizer.publish(connection, topic)

    def publish(self, message: Publish, route: Route) -> bool:
        """Give a message to everybody on its route; False if there is nobody."""
        if message.retain:
            self.retained.store(message)
        for subscription in route.targets:
            if subscription.no_local and message.sender == subscription.session.client_id:
                own = subscription.own  # [MQTT-3.8.3-3]
                if own is None:
                    continue
                subscription = own
            qos = message.qos if message.qos < subscription.qos else subscription.qos
            subscription.session.deliver(message, qos, subscription)
        for group in route.groups:
            chosen = group.choose()
            if chosen is not None:
                qos = message.qos if message.qos < chosen.qos else chosen.qos
                chosen.session.deliver(message, qos, chosen)
        if message.retain:  # it is kept: the frames that it was sent in are not needed any more
            message.frame_v3 = None
            message.frame_v5 = None
        return bool(route.targets) or bool(route.groups)

    def publish_local(self, topic: str, payload: bytes, retain: bool) -> None:
        """A message of the broker's own."""
        topic_data = topic.encode("utf-8")
        route = self.router.find(topic_data)
        message = Publish(topic_data, payload, 0, retain)
        message.topic = route.topic
        message.topic_field = route.topic_field
        self.publish(message, route)

    def publish_will(self, session: Session) -> None:
        """The will, once [MQTT-3.1.2-8, MQTT-3.1.2-10]."""
        will = session.will
        session.will = None
        session.will_at = 0.0
        if will is None or self.stopping:
            return
        if will.expiry_s >= 0:
            will.expires_at = self.now + will.expiry_s
        will.sender = session.client_id
        self.stats.wills_published += 1
        self.publish(will, self.router.find(will.topic_data))

    # Sessions

    def attach(self, connection: Connection, clean: bool) -> tuple[Session, bool]:
        """The session for a CONNECT, and whether it had been there before."""
        client_id = connection.client_id
        session = self.sessions.get(client_id)
        if session is not None and session.connection is not None:
            self.stats.sessions_taken_over += 1
            session.connection.fail(  # [MQTT-3.1.4-3]
                reasons.SESSION_TAKEN_OVER, "another connection has the same client id"
            )
            session = self.sessions.get(client_id)  # it may have ended with its connection
        if session is not None and clean:
            self.end_session(session)
            session = None
        present = session is not None
        if session is None:
            session = Session(self, client_id, connection.limits)
            self.sessions[client_id] = session
        session.limits = connection.limits
        session.connection = connection
        session.ends_at = 0.0
        session.will_at = 0.0
        self.wheel.disarm(session)
        connection.session = session
        self.connected += 1
        if self.connected > self.stats.clients_maximum:
            self.stats.clients_maximum = self.connected
        return session, present

    def detach(self, connection: Connection) -> None:
        """A connection has ended; the session goes on for as long as it may."""
        session = connection.session
        if session is None or session.connection is not connection:
            return
        session.connection = None
        session.resend = None
        self.connected -= 1
        expiry_s = session.expiry_s
        if session.will is not None:
            if session.will_delay_s == 0 or expiry_s == 0:
                self.publish_will(session)
            else:
                session.will_at = self.now + min(session.will_delay_s, expiry_s)
        if expiry_s == 0:
            self.end_session(session)
            return
        if expiry_s != NEVER:
            session.ends_at = self.now + expiry_s
        session.hand_over(None, False)
        deadline = session.will_at or session.ends_at
        if deadline:
            self.wheel.arm(session, deadline)

    def end_session(self, session: Session) -> None:
        """Forget a session; a will that was still delayed goes out now."""
        if session.will is not None:
            self.publish_will(session)
        for subscription in session.subscriptions.values():
            self.router.remove(subscription)
        session.subscriptions = {}
        self.wheel.disarm(session)
        session.hand_over(None, True)
        if self.sessions.get(session.client_id) is session:
            del self.sessions[session.client_id]

    # The end

    def shut_down(self, now: float) -> None:
        """Tell every client; wills wait for a restart, as the specification allows."""
        self.now = now
        self.stopping = True
        for session in list(self.sessions.values()):
            if session.connection is not None:
                session.connection.fail(reasons.SERVER_SHUTTING_DOWN, "the broker is stopping")
        self.flush()
