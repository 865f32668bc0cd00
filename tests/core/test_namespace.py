"""Mount points: what their clients see, and sessions that come back with another one."""

from unittest import TestCase

from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


def mounted(world: World, mount: str, client_id: str = "c", version: int = 4) -> Client:
    props = [(Prop.SESSION_EXPIRY, 60)] if version == 5 else None
    return world.client(client_id, version, {"mount_point": mount}, clean=False, props=props)


class Moves(TestCase):
    """The same session by way of listeners with different mount points."""

    def setUp(self) -> None:
        self.world = World()
        self.outside = self.world.client("outside")

    def test_subscriptions_follow_the_client(self) -> None:
        for version in (4, 5):
            client = mounted(self.world, "a/", "follower", version)
            if "t/+" not in client.session.subscriptions:
                client.subscribe("t/+", 1)
            client.lose()
            for mount in ("b/", "", "a/"):
                client = mounted(self.world, mount, "follower", version)
                for other in ("a/", "b/", ""):
                    self.outside.publish(other + "t/x", other.encode())
                [found] = client.take()
                self.assertEqual((found.topic, found.payload), ("t/x", mount.encode()))
                self.assertEqual(client.session.subscriptions["t/+"].topic_filter, mount + "t/+")
                client.lose()
        self.assertEqual(self.world.hub.router.subscriptions, 1)

    def test_what_the_client_cannot_name_is_dropped_and_counted(self) -> None:
        """It was an empty topic, or one without its beginning."""
        client = mounted(self.world, "a/", version=5)
        client.subscribe("#", 2)
        self.outside.publish("a/sent", b"1", 1)
        self.assertEqual(client.next("PUBLISH").topic, "sent")
        client.lose()
        for topic in ("a/queued", "a/longer/topic", "a/"):
            self.outside.publish(topic, b"2", 1)
        client = mounted(self.world, "long-name/", version=5)
        self.world.settle()
        self.assertEqual(client.take(), [])
        self.assertEqual(self.world.stats.dropped_unmounted, 4)
        self.assertEqual((client.session.inflight.deliveries, client.session.queue), ({}, None))
        self.outside.publish("long-name/new", b"3", 1)
        self.assertEqual(client.next("PUBLISH").topic, "new")

    def test_without_a_mount_point_everything_can_be_named(self) -> None:
        client = mounted(self.world, "a/")
        client.subscribe("t", 1)
        client.lose()
        self.outside.publish("a/t", b"1", 1)
        client = mounted(self.world, "")
        self.assertEqual(client.next("PUBLISH").topic, "a/t")

    def test_a_shared_group_is_left_to_its_others(self) -> None:
        first = mounted(self.world, "a/", "first")
        second = mounted(self.world, "a/", "second")
        for client in (first, second):
            client.subscribe("$share/g/t", 1)
        first.lose()
        first = mounted(self.world, "b/", "first")
        for _ in range(4):
            self.outside.publish("a/t", b"x")
        self.assertEqual((len(first.take()), len(second.take())), (0, 4))
        self.outside.publish("b/t", b"y")
        self.assertEqual(first.next("PUBLISH").payload, b"y")
        self.assertEqual(self.world.hub.router.shared_subscriptions, 2)

    def test_the_same_mount_point_changes_nothing(self) -> None:
        client = mounted(self.world, "a/")
        client.subscribe("t", 1)
        before = client.session.subscriptions["t"]
        client.lose()
        client = mounted(self.world, "a/")
        self.assertIs(client.session.subscriptions["t"], before)


class Topics(TestCase):
    def test_a_topic_that_is_the_mount_point_is_nobodys(self) -> None:
        """Inside it would have no name."""
        world = World()
        client = mounted(world, "a/")
        client.subscribe("#")
        world.client("outside").publish("a/", b"x")
        self.assertEqual(client.take(), [])
        client.send(p.pingreq())
        self.assertEqual([packet.type for packet in client.take()], ["PINGRESP"])
