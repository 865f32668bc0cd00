"""MQTT packets over a blocking socket, to a broker in another process."""

import socket
import ssl
import time
from typing import Any

from tests.helpers import packets, websocket
from tests.helpers.packets import Packet

PATIENCE_S = 30.0

Address = tuple[str, int] | str


def dial(address: Address, buffer_size: int = 0) -> socket.socket:
    """A connection to a host and port, or to a Unix socket's path.

    `buffer_size` is what the system may hold for us while we do not read; 0 is its own choice.
    """
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        sock.settimeout(PATIENCE_S)
        sock.connect(address)
        return sock
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    sock = socket.socket(family)
    sock.settimeout(PATIENCE_S)
    if buffer_size:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_size)
    sock.connect(address)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return sock


def upgraded(sock: socket.socket) -> websocket.WebSocket:
    """The WebSocket on a connection that was just made."""
    sock.sendall(websocket.request())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return websocket.WebSocket(sock)


class Raw:
    """Sends bytes, receives packets."""

    def __init__(
        self,
        address: Address,
        version: int = 4,
        tls: ssl.SSLContext | None = None,
        server_name: str | None = None,
        prefix: bytes = b"",
        buffer_size: int = 0,
    ) -> None:
        """`prefix` goes out before anything else, TLS included."""
        self.version = version
        self.sock = dial(address, buffer_size)
        if prefix:
            self.sock.sendall(prefix)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname=server_name)
        self._data = b""

    @property
    def local(self) -> str:
        """Our end of the connection, as the broker's log writes it."""
        host, port = self.sock.getsockname()[:2]
        return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

    def send(self, *data: bytes) -> None:
        self.sock.sendall(b"".join(data))

    def receive(self) -> Packet | None:
        """The next packet; None when the broker has closed."""
        while True:
            packet = self.buffered()
            if packet is not None:
                return packet
            try:
                data = self.sock.recv(262144)
            except ConnectionResetError:
                data = b""
            if not data:
                if self._data:
                    raise AssertionError(f"closed amid a packet: {self._data[:40]!r}")
                return None
            self._data += data

    def buffered(self) -> Packet | None:
        """The next packet that was read already, with another one."""
        data = self._data
        length = shift = 0
        for at, byte in enumerate(data[1:5], 2):
            length |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                if len(data) < at + length:
                    return None
                self._data = data[at + length :]
                return packets.decode(data[0], data[at : at + length], self.version)
        return None

    def expect(self, type: str, **fields: Any) -> Packet:
        """The next packet is of this type with these fields."""
        packet = self.receive()
        if packet is None:
            raise AssertionError(f"the broker closed instead of sending {type}")
        found = {name: getattr(packet, name) for name in fields}
        if packet.type != type or found != fields:
            raise AssertionError(f"expected {type} {fields}, got {packet}")
        return packet

    def expect_closed(self) -> None:
        packet = self.receive()
        if packet is not None:
            raise AssertionError(f"expected the end of the connection, got {packet}")

    def connect(self, client_id: str, **connect: Any) -> Packet:
        self.send(packets.connect(client_id, self.version, **connect))
        return self.expect("CONNACK", reason=0)

    def subscribe(self, topic_filter: str, qos: int = 0) -> None:
        self.send(packets.subscribe(1, (topic_filter, qos), version=self.version))
        self.expect("SUBACK", reasons=[qos])

    def publish(self, topic: str, payload: bytes, qos: int = 0, pid: int | None = None) -> None:
        self.send(packets.publish(topic, payload, qos, pid, version=self.version))

    def ping(self) -> None:
        self.send(packets.pingreq())
        self.expect("PINGRESP")

    def close(self) -> None:
        """Leave as a client should."""
        try:
            self.send(packets.disconnect())
        except OSError:
            pass
        self.sock.close()


def closed_within(sock: socket.socket, patience_s: float) -> bytes:
    """Everything that the broker still sends until it closes."""
    deadline = time.monotonic() + patience_s
    data = b""
    while True:
        sock.settimeout(max(0.01, deadline - time.monotonic()))
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            return data
        except TimeoutError:
            raise AssertionError(f"still open after {patience_s} s") from None
        if not piece:
            return data
        data += piece
