"""MQTT clients that know exactly what they sent, what was acknowledged, and what came.

They behave as the specification asks.  Their sessions are persistent, and their state outlives
their connections, as if it were on a disk that never fails: after a reconnect they send again what
was not acknowledged, in order, with DUP and the same packet ids.  Packet ids are the lowest that
are free, so that each is used again and again.

Sockets do not block: `tests.system.durability` turns the crank.
"""

import random
import socket
import time
from collections import Counter
from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from tests.helpers import packets as p
from tests.helpers.packets import Packet
from tests.system.raw import dial

ROOT = "load"
"""Topics are load/PUBLISHER/NUMBER."""

SPREAD = 3
"""Each publisher has so many topics, used in turn."""

SESSION_EXPIRY_S = 24 * 3600
"""In MQTT 5, a persistent session is one that outlives its connection for so long."""


class Habit(NamedTuple):
    """What a client does by chance, in each turn of the load."""

    leaves: float = 0.0
    comes: float = 1.0
    speaks: float = 1.0  # else what it has to send waits for another turn, or is never sent


STEADY = Habit()
RESTLESS = Habit(leaves=0.01, comes=0.1, speaks=0.7)
MOSTLY_AWAY = Habit(leaves=0.05, comes=0.002)
ABSENT = Habit(leaves=1.0, comes=0.0)


def topic_of(publisher: str, number: int, spread: int = SPREAD) -> str:
    return f"{ROOT}/{publisher}/{number % spread}"


def payload_of(publisher: str, number: int) -> bytes:
    """Of many sizes: some too large for one page of a database, or to be copied into a frame."""
    size = 40_000 if number % 400 == 0 else 5_000 if number % 50 == 0 else number * 7919 % 64
    return f"{publisher} {number} ".encode() + b"x" * size


class Client:
    version = 4  # of the protocol; 5 is MQTT 5
    spread = SPREAD

    def __init__(self, name: str, habit: Habit = STEADY) -> None:
        self.name = name
        self.habit = habit
        self.live = False  # CONNACK came
        self.welcomes = 0  # how often
        self.pongs = 0
        self.wrong: list[str] = []  # what the broker must not do, and did
        self._sock: socket.socket | None = None
        self._data = bytearray()
        self._out = bytearray()

    # The connection

    @property
    def is_here(self) -> bool:
        return self._sock is not None

    @property
    def idle(self) -> bool:
        """Whether nothing has begun that is not finished."""
        return not self._out

    def fileno(self) -> int:
        assert self._sock is not None
        return self._sock.fileno()

    def come(self, port: int) -> None:
        try:
            self._sock = dial(("127.0.0.1", port))
        except OSError:
            return  # the broker has just died
        self._sock.setblocking(False)
        self._send(self._connect())

    def _connect(self) -> bytes:
        """CONNECT, for a persistent session."""
        props = [(p.Prop.SESSION_EXPIRY, SESSION_EXPIRY_S)] if self.version >= 5 else None
        return p.connect(self.name, self.version, clean=False, props=props)

    def leave(self) -> None:
        """Without a word, and whatever was on its way is lost."""
        if self._sock is not None:
            self._sock.close()
        self._sock = None
        self.live = False
        self._data.clear()
        self._out.clear()

    def write(self) -> None:
        if self._sock is None or not self._out:
            return
        try:
            sent = self._sock.send(self._out)
        except OSError:
            return  # it is full, or it has ended, which reading finds
        del self._out[:sent]

    def read(self) -> None:
        if self._sock is None:
            return
        try:
            data = self._sock.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.leave()
            return
        self._data += data
        for packet in self._packets():
            if packet.type == "CONNACK":
                self._welcome(packet)
            elif packet.type == "PINGRESP":
                self.pongs += 1
            elif packet.type == "DISCONNECT":
                self._dismissed(packet)
            else:
                self._handle(packet)

    def ping(self) -> None:
        self._send(p.pingreq())

    def _send(self, data: bytes) -> None:
        self._out += data

    def _packets(self) -> Iterator[Packet]:
        data = bytes(self._data)
        start = 0
        while (head := _head(data, start)) is not None:
            at, end = head
            if end > len(data):
                break
            yield p.decode(data[start], data[at:end], self.version)
            start = end
        del self._data[:start]

    def _welcome(self, packet: Packet) -> None:
        if packet.reason != 0:
            self.wrong.append(f"{self.name}: CONNACK with {packet.reason}")
        if packet.session_present != bool(self.welcomes):
            what = "is lost" if self.welcomes else "was there before it began"
            self.wrong.append(f"{self.name}: the session {what}")
        self.live = True
        self.welcomes += 1
        self._resume()

    def _dismissed(self, packet: Packet) -> None:
        """MQTT 5: the broker says why it closes."""
        self.wrong.append(f"{self.name}: DISCONNECT with {packet.reason}")

    def _resume(self) -> None:
        """Send what was not finished."""

    def _handle(self, packet: Packet) -> None:
        self.wrong.append(f"{self.name}: was sent {packet}")


def _head(data: bytes, start: int) -> tuple[int, int] | None:
    """Where the body of the packet begins and ends; None if the length is not there yet."""
    length = shift = 0
    for at in range(start + 1, min(start + 5, len(data))):
        length |= (data[at] & 0x7F) << shift
        shift += 7
        if data[at] < 0x80:
            return at + 1, at + 1 + length
    return None


class Publisher(Client):
    def __init__(
        self, name: str, qos: int, retain: bool = False, window: int = 1, habit: Habit = STEADY
    ) -> None:
        super().__init__(name, habit)
        self.qos = qos
        self.retain = retain
        self.window = window  # so many may be on their way
        self.sent = 0  # the number of the last message
        self.acknowledged: set[int] = set()
        self.resent: Counter[int] = Counter()
        self.first_sent_at: dict[int, float] = {}
        self.last_sent_at: dict[int, float] = {}
        self.retained: dict[str, int] = {}  # topic -> the last one that was acknowledged
        self._waiting: dict[int, int] = {}  # packet id -> number of the message
        self._releasing: dict[int, int] = {}  # the same, after PUBREC

    @property
    def idle(self) -> bool:
        return not self._waiting and not self._releasing

    def publish(self) -> None:
        """One more message, if the window is open."""
        under_way = len(self._waiting) + len(self._releasing)
        if not self.live or under_way >= self.window:
            return
        self.sent += 1
        pid = self._free_pid()
        self._waiting[pid] = self.sent
        self.first_sent_at[self.sent] = self.last_sent_at[self.sent] = time.monotonic()
        self._send(self._packet(pid, self.sent, False))

    def _free_pid(self, above: int = 0) -> int:
        """The lowest packet id that is not in use."""
        return next(
            n for n in count(above + 1) if n not in self._waiting and n not in self._releasing
        )

    def publish_some(self, rng: random.Random) -> None:
        for _ in range(rng.randrange(4)):
            self.publish()

    def _packet(self, pid: int, number: int, dup: bool) -> bytes:
        return p.publish(
            topic_of(self.name, number, self.spread),
            payload_of(self.name, number),
            self.qos,
            pid,
            self.retain,
            dup,
            version=self.version,
        )

    def _resume(self) -> None:
        for pid in self._releasing:
            self._send(p.pubrel(pid))
        for pid, number in self._waiting.items():
            self.resent[number] += 1
            self.last_sent_at[number] = time.monotonic()
            self._send(self._packet(pid, number, True))

    def _handle(self, packet: Packet) -> None:
        pid = packet.pid
        assert pid is not None
        if packet.type in ("PUBACK", "PUBREC") and (packet.reason or 0) >= 0x80:
            super()._handle(packet)  # MQTT 5: refused, and no limit is set that would explain it
        elif packet.type == "PUBACK" and self.qos == 1 and pid in self._waiting:
            self._acknowledge(self._waiting.pop(pid))
        elif packet.type == "PUBREC" and self.qos == 2 and pid in self._waiting:
            number = self._waiting.pop(pid)
            self._acknowledge(number)
            self._releasing[pid] = number
            self._send(p.pubrel(pid))
        elif packet.type == "PUBCOMP" and pid in self._releasing:
            del self._releasing[pid]
        else:
            super()._handle(packet)

    def _acknowledge(self, number: int) -> None:
        self.acknowledged.add(number)
        if self.retain:
            topic = topic_of(self.name, number, self.spread)
            self.retained[topic] = max(number, self.retained.get(topic, 0))


class Copy(NamedTuple):
    """A message as it came."""

    number: int
    dup: bool
    qos: int = 0
    retain: bool = False
    connection: int = 0  # the number of the connection by which it came
    lifetime: int = 0  # see `tests.system.cluster_check`
    is_exempt: bool = False


class Subscriber(Client):
    def __init__(self, name: str, qos: int, of: str = "", habit: Habit = STEADY) -> None:
        super().__init__(name, habit)
        self.qos = qos
        self.of = of  # the publisher that it listens to; "": to all
        self.subscribed = False
        self.got: dict[str, list[Copy]] = {}  # by publisher
        # QoS 2 packet ids that wait for PUBREL -> publisher and number of the message
        self._open: dict[int, tuple[str, int]] = {}

    def wants(self, publisher: str) -> bool:
        return self.of in ("", publisher)

    @property
    def idle(self) -> bool:
        return not self._open and not self._out

    def _resume(self) -> None:
        if not self.subscribed:
            topics = f"{ROOT}/{self.of}/#" if self.of else f"{ROOT}/#"
            self._send(p.subscribe(1, (topics, self.qos), version=self.version))

    def _handle(self, packet: Packet) -> None:
        pid = packet.pid
        assert pid is not None or packet.type == "PUBLISH"
        if packet.type == "PUBLISH" and pid is not None:
            self._receive(packet, pid)
        elif packet.type == "PUBREL" and pid is not None:
            self._open.pop(pid, None)
            self._answer("PUBCOMP", p.pubcomp(pid))
        elif packet.type == "SUBACK" and packet.reasons == [self.qos] and not self.subscribed:
            self.subscribed = True
        else:
            super()._handle(packet)

    def _receive(self, packet: Packet, pid: int) -> None:
        if packet.qos == 1:
            self._keep(packet)
            self._answer("PUBACK", p.puback(pid))
            return
        message = message_of(packet)
        known = self._open.get(pid)
        if known is not None and known != message:
            self._collide(pid, known, message)
        if pid not in self._open:  # else it has this one [MQTT-4.3.3-2]
            self._keep(packet)
            self._open[pid] = message
        self._answer("PUBREC", p.pubrec(pid))

    def _collide(self, pid: int, known: tuple[str, int], message: tuple[str, int]) -> None:
        """A packet id that waits for PUBREL comes with another message, which is thus lost."""
        self.wrong.append(f"{self.name}: packet id {pid} of {known} came with {message}")

    def _answer(self, type: str, data: bytes) -> None:
        """An acknowledgement, of this type."""
        self._send(data)

    def _keep(self, packet: Packet) -> None:
        name, number = message_of(packet)
        if packet.payload != payload_of(name, number):
            self.wrong.append(f"{self.name}: {name} {number} came damaged")
        if packet.topic != topic_of(name, number, self.spread):
            self.wrong.append(f"{self.name}: {name} {number} came as {packet.topic}")
        self.got.setdefault(name, []).append(self._copy(packet, number))

    def _copy(self, packet: Packet, number: int) -> Copy:
        return Copy(number, packet.dup, packet.qos, packet.retain, self.welcomes)


def message_of(packet: Packet) -> tuple[str, int]:
    """Publisher and number, from the payload."""
    name, number, _ = packet.payload.split(b" ", 2)
    return name.decode(), int(number)
