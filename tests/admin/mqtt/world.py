"""A hub with MQTT over HTTP on it, all in this thread: the test moves the time.

`Gate.run` gives the result of a call that ends by itself; `Gate.begin` the Deferred of one that
does not.  Streams are read by a `Reader`, which takes an event when the test says so, as a slow
HTTP client would.
"""

import json
from collections.abc import AsyncGenerator, Coroutine
from typing import Any

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock, deferLater

from mhub.admin.mqtt.gateway import Gateway
from mhub.core.limits import Limits
from mhub.core.principal import Principal
from tests.core.world import World

WALL = 1_700_000_000.0


def person(user: str = "ann", address: str = "192.0.2.7:4711", **facts: Any) -> Principal:
    """A user who has logged in over HTTP."""
    found = Principal(address, "admin")
    found.user = user
    found.method = "session"
    for name, value in facts.items():
        setattr(found, name, value)
    return found


class Gate:
    def __init__(self, world: World | None = None, **limits: Any) -> None:
        self.world = world or World(**limits)
        self.reactor = Clock()
        self.step_s = 0.0  # by so much the time goes on whenever somebody looks at the clock
        self.pauses = 0
        self.limits = Limits(**self.world.limits)
        self.gateway = Gateway(
            self.world.hub,
            lambda: self.limits,
            self.reactor,
            self.clock,
            lambda: WALL + self.world.now,
            self.world.hub.flush,
            self.pause,
        )

    def clock(self) -> float:
        self.world.now += self.step_s
        return self.world.now

    def pause(self) -> "Deferred[None]":
        self.pauses += 1
        return deferLater(self.reactor, 0)

    def settle(self) -> None:
        """All that happens without that time passes."""
        for _ in range(10_000):
            self.world.settle()
            due = [call for call in self.reactor.getDelayedCalls() if call.getTime() <= self.now]
            if not due:
                return
            self.reactor.advance(0)
        raise AssertionError("it does not come to rest")

    @property
    def now(self) -> float:
        return self.reactor.seconds()

    def wait(self, seconds: float, steps: int = 1) -> None:
        for _ in range(steps):
            self.world.wait(seconds / steps)
            self.reactor.advance(seconds / steps)
            self.settle()

    def begin(self, call: Coroutine[Any, Any, Any]) -> "Deferred[Any]":
        done = Deferred.fromCoroutine(call)
        self.settle()
        return done

    def run(self, call: Coroutine[Any, Any, Any]) -> Any:
        """What it gives, or raises."""
        done = self.begin(call)
        found: list[Any] = []
        done.addBoth(found.append)
        assert found, "it has not ended"
        if hasattr(found[0], "raiseException"):
            found[0].raiseException()
        return found[0]

    def subscribe(self, who: Principal, *filters: str, **options: Any) -> "Reader":
        return Reader(self, self._events(who, list(filters), options))

    async def _events(
        self, who: Principal, filters: list[str], options: dict[str, Any]
    ) -> AsyncGenerator[bytes, None]:
        """As the endpoint has it."""
        stream = await self.gateway.open_stream(who, filters, **options)
        try:
            while data := await stream.read():
                yield data
        finally:
            stream.close("the HTTP connection has ended")


class Reader:
    """An HTTP client that reads a stream of events."""

    def __init__(self, gate: Gate, events: Any) -> None:
        self._gate = gate
        self._events = events
        self._next: Deferred[bytes] | None = None
        self._data: list[bytes] = []

    def read(self) -> bytes:
        """What the next step of the stream brings; b"": nothing does now."""
        if self._next is None:
            self._next = Deferred.fromCoroutine(self._step())
            self._next.addCallback(self._data.append)
        self._gate.settle()
        if not self._next.called:
            return b""
        step, self._next = self._next, None
        failed: list[Any] = []
        step.addErrback(failed.append)
        if failed:
            failed[0].raiseException()
        return self._data.pop()

    async def _step(self) -> bytes:
        found: bytes = await anext(self._events, b"END")
        return found

    def events(self) -> list[dict[str, Any]]:
        """All events that come now, each with its name, id and data."""
        found = []
        while (data := self.read()) and data != b"END":
            found += parse(data)
        return found

    def messages(self) -> list[str]:
        return [each["data"]["payload"] for each in self.events() if each["event"] == "message"]

    def leave(self) -> None:
        """The HTTP connection is lost."""
        if self._next is not None:
            waiting, self._next = self._next, None
            waiting.addErrback(lambda failure: failure.trap(CancelledError))
            waiting.cancel()
        else:
            Deferred.fromCoroutine(self._events.aclose())
        self._gate.settle()


def parse(data: bytes) -> list[dict[str, Any]]:
    """Events, as a browser reads them; comments are events of the name "comment"."""
    found = []
    for block in data.decode("ascii").split("\n\n"):
        if not block:
            continue
        fields: dict[str, Any] = {"event": "message", "id": ""}
        for line in block.split("\n"):
            name, _, value = line.partition(": ")
            if not name:
                fields["event"] = "comment"
            elif name == "retry":
                fields["event"] = "retry"
            elif name == "data":
                fields["data"] = json.loads(value)
            else:
                fields[name] = value
        found.append(fields)
    return found
