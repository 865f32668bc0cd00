"""MQTT 3.1.1, section 3.3.1.3: retained messages."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient


class RetainedCase(ProtocolCase):
    def retained(self, text: str, qos: int = 2) -> list[tuple[str | None, bytes, int]]:
        """What a new subscriber to this filter gets; all of it has to be marked retained."""
        client = self.connect("new subscriber")
        client.subscribe(text, qos, granted=qos)
        got = client.drain()
        self.assertTrue(all(packet.retain and not packet.dup for packet in got), got)
        client.close()
        return sorted((packet.topic, packet.payload, packet.qos) for packet in got)


class Keeping(RetainedCase):
    @statement("3.1.1", "MQTT-3.3.1-5", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
    def test_message_is_kept_with_its_qos(self) -> None:
        """A later subscriber gets message and QoS, marked RETAIN."""
        client = self.connect()
        for qos in (0, 1, 2):
            client.publish(f"t/{qos}", str(qos), qos=qos, retain=True)
        for qos in (0, 1, 2):
            self.assertEqual([(f"t/{qos}", str(qos).encode(), qos)], self.retained(f"t/{qos}"))

    @statement("3.1.1", "MQTT-3.3.1-5", "MQTT-3.8.4-6")
    def test_granted_qos_limits_the_retained_message(self) -> None:
        """Retained messages obey the same minimum as live ones."""
        self.connect().publish("t", b"x", qos=2, retain=True)
        for qos in (0, 1, 2):
            self.assertEqual([("t", b"x", qos)], self.retained("t", qos))

    @statement("3.1.1", "MQTT-3.3.1-6")
    def test_only_the_latest_is_kept(self) -> None:
        """One retained message for each topic."""
        client = self.connect()
        for number in range(5):
            client.publish("t", str(number), qos=number % 3, retain=True)
        self.assertEqual([("t", b"4", 1)], self.retained("t"))

    @statement("3.1.1", "MQTT-3.3.1-7")
    def test_qos_0_replaces_the_earlier_one(self) -> None:
        """The earlier message is discarded, and mhub keeps the new one."""
        client = self.connect()
        client.publish("t", b"old", qos=2, retain=True)
        client.publish("t", b"new", qos=0, retain=True)
        self.assertEqual([("t", b"new", 0)], self.retained("t"))

    @statement("3.1.1", "MQTT-3.3.1-6")
    def test_every_matching_topic_sends_its_message(self) -> None:
        """A filter with wildcards brings all of them, and no other."""
        client = self.connect()
        for topic in ("a", "a/b", "a/c", "a/b/c", "b", "/a", "a/", "$a/b"):
            client.publish(topic, topic, retain=True)
        expected = {
            "a": ["a"],
            "a/#": ["a", "a/", "a/b", "a/b/c", "a/c"],
            "a/+": ["a/", "a/b", "a/c"],
            "+": ["a", "b"],
            "+/+": ["/a", "a/", "a/b", "a/c"],
            "+/b/#": ["a/b", "a/b/c"],
            "/#": ["/a"],
            "$a/#": ["$a/b"],
            "#": ["/a", "a", "a/", "a/b", "a/b/c", "a/c", "b"],
            "x/#": [],
        }
        for text, topics in expected.items():
            with self.about(text):
                self.assertEqual(topics, [topic for topic, _, _ in self.retained(text)])

    def test_kept_through_reconnects_and_for_all_clients(self) -> None:
        """A retained message is not used up by delivery."""
        self.connect("pub").publish("t", b"x", retain=True)
        for _ in range(3):
            self.assertEqual([("t", b"x", 0)], self.retained("t"))

    def test_publisher_with_a_matching_subscription_gets_it_once(self) -> None:
        """Live, when published; retained, when it subscribes anew."""
        client = self.subscriber("t")
        client.publish("t", b"x", retain=True)
        client.expect("PUBLISH", payload=b"x", retain=False)
        client.expect_nothing()

    def test_retained_messages_in_bulk(self) -> None:
        """Thousands of them reach a subscriber, within its window, each once."""
        client = self.connect()
        client.send(b"".join(p.publish(f"t/{n}", str(n), 1, n, True) for n in range(1, 2001)))
        self.assertEqual(2000, len(client.drain()))
        subscriber = self.subscriber("t/#", qos=1)
        topics = []
        for _ in range(2000):
            packet = subscriber.expect("PUBLISH", retain=True, qos=1)
            topics.append(packet.topic)
            subscriber.send(p.puback(packet.pid or 0))
        self.assertEqual(2000, len(set(topics)))
        subscriber.expect_nothing()


class Live(RetainedCase):
    @statement("3.1.1", "MQTT-3.3.1-9")
    def test_existing_subscription_gets_retain_0(self) -> None:
        """A live delivery is not marked, whatever the publisher set."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect()
        for qos in (0, 1, 2):
            client.publish("t", b"x", qos=qos, retain=True)
            subscriber.acknowledge(subscriber.expect("PUBLISH", qos=qos, retain=False))

    @statement("3.1.1", "MQTT-3.3.1-9", "MQTT-3.1.2-5")
    def test_message_queued_for_an_offline_session_has_retain_0(self) -> None:
        """The subscription was there when the message came."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.close()
        self.connect("pub").publish("t", b"x", qos=1, retain=True)
        client = self.connect("c", clean=False)
        client.expect("PUBLISH", payload=b"x", retain=False)
        client.expect_nothing()

    def test_resumed_session_does_not_get_retained_messages_again(self) -> None:
        """Retained messages answer SUBSCRIBE, not CONNECT."""
        self.connect("pub").publish("t", b"x", retain=True)
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.expect("PUBLISH", retain=True)
        client.close()
        self.connect("c", clean=False).expect_nothing()

    @statement("3.1.1", "MQTT-3.3.1-12")
    def test_retain_0_leaves_the_retained_message(self) -> None:
        """A message without RETAIN is not kept and replaces nothing."""
        client = self.connect()
        client.publish("t", b"plain", qos=1)
        self.assertEqual([], self.retained("t"))
        client.publish("t", b"kept", qos=1, retain=True)
        client.publish("t", b"plain", qos=1)
        client.publish("t", b"", qos=1)
        self.assertEqual([("t", b"kept", 1)], self.retained("t"))


class Erasing(RetainedCase):
    @statement("3.1.1", "MQTT-3.3.1-10", "MQTT-3.3.1-11")
    def test_empty_message_erases_and_is_delivered(self) -> None:
        """An empty retained PUBLISH goes to live subscribers and is never kept."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect()
        for qos in (0, 1, 2):
            client.publish("t", b"kept", qos=1, retain=True)
            subscriber.acknowledge(subscriber.expect("PUBLISH", payload=b"kept"))
            client.publish("t", b"", qos=qos, retain=True)
            packet = subscriber.expect("PUBLISH", payload=b"", qos=qos, retain=False)
            subscriber.acknowledge(packet)
            self.assertEqual([], self.retained("t"))
            self.assertEqual([], self.retained("#"))

    @statement("3.1.1", "MQTT-3.3.1-11")
    def test_empty_message_where_nothing_was_kept(self) -> None:
        """There is nothing to keep of it."""
        self.connect().publish("t", b"", qos=1, retain=True)
        self.assertEqual([], self.retained("t"))

    @statement("3.1.1", "MQTT-3.3.1-10")
    def test_only_that_topic_is_erased(self) -> None:
        """Its neighbours above and below stay."""
        client = self.connect()
        for topic in ("a", "a/b", "a/b/c", "a/c"):
            client.publish(topic, b"x", retain=True)
        client.publish("a/b", b"", retain=True)
        self.assertEqual(["a", "a/b/c", "a/c"], [topic for topic, _, _ in self.retained("#")])


class Waiting(RetainedCase):
    """A subscriber whose window is full when it subscribes."""

    def setUp(self) -> None:
        self.start(max_inflight=1)
        self.publisher = self.connect("pub")
        self.client = self.subscriber("first", qos=1)
        self.publisher.publish("first", b"holds the window", qos=1)
        self.held = self.client.expect("PUBLISH")

    def rest(self) -> list[tuple[bytes, bool]]:
        """What comes while the client acknowledges one by one."""
        got, packet = [], self.held
        while True:
            self.client.acknowledge(packet)
            if not (more := self.client.drain()):
                return got
            (packet,) = more
            got.append((packet.payload, packet.retain))

    @statement("3.1.1", "MQTT-3.3.1-6", "MQTT-3.3.1-8")
    def test_retained_messages_wait_for_room(self) -> None:
        """They come as soon as the window opens."""
        for number in range(5):
            self.publisher.publish(f"t/{number}", b"%d" % number, qos=1, retain=True)
        self.client.subscribe("t/#", 1)
        self.client.expect_nothing()
        self.assertEqual([(b"%d" % number, True) for number in range(5)], sorted(self.rest()))

    @statement("3.1.1", "MQTT-3.3.1-9", "MQTT-4.6.0-6")
    def test_message_after_the_subscription_comes_once_live_and_in_order(self) -> None:
        """It was published to an existing subscription: RETAIN 0, once, behind earlier ones."""
        self.publisher.publish("t", b"old", qos=1, retain=True)
        self.client.subscribe("t", 1)
        self.publisher.publish("t", b"1", qos=1)
        self.publisher.publish("t", b"2", qos=1, retain=True)
        got = self.rest()
        self.assertEqual([(b"1", False), (b"2", False)], [x for x in got if x != (b"old", True)])
        self.assertIn(got[0], [(b"old", True), (b"1", False)])

    def test_erased_message(self) -> None:
        """A message that was erased after the subscription may come or not; its erasure does."""
        self.publisher.publish("t", b"old", qos=1, retain=True)
        self.client.subscribe("t", 1)
        self.publisher.publish("t", b"", qos=1, retain=True)
        self.assertEqual((b"", False), self.rest()[-1])

    def test_reconnect_before_they_came(self) -> None:
        """The subscription was made: its retained messages come on the next connection."""
        client = self.connect("c", clean=False)
        client.subscribe("first", 1)
        self.publisher.publish("first", b"more", qos=1)
        packet = client.expect("PUBLISH", payload=b"more")
        self.publisher.publish("t", b"old", qos=1, retain=True)
        client.subscribe("t", 1)
        client.abort()
        client = self.connect("c", clean=False)
        client.acknowledge(client.expect("PUBLISH", payload=b"more", dup=True, pid=packet.pid))
        client.expect("PUBLISH", payload=b"old", retain=True, dup=False)


class Resubscribing(RetainedCase):
    def expect_retained(self, client: RawClient, payload: bytes) -> None:
        client.expect("PUBLISH", payload=payload, retain=True)
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.8.4-3", "MQTT-3.3.1-8")
    def test_same_filter_again_brings_retained_messages_again(self) -> None:
        """Each SUBSCRIBE is answered with them."""
        self.connect("pub").publish("t", b"x", retain=True)
        client = self.connect()
        for _ in range(3):
            client.subscribe("t")
            self.expect_retained(client, b"x")

    @statement("3.1.1", "MQTT-3.3.1-6", "MQTT-3.8.4-4")
    def test_each_filter_of_one_subscribe_brings_its_own(self) -> None:
        """Several filters act like several SUBSCRIBEs."""
        publisher = self.connect("pub")
        publisher.publish("a", b"a", retain=True)
        publisher.publish("b", b"b", retain=True)
        client = self.connect()
        client.send(p.subscribe(1, ("a", 0), ("b", 0), ("c", 0)))
        client.take("SUBACK", reasons=[0, 0, 0])
        self.assertEqual({b"a", b"b"}, {packet.payload for packet in client.drain()})

    def test_retained_message_after_unsubscribe(self) -> None:
        """UNSUBSCRIBE and SUBSCRIBE bring them anew."""
        self.connect("pub").publish("t", b"x", retain=True)
        client = self.connect()
        client.subscribe("t")
        self.expect_retained(client, b"x")
        client.unsubscribe("t")
        client.subscribe("t")
        self.expect_retained(client, b"x")

    def test_unavailable_retain_keeps_nothing(self) -> None:
        """A listener without retained messages never keeps one."""
        self.start(retain_available=False)
        client = self.connect("pub")
        client.send(p.publish("t", b"x", retain=True))
        client.drain()
        self.assertEqual([], self.retained("t"))
