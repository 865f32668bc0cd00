"""Order and completeness where the broker works in portions: bursts, slow readers, resending.

The bounds of one turn are set so low here that every way of going on later is taken.
"""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet

NARROW = {"work_per_turn": 3, "portion": 2}


def payloads(got: list[Packet]) -> list[bytes]:
    return [packet.payload for packet in got if packet.type == "PUBLISH"]


def numbers(start: int, end: int) -> list[bytes]:
    return [str(number).encode() for number in range(start, end)]


class Portions(ProtocolCase):
    @statement("3.1.1", "MQTT-4.6.0-5", "MQTT-4.6.0-6")
    def test_burst_arrives_whole_and_in_order(self) -> None:
        """One read with more work than a turn may do, for several subscribers."""
        self.start(**NARROW)
        clients = [self.subscriber("t", qos=qos, client_id=f"c{qos}") for qos in (0, 1, 2)]
        publisher = self.connect("pub")
        for qos in (0, 1):
            publisher.send(
                b"".join(p.publish("t", str(n), qos, n + 1 if qos else None) for n in range(60))
            )
            self.assertEqual(60 * qos, len(publisher.drain()))
            for client in clients:
                got = client.drain()
                self.assertEqual(numbers(0, 60), payloads(got))
                for packet in got:
                    client.acknowledge(packet)

    def test_burst_of_a_publisher_that_leaves_at_once(self) -> None:
        """What was sent before DISCONNECT is handled, even if the socket is closed already."""
        self.start(**NARROW)
        client = self.subscriber("t")
        publisher = self.connect("pub", will=("t", b"will"))
        data = b"".join(p.publish("t", str(n)) for n in range(100)) + p.disconnect()
        publisher.sock.send(data)
        publisher.abort()
        self.assertEqual(numbers(0, 100), payloads(client.drain()))

    @statement("3.1.1", "MQTT-3.1.2-8")
    def test_will_follows_what_its_client_published(self) -> None:
        """The burst first, then the will."""
        self.start(**NARROW)
        client = self.subscriber("t")
        publisher = self.connect("pub", will=("t", b"will"))
        publisher.sock.send(b"".join(p.publish("t", str(n)) for n in range(100)))
        publisher.abort()
        self.assertEqual([*numbers(0, 100), b"will"], payloads(client.drain()))

    def test_answers_of_a_burst_come_in_order(self) -> None:
        """Requests of all kinds in one read are answered one by one."""
        self.start(**NARROW)
        client = self.connect()
        client.send(
            p.subscribe(1, ("t", 0)),
            *(p.publish("t", b"", 1, 100 + n) for n in range(20)),
            p.pingreq(),
            p.unsubscribe(2, "t"),
            p.pingreq(),
        )
        got = [packet for packet in client.drain() if packet.type != "PUBLISH"]
        self.assertEqual(
            ["SUBACK", *["PUBACK"] * 20, "PINGRESP", "UNSUBACK", "PINGRESP"],
            [packet.type for packet in got],
        )
        self.assertEqual(list(range(100, 120)), [x.pid for x in got if x.type == "PUBACK"])

    @statement("3.1.1", "MQTT-3.3.1-6")
    def test_live_message_follows_the_retained_ones(self) -> None:
        """A subscriber is not told the news before the olds."""
        self.start(**NARROW)
        publisher = self.connect("pub")
        for number in range(30):
            publisher.publish(f"t/{number}", b"old", retain=True)
        client = self.connect()
        # Both arrive in one turn, in which only a portion of the retained messages leaves.
        client.sock.send(p.subscribe(1, ("t/#", 0)))
        publisher.sock.send(p.publish("t/29", b"new", retain=True))
        got = client.drain()
        self.assertEqual(b"new", got[-1].payload)
        self.assertFalse(got[-1].retain)
        self.assertEqual(31, len(payloads(got)))

    @statement("3.1.1", "MQTT-4.6.0-1", "MQTT-4.6.0-6", "MQTT-4.4.0-1")
    def test_live_message_follows_the_resent_ones(self) -> None:
        """A message that comes while the broker resends has to wait its turn."""
        self.start(**NARROW)
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        publisher = self.connect("pub")
        for number in range(20):
            publisher.publish("t", str(number), qos=1)
        self.assertEqual(numbers(0, 20), payloads(client.drain()))
        client.abort()
        client = self.open()
        # Both arrive in one turn, in which only a portion is resent.
        client.sock.send(p.connect("c", clean=False))
        publisher.sock.send(p.publish("t", b"20", qos=1, pid=500))
        got = client.drain()
        self.assertEqual(numbers(0, 21), payloads(got))

    @statement("3.1.1", "MQTT-4.4.0-1")
    def test_connection_lost_while_resending(self) -> None:
        """The next one resends everything that is still unacknowledged, in the old order."""
        self.start(**NARROW)
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        publisher = self.connect("pub")
        for number in range(20):
            publisher.publish("t", str(number), qos=1 + number % 2)
        client.drain()
        client.abort()
        client = self.open()
        client.sock.send(p.connect("c", clean=False))
        self.pump()
        client.abort()
        client = self.connect("c", clean=False)
        got = client.drain()
        self.assertEqual(numbers(0, 20), payloads(got))
        self.assertTrue(all(packet.dup for packet in got))

    def test_qos_2_publishes_without_end(self) -> None:
        """3.1.1 has no Receive Maximum: a client may have thousands of QoS 2 publishes open."""
        client = self.connect()
        client.send(b"".join(p.publish("t", b"", qos=2, pid=pid) for pid in range(1, 3001)))
        self.assertEqual(3000, len(client.drain()))
        client.send(b"".join(map(p.pubrel, range(1, 3001))))
        self.assertEqual(["PUBCOMP"] * 3000, [packet.type for packet in client.drain()])


class SlowReaders(ProtocolCase):
    """Clients here do not read until the test looks at them: the socket between them fills."""

    payload = b"x" * 100_000

    def flood(self, publisher: RawClient, count: int, qos: int = 0) -> None:
        for number in range(count):
            publisher.publish("t", b"%d " % number + self.payload, qos=qos)

    def first_words(self, got: list[Packet]) -> list[int]:
        return [int(packet.payload.split()[0]) for packet in got]

    def test_nothing_is_lost_within_the_bounds(self) -> None:
        """What a slow subscriber has not read waits for it, in order, QoS 0 as well."""
        slow = self.subscriber("t", client_id="slow", qos=1)
        publisher = self.connect("pub")
        for qos in (0, 1):
            self.flood(publisher, 90, qos)
            got = slow.drain()
            self.assertEqual(list(range(90)), self.first_words(got))

    def test_slow_reader_does_not_hold_up_others(self) -> None:
        """The fast one gets each message while the slow one sleeps."""
        slow = self.subscriber("t", client_id="slow")
        fast = self.subscriber("t", client_id="fast")
        publisher = self.connect("pub")
        for number in range(150):
            publisher.publish("t", b"%d " % number + self.payload)
            fast.expect("PUBLISH", payload=b"%d " % number + self.payload)
        self.assertEqual(list(range(150)), self.first_words(slow.drain()))

    def test_queue_of_a_slow_reader_is_bounded(self) -> None:
        """Beyond the bound messages are dropped whole; the connection and its order stay."""
        self.start(max_queued_messages=5)
        slow = self.subscriber("t", client_id="slow")
        publisher = self.connect("pub")
        self.flood(publisher, 300)
        got = self.first_words(slow.drain())
        self.assertLess(len(got), 300)
        self.assertEqual(list(range(len(got))), got)
        publisher.publish("t", b"1000 ")
        slow.expect("PUBLISH", payload=b"1000 ")

    def test_slow_reader_may_be_disconnected(self) -> None:
        """The policy `disconnect`: its connection ends, everybody else gets everything."""
        self.start(max_queued_messages=5, queue_full="disconnect", max_inflight=2)
        before = self.subscriber("t", client_id="before", qos=0)
        slow = self.subscriber("t", client_id="slow", qos=1)
        after = self.subscriber("t", "w", client_id="after", qos=0)
        publisher = self.connect("pub")
        for number in range(20):
            publisher.publish("t", str(number), qos=1)
        self.assertEqual(numbers(0, 20), payloads(before.drain()))
        self.assertEqual(numbers(0, 20), payloads(after.drain()))
        self.assertEqual(numbers(0, 2), payloads(slow.drain()))
        self.assertTrue(slow.closed)

    def test_client_that_does_not_read_its_answers(self) -> None:
        """The broker stops reading from it; when it reads again nothing is missing."""
        client = self.connect()
        other = self.subscriber("t", client_id="other")
        count = 400_000
        client.send(p.pingreq() * count)
        other.publish("t", b"x")
        other.expect("PUBLISH", payload=b"x")
        self.assertEqual(count, len(client.drain()))

    def test_slow_reader_that_vanishes(self) -> None:
        """Its session keeps what it had not acknowledged."""
        self.start(max_inflight=50)
        slow = self.connect("slow", clean=False)
        slow.subscribe("t", 1)
        publisher = self.connect("pub")
        self.flood(publisher, 80, qos=1)
        slow.abort(reset=True)
        slow = self.connect("slow", clean=False)
        got = []
        for _ in range(80):
            packet = slow.expect("PUBLISH")
            got.append(packet)
            slow.acknowledge(packet)
        self.assertEqual(list(range(80)), self.first_words(got))
        slow.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-8")
    def test_will_of_a_slow_reader(self) -> None:
        """Output that nobody reads does not keep the end of a connection from being noticed."""
        watcher = self.subscriber("w", client_id="watcher")
        slow = self.connect("slow", will=("w", b"gone"))
        slow.subscribe("t")
        publisher = self.connect("pub")
        self.flood(publisher, 100)
        slow.abort()
        watcher.expect("PUBLISH", payload=b"gone")
