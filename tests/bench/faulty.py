"""A small broker that does wrong on purpose, in a thread: what does `mhub bench` say about it?

It takes QoS 0 and 1 of MQTT 3.1.1, topics without wildcards, and packets of less than 16 KiB.
"""

import select
import socket
import threading
from collections.abc import Callable
from typing import Self

CONNACK = b"\x20\x02\x00\x00"

Spoil = Callable[[int, bytes], list[bytes]]
"""From the number of a PUBLISH (over all publishers) and its bytes to what its subscriber gets."""


def honest(number: int, packet: bytes) -> list[bytes]:
    return [packet]


class FaultyBroker:
    def __init__(
        self,
        connack: bytes = CONNACK,
        spoil: Spoil = honest,
        granted: int = 1,
        acknowledges: bool = True,
        closes_after: int = -1,
        goodbye: bytes = b"",
    ) -> None:
        self._connack = connack
        self._spoil = spoil
        self._granted = granted
        self._acknowledges = acknowledges
        self._closes_after = closes_after
        self._goodbye = goodbye
        self._published = 0
        self._subscribers: dict[bytes, socket.socket] = {}
        self._buffers: dict[socket.socket, bytes] = {}
        self._stop, self._stopped = socket.socketpair()
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.port: int = self._listener.getsockname()[1]
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._stop.close()
        self._thread.join(10)

    def _serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._listener, self._stopped, *self._buffers], [], [])
            if self._stopped in ready:
                break
            for sock in ready:
                if sock is self._listener:
                    self._buffers[sock.accept()[0]] = b""
                elif sock in self._buffers:
                    self._read(sock)
        for sock in (*self._buffers, self._listener, self._stopped):
            sock.close()

    def _read(self, sock: socket.socket) -> None:
        try:
            data = sock.recv(65536)
        except OSError:
            data = b""
        if not data:
            del self._buffers[sock]
            sock.close()
            return
        buffer = self._buffers[sock] + data
        while (size := _size(buffer)) and len(buffer) >= size:
            packet, buffer = buffer[:size], buffer[size:]
            self._packet(sock, packet)
            if sock not in self._buffers:
                return
        self._buffers[sock] = buffer

    def _packet(self, sock: socket.socket, packet: bytes) -> None:
        body = packet[2:] if packet[1] < 128 else packet[3:]
        kind = packet[0] >> 4
        if kind == 1:
            if self._connack:
                _send(sock, self._connack)
            else:
                del self._buffers[sock]
                sock.close()
        elif kind == 8:
            length = int.from_bytes(body[2:4], "big")
            self._subscribers[body[4 : 4 + length]] = sock
            granted = min(body[-1], self._granted) if self._granted < 128 else self._granted
            _send(sock, b"\x90\x03" + body[:2] + bytes((granted,)))
        elif kind == 3:
            self._publish(sock, packet, body)

    def _publish(self, sock: socket.socket, packet: bytes, body: bytes) -> None:
        length = int.from_bytes(body[:2], "big")
        to = self._subscribers[body[2 : 2 + length]]
        if self._published == self._closes_after:
            _send(to, self._goodbye)
            self._buffers.pop(to, None)
            to.close()
        self._published += 1
        if to in self._buffers:
            _send(to, b"".join(self._spoil(self._published - 1, packet)))
        if packet[0] & 6 and self._acknowledges:
            _send(sock, b"\x40\x02" + body[2 + length : 4 + length])


def _size(data: bytes) -> int:
    """Bytes of the first packet, 0 when too little of it is here."""
    if len(data) < 3:
        return 2 if data[1:] == b"\x00" else 0
    return 2 + data[1] if data[1] < 128 else 3 + (data[1] & 127) + (data[2] << 7)


def _send(sock: socket.socket, data: bytes) -> None:
    try:
        sock.sendall(data)
    except OSError:
        pass
