"""What is counted for clients and topics, and the rates that are made of it."""

from typing import Any
from unittest import TestCase

from mhub.core.topic_traffic import IDLE_S, INTERVAL_S, TopicTraffic
from tests.core.rules import Rules, Trusting
from tests.core.world import World
from tests.helpers import packets as p


class Case(TestCase):
    def setUp(self) -> None:
        self.build()

    def build(self, **options: Any) -> None:
        self.world = World(sys_interval_s=0, **options)

    def tick(self, seconds: float) -> None:
        self.world.wait(seconds, int(seconds / 0.25))


class ClientTests(Case):
    def test_messages_both_ways(self) -> None:
        sender, receiver = self.world.client("s"), self.world.client("r")
        receiver.subscribe("t", 1)
        sender.send(p.publish("t", b"12345") * 3)
        sender.publish("t", b"1", 1)
        sender.send(p.pingreq())
        connection = sender.connection
        self.assertEqual((connection.messages_in, connection.bytes_in), (4, 16))
        self.assertEqual((connection.messages_out, connection.bytes_out), (0, 0))
        connection = receiver.connection
        self.assertEqual((connection.messages_in, connection.messages_out), (0, 4))
        self.assertEqual(connection.bytes_out, 16)

    def test_what_a_limit_drops_has_come_all_the_same(self) -> None:
        limits = {"max_messages_per_s": 5, "over_messages_per_s": "drop"}
        client = self.world.client("c", limits=limits)
        client.send(p.publish("t", b"x") * 20)
        self.assertGreater(self.world.stats.dropped_rate, 0)
        self.assertEqual((client.connection.messages_in, client.connection.bytes_in), (20, 20))

    def test_rates(self) -> None:
        """Steady ones are met, and end when nothing comes any more."""
        client = self.world.client("c")
        client.subscribe("t")
        idle = self.world.client("idle")
        for _ in range(60):
            client.send(p.publish("t", b"1234567890") * 20)
            self.tick(1.0)
        rates = client.connection.rates
        assert rates is not None
        self.assertAlmostEqual(rates.messages_in, 20.0, delta=1.0)
        self.assertAlmostEqual(rates.bytes_out, 200.0, delta=10.0)
        self.assertIsNone(idle.connection.rates)
        self.tick(10.0)
        self.assertLess(rates.messages_in, 10.0)
        self.tick(300.0)
        self.assertEqual((rates.messages_in, rates.messages_out, rates.bytes_in), (0, 0, 0))

    def test_a_new_connection_begins_anew(self) -> None:
        client = self.world.client("c", clean=False)
        client.publish("t", b"x")
        self.tick(10.0)
        again = self.world.client("c", clean=False)
        self.assertEqual((again.connection.messages_in, again.connection.rates), (0, None))


class TopicTests(Case):
    def topic(self, name: str) -> TopicTraffic:
        return self.world.hub.router.topics.known[name.encode()]

    def names(self) -> list[str]:
        topics = self.world.hub.router.topics
        found = [each.topic for each in topics.slots.items if each is not None]
        self.assertEqual(sorted(found), sorted(each.topic for each in topics.known.values()))
        return sorted(found)

    def test_counts_outlive_routes(self) -> None:
        """A new subscriber changes the route, and not what was counted."""
        client = self.world.client("c")
        client.publish("a/b", b"123")
        client.subscribe("a/#")
        client.publish("a/b", b"45")
        client.send(p.unsubscribe(9, "a/#"))
        client.publish("a/b", b"6")
        self.assertEqual((self.topic("a/b").messages, self.topic("a/b").bytes), (3, 6))

    def test_rates(self) -> None:
        client = self.world.client("c")
        for _ in range(60):
            client.send(p.publish("t", b"1234567890") * 20)
            self.tick(1.0)
        self.assertAlmostEqual(self.topic("t").messages_per_s, 20.0, delta=1.0)
        self.assertAlmostEqual(self.topic("t").bytes_per_s, 200.0, delta=10.0)
        self.tick(300.0)
        self.assertEqual(self.topic("t").messages_per_s, 0.0)

    def test_what_is_denied_does_not_count(self) -> None:
        hub = self.world.hub
        hub.admission.authenticator = Trusting()
        rules = Rules()
        rules.denied = {("publish", "c", "no")}
        hub.authorize_with(rules)
        client = self.world.client("c", username="c")
        client.publish("no", b"x")
        self.assertEqual(self.topic("no").messages, 0)

    def test_a_topic_that_is_not_used_is_forgotten(self) -> None:
        client = self.world.client("c")
        client.publish("old", b"x")
        self.tick(IDLE_S - 2 * INTERVAL_S)
        client.publish("new", b"x")
        self.assertEqual(self.names(), ["new", "old"])
        self.tick(4 * INTERVAL_S)
        self.assertEqual(self.names(), ["new"])
        self.assertNotIn(b"old", self.world.hub.router.cache)
        client.publish("old", b"x")
        self.assertEqual(self.topic("old").messages, 1)

    def test_there_is_room_for_so_many(self) -> None:
        """Those that are used keep theirs; the others make room."""
        self.build(route_cache_size=10)
        client = self.world.client("c")
        for n in range(30):
            client.publish(f"t/{n:02}", b"x")
        self.assertEqual(len(self.names()), 10)
        for _ in range(4 * int(INTERVAL_S)):
            client.publish("t/00", b"x")
            client.publish("t/29", b"x")
            self.tick(1.0)
        self.assertIn("t/00", self.names())
        self.assertLess(len(self.names()), 10)
        self.assertGreater(self.topic("t/29").messages, 1)

    def test_topics_that_are_too_long_are_not_counted(self) -> None:
        client = self.world.client("c")
        client.publish("t" * 300, b"x")
        self.assertEqual(self.names(), [])
