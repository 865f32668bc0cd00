"""The fastest broker that `mhub bench --scenario throughput --qos 0` can meet: it passes bytes on.

    python -m tests.bench.relay PORT

What a publisher sends after its CONNECT goes, as it is, to the one subscriber of its first topic.
So the figures measured against it are those of the load side, not of a broker.
"""

import select
import socket
import sys

CONNACK = b"\x20\x02\x00\x00"
_READ = 64 * 1024


class Peer:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""
        self.to: Peer | None = None


def serve(port: int, backlog: int = 128) -> None:
    """Listen on loopback until killed."""
    listener = socket.create_server(("127.0.0.1", port), backlog=backlog)
    poller = select.epoll()
    poller.register(listener, select.EPOLLIN)
    peers: dict[int, Peer] = {}
    subscribers: dict[bytes, Peer] = {}
    buffer = memoryview(bytearray(_READ))
    print("ready", flush=True)
    while True:
        for fd, _ in poller.poll():
            if fd == listener.fileno():
                sock, _ = listener.accept()
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peers[sock.fileno()] = Peer(sock)
                poller.register(sock, select.EPOLLIN)
                continue
            peer = peers[fd]
            try:
                size = peer.sock.recv_into(buffer)
                if not size:
                    raise ConnectionResetError
                if peer.to is not None:
                    peer.to.sock.sendall(buffer[:size])
                else:
                    accept(peer, bytes(buffer[:size]), subscribers)
            except OSError:
                poller.unregister(fd)
                peers.pop(fd).sock.close()


def accept(peer: Peer, data: bytes, subscribers: dict[bytes, Peer]) -> None:
    """CONNECT and SUBSCRIBE; lengths of one byte are enough here.  A PUBLISH makes a publisher."""
    data = peer.buffer + data
    while len(data) >= 2:
        kind, size = data[0] >> 4, data[1]
        if kind == 3:
            at = 2 if size < 128 else 3
            length = int.from_bytes(data[at : at + 2], "big")
            peer.to = subscribers[data[at + 2 : at + 2 + length]]
            peer.to.sock.sendall(data)
            data = b""
            break
        if len(data) < 2 + size:
            break
        body, data = data[2 : 2 + size], data[2 + size :]
        if kind == 1:
            peer.sock.sendall(CONNACK)
        elif kind == 8:
            length = int.from_bytes(body[2:4], "big")
            subscribers[body[4 : 4 + length]] = peer
            peer.sock.sendall(b"\x90\x03" + body[:2] + body[-1:])
    peer.buffer = data


if __name__ == "__main__":
    serve(int(sys.argv[1]))
