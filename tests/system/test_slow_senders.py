"""Clients that hang, send a byte at a time, or begin and never end: given up in time."""

import select
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

from tests.helpers import packets, websocket
from tests.helpers.certificates import Authority
from tests.system.case import SECURE_AND_WEB, BrokerCase, HouseCase, place
from tests.system.process import Broker, wait_until
from tests.system.raw import Raw, closed_within, dial, upgraded

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


class UnfinishedTests(BrokerCase):
    """Large packets that never end, over each transport: the memory for all of them is bounded."""

    PACKET = packets.publish("t", bytes(1_000_000), version=5)

    def test_those_without_progress_make_room(self) -> None:
        directory = place(self)
        authority = Authority("Test Authority")
        authority.write(directory / "ca.crt")
        authority.issue("localhost", directory / "server.crt", directory / "server.key")
        broker = self.start(
            SECURE_AND_WEB + '[limits]\nmax_partial_bytes = "4 MiB"\n', directory=directory
        )
        trust = ssl.create_default_context(cafile=str(directory / "ca.crt"))
        socks: list[socket.socket] = []
        for number in range(12):
            frames: Callable[[bytes], bytes] = bytes
            if number % 3 == 0:
                sock = dial(("127.0.0.1", broker.port))
            elif number % 3 == 1:
                bare = dial(("127.0.0.1", broker.ports["secure"]))
                sock = trust.wrap_socket(bare, server_hostname="localhost")
            else:
                sock = dial(("127.0.0.1", broker.ports["web"]))
                upgraded(sock)
                frames = partial(websocket.frame, websocket.BINARY)
            self.addCleanup(sock.close)
            sock.sendall(frames(packets.connect(f"c{number}", 5)))
            sock.recv(1000)
            sock.sendall(frames(self.PACKET[:-1]))
            socks.append(sock)
        # Four of them fit: the others hear of it, in whichever order they were read.
        wait_until(lambda: len(select.select(socks, [], [], 0)[0]) >= 8, "eight are closed")
        heard = select.select(socks, [], [], 0)[0]
        self.assertEqual(len(heard), 8)
        for sock in heard:
            self.assertIn(b"\x97", sock.recv(1000))  # DISCONNECT, Quota exceeded
