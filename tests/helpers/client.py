"""A client on a real socket that drives the broker of the same thread.

Broker and test share one thread: `pump` runs one turn of the broker and says whether anything
happened.  The client pumps while it sends and while it waits, so a test reads as a plain
conversation and nothing depends on a scheduler.  Loopback may hand bytes over a moment later, so
"quiet" means several idle turns in a row with a short wait on the socket between them; what has to
come is waited for much longer than what has to stay away.
"""

import select
import socket
import struct
import time
import unittest
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from tests.helpers import packets
from tests.helpers.packets import Packet, Prop, Properties, Text

PATIENCE_S = 2.0
"""How long a quiet broker may take to bring what a test waits for: only failures wait that long."""

UNREST_S = 60.0
"""How long a broker may be busy without a pause: a bound for endless loops."""

QUIET_TURNS = 4
QUIET_WAIT_S = 0.001


class Stream(Protocol):
    """What a client needs of a socket; a WebSocket can replace one."""

    def send(self, data: bytes, /) -> int: ...
    def recv(self, size: int, /) -> bytes: ...
    def fileno(self) -> int: ...
    def close(self) -> None: ...
    def setblocking(self, flag: bool, /) -> None: ...


class RawClient:
    """Sends bytes, receives packets, and fails the test where they differ from the promise."""

    def __init__(
        self,
        sock: Stream,
        pump: Callable[[], bool],
        version: int,
        case: unittest.TestCase,
        quiet_wait_s: float = QUIET_WAIT_S,
    ) -> None:
        self.sock = sock
        self.pump = pump
        self.version = version
        self.case = case
        self.quiet_wait_s = quiet_wait_s
        self.connack: Packet | None = None
        self.closed = False  # by the broker
        self._data = bytearray()
        self._packets: deque[Packet] = deque()
        self._last_pid = 0
        self._shut = False
        sock.setblocking(False)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        case.addCleanup(self._close_socket)

    # Sending

    def send(self, *data: bytes) -> None:
        """Send, and let the broker handle it."""
        rest = memoryview(b"".join(data))
        blocked_since: float | None = None
        while rest:
            try:
                sent = self.sock.send(bytes(rest[:262144]))
            except BlockingIOError:
                now = time.monotonic()
                blocked_since = blocked_since or now
                if now - blocked_since > PATIENCE_S:
                    self.case.fail(f"the broker does not take the last {len(rest)} bytes")
                if not self.pump():
                    self._read(self.quiet_wait_s)
                continue
            except OSError:
                break  # The broker closed first; reading finds what it said before.
            rest = rest[sent:]
            blocked_since = None
        self._settle(turns=1)

    def send_slowly(self, data: bytes) -> None:
        """Send byte by byte, each one handled before the next."""
        for value in data:
            self.send(bytes([value]))

    def next_pid(self) -> int:
        self._last_pid = self._last_pid % 65535 + 1
        return self._last_pid

    # Receiving

    def receive(self) -> Packet:
        """The next packet; fails the test if the broker is quiet and there is none."""
        if not self._wait(lambda: bool(self._packets)):
            state = "closed the connection" if self.closed else "sent nothing"
            self.case.fail(f"a packet was expected, the broker {state}")
        return self._packets.popleft()

    def expect(self, type: str, **fields: Any) -> Packet:
        """The next packet is of this type with these fields."""
        packet = self.receive()
        self.case.assertEqual(type, packet.type, f"the broker sent {packet}")
        self._check(packet, fields)
        return packet

    def take(self, type: str, **fields: Any) -> Packet:
        """The first packet of this type with these fields; others stay and keep their order."""

        def find() -> Packet | None:
            for packet in self._packets:
                if packet.type == type and all(getattr(packet, k) == v for k, v in fields.items()):
                    return packet
            return None

        self._wait(lambda: find() is not None)
        found = find()
        if found is None:
            self.case.fail(f"no {type} {fields} came, only {list(self._packets)}")
        self._packets = deque(packet for packet in self._packets if packet is not found)
        return found

    def drain(self) -> list[Packet]:
        """Everything the broker has to say until it is quiet."""
        self._settle()
        found = list(self._packets)
        self._packets.clear()
        return found

    def expect_nothing(self) -> None:
        """The connection stays open and quiet."""
        self._settle()
        self.case.assertEqual([], list(self._packets), "the broker had to stay silent")
        self.case.assertFalse(self.closed, "the broker closed the connection")

    def expect_closed(self) -> None:
        """The broker closes, without a word."""
        self.closed_after()

    def closed_after(self, *types: str, **fields: Any) -> Packet | None:
        """The broker sends packets of these types, then closes; `fields` are of the last one."""
        last = None
        for number, type in enumerate(types):
            last = self.expect(type, **(fields if number == len(types) - 1 else {}))
        self._wait(lambda: self.closed)
        self.case.assertEqual([], list(self._packets), "before the close nothing more was due")
        self.case.assertTrue(self.closed, "the broker keeps the connection open")
        self.case.assertEqual(b"", bytes(self._data), "the broker closed amid a packet")
        return last

    def expect_closed_after_sending(self, *data: bytes) -> None:
        """The broker closes without a word at one of these pieces, each handled before the next."""
        for piece in data:
            self.send(piece)
        self.expect_closed()

    # Conversations

    def subscribe(
        self,
        filter: Text,
        qos: int = 0,
        options: int | None = None,
        props: Properties | None = None,
        granted: int | None = None,
    ) -> Packet:
        """Subscribe to one filter; `granted` is checked when given.  Returns the SUBACK."""
        pid = self.next_pid()
        opts = qos if options is None else options
        self.send(packets.subscribe(pid, (filter, opts), props=props, version=self.version))
        suback = self.take("SUBACK", pid=pid)
        if granted is not None:
            self.case.assertEqual([granted], suback.reasons)
        return suback

    def unsubscribe(self, *filters: Text, props: Properties | None = None) -> Packet:
        """Unsubscribe and return the UNSUBACK."""
        pid = self.next_pid()
        self.send(packets.unsubscribe(pid, *filters, props=props, version=self.version))
        return self.take("UNSUBACK", pid=pid)

    def publish(
        self,
        topic: Text,
        payload: Text = b"",
        qos: int = 0,
        retain: bool = False,
        dup: bool = False,
        pid: int | None = None,
        props: Properties | None = None,
    ) -> Packet | None:
        """Publish and go through the QoS handshake; returns its last packet, None for QoS 0.

        A PUBREC with an error (version 5) ends the handshake and is returned.
        """
        if qos and pid is None:
            pid = self.next_pid()
        self.send(
            packets.publish(topic, payload, qos, pid, retain, dup, props, version=self.version)
        )
        if qos == 0:
            return None
        if qos == 1:
            return self.take("PUBACK", pid=pid)
        pubrec = self.take("PUBREC", pid=pid)
        if pubrec.reason is not None and pubrec.reason >= 0x80:
            return pubrec
        assert pid is not None
        self.send(packets.pubrel(pid))
        return self.take("PUBCOMP", pid=pid)

    def acknowledge(self, packet: Packet) -> None:
        """Go through the receiver's side of the handshake for a PUBLISH from the broker."""
        if packet.qos == 1:
            assert packet.pid is not None
            self.send(packets.puback(packet.pid))
        elif packet.qos == 2:
            assert packet.pid is not None
            self.send(packets.pubrec(packet.pid))
            self.take("PUBREL", pid=packet.pid)
            self.send(packets.pubcomp(packet.pid))

    def ping(self) -> None:
        """The broker answers: whatever was sent before has been handled."""
        self.send(packets.pingreq())
        self.expect("PINGRESP")

    # Leaving

    def close(self) -> None:
        """Leave as a client should: DISCONNECT, then close."""
        if not self.closed:
            self.send(packets.disconnect())
        self._close_socket()
        self._settle_broker()

    def abort(self, reset: bool = False) -> None:
        """Vanish without DISCONNECT; with `reset` the broker sees an error instead of an end."""
        if reset and isinstance(self.sock, socket.socket):
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._close_socket()
        self._settle_broker()

    # Inside

    def _check(self, packet: Packet, fields: dict[str, Any]) -> None:
        found = {name: getattr(packet, name) for name in fields}
        self.case.assertEqual(fields, found, f"in {packet}")

    def _wait(self, done: Callable[[], bool]) -> bool:
        """Pump until `done`, the end of the connection, or the end of patience."""
        deadline = time.monotonic() + PATIENCE_S
        while not done() and not self.closed:
            busy = self.pump()
            busy = self._read(0.0 if busy else self.quiet_wait_s) or busy
            if not busy and time.monotonic() > deadline:
                break
        return done()

    def _settle(self, turns: int = QUIET_TURNS) -> None:
        """Pump and read until the broker has been quiet for some turns."""
        quiet = 0
        deadline = time.monotonic() + UNREST_S
        while quiet < turns:
            busy = self.pump()
            if busy and time.monotonic() > deadline:
                self.case.fail("the broker does not come to rest")
            if turns > 1:
                busy = self._read(0.0 if busy else self.quiet_wait_s) or busy
            quiet = 0 if busy else quiet + 1

    def _settle_broker(self) -> None:
        """Let the broker notice that the socket is gone."""
        quiet = 0
        while quiet < QUIET_TURNS:
            quiet = 0 if self.pump() else quiet + 1
            if quiet:
                time.sleep(self.quiet_wait_s)

    def _read(self, wait_s: float) -> bool:
        """Read what is there; tells whether anything was."""
        if self.closed or self._shut:
            if wait_s:
                time.sleep(wait_s)
            return False
        if not self._poll.poll(wait_s * 1000):
            return False
        try:
            data = self.sock.recv(262144)
        except BlockingIOError:
            return False
        except OSError:
            data = b""  # A reset is a close, too.
        if not data:
            self.closed = True
            return True
        self._data += data
        self._unframe()
        return True

    def _unframe(self) -> None:
        while len(self._data) >= 2:
            length = shift = 0
            at = 1
            while True:
                if at == len(self._data):
                    return
                byte = self._data[at]
                length |= (byte & 0x7F) << shift
                at += 1
                shift += 7
                if not byte & 0x80:
                    break
                if at == 5:
                    self.case.fail(f"no remaining length: {bytes(self._data[:5])!r}")
            if len(self._data) < at + length:
                return
            first_byte, body = self._data[0], bytes(self._data[at : at + length])
            del self._data[: at + length]
            self._packets.append(packets.decode(first_byte, body, self.version))

    def _close_socket(self) -> None:
        if not self._shut:
            self._shut = True
            self.sock.close()


__all__ = ["Packet", "Prop", "RawClient"]
