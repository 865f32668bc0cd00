"""A hub whose clients are objects of the test: no sockets, no clock but the test's.

world = World(work_per_turn=10)              fields of HubSettings and of Limits alike
alice = world.client("alice", version=5)     connected; her CONNACK is in alice.connack
alice.send(p.publish("t", b"x"))             one read of these bytes, then the end of the turn
bob.take()                                   the packets that came since the last take()
"""

import dataclasses
import itertools
from collections.abc import Callable
from typing import Any

from mhub.core import events
from mhub.core.connection import CLOSED, Connection
from mhub.core.events import Event, Events
from mhub.core.hub import Hub, HubSettings
from mhub.core.limits import Limits
from mhub.core.session import Session
from tests.helpers import packets as p
from tests.helpers.packets import Packet

START = 1_000_000.0
LIMITS = frozenset(field.name for field in dataclasses.fields(Limits))


class Outlet:
    """The core's way out, written down.  It is an error to write after the close."""

    def __init__(self) -> None:
        self.data = bytearray()  # not yet taken by the test
        self.writes: list[int] = []  # their sizes
        self.full = False
        self.reading = True
        self.closed = False
        self.linger: bool | None = None
        self.on_write: Callable[[], None] | None = None

    def write(self, data: bytes) -> bool:
        assert not self.closed, f"written after the close: {data!r}"
        self.data += data
        self.writes.append(len(data))
        if self.on_write is not None:
            self.on_write()
        return not self.full

    def close(self, linger: bool) -> None:
        assert not self.closed, "closed twice"
        self.closed = True
        self.linger = linger

    def pause(self) -> None:
        assert self.reading, "paused twice"
        self.reading = False

    def resume(self) -> None:
        assert not self.reading, "resumed while reading"
        self.reading = True


class Defect(BaseException):
    """The hub contains defects of its own, and what fails in a sink; a test is there to see them.

    So this is no Exception, which both would catch.
    """


class Diary:
    """The hub's events: the ends of connections as short lines, and all of them as they are."""

    def __init__(self) -> None:
        self.lines: list[tuple[Any, ...]] = []
        self.events: list[Event] = []

    def emit(self, event: Event) -> None:
        self.events.append(event)
        if event.kind == events.CONNECTED:
            self.lines.append(("connected", event.client_id))
        elif event.kind == events.REFUSED:
            self.lines.append(("refused", event.reason, event.text))
        elif event.kind == events.DISCONNECTED:
            self.lines.append(("disconnected", event.client_id, event.reason, event.text))
        elif event.kind == events.DENIED:
            self.lines.append(("denied", event.client_id, event.cause, event.topic))
        elif event.kind == events.CRASHED:
            assert event.error is not None
            self.crashed(event.text, event.error)

    def crashed(self, what: str, error: Exception) -> None:
        raise Defect(f"a defect hit {what}") from error

    def of(self, kind: str) -> list[Event]:
        return [event for event in self.events if event.kind == kind]


class Client:
    """One connection to the hub, and the other end of it."""

    def __init__(self, world: "World", version: int, limits: Limits) -> None:
        self.world = world
        self.version = version
        self.outlet = Outlet()
        self.connection = Connection(world.hub, self.outlet, limits, world.now)
        self.connack: Packet | None = None
        self._pids = itertools.cycle(range(1, 65536))

    # To the hub

    def feed(self, *pieces: bytes) -> None:
        """Reads that bring these bytes, one after the other, within one turn."""
        for piece in pieces:
            if self.connection.state != CLOSED:
                self.connection.receive(piece, self.world.now)

    def send(self, *data: bytes) -> None:
        """One read that brings all of it, and the end of that turn."""
        self.feed(b"".join(data))
        self.world.hub.flush()

    def lose(self, text: str = "the peer closed the connection") -> None:
        """The network connection ends."""
        self.outlet.closed = True
        self.connection.lost(text)
        self.world.hub.flush()

    def unblock(self) -> None:
        """The socket has room again."""
        self.outlet.full = False
        self.connection.writable(self.world.now)
        self.world.hub.flush()

    def subscribe(self, topic_filter: str, options: int = 0, **rest: Any) -> Packet:
        """Subscribe to one filter; the SUBACK, which comes before anything else."""
        pid = next(self._pids)
        before = self.take()
        assert not before, before
        self.send(p.subscribe(pid, (topic_filter, options), version=self.version, **rest))
        suback = self.next("SUBACK")
        assert suback.pid == pid, suback
        return suback

    def publish(self, topic: str, payload: bytes = b"x", qos: int = 0, **rest: Any) -> None:
        pid = next(self._pids) if qos else None
        self.send(p.publish(topic, payload, qos, pid, version=self.version, **rest))

    # From the hub

    def take(self) -> list[Packet]:
        """All whole packets that came since the last call."""
        found = []
        while (packet := self._pop()) is not None:
            found.append(packet)
        assert not self.outlet.data, f"part of a packet: {bytes(self.outlet.data)!r}"
        return found

    def next(self, kind: str) -> Packet:
        """The next packet, which is of this kind; what follows stays."""
        packet = self._pop()
        assert packet is not None and packet.type == kind, f"{kind} expected, got {packet}"
        return packet

    def payloads(self) -> list[bytes]:
        """The payloads of the messages that came; nothing else may have come."""
        found = self.take()
        assert all(packet.type == "PUBLISH" for packet in found), found
        return [packet.payload for packet in found]

    def _pop(self) -> Packet | None:
        data = self.outlet.data
        if not data:
            return None
        length = shift = 0
        at = 1
        while True:
            length |= (data[at] & 0x7F) << shift
            shift += 7
            at += 1
            if data[at - 1] < 0x80:
                break
        assert len(data) >= at + length, f"part of a packet: {bytes(data)!r}"
        packet = p.decode(data[0], bytes(data[at : at + length]), self.version)
        del data[: at + length]
        return packet

    # What the hub knows

    @property
    def session(self) -> Session:
        session = self.connection.session
        assert session is not None
        return session

    @property
    def closed(self) -> bool:
        return self.outlet.closed


class World:
    def __init__(self, **options: Any) -> None:
        self.options = options
        settings = HubSettings()
        for name, value in options.items():
            if name not in LIMITS or hasattr(settings, name):
                assert hasattr(settings, name), name
                setattr(settings, name, value)
        self.limits = {name: value for name, value in options.items() if name in LIMITS}
        self.now = START
        self.diary = Diary()
        tokens = itertools.count(1)
        self.hub = Hub(settings, Events([self.diary]), lambda: str(next(tokens)), self.now)

    @property
    def stats(self) -> Any:
        return self.hub.stats

    def open(self, version: int = 4, **limits: Any) -> Client:
        """A connection on which nothing was sent yet; `limits` on top of the world's."""
        return Client(self, version, Limits(**{**self.limits, **limits}))

    def client(
        self,
        client_id: str = "c",
        version: int = 4,
        limits: dict[str, Any] | None = None,
        **connect: Any,
    ) -> Client:
        """A connected client; `connect` are arguments of `packets.connect`."""
        client = self.open(version, **(limits or {}))
        client.send(p.connect(client_id, version, **connect))
        client.connack = client.next("CONNACK")
        assert client.connack.reason == 0, client.connack
        return client

    def turn(self) -> None:
        """What the hub had put off: one turn of it."""
        self.hub.proceed(self.now)
        self.hub.flush()

    def settle(self) -> int:
        """Turns until nothing is put off; how many it took."""
        turns = 0
        while self.hub.is_unfinished():
            self.turn()
            turns += 1
            assert turns < 100_000, "the hub does not come to rest"
        return turns

    def wait(self, seconds: float, steps: int = 1) -> None:
        """Time passes, with so many ticks in it."""
        for _ in range(steps):
            self.now += seconds / steps
            self.hub.tick(self.now)
            self.hub.flush()
