"""MQTT 5, chapters 3.1.2.10, 3.1.2.11 and 3.1.4: keep-alive, properties, the answer."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.client import RawClient
from tests.helpers.packets import Packet, Prop


class KeepAlive(Mqtt5Case):
    @statement("5", "MQTT-3.1.2-22", "MQTT-3.2.2-22")
    def test_silence_for_one_and_a_half_intervals_ends_the_connection(self) -> None:
        """The client hears why; one that speaks in time stays."""
        client = self.connect(keepalive=10)
        assert client.connack is not None
        self.assertIsNone(client.connack.prop(Prop.SERVER_KEEP_ALIVE))
        for _ in range(5):
            self.advance(14)
            client.ping()
        self.advance(14)
        client.expect_nothing()
        self.advance(2)
        client.closed_after("DISCONNECT", reason=Reason.KEEP_ALIVE)

    @statement("5", "MQTT-3.1.2-22")
    def test_any_packet_counts_as_a_sign_of_life(self) -> None:
        """Not PINGREQ alone."""
        client = self.connect(keepalive=10)
        for packet in (
            p5.publish("t", b"x"),
            p5.subscribe(1, ("t", 0)),
            p5.publish("t", b"x", qos=2, pid=2),
            p.pubrel(2),
            p5.unsubscribe(3, "t"),
        ):
            self.advance(14)
            client.send(packet)
        client.drain()
        self.advance(14)
        client.ping()

    @statement("5", "MQTT-3.1.2-22")
    def test_what_the_broker_sends_is_no_sign_of_life(self) -> None:
        """A client that only listens still has to ping."""
        client = self.connect(keepalive=10)
        client.subscribe("t")
        sender = self.connect("sender")
        for _ in range(2):
            self.advance(7)
            sender.publish("t")
            client.expect("PUBLISH")
        self.advance(2)
        client.closed_after("DISCONNECT", reason=Reason.KEEP_ALIVE)

    def test_keep_alive_0_turns_it_off(self) -> None:
        """No silence is too long."""
        client = self.connect(keepalive=0)
        self.advance(1_000_000)
        client.ping()

    def test_server_keep_alive_replaces_what_the_client_asked_for(self) -> None:
        """CONNACK has the lower value, and that one is enforced."""
        self.start(max_keepalive_s=60)
        client = self.connect(keepalive=600)
        assert client.connack is not None
        self.assertEqual(60, client.connack.prop(Prop.SERVER_KEEP_ALIVE))
        self.advance(88)
        client.ping()
        self.advance(92)
        client.closed_after("DISCONNECT", reason=Reason.KEEP_ALIVE)


class MaximumPacketSize(Mqtt5Case):
    def small(self, size: int = 60, **args: int) -> RawClient:
        props = [(Prop.MAXIMUM_PACKET_SIZE, size), (Prop.RECEIVE_MAXIMUM, 1)]
        return self.connect("small", props=props, **args)

    @statement("5", "MQTT-3.1.2-24", "MQTT-3.1.2-25")
    def test_too_large_a_message_is_left_out(self) -> None:
        """What fits arrives, what does not is dropped, for this client alone."""
        small = self.small()
        small.subscribe("t", 2)
        watcher = self.watcher()
        for qos in (0, 1, 2):
            self.connect("sender").publish("t", b"x" * 100, qos)
            watcher.expect("PUBLISH", payload=b"x" * 100)
            small.expect_nothing()
            self.connect("sender").publish("t", b"small", qos)
            small.acknowledge(small.expect("PUBLISH", payload=b"small"))
            watcher.expect("PUBLISH", payload=b"small")

    @statement("5", "MQTT-3.1.2-24")
    def test_the_limit_counts_the_whole_packet(self) -> None:
        """A packet of exactly that size goes out, one byte more does not."""
        small = self.small(60)
        small.subscribe("t")
        sender = self.connect("sender")
        overhead = len(p5.publish("t"))
        sender.publish("t", b"x" * (61 - overhead))
        small.expect_nothing()
        sender.publish("t", b"x" * (60 - overhead))
        self.assertEqual(60, small.expect("PUBLISH").size)

    @statement("5", "MQTT-3.1.2-25")
    def test_a_message_left_out_counts_as_delivered(self) -> None:
        """It takes no quota, does not come back, and holds nothing up."""
        props = [(Prop.MAXIMUM_PACKET_SIZE, 60), (Prop.RECEIVE_MAXIMUM, 1)]
        client = self.resume("small", props=props)
        client.subscribe("t", 1)
        client.close()
        sender = self.connect("sender")
        sender.publish("t", b"x" * 100, 1)
        sender.publish("t", b"small", 1)
        client = self.resume("small", props=props)
        client.acknowledge(client.expect("PUBLISH", payload=b"small"))
        client.close()
        self.resume("small").expect_nothing()

    @statement("5", "MQTT-3.1.2-24")
    def test_retained_messages_obey_the_limit(self) -> None:
        """Also those that a SUBSCRIBE brings."""
        sender = self.connect("sender")
        sender.publish("large", b"x" * 100, retain=True)
        sender.publish("small", b"x", retain=True)
        small = self.small()
        small.subscribe("#")
        small.expect("PUBLISH", topic="small")
        small.expect_nothing()


class TopicAliases(Mqtt5Case):
    def deliveries(self, maximum: int | None) -> list[Packet]:
        """What a subscriber with this Topic Alias Maximum gets: four topics, three times each."""
        props = [] if maximum is None else [(Prop.TOPIC_ALIAS_MAXIMUM, maximum)]
        client = self.connect("subscriber", props=props)
        client.subscribe("#")
        sender = self.connect("sender")
        for _ in range(3):
            for topic in ("topic/one", "topic/two", "topic/three", "topic/four"):
                sender.publish(topic, topic)
        return [client.expect("PUBLISH") for _ in range(12)]

    @statement("5", "MQTT-3.1.2-26", "MQTT-3.3.2-8", "MQTT-3.3.2-11")
    def test_aliases_stay_within_the_maximum_and_mean_what_they_say(self) -> None:
        """From 1 to the maximum, each introduced with its topic before it stands alone."""
        for maximum in (1, 2, 10, 65535):
            known: dict[int, str] = {}
            for packet in self.deliveries(maximum):
                alias = packet.prop(Prop.TOPIC_ALIAS)
                if alias is not None:
                    self.assertTrue(1 <= alias <= maximum, alias)
                    if packet.topic:
                        known[alias] = packet.topic
                topic = packet.topic or known[alias]
                self.assertEqual(packet.payload, topic.encode())

    @statement("5", "MQTT-3.1.2-27")
    def test_no_aliases_without_a_maximum(self) -> None:
        """Missing or 0: every message has its topic and no alias."""
        for maximum in (None, 0):
            for packet in self.deliveries(maximum):
                self.assertIsNone(packet.prop(Prop.TOPIC_ALIAS))
                self.assertEqual(packet.payload.decode(), packet.topic)

    @statement("5", "MQTT-3.3.2-7")
    def test_aliases_of_the_broker_end_with_the_connection(self) -> None:
        """On the next connection each alias is introduced anew."""
        for _ in range(2):
            packets = self.deliveries(10)
            introduced = set()
            for packet in packets:
                alias = packet.prop(Prop.TOPIC_ALIAS)
                if packet.topic:
                    introduced.add(alias)
                else:
                    self.assertIn(alias, introduced)

    def test_a_message_that_was_too_large_introduces_no_alias(self) -> None:
        """The client has not seen it: the next one has its topic, and every alias is explained."""
        props = [(Prop.TOPIC_ALIAS_MAXIMUM, 10), (Prop.MAXIMUM_PACKET_SIZE, 60)]
        client = self.connect(props=props)
        client.subscribe("#")
        sender = self.connect("sender")
        for size in range(30, 70):
            sender.publish("a/topic", b"x" * size)
        sender.publish("a/topic", b"small")
        known: dict[int, str] = {}
        packets = client.drain()
        for packet in packets:
            alias = packet.prop(Prop.TOPIC_ALIAS)
            if packet.topic and alias:
                known[alias] = packet.topic
            self.assertEqual("a/topic", packet.topic or known[alias])
            self.assertLessEqual(packet.size, 60)
        self.assertEqual(b"small", packets[-1].payload)

    def test_an_alias_does_not_make_a_message_too_large(self) -> None:
        """Three bytes for an alias may be more than the topic: what fits without one arrives."""
        props = [(Prop.TOPIC_ALIAS_MAXIMUM, 10), (Prop.MAXIMUM_PACKET_SIZE, 60)]
        client = self.connect(props=props)
        client.subscribe("#")
        sender = self.connect("sender")
        overhead = len(p5.publish("t"))
        for size in (1, 60 - overhead, 1, 59 - overhead, 58 - overhead):
            sender.publish("t", b"x" * size)
            self.assertEqual(size, len(client.expect("PUBLISH").payload))

    def test_resent_messages_do_not_rely_on_an_old_alias(self) -> None:
        """A message that comes again on a new connection has its topic."""
        props = [(Prop.TOPIC_ALIAS_MAXIMUM, 10)]
        client = self.resume(props=props)
        client.subscribe("topic", 1)
        sender = self.connect("sender")
        for number in range(3):
            sender.publish("topic", str(number), 1)
        client.drain()
        client.abort()
        client = self.resume(props=props)
        known: dict[int, str] = {}
        for number in range(3):
            packet = client.expect("PUBLISH", payload=str(number).encode(), dup=True)
            alias = packet.prop(Prop.TOPIC_ALIAS)
            if packet.topic:
                known[alias] = packet.topic
            self.assertEqual("topic", packet.topic or known[alias])


class Information(Mqtt5Case):
    @statement("5", "MQTT-3.1.2-28")
    def test_no_response_information_unless_asked_for(self) -> None:
        """Request Response Information 0 or missing."""
        for props in ([], [(Prop.REQUEST_RESPONSE_INFO, 0)]):
            connack = self.connect(props=props).connack
            assert connack is not None
            self.assertIsNone(connack.prop(Prop.RESPONSE_INFO))

    def test_response_information_may_be_asked_for(self) -> None:
        """Whether the broker has any or not, the client is accepted."""
        self.connect(props=[(Prop.REQUEST_RESPONSE_INFO, 1)]).ping()

    def replies(self, client: RawClient) -> list[Packet]:
        """Answers of every kind that may carry a reason string, failures where there are any."""
        client.send(
            p5.publish("$SYS/forbidden", b"x", qos=1, pid=1),
            p5.publish("$SYS/forbidden", b"x", qos=2, pid=2),
            p5.publish("nobody", b"x", qos=1, pid=1),
            p5.publish("nobody", b"x", qos=2, pid=3),
            p.pubrel(3),
            p.pubrel(99),
            p.pubrec(99),
            p5.subscribe(4, ("t", 0), ("$share/g/t", 1)),
            p5.unsubscribe(5, "t", "never/subscribed"),
        )
        return client.drain()

    @statement("5", "MQTT-3.1.2-29")
    def test_problem_information_can_be_turned_off(self) -> None:
        """Then acknowledgements carry neither Reason String nor User Property."""
        client = self.connect(props=[(Prop.REQUEST_PROBLEM_INFO, 0)])
        replies = self.replies(client)
        types = ["PUBACK", "PUBREC", "PUBACK", "PUBREC", "PUBCOMP", "PUBCOMP", "PUBREL"]
        self.assertEqual([*types, "SUBACK", "UNSUBACK"], [packet.type for packet in replies])
        for packet in replies:
            self.assertEqual([], packet.props, packet)

    def test_problem_information_is_on_by_default(self) -> None:
        """A refused PUBLISH says why in words."""
        for props in ([], [(Prop.REQUEST_PROBLEM_INFO, 1)]):
            puback = self.replies(self.connect(props=props))[0]
            self.assertEqual(Reason.NOT_AUTHORIZED, puback.reason)
            self.assertTrue(puback.prop(Prop.REASON_STRING))

    @statement("5", "MQTT-3.1.2-29")
    def test_disconnect_may_still_say_why(self) -> None:
        """Problem information off does not silence CONNACK, PUBLISH and DISCONNECT."""
        watcher = self.connect("watcher", props=[(Prop.REQUEST_PROBLEM_INFO, 0)])
        watcher.subscribe("t")
        self.connect("sender").publish("t", props=[(Prop.USER_PROPERTY, ("a", "b"))])
        self.assertEqual([("a", "b")], watcher.expect("PUBLISH").all_props(Prop.USER_PROPERTY))
        self.cut_off(watcher, p.frame(0x36, b"\0\1t"), Reason.MALFORMED)

    def test_user_properties_of_connect_are_taken(self) -> None:
        """Any number of them, the same one twice too."""
        props = [(Prop.USER_PROPERTY, ("a", "b")), (Prop.USER_PROPERTY, ("a", "b"))]
        self.connect(props=props).ping()


class Answer(Mqtt5Case):
    @statement("5", "MQTT-3.1.4-5")
    def test_valid_connect_is_answered_by_connack_0(self) -> None:
        """With everything in it or next to nothing."""
        for packet in (
            p5.connect("a"),
            p5.connect("a", clean=False, keepalive=60, username="u", password="p"),
            p5.connect("a", will=("t", b"x", 2, True), props=[(Prop.RECEIVE_MAXIMUM, 1)]),
        ):
            client = self.open()
            client.send(packet)
            client.expect("CONNACK", reason=0)

    @statement("5", "MQTT-3.1.4-6")
    def test_what_stands_behind_a_refused_connect_is_ignored(self) -> None:
        """Sent along with it or after it, it has no effect and no answer."""
        watcher = self.watcher()
        client = self.open()
        client.send(
            p5.connect(flags=0x03),
            p5.subscribe(1, ("t", 0)),
            p5.publish("t", b"x", qos=1, pid=1),
            p.pingreq(),
        )
        client.closed_after("CONNACK", reason=Reason.MALFORMED)
        watcher.expect_nothing()

    def test_packets_behind_an_accepted_connect_are_handled(self) -> None:
        """A client need not wait for CONNACK."""
        client = self.open()
        client.send(p5.connect(), p5.subscribe(1, ("t", 0)), p5.publish("t", b"x"))
        client.expect("CONNACK", reason=0)
        client.expect("SUBACK", pid=1)
        client.expect("PUBLISH", payload=b"x")

    def test_connect_has_to_come_in_time(self) -> None:
        """A connection without CONNECT is closed after a while."""
        self.start(connect_timeout_s=10)
        client = self.open()
        client.send(p5.connect()[:5])
        self.advance(9)
        client.expect_nothing()
        self.advance(2)
        client.expect_closed()
