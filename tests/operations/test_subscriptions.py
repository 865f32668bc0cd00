"""All subscriptions, shared groups, who would get a message; and subscriptions for a client."""

from typing import Any

from twisted.internet.defer import Deferred

from mhub.operations import subscriptions
from mhub.operations.contract import BadArgument, NotThere, OperationError, SubscriptionEntry
from tests.core.disk import Disk, crash
from tests.helpers import packets as p
from tests.helpers.properties import Prop
from tests.operations.case import Case


class PageTests(Case):
    def fill(self) -> None:
        for name in "abc":
            client = self.world.client(name, clean=False)
            for n in range(4):
                client.subscribe(f"s/{n}/#", n % 3)
            client.subscribe("$share/g/work")
            client.subscribe(f"only/{name}")
        self.world.client("c", clean=False).lose()

    def pages(self, limit: int = 4, **asked: Any) -> list[SubscriptionEntry]:
        found: list[SubscriptionEntry] = []
        cursor = ""
        while True:
            page = self.done(self.operations.subscriptions(limit=limit, cursor=cursor, **asked))
            found += page.subscriptions
            self.assertEqual(page.left > 0, page.next != "")
            cursor = page.next
            if not cursor:
                return found

    def test_by_filter_and_by_client(self) -> None:
        self.fill()
        found = [(each.filter, each.client_id) for each in self.pages()]
        self.assertEqual((len(found), found), (18, sorted(found)))
        backwards = [(each.filter, each.client_id) for each in self.pages(sort="-filter")]
        self.assertEqual(backwards, found[::-1])
        found = [(each.client_id, each.filter) for each in self.pages(sort="client_id")]
        self.assertEqual((len(found), found), (18, sorted(found)))
        self.assertEqual(self.done(self.operations.subscriptions(limit=5)).total, 18)

    def test_filters(self) -> None:
        self.fill()
        self.assertEqual(
            [each.filter for each in self.pages(match="only/*")], [f"only/{n}" for n in "abc"]
        )
        self.assertEqual(len(self.pages(client_id="a")), 6)
        self.assertEqual(
            [(each.client_id, each.qos) for each in self.pages(topic="s/2/x")],
            [("a", 2), ("b", 2), ("c", 2)],
        )
        self.assertEqual(len(self.pages(group="g")), 3)
        self.assertEqual(len(self.pages(kind="shared")), 3)
        self.assertEqual(len(self.pages(kind="plain")), 15)
        self.assertEqual(self.pages(client_id="a", topic="only/b"), [])
        for asked in ({"topic": "a/#"}, {"kind": "odd"}, {"sort": "qos"}, {"limit": 0}):
            self.refused(self.operations.subscriptions(**asked), BadArgument)

    def test_an_entry(self) -> None:
        client = self.world.client("a", 5, {"mount_point": "m/"})
        client.subscribe("$share/g/t", 2 | 0x08)
        (told,) = self.pages()
        self.assertEqual((told.filter, told.group, told.name), ("m/t", "g", "$share/g/t"))
        self.assertEqual((told.qos, told.retain_as_published, told.connected), (2, True, True))

    def test_long_filters_make_shorter_pages(self) -> None:
        self.patch(subscriptions, "MOST_TEXT", 200)
        client = self.world.client("a")
        for n in range(5):
            client.subscribe(f"{n}" * 40)
        self.assertEqual(len(self.done(self.operations.subscriptions()).subscriptions), 2)
        self.assertEqual(len(self.pages(limit=1000)), 5)


class GroupTests(Case):
    def test_groups_with_members(self) -> None:
        for name in "abc":
            self.world.client(name, clean=False).subscribe("$share/g/t", 1)
        self.world.client("a", clean=False).lose()
        self.world.client("b", clean=False).subscribe("$share/f/t/#")
        self.world.client("b", clean=False).subscribe("plain")
        page = self.done(self.operations.groups(limit=1))
        self.assertEqual([(each.group, each.filter) for each in page.groups], [("f", "t/#")])
        page = self.done(self.operations.groups(limit=1, cursor=page.next))
        (group,) = page.groups
        self.assertEqual((group.group, group.members, group.connected), ("g", 3, 2))
        self.assertEqual(
            sorted((each.client_id, each.qos, each.connected) for each in group.first_members),
            [("a", 1, False), ("b", 1, True), ("c", 1, True)],
        )
        self.assertEqual(page.next, "")


class RouteTests(Case):
    def test_who_would_get_it(self) -> None:
        self.with_rules(("receive", "u", "t/1"))
        a = self.world.client("a", username="a")
        a.subscribe("t/#", 1)
        a.subscribe("t/+", 2)
        self.world.client("b", username="u").subscribe("t/1")
        self.world.client("c", username="c").subscribe("$share/g/t/1", 1)
        self.world.client("d", username="d").subscribe("other")
        denied = self.world.stats.receive_denied
        page = self.done(self.operations.routes("t/1"))
        self.assertEqual(
            [(each.client_id, each.qos, each.allowed) for each in page.targets],
            [("a", 2, True), ("b", 0, False)],
        )
        self.assertEqual(page.targets[0].filters, ("t/#", "t/+"))
        (group,) = page.groups
        self.assertEqual((group.group, group.filter, group.members), ("g", "t/1", 1))
        self.assertEqual((page.nodes, page.next), ((), ""))
        self.assertEqual(self.world.stats.receive_denied, denied)  # nobody was denied anything

    def test_pages(self) -> None:
        for n in range(5):
            self.world.client(f"c{n}").subscribe("t")
        page = self.done(self.operations.routes("t", limit=2))
        found = [each.client_id for each in page.targets]
        page = self.done(self.operations.routes("t", limit=2, cursor=page.next))
        found += [each.client_id for each in page.targets]
        page = self.done(self.operations.routes("t", limit=2, cursor=page.next))
        found += [each.client_id for each in page.targets]
        self.assertEqual((found, page.next), ([f"c{n}" for n in range(5)], ""))

    def test_not_a_topic(self) -> None:
        for topic in ("", "a/#", "/".join("x" * 200)):
            self.refused(self.operations.routes(topic), BadArgument)


class SubscribeTests(Case):
    def test_a_connected_client(self) -> None:
        """It gets what is retained, and what is published from now on."""
        client = self.world.client("a", 5)
        publisher = self.publish("t/1", b"old", retain=True)
        done = self.done(self.operations.client_subscribe("a", "t/+", 1))
        self.assertEqual((done.client_id, done.name, done.qos), ("a", "t/+", 1))
        publisher.publish("t/2", b"new")
        self.assertEqual(client.payloads(), [b"old", b"new"])
        self.done(self.operations.client_unsubscribe("a", "t/+"))
        publisher.publish("t/2", b"newer")
        self.assertEqual(client.payloads(), [])
        self.assertEqual(self.world.hub.router.subscriptions, 0)

    def test_a_client_that_is_away(self) -> None:
        self.world.client("a", 5, {"mount_point": "m/"}, props=[(Prop.SESSION_EXPIRY, 100)]).lose()
        publisher = self.publish("m/t", b"old", retain=True)
        self.done(self.operations.client_subscribe("a", "t", 1))
        publisher.publish("m/t", b"new", 1)
        client = self.world.client(
            "a", 5, {"mount_point": "m/"}, clean=False, props=[(Prop.SESSION_EXPIRY, 100)]
        )
        self.assertEqual(client.payloads(), [b"old", b"new"])

    def test_under_its_own_rights_and_limits(self) -> None:
        self.build(max_subscriptions=2, max_qos=1)
        self.with_rules(("subscribe", "u", "no"))
        for state in ("connected", "away"):
            client = self.world.client(
                f"a-{state}", 5, username="u", props=[(Prop.SESSION_EXPIRY, 9)]
            )
            if state == "away":
                client.lose()
            name = f"a-{state}"
            text = self.refused(self.operations.client_subscribe(name, "no"), OperationError)
            self.assertIn("not authorized", text.lower())
            self.assertEqual(self.operations.client(name).denials[0].topic, "no")
            self.assertEqual(self.done(self.operations.client_subscribe(name, "t/1", 2)).qos, 1)
            self.done(self.operations.client_subscribe(name, "t/2"))
            text = self.refused(self.operations.client_subscribe(name, "t/3"), OperationError)
            self.assertIn("quota", text.lower())
            self.assertEqual(len(self.world.hub.sessions[name].subscriptions), 2)

    def test_options(self) -> None:
        client = self.world.client("a", 5)
        self.publish("t", b"old", retain=True)
        self.done(
            self.operations.client_subscribe(
                "a", "t", 1, True, True, retain_handling=2, identifier=7
            )
        )
        client.publish("t", b"own")
        self.assertEqual(client.payloads(), [])
        self.world.client("b").publish("t", b"new", retain=True)
        (packet,) = client.take()
        self.assertEqual((packet.payload, packet.retain), (b"new", True))
        self.assertEqual(packet.prop(Prop.SUBSCRIPTION_ID), 7)

    def test_it_is_durable(self) -> None:
        disk = Disk(self.world)
        client = self.world.open()
        client.send(p.connect("a", clean=False))
        disk.settle()
        client.lose()
        disk.settle()
        doing = Deferred.fromCoroutine(self.operations.client_subscribe("a", "t", 1))
        self.assertNoResult(doing)
        disk.settle()
        self.successResultOf(doing)
        self.world, disk = crash(self.world, disk)
        self.assertEqual(set(self.world.hub.sessions["a"].subscriptions), {"t"})

    def test_what_cannot_be(self) -> None:
        self.world.client("a", clean=False)
        for asked in (
            {"topic_filter": ""},
            {"topic_filter": "a/#/b"},
            {"topic_filter": "$share/g"},
            {"topic_filter": "a\0b"},
            {"topic_filter": "\ud800"},
            {"topic_filter": "x" * 65_536},
            {"topic_filter": "$share/g/t", "no_local": True},
            {"topic_filter": "t", "qos": 3},
            {"topic_filter": "t", "retain_handling": 3},
            {"topic_filter": "t", "identifier": -1},
        ):
            self.refused(self.operations.client_subscribe("a", **asked), BadArgument)
        self.refused(self.operations.client_subscribe("b", "t"), NotThere)
        self.refused(self.operations.client_unsubscribe("a", "t"), NotThere)
        self.world.hub.sessions["a"].frozen = True
        text = self.refused(self.operations.client_subscribe("a", "t"), OperationError)
        self.assertIn("another node", text)
        self.assertEqual(self.world.hub.router.subscriptions, 0)
        self.world.hub.sessions["a"].frozen = False
        client = self.world.client("a", clean=False)
        client.send(p.pingreq())
        self.assertEqual(client.next("PINGRESP").type, "PINGRESP")
