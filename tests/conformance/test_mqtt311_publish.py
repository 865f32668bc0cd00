"""MQTT 3.1.1, section 3.3: PUBLISH, its flags, its topic and the answer to it."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class Flags(ProtocolCase):
    @statement("3.1.1", "MQTT-3.3.1-1")
    def test_redelivery_has_dup(self) -> None:
        """Whatever is sent again says so."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.publish("t", b"1", qos=1)
        client.publish("t", b"2", qos=2)
        client.expect("PUBLISH", payload=b"1", dup=False)
        client.expect("PUBLISH", payload=b"2", dup=False)
        client.abort()
        again = self.connect("c", clean=False)
        again.expect("PUBLISH", payload=b"1", dup=True)
        again.expect("PUBLISH", payload=b"2", dup=True)

    @statement("3.1.1", "MQTT-3.3.1-2", "MQTT-4.3.1-1")
    def test_qos_0_with_dup_closes(self) -> None:
        """DUP says nothing about a message that is never sent again."""
        self.assert_closes(p.publish("t", b"", dup=True))
        self.assert_closes(p.publish("t", b"", dup=True, retain=True))

    @statement("3.1.1", "MQTT-3.3.1-2", "MQTT-4.3.1-1")
    def test_qos_0_is_delivered_without_dup(self) -> None:
        """A QoS 0 delivery has QoS 0 and DUP 0, also of a message that came with DUP 1."""
        subscriber = self.subscriber("t", qos=0)
        client = self.connect("pub")
        client.publish("t", b"0")
        client.publish("t", b"1", qos=1, dup=True)
        client.publish("t", b"2", qos=2, dup=True)
        for payload in (b"0", b"1", b"2"):
            subscriber.expect("PUBLISH", payload=payload, flags=0)

    @statement("3.1.1", "MQTT-3.3.1-3")
    def test_dup_of_the_publisher_is_not_copied(self) -> None:
        """DUP belongs to a hop: the subscriber gets the message for the first time."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect("pub")
        for qos in (1, 2):
            client.publish("t", b"x", qos=qos, dup=True)
            subscriber.expect("PUBLISH", qos=qos, dup=False)

    @statement("3.1.1", "MQTT-3.3.1-4", "MQTT-4.8.0-1")
    def test_qos_3_closes(self) -> None:
        """There is no QoS 3."""
        for retain in (False, True):
            for dup in (False, True):
                self.assert_closes(p.publish("t", b"", qos=3, pid=1, retain=retain, dup=dup))


class Topic(ProtocolCase):
    @statement("3.1.1", "MQTT-3.3.2-2", "MQTT-4.7.1-1", "MQTT-4.8.0-1")
    def test_wildcard_in_a_topic_closes(self) -> None:
        """+ and # are for filters."""
        for topic in ("#", "+", "a/#", "a/+", "+/a", "a/+/b", "a#", "a+b", "#a", "a/b#/c"):
            self.assert_closes(p.publish(topic, b""), topic)
            self.assert_closes(p.publish(topic, b"", qos=1, pid=1), topic)

    @statement("3.1.1", "MQTT-4.7.3-1", "MQTT-4.8.0-1")
    def test_empty_topic_closes(self) -> None:
        """A topic has at least one character."""
        for qos in (0, 1, 2):
            self.assert_closes(p.publish("", b"x", qos=qos, pid=1 if qos else None))

    @statement("3.1.1", "MQTT-3.3.2-1")
    def test_topic_stands_first(self) -> None:
        """Topic, then packet id, then payload, in what the broker sends."""
        client = self.subscriber("a/b", qos=1)
        client.publish("a/b", b"payload", qos=1)
        packet = client.expect("PUBLISH", qos=1)
        self.assertEqual(p.utf8("a/b") + p.u16(packet.pid or 0) + b"payload", packet.body)

    @statement("3.1.1", "MQTT-3.3.2-3")
    def test_delivered_topic_matches_the_filter(self) -> None:
        """The subscriber gets the name that was published, and only names that match."""
        client = self.subscriber("a/+/c", "b/#")
        publisher = self.connect("pub")
        for topic in ("a/b/c", "a/c", "a/b/c/d", "b", "b/x/y", "bb", "A/b/c"):
            publisher.publish(topic, topic)
        for topic in ("a/b/c", "b", "b/x/y"):
            client.expect("PUBLISH", topic=topic, payload=topic.encode())
        client.expect_nothing()


class Answer(ProtocolCase):
    @statement("3.1.1", "MQTT-3.3.4-1")
    def test_answer_depends_on_qos(self) -> None:
        """Nothing, PUBACK, PUBREC."""
        client = self.connect()
        client.send(p.publish("t", b""))
        client.expect_nothing()
        client.send(p.publish("t", b"", qos=1, pid=1))
        client.expect("PUBACK", pid=1)
        client.expect_nothing()
        client.send(p.publish("t", b"", qos=2, pid=2))
        client.expect("PUBREC", pid=2)
        client.expect_nothing()

    def test_acknowledgements_come_in_the_order_of_the_publishes(self) -> None:
        """QoS 1 and 2 mixed, many in one read."""
        client = self.connect()
        client.send(
            b"".join(p.publish("t", b"", qos=1 + pid % 2, pid=pid) for pid in range(1, 101))
        )
        answers = client.drain()
        expected = [("PUBREC" if pid % 2 else "PUBACK", pid) for pid in range(1, 101)]
        self.assertEqual(expected, [(packet.type, packet.pid) for packet in answers])

    @statement("3.1.1", "MQTT-3.3.5-2")
    def test_publish_to_the_topics_of_the_broker_has_no_effect(self) -> None:
        """An unauthorised PUBLISH is acknowledged as usual, or the connection closed."""
        watcher = self.subscriber("$SYS/mine", "$SYS/broker/mine", qos=2)
        answers = {0: [], 1: ["PUBACK"], 2: ["PUBREC"]}
        for qos, answer in answers.items():
            for topic in ("$SYS/mine", "$SYS/broker/mine"):
                client = self.connect("pub")
                client.send(p.publish(topic, b"x", qos, 1 if qos else None, retain=True))
                got = [packet.type for packet in client.drain()]
                self.assertEqual([] if client.closed else answer, got)
        watcher.expect_nothing()
        watcher.subscribe("$SYS/mine")
        watcher.expect_nothing()

    @statement("3.1.1", "MQTT-3.3.5-2")
    def test_will_to_the_topics_of_the_broker_is_not_published(self) -> None:
        """A will has no more rights than its client."""
        watcher = self.subscriber("$SYS/mine")
        client = self.open()
        client.send(p.connect("c", will=("$SYS/mine", b"x", 1, True)))
        client.drain()
        client.abort()
        watcher.expect_nothing()

    def test_answers_before_a_violation_arrive(self) -> None:
        """A violation does not undo what was right before it."""
        subscriber = self.subscriber("t")
        client = self.connect("pub")
        client.send(p.publish("t", b"x", qos=1, pid=1), p.pingreq(), p.frame(0xF0))
        client.closed_after("PUBACK", "PINGRESP")
        subscriber.expect("PUBLISH", payload=b"x")

    def test_empty_payload_is_a_message(self) -> None:
        """A PUBLISH may carry nothing."""
        client = self.subscriber("t", qos=2)
        for qos in (0, 1, 2):
            client.publish("t", b"", qos=qos)
            client.acknowledge(client.expect("PUBLISH", payload=b"", qos=qos))

    def test_large_payload(self) -> None:
        """A payload of megabytes passes unchanged."""
        client = self.subscriber("t", qos=1)
        payload = bytes(range(256)) * 16 * 1024
        client.publish("t", payload, qos=1)
        client.expect("PUBLISH", payload=payload)

    def test_publisher_hears_its_own_message(self) -> None:
        """3.1.1 has no way to opt out."""
        client = self.subscriber("t")
        client.publish("t", b"echo")
        client.expect("PUBLISH", payload=b"echo")


class Limits(ProtocolCase):
    def test_packet_larger_than_the_listener_allows_closes(self) -> None:
        """Without waiting for the whole of it."""
        self.start(max_packet_size=1000)
        client = self.subscriber("t")
        client.publish("t", b"x" * 900)
        client.expect("PUBLISH")
        client.send(p.frame(0x30, p.utf8("t"), length=1001))
        client.expect_closed()

    def test_qos_above_the_maximum_closes(self) -> None:
        """3.1.1 has no word for "not supported"."""
        self.start(max_qos=1)
        client = self.connect("c")
        client.publish("t", b"x", qos=1)
        client.send(p.publish("t", b"x", qos=2, pid=1))
        client.expect_closed()
