"""Layers between a socket and the core, without a socket."""

from unittest import TestCase

from mhub.net.layers import WebSocketLayer
from mhub.net.loop import LayerEnd
from tests.helpers import packets as p
from tests.wire.test_websocket import client_frame, close

REQUEST = (
    b"GET /mqtt HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)
PING = 9
PINGRESP = b"\xd0\x00"
PONG = b"\x8a\x01?"


class WebSocketTests(TestCase):
    def setUp(self) -> None:
        self.layer = WebSocketLayer("/mqtt", (), 8192)
        self.layer.receive(REQUEST)
        self.layer.replies()

    def test_a_ping_is_answered_at_once(self) -> None:
        self.layer.receive(client_frame(b"?", PING))
        self.assertEqual(self.layer.replies(), PONG)
        self.assertEqual(self.layer.send(PINGRESP), b"\x82\x02" + PINGRESP)

    def test_a_frame_is_not_interrupted(self) -> None:
        """The answer to a PING waits for the rest of a packet that is written in pieces."""
        large = p.publish("t", bytes(20_000))
        self.layer.send(large[:10])
        self.layer.receive(client_frame(b"?", PING))
        self.assertEqual(self.layer.replies(), b"")
        self.assertEqual(self.layer.send(large[10:]), large[10:] + PONG)
        self.assertEqual(self.layer.replies(), b"")

    def test_nothing_is_said_at_the_end_in_the_middle_of_a_frame(self) -> None:
        self.layer.send(p.publish("t", bytes(20_000))[:10])
        self.assertEqual(self.layer.close(), b"")
        for last in (close(1000), client_frame(b"text", 1)):
            with self.subTest(last):
                with self.assertRaises(LayerEnd):
                    self.layer.receive(last)
                self.assertEqual(self.layer.close(), b"")
