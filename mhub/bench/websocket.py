"""WebSocket, the client's side, as much of it as MQTT needs; sans-I/O.

`request` opens, `feed` takes what the socket got and returns the MQTT bytes in it, `wrap` puts MQTT
bytes into a frame.  MQTT packets may be cut by frames anywhere (MQTT-6.0.0-2), so nothing but the
payloads' bytes in their order counts.
"""

import base64
import os
import struct

from mhub.bench.errors import BenchError
from mhub.wire.websocket import (
    OP_BINARY,
    OP_CLOSE,
    OP_CONTINUATION,
    OP_PING,
    OP_PONG,
    OP_TEXT,
    accept_key,
)

_MOST_HEAD = 16384

# A frame of ours must be masked.  The key of zeros leaves the payload as it is: masking guards
# proxies against scripts in browsers, and here there is neither.  The broker's work is the same.
_KEY = b"\x00\x00\x00\x00"


class WebSocket:
    def __init__(self, authority: str, path: str) -> None:
        self.open = False
        self.closed = ""  # why the broker closed, once it did
        self.reply = b""  # pongs to send, wrapped already
        self._secret = base64.b64encode(os.urandom(16))
        self._buffer = b""
        self.request = (
            f"GET {path} HTTP/1.1\r\nHost: {authority}\r\n"
            "Upgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: {self._secret.decode()}\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Protocol: mqtt\r\n\r\n"
        ).encode()

    def wrap(self, data: bytes | bytearray, opcode: int = OP_BINARY) -> bytes:
        size = len(data)
        if size < 126:
            head = struct.pack(">BB", 0x80 | opcode, 0x80 | size)
        elif size < 65536:
            head = struct.pack(">BBH", 0x80 | opcode, 0xFE, size)
        else:
            head = struct.pack(">BBQ", 0x80 | opcode, 0xFF, size)
        return head + _KEY + data

    def feed(self, data: bytes) -> bytes:
        """The MQTT bytes in what came.  Raises `BenchError` when the broker refuses."""
        data = self._buffer + data if self._buffer else data
        if not self.open:
            head, found, rest = data.partition(b"\r\n\r\n")
            if not found:
                if len(data) > _MOST_HEAD or not b"HTTP/".startswith(data[:5]):
                    raise _not_websocket(data)
                self._buffer = data
                return b""
            self._check(head)
            self.open = True
            data = rest
        payloads: list[bytes] = []
        pos = 0
        while len(data) - pos >= 2:
            size = data[pos + 1]
            at = pos + 2
            if size > 125:
                width = 2 if size == 126 else 8
                size = int.from_bytes(data[at : at + width], "big")
                at += width
            if len(data) < at + size:
                break
            self._frame(data[pos], data[at : at + size], payloads)
            pos = at + size
        self._buffer = data[pos:]
        return b"".join(payloads)

    def _frame(self, first: int, payload: bytes, payloads: list[bytes]) -> None:
        opcode = first & 15
        if opcode in (OP_BINARY, OP_CONTINUATION):
            payloads.append(payload)
        elif opcode == OP_PING:
            self.reply += self.wrap(payload, OP_PONG)
        elif opcode == OP_CLOSE:
            code = int.from_bytes(payload[:2], "big")
            text = payload[2:].decode(errors="replace")
            self.closed = f"WebSocket close {code} {text}".rstrip()
        elif opcode == OP_TEXT:
            raise BenchError("the broker sent a text frame", "MQTT is binary (MQTT-6.0.0-1).")

    def _check(self, head: bytes) -> None:
        status, *lines = head.decode("latin-1").split("\r\n")
        fields = {}
        for line in lines:
            name, _, value = line.partition(":")
            fields[name.strip().lower()] = value.strip()
        if status.split(" ")[1:2] != ["101"]:
            raise _not_websocket(status.encode("latin-1"))
        if fields.get("sec-websocket-accept") != accept_key(self._secret).decode():
            raise BenchError("the answer to the WebSocket handshake does not fit the question")
        if fields.get("sec-websocket-protocol") != "mqtt":
            raise BenchError("the server opened a WebSocket, but not for the subprotocol mqtt")


def _not_websocket(data: bytes) -> BenchError:
    line = data[:80].split(b"\r\n")[0].decode("latin-1")
    return BenchError(
        f"the server did not open a WebSocket, it answered {line!r}",
        "Check port and path of the URL, such as ws://host:8083/mqtt.",
    )
