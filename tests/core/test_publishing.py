"""Messages from clients: QoS flows, aliases, limits, and those who may not."""

from typing import Any
from unittest import TestCase

from mhub.core.principal import Principal
from mhub.wire import reasons
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Packet, Prop


class Case(TestCase):
    def setUp(self) -> None:
        self.build()

    def build(self, **options: Any) -> None:
        self.world = World(**options)
        self.watcher = self.world.client("watcher", 5)
        self.watcher.subscribe("#", p.options(2, as_published=True))

    def client(self, version: int = 5, **connect: Any) -> Client:
        return self.world.client("c", version, **connect)

    def replies(self, client: Client) -> list[tuple[str, int | None, int | None]]:
        return [(packet.type, packet.pid, packet.reason) for packet in client.take()]

    def fault(self, client: Client, data: bytes) -> int | None:
        client.send(data)
        self.assertTrue(client.closed)
        return client.next("DISCONNECT").reason


class Flows(Case):
    def test_qos_0(self) -> None:
        client = self.client()
        client.publish("t", b"x")
        self.assertEqual((self.replies(client), self.watcher.payloads()), ([], [b"x"]))

    def test_qos_1(self) -> None:
        client = self.client(4)
        client.send(p.publish("t", b"x", 1, 300))
        self.assertEqual([reply[:2] for reply in self.replies(client)], [("PUBACK", 300)])
        self.assertEqual(self.watcher.payloads(), [b"x"])

    def test_qos_2_is_delivered_once(self) -> None:
        """[MQTT-4.3.3-10]: whatever is repeated, until PUBREL frees the packet id."""
        client = self.client()
        packet = p.publish("t", b"x", 2, 7, version=5)
        client.send(packet, packet)
        self.assertEqual(self.replies(client), [("PUBREC", 7, 0)] * 2)
        client.send(p.pubrel(7))
        client.send(packet)
        self.assertEqual(self.replies(client), [("PUBCOMP", 7, 0), ("PUBREC", 7, 0)])
        self.assertEqual(self.watcher.payloads(), [b"x", b"x"])

    def test_qos_2_is_delivered_once_over_two_connections(self) -> None:
        props = [(Prop.SESSION_EXPIRY, 100)]
        client = self.client(clean=False, props=props)
        client.send(p.publish("t", b"x", 2, 7, version=5))
        client.lose()
        client = self.client(clean=False, props=props)
        client.send(p.publish("t", b"x", 2, 7, dup=True, version=5), p.pubrel(7))
        self.assertEqual(self.replies(client), [("PUBREC", 7, 0), ("PUBCOMP", 7, 0)])
        self.assertEqual(self.watcher.payloads(), [b"x"])

    def test_also_if_the_client_forgets_to_say_dup(self) -> None:
        """A broker alone knows by the packet id."""
        props = [(p.Prop.SESSION_EXPIRY, 1000)]
        client = self.client(clean=False, props=props)
        client.send(p.publish("t", b"x", 2, 7, version=5))
        client.lose()
        client = self.client(clean=False, props=props)
        client.send(p.publish("t", b"x", 2, 7, version=5))
        self.assertEqual(self.replies(client), [("PUBREC", 7, 0)])
        self.assertEqual(self.watcher.payloads(), [b"x"])

    def test_a_release_of_nothing(self) -> None:
        client = self.client()
        client.send(p.pubrel(9))
        self.assertEqual(self.replies(client), [("PUBCOMP", 9, 0x92)])

    def test_before_version_5_replies_have_no_reason(self) -> None:
        """Not even for what is not known: a third byte would be malformed."""
        client = self.client(4)
        client.send(p.pubrel(9), p.pubrec(10))
        self.assertEqual([len(packet.body) for packet in client.take()], [2, 2])

    def test_replies_in_the_order_of_the_messages(self) -> None:
        """[MQTT-4.6.0-2], [MQTT-4.6.0-3]"""
        client = self.client(4)
        client.send(*(p.publish("t", b"", 1 + pid % 2, pid) for pid in range(1, 20)))
        self.assertEqual([pid for _, pid, _ in self.replies(client)], [*range(1, 20)])

    def test_nobody_to_send_it_to(self) -> None:
        world = World()
        client = world.client("c", 5)
        client.send(p.publish("t", b"", 1, 1, version=5), p.publish("t", b"", 2, 2, version=5))
        self.assertEqual(self.replies(client), [("PUBACK", 1, 0x10), ("PUBREC", 2, 0x10)])

    def test_a_member_of_a_shared_group_is_somebody(self) -> None:
        world = World()
        world.client("member").subscribe("$share/g/t", 1)
        client = world.client("c", 5)
        client.send(p.publish("t", b"", 1, 1, version=5), p.publish("t", b"", 2, 2, version=5))
        self.assertEqual(self.replies(client), [("PUBACK", 1, 0), ("PUBREC", 2, 0)])


class Limits(Case):
    def test_more_than_the_receive_maximum(self) -> None:
        """[MQTT-3.3.4-7]; acknowledged QoS 1 messages do not count."""
        self.build(receive_maximum=2)
        client = self.client()
        client.send(*(p.publish("t", b"", 1, pid, version=5) for pid in range(1, 9)))
        client.send(*(p.publish("t", b"", 2, pid, version=5) for pid in (10, 11)))
        client.take()
        self.assertEqual(self.fault(client, p.publish("t", b"", 2, 12, version=5)), 0x93)

    def test_a_release_makes_room_and_so_does_a_refusal(self) -> None:
        self.build(receive_maximum=1)
        client = self.client()
        for pid in range(1, 5):
            client.send(p.publish("t", b"", 2, pid, version=5), p.pubrel(pid))
            client.send(p.publish("$SYS/refused", b"", 2, pid, version=5))
            found = [packet.type for packet in client.take()]
            self.assertEqual(found, ["PUBREC", "PUBCOMP", "PUBREC"])

    def test_what_an_earlier_connection_left_makes_no_room(self) -> None:
        """[MQTT-3.3.4-7] counts messages of this connection: a PUBREL for another is none."""
        self.build(receive_maximum=1)
        kept = [(p.Prop.SESSION_EXPIRY, 1000)]
        first = self.world.client("c", 5, clean=False, props=kept)
        first.send(p.publish("t", b"", 2, 1, version=5))
        first.lose()
        client = self.world.client("c", 5, clean=False, props=kept)
        client.send(p.pubrel(1), p.publish("t", b"", 2, 2, version=5))
        self.assertEqual([packet.type for packet in client.take()], ["PUBCOMP", "PUBREC"])
        self.assertEqual(self.fault(client, p.publish("t", b"", 2, 3, version=5)), 0x93)

    def test_versions_without_a_receive_maximum(self) -> None:
        self.build(receive_maximum=2)
        client = self.client(4)
        client.send(*(p.publish("t", b"", 2, pid) for pid in range(1, 50)))
        self.assertEqual(len(client.take()), 49)

    def test_a_qos_that_is_not_offered(self) -> None:
        """[MQTT-3.2.2-11]"""
        self.build(max_qos=1)
        self.assertEqual(self.fault(self.client(), p.publish("t", b"", 2, 1, version=5)), 0x9B)

    def test_beyond_the_bound_of_retained_messages(self) -> None:
        """All who have subscribed get it; the publisher is told that others will not."""
        self.build(max_retained_messages=1)
        client = self.client()
        client.publish("kept", b"0", 1, retain=True)
        for qos in (0, 1, 2):
            client.publish(f"new/{qos}", b"%d" % qos, qos, retain=True)
        client.publish("plain", b"3", 1)
        client.publish("kept", b"4", 1, retain=True)
        self.assertEqual(
            self.replies(client),
            [
                ("PUBACK", 1, 0),
                ("PUBACK", 2, 0x97),
                ("PUBREC", 3, 0x97),
                ("PUBACK", 4, 0),
                ("PUBACK", 5, 0),
            ],
        )
        self.assertEqual(self.watcher.payloads(), [b"0", b"0", b"1", b"2", b"3", b"4"])
        self.assertEqual(self.world.stats.dropped_retained_full, 3)
        self.assertEqual(client.session.incoming, {})  # [MQTT-4.3.3-9]
        self.assertEqual(client.connection.unreleased, 0)
        old = self.world.client("old", version=4)
        old.publish("old", b"5", 1, retain=True)
        self.assertEqual([packet.type for packet in old.take()], ["PUBACK"])

    def test_retaining_where_it_is_not_offered(self) -> None:
        """[MQTT-3.2.2-14]"""
        self.build(retain_available=False)
        packet = p.publish("t", b"", retain=True, version=5)
        self.assertEqual(self.fault(self.client(), packet), 0x9A)

    def test_levels(self) -> None:
        self.build(max_topic_levels=3)
        client = self.client()
        client.publish("a/b/c")
        self.assertEqual(self.fault(client, p.publish("a/b/c/d", version=5)), 0x90)


class Aliases(Case):
    def publish(self, client: Client, topic: str, alias: int, payload: bytes = b"") -> None:
        client.send(p.publish(topic, payload, props=[(Prop.TOPIC_ALIAS, alias)], version=5))

    def topics(self, packets: list[Packet]) -> list[str | None]:
        return [packet.topic for packet in packets]

    def test_set_used_and_set_anew(self) -> None:
        client = self.client()
        for topic, alias in (("a", 1), ("", 1), ("b", 2), ("", 1), ("c", 1), ("", 1), ("", 2)):
            self.publish(client, topic, alias)
        found = self.watcher.take()
        self.assertEqual(self.topics(found), ["a", "a", "b", "a", "c", "c", "b"])
        self.assertTrue(all(packet.prop(Prop.TOPIC_ALIAS) is None for packet in found))

    def test_one_that_was_not_set(self) -> None:
        client = self.client()
        self.publish(client, "", 3)
        self.assertEqual(client.next("DISCONNECT").reason, 0x82)

    def test_one_that_is_too_large(self) -> None:
        """[MQTT-3.3.2-9]"""
        self.build(max_topic_alias=5)
        client = self.client()
        self.publish(client, "a", 5)
        self.assertFalse(client.closed)
        self.publish(client, "a", 6)
        self.assertEqual(client.next("DISCONNECT").reason, 0x94)

    def test_they_end_with_the_connection(self) -> None:
        """[MQTT-3.3.2-7]"""
        props = [(Prop.SESSION_EXPIRY, 100)]
        self.publish(self.client(clean=False, props=props), "a", 1)
        client = self.client(clean=False, props=props)
        self.publish(client, "", 1)
        self.assertTrue(client.closed)

    def test_towards_a_client_that_takes_them(self) -> None:
        """[MQTT-3.3.2-11]: no more than it takes; the name comes with the first use only."""
        client = self.client(props=[(Prop.TOPIC_ALIAS_MAXIMUM, 2)])
        client.subscribe("#")
        publisher = self.world.client("p")
        for topic in ("long/a", "long/b", "long/c", "long/a", "long/c", "long/b"):
            publisher.publish(topic)
        found = [(packet.topic, packet.prop(Prop.TOPIC_ALIAS)) for packet in client.take()]
        expected = [("long/a", 1), ("long/b", 2), ("long/c", None)]
        self.assertEqual(found, [*expected, ("", 1), ("long/c", None), ("", 2)])


class MountPoint(Case):
    def test_topics_behind_it(self) -> None:
        """Clients of such a listener live below the mount point and do not see it."""
        inside = [
            self.world.client(name, version, {"mount_point": "m/"}, will=("will", name.encode()))
            for name, version in (("one", 4), ("two", 5))
        ]
        for client in inside:
            client.subscribe("#", 1)
        inside[0].publish("t", b"in", 1)
        self.assertEqual(self.watcher.next("PUBLISH").topic, "m/t")
        inside[0].next("PUBLISH" if inside[0].outlet.data[0] >> 4 == 3 else "PUBACK")
        self.assertEqual(inside[1].next("PUBLISH").topic, "t")
        self.world.client("outside").publish("t", b"out")
        self.assertEqual(inside[1].take(), [])
        inside[0].lose()
        self.assertEqual(inside[1].next("PUBLISH").topic, "will")


class Authorization(Case):
    """The authorizer is asked once a message and once a filter; those who may know are told."""

    class NoSecrets:
        def connect(self, *_: object) -> int:
            return 0

        def rule_of(self, *_: object) -> str:
            return ""

        def publish(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
            return reasons.NOT_AUTHORIZED if topic == "secret" else 0

        def will(self, principal: Principal, topic: str, qos: int, retain: bool) -> int:
            return self.publish(principal, topic, qos, retain)

        def subscribe(self, principal: Principal, topic_filter: str, qos: int, share: str) -> int:
            return reasons.NOT_AUTHORIZED if topic_filter == "secret" else 0

        def receive(self, principal: Principal, topic: str) -> bool:
            return True

    def setUp(self) -> None:
        super().setUp()
        self.world.hub.authorize_with(self.NoSecrets())

    def test_publishing(self) -> None:
        client = self.client()
        client.send(p.publish("secret", b"", 1, 1, version=5))
        client.send(p.publish("secret", b"", 2, 2, version=5))
        client.send(p.publish("open", b"", 1, 3, version=5))
        found = [(packet.type, packet.reason) for packet in client.take()]
        self.assertEqual(found, [("PUBACK", 0x87), ("PUBREC", 0x87), ("PUBACK", 0)])
        self.assertEqual([packet.topic for packet in self.watcher.take()], ["open"])
        self.assertEqual(self.world.stats.publish_denied, 2)
        self.assertEqual(client.session.incoming, {})

    def test_version_3_is_told_nothing(self) -> None:
        client = self.client(4)
        client.publish("secret", b"", 1)
        self.assertEqual([packet.type for packet in client.take()], ["PUBACK"])

    def test_subscribing(self) -> None:
        for version, code in ((4, 0x80), (5, 0x87)):
            client = self.client(version)
            self.assertEqual(client.subscribe("secret").reasons, [code])
            self.assertEqual(client.session.subscriptions, {})
        self.assertEqual(self.world.stats.subscriptions_refused, 2)

    def test_wills(self) -> None:
        client = self.world.open(5)
        client.send(p.connect("c", 5, will=("secret", b"")))
        self.assertEqual(client.next("CONNACK").reason, 0x87)

    def test_the_brokers_own_topics(self) -> None:
        client = self.client()
        client.publish("$SYS/broker/version", b"mine", 1)
        self.assertEqual(client.next("PUBACK").reason, 0x87)


class PayloadLimit(Case):
    """message_size_limit: the flow goes on, the message does not."""

    def test_a_longer_payload_is_dropped_and_answered(self) -> None:
        self.build(message_size_limit=10)
        client = self.client()
        client.publish("t", b"x" * 11)
        client.send(p.publish("t", b"x" * 11, 1, 1, version=5))
        client.send(p.publish("t", b"x" * 11, 2, 2, version=5))
        one, two = client.take()
        self.assertEqual([(x.type, x.pid, x.reason) for x in (one, two)], REFUSED)
        self.assertIn("more than 10 bytes", one.prop(Prop.REASON_STRING))
        self.assertEqual(client.session.incoming, {})
        self.assertEqual(self.watcher.payloads(), [])
        self.assertEqual(self.world.stats.publish_refused_size, 3)

    def test_older_versions_are_told_nothing(self) -> None:
        self.build(message_size_limit=10)
        client = self.client(4)
        client.send(p.publish("t", b"x" * 11, 1, 1), p.publish("t", b"x" * 11, 2, 2), p.pubrel(2))
        kinds = [(packet.type, packet.pid) for packet in client.take()]
        self.assertEqual(kinds, [("PUBACK", 1), ("PUBREC", 2), ("PUBCOMP", 2)])
        self.assertEqual(self.watcher.payloads(), [])

    def test_what_fits_passes_whatever_else_is_in_the_packet(self) -> None:
        self.build(message_size_limit=10)
        self.client().publish("t/" * 20, b"x" * 10, 1, props=[(Prop.CONTENT_TYPE, "y" * 100)])
        self.assertEqual(self.watcher.payloads(), [b"x" * 10])
        self.assertEqual(self.world.stats.publish_refused_size, 0)

    def test_retained_messages_stay_what_they_were(self) -> None:
        self.build(message_size_limit=10)
        client = self.client()
        client.publish("t", b"old", retain=True)
        client.publish("t", b"x" * 11, retain=True)
        self.assertEqual(len(self.world.hub.retained), 1)
        self.assertEqual(self.watcher.payloads(), [b"old"])


REFUSED = [("PUBACK", 1, 0x83), ("PUBREC", 2, 0x83)]
