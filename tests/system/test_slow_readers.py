"""Clients that do not read: their queues are bounded, and nobody else waits for them."""

import socket
import ssl

from tests.helpers import packets, websocket
from tests.helpers.certificates import Authority
from tests.system.case import SECURE_AND_WEB, BrokerCase, place
from tests.system.raw import Raw, dial, upgraded

MIB = 1 << 20


class SlowReaderTests(BrokerCase):
    """Subscribers that never read, on each transport, beside one that does."""

    QUEUE = 4 * MIB
    BATCHES, BATCH, SIZE = 200, 100, 3000  # 60 MB in all

    def setUp(self) -> None:
        directory = place(self)
        authority = Authority("Test Authority")
        authority.write(directory / "ca.crt")
        authority.issue("localhost", directory / "server.crt", directory / "server.key")
        self.trust = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        self.broker = self.start(
            SECURE_AND_WEB + f"[limits]\nmax_queued_bytes = {self.QUEUE}\nmax_queued_messages = 0\n"
            "[sys]\ninterval_s = 0.5\n",
            directory=directory,
        )
        self.tls, self.ws = self.broker.ports["secure"], self.broker.ports["web"]

    def deaf(self, qos: int) -> None:
        """Subscribers that read their SUBACK and then nothing."""
        plain = Raw(("127.0.0.1", self.broker.port), buffer_size=4096)
        secure = Raw(("localhost", self.tls), 4, self.trust, "localhost", buffer_size=4096)
        for number, raw in enumerate((plain, secure)):
            self.addCleanup(raw.sock.close)
            raw.connect(f"deaf-{qos}-{number}")
            raw.subscribe("t", qos)
        web = upgraded(dial(("127.0.0.1", self.ws), 4096))
        self.addCleanup(web.close)
        web.send(packets.connect(f"deaf-{qos}-web"))
        self.assertEqual(0x20, web.recv(100)[0])
        web.send(packets.subscribe(1, ("t", qos)))
        self.assertEqual(0x90, web.recv(100)[0])

    def test_others_get_everything_and_memory_is_bounded(self) -> None:
        self.deaf(0)
        self.deaf(1)
        good = Raw(("127.0.0.1", self.broker.port))
        good.connect("good")
        good.subscribe("t", 1)
        sender = Raw(("127.0.0.1", self.broker.port))
        sender.connect("sender")
        before = self.broker.resident_bytes()
        number = 0
        for _ in range(self.BATCHES):
            batch = [b"%07d" % n + bytes(self.SIZE - 7) for n in range(number, number + self.BATCH)]
            sender.send(*(packets.publish("t", data, 1, pid) for pid, data in enumerate(batch, 1)))
            for pid in range(1, self.BATCH + 1):
                sender.expect("PUBACK", pid=pid)
            acks = []
            for data in batch:
                packet = good.expect("PUBLISH", topic="t", payload=data, qos=1)
                acks.append(packets.puback(packet.pid))
            good.send(*acks)
            number += self.BATCH
        grown = self.broker.resident_bytes() - before
        sent = number * self.SIZE
        # Six queues of 4 MiB at most, and what the messages themselves take; much less than sent.
        self.assertLess(grown, 40 * MIB, f"{sent / MIB:.0f} MiB were sent")
        good.ping()
        self.assertGreater(self.dropped(), 0)

    def dropped(self) -> int:
        """What the broker says it has dropped."""
        raw = Raw(("127.0.0.1", self.broker.port))
        raw.connect("asks")
        raw.subscribe("$SYS/broker/publish/messages/dropped")
        found = 0
        while not found:  # what is retained may be from before the first one was dropped
            found = int(raw.expect("PUBLISH").payload)
        raw.close()
        return found


class FloodTests(BrokerCase):
    """Clients that ask and ask, and never read an answer: the broker stops reading from them."""

    def setUp(self) -> None:
        self.broker = self.start('[[listeners]]\nname = "web"\ntransport = "ws"\nport = 0\n')
        self.ws = self.broker.ports["web"]

    def check(self, sock: socket.socket, question: bytes) -> None:
        block = question * (MIB // len(question))
        before = self.broker.resident_bytes()
        sock.settimeout(1)
        with self.assertRaises(TimeoutError):
            for _ in range(64):
                sock.sendall(block)
        self.assertLess(self.broker.resident_bytes() - before, 16 * MIB)
        other = Raw(("127.0.0.1", self.broker.port))
        other.connect("other")
        other.ping()
        other.close()
        sock.close()

    def test_subscribe(self) -> None:
        raw = Raw(("127.0.0.1", self.broker.port), buffer_size=4096)
        raw.connect("flood")
        self.check(raw.sock, packets.subscribe(1, ("t", 1)))

    def test_publish_with_qos_1(self) -> None:
        raw = Raw(("127.0.0.1", self.broker.port), buffer_size=4096)
        raw.connect("flood")
        self.check(raw.sock, packets.publish("t", b"", 1, 1))

    def test_websocket_pings_before_a_connect(self) -> None:
        sock = dial(("127.0.0.1", self.ws), buffer_size=4096)
        upgraded(sock)
        self.check(sock, websocket.frame(websocket.PING, bytes(100)))
