"""The authorizer: what it is asked, when, and that topics are always in full."""

from typing import Any
from unittest import TestCase

from mhub.core.events import DENIED
from mhub.wire import reasons
from tests.core.rules import NO, Rules, Trusting
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Case(TestCase):
    def setUp(self) -> None:
        self.world = World(sys_interval_s=0)
        self.world.hub.admission.authenticator = Trusting()
        self.rules = Rules()
        self.world.hub.authorize_with(self.rules)

    def client(self, user: str, client_id: str = "", mount: str = "", **connect: Any) -> Client:
        return self.world.client(
            client_id or user, 5, {"mount_point": mount}, username=user, **connect
        )


class OneNamespace(Case):
    def test_every_question_is_about_the_topic_in_full(self) -> None:
        client = self.client("u", mount="m/", will=("w", b"", 2, True))
        client.subscribe("a/+", 1)
        client.subscribe("$share/g/b", 2)
        client.publish("a/x", b"", 1, retain=True)
        client.lose()
        self.assertEqual(
            self.rules.take(),
            [
                ("connect", "u", "u"),
                ("will", "u", "m/w", 2, True),
                ("subscribe", "u", "m/a/+", 1, ""),
                ("subscribe", "u", "m/b", 2, "g"),
                ("receive", "u", "m/a/x"),
                ("publish", "u", "m/a/x", 1, True),
                ("will", "u", "m/w", 2, True),
            ],
        )

    def test_denials_are_told(self) -> None:
        self.rules.denied = {("publish", "u", "p"), ("subscribe", "u", "s"), ("will", "u", "w")}
        client = self.client("u")
        client.publish("p", b"", 1)
        self.assertEqual(client.next("PUBACK").reason, NO)
        self.assertEqual(client.subscribe("s").reasons, [NO])
        other = self.world.open(5)
        other.send(p.connect("o", 5, username="u", will=("w", b"")))
        self.assertEqual(other.next("CONNACK").reason, NO)
        told = [
            (event.kind, event.client_id, event.cause, event.topic, event.rule)
            for event in self.world.diary.of(DENIED)
        ]
        self.assertEqual(
            told,
            [
                ("denied", "u", "publish", "p", "publish p 1 False"),
                ("denied", "u", "subscribe", "s", "subscribe s 0 False"),
                ("denied", "o", "will", "w", "publish w 0 False"),
            ],
        )

    def test_filters_that_are_refused_are_work(self) -> None:
        """A client that asks for ever more does not have all of a turn."""
        client = self.client("u")
        self.rules.denied = {("subscribe", "u", "s")}
        self.rules.take()
        self.world.hub.work_per_turn = 100
        client.send(*[p.subscribe(n + 1, ("s", 0), version=5) for n in range(50)])
        self.assertEqual(len(self.rules.take()), 10)
        self.world.settle()
        self.assertEqual(len(self.rules.take()), 40)


class Remembered(Case):
    def test_only_short_topics(self) -> None:
        """Answers about what waits are remembered for many topics, which may not be long, too."""
        self.client("u")
        session = self.world.hub.sessions["u"]
        for topic in ("t", "t" * 256, "t" * 257):
            self.assertTrue(session.may_receive(topic))
        self.assertEqual(list(session.verdicts or ()), ["t", "t" * 256])


class Receive(Case):
    def test_asked_once_a_route_and_not_for_a_message(self) -> None:
        reader = self.client("reader")
        reader.subscribe("#", 1)
        writer = self.client("writer")
        self.rules.take()
        for _ in range(5):
            writer.publish("a")
        asked = [question for question in self.rules.take() if question[0] == "receive"]
        self.assertEqual((asked, len(reader.take())), ([("receive", "reader", "a")], 5))

    def test_whoever_may_not_is_left_out(self) -> None:
        self.rules.denied = {("receive", "reader", "secret")}
        reader, other = self.client("reader"), self.client("other")
        for client in (reader, other):
            client.subscribe("#", 1)
        for topic in ("open", "secret"):
            other.publish(topic)
        self.assertEqual([packet.topic for packet in reader.take()], ["open"])
        self.assertEqual([packet.topic for packet in other.take()], ["open", "secret"])

    def test_when_the_rules_change(self) -> None:
        reader, writer = self.client("reader"), self.client("writer")
        reader.subscribe("#")
        writer.publish("t", b"1")
        self.rules.denied = {("receive", "reader", "t")}
        self.world.hub.rights_changed()
        writer.publish("t", b"2")
        self.rules.denied = set()
        self.world.hub.rights_changed()
        writer.publish("t", b"3")
        self.assertEqual(reader.payloads(), [b"1", b"3"])

    def test_when_the_client_of_a_session_has_logged_in(self) -> None:
        """The routes were built for an anonymous one."""
        self.rules.denied = {("receive", "mallory", "t")}
        kept = {"clean": False, "props": [(Prop.SESSION_EXPIRY, 60)]}
        reader, writer = self.client("", "c", **kept), self.client("writer")
        reader.subscribe("t")
        writer.publish("t", b"1")
        self.assertEqual(reader.payloads(), [b"1"])
        reader.lose()
        session = self.world.hub.sessions["c"]
        again = self.client("mallory", "c", **kept)
        self.assertIs(again.session, session)
        writer.publish("t", b"2")
        self.assertEqual(again.payloads(), [])

    def test_retained_messages(self) -> None:
        writer, reader = self.client("writer"), self.client("reader")
        for topic in ("open", "secret"):
            writer.publish(topic, b"x", retain=True)
        self.rules.denied = {("receive", "reader", "secret")}
        reader.subscribe("#")
        self.world.settle()
        self.assertEqual([packet.topic for packet in reader.take()], ["open"])

    def test_a_member_of_a_group_is_passed_over(self) -> None:
        self.rules.denied = {("receive", "one", "secret")}
        one, two = self.client("one"), self.client("two")
        for client in (one, two):
            client.subscribe("$share/g/#", 1)
        writer = self.client("writer")
        for _ in range(4):
            writer.publish("secret")
            writer.publish("open")
        topics = [packet.topic for packet in one.take()]
        self.assertEqual(set(topics), {"open"})
        others = [packet.topic for packet in two.take()]
        self.assertEqual((others.count("secret"), len(topics) + len(others)), (4, 8))

    def test_what_a_member_leaves_goes_to_nobody_who_may_not(self) -> None:
        self.rules.denied = {("receive", "two", "secret")}
        one, two = self.client("one"), self.client("two")
        for client in (one, two):
            client.subscribe("$share/g/#", 1)
        writer = self.client("writer")
        writer.publish("secret", b"x", 1)
        one.lose()
        self.world.settle()
        self.assertEqual(two.take(), [])


class Wills(Case):
    def test_the_client_is_not_told_its_mount_point(self) -> None:
        self.rules.denied = {("will", "u", "tenant/w")}
        client = self.world.open(5, mount_point="tenant/")
        client.send(p.connect("c", 5, username="u", will=("w", b"")))
        refusal = client.next("CONNACK")
        self.assertEqual(refusal.reason, reasons.NOT_AUTHORIZED)
        self.assertEqual(refusal.prop(Prop.REASON_STRING), "not authorized to leave a will at 'w'")

    def test_asked_again_when_it_is_published(self) -> None:
        watcher = self.client("watcher")
        watcher.subscribe("#")
        client = self.client("u", will=("w", b"bye"))
        self.rules.denied = {("will", "u", "w")}
        client.lose()
        self.assertEqual(watcher.take(), [])
        self.assertEqual(self.world.stats.publish_denied, 1)
