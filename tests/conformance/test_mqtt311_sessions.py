"""MQTT 3.1.1, sections 3.1.2.4, 3.2.2.2 and 4.1: sessions kept, resumed and thrown away."""

from tests.conformance.cases import ProtocolCase
from tests.conformance.statements import statement
from tests.helpers import packets as p


class Resuming(ProtocolCase):
    @statement("3.1.1", "MQTT-3.2.2-3", "MQTT-3.1.4-3")
    def test_new_session_is_not_present(self) -> None:
        """CleanSession 0 without stored state: Session Present 0, code 0."""
        client = self.connect("c", clean=False)
        self.assertFalse(client.connack.session_present)

    @statement("3.1.1", "MQTT-3.1.2-4", "MQTT-3.2.2-2", "MQTT-3.1.4-3", "MQTT-4.1.0-1")
    def test_session_is_resumed(self) -> None:
        """CleanSession 0 finds the subscriptions of the last connection."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.subscribe("u/+", 2)
        client.close()
        again = self.connect("c", clean=False)
        self.assertTrue(again.connack.session_present)
        again.publish("t", b"t", qos=1)
        again.expect("PUBLISH", topic="t", qos=1)
        again.publish("u/v", b"u", qos=2)
        again.expect("PUBLISH", topic="u/v", qos=2)

    @statement("3.1.1", "MQTT-3.2.2-2")
    def test_session_without_subscriptions_is_present_too(self) -> None:
        """A session is state even if it holds nothing yet."""
        self.connect("c", clean=False).close()
        self.assertTrue(self.connect("c", clean=False).connack.session_present)

    @statement("3.1.1", "MQTT-3.1.2-4", "MQTT-4.1.0-2")
    def test_session_survives_however_the_connection_ends(self) -> None:
        """DISCONNECT, a plain close, a reset and a protocol violation all leave the session."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.close()
        client = self.connect("c", clean=False)
        client.abort()
        client = self.connect("c", clean=False)
        client.abort(reset=True)
        client = self.connect("c", clean=False)
        client.send(p.frame(0xF0))
        client.expect_closed()
        client = self.connect("c", clean=False)
        self.assertTrue(client.connack.session_present)
        client.publish("t", b"x", qos=1)
        client.expect("PUBLISH", payload=b"x")

    @statement("3.1.1", "MQTT-4.1.0-2")
    def test_session_lasts_as_long_as_its_connection(self) -> None:
        """No session ends under a live connection, however short sessions live offline."""
        self.start(session_expiry_v3_s=60)
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        self.advance(3600)
        client.publish("t", b"x", qos=1)
        client.expect("PUBLISH", payload=b"x")

    @statement("3.1.1", "MQTT-4.1.0-1")
    def test_session_is_kept_for_the_configured_time(self) -> None:
        """An administrator may bound how long a session waits for its client."""
        self.start(session_expiry_v3_s=60)
        self.connect("c", clean=False).close()
        self.advance(50)
        client = self.connect("c", clean=False)
        self.assertTrue(client.connack.session_present)
        client.close()
        self.advance(70)
        self.assertFalse(self.connect("c", clean=False).connack.session_present)

    def test_session_does_not_expire_by_default(self) -> None:
        """3.1.1 knows no expiry: a year later the session is still there."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.close()
        self.advance(365 * 86400)
        self.assertTrue(self.connect("c", clean=False).connack.session_present)


class CleanSessions(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.2-6", "MQTT-3.2.2-1", "MQTT-3.1.4-3")
    def test_clean_connect_throws_the_old_session_away(self) -> None:
        """Subscriptions, queued and unacknowledged messages are gone for good."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        publisher = self.connect("pub")
        publisher.publish("t", b"unacknowledged", qos=1)
        client.expect("PUBLISH")
        client.abort()
        publisher.publish("t", b"queued", qos=1)
        clean = self.connect("c", clean=True)
        self.assertFalse(clean.connack.session_present)
        publisher.publish("t", b"later", qos=1)
        clean.expect_nothing()
        clean.close()
        again = self.connect("c", clean=False)
        self.assertFalse(again.connack.session_present)
        again.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-6", "MQTT-3.2.2-1")
    def test_clean_session_dies_with_its_connection(self) -> None:
        """Its state is never used again, whatever the next CONNECT asks for."""
        for clean in (False, True):
            client = self.connect("c", clean=True)
            client.subscribe("t", 1)
            client.abort()
            self.connect("pub").publish("t", b"lost", qos=1)
            again = self.connect("c", clean=clean)
            self.assertFalse(again.connack.session_present)
            again.expect_nothing()
            again.send(p.disconnect())
            again.expect_closed()
            self.connect("c", clean=True).close()

    @statement("3.1.1", "MQTT-3.1.2-6")
    def test_unfinished_qos_2_of_a_clean_session_is_forgotten(self) -> None:
        """The id of a publish begun before stands for a new message."""
        subscriber = self.subscriber("t", qos=2)
        client = self.connect("c", clean=True)
        client.send(p.publish("t", b"first", qos=2, pid=3))
        client.expect("PUBREC", pid=3)
        client.abort()
        again = self.connect("c", clean=True)
        again.publish("t", b"second", qos=2, pid=3)
        payloads = [packet.payload for packet in subscriber.drain()]
        self.assertEqual(b"second", payloads[-1])

    @statement("3.1.1", "MQTT-3.1.2-7")
    def test_retained_messages_outlive_sessions(self) -> None:
        """They belong to no session: neither its end nor a clean start removes them."""
        client = self.connect("c", clean=True)
        client.publish("t", b"kept", qos=1, retain=True)
        client.close()
        self.connect("c", clean=False).close()
        self.connect("c", clean=True).close()
        client = self.connect("other")
        client.subscribe("t", 1)
        client.expect("PUBLISH", topic="t", payload=b"kept", retain=True)


class OfflineQueue(ProtocolCase):
    @statement("3.1.1", "MQTT-3.1.2-5", "MQTT-4.5.0-1", "MQTT-4.1.0-1")
    def test_messages_wait_for_an_offline_client(self) -> None:
        """QoS 1 and 2 messages that match are queued and come in order, DUP 0."""
        client = self.connect("c", clean=False)
        client.subscribe("t/#", 2)
        client.close()
        publisher = self.connect("pub")
        for number in range(10):
            publisher.publish(f"t/{number}", str(number), qos=1 + number % 2)
        publisher.publish("other", b"no", qos=2)
        client = self.connect("c", clean=False)
        for number in range(10):
            packet = client.expect(
                "PUBLISH",
                topic=f"t/{number}",
                payload=str(number).encode(),
                qos=1 + number % 2,
                dup=False,
                retain=False,
            )
            client.acknowledge(packet)
        client.expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-5", "MQTT-3.8.4-6")
    def test_subscription_with_qos_0_queues_nothing(self) -> None:
        """A message that would be delivered with QoS 0 does not wait."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 0)
        client.close()
        self.connect("pub").publish("t", b"x", qos=2)
        client = self.connect("c", clean=False)
        client.expect_nothing()

    def test_qos_0_is_not_queued_by_default(self) -> None:
        """Only QoS 1 and 2 have to wait for a client."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.close()
        self.connect("pub").publish("t", b"x")
        self.connect("c", clean=False).expect_nothing()

    def test_qos_0_is_queued_where_the_listener_says_so(self) -> None:
        """The specification allows to keep QoS 0 messages, too."""
        self.start(queue_qos0_offline=True)
        client = self.connect("c", clean=False)
        client.subscribe("t", 2)
        client.close()
        self.connect("pub").publish("t", b"x")
        client = self.connect("c", clean=False)
        client.expect("PUBLISH", payload=b"x", qos=0)
        client.expect_nothing()

    def test_queued_messages_wait_through_several_connections(self) -> None:
        """What was sent but not acknowledged comes again; what was acknowledged does not."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.close()
        publisher = self.connect("pub")
        for number in range(4):
            publisher.publish("t", str(number), qos=1)
        client = self.connect("c", clean=False)
        client.acknowledge(client.expect("PUBLISH", payload=b"0", dup=False))
        client.drain()
        client.abort()
        publisher.publish("t", b"4", qos=1)
        client = self.connect("c", clean=False)
        for number in (1, 2, 3):
            client.acknowledge(client.expect("PUBLISH", payload=str(number).encode(), dup=True))
        client.acknowledge(client.expect("PUBLISH", payload=b"4", dup=False))
        client.abort()
        self.connect("c", clean=False).expect_nothing()

    @statement("3.1.1", "MQTT-3.1.2-5")
    def test_wills_are_queued_as_well(self) -> None:
        """A will is a message like any other to an offline session."""
        client = self.connect("c", clean=False)
        client.subscribe("w", 1)
        client.close()
        self.connect("dying", will=("w", b"gone", 1)).abort()
        self.connect("c", clean=False).expect("PUBLISH", payload=b"gone", qos=1)

    def test_unsubscribed_session_collects_no_more(self) -> None:
        """An UNSUBSCRIBE before leaving holds while offline."""
        client = self.connect("c", clean=False)
        client.subscribe("t", 1)
        client.unsubscribe("t")
        client.close()
        self.connect("pub").publish("t", b"x", qos=1)
        self.connect("c", clean=False).expect_nothing()
