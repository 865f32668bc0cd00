"""Rights that change while sessions go from node to node (R8 of `mhub.core.revocation`)."""

from typing import Any

from mhub.wire import reasons
from tests.cluster.migration.played import Case as PlayedCase
from tests.cluster.migration.played import entry
from tests.cluster.migration.test_source import SourceCase
from tests.cluster.migration.test_target import HELD, TargetCase
from tests.cluster.simulation import SimNode, node_of
from tests.cluster.test_node import Case
from tests.core.rules import NO, Rules, Trusting
from tests.core.world import Client
from tests.helpers import packets as p


class WholeClusterTests(Case):
    """Each node decides by its own rules, which are the same sooner or later."""

    def setUp(self) -> None:
        self.rules: dict[str, Rules] = {}

    def begin(self, durable: bool) -> dict[str, SimNode]:
        sim = self.cluster("ab", durable=durable)
        for node in sim.nodes.values():
            self.control(node)
        return sim.nodes

    def control(self, node: SimNode) -> None:
        rules = self.rules.setdefault(node.name, Rules())
        node.world.hub.admission.authenticator = Trusting()
        node.world.hub.authorize_with(rules)

    def reader(self, node: SimNode, **options: Any) -> Client:
        return self.connect(node, "r", username="reader", clean=False, **options)

    def test_a_session_that_comes_from_a_node_with_other_rules(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.rules = {}
                nodes = self.begin(durable)
                a, b = nodes["a"], nodes["b"]
                reader = self.reader(a)
                self.subscribe(a, reader, "t/#", 1)
                self.subscribe(a, reader, "x", 1)
                writer = self.connect(b, "w", username="writer")
                a.lose(reader)
                for n, topic in enumerate(["t/a", "t/b", "t/a", "x"]):
                    b.send(writer, p.publish(topic, b"%d" % n, 1, n + 1))
                a.sim.run(2.0)
                self.rules["b"].denied = {
                    ("receive", "reader", "t/a"),
                    ("subscribe", "reader", "x"),
                }
                b.world.hub.rights_changed()
                again = self.reader(b)
                a.sim.run(3.0)
                got = [packet.payload for packet in again.take() if packet.type == "PUBLISH"]
                self.assertEqual(got, [b"1", b"3"])  # x was sent to it when it might
                session = b.world.hub.sessions["r"]
                self.assertEqual([*session.subscriptions], ["t/#"])
                b.send(writer, p.publish("x", b"5", 1, 9), p.publish("t/b", b"6", 1, 10))
                a.sim.run(2.0)
                got = [packet.payload for packet in again.take() if packet.type == "PUBLISH"]
                self.assertEqual(got, [b"6"])

    def test_a_session_that_was_split_between_two_users(self) -> None:
        """Whoever takes a client id while nodes are apart gets nothing of what waited under it."""
        for durable in (False, True):
            for user, expected in (("mallory", []), ("reader", [b"1"])):
                with self.subTest(durable=durable, user=user):
                    self.rules = {}
                    nodes = self.begin(durable)
                    a, b = nodes["a"], nodes["b"]
                    reader = self.reader(a)
                    self.subscribe(a, reader, "t", 1)
                    a.send(reader, p.pingreq())
                    a.lose(reader)
                    a.sim.run(1.0)
                    writer = self.connect(a, "w", username="writer")
                    a.send(writer, p.publish("t", b"1", 1, 1))
                    a.sim.run(1.0)
                    a.sim.split({"a"}, {"b"})
                    a.sim.run(2.0)
                    other = b.open(4)
                    b.send(other, p.connect("r", 4, False, username=user))
                    a.sim.run(20.0)
                    self.assertFalse(other.next("CONNACK").session_present)
                    b.send(other, p.pingreq())
                    a.sim.heal()
                    a.sim.run(20.0)
                    got = [each.payload for each in other.take() if each.type == "PUBLISH"]
                    self.assertEqual(got, expected)

    def test_the_session_of_a_deleted_user_ends_where_it_arrives(self) -> None:
        for durable in (False, True):
            with self.subTest(durable=durable):
                self.rules = {}
                nodes = self.begin(durable)
                a, b = nodes["a"], nodes["b"]
                reader = self.reader(a)
                self.subscribe(a, reader, "t/#", 1)
                a.lose(reader)
                a.sim.run(1.0)
                b.world.hub.is_deleted = lambda principal: principal.user == "reader"
                node_of(a).leave()
                a.sim.run(5.0)
                self.assertNotIn("r", b.world.hub.sessions)
                self.assertEqual(b.world.hub.router.subscriptions, 0)


class WaitingTests(TargetCase):
    """A client that is let in, while its session is on its way."""

    def begin_waiting(self) -> Client:
        self.begin("bc")
        self.rules = Rules()
        self.hub.admission.authenticator = Trusting()
        self.hub.authorize_with(self.rules)
        self.b.claims("s", HELD, False)
        client = self.here.world.open(5)
        client.send(p.connect("s", 5, clean=False, username="u"))
        self.here.settle()
        self.assertTrue(self.is_waiting(client))
        return client

    def arrive(self) -> None:
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"))
        self.b.end("s", self.epoch())
        self.here.settle()

    def test_it_may_not_connect_any_more(self) -> None:
        client = self.begin_waiting()
        self.rules.denied = {("connect", "u", "s")}
        self.hub.rights_changed()
        self.assertEqual((client.next("CONNACK").reason, client.closed), (NO, True))
        self.arrive()
        self.assertIn("s", self.hub.sessions)

    def test_its_user_is_banned(self) -> None:
        client = self.begin_waiting()
        self.assertEqual(self.hub.disconnect_user("u", reasons.BANNED, "banned"), 1)
        self.assertEqual((client.next("CONNACK").reason, client.closed), (reasons.BANNED, True))

    def test_its_tenant_changes(self) -> None:
        client = self.begin_waiting()

        def moved(principal: Any) -> Any:
            other = principal.copy()
            other.tenant = "t2"
            return other

        self.assertEqual(self.hub.update_principals("u", moved), 1)
        self.arrive()
        self.assertEqual(client.next("CONNACK").reason, 0)
        self.assertEqual(self.hub.sessions["s"].principal.tenant, "t2")

    def test_nobody_waits_for_ever(self) -> None:
        client = self.begin_waiting()
        self.assertEqual(len(self.hub.admission.waiting), 1)
        self.arrive()
        client.next("CONNACK")
        self.assertEqual(self.hub.admission.waiting, {})
        client = self.begin_waiting()
        client.lose()
        self.assertEqual(self.hub.admission.waiting, {})


class FrozenTests(SourceCase):
    """A session on its way to another node is reviewed there, or here if it stays."""

    def test_it_goes_as_it_is_and_is_reviewed_if_it_stays(self) -> None:
        rules = Rules()
        self.offered(b"1")
        self.assertTrue(self.session.frozen)
        rules.denied = {("subscribe", "", "t")}
        self.hub.authorize_with(rules)
        self.here.settle()
        self.assertEqual([*self.session.subscriptions], ["t"])
        self.publish(b"2")
        self.here.lose(self.b)
        self.here.settle()
        self.assertFalse(self.session.frozen)
        self.assertEqual([*self.session.subscriptions], [])
        self.assertEqual(self.session.queued(), 1)


class ArrivingTests(PlayedCase):
    def test_what_was_published_meanwhile_is_judged_here(self) -> None:
        self.begin("bc")
        rules = Rules()
        rules.denied = {("receive", "", "t")}
        self.hub.authorize_with(rules)
        self.b.claims("s", HELD, False)
        client = self.connect()
        self.b.session("s", self.epoch(), HELD)
        self.b.entries("s", self.epoch(), entry(b"1"), entry(b"2", pid=5))
        self.b.end("s", self.epoch())
        self.here.settle()
        client.next("CONNACK")
        self.publish(b"3")
        self.b.direct("s", self.epoch(), b"4")
        self.here.settle()
        self.assertEqual(client.payloads(), [])
