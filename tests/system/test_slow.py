"""Clients that do not read, do not answer, or send a byte at a time: no trouble for others."""

import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable

from tests.helpers import packets, websocket
from tests.helpers.certificates import Authority
from tests.system.case import BrokerCase, HouseCase, place
from tests.system.process import Broker
from tests.system.raw import Raw, closed_within, dial

MIB = 1 << 20

HANGING = """
import sys
from paho.mqtt.client import CallbackAPIVersion, Client

client = Client(CallbackAPIVersion.VERSION2, "hanging")
client.will_set("will/hanging", "gone", 1)
client.on_connect = lambda *_: client.subscribe("t")
client.connect("127.0.0.1", int(sys.argv[1]), keepalive=1)
client.loop_forever()
"""
"""A client that does nothing but live, until it is stopped."""

SECURE_AND_WEB = """
[[listeners]]
name = "secure"
transport = "tls"
port = 0
tls.certificate = "server.crt"
tls.key = "server.key"

[[listeners]]
name = "web"
transport = "ws"
port = 0

"""


def upgraded(sock: socket.socket) -> websocket.WebSocket:
    """The WebSocket on a connection that was just made."""
    sock.sendall(websocket.request())
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert head.startswith(b"HTTP/1.1 101 "), head
    return websocket.WebSocket(sock)


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


class HalfOpenTests(BrokerCase):
    def heir(self, broker: Broker) -> Raw:
        raw = Raw(("127.0.0.1", broker.port))
        self.addCleanup(raw.sock.close)
        raw.connect("heir")
        raw.subscribe("traffic", 1)
        raw.subscribe("will/#", 1)
        return raw

    def test_a_silent_client_is_given_up_after_its_keep_alive(self) -> None:
        broker = self.start()
        heir = self.heir(broker)
        silent = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(silent.sock.close)
        silent.connect("silent", keepalive=1, will=("will/silent", "gone", 1))
        heir.expect("PUBLISH", topic="will/silent", payload=b"gone")
        silent.expect("DISCONNECT", reason=0x8D)  # Keep Alive timeout
        silent.expect_closed()

    def test_a_stopped_process_is_given_up_and_others_go_on(self) -> None:
        """A real client that hangs; what it does not read waits for it, within bounds."""
        broker = self.start('[log]\nlevel = "debug"\n')
        heir = self.heir(broker)
        hanging = subprocess.Popen([sys.executable, "-c", HANGING, str(broker.port)])
        self.addCleanup(hanging.wait)
        self.addCleanup(hanging.kill)
        broker.wait_for_log("'hanging' connected")
        hanging.send_signal(signal.SIGSTOP)
        sender = Raw(("127.0.0.1", broker.port))
        self.addCleanup(sender.sock.close)
        sender.connect("sender")
        for number in range(500):
            sender.publish("t", bytes(10_000))
            sender.publish("traffic", b"%d" % number)
            heir.expect("PUBLISH", topic="traffic", payload=b"%d" % number)
        heir.expect("PUBLISH", topic="will/hanging", payload=b"gone")


class ByteByByteTests(HouseCase):
    def check(self, raw: Raw, send: Callable[[bytes], None]) -> None:
        """A whole conversation, each byte in a segment, record or frame of its own."""
        for data, answer in (
            (packets.connect(self.name()), "CONNACK"),
            (packets.subscribe(1, (self.topic, 2)), "SUBACK"),
            (packets.publish(self.topic, b"slow", 2, 9), "PUBREC"),
            (packets.pubrel(9), "PUBCOMP"),
        ):
            for byte in data:
                send(bytes([byte]))
            packet = raw.receive()
            if packet.type == "PUBLISH":
                packet = raw.receive()  # the message itself may come before the answer
            self.assertEqual(answer, packet.type)

    def test_plain(self) -> None:
        raw = Raw(("127.0.0.1", self.house.tcp))
        self.addCleanup(raw.sock.close)
        self.check(raw, raw.send)

    def test_tls(self) -> None:
        raw = Raw(("localhost", self.house.tls), 4, self.house.trust(), "localhost")
        self.addCleanup(raw.sock.close)
        self.check(raw, raw.send)

    def test_websocket_frames_of_one_byte_sent_byte_by_byte(self) -> None:
        raw = Raw(("127.0.0.1", self.house.ws))
        self.addCleanup(raw.sock.close)
        bare = raw.sock
        raw.sock = upgraded(bare)

        def send(data: bytes) -> None:
            for byte in websocket.frame(websocket.BINARY, data):
                bare.sendall(bytes([byte]))

        self.check(raw, send)

    def test_others_are_served_meanwhile(self) -> None:
        slow = Raw(("127.0.0.1", self.house.tcp))
        self.addCleanup(slow.sock.close)
        slow.connect(self.name())
        quick = Raw(("127.0.0.1", self.house.tcp))
        self.addCleanup(quick.sock.close)
        quick.connect(self.name())
        quick.subscribe(self.topic)
        for number, byte in enumerate(packets.publish(self.topic + "/slow", bytes(50))):
            slow.send(bytes([byte]))
            quick.publish(self.topic, b"%d" % number)
            quick.expect("PUBLISH", payload=b"%d" % number)


class SlowConnectTests(BrokerCase):
    def test_a_connect_that_drips_in_is_cut_off_in_time(self) -> None:
        """Progress does not prolong the time: a byte now and then must not hold a socket."""
        broker = self.start("[limits]\nconnect_timeout_s = 1\n")
        sock = dial(("127.0.0.1", broker.port))
        self.addCleanup(sock.close)
        sock.setblocking(False)
        data = packets.connect("c" * 1000)
        for byte in data:
            try:
                sock.send(bytes([byte]))
                if sock.recv(100) == b"":
                    break
            except BlockingIOError:
                pass
            except ConnectionError:
                break
            time.sleep(0.05)
        else:
            self.fail("the whole CONNECT was taken")
        broker.wait_for_log("no CONNECT within 1 s")


class IdleHandshakeTests(BrokerCase):
    EACH = 250

    def test_a_thousand_half_done_handshakes_time_out(self) -> None:
        directory = place(self)
        authority = Authority("Test Authority")
        authority.issue("localhost", directory / "server.crt", directory / "server.key")
        broker = self.start(
            SECURE_AND_WEB + "[limits]\nconnect_timeout_s = 3\n",
            directory=directory,
        )
        live = Raw(("127.0.0.1", broker.port))
        live.connect("live")
        live.subscribe("t")
        beginnings = (
            (broker.port, b""),
            (broker.port, packets.connect("half")[:9]),
            (broker.ports["secure"], bytes.fromhex("16030100c8010000c40303")),
            (broker.ports["web"], websocket.request()[:60]),
        )
        socks = []
        for _ in range(self.EACH):
            for port, data in beginnings:
                sock = dial(("127.0.0.1", port))
                self.addCleanup(sock.close)
                sock.sendall(data)
                socks.append(sock)
        live.publish("t", b"during")
        live.expect("PUBLISH", payload=b"during")
        for sock in socks:
            closed_within(sock, 30)
        live.publish("t", b"after")
        live.expect("PUBLISH", payload=b"after")
        live.close()
        self.assertEqual(0, broker.stop())
