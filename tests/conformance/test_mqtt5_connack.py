"""MQTT 5, chapter 3.2: CONNACK, and what a broker with limits says in it."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop

CONNECT_REASONS = {
    *(0x00, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8A, 0x8C),
    *(0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F),
}


def connack_of(client: RawClient) -> Packet:
    assert client.connack is not None
    return client.connack


class TheAnswer(Mqtt5Case):
    @statement("5", "MQTT-3.2.0-1")
    def test_connack_comes_before_anything_else(self) -> None:
        """Messages that wait for the client come after it."""
        client = self.resume()
        client.subscribe("t", 1)
        client.close()
        self.connect("sender").publish("t", "waiting", qos=1)
        client = self.open()
        client.send(p5.connect(clean=False), p.pingreq())
        types = [packet.type for packet in client.drain()]
        self.assertEqual("CONNACK", types[0])
        self.assertCountEqual(["CONNACK", "PUBLISH", "PINGRESP"], types)

    @statement("5", "MQTT-3.2.0-2")
    def test_one_connack_per_connection(self) -> None:
        """Accepted or refused, there is no second one."""
        client = self.open()
        client.send(p5.connect())
        client.send(p5.connect())
        types = [packet.type for packet in client.drain()]
        self.assertEqual(1, types.count("CONNACK"))
        client = self.open()
        client.send(p5.connect(flags=1), p5.connect())
        client.closed_after("CONNACK", reason=Reason.MALFORMED)

    @statement("5", "MQTT-3.2.2-1")
    def test_reserved_acknowledge_flags_are_0(self) -> None:
        """The first byte is 0 or 1, session or not."""
        client = self.resume()
        self.assertEqual(0, connack_of(client).body[0])
        client.close()
        self.assertEqual(1, connack_of(self.resume()).body[0])

    @statement("5", "MQTT-3.2.2-2", "MQTT-3.2.2-3")
    def test_session_present_tells_whether_a_session_goes_on(self) -> None:
        """1 exactly if Clean Start was 0 and a session was stored; the reason is 0x00 always."""
        for stored in (False, True):
            for clean in (False, True):
                if stored:
                    self.resume("client").close()
                else:
                    self.connect("client").close()
                connack = connack_of(self.connect("client", clean=clean))
                self.assertEqual(stored and not clean, connack.session_present)
                self.assertEqual(0, connack.reason)

    @statement("5", "MQTT-3.2.2-6", "MQTT-3.2.2-7", "MQTT-3.2.2-8", "MQTT-4.13.2-1")
    def test_refusal_has_no_session_a_listed_reason_and_closes(self) -> None:
        """Whatever the reason, and also for a client that has a session here."""
        self.start(max_qos=1, max_client_id_length=23, retain_available=False)
        self.resume("stored").close()
        for packet, reason in (
            (p5.connect("stored", clean=False, flags=0x01), Reason.MALFORMED),
            (p5.connect("stored", clean=False, props=b"\x03\x21\0\0"), Reason.PROTOCOL_ERROR),
            (p5.connect("stored" * 5, clean=False), Reason.CLIENT_ID),
            (p5.connect("stored", clean=False, will=("t", b"", 2)), Reason.QOS_NOT_SUPPORTED),
            (p5.connect("stored", clean=False, will=("t", b"", 0, True)), Reason.NO_RETAIN),
        ):
            with self.case(packet):
                connack = self.refused(packet, reason)
                self.assertIn(connack.reason, CONNECT_REASONS)
                self.assertFalse(connack.session_present)

    @statement("5", "MQTT-3.1.4-2")
    def test_a_client_that_may_not_come_is_turned_away(self) -> None:
        """Without anonymous access a CONNECT without user name is refused."""
        self.start(allow_anonymous=False)
        self.refused(p5.connect(), Reason.NOT_AUTHORIZED, Reason.BAD_USER)

    @statement("5", "MQTT-3.1.4-2")
    def test_a_will_that_could_not_be_published_is_refused(self) -> None:
        """$SYS is the broker's: who wants to leave a will there is told at once."""
        self.refused(p5.connect(will=("$SYS/x", b"")), Reason.NOT_AUTHORIZED)

    def test_properties_of_a_broker_without_limits(self) -> None:
        """What is available is not mentioned, or mentioned as available; the bounds are valid."""
        connack = connack_of(self.connect())
        self.assertIn(connack.prop(Prop.MAXIMUM_QOS), (None,))
        for key in (
            Prop.RETAIN_AVAILABLE,
            Prop.WILDCARD_AVAILABLE,
            Prop.SUBSCRIPTION_ID_AVAILABLE,
            Prop.SHARED_AVAILABLE,
        ):
            self.assertIn(connack.prop(key), (None, 1))
        self.assertNotEqual(0, connack.prop(Prop.RECEIVE_MAXIMUM))
        self.assertNotEqual(0, connack.prop(Prop.MAXIMUM_PACKET_SIZE))
        for key in (Prop.ASSIGNED_CLIENT_ID, Prop.AUTH_METHOD, Prop.RESPONSE_INFO):
            self.assertIsNone(connack.prop(key))


class MaximumQos(Mqtt5Case):
    @statement("5", "MQTT-3.2.2-9")
    def test_the_limit_is_announced(self) -> None:
        """Maximum QoS is 0 or 1, and missing where there is no limit."""
        self.start(max_qos=1)
        self.assertEqual(1, connack_of(self.connect()).prop(Prop.MAXIMUM_QOS))

    @statement("5", "MQTT-3.2.2-9", "MQTT-3.2.2-11")
    def test_qos_0_only(self) -> None:
        """Maximum QoS 0 allows neither QoS 1 nor 2."""
        self.start(max_qos=0)
        for qos in (1, 2):
            client = self.connect()
            self.assertEqual(0, connack_of(client).prop(Prop.MAXIMUM_QOS))
            self.cut_off(client, p5.publish("t", qos=qos, pid=1), Reason.QOS_NOT_SUPPORTED)

    @statement("5", "MQTT-3.2.2-10")
    def test_subscriptions_of_any_qos_are_taken(self) -> None:
        """And are served as well as the broker can."""
        self.start(max_qos=1)
        client = self.connect()
        client.send(p5.subscribe(1, ("zero", 0), ("one", 1), ("two", 2)))
        suback = client.expect("SUBACK")
        self.assertEqual([0, 1, 1], [min(code, 1) for code in suback.reasons])
        client.publish("two", "x", 1)
        client.expect("PUBLISH", topic="two", qos=1)

    @statement("5", "MQTT-3.2.2-11")
    def test_a_publish_above_the_limit_is_refused(self) -> None:
        """DISCONNECT 0x9B; the message goes nowhere."""
        self.start(max_qos=1)
        watcher = self.watcher()
        client = self.connect()
        client.publish("t", "fine", 1)
        watcher.expect("PUBLISH", payload=b"fine")
        self.cut_off(client, p5.publish("t", b"x", 2, 1), Reason.QOS_NOT_SUPPORTED)
        watcher.expect_nothing()

    @statement("5", "MQTT-3.2.2-12")
    def test_a_will_above_the_limit_is_refused(self) -> None:
        """CONNACK 0x9B."""
        self.start(max_qos=1)
        self.connect(will=("t", b"x", 1))
        self.refused(p5.connect(will=("t", b"x", 2)), Reason.QOS_NOT_SUPPORTED)


class Retain(Mqtt5Case):
    @statement("5", "MQTT-3.2.2-13")
    def test_a_retained_will_is_refused(self) -> None:
        """CONNACK 0x9A where messages are not retained."""
        self.start(retain_available=False)
        self.connect(will=("t", b"x", 0, False))
        self.refused(p5.connect(will=("t", b"x", 0, True)), Reason.NO_RETAIN)

    @statement("5", "MQTT-3.2.2-14")
    def test_a_retained_publish_is_refused(self) -> None:
        """Retain Available 0 stands in CONNACK; who retains all the same is disconnected."""
        self.start(retain_available=False)
        client = self.connect()
        self.assertEqual(0, connack_of(client).prop(Prop.RETAIN_AVAILABLE))
        self.cut_off(client, p5.publish("t", b"x", retain=True), Reason.NO_RETAIN)


class MaximumPacketSize(Mqtt5Case):
    @statement("5", "MQTT-3.2.2-15")
    def test_a_packet_above_the_limit_is_refused(self) -> None:
        """The limit stands in CONNACK and counts the whole packet."""
        self.start(max_packet_size=200)
        client = self.connect()
        self.assertEqual(200, connack_of(client).prop(Prop.MAXIMUM_PACKET_SIZE))
        overhead = len(p5.publish("t", b"x" * 150)) - 150
        client.subscribe("t")
        client.publish("t", b"x" * (200 - overhead))
        client.expect("PUBLISH", size=200)
        packet = p5.publish("t", b"x" * (201 - overhead))
        self.cut_off(client, packet, Reason.TOO_LARGE)

    @statement("5", "MQTT-3.2.2-15")
    def test_the_announced_size_is_enough_for_the_refusal(self) -> None:
        """The broker does not wait for the rest, nor for a second byte of it."""
        self.start(max_packet_size=200)
        self.cut_off(self.connect(), b"\x30\xff\xff\xff\x7f", Reason.TOO_LARGE)

    def test_a_connect_above_the_limit_closes(self) -> None:
        """Before CONNACK the broker may say why."""
        self.start(max_packet_size=200)
        self.closed_at_connect(p5.connect(username="u" * 300), Reason.TOO_LARGE)


class TopicAliasMaximum(Mqtt5Case):
    @statement("5", "MQTT-3.2.2-17", "MQTT-3.3.2-9", "MQTT-3.3.2-12")
    def test_aliases_up_to_the_maximum_are_taken(self) -> None:
        """Each of them, and none above."""
        self.start(max_topic_alias=5)
        client = self.connect()
        self.assertEqual(5, connack_of(client).prop(Prop.TOPIC_ALIAS_MAXIMUM))
        client.subscribe("#")
        for alias in (1, 2, 3, 4, 5):
            client.publish(f"topic/{alias}", props=[(Prop.TOPIC_ALIAS, alias)])
            client.expect("PUBLISH", topic=f"topic/{alias}")
        for alias in (5, 4, 3, 2, 1):
            client.publish("", props=[(Prop.TOPIC_ALIAS, alias)])
            client.expect("PUBLISH", topic=f"topic/{alias}")
        for alias in (6, 65535):
            with self.case(alias):
                packet = p5.publish("t", props=[(Prop.TOPIC_ALIAS, alias)])
                self.cut_off(self.connect(), packet, Reason.ALIAS_INVALID)

    @statement("5", "MQTT-3.2.2-18")
    def test_no_aliases_at_all(self) -> None:
        """Topic Alias Maximum 0 or missing in CONNACK: any alias is invalid."""
        self.start(max_topic_alias=0)
        client = self.connect()
        self.assertIn(connack_of(client).prop(Prop.TOPIC_ALIAS_MAXIMUM), (None, 0))
        packet = p5.publish("t", props=[(Prop.TOPIC_ALIAS, 1)])
        self.cut_off(client, packet, Reason.ALIAS_INVALID)


class Subscriptions(Mqtt5Case):
    def test_broker_without_wildcards(self) -> None:
        """Announced in CONNACK; a filter with a wildcard gets 0xA2."""
        self.start(wildcard_subscriptions=False)
        client = self.connect()
        self.assertEqual(0, connack_of(client).prop(Prop.WILDCARD_AVAILABLE))
        client.subscribe("plain", granted=0)
        for filter in ("#", "a/+"):
            client.subscribe(filter, granted=Reason.NO_WILDCARDS)

    def test_broker_without_shared_subscriptions(self) -> None:
        """Announced in CONNACK; a shared filter gets 0x9E."""
        self.start(shared_subscriptions=False)
        client = self.connect()
        self.assertEqual(0, connack_of(client).prop(Prop.SHARED_AVAILABLE))
        client.subscribe("plain", granted=0)
        client.subscribe("$share/group/plain", granted=Reason.NO_SHARED)

    def test_receive_maximum_is_announced(self) -> None:
        """CONNACK has it unless it is 65535."""
        self.start(receive_maximum=7)
        self.assertEqual(7, connack_of(self.connect()).prop(Prop.RECEIVE_MAXIMUM))
