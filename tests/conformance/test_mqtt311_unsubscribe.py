"""MQTT 3.1.1, sections 3.10 and 3.11: UNSUBSCRIBE and UNSUBACK."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class Malformed(ProtocolCase):
    @statement("3.1.1", "MQTT-3.10.1-1", "MQTT-4.8.0-1")
    def test_wrong_flags_close(self) -> None:
        """UNSUBSCRIBE has the flags 0010."""
        body = p.split(p.unsubscribe(1, "t"))[1]
        for flags in set(range(16)) - {2}:
            self.assert_closes(p.frame(0xA0 | flags, body), f"flags {flags:04b}")

    @statement("3.1.1", "MQTT-3.10.3-2", "MQTT-4.8.0-1")
    def test_no_filter_closes(self) -> None:
        """An UNSUBSCRIBE names something."""
        self.assert_closes(p.unsubscribe(1))

    @statement("3.1.1", "MQTT-4.7.3-1", "MQTT-4.8.0-1")
    def test_empty_filter_closes(self) -> None:
        """A filter has at least one character."""
        self.assert_closes(p.unsubscribe(1, ""))
        self.assert_closes(p.unsubscribe(1, "a", ""))


class Removing(ProtocolCase):
    @statement("3.1.1", "MQTT-3.10.4-1", "MQTT-3.10.4-2", "MQTT-3.10.4-4")
    def test_removed_subscription_delivers_no_more(self) -> None:
        """UNSUBACK with the id of the request, and silence."""
        client = self.subscriber("t", "a/+", "b/#", qos=1)
        for text, topic in (("t", "t"), ("a/+", "a/x"), ("b/#", "b/x")):
            client.publish(topic, b"x", qos=1)
            client.acknowledge(client.expect("PUBLISH", topic=topic))
            client.send(p.unsubscribe(77, text))
            client.expect("UNSUBACK", pid=77)
            client.publish(topic, b"x", qos=1)
            client.expect_nothing()

    @statement("3.1.1", "MQTT-3.10.4-1", "MQTT-3.10.4-5")
    def test_filters_are_compared_literally(self) -> None:
        """What merely matches is not removed, and is acknowledged all the same."""
        client = self.subscriber("a/b")
        for other in ("a/+", "a/#", "#", "A/b", "a", "a/b/", "/a/b", "a/b/#", "never/there"):
            client.send(p.unsubscribe(5, other))
            client.expect("UNSUBACK", pid=5)
            client.publish("a/b", b"x")
            client.expect("PUBLISH", payload=b"x")

    @statement("3.1.1", "MQTT-3.10.4-1")
    def test_wildcard_subscription_is_not_removed_by_a_topic(self) -> None:
        """a/b does not undo a/+."""
        client = self.subscriber("a/+")
        client.unsubscribe("a/b")
        client.publish("a/b", b"x")
        client.expect("PUBLISH")

    @statement("3.1.1", "MQTT-3.10.4-5")
    def test_unsuback_without_any_subscription(self) -> None:
        """It is sent even if nothing was removed, also twice."""
        client = self.connect()
        for pid in (1, 2):
            client.send(p.unsubscribe(pid, "t"))
            client.expect("UNSUBACK", pid=pid)

    @statement("3.1.1", "MQTT-3.10.4-6", "MQTT-3.10.3-1")
    def test_several_filters_yield_one_unsuback(self) -> None:
        """All named ones are removed, others stay."""
        client = self.subscriber("a", "b", "c", "d")
        client.send(p.unsubscribe(9, "a", "c", "x", "d"))
        client.expect("UNSUBACK", pid=9)
        for topic in ("a", "b", "c", "d"):
            client.publish(topic, b"x")
        client.expect("PUBLISH", topic="b")
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.10.4-2")
    def test_other_matching_subscription_stays(self) -> None:
        """Of two overlapping subscriptions the remaining one delivers with its own QoS."""
        client = self.connect()
        client.subscribe("a/b", 2)
        client.subscribe("a/#", 0)
        client.unsubscribe("a/b")
        client.publish("a/b", b"x", qos=2)
        client.expect("PUBLISH", qos=0)
        client.expect_nothing()

    def test_subscription_of_another_client_stays(self) -> None:
        """UNSUBSCRIBE is about one's own session."""
        other = self.subscriber("t", client_id="other")
        client = self.subscriber("t", client_id="client")
        client.unsubscribe("t")
        client.publish("t", b"x")
        other.expect("PUBLISH", payload=b"x")


class DeliveriesUnderWay(ProtocolCase):
    @statement("3.1.1", "MQTT-3.10.4-3")
    def test_begun_handshakes_are_finished(self) -> None:
        """QoS 1 and 2 deliveries go on after the UNSUBSCRIBE."""
        client = self.subscriber("t", qos=2)
        client.publish("t", b"1", qos=1)
        client.publish("t", b"2", qos=2)
        one = client.expect("PUBLISH", payload=b"1")
        two = client.expect("PUBLISH", payload=b"2")
        client.unsubscribe("t")
        client.send(p.puback(one.pid or 0), p.pubrec(two.pid or 0))
        client.expect("PUBREL", pid=two.pid)
        client.send(p.pubcomp(two.pid or 0))
        self.assert_works(client)

    @statement("3.1.1", "MQTT-3.10.4-3", "MQTT-4.4.0-1")
    def test_begun_deliveries_are_resent_after_unsubscribe(self) -> None:
        """They belong to the session until they are acknowledged."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.publish("t", b"1", qos=1)
        client.publish("t", b"2", qos=2)
        client.expect("PUBLISH", payload=b"1")
        client.expect("PUBLISH", payload=b"2")
        client.unsubscribe("t")
        client.abort()
        again = self.connect("c", clean=False)
        for payload in (b"1", b"2"):
            again.acknowledge(again.expect("PUBLISH", payload=payload, dup=True))
        again.expect_nothing()
