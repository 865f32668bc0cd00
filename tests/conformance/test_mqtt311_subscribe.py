"""MQTT 3.1.1, sections 3.8 and 3.9: SUBSCRIBE and SUBACK."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class Malformed(ProtocolCase):
    @statement("3.1.1", "MQTT-3.8.1-1", "MQTT-4.8.0-1")
    def test_wrong_flags_close(self) -> None:
        """SUBSCRIBE has the flags 0010."""
        body = p.split(p.subscribe(1, ("t", 0)))[1]
        for flags in set(range(16)) - {2}:
            self.assert_closes(p.frame(0x80 | flags, body), f"flags {flags:04b}")

    @statement("3.1.1", "MQTT-3.8.3-3", "MQTT-4.8.0-1")
    def test_no_filter_closes(self) -> None:
        """A SUBSCRIBE asks for something."""
        self.assert_closes(p.subscribe(1))

    @statement("3.1.1", "MQTT-3.8.3-4", "MQTT-4.8.0-1")
    def test_wrong_qos_byte_closes(self) -> None:
        """QoS 3 and each reserved bit are malformed, also in a later pair."""
        for value in (3, 4, 8, 16, 32, 64, 128, 0xFC, 0xFF):
            self.assert_closes(p.subscribe(1, ("t", value)), f"QoS byte {value:#x}")
            self.assert_closes(p.subscribe(1, ("a", 0), ("t", value)), f"QoS byte {value:#x}")

    @statement("3.1.1", "MQTT-4.7.3-1", "MQTT-4.8.0-1")
    def test_empty_filter_closes(self) -> None:
        """A filter has at least one character."""
        self.assert_closes(p.subscribe(1, ("", 0)))
        self.assert_closes(p.subscribe(1, ("a", 0), ("", 0)))

    @statement("3.1.1", "MQTT-4.7.1-2", "MQTT-4.8.0-1")
    def test_misplaced_hash_closes(self) -> None:
        """# stands alone or after a slash, and last."""
        for text in ("a#", "#a", "a/#/b", "#/", "##", "a/b#", "a/#b", "#/#", "+#"):
            self.assert_closes(p.subscribe(1, (text, 0)), text)

    @statement("3.1.1", "MQTT-4.7.1-3", "MQTT-4.8.0-1")
    def test_misplaced_plus_closes(self) -> None:
        """+ fills a whole level."""
        for text in ("a+", "+a", "a/+b", "a/b+/c", "++", "+/a+", "a/++"):
            self.assert_closes(p.subscribe(1, (text, 0)), text)

    def test_nothing_of_a_malformed_subscribe_is_taken(self) -> None:
        """A violation in the last pair undoes the first one."""
        for wrong in (("u", 3), ("", 0), ("u#", 0), (b"\xff", 0)):
            client = self.connect("c", clean=False)
            client.send(p.subscribe(1, ("t", 1), wrong))
            client.expect_closed()
        self.connect("pub").publish("t", b"x", qos=1)
        self.connect("c", clean=False).expect_nothing()


class Answers(ProtocolCase):
    @statement("3.1.1", "MQTT-3.8.4-1", "MQTT-3.8.4-2", "MQTT-3.8.4-5", "MQTT-3.9.3-2")
    def test_suback_grants_the_requested_qos(self) -> None:
        """One SUBACK with the id of the request and the granted maximum."""
        client = self.connect()
        for qos in (0, 1, 2):
            client.send(p.subscribe(100 + qos, ("t", qos)))
            client.expect("SUBACK", pid=100 + qos, reasons=[qos])
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.8.4-4", "MQTT-3.8.4-5", "MQTT-3.9.3-1", "MQTT-3.9.3-2")
    def test_one_code_for_each_filter_in_order(self) -> None:
        """Several filters: one SUBACK, the codes in their order."""
        client = self.connect()
        client.send(p.subscribe(7, ("a", 2), ("b", 0), ("c", 1), ("a/#", 2), ("d", 0)))
        client.expect("SUBACK", pid=7, reasons=[2, 0, 1, 2, 0])
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.8.4-4")
    def test_several_filters_all_count(self) -> None:
        """Each of them delivers with its own QoS."""
        client = self.connect()
        client.send(p.subscribe(7, ("a", 0), ("b", 1), ("c", 2)))
        client.expect("SUBACK", reasons=[0, 1, 2])
        publisher = self.connect("pub")
        for topic, qos in (("a", 0), ("b", 1), ("c", 2)):
            publisher.publish(topic, b"x", qos=2)
            client.acknowledge(client.expect("PUBLISH", topic=topic, qos=qos))

    def test_thousands_of_filters_in_one_subscribe(self) -> None:
        """The only limit is the size of the packet and of the session."""
        client = self.connect()
        client.send(p.subscribe(1, *((f"t/{number}", number % 3) for number in range(5000))))
        client.expect("SUBACK", reasons=[number % 3 for number in range(5000)])
        client.publish("t/4999", b"x")
        client.expect("PUBLISH", topic="t/4999")

    def test_same_filter_twice_in_one_subscribe(self) -> None:
        """The later one replaces the earlier one, both are answered."""
        client = self.connect()
        client.send(p.subscribe(1, ("t", 2), ("t", 0)))
        client.expect("SUBACK", reasons=[2, 0])
        client.publish("t", b"x", qos=2)
        client.expect("PUBLISH", qos=0)
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.8.3-2", "MQTT-3.9.3-2", "MQTT-3.9.3-1")
    def test_listener_without_wildcards_refuses_them(self) -> None:
        """Filters with a wildcard fail with 0x80, the others are granted."""
        self.start(wildcard_subscriptions=False)
        client = self.connect()
        client.send(p.subscribe(1, ("a/+", 0), ("b", 1), ("#", 2), ("+/c", 0), ("d/e", 2)))
        client.expect("SUBACK", reasons=[0x80, 1, 0x80, 0x80, 2])
        publisher = self.connect("pub")
        for topic in ("a/x", "b", "d/e"):
            publisher.publish(topic, b"x")
        client.expect("PUBLISH", topic="b")
        client.expect("PUBLISH", topic="d/e")
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.8.4-5", "MQTT-3.8.4-6")
    def test_listener_with_a_maximum_qos_grants_no_more(self) -> None:
        """The granted QoS may be lower than the requested one, and deliveries obey it."""
        self.start(max_qos=1)
        client = self.connect()
        client.send(p.subscribe(1, ("a", 2), ("b", 1), ("c", 0)))
        client.expect("SUBACK", reasons=[1, 1, 0])
        client.publish("a", b"x", qos=1)
        client.expect("PUBLISH", qos=1)

    @statement("3.1.1", "MQTT-3.8.4-5", "MQTT-3.9.3-2")
    def test_subscriptions_beyond_the_bound_fail(self) -> None:
        """What a session may not hold any more gets 0x80; what it has may still change."""
        self.start(max_subscriptions=2)
        client = self.connect()
        client.send(p.subscribe(1, ("a", 0), ("b", 0), ("c", 0)))
        client.expect("SUBACK", reasons=[0, 0, 0x80])
        client.subscribe("a", 1, granted=1)
        client.unsubscribe("b")
        client.subscribe("c", 0, granted=0)


class Delivery(ProtocolCase):
    @statement("3.1.1", "MQTT-3.8.4-6")
    def test_qos_is_the_lower_of_published_and_granted(self) -> None:
        """All nine pairs."""
        publisher = self.connect("pub")
        for granted in (0, 1, 2):
            client = self.subscriber("t", qos=granted)
            for published in (0, 1, 2):
                publisher.publish("t", b"x", qos=published)
                packet = client.expect("PUBLISH", qos=min(published, granted))
                client.acknowledge(packet)
            client.expect_nothing()
            client.close()

    @statement("3.1.1", "MQTT-3.3.5-1")
    def test_overlapping_subscriptions_deliver_once_with_the_highest_qos(self) -> None:
        """Of all that match the highest QoS counts; mhub sends one copy."""
        client = self.connect()
        client.send(p.subscribe(1, ("a/b", 0), ("a/+", 2), ("a/#", 1), ("#", 0)))
        client.expect("SUBACK", reasons=[0, 2, 1, 0])
        publisher = self.connect("pub")
        for topic, qos in (("a/b", 2), ("a/c", 2), ("a/b/c", 1), ("b", 0)):
            publisher.publish(topic, b"x", qos=2)
            client.acknowledge(client.expect("PUBLISH", topic=topic, qos=qos))
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.3.5-1")
    def test_overlap_does_not_raise_the_qos_of_the_message(self) -> None:
        """The publisher's QoS stays the upper bound."""
        client = self.subscriber("a", "#", qos=2)
        for qos in (0, 1):
            client.publish("a", b"x", qos=qos)
            client.acknowledge(client.expect("PUBLISH", qos=qos))
        client.expect_nothing()

    @statement("3.1.1", "MQTT-4.5.0-1")
    def test_every_subscriber_gets_the_message(self) -> None:
        """Online or offline, by whichever filter."""
        offline = self.connect("offline", clean=False)
        offline.subscribe("a/#", 1)
        offline.close()
        filters = ("a/b", "a/+", "#", "+/b", "a/b/#")
        clients = [self.subscriber(text, qos=1, client_id=text) for text in filters]
        stranger = self.subscriber("b/#", client_id="stranger")
        self.connect("pub").publish("a/b", b"x", qos=1)
        for client in [*clients, self.connect("offline", clean=False)]:
            client.expect("PUBLISH", topic="a/b", payload=b"x", qos=1)
            client.expect_nothing()
        stranger.expect_nothing()


class Replacing(ProtocolCase):
    @statement("3.1.1", "MQTT-3.8.4-3")
    def test_same_filter_replaces_the_subscription(self) -> None:
        """One subscription with the new QoS, one copy of each message."""
        client = self.subscriber("t")
        for qos in (2, 1, 0, 1):
            client.subscribe("t", qos, granted=qos)
            client.publish("t", b"x", qos=2)
            client.acknowledge(client.expect("PUBLISH", qos=qos))
            client.expect_nothing()

    @statement("3.1.1", "MQTT-3.8.4-3")
    def test_no_message_is_missed_while_replacing(self) -> None:
        """Publishes before and after the repeated SUBSCRIBE all arrive, once each."""
        client = self.subscriber("t", qos=1)
        client.send(
            p.publish("t", b"1"),
            p.subscribe(9, ("t", 0)),
            p.publish("t", b"2"),
            p.subscribe(10, ("t", 2)),
            p.publish("t", b"3"),
        )
        got = [packet.payload for packet in client.drain() if packet.type == "PUBLISH"]
        self.assertEqual([b"1", b"2", b"3"], got)

    def test_similar_filter_does_not_replace(self) -> None:
        """Only an identical filter is the same one."""
        client = self.connect()
        client.send(p.subscribe(1, ("t", 2), ("T", 0), ("t/", 0), ("+", 0), ("t/#", 0)))
        client.expect("SUBACK")
        client.publish("t", b"x", qos=2)
        client.expect("PUBLISH", qos=2)
