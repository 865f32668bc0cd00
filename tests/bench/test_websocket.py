"""The client's side of WebSocket, however the bytes are cut."""

import base64
import hashlib
from unittest import TestCase

from mhub.bench.errors import BenchError
from mhub.bench.websocket import WebSocket

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def accept(websocket: WebSocket, protocol: str = "mqtt") -> bytes:
    key = websocket.request.split(b"Sec-WebSocket-Key: ")[1].split(b"\r\n")[0]
    proof = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
    return (
        "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Accept: {proof}\r\nSec-WebSocket-Protocol: {protocol}\r\n\r\n"
    ).encode()


class WebSocketTests(TestCase):
    def setUp(self) -> None:
        self.websocket = WebSocket("host:80", "/mqtt")

    def opened(self) -> WebSocket:
        self.assertEqual(self.websocket.feed(accept(self.websocket)), b"")
        self.assertTrue(self.websocket.open)
        return self.websocket

    def test_the_request(self) -> None:
        request = self.websocket.request
        self.assertTrue(request.startswith(b"GET /mqtt HTTP/1.1\r\nHost: host:80\r\n"))
        self.assertIn(b"Sec-WebSocket-Protocol: mqtt\r\n", request)

    def test_frames_of_every_length(self) -> None:
        websocket = self.opened()
        for size, head in (
            (0, b"\x82\x80"), (125, b"\x82\xfd"), (126, b"\x82\xfe\x00\x7e"),
            (65535, b"\x82\xfe\xff\xff"), (65536, b"\x82\xff" + (65536).to_bytes(8, "big")),
        ):  # fmt: skip
            data = b"a" * size
            self.assertEqual(websocket.wrap(data), head + b"\x00\x00\x00\x00" + data)

    def test_payloads_in_any_pieces(self) -> None:
        frames = b"\x02\x02ab" + b"\x80\x01c" + b"\x82\x7e\x00\x7e" + b"d" * 126
        for step in (1, 2, 3, 7, 1000):
            websocket = WebSocket("host:80", "/mqtt")
            stream = accept(websocket) + frames
            found = b"".join(
                websocket.feed(stream[i : i + step]) for i in range(0, len(stream), step)
            )
            self.assertEqual(found, b"abc" + b"d" * 126)

    def test_a_ping_is_answered(self) -> None:
        websocket = self.opened()
        websocket.feed(b"\x89\x02hi")
        self.assertEqual(websocket.reply, b"\x8a\x82\x00\x00\x00\x00hi")

    def test_a_close_says_why(self) -> None:
        websocket = self.opened()
        websocket.feed(b"\x88\x06\x03\xeabye!")
        self.assertEqual(websocket.closed, "WebSocket close 1002 bye!")

    def test_refusals(self) -> None:
        for answer in (
            b"HTTP/1.1 404 Not Found\r\n\r\n",
            b"\x20\x02\x00\x01",
            accept(self.websocket, "soap"),
            accept(WebSocket("host:80", "/mqtt")),
        ):
            with self.assertRaises(BenchError):
                self.websocket.feed(answer)

    def test_text_is_not_mqtt(self) -> None:
        with self.assertRaises(BenchError):
            self.opened().feed(b"\x81\x01a")
