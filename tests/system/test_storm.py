"""Thousands of clients at once, while others go on talking."""

import errno
import resource
import select
import socket
import time

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.helpers import packets
from tests.system.case import BrokerCase
from tests.system.raw import Raw

CLIENTS = 5000
LONGEST_GAP = 2000
"""So many clients may be let in between two messages of the live traffic: far more than a turn of
the broker does, as this process may have to wait for its turn, too; but not all of them."""


def allow_files(case: SynchronousTestCase, count: int) -> None:
    """Let this process, and the broker that it starts, open so many files; skip if it may not."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= count:
        return
    if hard != resource.RLIM_INFINITY and hard < count:
        raise SkipTest(f"{count} open files are needed, ulimit -n allows {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))
    case.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))


class Storm:
    """Clients that connect all at once, and one conversation that was there before.

    Each client publishes a message behind its CONNECT.  Whoever hears both these and the
    conversation knows how many the broker let in between two messages of the conversation.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._epoll = select.epoll()
        self._clients: dict[int, socket.socket] = {}
        self.accepted = 0
        self.arrived = 0
        self.heard = 0
        self.longest_gap = 0
        self._gap = 0
        self.speaker = Raw(("127.0.0.1", port))
        self.speaker.connect("speaker")
        self.hearer = Raw(("127.0.0.1", port))
        self.hearer.connect("hearer")
        self.hearer.subscribe("live")
        self.hearer.subscribe("storm")
        self._live = select.poll()
        self._live.register(self.hearer.sock, select.POLLIN)

    def connect(self, count: int) -> None:
        for _ in range(count):
            sock = socket.socket()
            sock.setblocking(False)
            result = sock.connect_ex(("127.0.0.1", self._port))
            assert result in (0, errno.EINPROGRESS), errno.errorcode[result]
            self._clients[sock.fileno()] = sock
            self._epoll.register(sock, select.EPOLLOUT)

    def run(self) -> None:
        """Until every client is accepted."""
        deadline = time.monotonic() + 60
        self._speak()
        while self.accepted < len(self._clients) or self.arrived < len(self._clients):
            if self._live.poll(0):
                self._hear()
            for fd, _ in self._epoll.poll(0.01, 8):
                self._advance(fd)
            assert time.monotonic() < deadline, f"{self.accepted} clients were let in"

    def _speak(self) -> None:
        self.speaker.publish("live", b"%d" % self.heard)

    def _hear(self) -> None:
        packet = self.hearer.receive()
        while packet is not None:
            if packet.topic == "storm":
                self.arrived += 1
                self._gap += 1
            else:
                assert packet.payload == b"%d" % self.heard, f"{packet} after {self.heard}"
                self.heard += 1
                self.longest_gap = max(self.longest_gap, self._gap)
                self._gap = 0
                self._speak()
            packet = self.hearer.buffered()

    def _advance(self, fd: int) -> None:
        """CONNECT once the connection is there, then wait for CONNACK."""
        sock = self._clients[fd]
        try:
            data = sock.recv(100)
        except BlockingIOError:
            sock.send(packets.connect(f"storm-{fd}") + packets.publish("storm"))
            self._epoll.modify(fd, select.EPOLLIN)
            return
        assert data == b"\x20\x02\0\0", f"client {self.accepted} got {data!r}"
        self.accepted += 1
        self._epoll.unregister(fd)

    def close(self) -> None:
        for sock in self._clients.values():
            sock.close()
        self.speaker.sock.close()
        self.hearer.sock.close()
        self._epoll.close()


class StormTests(BrokerCase):
    def test_5000_connect_at_once_and_live_traffic_goes_on(self) -> None:
        allow_files(self, CLIENTS + 500)
        broker = self.start()
        before = broker.resident_bytes()
        storm = Storm(broker.port)
        self.addCleanup(storm.close)
        storm.connect(CLIENTS)
        storm.run()
        self.assertEqual(CLIENTS, storm.accepted)
        self.assertLess(
            storm.longest_gap,
            LONGEST_GAP,
            f"{storm.heard} messages were heard",
        )
        each = (broker.resident_bytes() - before) / CLIENTS
        self.assertLess(each, 20_000, "bytes for each client")
        storm.close()
        after = Raw(("127.0.0.1", broker.port))
        after.connect("after")
        after.close()
        self.assertEqual(0, broker.stop())

    def test_more_clients_than_open_files_wait_their_turn(self) -> None:
        """At the system's limit the broker goes on with those it has, and takes others later."""
        most = 100
        broker = self.start()
        resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (most, most))
        held = [Raw(("127.0.0.1", broker.port)) for _ in range(most + 20)]
        for raw in held:
            self.addCleanup(raw.sock.close)
        broker.wait_for_log("cannot accept connections for now: Too many open files")
        held[0].connect("first in")
        held[0].subscribe("t")
        held[0].publish("t", b"still here")
        held[0].expect("PUBLISH", payload=b"still here")
        for raw in held[1:60]:
            raw.sock.close()
        held[-1].connect("last in")
        held[-1].close()
