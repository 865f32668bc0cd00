"""What comes to the wrong listener is closed at once; the log says what it was and where to go."""

import socket
import ssl

from tests.helpers import packets
from tests.system.case import HouseCase
from tests.system.raw import closed_within, dial

AT_ONCE_S = 5.0
"""Well before the time-out of a connection without a CONNECT, which is 10 s here."""

GET = b"GET / HTTP/1.1\r\nHost: broker\r\n\r\n"
UPGRADE = (
    b"GET /mqtt HTTP/1.1\r\nHost: broker\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: c2l4dGVlbiBieXRlcy4uLg==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: mqtt\r\n\r\n"
)


class StrangerCase(HouseCase):
    def open(self, port: int) -> tuple[socket.socket, str]:
        """A connection, and how the log names it."""
        sock = dial(("127.0.0.1", port))
        self.addCleanup(sock.close)
        return sock, f"127.0.0.1:{sock.getsockname()[1]}"

    def send(self, port: int, data: bytes) -> tuple[bytes, str]:
        """Send this first; what comes back until the close, and the line in the log."""
        sock, name = self.open(port)
        sock.sendall(data)
        return closed_within(sock, AT_ONCE_S), self.logged(name)


class PlainPortTests(StrangerCase):
    def test_a_tls_client(self) -> None:
        sock, name = self.open(self.house.tcp)
        with self.assertRaises((ssl.SSLError, ConnectionError)):
            self.house.trust().wrap_socket(sock, server_hostname="localhost")
        line = self.logged(name)
        self.assertIn("on plain was rejected, it does not speak MQTT: a TLS ClientHello", line)
        self.assertIn(f"secure (mqtts://127.0.0.1:{self.house.tls})", line)

    def test_an_http_request(self) -> None:
        data, line = self.send(self.house.tcp, GET)
        self.assertEqual(b"", data)
        self.assertIn("on plain was rejected, it does not speak MQTT: an HTTP GET request", line)
        self.assertIn(f"web (ws://127.0.0.1:{self.house.ws}/mqtt)", line)

    def test_a_websocket_handshake(self) -> None:
        data, line = self.send(self.house.tcp, UPGRADE)
        self.assertEqual(b"", data)
        self.assertIn("on plain was rejected, it does not speak MQTT: a WebSocket handshake", line)
        self.assertIn(f"web (ws://127.0.0.1:{self.house.ws}/mqtt)", line)

    def test_a_proxy_header(self) -> None:
        data, line = self.send(self.house.tcp, b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n")
        self.assertEqual(b"", data)
        self.assertIn("a PROXY protocol header", line)

    def test_garbage(self) -> None:
        data, line = self.send(self.house.tcp, b"\xde\xad\xbe\xef" * 1000)
        self.assertEqual(b"", data)
        self.assertIn("on plain was rejected, it does not speak MQTT: bytes that are no", line)
        self.assertIn(" MQTT CONNECT: de ad be ef", line)

    def test_another_packet_than_connect(self) -> None:
        data, line = self.send(self.house.tcp, packets.pingreq())
        self.assertEqual(b"", data)
        self.assertIn("PINGREQ", line)

    def test_garbage_behind_the_first_byte_of_a_connect(self) -> None:
        data, line = self.send(self.house.tcp, b"\x10\xff\xff\xff\xff\xff\xff")
        self.assertEqual(b"", data)
        self.assertIn("on plain", line)

    def test_a_connect_that_claims_to_be_huge(self) -> None:
        data, line = self.send(self.house.tcp, b"\x10\xff\xff\xff\x7f\x00\x04MQTT\x04")
        self.assertEqual(b"", data)
        self.assertIn("on plain", line)

    def test_a_client_that_says_nothing_and_leaves_is_no_news(self) -> None:
        sock, name = self.open(self.house.tcp)
        sock.close()
        self.send(self.house.tcp, GET)  # handled after it
        self.assertNotIn(name, self.house.broker.log(self.mark))


class OtherPortsTests(StrangerCase):
    def test_plain_mqtt_on_a_tls_listener(self) -> None:
        _data, line = self.send(self.house.tls, packets.connect("c"))
        self.assertIn("on secure was rejected: TLS:", line)

    def test_http_on_a_tls_listener(self) -> None:
        _data, line = self.send(self.house.tls, GET)
        self.assertIn("on secure was rejected: TLS:", line)

    def test_plain_mqtt_on_a_websocket_listener(self) -> None:
        _data, line = self.send(self.house.ws, packets.connect("c"))
        self.assertIn("on web was rejected", line)

    def test_a_browser_on_a_websocket_listener(self) -> None:
        data, line = self.send(self.house.ws, GET)
        self.assertTrue(data.startswith(b"HTTP/1.1 4"), data)
        self.assertIn("on web was rejected", line)

    def test_another_path_of_a_websocket_listener(self) -> None:
        data, _line = self.send(self.house.ws, UPGRADE.replace(b"/mqtt", b"/other", 1))
        self.assertTrue(data.startswith(b"HTTP/1.1 404"), data)

    def test_other_data_than_mqtt_inside_tls(self) -> None:
        sock, name = self.open(self.house.tls)
        secure = self.house.trust().wrap_socket(sock, server_hostname="localhost")
        self.addCleanup(secure.close)
        secure.sendall(GET)
        self.assertEqual(b"", closed_within(secure, AT_ONCE_S))
        self.assertIn(
            "on secure was rejected, it does not speak MQTT: an HTTP GET request", self.logged(name)
        )

    def test_a_version_that_a_listener_does_not_speak(self) -> None:
        data, line = self.send(self.house.small, packets.connect("c", 4))
        self.assertEqual(b"\x20\x02\x00\x01", data)
        self.assertIn("on small was refused", line)

    def test_one_client_more_than_a_listener_takes(self) -> None:
        held = []
        for _ in range(2):
            sock, _ = self.open(self.house.small)
            sock.sendall(packets.connect(self.name(), 5))
            self.assertEqual(0x20, sock.recv(100)[0])
            held.append(sock)
        sock, name = self.open(self.house.small)
        self.assertEqual(b"", closed_within(sock, AT_ONCE_S))
        self.assertIn("on small was rejected: the connection limit", self.logged(name))
        held[0].sendall(packets.disconnect())
        self.assertEqual(b"", closed_within(held[0], AT_ONCE_S))
        sock, name = self.open(self.house.small)
        sock.sendall(packets.connect(self.name(), 5))
        self.assertEqual(0x20, sock.recv(100)[0])

    def test_a_packet_larger_than_a_listener_takes(self) -> None:
        sock, _ = self.open(self.house.small)
        sock.sendall(packets.connect(self.name(), 5))
        self.assertEqual(0x20, sock.recv(100)[0])
        sock.sendall(packets.publish(self.topic, bytes(2000), version=5))
        answer = closed_within(sock, AT_ONCE_S)
        self.assertEqual((0xE0, 0x95), (answer[0], answer[2]))  # Packet too large
