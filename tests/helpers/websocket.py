"""A WebSocket under a test client: masks and frames what it sends, unframes what it gets.

Written from RFC 6455 for these tests alone, strict about what a server sends and free in what the
client sends.  The handshake is a text to send and a text to check; `WebSocket` replaces the
socket of a `RawClient` afterwards.
"""

import base64
import hashlib
import os
import socket
from collections.abc import Sequence

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10

KEY = base64.b64encode(b"sixteen bytes...")
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def request(path: str = "/mqtt", subprotocols: Sequence[str] = ("mqtt",)) -> bytes:
    """The client's half of the handshake."""
    lines = [
        f"GET {path} HTTP/1.1",
        "Host: broker",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY.decode()}",
        "Sec-WebSocket-Version: 13",
    ]
    if subprotocols:
        lines.append("Sec-WebSocket-Protocol: " + ", ".join(subprotocols))
    return "\r\n".join([*lines, "", ""]).encode()


def response(head: bytes) -> tuple[int, dict[str, str]]:
    """Status and header fields of the server's answer."""
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = (line.partition(":") for line in lines if line)
    return int(first.split()[1]), {name.lower(): value.strip() for name, _, value in fields}


def accept_key() -> str:
    """What a server has to answer to `KEY`."""
    return base64.b64encode(hashlib.sha1(KEY + GUID).digest()).decode()


def frame(opcode: int, data: bytes, fin: bool = True, mask: bool = True, rsv: int = 0) -> bytes:
    """A frame of the client; an unmasked one is an error that a server has to notice."""
    head = bytes([fin << 7 | rsv << 4 | opcode])
    bit = 0x80 if mask else 0
    if len(data) < 126:
        head += bytes([bit | len(data)])
    elif len(data) < 65536:
        head += bytes([bit | 126]) + len(data).to_bytes(2, "big")
    else:
        head += bytes([bit | 127]) + len(data).to_bytes(8, "big")
    if not mask:
        return head + data
    key = os.urandom(4)
    stream = key * (len(data) // 4 + 1)
    masked = int.from_bytes(data, "big") ^ int.from_bytes(stream[: len(data)], "big")
    return head + key + masked.to_bytes(len(data), "big")


class WebSocket:
    """A socket past its handshake, with the few methods of one that a `RawClient` needs."""

    def __init__(self, sock: socket.socket, received: bytes = b"") -> None:
        self.sock = sock
        self.close_code: int | None = None
        self.pongs: list[bytes] = []
        self._in = bytearray(received)
        self._out = b""
        self._fragmented = False

    def send(self, data: bytes) -> int:
        """Send MQTT bytes as one binary frame, or block."""
        self._flush()
        if self._out:
            raise BlockingIOError
        self.send_raw(frame(BINARY, data))
        return len(data)

    def send_raw(self, data: bytes) -> None:
        """Send frames built by hand."""
        self._out += data
        self._flush()

    def recv(self, size: int) -> bytes:
        """The MQTT bytes of all frames that are there; b"" at the end, as a socket says it."""
        self._flush()
        data = self.sock.recv(size)
        self._in += data
        found = b"".join(iter(self._next_payload, None))
        if not data and self._in:
            raise AssertionError(f"the stream ends amid a frame: {bytes(self._in)!r}")
        if not data or found:
            return found
        raise BlockingIOError  # Control frames only, or part of a frame.

    def fileno(self) -> int:
        return self.sock.fileno()

    def setblocking(self, flag: bool) -> None:
        self.sock.setblocking(flag)

    def close(self) -> None:
        self.sock.close()

    def _flush(self) -> None:
        try:
            while self._out:
                self._out = self._out[self.sock.send(self._out) :]
        except BlockingIOError:
            pass

    def _next_payload(self) -> bytes | None:
        data = self._in
        if len(data) < 2:
            return None
        fin, rsv, opcode, length = data[0] >> 7, data[0] >> 4 & 7, data[0] & 15, data[1]
        at = 2
        if length in (126, 127):
            at = 4 if length == 126 else 10
            if len(data) < at:
                return None
            length = int.from_bytes(data[2:at], "big")
        assert data[1] < 128, "a server does not mask its frames"
        assert not rsv, "no extension was agreed on"
        if len(data) < at + length:
            return None
        payload = bytes(data[at : at + length])
        del data[: at + length]
        return self._handle(opcode, bool(fin), payload)

    def _handle(self, opcode: int, fin: bool, payload: bytes) -> bytes:
        assert self.close_code is None, "no frame follows the close frame"
        if opcode in (BINARY, CONTINUATION):
            assert self._fragmented == (opcode == CONTINUATION), "fragments out of order"
            self._fragmented = not fin
            return payload
        assert opcode in (CLOSE, PING, PONG), f"MQTT comes in binary frames, not {opcode}"
        assert fin and len(payload) < 126, "a control frame is short and whole"
        if opcode == CLOSE:
            self.close_code = int.from_bytes(payload[:2], "big") if payload else 1005
        elif opcode == PONG:
            self.pongs.append(payload)
        return b""
