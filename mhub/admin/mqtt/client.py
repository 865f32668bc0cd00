"""A client in this process, on the core's own Connection, for somebody who has logged in over HTTP.

    connect()    CONNECT and CONNACK           subscribe()    SUBSCRIBE and SUBACK
    publish()    PUBLISH, and what ends it     unsubscribe()  UNSUBSCRIBE and UNSUBACK
    take()       what came was passed on: PUBACK or PUBREC, and room for more
    close_politely(), lose()      DISCONNECT, or as if the network had failed

To the hub it is a client like any other: the only differences are that who it is was proved before
(`Principal.user`), so that no authenticator is asked, and that its bytes come from no socket.  So
nothing of what holds for clients has to be repeated here, and nothing can be got around.

Turns.  The core calls the outlet (write, close, pause, resume) in the midst of a turn, when nothing
of the hub may be called.  So all of these only take notes, and _turn(), a call of the reactor of
its own, acts on them: it reads what came, and gives the core what waits.  Whatever gives something
to the core ends with settle(), as each turn of the loop ends with Hub.flush().

Back-pressure.  Towards the core: while the connection is paused (a rate, the store, other nodes)
messages wait in `_unsent`, which is bounded; of those with QoS 1 and 2 no more are on their way
than the broker's Receive Maximum.  From the core: what came and was not taken yet counts, and
beyond UNREAD_BYTES the outlet is full, as a socket would be.  Then QoS 0 messages wait in the
session's own bounded queue, and QoS 1 and 2 wait as long as none is acknowledged.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final

from twisted.internet.defer import Deferred

from mhub.admin.mqtt import packets
from mhub.admin.mqtt.message import Message, check_allowed
from mhub.admin.mqtt.packets import Received, Reply, Welcome
from mhub.core.connection import CLOSED, Connection
from mhub.core.hub import Hub
from mhub.core.limits import Limits
from mhub.core.principal import Principal
from mhub.operations.contract import BadArgument, LimitReached, TimedOut
from mhub.operations.slices import SLICE_S
from mhub.wire import decode, encode, reasons
from mhub.wire import packets as kinds
from mhub.wire.errors import ProtocolFault

UNREAD_BYTES: Final = 64 * 1024
"""What came and was not taken; beyond, the outlet is full."""

UNSENT_MOST: Final = 2_000
UNSENT_BYTES: Final = 8 * 1024 * 1024
"""Messages of one caller that wait for their turn."""

CONNECT_S: Final = 10.0
"""How long a CONNACK may take: the session may have to come from another node."""

RECEIVE_MAXIMUM: Final = 64

MAY_BE_PUBLISHED: Final = "the message may have been published, or may be yet"


class Ended(Exception):
    """The broker does not go on with a client; `sent`: with what it was asked to publish, it may
    have."""

    def __init__(self, reason: int, text: str, sent: bool = False) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text
        self.sent = sent


class Place:
    """What clients need of the broker around the hub."""

    def __init__(
        self,
        hub: Hub,
        limits: Callable[[], Limits],
        listener: str,
        reactor: Any,
        clock: Callable[[], float],
        settle: Callable[[], None],
    ) -> None:
        """`clock` is the hub's; settle() ends a turn that no socket began."""
        self.hub = hub
        self.listener = listener
        self.reactor = reactor
        self.clock = clock
        self.settle = settle
        self._limits = limits
        self._given: Limits | None = None
        self._made = Limits()

    def limits(self) -> Limits:
        """Those of `[limits]`, but for what is about sockets, and names that are given here.

        The same object as long as these are the same: limits of users are kept for each.
        """
        given = self._limits()
        if given is not self._given:
            self._given = given
            self._made = replace(
                given,
                versions=(5,),
                username_as_client_id=False,
                max_client_id_length=65535,
                allow_keepalive_off=True,
            )
        return self._made


@dataclass(eq=False)
class _Waiting:
    """A message, or a SUBSCRIBE or UNSUBSCRIBE, that is not over."""

    done: "Deferred[Reply]"
    message: Message | None = None
    frame: Callable[[int], bytes] | None = None  # of all else
    pid: int = 0
    received: Reply | None = None  # the PUBREC: what it says of the message is its answer
    is_sent: bool = False
    size_bytes: int = 0


class InProcessClient:
    """The core's Outlet, and the other end of it."""

    def __init__(
        self,
        place: Place,
        principal: Principal,
        on_message: Callable[[Received], None] | None = None,
        on_end: Callable[[Ended], None] | None = None,
    ) -> None:
        """on_message has to call take() for each message, at any time, in their order."""
        hub = place.hub
        self.ended: Ended | None = None
        self.connection = Connection(
            hub, self, place.limits(), place.clock(), principal.address, place.listener
        )
        self.connection.principal = principal.copy()
        self.connection.principal.listener = place.listener
        self._place = place
        self._on_message = on_message
        self._on_end = on_end
        self._buffer: list[bytes] = []  # what came since the last turn
        self._data = b""  # what came before, of which
        self._pos = 0  # so much was read
        self._unread_bytes = 0
        self._is_full = False
        self._is_paused = False
        self._is_closed = False  # by the core
        self._last_words: Ended | None = None
        self._scheduled: Any = None
        self._welcome: Deferred[Welcome] | None = None
        self._unsent: deque[_Waiting] = deque()
        self._unsent_bytes = 0
        self._waiting: dict[int, _Waiting] = {}  # by their packet ids
        self._unacknowledged = 0  # of messages among these
        self._window = 0
        self._fed: list[_Waiting] = []  # QoS 0, given to a connection that has paused since
        self._last_pid = 0

    # The outlet: in the midst of a turn of the core

    def write(self, data: bytes) -> bool:
        self._buffer.append(data)
        self._unread_bytes += len(data)
        self._is_full = self._unread_bytes > UNREAD_BYTES
        self._schedule()
        return not self._is_full

    def close(self, linger: bool) -> None:
        self._is_closed = True
        self._schedule()

    def pause(self) -> None:
        self._is_paused = True

    def resume(self) -> None:
        self._is_paused = False
        self._schedule()

    # Calls

    async def connect(
        self, client_id: str, clean: bool = True, expiry_s: int = 0, timeout_s: float = CONNECT_S
    ) -> Welcome:
        """Raises Ended, if the broker says no."""
        self._welcome = Deferred()
        welcome = self._welcome
        self._give(
            packets.connect(
                client_id, self.connection.principal.user, clean, expiry_s, RECEIVE_MAXIMUM
            )
        )
        timer = self._place.reactor.callLater(timeout_s, self._connect_timed_out)
        try:
            return await welcome
        finally:
            if timer.active():
                timer.cancel()

    def _connect_timed_out(self) -> None:
        self.lose("the session did not come in time")

    async def publish(self, message: Message, timeout_s: float) -> Reply:
        """The end of a message: PUBACK, PUBCOMP, or a PUBREC that refuses it.

        That of one with QoS 0 is that the core has taken it.  Raises Ended, or an OperationError.
        """
        return await self.begin_publish(message, timeout_s)

    def begin_publish(self, message: Message, timeout_s: float) -> "Deferred[Reply]":
        self._check(message)
        size = len(message.payload) + len(message.topic)
        waiting = _Waiting(Deferred(), message=message, size_bytes=size)
        return self._put(waiting, timeout_s)

    async def subscribe(self, filters: list[str], options: int, timeout_s: float) -> Reply:
        waiting = _Waiting(Deferred(), frame=lambda pid: packets.subscribe(pid, filters, options))
        return await self._put(waiting, timeout_s)

    async def unsubscribe(self, filters: list[str], timeout_s: float) -> Reply:
        waiting = _Waiting(Deferred(), frame=lambda pid: packets.unsubscribe(pid, filters))
        return await self._put(waiting, timeout_s)

    def take(self, received: Received) -> None:
        """A message that came was passed on, and is the receiver's from now on."""
        if self.ended is not None:
            return
        qos = received.message.qos
        data = b""
        if qos == 1:
            data = encode.ack(kinds.PUBACK, received.pid, 0)
        elif qos == 2:
            data = encode.ack(kinds.PUBREC, received.pid, 0)
        self._make_room(received.size_bytes)
        if data:
            self._give(data)

    def close_politely(self, end_session: bool = False) -> None:
        """DISCONNECT: the session goes on for as long as it may, unless it is to end."""
        if self.connection.state != CLOSED:
            self._give(packets.END_SESSION if end_session else packets.DISCONNECT)

    def lose(self, text: str, reason: int = reasons.UNSPECIFIED) -> None:
        """As if the network had failed."""
        if self.connection.state != CLOSED:
            self._place.hub.now = self._place.clock()
            self.connection.lost(text)
            self._place.settle()
        self._end(Ended(reason, text))

    # To the core

    def _check(self, message: Message) -> None:
        connection = self.connection
        check_allowed(message, connection.limits, self._place.hub.router.max_levels)
        given = len(packets.properties_of(message))
        most = connection.limits.max_control_size
        if given + 4 > most:
            raise BadArgument(
                f"the properties have {given} bytes, at most {most} (limits.max_control_size)"
            )
        size = len(message.payload) + len(message.topic.encode("utf-8")) + given + 13
        if size > connection.max_packet_in:
            raise BadArgument(
                f"payload: the message has more than {connection.max_packet_in} bytes, with all"
                " that belongs to it (limits.max_packet_size)"
            )

    def _put(self, waiting: _Waiting, timeout_s: float) -> "Deferred[Reply]":
        """In order behind all others."""
        if self.ended is not None:
            raise Ended(self.ended.reason, self.ended.text)
        if len(self._unsent) >= UNSENT_MOST or self._unsent_bytes > UNSENT_BYTES:
            raise LimitReached("too many messages of this caller wait already; nothing was done")
        self._unsent.append(waiting)
        self._unsent_bytes += waiting.size_bytes
        timer = self._place.reactor.callLater(timeout_s, self._timed_out, waiting)

        def over(result: Any) -> Any:
            if timer.active():
                timer.cancel()
            return result

        waiting.done.addBoth(over)
        self._feed()
        return waiting.done

    def _timed_out(self, waiting: _Waiting) -> None:
        if waiting.is_sent:
            error: Exception = TimedOut(f"no answer in time: {MAY_BE_PUBLISHED}")
        else:
            self._unsent.remove(waiting)
            self._unsent_bytes -= waiting.size_bytes
            error = LimitReached(
                "it was not published: limits of the caller, or a broker that is busy, have kept"
                " it waiting for too long; try again later, with fewer messages at a time"
            )
        waiting.done.errback(error)

    def _feed(self) -> None:
        """Give the core what waits, as far as it takes more, and there is time in this turn."""
        until = self._place.clock() + SLICE_S
        while self._unsent and not self._is_paused and self.ended is None:
            if self._place.clock() >= until:
                self._schedule()
                return
            waiting = self._unsent[0]
            message = waiting.message
            if message is not None and message.qos and self._unacknowledged >= self._window:
                return
            self._unsent.popleft()
            self._unsent_bytes -= waiting.size_bytes
            waiting.is_sent = True
            if message is not None and not message.qos:
                self._fed.append(waiting)
                self._give(packets.publish(message, 0))
                continue
            waiting.pid = self._free_pid()
            self._waiting[waiting.pid] = waiting
            if message is not None:
                self._unacknowledged += 1
                self._give(packets.publish(message, waiting.pid))
            else:
                assert waiting.frame is not None
                self._give(waiting.frame(waiting.pid))

    def _free_pid(self) -> int:
        while True:
            self._last_pid = self._last_pid % 65535 + 1
            if self._last_pid not in self._waiting:
                return self._last_pid

    def _give(self, data: bytes) -> None:
        """One turn of the core with these bytes."""
        place = self._place
        if self.connection.state == CLOSED:
            return
        try:
            self.connection.receive(data, place.clock())
        except Exception as error:
            place.hub.crash(self.connection, error)
        place.settle()
        if not self._is_paused:
            self._tell_fed()

    def _tell_fed(self) -> None:
        """The core has handled what it was given: that is the end of QoS 0."""
        fed, self._fed = self._fed, []
        for waiting in fed:
            if not waiting.done.called:
                waiting.done.callback(Reply(0, reasons.SUCCESS))

    # From the core

    def _schedule(self) -> None:
        if self._scheduled is None:
            self._scheduled = self._place.reactor.callLater(0, self._turn)

    def _turn(self) -> None:
        self._scheduled = None
        if self.ended is not None:
            return
        try:
            is_read = self._read()
        except ProtocolFault as fault:  # a defect of the core, or of this module
            self._place.hub.events.crashed("a client of the HTTP side", fault)
            self.lose("an internal error")
            return
        if not is_read:
            self._schedule()
        elif self._is_closed:
            self._end(self._last_words or Ended(reasons.UNSPECIFIED, "the connection has ended"))
            return
        if not self._is_paused:
            self._tell_fed()
        self._feed()

    def _read(self) -> bool:
        """Whether all whole packets that came were read; else time is up for this turn."""
        if self._buffer:
            self._data = b"".join([self._data[self._pos :], *self._buffer])
            self._buffer = []
            self._pos = 0
        data = self._data
        until = self._place.clock() + SLICE_S
        while self._pos < len(data) and self.ended is None:
            body, end = decode.frame(data, self._pos, len(data))
            if end == 0 or end > len(data):
                return True
            start, self._pos = self._pos, end
            self._on_packet(data[start:end], body - start)
            if self._place.clock() >= until and self._pos < len(data):
                return False
        return True

    def _on_packet(self, data: bytes, body: int) -> None:
        kind = data[0] >> 4
        if kind == kinds.PUBLISH:
            received = packets.read_publish(data, body)
            if self._on_message is None:
                self.take(received)
            else:
                self._on_message(received)
            return
        self._make_room(len(data))
        if kind in (kinds.PUBACK, kinds.PUBCOMP):
            self._settle(packets.read_ack(data, body))
        elif kind == kinds.PUBREC:
            reply = packets.read_ack(data, body)
            if reply.reason >= reasons.UNSPECIFIED:
                self._settle(reply)
            else:
                waiting = self._waiting.get(reply.pid)
                if waiting is not None:
                    waiting.received = reply
                self._give(encode.ack(kinds.PUBREL, reply.pid, 0))
        elif kind == kinds.PUBREL:
            self._give(encode.ack(kinds.PUBCOMP, packets.read_ack(data, body).pid, 0))
        elif kind in (kinds.SUBACK, kinds.UNSUBACK):
            self._settle(packets.read_suback(data, body))
        elif kind == kinds.CONNACK:
            self._on_connack(packets.read_connack(data, body))
        elif kind == kinds.DISCONNECT:
            last = packets.read_disconnect(data, body)
            self._last_words = Ended(last.reason, last.text or reasons.name(last.reason))

    def _on_connack(self, welcome: Welcome) -> None:
        if welcome.reason:
            text = welcome.text or reasons.name(welcome.reason)
            self._last_words = Ended(welcome.reason, text)
            return
        self._window = welcome.receive_maximum
        waiting, self._welcome = self._welcome, None
        if waiting is not None:
            waiting.callback(welcome)

    def _settle(self, reply: Reply) -> None:
        waiting = self._waiting.pop(reply.pid, None)
        if waiting is None:
            return
        if waiting.message is not None:
            self._unacknowledged -= 1
        if not waiting.done.called:
            waiting.done.callback(waiting.received or reply)

    def _make_room(self, size_bytes: int) -> None:
        """What came was taken; the core is told when the outlet is not full any more."""
        self._unread_bytes -= size_bytes
        if self._is_full and self._unread_bytes <= UNREAD_BYTES // 2:
            self._is_full = False
            if self.connection.state != CLOSED:
                self.connection.writable(self._place.clock())
                self._place.settle()

    # The end

    def _end(self, ended: Ended) -> None:
        if self.ended is not None:
            return
        self.ended = ended
        welcome, self._welcome = self._welcome, None
        if welcome is not None:
            welcome.errback(ended)
        left = [*self._fed, *self._waiting.values(), *self._unsent]
        self._fed = []
        self._waiting = {}
        self._unsent.clear()
        for waiting in left:
            if not waiting.done.called:
                waiting.done.errback(Ended(ended.reason, ended.text, waiting.is_sent))
        if self._on_end is not None:
            self._on_end(ended)
