"""SUBSCRIBE and UNSUBSCRIBE: what is granted, what retained messages come, what is refused."""

from typing import Any
from unittest import TestCase

from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Case(TestCase):
    def setUp(self) -> None:
        self.build()

    def build(self, **options: Any) -> None:
        self.world = World(**options)
        self.publisher = self.world.client("publisher")

    def client(self, version: int = 5, **connect: Any) -> Client:
        return self.world.client("c", version, **connect)

    def retained(self, client: Client, *filters: tuple[str, int], **rest: Any) -> list[str]:
        """The topics of what is retained and comes upon a SUBSCRIBE, behind its SUBACK."""
        client.send(p.subscribe(5, *filters, version=client.version, **rest))
        self.world.settle()
        client.next("SUBACK")
        found = client.take()
        assert all(packet.retain for packet in found)
        return [packet.topic or "" for packet in found]


class Answers(Case):
    def test_a_code_for_each_filter_in_its_order(self) -> None:
        """[MQTT-3.8.4-6]"""
        for version in (3, 4, 5):
            client = self.client(version)
            client.send(p.subscribe(5, ("a", 2), ("b", 0), ("c", 1), version=version))
            self.assertEqual(client.next("SUBACK").reasons, [2, 0, 1])

    def test_what_is_granted_is_what_is_offered(self) -> None:
        self.build(max_qos=1)
        self.assertEqual(self.client().subscribe("a", 2).reasons, [1])

    def test_what_a_listener_does_not_offer(self) -> None:
        self.build(wildcard_subscriptions=False, shared_subscriptions=False)
        filters = (("a/+", 0), ("$share/g/a", 0), ("a", 0))
        for version, codes in ((5, [0xA2, 0x9E, 0]), (4, [0x80, 0x80, 0])):
            client = self.client(version)
            client.send(p.subscribe(5, *filters, version=version))
            self.assertEqual(client.next("SUBACK").reasons, codes)

    def test_more_subscriptions_than_allowed(self) -> None:
        """Those that are there may still be changed."""
        self.build(max_subscriptions=2)
        client = self.client()
        client.send(p.subscribe(5, ("a", 0), ("b", 0), ("c", 0), ("a", 1), version=5))
        suback = client.next("SUBACK")
        self.assertEqual(suback.reasons, [0, 0, 0x97, 1])
        self.assertTrue(suback.prop(Prop.REASON_STRING))
        self.assertEqual(set(client.session.subscriptions), {"a", "b"})
        client.send(p.unsubscribe(6, "b", version=5))
        client.next("UNSUBACK")
        self.assertEqual(client.subscribe("c").reasons, [0])

    def test_patterns_of_wildcards_below_a_mount_point(self) -> None:
        """What counts is the filter in full, with the mount point once."""
        self.build(max_wildcard_patterns=1)
        client = self.world.client("c", 5, {"mount_point": "m/n/o/p/"})
        suback = client.subscribe("+/b/c/d/e")
        self.assertEqual(suback.reasons, [0])
        self.assertEqual(self.world.hub.router.filters.patterns, {"----+----": 1})
        for topic_filter, code in (("+/b/c/d/x", 0), ("a/+/c/d/e", 0x97), ("+/b/c", 0)):
            self.assertEqual(client.subscribe(topic_filter).reasons, [code], topic_filter)
        self.assertEqual(len(self.world.hub.router.filters.patterns), 1)

    def test_more_patterns_of_wildcards_than_allowed(self) -> None:
        """Refused is what makes searches longer; other names in a pattern that is there do not."""
        self.build(max_wildcard_patterns=2)
        client = self.client()
        deep = "/b/c/d/e/f/g/h/i"
        asked = ("+" + deep, "a/+" + deep, "a/b/+" + deep, "z/+" + deep, "+/+", "a" + deep)
        client.send(p.subscribe(5, *[(text, 0) for text in asked], version=5))
        suback = client.next("SUBACK")
        self.assertEqual(suback.reasons, [0, 0, 0x97, 0, 0, 0])
        self.assertTrue(suback.prop(Prop.REASON_STRING))
        self.assertNotIn("a/b/+" + deep, client.session.subscriptions)
        self.assertEqual(self.world.stats.subscriptions_refused_patterns, 1)
        old = self.world.client("old", version=4)
        self.assertEqual(old.subscribe("a/b/+" + deep).reasons, [0x80])
        client.send(p.unsubscribe(6, "+" + deep, version=5))
        client.next("UNSUBACK")
        self.assertEqual(old.subscribe("a/b/+" + deep).reasons, [0])

    def test_patterns_below_a_mount_point(self) -> None:
        """Its levels count once: filters with 8 levels in all are free."""
        self.build(max_wildcard_patterns=1, mount_point="m/")
        client = self.client()
        found = [client.subscribe("+" + "/x" * more).reasons for more in (10, 7, 6)]
        self.assertEqual(found, [[0], [0x97], [0]])

    def test_all_of_a_packet_or_nothing(self) -> None:
        """A filter that breaks the rules ends the connection before any other is taken."""
        for wrong in (("a#", 0), ("$share//x", 0), ("$share/g/x", p.options(no_local=True))):
            client = self.client(clean=False, props=[(Prop.SESSION_EXPIRY, 100)])
            client.send(p.subscribe(5, ("fine", 0), wrong, version=5))
            self.assertTrue(client.closed)
            self.assertEqual(self.world.hub.router.subscriptions, 0)

    def test_leaving(self) -> None:
        """[MQTT-3.11.3-1], [MQTT-3.11.3-2]"""
        client = self.client()
        client.subscribe("a/#")
        client.send(p.unsubscribe(6, "a/#", "a/+", version=5))
        self.assertEqual(client.next("UNSUBACK").reasons, [0, 0x11])
        self.publisher.publish("a/b")
        self.assertEqual(client.take(), [])

    def test_filters_are_compared_character_by_character(self) -> None:
        """[MQTT-3.10.4-1]"""
        client = self.client()
        client.subscribe("a/+")
        client.send(p.unsubscribe(6, "a/b", "A/+", "$share/g/a/+", version=5))
        self.assertEqual(client.next("UNSUBACK").reasons, [0x11] * 3)
        self.publisher.publish("a/b")
        self.assertEqual(len(client.take()), 1)


class Options(Case):
    def test_subscription_identifiers(self) -> None:
        """[MQTT-3.3.4-3], [MQTT-3.3.4-4]: all that match, in one message."""
        client = self.client()
        for topic_filter, number in (("a/#", 1), ("+/b", 300), ("c", 3)):
            client.subscribe(topic_filter, props=[(Prop.SUBSCRIPTION_ID, number)])
        self.publisher.publish("a/b")
        (packet,) = client.take()
        self.assertEqual(sorted(packet.all_props(Prop.SUBSCRIPTION_ID)), [1, 300])

    def test_a_new_subscription_replaces_the_old_one(self) -> None:
        """[MQTT-3.8.4-3]: options and identifier, and no message comes twice."""
        client = self.client()
        client.subscribe("t", 2, props=[(Prop.SUBSCRIPTION_ID, 1)])
        client.subscribe("t", 0, props=[(Prop.SUBSCRIPTION_ID, 2)])
        self.publisher.publish("t", b"x", 2)
        packets = [packet for packet in client.take() if packet.type == "PUBLISH"]
        found = [(packet.qos, packet.all_props(Prop.SUBSCRIPTION_ID)) for packet in packets]
        self.assertEqual(found, [(0, [2])])

    def test_no_local(self) -> None:
        """[MQTT-3.8.3-3]"""
        client = self.client()
        client.subscribe("t", p.options(no_local=True))
        client.publish("t", b"own")
        self.publisher.publish("t", b"other")
        self.assertEqual(client.payloads(), [b"other"])

    def test_no_local_beside_a_subscription_without_it(self) -> None:
        client = self.client()
        client.subscribe("t", p.options(2, no_local=True), props=[(Prop.SUBSCRIPTION_ID, 1)])
        client.subscribe("#", 1, props=[(Prop.SUBSCRIPTION_ID, 2)])
        client.send(p.publish("t", b"own", 2, 9, version=5))
        (packet,) = [packet for packet in client.take() if packet.type == "PUBLISH"]
        self.assertEqual((packet.qos, packet.all_props(Prop.SUBSCRIPTION_ID)), (1, [2]))

    def test_retain_as_published(self) -> None:
        """[MQTT-3.3.1-12], [MQTT-3.3.1-13]"""
        plain, kept = self.client(), self.world.client("d", 5)
        plain.subscribe("t")
        kept.subscribe("t", p.options(as_published=True))
        self.publisher.publish("t", b"x", retain=True)
        self.publisher.publish("t", b"y")
        self.assertEqual([packet.retain for packet in plain.take()], [False, False])
        self.assertEqual([packet.retain for packet in kept.take()], [True, False])


class Retained(Case):
    def build(self, **options: Any) -> None:
        super().build(**options)
        for topic in ("a", "a/b", "c", "$x/y"):
            self.publisher.publish(topic, topic.encode(), 1, retain=True)
        self.publisher.take()

    def test_what_matches(self) -> None:
        client = self.client()
        self.assertEqual(sorted(self.retained(client, ("a/#", 0))), ["a", "a/b"])
        self.assertEqual(sorted(self.retained(client, ("#", 0))), ["a", "a/b", "c"])
        self.assertEqual(self.retained(client, ("$x/+", 0)), ["$x/y"])
        self.assertEqual(self.retained(client, ("nothing", 0)), [])

    def test_for_each_filter_of_a_packet(self) -> None:
        found = self.retained(self.client(), ("a/#", 0), ("c", 0), ("a", 0))
        self.assertEqual(sorted(found), ["a", "a", "a/b", "c"])

    def test_handling(self) -> None:
        """[MQTT-3.3.1-9] to [MQTT-3.3.1-11]: each time, when new, never."""
        for handling, first, second in ((0, ["c"], ["c"]), (1, ["c"], []), (2, [], [])):
            client = self.client()
            options = p.options(handling=handling)
            found = [self.retained(client, ("c", options)) for _ in range(2)]
            self.assertEqual(found, [first, second])

    def test_not_for_shared_subscriptions(self) -> None:
        self.assertEqual(self.retained(self.client(), ("$share/g/a", 0)), [])

    def test_not_ones_own_with_no_local(self) -> None:
        client = self.client()
        client.publish("mine", retain=True)
        self.assertEqual(self.retained(client, ("mine", p.options(no_local=True))), [])
        self.assertEqual(self.retained(client, ("mine", 0)), ["mine"])

    def test_with_the_lower_qos_and_the_identifier(self) -> None:
        client = self.client()
        client.send(p.subscribe(5, ("c", 2), props=[(Prop.SUBSCRIPTION_ID, 7)], version=5))
        client.next("SUBACK")
        packet = client.next("PUBLISH")
        self.assertEqual((packet.qos, packet.prop(Prop.SUBSCRIPTION_ID)), (1, 7))

    def test_expired_ones_do_not_come(self) -> None:
        five = self.world.client("five", 5)
        five.publish("c", b"new", retain=True, props=[(Prop.MESSAGE_EXPIRY, 10)])
        self.world.wait(11)
        self.assertEqual(self.retained(self.client(), ("c", 0)), [])

    def test_looking_them_up_is_work(self) -> None:
        """Many filters over many retained messages do not stall a turn."""
        self.build(work_per_turn=20)
        for number in range(100):
            self.publisher.publish(f"r/{number}/x", b"x", retain=True)
        client = self.client()
        client.feed(p.subscribe(5, *[(f"r/+/{number}", 0) for number in range(200)], version=5))
        self.assertLessEqual(self.world.hub.work, 20 + 20)
        self.world.hub.flush()
        self.assertGreater(self.world.settle(), 20)
        self.assertEqual([packet.type for packet in client.take()], ["SUBACK"])

    def test_looking_up_one_topic_is_little_work(self) -> None:
        """Also behind a look-up that was a lot."""
        self.build(work_per_turn=1000)
        for number in range(500):
            self.publisher.publish(f"r/{number}", b"x", retain=True)
        client = self.client()
        client.feed(p.subscribe(5, ("+/+/no", 0), *[("no", 0)] * 200, version=5))
        self.assertLessEqual(self.world.hub.work, 300)
