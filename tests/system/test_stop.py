"""The end: clients are told, what was written leaves, and the exit status is 0, in bounded time."""

import signal
import time

from tests.helpers import packets
from tests.system.case import BrokerCase
from tests.system.paho import V5, V311, Paho
from tests.system.process import Broker
from tests.system.raw import Raw, dial

SHUTTING_DOWN = 0x8B


class GracefulTests(BrokerCase):
    def check(self, number: signal.Signals) -> None:
        broker = self.start('[[listeners]]\nname = "web"\ntransport = "ws"\nport = 0\n')
        web = broker.ports["web"]
        five = Raw(("127.0.0.1", broker.port), 5)
        five.connect("five")
        three = Raw(("127.0.0.1", broker.port), 4)
        three.connect("three")
        library = Paho(self, ("127.0.0.1", broker.port), "library", V5)
        page = Paho(self, ("127.0.0.1", web), "page", V5, "websockets")
        old = Paho(self, ("127.0.0.1", web), "old page", V311, "websockets")
        idle = dial(("127.0.0.1", broker.port))  # never says anything
        self.addCleanup(idle.close)

        broker.signal(number)
        five.expect("DISCONNECT", reason=SHUTTING_DOWN)
        five.expect_closed()
        three.expect_closed()
        self.assertEqual("Server shutting down", library.wait_gone())
        self.assertEqual("Server shutting down", page.wait_gone())
        old.wait_gone()
        five.sock.close()
        three.sock.close()
        self.assertEqual(0, broker.wait())
        self.assertIn(f"stopping: {number.name}", broker.log())

    def test_sigterm(self) -> None:
        self.check(signal.SIGTERM)

    def test_sigint(self) -> None:
        self.check(signal.SIGINT)

    def test_without_any_client_it_is_over_at_once(self) -> None:
        """The bound on waiting is for those who have something to wait for."""
        broker = self.start("[net]\nshutdown_timeout_s = 3600\n")
        self.assertEqual(0, broker.stop())

    def test_a_connection_without_a_connect_is_not_waited_for(self) -> None:
        broker = self.start("[net]\nshutdown_timeout_s = 3600\n")
        idle = dial(("127.0.0.1", broker.port))
        self.addCleanup(idle.close)
        half = dial(("127.0.0.1", broker.port))
        half.sendall(packets.connect("half")[:7])
        self.addCleanup(half.close)
        after = Raw(("127.0.0.1", broker.port))  # accepted after them
        after.connect("after")
        after.close()
        self.assertEqual(0, broker.stop())

    def test_sighup_is_no_reason_to_stop(self) -> None:
        """There may be no certificate to read again."""
        broker = self.start()
        raw = Raw(("127.0.0.1", broker.port))
        self.addCleanup(raw.sock.close)
        raw.connect("c")
        broker.signal(signal.SIGHUP)
        raw.ping()
        raw.ping()
        self.assertEqual(0, broker.stop())

    def test_what_was_written_leaves_whole(self) -> None:
        """A client that reads late gets whole packets, and DISCONNECT as the last one."""
        broker = self.start("[net]\nshutdown_timeout_s = 30\n")
        late = Raw(("127.0.0.1", broker.port), 5)
        late.connect("late")
        late.subscribe("t", 0)
        self.fill(broker, 400)
        broker.signal(signal.SIGTERM)
        broker.wait_for_log("stopping")
        count = 0
        packet = late.receive()
        while packet is not None and packet.type == "PUBLISH":
            self.assertEqual(bytes(10_000), packet.payload)
            count += 1
            packet = late.receive()
        self.assertGreater(count, 0)
        assert packet is not None
        self.assertEqual(("DISCONNECT", SHUTTING_DOWN), (packet.type, packet.reason))
        late.expect_closed()
        late.sock.close()
        self.assertEqual(0, broker.wait())

    def fill(self, broker: Broker, count: int) -> None:
        """Publish more than the sockets of a subscriber to `t` hold."""
        sender = Raw(("127.0.0.1", broker.port))
        sender.connect("sender")
        for _ in range(count):
            sender.publish("t", bytes(10_000))
        sender.ping()
        sender.close()


class BoundTests(BrokerCase):
    def stuck(self, broker: Broker) -> Raw:
        """A client that has been sent more than it reads, and does not read."""
        raw = Raw(("127.0.0.1", broker.port), 5)
        self.addCleanup(raw.sock.close)
        raw.connect("stuck")
        raw.subscribe("t", 0)
        sender = Raw(("127.0.0.1", broker.port))
        sender.connect("sender")
        for _ in range(1000):
            sender.publish("t", bytes(10_000))
        sender.ping()
        sender.close()
        return raw

    def test_a_client_that_does_not_read_is_waited_for_no_longer(self) -> None:
        broker = self.start("[net]\nshutdown_timeout_s = 0.5\n")
        self.stuck(broker)
        began = time.monotonic()
        self.assertEqual(0, broker.stop())
        # Half a second is the bound; the rest is for a busy machine.
        self.assertLess(time.monotonic() - began, 15)

    def test_a_second_signal_ends_it_at_once(self) -> None:
        broker = self.start("[net]\nshutdown_timeout_s = 3600\n")
        self.stuck(broker)
        broker.signal(signal.SIGTERM)
        broker.wait_for_log("stopping: SIGTERM")
        broker.signal(signal.SIGTERM)
        self.assertEqual(-signal.SIGTERM, broker.wait())
