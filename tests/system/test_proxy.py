"""The PROXY protocol: the log names the client, not the proxy; by hand and with a real haproxy."""

import shutil
import socket
import subprocess
from pathlib import Path

from twisted.trial.unittest import SkipTest

from tests.helpers import packets
from tests.system.case import HouseCase
from tests.system.raw import Raw, closed_within, dial

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"


def v2(source: str, port: int, command: int = 1, extra: bytes = b"") -> bytes:
    """A header of version 2 from this source; `extra` stands behind the addresses."""
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    address = socket.inet_pton(family, source)
    ports = port.to_bytes(2, "big") + (1883).to_bytes(2, "big")
    body = address + address + ports + extra
    kind = 0x21 if family == socket.AF_INET6 else 0x11
    return SIGNATURE + bytes([0x20 | command, kind]) + len(body).to_bytes(2, "big") + body


class HeaderTests(HouseCase):
    def check(self, prefix: bytes, peer: str) -> None:
        raw = Raw(("127.0.0.1", self.house.proxied), prefix=prefix)
        self.addCleanup(raw.sock.close)
        name = self.name()
        raw.connect(name)
        self.logged(f"{name!r} connected from {peer or raw.local} on proxied")

    def test_version_1(self) -> None:
        self.check(b"PROXY TCP4 192.0.2.7 192.0.2.8 40123 1883\r\n", "192.0.2.7:40123")

    def test_version_1_with_ipv6(self) -> None:
        self.check(b"PROXY TCP6 2001:db8::7 2001:db8::8 40123 1883\r\n", "[2001:db8::7]:40123")

    def test_version_1_of_an_unknown_client(self) -> None:
        self.check(b"PROXY UNKNOWN\r\n", "")

    def test_version_2(self) -> None:
        self.check(v2("192.0.2.7", 40123), "192.0.2.7:40123")

    def test_version_2_with_ipv6(self) -> None:
        self.check(v2("2001:db8::7", 40123), "[2001:db8::7]:40123")

    def test_version_2_with_values_that_nobody_asked_for(self) -> None:
        self.check(v2("192.0.2.7", 40123, extra=b"\x04\x00\x03abc"), "192.0.2.7:40123")

    def test_version_2_of_the_proxy_itself(self) -> None:
        self.check(v2("192.0.2.7", 40123, command=0), "")

    def test_byte_by_byte(self) -> None:
        raw = Raw(("127.0.0.1", self.house.proxied))
        self.addCleanup(raw.sock.close)
        name = self.name()
        for byte in v2("192.0.2.9", 40123) + packets.connect(name):
            raw.send(bytes([byte]))
        raw.expect("CONNACK", reason=0)
        self.logged(f"{name!r} connected from 192.0.2.9:40123")

    def test_before_tls(self) -> None:
        prefix = b"PROXY TCP4 192.0.2.7 192.0.2.8 40124 8883\r\n"
        address = ("localhost", self.house.proxied_tls)
        raw = Raw(address, 5, self.house.trust(), "localhost", prefix)
        self.addCleanup(raw.sock.close)
        name = self.name()
        raw.connect(name)
        self.logged(f"{name!r} connected from 192.0.2.7:40124 on proxied-secure")

    def test_a_client_without_a_header(self) -> None:
        sock = dial(("127.0.0.1", self.house.proxied))
        self.addCleanup(sock.close)
        sock.sendall(packets.connect("c"))
        self.assertEqual(b"", closed_within(sock, 5))
        line = self.logged(f"127.0.0.1:{sock.getsockname()[1]} on proxied was rejected")
        self.assertIn("PROXY", line)


class CommonNameTests(HouseCase):
    """What a proxy says of a certificate is told by others: the log stays one line a line."""

    def header(self, name: bytes) -> bytes:
        inner = b"\x22" + len(name).to_bytes(2, "big") + name
        body = b"\x07\0\0\0\0" + inner
        return v2("192.0.2.7", 40123, extra=b"\x20" + len(body).to_bytes(2, "big") + body)

    def test_a_user(self) -> None:
        raw = Raw(("127.0.0.1", self.house.proxied), prefix=self.header(b"pump-7"))
        self.addCleanup(raw.sock.close)
        raw.connect(self.name())
        self.logged("user 'pump-7'")

    def test_control_characters(self) -> None:
        for name in (b"pump\r\nX-Admin: yes", b"pump\0", b"pump\x1b[2J"):
            raw = Raw(("127.0.0.1", self.house.proxied), prefix=self.header(name))
            self.addCleanup(raw.sock.close)
            raw.send(packets.connect(self.name()))
            raw.expect("CONNACK", reason=5)
            raw.expect_closed()
        self.logged("a user name with control characters")
        self.assertNotIn("X-Admin", self.house.broker.log(self.mark))


class HaproxyTests(HouseCase):
    def setUp(self) -> None:
        if shutil.which("haproxy") is None:
            raise SkipTest("haproxy is not there: install haproxy")
        super().setUp()
        # It inherits its listeners, so they are there before it is.
        self.v1, self.v2 = (socket.create_server(("127.0.0.1", 0)) for _ in range(2))
        self.addCleanup(self.v1.close)
        self.addCleanup(self.v2.close)
        config = Path(self.mktemp())
        config.write_text(
            "defaults\n mode tcp\n timeout connect 5s\n timeout client 60s\n timeout server 60s\n"
            f"listen v1\n bind fd@{self.v1.fileno()}\n"
            f" server mhub 127.0.0.1:{self.house.proxied} send-proxy\n"
            f"listen v2\n bind fd@{self.v2.fileno()}\n"
            f" server mhub 127.0.0.1:{self.house.proxied} send-proxy-v2\n"
        )
        proxy = subprocess.Popen(
            ["haproxy", "-db", "-q", "-f", str(config)],
            stderr=subprocess.DEVNULL,
            pass_fds=(self.v1.fileno(), self.v2.fileno()),
        )
        self.addCleanup(proxy.wait)
        self.addCleanup(proxy.kill)

    def test_each_version(self) -> None:
        for listener in (self.v1, self.v2):
            raw = Raw(listener.getsockname())
            self.addCleanup(raw.sock.close)
            name = self.name()
            raw.connect(name)
            self.logged(f"{name!r} connected from {raw.local} on proxied")
            raw.subscribe(self.topic, 0)
            raw.publish(self.topic, bytes(300_000))
            raw.expect("PUBLISH", topic=self.topic, payload=bytes(300_000))
            raw.close()
