"""What came to a plain MQTT port: told at once, and never of a CONNECT."""

from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.net.sniff import HTTP, OTHER, PROXY, TLS, describe, kind
from tests.helpers.splits import steady

CONNECT = bytes.fromhex("10 10 00 04 4d 51 54 54 04 02 00 3c 00 04 74 65 73 74")
CONNECT_5 = bytes.fromhex("10 0d 00 04 4d 51 54 54 05 02 00 3c 00 00 00")
CONNECT_31 = bytes.fromhex("10 0f 00 06 4d 51 49 73 64 70 03 02 00 3c 00 01 61")

STRANGERS = [
    (bytes.fromhex("16 03 01 02 00 01 00"), TLS, "a TLS ClientHello"),
    (bytes.fromhex("16 03 03"), TLS, "a TLS ClientHello"),
    (bytes.fromhex("16"), TLS, "a TLS ClientHello"),
    (bytes.fromhex("80 2e 01 03 01"), TLS, "a TLS ClientHello in the form of SSL 2.0"),
    (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", HTTP, "an HTTP GET request"),
    (b"OPTIONS * HTTP/1.1\r\n", HTTP, "an HTTP OPTIONS request"),
    (b"CONNECT example.org:443 HTTP/1.1\r\n", HTTP, "an HTTP CONNECT request"),
    (b"GET /mqtt HTTP/1.1\r\nUpgrade: WebSocket\r\n\r\n", HTTP, "a WebSocket handshake"),
    (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", HTTP, "an HTTP/2 connection"),
    (
        b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n",
        PROXY,
        "a PROXY protocol header (proxy_protocol is off on this listener)",
    ),
    (
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c",
        PROXY,
        "a PROXY protocol header (proxy_protocol is off on this listener)",
    ),
    (b"SSH-2.0-OpenSSH_9.2\r\n", OTHER, "an SSH client"),
    (b"*1\r\n$4\r\nPING\r\n", OTHER, "a Redis command"),
    (b"AMQP\0\0\x09\x01", OTHER, "an AMQP client"),
    (b"CONNECT\naccept-version:1.2\n\n\0", OTHER, "a STOMP client"),
    (b'CONNECT {"verbose":false}\r\n', OTHER, "a NATS client"),
    (b"EHLO mail\r\n", OTHER, "an SMTP client"),
    (bytes.fromhex("00 00 00 08 04 d2 16 2f"), OTHER, "a PostgreSQL client"),
    (bytes.fromhex("03 00 00 13 0e e0"), OTHER, "a Remote Desktop client"),
    (bytes.fromhex("05 01 00"), OTHER, "a SOCKS client"),
    (bytes.fromhex("ff fd 03"), OTHER, "a Telnet client"),
    (bytes.fromhex("00 00 00 2f ff 53 4d 42 72"), OTHER, "an SMB client"),
    (bytes.fromhex("c0 00"), OTHER, "an MQTT PINGREQ where CONNECT has to come first"),
    (
        bytes.fromhex("30 05 00 01 61 68 69"),
        OTHER,
        "an MQTT PUBLISH where CONNECT has to come first",
    ),
    (
        bytes([0x16]) + CONNECT[1:],
        OTHER,
        "an MQTT CONNECT with reserved bits set in its first byte",
    ),
    (b"\0\xff", OTHER, "bytes that are no MQTT CONNECT: 00 ff"),
    (
        bytes(range(17)),
        OTHER,
        "bytes that are no MQTT CONNECT: 00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f …",
    ),
    (b"hello\r\n", OTHER, "bytes that are no MQTT CONNECT: 68 65 6c 6c 6f 0d 0a ('hello')"),
    (b"GE", OTHER, "bytes that are no MQTT CONNECT: 47 45"),
]


class Sniffing(TestCase):
    def test_strangers_are_named(self) -> None:
        for data, what, words in STRANGERS:
            self.assertEqual((kind(data), describe(data)), (what, words))

    def test_one_byte_is_enough_to_know_a_stranger(self) -> None:
        for data, _, _ in STRANGERS:
            self.assertIsNotNone(describe(data[:1]))

    def test_a_connect_is_never_taken_for_one(self) -> None:
        """Byte by byte and with a packet behind it."""
        for packet in (CONNECT, CONNECT_5, CONNECT_31, b"\x18" + CONNECT_31[1:]):
            for stop in range(len(packet) + 1):
                self.assertIsNone(describe(packet[:stop]))
                self.assertEqual(kind(packet[:stop]), "")
            self.assertIsNone(describe(packet + b"\xc0\x00"))


class Properties(TestCase):
    @steady
    @given(st.binary(max_size=100))
    def test_any_bytes(self, data: bytes) -> None:
        """Any bytes are a possible CONNECT, by their first byte, or get a short printable line."""
        text = describe(data)
        if not data or (data[0] >> 4 == 1 and data[0] != 0x16):
            self.assertIsNone(text)
            self.assertEqual(kind(data), "")
        else:
            assert text is not None
            self.assertTrue(text.isprintable())
            self.assertLess(len(text), 130)
            self.assertIn(kind(data), (TLS, HTTP, PROXY, OTHER))
