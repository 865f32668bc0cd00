"""The PROXY header: read whole, never from too few bytes, refused as early as can be."""

import socket
import struct
from unittest import TestCase

from hypothesis import given
from hypothesis import strategies as st

from mhub.wire.proxy import MAX_V1, MAX_V2, ProxyFault, ProxyHeader, parse
from tests.helpers.splits import steady

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")
LOCAL, PROXY = 0x20, 0x21
TCP4, UDP4, TCP6, UNIX = 0x11, 0x12, 0x21, 0x31


def v2(family: int, block: bytes, tail: bytes = b"", command: int = PROXY) -> bytes:
    body = block + tail
    return SIGNATURE + struct.pack("!BBH", command, family, len(body)) + body


def inet(source: str, port: int) -> bytes:
    packed = socket.inet_pton(socket.AF_INET, source)
    return packed + b"\x7f\x00\x00\x01" + struct.pack("!HH", port, 1883)


def inet6(source: str, port: int) -> bytes:
    packed = socket.inet_pton(socket.AF_INET6, source)
    return packed + bytes(16) + struct.pack("!HH", port, 1883)


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!BH", kind, len(value)) + value


def ssl(client: int, verify: int, *subs: bytes) -> bytes:
    return tlv(0x20, struct.pack("!BI", client, verify) + b"".join(subs))


class Reading(TestCase):
    def check(self, data: bytes, host: str, port: int) -> ProxyHeader:
        """None for every part of it, the same header whole and with MQTT behind it."""
        for stop in range(len(data)):
            self.assertIsNone(parse(data[:stop]), data[:stop])
        header: ProxyHeader | None = None
        for tail in (b"\x10", b"\r\nPROXY ", b""):
            header = parse(data + tail)
            assert header is not None
            self.assertEqual((header.length, header.host, header.port), (len(data), host, port))
        assert header is not None
        return header

    def test_v1(self) -> None:
        self.check(b"PROXY TCP4 192.0.2.7 198.51.100.1 56324 1883\r\n", "192.0.2.7", 56324)
        self.check(b"PROXY TCP6 2001:DB8::7 ::1 0 1883\r\n", "2001:db8::7", 0)
        self.check(b"PROXY TCP6 ::ffff:192.0.2.7 ::1 9 1883\r\n", "192.0.2.7", 9)

    def test_v1_unknown(self) -> None:
        """Whatever follows UNKNOWN is to be skipped."""
        self.check(b"PROXY UNKNOWN\r\n", "", 0)
        self.check(b"PROXY UNKNOWN ffff::ffff ffff::ffff 65535 65535\r\n", "", 0)

    def test_v1_of_the_longest_length(self) -> None:
        line = b"PROXY UNKNOWN " + b"x" * (MAX_V1 - 16) + b"\r\n"
        self.assertEqual(len(line), MAX_V1)
        self.check(line, "", 0)

    def test_v2(self) -> None:
        self.check(v2(TCP4, inet("192.0.2.7", 56324)), "192.0.2.7", 56324)
        self.check(v2(UDP4, inet("192.0.2.7", 443)), "192.0.2.7", 443)
        self.check(v2(TCP6, inet6("2001:db8::7", 1)), "2001:db8::7", 1)
        self.check(v2(TCP6, inet6("::ffff:192.0.2.7", 1)), "192.0.2.7", 1)

    def test_v2_unix(self) -> None:
        path = b"/run/app.sock".ljust(108, b"\0")
        self.check(v2(UNIX, path + bytes(108)), "/run/app.sock", 0)
        self.check(v2(UNIX, b"/" * 108 + bytes(108)), "/" * 108, 0)
        self.check(v2(UNIX, b"/\xff".ljust(216, b"\0")), "/\ufffd", 0)

    def test_v2_of_the_proxy_itself(self) -> None:
        """LOCAL and unspecified families tell nothing; their content is skipped unread."""
        self.check(v2(0x00, b"", command=LOCAL), "", 0)
        self.check(v2(TCP4, inet("192.0.2.7", 5), command=LOCAL), "", 0)
        self.check(v2(TCP4, b"short", command=LOCAL), "", 0)
        self.check(v2(0x00, b"anything"), "", 0)
        self.check(v2(0x10, b"anything"), "", 0)

    def test_v2_of_the_largest_length(self) -> None:
        block = inet("192.0.2.7", 5)
        padding = tlv(0x04, bytes(MAX_V2 - len(block) - 3))
        header = parse(v2(TCP4, block, padding))
        assert header is not None
        self.assertEqual(header.length, 16 + MAX_V2)

    def test_the_name_of_a_verified_certificate(self) -> None:
        tail = tlv(0x01, b"mqtt") + ssl(7, 0, tlv(0x21, b"TLSv1.3"), tlv(0x22, "Größe".encode()))
        header = self.check(v2(TCP4, inet("192.0.2.7", 5), tail), "192.0.2.7", 5)
        self.assertEqual((header.tls, header.common_name), (True, "Größe"))

    def test_the_name_of_an_unverified_certificate_is_not_taken(self) -> None:
        name = tlv(0x22, b"admin")
        for part in (ssl(7, 1, name), ssl(1, 0, name), ssl(7, 0x80000000, name)):
            header = parse(v2(TCP4, inet("192.0.2.7", 5), part))
            assert header is not None
            self.assertEqual((header.tls, header.common_name), (True, ""))

    def test_without_tls(self) -> None:
        header = parse(v2(TCP4, inet("192.0.2.7", 5), ssl(0, 1)))
        assert header is not None
        self.assertEqual((header.tls, header.common_name), (False, ""))


class Refusing(TestCase):
    def check(self, data: bytes, words: str) -> None:
        """A fault at the last byte of `data`, and not before it."""
        self.assertIsNone(parse(data[:-1]), data[:-1])
        for tail in (b"", b"more"):
            with self.assertRaises(ProxyFault) as caught:
                parse(data + tail)
            self.assertIn(words, caught.exception.text)

    def test_what_is_no_header(self) -> None:
        self.check(b"\x10", "10")
        self.check(b"\x16", "16")
        self.check(b"G", "47")
        self.check(b"PU", "50 55")
        self.check(b"PROXY\t", "50 52")
        self.check(b"\r\n\r\n\r", "0d 0a")

    def test_a_v1_line_of_another_family(self) -> None:
        self.check(b"PROXY UD", "'UD")
        self.check(b"PROXY  ", "''")
        self.check(b"PROXY TCP5", "'TCP5")
        self.check(b"PROXY TCP4x", "'TCP4x")
        self.check(b"PROXY TCP ", "'TCP'")

    def test_a_v1_line_with_a_byte_it_cannot_have(self) -> None:
        self.check(b"PROXY TCP4 \n", "0x0a")
        self.check(b"PROXY TCP4 \r1", "0x0d")
        self.check(b"PROXY UNKNOWN \xff", "0xff")

    def test_a_v1_line_without_end(self) -> None:
        endless = b"PROXY UNKNOWN " + b"x" * (MAX_V1 - 14)
        self.check(endless, "longer than 107")
        # Nor does an end that comes too late save it.
        with self.assertRaises(ProxyFault):
            parse(endless + b"\r\n")
        with self.assertRaises(ProxyFault):
            parse(endless[:-1] + b"\r\n")

    def test_v1_fields(self) -> None:
        for fields, words in (
            (b"TCP4", "without two addresses"),
            (b"TCP4 192.0.2.7 192.0.2.8 1", "without two addresses"),
            (b"TCP4 192.0.2.7 192.0.2.8 1 2 3", "without two addresses"),
            (b"TCP4 192.0.2.7  192.0.2.8 1 2", "without two addresses"),
            (b"TCP4 192.0.2.256 192.0.2.8 1 2", "'192.0.2.256'"),
            (b"TCP4 192.0.2.07 192.0.2.8 1 2", "'192.0.2.07'"),
            (b"TCP4 ::1 192.0.2.8 1 2", "'::1'"),
            (b"TCP6 ::1 192.0.2.8 1 2", "'192.0.2.8'"),
            (b"TCP6 fe80::1%eth0 ::1 1 2", "'fe80::1%eth0'"),
            (b"TCP4 192.0.2.7 192.0.2.8 65536 2", "'65536'"),
            (b"TCP4 192.0.2.7 192.0.2.8 01 2", "'01'"),
            (b"TCP4 192.0.2.7 192.0.2.8 1 -2", "'-2'"),
            (b"TCP4 192.0.2.7 192.0.2.8 1 ", "''"),
        ):
            self.check(b"PROXY " + fields + b"\r\n", words)

    def test_v2_version_and_command(self) -> None:
        for byte in (0x00, 0x11, 0x22, 0x31):
            self.check(SIGNATURE + bytes([byte]), f"{byte:#04x}")

    def test_v2_family(self) -> None:
        for byte in (0x13, 0x41, 0xFF):
            self.check(SIGNATURE + bytes([PROXY, byte]), f"{byte:#04x}")

    def test_v2_lengths(self) -> None:
        head = SIGNATURE + bytes([PROXY])
        self.check(head + bytes([TCP4]) + struct.pack("!H", MAX_V2 + 1), "at most 4096")
        self.check(head + bytes([TCP4]) + struct.pack("!H", 11), "too short")
        self.check(head + bytes([TCP6]) + struct.pack("!H", 35), "too short")
        self.check(head + bytes([UNIX]) + struct.pack("!H", 215), "too short")

    def test_v2_tlvs(self) -> None:
        block = inet("192.0.2.7", 5)
        self.check(v2(TCP4, block, b"\x01"), "inside a TLV")
        self.check(v2(TCP4, block, b"\x01\x00\x02x"), "inside a TLV")
        self.check(v2(TCP4, block, tlv(0x20, b"\x01\x00")), "too short")
        self.check(v2(TCP4, block, ssl(7, 0, b"\x22\x00\x05ab")), "inside a TLV")
        self.check(v2(TCP4, block, ssl(7, 0, tlv(0x22, b"\xff"))), "not UTF-8")


def verdict(data: bytes) -> str:
    try:
        return "header" if parse(data) else "more"
    except ProxyFault:
        return "fault"


class Properties(TestCase):
    def check(self, data: bytes) -> None:
        """As bytes arrive the verdict is "more", then once and for all "header" or "fault"."""
        verdicts = [verdict(data[:stop]) for stop in range(len(data) + 1)]
        changes = [
            now for was, now in zip(["more", *verdicts], verdicts, strict=False) if was != now
        ]
        self.assertLessEqual(len(changes), 1)

    @steady
    @given(st.binary(max_size=150))
    def test_any_bytes(self, data: bytes) -> None:
        """Any bytes, also behind a good beginning, give a header or one clean fault."""
        self.check(data)
        self.check(b"PROXY " + data)
        self.check(b"PROXY UNKNOWN" + data)
        self.check(SIGNATURE + data)
        self.check(v2(TCP4, inet("192.0.2.7", 5), data))

    @steady
    @given(st.text("PROXYTCP46UNKW 0123456789.:abcdef\r\n", max_size=120))
    def test_any_line(self, text: str) -> None:
        self.check(b"PROXY TCP4 " + text.encode())
        self.check(b"PROXY " + text.encode() + b"\r\n")

    @steady
    @given(st.ip_addresses(v=4), st.integers(0, 65535))
    def test_any_v4_address(self, address: object, port: int) -> None:
        for data in (
            f"PROXY TCP4 {address} 127.0.0.1 {port} 1883\r\n".encode(),
            v2(TCP4, inet(str(address), port)),
        ):
            header = parse(data)
            assert header is not None
            self.assertEqual((header.host, header.port), (str(address), port))

    @steady
    @given(st.ip_addresses(v=6), st.integers(0, 65535))
    def test_both_versions_show_a_v6_address_alike(self, address: object, port: int) -> None:
        old = parse(f"PROXY TCP6 {address} ::1 {port} 1883\r\n".encode())
        new = parse(v2(TCP6, inet6(str(address), port)))
        assert old is not None and new is not None
        self.assertEqual((old.host, old.port), (new.host, new.port))
