"""Traces: what one client sends and gets, or what is published to some topics, while it happens.

    Connection.receive -> ConnectionTap -> FrameReader -> Trace.add -> events() of who asked
    Connection.flush   -> TappedOutlet  -/
    Hub._deliver       -> TopicTap      ---------------/

Bounds, all of which end a trace or leave events out and count them: MOST_TRACES at a time, a time,
a number of events, RATE events a second, and QUEUE events that nobody has taken yet.  What is left
out is told by the next event that is not (`dropped`).

A trace of a client begins with the connection that it has, or with the next one.  Its CONNECT is
not among the packets, as it is not known before whose it is: an event says that it is connected, or
was refused, and what was sent in one piece with the CONNECT is not seen.  It sees what is on the
wire, so topics are as the client writes them.  A trace of a topic sees each message that is
published at this node, or comes to it for its subscribers, once, with its topic in full.
"""

import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from twisted.internet.defer import Deferred

from mhub.core import events
from mhub.core.connection import CLOSED, Connection
from mhub.core.events import Event
from mhub.core.hub import Hub
from mhub.core.ports import Outlet
from mhub.core.tracing import TopicTap
from mhub.operations.contract import BadArgument, OperationError
from mhub.operations.packet_log import KEPT, FrameReader, describe, preview, shorten
from mhub.operations.steering import TraceEvent
from mhub.wire.packets import VERSION_NAMES
from mhub.wire.publish import Publish
from mhub.wire.topics import filter_problem

MOST_TRACES: Final = 8
LONGEST_S: Final = 3600.0
MOST_EVENTS: Final = 100_000
MOST_PAYLOAD: Final = 4096
RATE: Final = 500
"""Events of one trace in a second."""
QUEUE: Final = 1000
"""Events that wait for who asked for them."""

_TOLD: Final = {
    events.REFUSED: "refused",
    events.DISCONNECTED: "disconnected",
    events.TAKEN_OVER: "taken_over",
}


class Trace:
    """One of them: takes events, and gives them to who has asked."""

    def __init__(self, most: int, payload_bytes: int, clock: Callable[[], float]) -> None:
        self.payload_bytes = payload_bytes
        self._clock = clock
        self._left = most
        self._queue: deque[TraceEvent] = deque()
        self._waiting: Deferred[None] | None = None
        self._seq = 0
        self._dropped = 0
        self._second = 0
        self._in_second = 0
        self.ended = ""  # why
        self.listener: Callable[[TraceEvent], None] | None = None  # gets events, instead of next()

    def add(self, kind: str, **fields: Any) -> None:
        if self.ended:
            return
        second = int(self._clock())
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        if self._in_second > RATE or len(self._queue) >= QUEUE:
            self._dropped += 1
            return
        self._put(kind, fields)
        self._left -= 1
        if self._left <= 0:
            self.end("as many events as were asked for")

    def _put(self, kind: str, fields: dict[str, Any]) -> None:
        self._seq += 1
        event = TraceEvent(self._seq, round(time.time(), 6), kind, dropped=self._dropped, **fields)
        self._dropped = 0
        if self.listener is not None:
            self.listener(event)
            return
        self._queue.append(event)
        self._wake()

    def begin(self) -> None:
        self._put("begin", {})

    def end(self, why: str) -> None:
        if not self.ended:
            self.ended = why
            self._put("end", {"text": why})

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None:
            waiting.callback(None)

    async def next(self) -> TraceEvent:
        while not self._queue:
            waiting: Deferred[None] = Deferred()
            self._waiting = waiting
            await waiting
        return self._queue.popleft()


class TappedOutlet:
    """The outlet of a connection that is traced: all goes on to the real one."""

    def __init__(self, tap: "ConnectionTap", inner: Outlet) -> None:
        self.inner = inner
        self._tap = tap

    def write(self, data: bytes) -> bool:
        self._tap.sent(data)
        return self.inner.write(data)

    def close(self, linger: bool) -> None:
        self.inner.close(linger)

    def pause(self) -> None:
        self.inner.pause()

    def resume(self) -> None:
        self.inner.resume()


class ConnectionTap:
    """A connection that is traced, by one trace or several."""

    def __init__(self, connection: Connection, traces: list[Trace]) -> None:
        self._connection = connection
        self._traces = traces  # of its client id; others add to it and take from it
        kept = KEPT + MOST_PAYLOAD
        self._received = FrameReader(kept)
        self._sent = FrameReader(kept)
        self._aliases_in: dict[int, str] = {}
        self._aliases_out: dict[int, str] = {}
        aliases = connection.aliases
        if aliases is not None:
            for alias, topic in aliases.incoming.items():
                self._aliases_in[alias] = topic.decode("utf-8", "replace")
            self._aliases_out = {alias: topic for topic, alias in aliases.outgoing.items()}
        # A payload that is written behind its head, or was so in part, is no beginning of a packet.
        self._in_step = not connection.large
        self._outlet = TappedOutlet(self, connection.outlet)
        partial = connection.partial
        if partial is not None:
            self.received(bytes(partial.data))  # the beginning of what is still to come
        connection.tap = self
        connection.outlet = self._outlet

    def received(self, data: bytes) -> None:
        self._tell("in", self._received, data, self._aliases_in)

    def sent(self, data: bytes) -> None:
        if not self._in_step:
            if self._connection.large:
                return
            self._in_step = True
        self._tell("out", self._sent, data, self._aliases_out)

    def _tell(
        self, direction: str, reader: FrameReader, data: bytes, aliases: dict[int, str]
    ) -> None:
        connection = self._connection
        for frame in reader.feed(data):
            for trace in list(self._traces):
                found = describe(frame, connection.version, trace.payload_bytes, aliases)
                trace.add("packet", direction=direction, client_id=connection.client_id, **found)

    def remove(self) -> None:
        connection = self._connection
        connection.tap = None
        if connection.outlet is self._outlet:
            connection.outlet = self._outlet.inner


class Traces:
    """All that run: the hub's Tracer, and a sink of its events, while there are any of clients."""

    def __init__(self, hub: Hub, clock: Callable[[], float], reactor: Any) -> None:
        self._hub = hub
        self._clock = clock
        self._reactor = reactor
        self._running: set[Trace] = set()
        self._clients: dict[str, list[Trace]] = {}
        self._taps: dict[str, ConnectionTap] = {}

    @property
    def count(self) -> int:
        return len(self._running)

    async def run(
        self, client_id: str, topic: str, seconds: float, most: int, payload_bytes: int
    ) -> AsyncGenerator[TraceEvent, None]:
        """The events: one of kind "begin" at once, up to one of kind "end".

        Raises BadArgument and OperationError in the place of the first.
        """
        trace, remove = self.start(client_id, topic, seconds, most, payload_bytes)
        trace.begin()
        try:
            while True:
                event = await trace.next()
                yield event
                if event.kind == "end":
                    return
        finally:
            remove()

    def start(
        self, client_id: str, topic: str, seconds: float, most: int, payload_bytes: int
    ) -> tuple[Trace, Callable[[], None]]:
        """A trace, and what removes it."""
        if bool(client_id) == bool(topic):
            raise BadArgument("expected either client_id or topic")
        if topic and (problem := filter_problem(topic)):
            raise BadArgument(f"topic: {problem}")
        for name, value, least, highest in (
            ("seconds", seconds, 0.1, LONGEST_S),
            ("most", most, 1, MOST_EVENTS),
            ("payload_bytes", payload_bytes, 0, MOST_PAYLOAD),
        ):
            if not least <= value <= highest:
                raise BadArgument(f"{name}: expected from {least:g} to {highest:g}")
        if len(self._running) >= MOST_TRACES:
            raise OperationError(f"there are {MOST_TRACES} traces, as many as may be: end one")
        trace = Trace(most, payload_bytes, self._clock)
        self._running.add(trace)
        timer = self._reactor.callLater(seconds, trace.end, "its time is over")
        undo = self._trace_topic(trace, topic) if topic else self._trace_client(trace, client_id)

        def remove() -> None:
            if trace in self._running:
                self._running.remove(trace)
                if timer.active():
                    timer.cancel()
                undo()

        return trace, remove

    def stop(self) -> None:
        for trace in list(self._running):
            trace.end("the broker is stopping")

    def _trace_topic(self, trace: Trace, topic: str) -> Callable[[], None]:
        def tell(message: Publish) -> None:
            trace.add(
                "message",
                direction="in",
                packet="PUBLISH",
                client_id=message.sender,
                topic=shorten(message.topic),
                qos=message.qos,
                retain=message.retain,
                payload_bytes=len(message.payload),
                payload=preview(message.payload, trace.payload_bytes),
            )

        tap = TopicTap(topic, tell)
        self._hub.router.watch(tap)
        return lambda: self._hub.router.unwatch(tap)

    def _trace_client(self, trace: Trace, client_id: str) -> Callable[[], None]:
        hub = self._hub
        if not self._clients:
            hub.tracer = self
            hub.events.sinks.append(self)
        traces = self._clients.setdefault(client_id, [])
        traces.append(trace)
        session = hub.sessions.get(client_id)
        if len(traces) == 1 and session is not None and session.connection is not None:
            self._taps[client_id] = ConnectionTap(session.connection, traces)
        return lambda: self._untrace_client(trace, client_id)

    def _untrace_client(self, trace: Trace, client_id: str) -> None:
        traces = self._clients[client_id]
        traces.remove(trace)
        if traces:
            return
        del self._clients[client_id]
        tap = self._taps.pop(client_id, None)
        if tap is not None:
            tap.remove()
        if not self._clients:
            self._hub.tracer = None
            self._hub.events.sinks.remove(self)

    # What the hub tells

    def attached(self, connection: Connection) -> None:
        traces = self._clients.get(connection.client_id)
        if not traces:
            return
        principal = connection.principal
        text = (
            f"from {principal.address} on {principal.listener},"
            f" MQTT {VERSION_NAMES.get(connection.version, '?')}"
        )
        for trace in list(traces):
            trace.add("connected", client_id=connection.client_id, text=text)
        if connection.state != CLOSED:
            self._taps[connection.client_id] = ConnectionTap(connection, traces)

    def emit(self, event: Event) -> None:
        traces = self._clients.get(event.client_id)
        kind = _TOLD.get(event.kind)
        if not traces or kind is None:
            return
        reasons = (event.reason,) if event.reason else ()
        for trace in list(traces):
            trace.add(kind, client_id=event.client_id, reasons=reasons, text=shorten(event.text))
