"""MQTT 5, chapter 3.3.1: DUP, QoS and RETAIN."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Prop


class Dup(Mqtt5Case):
    @statement("5", "MQTT-3.3.1-1", "MQTT-4.4.0-1")
    def test_a_message_sent_again_has_dup(self) -> None:
        """QoS 1 and 2, after the client came back without having acknowledged."""
        client = self.resume()
        client.subscribe("t", 2)
        sender = self.connect("sender")
        for qos in (1, 2):
            sender.publish("t", "x", qos)
        first = [client.expect("PUBLISH", dup=False) for _ in range(2)]
        client.abort()
        client = self.resume()
        for packet in first:
            client.expect("PUBLISH", dup=True, qos=packet.qos, pid=packet.pid)

    @statement("5", "MQTT-3.3.1-1")
    def test_a_queued_message_is_not_a_message_sent_again(self) -> None:
        """What waited while the client was away goes out with DUP 0."""
        client = self.resume()
        client.subscribe("t", 1)
        client.close()
        self.connect("sender").publish("t", "x", 1)
        self.resume().expect("PUBLISH", dup=False)

    @statement("5", "MQTT-3.3.1-2")
    def test_dup_on_qos_0_is_malformed(self) -> None:
        """There is nothing to send again."""
        packet = p5.publish("t", b"x", qos=0, dup=True)
        self.cut_off(self.connect(), packet, Reason.MALFORMED)

    @statement("5", "MQTT-3.3.1-2", "MQTT-4.3.1-1")
    def test_qos_0_goes_out_without_dup(self) -> None:
        """Also when the publisher had set it on a higher QoS."""
        watcher = self.watcher(qos=0)
        sender = self.connect("sender")
        for qos in (0, 1, 2):
            sender.publish("t", "x", qos, dup=qos > 0)
            watcher.expect("PUBLISH", qos=0, dup=False)

    @statement("5", "MQTT-3.3.1-3", "MQTT-4.3.2-2", "MQTT-4.3.3-2")
    def test_dup_of_the_publisher_is_not_passed_on(self) -> None:
        """Each first PUBLISH to a subscriber has DUP 0."""
        watcher = self.watcher()
        sender = self.connect("sender")
        for qos in (1, 2):
            sender.publish("t", "x", qos, dup=True)
            watcher.expect("PUBLISH", qos=qos, dup=False)


class Qos(Mqtt5Case):
    @statement("5", "MQTT-3.3.1-4", "MQTT-4.13.1-1")
    def test_qos_3_is_malformed(self) -> None:
        """With and without the other flags."""
        for flags in (0x06, 0x07, 0x0E, 0x0F):
            with self.case(flags):
                _, body = p.split(p5.publish("t", b"x", qos=1, pid=1))
                self.cut_off(self.connect(), p.frame(0x30 | flags, body), Reason.MALFORMED)


class Retained(Mqtt5Case):
    def kept(self, filter: str = "#") -> list[tuple[str | None, bytes]]:
        """Topics and payloads that a new subscriber finds."""
        client = self.connect("reader")
        client.subscribe(filter, 2)
        found = client.drain()
        for packet in found:
            self.assertTrue(packet.retain)
        client.close()
        return sorted((packet.topic, packet.payload) for packet in found)

    @statement("5", "MQTT-3.3.1-5")
    def test_retained_message_replaces_the_one_before(self) -> None:
        """The last one with RETAIN is what a new subscriber gets, with its QoS and properties."""
        client = self.connect()
        client.publish("t", "old", 1, retain=True, props=[(Prop.CONTENT_TYPE, "old")])
        client.publish("t", "new", 2, retain=True, props=[(Prop.CONTENT_TYPE, "new")])
        client.publish("u", "other", 0, retain=True)
        reader = self.connect("reader")
        reader.subscribe("t", 2)
        packet = reader.expect("PUBLISH", topic="t", payload=b"new", qos=2, retain=True)
        self.assertEqual("new", packet.prop(Prop.CONTENT_TYPE))
        reader.expect_nothing()

    @statement("5", "MQTT-3.3.1-5")
    def test_retained_message_of_qos_0_is_kept(self) -> None:
        """QoS 0 as well as the others."""
        client = self.connect()
        for qos in (0, 1, 2):
            client.publish(f"t/{qos}", "x", qos, retain=True)
        self.assertEqual([("t/0", b"x"), ("t/1", b"x"), ("t/2", b"x")], self.kept())

    @statement("5", "MQTT-3.3.1-6", "MQTT-3.3.1-7")
    def test_empty_payload_erases_the_retained_message(self) -> None:
        """Those who are there get the empty message, those who come later get nothing."""
        client = self.connect()
        client.publish("t", "x", retain=True)
        self.assertEqual([("t", b"x")], self.kept())
        watcher = self.connect("watcher")
        watcher.subscribe("t", options=p.options(handling=2, as_published=True))
        client.publish("t", b"", retain=True)
        watcher.expect("PUBLISH", topic="t", payload=b"", retain=True)
        self.assertEqual([], self.kept())

    @statement("5", "MQTT-3.3.1-7")
    def test_an_empty_message_is_never_kept(self) -> None:
        """Also where there was nothing to erase."""
        self.connect().publish("t", b"", 1, retain=True)
        self.assertEqual([], self.kept())

    @statement("5", "MQTT-3.3.1-8")
    def test_a_message_without_retain_leaves_the_retained_one_alone(self) -> None:
        """Neither its content nor its emptiness changes what is kept."""
        client = self.connect()
        client.publish("never", "x")
        client.publish("t", "kept", retain=True)
        client.publish("t", "passing")
        client.publish("t", b"")
        self.assertEqual([("t", b"kept")], self.kept())

    def test_retained_messages_outlive_their_publisher(self) -> None:
        """They belong to the topic, not to a session."""
        self.connect("gone").publish("t", "x", 1, retain=True)
        self.connect("gone").close()
        self.assertEqual([("t", b"x")], self.kept())

    def test_retained_messages_match_like_all_others(self) -> None:
        """Each filter finds its topics, and wildcards none that begin with $."""
        client = self.connect()
        for topic in ("a", "a/b", "a/b/c", "/a", "b/"):
            client.publish(topic, topic, retain=True)
        for filter, topics in {
            "a": ["a"],
            "a/#": ["a", "a/b", "a/b/c"],
            "+": ["a"],
            "+/+": ["/a", "a/b", "b/"],
            "+/b/#": ["a/b", "a/b/c"],
            "#": ["/a", "a", "a/b", "a/b/c", "b/"],
            "b/+": ["b/"],
        }.items():
            with self.case(filter):
                self.assertEqual(topics, [topic for topic, _ in self.kept(filter)])


class RetainHandling(Mqtt5Case):
    def setUp(self) -> None:
        super().setUp()
        self.connect("keeper").publish("t", "kept", 1, retain=True)
        self.client = self.connect()

    def subscribe(self, handling: int, filter: str = "t") -> None:
        self.client.subscribe(filter, options=p.options(1, handling=handling))

    def gets(self, client: RawClient, count: int) -> None:
        for _ in range(count):
            client.acknowledge(client.expect("PUBLISH", payload=b"kept", retain=True))
        client.expect_nothing()

    @statement("5", "MQTT-3.3.1-9", "MQTT-3.8.4-4")
    def test_0_sends_them_at_every_subscribe(self) -> None:
        """The first time and again."""
        for _ in range(3):
            self.subscribe(0)
            self.gets(self.client, 1)

    @statement("5", "MQTT-3.3.1-10")
    def test_1_sends_them_when_the_subscription_is_new(self) -> None:
        """Not when it was there; again when it had been given up."""
        self.subscribe(1)
        self.gets(self.client, 1)
        self.subscribe(1)
        self.gets(self.client, 0)
        self.client.unsubscribe("t")
        self.subscribe(1)
        self.gets(self.client, 1)
        self.subscribe(1, "t/#")
        self.gets(self.client, 1)

    @statement("5", "MQTT-3.3.1-10")
    def test_1_knows_the_subscriptions_of_a_kept_session(self) -> None:
        """A subscription from an earlier connection is not new."""
        client = self.resume("keeper of sessions")
        client.subscribe("t", options=p.options(1, handling=2))
        client.close()
        client = self.resume("keeper of sessions")
        client.subscribe("t", options=p.options(1, handling=1))
        self.gets(client, 0)

    @statement("5", "MQTT-3.3.1-11")
    def test_2_never_sends_them(self) -> None:
        """But what is published from then on arrives."""
        self.subscribe(2)
        self.gets(self.client, 0)
        self.connect("keeper").publish("t", "new", retain=True)
        self.client.expect("PUBLISH", payload=b"new", retain=False)

    def test_3_is_a_protocol_error(self) -> None:
        """There is no fourth way."""
        packet = p5.subscribe(9, ("t", p.options(handling=3)))
        self.cut_off(self.client, packet, Reason.PROTOCOL_ERROR)


class RetainAsPublished(Mqtt5Case):
    @statement("5", "MQTT-3.3.1-12")
    def test_0_clears_the_flag(self) -> None:
        """A message for a subscription that exists is news, not a retained message."""
        client = self.connect()
        client.subscribe("t", options=p.options(as_published=False))
        for retain in (False, True):
            self.connect("sender").publish("t", "x", retain=retain)
            client.expect("PUBLISH", retain=False)

    @statement("5", "MQTT-3.3.1-13")
    def test_1_leaves_the_flag_as_it_was(self) -> None:
        """RETAIN is what the publisher set."""
        client = self.connect()
        client.subscribe("t", options=p.options(2, as_published=True))
        for retain in (False, True):
            for qos in (0, 1, 2):
                self.connect("sender").publish("t", "x", qos, retain=retain)
                client.expect("PUBLISH", retain=retain, qos=qos)

    @statement("5", "MQTT-3.3.1-9", "MQTT-3.3.1-12", "MQTT-3.3.1-13")
    def test_messages_at_subscribe_have_the_flag_either_way(self) -> None:
        """What a SUBSCRIBE brings up from the store is a retained message."""
        self.connect("sender").publish("t", "x", retain=True)
        for as_published in (False, True):
            client = self.connect()
            client.subscribe("t", options=p.options(as_published=as_published))
            client.expect("PUBLISH", retain=True)

    @statement("5", "MQTT-3.3.1-12", "MQTT-3.3.1-13")
    def test_queued_messages_keep_their_flag(self) -> None:
        """Waiting for the client to come back changes nothing."""
        client = self.resume()
        client.subscribe("as/published", options=p.options(1, as_published=True))
        client.subscribe("plain", 1)
        client.close()
        sender = self.connect("sender")
        sender.publish("as/published", "x", 1, retain=True)
        sender.publish("plain", "x", 1, retain=True)
        client = self.resume()
        client.expect("PUBLISH", topic="as/published", retain=True)
        client.expect("PUBLISH", topic="plain", retain=False)
