"""Topics by rate, levels of topics, and retained messages."""

from base64 import b64decode
from typing import Any

from twisted.internet.defer import Deferred

from mhub.operations import topics
from mhub.operations.contract import BadArgument, NotThere
from tests.core.disk import Disk, crash
from tests.helpers import packets as p
from tests.helpers.properties import Prop
from tests.operations.case import Case


class TopTests(Case):
    def test_the_busiest_topics(self) -> None:
        client = self.world.client("c")
        for _ in range(30):
            client.send(p.publish("slow", b"1" * 100) + p.publish("fast", b"1") * 10)
            self.world.wait(1.0, 4)
        top = self.done(self.operations.topics_top())
        self.assertEqual([each.topic for each in top.topics], ["fast", "slow"])
        fast = top.topics[0]
        self.assertEqual((fast.messages, fast.bytes, fast.retained), (300, 300, False))
        self.assertApproximates(fast.messages_per_s, 10.0, 1.0)
        self.assertEqual((top.counted, top.room), (2, 100_000))
        top = self.done(self.operations.topics_top("bytes", 1))
        self.assertEqual([each.topic for each in top.topics], ["slow"])
        self.refused(self.operations.topics_top("topic"), BadArgument)

    def test_those_of_the_broker_if_asked_for(self) -> None:
        self.world.hub.publish_local("$SYS/broker/x", b"1", True)
        self.assertEqual(self.done(self.operations.topics_top()).topics, ())
        top = self.done(self.operations.topics_top(sys=True))
        self.assertEqual(
            [(each.topic, each.retained) for each in top.topics], [("$SYS/broker/x", True)]
        )


class TreeTests(Case):
    def fill(self) -> None:
        client = self.world.client("c")
        for topic, retain in (
            ("a/b/1", False),
            ("a/b/2", True),
            ("a/b", True),
            ("a/c", False),
            ("b", True),
            ("/lead", True),
            ("a//x", True),
        ):
            client.publish(topic, b"x", retain=retain)
        self.world.hub.publish_local("$SYS/broker/x", b"1", True)

    def levels(self, prefix: str = "", **asked: Any) -> list[tuple[Any, ...]]:
        found = self.done(self.operations.topics_tree(prefix, **asked))
        return [
            (each.name, each.topics, each.is_topic, each.retained, each.retained_messages)
            for each in found.levels
        ]

    def test_levels_of_topics(self) -> None:
        self.fill()
        self.assertEqual(
            self.levels(),
            [("", 1, False, False, 1), ("a", 5, False, False, 3), ("b", 1, True, True, 1)],
        )
        below = [("", 1, False, False, 1), ("b", 3, True, True, 2), ("c", 1, True, False, 0)]
        self.assertEqual(self.levels("a"), below)
        self.assertEqual(self.levels("a/"), below)
        self.assertEqual(self.levels("/"), [("lead", 1, True, True, 1)])
        self.assertEqual(self.levels("a//"), [("x", 1, True, True, 1)])
        self.assertEqual(self.levels("nothing"), [])
        self.assertEqual([each[0] for each in self.levels(sys=True)], ["", "$SYS", "a", "b"])
        self.assertEqual(self.levels("$SYS/broker"), [("x", 1, True, True, 1)])
        level = self.done(self.operations.topics_tree("a")).levels[1]
        self.assertEqual(level.prefix, "a/b/")

    def test_rates_are_added_up(self) -> None:
        client = self.world.client("c")
        for _ in range(30):
            client.send(p.publish("a/1", b"1") + p.publish("a/2", b"1"))
            self.world.wait(1.0, 4)
        (level,) = self.done(self.operations.topics_tree()).levels
        self.assertApproximates(level.messages_per_s, 2.0, 0.3)

    def test_pages(self) -> None:
        client = self.world.client("c")
        for n in range(10):
            client.publish(f"t/{n}/x", b"x", retain=True)
        for operation in (self.operations.topics_tree, self.operations.retained_tree):
            found: list[str] = []
            cursor = ""
            while True:
                page: Any = self.done(operation("t", limit=3, cursor=cursor))
                found += [each.name for each in page.levels]
                cursor = page.next
                if not cursor:
                    break
            self.assertEqual(found, [f"{n}" for n in range(10)])

    def test_long_names_make_shorter_pages(self) -> None:
        self.patch(topics, "MOST_TEXT", 100)
        client = self.world.client("c")
        for n in range(5):
            client.publish(f"{n}" * 40, b"x", retain=True)
        page = self.done(self.operations.retained_tree())
        self.assertEqual(len(page.levels), 2)
        self.assertEqual(len(self.done(self.operations.retained_tree(cursor=page.next)).levels), 2)

    def test_levels_of_retained_messages(self) -> None:
        self.fill()
        found = self.done(self.operations.retained_tree())
        self.assertEqual(
            [(each.name, each.messages, each.is_message) for each in found.levels],
            [("", 1, False), ("a", 3, False), ("b", 1, True)],
        )
        found = self.done(self.operations.retained_tree("a"))
        self.assertEqual(
            [(each.name, each.messages, each.is_message) for each in found.levels],
            [("", 1, False), ("b", 2, True)],
        )


class RetainedTests(Case):
    def topics(self, **asked: Any) -> list[str]:
        found: list[str] = []
        cursor = ""
        while True:
            page = self.done(self.operations.retained(cursor=cursor, **asked))
            found += [each.topic for each in page.messages]
            cursor = page.next
            if not cursor:
                return found

    def test_pages(self) -> None:
        client = self.world.client("c")
        for n in range(9):
            client.publish(f"t/{n}/{'even' if n % 2 == 0 else 'odd'}", b"x", retain=True)
        self.world.hub.publish_local("$SYS/broker/x", b"1", True)
        everything = self.topics()
        self.assertEqual(len(everything), 9)
        self.assertEqual(self.topics(limit=2), everything)
        self.assertEqual(self.topics(limit=4, sort="-topic"), everything[::-1])
        self.assertEqual(self.topics(topic_filter="t/+/odd", limit=1), everything[1::2])
        self.assertEqual(self.topics(match="*/even"), everything[::2])
        self.assertEqual(self.topics(topic_filter="#", sys=True), everything)
        self.assertEqual(self.topics(topic_filter="$SYS/#", sys=True), ["$SYS/broker/x"])
        self.assertEqual(self.topics(topic_filter="$SYS/#"), [])
        self.assertEqual(self.done(self.operations.retained()).total, 9)
        for asked in ({"topic_filter": "a/#/b"}, {"sort": "size"}, {"limit": 1001}):
            self.refused(self.operations.retained(**asked), BadArgument)

    def test_what_the_registry_keeps_is_not_there(self) -> None:
        self.world.hub.registry.change({"user/secret": "x"}, self.world.now, {})
        self.assertEqual(self.topics(sys=True), [])
        self.assertRaises(NotThere, self.operations.retained_message, "\0registry/user/secret")

    def test_a_message(self) -> None:
        props = [
            (Prop.PAYLOAD_FORMAT, 1),
            (Prop.MESSAGE_EXPIRY, 60),
            (Prop.CONTENT_TYPE, "text/plain"),
            (Prop.RESPONSE_TOPIC, "answers"),
            (Prop.CORRELATION_DATA, b"\1"),
            (Prop.USER_PROPERTY, ("k", "v")),
        ]
        client = self.world.client("c", 5)
        client.publish("t", "grün".encode(), 1, retain=True, props=props)
        self.world.now += 10.0
        told = self.operations.retained_message("t")
        self.assertEqual(
            (told.message.topic, told.message.qos, told.message.size_bytes), ("t", 1, 5)
        )
        self.assertEqual(told.message.expires_in_s, 50.0)
        self.assertIsNotNone(told.message.retained_at)
        self.assertEqual((b64decode(told.payload).decode(), told.text), ("grün", "grün"))
        self.assertEqual(
            (told.payload_is_text, told.content_type, told.response_topic, told.correlation_data),
            (True, "text/plain", "answers", "AQ=="),
        )
        self.assertEqual((told.user_properties, told.publisher), ((("k", "v"),), "c"))
        self.world.now += 60.0
        self.assertRaises(NotThere, self.operations.retained_message, "t")
        self.assertEqual(self.done(self.operations.retained()).total, 1)  # it is swept later

    def test_a_part_of_a_payload(self) -> None:
        """Which may end within a character."""
        client = self.world.client("c")
        client.publish("t", "grün".encode(), retain=True)
        told = self.operations.retained_message("t", 3)
        self.assertEqual((told.text, told.is_whole, told.message.size_bytes), ("gr", False, 5))
        client.publish("t", b"\xff\0", retain=True)
        told = self.operations.retained_message("t")
        self.assertEqual((told.text, told.is_whole), (None, True))
        self.assertRaises(BadArgument, self.operations.retained_message, "t", -1)

    def test_delete(self) -> None:
        disk = Disk(self.world)
        client = self.world.client("c")
        client.subscribe("t")
        client.publish("t", b"x", retain=True)
        disk.settle()
        client.take()
        doing = Deferred.fromCoroutine(self.operations.retained_delete("t"))
        self.assertNoResult(doing)  # the store does not have it yet
        disk.settle()
        self.assertEqual(self.successResultOf(doing).topic, "t")
        self.assertEqual(client.payloads(), [b""])
        self.assertEqual(self.topics(), [])
        self.world, disk = crash(self.world, disk)
        self.assertEqual(len(self.world.hub.retained), 0)

    def test_what_cannot_be_deleted(self) -> None:
        self.world.hub.publish_local("$SYS/broker/x", b"1", True)
        self.refused(self.operations.retained_delete("$SYS/broker/x"), BadArgument)
        self.refused(self.operations.retained_delete("t"), NotThere)

    def test_restored_ones_have_no_time(self) -> None:
        disk = Disk(self.world)
        self.publish("t", retain=True)
        disk.settle()
        self.world, disk = crash(self.world, disk)
        self.assertEqual(self.world.hub.retained.kept_at, [0.0])
