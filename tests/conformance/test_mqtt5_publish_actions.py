"""MQTT 5, chapters 3.3.2.3.4 and 3.3.4: aliases from clients, overlapping subscriptions, quotas."""

from tests.conformance import mqtt5 as p5
from tests.conformance.mqtt5 import Mqtt5Case, Reason
from tests.conformance.statements import statement
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class TopicAlias(Mqtt5Case):
    @statement("5", "MQTT-3.3.2-12")
    def test_an_alias_stands_for_its_topic(self) -> None:
        """For every QoS and for retained messages, from the packet that introduced it on."""
        watcher = self.watcher()
        client = self.connect()
        alias = [(Prop.TOPIC_ALIAS, 1)]
        client.publish("a/topic", "named", props=alias)
        watcher.expect("PUBLISH", topic="a/topic", payload=b"named", props=[])
        for qos in (0, 1, 2):
            client.publish("", "by alias", qos, retain=True, props=alias)
            watcher.expect("PUBLISH", topic="a/topic", payload=b"by alias", qos=qos)
        late = self.connect("late")
        late.subscribe("#")
        late.expect("PUBLISH", topic="a/topic", payload=b"by alias")

    def test_an_alias_can_be_given_to_another_topic(self) -> None:
        """The last introduction counts."""
        watcher = self.watcher()
        client = self.connect()
        alias = [(Prop.TOPIC_ALIAS, 1)]
        for topic in ("first", "second"):
            client.publish(topic, props=alias)
            watcher.expect("PUBLISH", topic=topic)
        client.publish("", props=alias)
        watcher.expect("PUBLISH", topic="second")

    def test_several_aliases_for_one_topic(self) -> None:
        """Each works."""
        watcher = self.watcher()
        client = self.connect()
        for alias in (1, 2):
            client.publish("t", props=[(Prop.TOPIC_ALIAS, alias)])
        for alias in (1, 2):
            client.publish("", props=[(Prop.TOPIC_ALIAS, alias)])
        for _ in range(4):
            watcher.expect("PUBLISH", topic="t")

    @statement("5", "MQTT-3.3.2-7")
    def test_aliases_end_with_the_connection(self) -> None:
        """The session goes on, its aliases do not."""
        client = self.resume()
        client.publish("t", props=[(Prop.TOPIC_ALIAS, 1)])
        client.close()
        packet = p5.publish("", props=[(Prop.TOPIC_ALIAS, 1)])
        self.cut_off(self.resume(), packet, Reason.PROTOCOL_ERROR)

    def test_aliases_belong_to_one_client(self) -> None:
        """Another client's alias means nothing."""
        self.connect("other").publish("t", props=[(Prop.TOPIC_ALIAS, 1)])
        packet = p5.publish("", props=[(Prop.TOPIC_ALIAS, 1)])
        self.cut_off(self.connect(), packet, Reason.PROTOCOL_ERROR)

    @statement("5", "MQTT-3.3.2-8")
    def test_alias_0_is_invalid(self) -> None:
        """With a topic and without."""
        for topic in ("t", ""):
            packet = p5.publish(topic, props=[(Prop.TOPIC_ALIAS, 0)])
            self.cut_off(self.connect(), packet, Reason.ALIAS_INVALID)

    def test_an_alias_is_introduced_even_if_the_publish_is_refused(self) -> None:
        """The mapping is a matter of the connection, not of what the message may do."""
        client = self.connect()
        alias = [(Prop.TOPIC_ALIAS, 1)]
        for topic in ("$SYS/forbidden", ""):
            puback = client.publish(topic, "x", 1, props=alias)
            assert puback is not None
            self.assertEqual(Reason.NOT_AUTHORIZED, puback.reason)


class Replies(Mqtt5Case):
    @statement("5", "MQTT-3.3.4-1", "MQTT-4.3.2-4", "MQTT-4.3.3-8")
    def test_the_reply_depends_on_the_qos(self) -> None:
        """Nothing, PUBACK or PUBREC."""
        client = self.connect()
        client.send(p5.publish("t", b"x", 0))
        client.expect_nothing()
        client.send(p5.publish("t", b"x", 1, 10))
        client.expect("PUBACK", pid=10)
        client.send(p5.publish("t", b"x", 2, 11))
        client.expect("PUBREC", pid=11)
        client.expect_nothing()

    def test_a_message_without_subscribers(self) -> None:
        """0x10 says that nobody was there, 0x00 that somebody was."""
        client = self.connect()
        for qos in (1, 2):
            client.send(p5.publish("nobody", b"x", qos, qos))
            reason = Reason.NO_MATCHING_SUBSCRIBERS
            client.expect("PUBACK" if qos == 1 else "PUBREC", reason=reason)
        self.watcher()
        for qos in (1, 2):
            client.send(p5.publish("somebody", b"x", qos, 2 + qos))
            client.expect("PUBACK" if qos == 1 else "PUBREC", reason=0)

    def test_a_message_that_is_not_allowed(self) -> None:
        """$SYS belongs to the broker: 0x87, and nothing is delivered or kept."""
        watcher = self.connect("watcher")
        watcher.subscribe("$SYS/mine", 2)
        client = self.connect()
        for qos in (0, 1, 2):
            reply = client.publish("$SYS/mine", b"x", qos, retain=True)
            if reply is not None:
                self.assertEqual(Reason.NOT_AUTHORIZED, reply.reason)
        client.ping()
        watcher.expect_nothing()


class Overlapping(Mqtt5Case):
    @statement("5", "MQTT-3.3.4-2", "MQTT-3.3.4-4")
    def test_one_copy_with_the_highest_qos(self) -> None:
        """Of all subscriptions that match; those that do not match do not count."""
        client = self.connect()
        client.subscribe("a/#", 0)
        client.subscribe("a/b", 1)
        client.subscribe("+/b", 0)
        client.subscribe("other", 2)
        sender = self.connect("sender")
        for qos, delivered in ((0, 0), (1, 1), (2, 1)):
            sender.publish("a/b", "x", qos)
            client.expect("PUBLISH", qos=delivered)
            client.expect_nothing()
        client.subscribe("#", 2)
        sender.publish("a/b", "x", 2)
        client.expect("PUBLISH", qos=2)
        client.expect_nothing()

    @statement("5", "MQTT-3.3.4-3", "MQTT-3.3.4-4", "MQTT-3.3.4-5")
    def test_all_subscription_identifiers(self) -> None:
        """The one copy names every matching subscription that has an identifier."""
        client = self.connect()
        for filter, number in (("a/#", 1), ("+/b", 268_435_455), ("a/b", 1), ("other", 7)):
            client.subscribe(filter, props=[(Prop.SUBSCRIPTION_ID, number)])
        client.subscribe("#")
        sender = self.connect("sender")
        for topic, numbers in (
            ("a/b", [1, 1, 268_435_455]),
            ("a/c", [1]),
            ("x/b", [268_435_455]),
            ("nothing", []),
        ):
            sender.publish(topic)
            packet = client.expect("PUBLISH", topic=topic)
            self.assertEqual(numbers, sorted(packet.all_props(Prop.SUBSCRIPTION_ID)))
            client.expect_nothing()

    @statement("5", "MQTT-3.3.4-3")
    def test_identifiers_of_queued_and_retained_messages(self) -> None:
        """They come along however the message came to the client."""
        self.connect("sender").publish("t", "kept", 1, retain=True)
        client = self.resume()
        client.subscribe("t", 1, props=[(Prop.SUBSCRIPTION_ID, 5)])
        packet = client.expect("PUBLISH", payload=b"kept")
        self.assertEqual([(Prop.SUBSCRIPTION_ID, 5)], packet.props)
        client.acknowledge(packet)
        client.close()
        self.connect("sender").publish("t", "waited", 1, props=[(Prop.CONTENT_TYPE, "c")])
        packet = self.resume().expect("PUBLISH", payload=b"waited")
        props = [(Prop.CONTENT_TYPE, "c"), (Prop.SUBSCRIPTION_ID, 5)]
        self.assertCountEqual(props, packet.props)

    def test_a_new_subscribe_sets_or_takes_the_identifier(self) -> None:
        """The last SUBSCRIBE for a filter counts, also if it has no identifier."""
        client = self.connect()
        for number in (1, 2, None, 3):
            props = [] if number is None else [(Prop.SUBSCRIPTION_ID, number)]
            client.subscribe("t", props=props)
            client.publish("t")
            client.expect("PUBLISH", props=props)

    def test_one_identifier_for_all_filters_of_a_subscribe(self) -> None:
        """And each subscriber gets its own."""
        one = self.connect("one")
        filters = [("a", 0), ("b", 0)]
        one.send(p5.subscribe(1, *filters, props=[(Prop.SUBSCRIPTION_ID, 1)]))
        one.expect("SUBACK")
        two = self.connect("two")
        two.subscribe("a", props=[(Prop.SUBSCRIPTION_ID, 2)])
        sender = self.connect("sender")
        sender.publish("a")
        sender.publish("b")
        for topic in ("a", "b"):
            one.expect("PUBLISH", topic=topic, props=[(Prop.SUBSCRIPTION_ID, 1)])
        two.expect("PUBLISH", topic="a", props=[(Prop.SUBSCRIPTION_ID, 2)])


class ReceiveMaximum(Mqtt5Case):
    @statement("5", "MQTT-3.3.4-7")
    def test_client_above_the_receive_maximum_is_disconnected(self) -> None:
        """With 0x93, at the first message too many."""
        self.start(receive_maximum=3)
        client = self.connect()
        for pid in (1, 2, 3):
            client.send(p5.publish("t", b"x", 2, pid))
            client.expect("PUBREC", pid=pid)
        self.cut_off(client, p5.publish("t", b"x", 2, 4), Reason.RECEIVE_MAXIMUM)

    @statement("5", "MQTT-3.3.4-7")
    def test_what_is_acknowledged_makes_room(self) -> None:
        """PUBCOMP, PUBACK and a refusing PUBREC give the quota back; a repeat takes none."""
        self.start(receive_maximum=2)
        client = self.connect()
        client.send(p5.publish("t", b"x", 2, 1))
        client.expect("PUBREC", pid=1)
        client.send(p5.publish("t", b"x", 2, 1, dup=True))
        client.expect("PUBREC", pid=1)
        for _ in range(5):
            client.publish("t", b"x", 1, pid=2)
            client.publish("t", b"x", 2, pid=2)
            client.publish("$SYS/forbidden", b"x", 2, pid=2)
        client.send(p.pubrel(1))
        client.expect("PUBCOMP", pid=1)

    @statement("5", "MQTT-3.3.4-7", "MQTT-4.9.0-1")
    def test_each_connection_has_its_own_quota(self) -> None:
        """A message that waits for PUBREL since an earlier connection takes none of it."""
        self.start(receive_maximum=1)
        client = self.resume()
        client.send(p5.publish("t", b"x", 2, 1))
        client.expect("PUBREC", pid=1)
        client.abort()
        client = self.resume()
        client.send(p5.publish("t", b"x", 2, 2))
        client.expect("PUBREC", pid=2)
        client.send(p.pubrel(1))
        client.expect("PUBCOMP", pid=1, reason=0)
        self.cut_off(client, p5.publish("t", b"x", 2, 3), Reason.RECEIVE_MAXIMUM)

    @statement("5", "MQTT-3.3.4-9", "MQTT-4.9.0-1", "MQTT-4.9.0-2")
    def test_broker_stays_within_the_receive_maximum_of_the_client(self) -> None:
        """That many QoS 1 and 2 messages at a time, the next for each acknowledged one."""
        for window in (1, 3):
            with self.case(window):
                client = self.connect(f"c{window}", props=[(Prop.RECEIVE_MAXIMUM, window)])
                client.subscribe("t", 2)
                sender = self.connect("sender")
                for number in range(8):
                    sender.publish("t", str(number), 1 + number % 2)
                waiting = [client.expect("PUBLISH") for _ in range(window)]
                client.expect_nothing()
                for number in range(window, 8):
                    client.acknowledge(waiting.pop(0))
                    waiting.append(client.expect("PUBLISH", payload=str(number).encode()))
                    client.expect_nothing()

    @statement("5", "MQTT-3.3.4-10", "MQTT-4.9.0-3")
    def test_at_the_limit_everything_else_still_works(self) -> None:
        """QoS 0 messages, acknowledgements, SUBACK and PINGRESP are not held back."""
        client = self.connect(props=[(Prop.RECEIVE_MAXIMUM, 1)])
        client.subscribe("t", 2)
        sender = self.connect("sender")
        sender.publish("t", "in flight", 2)
        sender.publish("t", "waiting", 2)
        pid = client.expect("PUBLISH", payload=b"in flight").pid
        assert pid is not None
        client.subscribe("zero")
        sender.publish("zero", "at once")
        client.expect("PUBLISH", topic="zero", qos=0)
        client.publish("other", "x", 2)
        client.unsubscribe("zero")
        client.ping()
        client.send(p.pubrec(pid))
        client.expect("PUBREL", pid=pid)
        client.expect_nothing()
        client.send(p.pubcomp(pid))
        client.expect("PUBLISH", payload=b"waiting")

    @statement("5", "MQTT-3.3.4-9")
    def test_a_refusing_pubrec_gives_the_quota_back(self) -> None:
        """There is no PUBREL and no PUBCOMP to wait for."""
        client = self.connect(props=[(Prop.RECEIVE_MAXIMUM, 1)])
        client.subscribe("t", 2)
        sender = self.connect("sender")
        for number in range(3):
            sender.publish("t", str(number), 2)
        for number in range(3):
            pid = client.expect("PUBLISH", payload=str(number).encode()).pid
            assert pid is not None
            client.send(p.pubrec(pid, Reason.UNSPECIFIED))
        client.expect_nothing()
