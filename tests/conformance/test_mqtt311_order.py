"""MQTT 3.1.1, section 4.6, and the in-flight window: what comes first stays first."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet


def payloads(got: list[Packet]) -> list[bytes]:
    return [packet.payload for packet in got if packet.type == "PUBLISH"]


def numbers(start: int, end: int) -> list[bytes]:
    return [str(number).encode() for number in range(start, end)]


class Order(ProtocolCase):
    @statement("3.1.1", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
    def test_messages_keep_the_order_of_their_publisher(self) -> None:
        """For each QoS, whatever the subscriber was granted."""
        publisher = self.connect("pub")
        for granted in (0, 1, 2):
            subscriber = self.subscriber("t", qos=granted)
            for qos in (0, 1, 2):
                for number in range(60):
                    publisher.publish("t", str(number), qos=qos)
                got = [subscriber.expect("PUBLISH") for _ in range(60)]
                self.assertEqual(numbers(0, 60), payloads(got))
                for packet in got:
                    subscriber.acknowledge(packet)
            subscriber.close()

    @statement("3.1.1", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
    def test_order_holds_in_one_burst(self) -> None:
        """Many publishes in one read, more than the window."""
        subscriber = self.subscriber("t", qos=1)
        publisher = self.connect("pub")
        publisher.send(b"".join(p.publish("t", str(n), qos=1, pid=n + 1) for n in range(1000)))
        self.assertEqual(list(range(1, 1001)), [packet.pid for packet in publisher.drain()])
        got = []
        for _ in range(1000):
            packet = subscriber.expect("PUBLISH")
            got.append(packet)
            subscriber.acknowledge(packet)
        self.assertEqual(numbers(0, 1000), payloads(got))

    @statement("3.1.1", "MQTT-4.6.0-6")
    def test_order_holds_between_topics_of_one_filter(self) -> None:
        """mhub keeps the order of a publisher across topics, too."""
        subscriber = self.subscriber("t/#", qos=1)
        publisher = self.connect("pub")
        for number in range(50):
            publisher.publish(f"t/{number % 7}", str(number), qos=1)
        self.assertEqual(numbers(0, 50), payloads(subscriber.drain()))

    @statement("3.1.1", "MQTT-4.6.0-6", "MQTT-3.1.2-5")
    def test_order_holds_across_offline_and_online(self) -> None:
        """Resent ones first, then the queued ones, then the live ones."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        publisher = self.connect("pub")
        for number in range(5):
            publisher.publish("t", str(number), qos=1)
        self.assertEqual(numbers(0, 5), payloads(client.drain()))
        client.abort()
        for number in range(5, 10):
            publisher.publish("t", str(number), qos=1)
        client = self.connect("c", clean=False)
        publisher.publish("t", b"10", qos=1)
        got = client.drain()
        self.assertEqual(numbers(0, 11), payloads(got))
        self.assertEqual([True] * 5 + [False] * 6, [packet.dup for packet in got])

    @statement("3.1.1", "MQTT-4.6.0-1", "MQTT-4.6.0-6", "MQTT-4.4.0-1")
    def test_resent_publishes_keep_their_order(self) -> None:
        """QoS 1 and 2 mixed, some acknowledged in between, ids not in order of time."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        publisher = self.connect("pub")
        for number in range(10):
            publisher.publish("t", str(number), qos=1 + number % 2)
        got = client.drain()
        for number in (0, 1, 4, 7):
            client.acknowledge(got[number])
        for number in range(10, 14):
            publisher.publish("t", str(number), qos=1 + number % 2)
        got = [packet for number, packet in enumerate(got) if number not in (0, 1, 4, 7)]
        got += client.drain()
        client.abort()
        client = self.connect("c", clean=False)
        again = client.drain()
        self.assertEqual(payloads(got), payloads(again))
        self.assertEqual([packet.pid for packet in got], [packet.pid for packet in again])

    @statement("3.1.1", "MQTT-4.6.0-4", "MQTT-4.6.0-6")
    def test_pubrels_follow_the_order_of_the_pubrecs(self) -> None:
        """Not the order of the PUBLISHes."""
        client = self.subscriber("t", qos=2)
        publisher = self.connect("pub")
        for number in range(5):
            publisher.publish("t", str(number), qos=2)
        pids = [packet.pid or 0 for packet in client.drain()]
        order = [pids[number] for number in (3, 0, 4, 2, 1)]
        client.send(b"".join(map(p.pubrec, order)))
        got = client.drain()
        self.assertEqual([("PUBREL", pid) for pid in order], [(x.type, x.pid) for x in got])

    @statement("3.1.1", "MQTT-4.6.0-4", "MQTT-4.6.0-6", "MQTT-4.4.0-1")
    def test_resent_pubrels_keep_the_order_of_the_pubrecs(self) -> None:
        """Also after a reconnect."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        publisher = self.connect("pub")
        for number in range(5):
            publisher.publish("t", str(number), qos=2)
        pids = [packet.pid or 0 for packet in client.drain()]
        order = [pids[number] for number in (3, 0, 4, 2, 1)]
        client.send(b"".join(map(p.pubrec, order)))
        client.drain()
        client.abort()
        client = self.connect("c", clean=False)
        got = client.drain()
        self.assertEqual([("PUBREL", pid) for pid in order], [(x.type, x.pid) for x in got])


class Window(ProtocolCase):
    def fill(self, qos: int, count: int) -> RawClient:
        """A subscriber that has not acknowledged anything of `count` messages."""
        client = self.connect("sub", clean=False)
        client.subscribe("t", 2)
        publisher = self.connect("pub")
        for number in range(count):
            publisher.publish("t", str(number), qos=qos)
        return client

    @statement("3.1.1", "MQTT-4.6.0-6")
    def test_window_of_one_keeps_strict_order(self) -> None:
        """With one message in flight the order holds even through resending."""
        self.start(max_inflight=1)
        client = self.fill(1, 3)
        for number in range(3):
            client.expect("PUBLISH", payload=str(number).encode(), dup=False)
            client.expect_nothing()
            client.abort()
            client = self.connect("sub", clean=False)
            packet = client.expect("PUBLISH", payload=str(number).encode(), dup=True)
            client.expect_nothing()
            client.acknowledge(packet)
        client.expect_nothing()

    def test_qos_1_window_moves_with_each_puback(self) -> None:
        """No more than the window is unacknowledged; the next one follows an acknowledgement."""
        self.start(max_inflight=3)
        client = self.fill(1, 8)
        got = [client.expect("PUBLISH", payload=payload) for payload in numbers(0, 3)]
        for number in range(3, 8):
            client.expect_nothing()
            client.acknowledge(got.pop(0))
            got.append(client.expect("PUBLISH", payload=str(number).encode()))
        client.expect_nothing()

    def test_acknowledgements_out_of_order_move_the_window_too(self) -> None:
        """Any of the messages in flight makes room for one more."""
        self.start(max_inflight=3)
        client = self.fill(1, 5)
        got = [client.expect("PUBLISH") for _ in range(3)]
        client.acknowledge(got[2])
        client.expect("PUBLISH", payload=b"3")
        client.acknowledge(got[1])
        client.expect("PUBLISH", payload=b"4")
        client.expect_nothing()

    def test_qos_2_holds_its_place_until_pubcomp(self) -> None:
        """PUBREC alone makes no room."""
        self.start(max_inflight=2)
        client = self.fill(2, 3)
        one, two = client.expect("PUBLISH", payload=b"0"), client.expect("PUBLISH", payload=b"1")
        client.send(p.pubrec(one.pid or 0))
        client.expect("PUBREL", pid=one.pid)
        client.expect_nothing()
        client.send(p.pubcomp(one.pid or 0))
        client.expect("PUBLISH", payload=b"2")
        client.acknowledge(two)

    def test_qos_0_passes_a_full_window(self) -> None:
        """It needs no acknowledgement, so it waits for none."""
        self.start(max_inflight=1)
        client = self.fill(1, 2)
        client.expect("PUBLISH", payload=b"0")
        client.publish("t", b"now", qos=0)
        client.expect("PUBLISH", payload=b"now", qos=0)
        client.expect_nothing()

    def test_window_is_full_again_after_a_reconnect(self) -> None:
        """Resent messages count; the queue follows behind them."""
        self.start(max_inflight=2)
        client = self.fill(1, 4)
        self.assertEqual(numbers(0, 2), payloads(client.drain()))
        client.abort()
        client = self.connect("sub", clean=False)
        got = client.drain()
        self.assertEqual(numbers(0, 2), payloads(got))
        client.acknowledge(got[0])
        client.acknowledge(got[1])
        self.assertEqual(numbers(2, 4), payloads(client.drain()))

    def test_slow_acknowledger_does_not_hold_up_others(self) -> None:
        """The window is each session's own."""
        self.start(max_inflight=1)
        self.fill(1, 1).expect("PUBLISH")
        other = self.subscriber("t", qos=1, client_id="other")
        publisher = self.connect("pub2")
        for number in range(5):
            publisher.publish("t", str(number), qos=1)
            other.acknowledge(other.expect("PUBLISH", payload=str(number).encode()))
