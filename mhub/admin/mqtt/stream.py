"""The messages of some filters as server-sent events.

    : keep-alive                               every KEEP_ALIVE_S seconds in which nothing came
    event: subscribed   data: {...}            first: client id, filters with their QoS
    event: reset        data: {...}            what came behind the Last-Event-ID is not known here
    id: EPOCH-NUMBER    data: {...}            a message
    event: end          data: {...}            last: why the broker ends it

A stream is an in-process client.  A message is acknowledged when the HTTP connection has taken its
event, which it says by asking for the next one (`read`): it asks when there is room.  So a reader
that is slow is to the broker a client that is slow: at most RECEIVE_MAXIMUM messages are on their
way, the others wait in the session's queue, within the limits of its user.

With a name and an expiry the session is kept when the reader is gone.  Then what the broker knows
as not acknowledged comes again by itself; what was acknowledged and may not have been seen, as it
was lost between here and the reader, is in the ring (`mhub.admin.mqtt.events`) and comes again when
the reader says by Last-Event-ID what it saw last.
"""

from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from mhub.admin.mqtt.client import Ended, InProcessClient, Place
from mhub.admin.mqtt.events import KEEP_ALIVE, Entry, Ring, Rings, event, message_event
from mhub.admin.mqtt.outcome import ended_error, error_of
from mhub.admin.mqtt.packets import IF_NEW, Received
from mhub.core.principal import Principal
from mhub.operations.slices import Slices
from mhub.wire import reasons

KEEP_ALIVE_S: Final = 15.0
SUBSCRIBE_S: Final = 20.0

LOGIN_OVER: Final = "the login of the HTTP client is over"

RETRY: Final = b"retry: 3000\n\n"
"""After so many milliseconds a browser tries again."""


class Stream:
    def __init__(
        self,
        place: Place,
        principal: Principal,
        client_id: str,
        rings: Rings | None,
        wall: Callable[[], float],
        is_allowed: Callable[[], Awaitable[bool]],
        pause: Callable[[], Awaitable[object]],
    ) -> None:
        """`rings`: those of sessions that are kept; None: this one is not.

        is_allowed() is asked from time to time: whether the login of the reader is still one.
        pause() is as for Slices.
        """
        self._place = place
        self._client_id = client_id
        self._rings = rings
        self._ring = Ring() if rings is None else rings.of(client_id, principal.user)
        self._wall = wall
        self._is_allowed = is_allowed
        self._pause = pause
        self._slices = Slices(place.clock, pause)
        self._ask_at = place.clock() + KEEP_ALIVE_S
        self.on_close: Callable[[], None] | None = None
        self._arrived: deque[Received] = deque()
        self._given: Received | None = None  # its event was read, and may not have been taken
        self._entry: Entry | None = None  # of the same one, in the ring
        self._prepared: deque[bytes] = deque()  # what comes before the messages that arrive
        self._is_over = False
        self._news: Deferred[None] | None = None
        self.client = InProcessClient(place, principal, self._received, self._ended)

    # From the client

    def _received(self, received: Received) -> None:
        self._arrived.append(received)
        self._wake()

    def _ended(self, ended: Ended) -> None:
        self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, None
        if news is not None and not news.called:
            news.callback(None)

    # Beginning

    async def open(self, filters: list[str], qos: int, expiry_s: int, last_event_id: str) -> None:
        """Connect and subscribe.  Raises an OperationError."""
        client = self.client
        is_kept = self._rings is not None
        try:
            welcome = await client.connect(self._client_id, not is_kept, expiry_s)
            if not welcome.session_present:
                self._ring.forget_pids()
            await self._drop_others(filters)
            reply = await client.subscribe(filters, qos | IF_NEW, SUBSCRIBE_S)
        except Ended as ended:
            raise ended_error(ended) from None
        refused = [
            (name, code)
            for name, code in zip(filters, reply.codes, strict=True)
            if code >= reasons.UNSPECIFIED
        ]
        if refused:
            # What was refused leaves nothing behind, unless it was there before.
            client.close_politely(end_session=not welcome.session_present)
            names = ", ".join(repr(name) for name, _ in refused)
            raise error_of(refused[0][1], f"the broker refuses a subscription to {names}")
        subscribed = event(
            "subscribed",
            {
                "client_id": self._client_id,
                "session_present": welcome.session_present,
                "filters": [
                    {"filter": name, "qos": code}
                    for name, code in zip(filters, reply.codes, strict=True)
                ],
            },
        )
        self._prepared.append(RETRY + subscribed)
        self._go_on_behind(last_event_id)

    def _go_on_behind(self, last_event_id: str) -> None:
        again = self._ring.behind(last_event_id)
        if again is not None:
            self._prepared.extend(entry.data for entry in again)
            return
        # The reader has seen nothing of what is in the ring, as far as is known.
        self._ring.forget_pids()
        if last_event_id:
            self._prepared.append(event("reset", self._reset(last_event_id)))

    async def _drop_others(self, filters: list[str]) -> None:
        """A session that was kept has the subscriptions of this request, and no others."""
        session = self.client.connection.session
        others = (
            []
            if session is None
            else [name for name in session.subscriptions if name not in filters]
        )
        if others:
            await self.client.unsubscribe(others, SUBSCRIBE_S)

    # The events

    async def read(self) -> bytes:
        """The next piece of the stream, b"" at its end.

        Whoever asks for one has room for it, so the one before was taken.
        """
        given, self._given = self._given, None
        if given is not None:
            self._taken(given)
        while not self._prepared:
            await self._ask()
            ended = self.client.ended
            if ended is not None:
                # What was not taken is the broker's: it has it again, or drops it.
                if self._is_over:
                    return b""
                self._is_over = True
                return event("end", _end_of(ended))
            if self._arrived:
                await self._slices.pause_if_due()
                if not self._arrived or self.client.ended is not None:
                    continue
                received = self._arrived.popleft()
                data = self._event_of(received)
                if data:
                    self._given = received
                    return data
                self._taken(received)
                continue
            is_news = await self._wait()
            self._slices = Slices(self._place.clock, self._pause)
            if not is_news:
                return KEEP_ALIVE
        return self._prepared.popleft()

    async def _ask(self) -> None:
        now = self._place.clock()
        if now < self._ask_at or self.client.ended is not None:
            return
        self._ask_at = now + KEEP_ALIVE_S
        if not await self._is_allowed():
            self.client.lose(LOGIN_OVER, reasons.NOT_AUTHORIZED)

    def stopping(self) -> bytes:
        """The last event of a stream that the broker breaks off."""
        return event("end", _end_of(Ended(reasons.SERVER_SHUTTING_DOWN, "the broker is stopping")))

    def _reset(self, last_event_id: str) -> dict[str, object]:
        return {
            "last_event_id": last_event_id[:100],
            "detail": "what came behind this event is not known here any more: messages may be"
            " missing, unless the broker sends them again",
        }

    def _event_of(self, received: Received) -> bytes:
        """The event of a message; b"": the reader has it, or was just sent it again."""
        ring = self._ring
        if received.dup:
            self._entry = ring.find(received)
            if self._entry is not None:
                return b""
        data = message_event(ring.next_id(), received.message, self._wall())
        self._entry = ring.add(data, received)
        return data

    def _taken(self, received: Received) -> None:
        """The HTTP connection has it."""
        is_open = self.client.ended is None
        self.client.take(received)
        entry, self._entry = self._entry, None
        if entry is not None and is_open:
            entry.pid = 0

    async def _wait(self) -> bool:
        """Until something has happened; False: nothing has, for KEEP_ALIVE_S."""
        news: Deferred[None] = Deferred()
        self._news = news
        is_news = True

        def silence() -> None:
            nonlocal is_news
            is_news = False
            self._wake()

        timer = self._place.reactor.callLater(KEEP_ALIVE_S, silence)
        try:
            await news
        finally:
            self._news = None
            if timer.active():
                timer.cancel()
        return is_news

    def close(self, text: str) -> None:
        """Nobody reads any more: the session goes on for as long as it may."""
        on_close, self.on_close = self.on_close, None
        if on_close is not None:
            on_close()
        if self.client.ended is None:
            self.client.lose(text)


def _end_of(ended: Ended) -> dict[str, Any]:
    return {
        "reason_code": ended.reason,
        "reason": reasons.name(ended.reason),
        "detail": ended.text,
    }
