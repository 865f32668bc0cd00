"""Limits of a broker in a process of its own: who is slowed down, and who does not notice."""

import json
import signal
import socket
import statistics
import threading
import time

from tests.helpers import packets
from tests.system.case import BrokerCase
from tests.system.process import Broker, run, twistd, wait_until
from tests.system.raw import Raw

RATE = 50
LIMITED = f"""
[[listeners]]
name = "limited"
port = 0
max_messages_per_s = {RATE}

[sys]
interval_s = 0.5
"""


class Flood:
    """A publisher that sends numbers as fast as the broker takes them."""

    def __init__(
        self, port: int, client_id: str, count: int, qos: int = 0, version: int = 4
    ) -> None:
        self.raw = Raw(("127.0.0.1", port), version)
        self.raw.connect(client_id, keepalive=1)
        self._topic, self._count, self._qos = f"flood/{client_id}", count, qos
        self.sent = 0
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        for first in range(0, self._count, 100):
            data = b"".join(
                packets.publish(
                    self._topic, b"%d" % n, self._qos, n % 60_000 + 1 if self._qos else None
                )
                for n in range(first, min(first + 100, self._count))
            )
            try:
                self.raw.sock.sendall(data)
            except OSError:
                return
            self.sent = first + 100

    def join(self) -> None:
        self._thread.join(30)

    def close(self) -> None:
        self.raw.sock.close()
        self._thread.join(30)


class LimitCase(BrokerCase):
    def client(
        self, broker: Broker, client_id: str, listener: str = "plain", version: int = 4
    ) -> Raw:
        raw = Raw(("127.0.0.1", broker.ports[listener]), version)
        self.addCleanup(raw.sock.close)
        raw.connect(client_id)
        return raw


class RateTests(LimitCase):
    def flood(self, broker: Broker, client_id: str, count: int, listener: str = "limited") -> Flood:
        flood = Flood(broker.ports[listener], client_id, count)
        self.addCleanup(flood.close)
        return flood

    def trips(self, raw: Raw, count: int) -> float:
        """The time of a message of QoS 1 to oneself and back: the median."""
        found = []
        for n in range(count):
            begin = time.monotonic()
            raw.publish("own", b"x", 1, n % 60_000 + 1)
            for _ in range(2):
                packet = raw.receive()
                assert packet is not None
                if packet.type == "PUBLISH":
                    raw.send(packets.puback(packet.pid))
            found.append(time.monotonic() - begin)
        return statistics.median(found)

    def test_the_limit_holds_and_nothing_is_lost_or_reordered(self) -> None:
        """Twice the burst and more, with a keep-alive that is over before."""
        broker = self.start(LIMITED)
        listener = self.client(broker, "listener")
        listener.subscribe("flood/#")
        begin = time.monotonic()
        self.flood(broker, "f", 4 * RATE)
        for n in range(4 * RATE):
            self.assertEqual(listener.receive().payload, b"%d" % n)  # type: ignore[union-attr]
            # However slow this machine is: at most the burst, one more, and what time allows.
            self.assertLessEqual(n + 1, RATE + 1 + RATE * (time.monotonic() - begin) + 1)

    def test_tcp_makes_the_publisher_wait(self) -> None:
        """What it sends stays in its own socket: the broker takes no more than it may handle."""
        broker = self.start(LIMITED)
        before = broker.resident_bytes()
        flood = self.flood(broker, "f", 3_000_000)  # 50 MB
        sent = -1
        while sent != flood.sent:  # until it does not get on
            sent = flood.sent
            time.sleep(0.5)
        self.assertLess(flood.sent, 2_000_000)
        self.assertLess(broker.resident_bytes() - before, 20 << 20)

    def test_a_bystander_does_not_notice(self) -> None:
        """Its messages take as long as without the flood; without a limit it would notice."""
        broker = self.start(LIMITED)
        bystander = self.client(broker, "bystander")
        bystander.subscribe("own", 1)
        listener = self.client(broker, "listener")
        listener.subscribe("flood/#")
        threading.Thread(target=self._drain, args=(listener,), daemon=True).start()
        alone = self.trips(bystander, 300)
        for n in range(5):
            self.flood(broker, f"limited-{n}", 3_000_000)
        beside = self.trips(bystander, 300)
        self.assertLess(beside / alone, 5.0)

    def _drain(self, raw: Raw) -> None:
        try:
            while raw.sock.recv(1 << 20):
                pass
        except OSError:
            pass

    def test_it_is_seen(self) -> None:
        """In $SYS, in the log, and by `mhub ctl clients ID`."""
        broker = self.start(LIMITED + '[control]\npath = "control.sock"\n')
        flood = self.flood(broker, "flooding", 100_000)
        broker.wait_for_log("'flooding' from")
        line = broker.wait_for_log("has reached the limit limits.max_messages_per_s")
        self.assertIn(flood.raw.local, line)
        watcher = self.client(broker, "watcher")
        watcher.send(packets.subscribe(1, ("$SYS/broker/limited/#", 0)))
        found: dict[str, bytes] = {}

        def told() -> bool:
            packet = watcher.receive()
            assert packet is not None
            if packet.type == "PUBLISH":
                found[packet.topic.rpartition("/")[2]] = packet.payload
            return int(found.get("max_messages_per_s", b"0")) > 0 and found.get("now") == b"1"

        wait_until(told, "$SYS tells of it")
        mhub = twistd()[0].replace("twistd", "mhub")
        place = ["--socket", str(broker.directory / "control.sock")]
        shown = run([mhub, "ctl", "clients", "flooding", *place]).stdout
        self.assertIn(f"max_messages_per_s {RATE}", shown)
        self.assertIn("max_messages_per_s reached", shown)
        detail = json.loads(run([mhub, "ctl", "clients", "flooding", "--json", *place]).stdout)
        self.assertEqual(detail["rates"], {"max_messages_per_s": RATE})
        self.assertEqual(detail["waits_for"], ["rate"])
        self.assertGreater(detail["limited"]["max_messages_per_s"], 0)

    def test_disconnect(self) -> None:
        broker = self.start(LIMITED + '[limits]\nover_messages_per_s = "disconnect"\n')
        raw = self.client(broker, "f", "limited", 5)
        raw.send(packets.publish("t", b"x", version=5) * (RATE + 10))
        raw.expect("DISCONNECT", reason=0x96)
        raw.expect_closed()


class ConnectTests(LimitCase):
    def test_connections_beyond_the_rate_of_a_listener_wait(self) -> None:
        broker = self.start('[[listeners]]\nname = "limited"\nport = 0\nmax_connects_per_s = 10\n')
        begin = time.monotonic()
        raws = [Raw(("127.0.0.1", broker.ports["limited"])) for _ in range(25)]
        for n, raw in enumerate(raws):
            self.addCleanup(raw.sock.close)
            raw.connect(f"c{n}")
            self.assertLessEqual(n + 1, 10 + 10 * (time.monotonic() - begin) + 2)

    def test_connections_beyond_the_rate_of_an_address_are_closed(self) -> None:
        broker = self.start(
            '[[listeners]]\nname = "limited"\nport = 0\nmax_address_connects_per_s = 0.01\n'
            "rate_burst_s = 200\n"
        )
        for n in range(3):  # the burst, and one more
            self.client(broker, f"c{n}", "limited")
        fourth = socket.create_connection(("127.0.0.1", broker.ports["limited"]))
        self.addCleanup(fourth.close)
        fourth.settimeout(30)
        self.assertEqual(fourth.recv(1), b"")
        broker.wait_for_log("limits.max_address_connects_per_s")
        self.client(broker, "c4")  # another listener


class OverloadTests(LimitCase):
    def test_a_broker_that_is_late_refuses_new_clients_until_it_has_caught_up(self) -> None:
        broker = self.start("[net]\noverload_drift_s = 0.5\n")
        here = self.client(broker, "here")
        for _ in range(50):  # until two ticks in a row come late
            broker.signal(signal.SIGSTOP)
            time.sleep(0.8)
            broker.signal(signal.SIGCONT)
            time.sleep(0.1)
            if "has too much to do" in broker.log():
                break
        broker.wait_for_log("new clients are refused")
        for version, reason in ((5, 0x89), (4, 3)):
            raw = Raw(("127.0.0.1", broker.port), version)
            self.addCleanup(raw.sock.close)
            raw.send(packets.connect("new", version))
            raw.expect("CONNACK", reason=reason)
        here.ping()
        broker.wait_for_log("the broker has caught up")
        self.client(broker, "new")
