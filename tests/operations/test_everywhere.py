"""What one node answers for all of them: merged, at the right node, and who is missing."""

import random
from collections.abc import Coroutine
from types import SimpleNamespace
from typing import Any

from twisted.internet.defer import Deferred

from mhub.core.scan import CLIENT_SORTS
from mhub.operations import operations
from mhub.operations.contract import BadArgument, NotThere, TimedOut, Unavailable
from mhub.operations.merging import PORTION
from mhub.operations.operations import Operations
from tests.cluster.test_node import Case
from tests.core.disk import EPOCH
from tests.core.world import World
from tests.helpers import packets as p
from tests.operations.around import Around, Pauses
from tests.operations.operated import OperatedSimulation

KEPT = {"clean": False}


class EverywhereCase(Case):
    simulation = OperatedSimulation

    def cluster(self, names: str = "abc", seed: int = 1, **options: Any) -> OperatedSimulation:
        sim = super().cluster(names, seed, **options)
        assert isinstance(sim, OperatedSimulation)
        self.sim = sim
        # The time of day goes on with the clock of the simulation.
        self.patch(operations, "time", SimpleNamespace(time=lambda: EPOCH + sim.now))
        return sim

    def ask(self, asked: Coroutine[Any, Any, Any], seconds: float = 1.0) -> Any:
        """What it comes to, after so long."""
        deferred = Deferred.fromCoroutine(asked)
        self.sim.run(seconds)
        return self.successResultOf(deferred)

    def fails(self, kind: type[Exception], asked: Coroutine[Any, Any, Any]) -> str:
        deferred = Deferred.fromCoroutine(asked)
        self.sim.run(3.0)
        return str(self.failureResultOf(deferred, kind).value)


class ListTests(EverywhereCase):
    def fill(self, count: int) -> dict[str, str]:
        """Clients by chance at all nodes: client id -> node."""
        sim = self.cluster()
        chance = random.Random(4)
        places = {}
        for number in range(count):
            client_id = f"c{chance.randrange(10**6)}-{number}"
            name = chance.choice("abc")
            node = sim.nodes[name]
            client = node.open(4)
            node.send(client, p.connect(client_id, 4))
            filters = [(f"t/{each}", 0) for each in range(chance.randrange(4))]
            if filters:
                node.send(client, p.subscribe(1, *filters))
            places[client_id] = name
        sim.run(2.0)
        return places

    def pages(self, limit: int, **options: Any) -> list[Any]:
        """All of a list, page by page, each asked at another node."""
        found: list[Any] = []
        cursor = ""
        for number in range(1000):
            side = self.sim.side("abc"[number % 3])
            page = self.ask(
                side.operations.everywhere.clients(limit=limit, cursor=cursor, **options)
            )
            self.assertEqual(page.missing, ())
            self.assertEqual(len(page.clients), min(limit, len(page.clients) + page.left))
            found += page.clients
            cursor = page.next
            if not cursor:
                self.assertEqual(page.left, 0)
                return found
        raise AssertionError("no end")

    def test_pages_of_all_nodes_with_their_nodes(self) -> None:
        places = self.fill(60)
        for limit in (7, 60, 1000):
            found = self.pages(limit)
            self.assertEqual({each.client_id: each.node for each in found}, places)
            self.assertEqual([each.client_id for each in found], sorted(places))

    def test_each_order(self) -> None:
        places = self.fill(40)
        for field in CLIENT_SORTS:
            for sort in (field, "-" + field):
                found = self.pages(9, sort=sort)
                self.assertEqual({each.client_id: each.node for each in found}, places, sort)
                if field == "client_id":
                    expected = sorted(places, reverse=sort.startswith("-"))
                else:
                    sign = -1 if sort.startswith("-") else 1

                    def rank(each: Any, field: str = field, sign: int = sign) -> Any:
                        return sign * (getattr(each, field) or 0), each.client_id

                    expected = [each.client_id for each in sorted(found, key=rank)]
                self.assertEqual([each.client_id for each in found], expected, sort)

    def test_filters_are_for_all_nodes(self) -> None:
        places = self.fill(30)
        page = self.ask(self.sim.side("a").operations.everywhere.clients(match="c1*"))
        expected = sorted(client_id for client_id in places if client_id.startswith("c1"))
        self.assertEqual([each.client_id for each in page.clients], expected)
        self.assertEqual(page.sessions, 30)

    def test_nodes_are_asked_for_small_pages(self) -> None:
        sim = self.cluster("ab")
        b = sim.nodes["b"]
        count = 2 * PORTION + 10
        for number in range(count):
            b.send(b.open(4), p.connect(f"c{number:05}", 4))
        sim.run(2.0)
        a = sim.side("a")
        page = self.ask(a.operations.everywhere.clients(limit=1000))
        self.assertEqual(len(page.clients), count)
        limits = [arguments["limit"] for _, _, arguments in a.cluster.asked]
        self.assertEqual(len(limits), 3)
        self.assertLessEqual(max(map(int, limits)), PORTION)  # type: ignore[arg-type]

    def test_subscriptions_groups_and_routes(self) -> None:
        sim = self.cluster()
        for name, node in sim.nodes.items():
            client = self.connect(node, f"at-{name}")
            self.subscribe(node, client, "t/#", 1)
            self.subscribe(node, client, "$share/g/t/1")
        everywhere = sim.side("b").operations.everywhere
        for sort in ("filter", "-client_id"):
            first = self.ask(everywhere.subscriptions(limit=4, sort=sort))
            rest = self.ask(everywhere.subscriptions(limit=4, sort=sort, cursor=first.next))
            found = [(each.name, each.node) for each in (*first.subscriptions, *rest.subscriptions)]
            names = ("$share/g/t/1", "t/#")
            expected = [(filter_, node) for filter_ in names for node in "abc"]
            self.assertEqual(sorted(found), sorted(expected))
            self.assertEqual((first.total, first.left, rest.left), (6, 2, 0))
        groups = self.ask(everywhere.groups(limit=1))
        self.assertEqual([each.node for each in groups.groups], ["b", "a", "c"])
        self.assertEqual(groups.next, "")
        routes = self.ask(everywhere.routes("t/1", limit=2))
        self.assertEqual([each.node for each in routes.targets], ["a", "b"])
        self.assertEqual(routes.nodes, ("a", "c"))  # others than the one that was asked
        routes = self.ask(everywhere.routes("t/1", limit=2, cursor=routes.next))
        self.assertEqual([each.node for each in routes.targets], ["c"])

    def test_topics_are_added_up(self) -> None:
        sim = self.cluster()
        for count, (name, node) in enumerate(sim.nodes.items(), 1):
            client = self.connect(node, f"at-{name}")
            for _ in range(count):
                node.send(client, p.publish("all/t", b"xx"), p.publish(f"at/{name}", b"x"))
        sim.run(10.0)
        everywhere = sim.side("c").operations.everywhere
        top = self.ask(everywhere.topics_top(by="messages", limit=2))
        self.assertEqual(
            [(each.topic, each.messages, each.bytes, each.node) for each in top.topics],
            [("all/t", 6, 12, ""), ("at/c", 3, 3, "c")],
        )
        tree = self.ask(everywhere.topics_tree())
        self.assertEqual([each.name for each in tree.levels], ["all", "at"])
        below = self.ask(everywhere.topics_tree(prefix="at/", limit=2))
        self.assertEqual([each.name for each in below.levels], ["a", "b"])
        below = self.ask(everywhere.topics_tree(prefix="at/", limit=2, cursor=below.next))
        self.assertEqual(([each.name for each in below.levels], below.next), (["c"], ""))

    def test_who_does_not_answer_is_missing(self) -> None:
        sim = self.cluster()
        for name, node in sim.nodes.items():
            self.connect(node, f"at-{name}", **KEPT)
        sim.side("b").answers = False
        sim.nodes["c"].crash()
        everywhere = sim.side("a").operations.everywhere
        page = self.ask(everywhere.clients(), 3.0)
        self.assertEqual([each.client_id for each in page.clients], ["at-a"])
        self.assertEqual(page.missing, ("b", "c"))
        totals = self.ask(everywhere.totals(), 3.0)
        self.assertEqual(totals.missing, ("b", "c"))
        self.assertEqual([each.node for each in totals.nodes], ["a"])

    def test_what_makes_no_sense_is_said_at_once(self) -> None:
        self.cluster("ab")
        everywhere = self.sim.side("a").operations.everywhere
        self.fails(BadArgument, everywhere.clients(sort="size"))
        self.fails(BadArgument, everywhere.clients(limit=0))
        self.fails(BadArgument, everywhere.clients(cursor="?"))
        self.fails(BadArgument, everywhere.clients(state="there"))
        self.fails(BadArgument, everywhere.topics_top(by="colour"))
        self.fails(BadArgument, everywhere.presence(state="there"))

    def test_totals(self) -> None:
        sim = self.cluster()
        for name, node in sim.nodes.items():
            client = self.connect(node, f"at-{name}")
            node.send(client, p.publish(f"kept/{name}", b"x", retain=True))
        sim.run(1.0)
        totals = self.ask(sim.side("a").operations.everywhere.totals())
        self.assertEqual([each.node for each in totals.nodes], ["a", "b", "c"])
        self.assertEqual(totals.total.sessions.connected, 3)
        self.assertEqual(totals.total.messages.received, 3)
        self.assertEqual(totals.total.queues.retained, 3)  # each node has all of them
        rates = [each.status.messages.received_per_s or 0.0 for each in totals.nodes]
        self.assertEqual(totals.total.messages.received_per_s, round(sum(rates), 3))


class ClientTests(EverywhereCase):
    def test_a_client_is_asked_for_at_its_node(self) -> None:
        sim = self.cluster()
        client = self.connect(sim.nodes["b"], "x", **KEPT)
        everywhere = sim.side("a").operations.everywhere
        detail = self.ask(everywhere.client("x"))
        self.assertEqual((detail.client.node, detail.client.state), ("b", "connected"))
        subscribed = self.ask(everywhere.client_subscribe("x", "t/1", 1))
        self.assertEqual((subscribed.node, subscribed.qos), ("b", 1))
        self.assertEqual(len(self.ask(everywhere.client("x")).subscriptions), 1)
        self.fails(NotThere, everywhere.client_unsubscribe("x", "t/2"))
        self.fails(BadArgument, everywhere.client_subscribe("x", "t/#/1"))
        self.ask(everywhere.client_unsubscribe("x", "t/1"))
        kicked = self.ask(everywhere.kick("x"))
        self.assertEqual((kicked.node, kicked.was_connected), ("b", True))
        self.assertTrue(client.outlet.closed)
        kicked = self.ask(everywhere.kick("x", delete_session=True))
        self.assertTrue(kicked.session_deleted)
        self.fails(NotThere, everywhere.client("x"))

    def test_a_client_that_has_moved(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["b"], "x", **KEPT)
        self.connect(sim.nodes["c"], "x", **KEPT)
        sim.run(2.0)
        for name in "abc":
            detail = self.ask(sim.side(name).operations.everywhere.client("x"))
            self.assertEqual(detail.client.node, "c")

    def test_a_client_of_a_node_that_cannot_be_reached(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["b"], "x", **KEPT)
        everywhere = sim.side("a").operations.everywhere
        sim.side("b").answers = False
        self.assertIn("in time", self.fails(TimedOut, everywhere.client("x")))
        sim.nodes["b"].crash()
        sim.run(1.0)
        text = self.fails(Unavailable, everywhere.kick("x"))
        self.assertIn("node b", text)

    def test_nodes_that_do_not_share_sessions(self) -> None:
        sim = self.cluster()
        for node in sim.nodes.values():
            assert node.world.hub.peers is not None
            node.world.hub.peers.table.sessions = False
        self.connect(sim.nodes["c"], "x")
        everywhere = sim.side("a").operations.everywhere
        self.assertEqual(self.ask(everywhere.client("x")).client.node, "c")
        self.fails(NotThere, everywhere.client("y"))
        sim.side("b").answers = False
        self.fails(Unavailable, everywhere.client("y"))


class PresenceTests(EverywhereCase):
    def page(self, name: str, seconds: float = 1.0, **options: Any) -> Any:
        return self.ask(self.sim.side(name).operations.everywhere.presence(**options), seconds)

    def shown(self, page: Any) -> list[tuple[str, str, str]]:
        return [(each.client_id, each.state, each.node) for each in page.clients]

    def test_each_client_once_in_pages(self) -> None:
        sim = self.cluster()
        for number in range(9):
            self.connect(sim.nodes["abc"[number % 3]], f"c{number}", **KEPT)
        sim.nodes["a"].lose(sim.nodes["a"].clients[0])
        sim.run(1.0)
        found = []
        cursor = ""
        for _ in range(3):
            page = self.page("b", limit=4, cursor=cursor)
            found += self.shown(page)
            cursor = page.next
        self.assertEqual(cursor, "")
        expected = [(f"c{number}", "connected", "abc"[number % 3]) for number in range(9)]
        expected[0] = ("c0", "offline", "a")
        self.assertEqual(found, expected)
        self.assertEqual(self.shown(self.page("c", state="offline")), [("c0", "offline", "a")])
        self.assertEqual(self.shown(self.page("c", match="c?", limit=1)), found[:1])

    def test_clients_of_nodes_that_do_not_answer(self) -> None:
        sim = self.cluster()
        for name, node in sim.nodes.items():
            self.connect(node, f"at-{name}", **KEPT)
        sim.side("b").answers = False
        sim.nodes["c"].crash()
        sim.run(0.5)
        page = self.page("a", 5.0)
        self.assertEqual(page.missing, ("b", "c"))
        self.assertEqual(
            [(each.client_id, each.state, each.node_state) for each in page.clients],
            [
                ("at-a", "connected", "up"),
                ("at-b", "connected", "up"),
                ("at-c", "offline", "down"),
            ],
        )
        self.assertEqual([each.user for each in page.clients], ["", None, None])
        page = self.page("a", 5.0, state="offline")
        self.assertEqual(self.shown(page), [("at-c", "offline", "c")])
        found = []
        cursor = ""
        for _ in range(3):
            page = self.page("a", 5.0, limit=1, cursor=cursor)
            found += [each.client_id for each in page.clients]
            cursor = page.next
        self.assertEqual((found, cursor), (["at-a", "at-b", "at-c"], ""))

    def test_an_older_session_at_a_node_that_was_away_is_not_shown(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["a"], "x", **KEPT)
        sim.nodes["a"].crash()
        sim.run(1.0)
        client = sim.nodes["b"].open(4)
        sim.nodes["b"].send(client, p.connect("x", 4, clean=False))
        sim.run(15.0)
        self.assertEqual(self.shown(self.page("c")), [("x", "connected", "b")])
        sim.nodes["a"].start()
        sim.run(10.0)
        for name in "abc":
            self.assertEqual(self.shown(self.page(name)), [("x", "connected", "b")])


class AloneTests(Case):
    """A broker without a cluster answers for itself."""

    def test_everything(self) -> None:
        world = World()
        everywhere = Operations(
            world.hub, Around(world.hub), lambda: world.now, Pauses()
        ).everywhere
        world.client("a").subscribe("t/#", 1)
        world.client("b", clean=False).lose()

        def ask(asked: Coroutine[Any, Any, Any]) -> Any:
            return self.successResultOf(Deferred.fromCoroutine(asked))

        page = ask(everywhere.clients())
        self.assertEqual([each.client_id for each in page.clients], ["a", "b"])
        self.assertEqual((page.left, page.sessions, page.missing), (0, 2, ()))
        self.assertEqual(ask(everywhere.client("a")).client.client_id, "a")
        self.assertEqual(ask(everywhere.totals()).total.sessions.total, 2)
        found = ask(everywhere.presence(state="connected"))
        self.assertEqual([each.client_id for each in found.clients], ["a"])
        self.assertTrue(ask(everywhere.kick("a")).was_connected)
        self.failureResultOf(Deferred.fromCoroutine(everywhere.client("z")), NotThere)
