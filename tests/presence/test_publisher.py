"""What is retained below the prefix: what the tables say, each client once, whatever fails."""

import json
import random
from typing import Any

from mhub.presence.publisher import BATCH, PUBLISHED, SWEEP_S, Publisher
from tests.cluster.simulation import node_of
from tests.cluster.test_node import Case
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop
from tests.presence.simulated import PATIENCE_S, PREFIX, PresenceSimulation

KEPT = {"clean": False}


class AloneTests(Case):
    """A broker without a cluster."""

    def setUp(self) -> None:
        self.world = World(sys_interval_s=0.0)
        self.unix = 1_000_000.0
        self.publisher = Publisher(self.world.hub, PREFIX, lambda: self.unix + self.world.now)
        self.world.hub.events.sinks.append(self.publisher)
        self.publisher.step(self.world.now)

    def step(self, seconds: float = 0.25) -> bool:
        self.world.now += seconds
        self.world.hub.tick(self.world.now)
        is_more = self.publisher.step(self.world.now)
        self.world.settle()
        return is_more

    def come(self, client_id: str, version: int = 4, **options: Any) -> Client:
        client = self.world.open(version)
        client.send(p.connect(client_id, version, **options))
        self.assertEqual(client.next("CONNACK").reason, 0)
        return client

    def retained(self) -> dict[str, Any]:
        found = self.world.hub.retained.match(f"{PREFIX}/#", self.world.now)
        return {each.topic[len(PREFIX) + 1 :]: json.loads(each.payload) for each in found}

    def test_who_is_connected_since_when_and_from_where(self) -> None:
        client = self.come("x", 5, props=[(Prop.SESSION_EXPIRY, 100)])
        self.step()
        [(topic, found)] = self.retained().items()
        self.assertEqual(topic, "x")
        principal = client.connection.principal
        self.assertEqual(
            found,
            {
                "client_id": "x",
                "state": "connected",
                "node": "",
                "node_state": "up",
                "user": "",
                "address": principal.address,
                "listener": principal.listener,
                "version": "5.0",
                "since": self.unix + client.connection.connected_at,
            },
        )
        self.step()
        client.lose()
        gone_at = self.world.now
        self.step()
        found = self.retained()["x"]
        self.assertEqual((found["state"], found["version"]), ("offline", None))
        self.assertEqual(found["since"], round(self.unix + gone_at, 3))
        self.assertEqual(found["address"], principal.address)
        self.step(100.0)
        self.step()
        self.assertEqual(self.retained(), {})

    def test_subscribers_are_told_and_only_of_changes(self) -> None:
        watcher = self.come("watcher")
        watcher.send(p.subscribe(1, (f"{PREFIX}/+", 0)))
        self.step()
        watcher.take()
        client = self.come("a/b")
        self.step()
        [packet] = watcher.take()
        self.assertEqual(packet.topic, f"{PREFIX}/a%2Fb")
        self.step(SWEEP_S + 1)
        self.step()
        self.assertEqual(watcher.take(), [])
        client.send(p.disconnect())
        self.step()
        [packet] = watcher.take()
        self.assertEqual((packet.topic, packet.payload), (f"{PREFIX}/a%2Fb", b""))

    def test_a_client_that_connects_again_is_said_again(self) -> None:
        self.come("x", clean=False)
        self.step()
        first = self.retained()["x"]["since"]
        self.world.now += 5.0
        self.come("x", clean=False)  # takes over
        self.step()
        self.assertGreater(self.retained()["x"]["since"], first)

    def test_work_is_bounded_and_goes_on(self) -> None:
        for number in range(3 * PUBLISHED):
            self.come(f"c{number}")
        counts = []
        is_more = True
        while is_more:
            is_more = self.step(0.01)
            counts.append(len(self.retained()))
        self.assertEqual(counts[-1], 3 * PUBLISHED)
        self.assertEqual(counts[0], PUBLISHED)

    def test_what_no_event_told_of_is_found(self) -> None:
        self.world.hub.events.sinks.remove(self.publisher)
        client = self.come("x")
        self.step()
        self.assertEqual(self.retained(), {})
        self.step(SWEEP_S)
        self.assertEqual(list(self.retained()), ["x"])
        client.send(p.disconnect())
        self.step(SWEEP_S)
        self.assertEqual(self.retained(), {})

    def test_topics_take_no_place_in_the_cache_of_routes(self) -> None:
        self.come("x")
        self.step()
        self.assertNotIn(f"{PREFIX}/x".encode(), self.world.hub.router.cache)

    def test_a_client_id_that_is_too_long_for_a_topic(self) -> None:
        client = self.come("x" * 65_530)
        self.step()
        self.assertEqual(self.retained(), {})
        client.send(p.disconnect())
        self.assertFalse(self.step())


class ClusterTests(Case):
    simulation = PresenceSimulation

    def cluster(self, names: str = "abc", seed: int = 1, **options: Any) -> PresenceSimulation:
        sim = super().cluster(names, seed, **options)
        assert isinstance(sim, PresenceSimulation)
        return sim

    def assert_shown(self, sim: PresenceSimulation, **expected: tuple[str, str]) -> None:
        for name, node in sim.nodes.items():
            if node.up:
                self.assertEqual(sim.present(name).shown(), expected, f"at {name}")

    def test_each_node_shows_the_clients_of_all(self) -> None:
        sim = self.cluster()
        for name, node in sim.nodes.items():
            self.connect(node, f"at-{name}", **KEPT)
        sim.run(2.0)
        expected = {f"at-{name}": ("connected", name) for name in sim.nodes}
        self.assert_shown(sim, **expected)
        found = [sim.present(name).presence() for name in sim.nodes]
        self.assertEqual(found[0], found[1])
        self.assertEqual(found[1], found[2])

    def test_a_client_that_moves_is_shown_once(self) -> None:
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        client = self.connect(a, "x", **KEPT)
        sim.run(2.0)
        self.assert_shown(sim, x=("connected", "a"))
        self.connect(b, "x", **KEPT)
        sim.run(4.0)
        self.assert_shown(sim, x=("connected", "b"))
        self.assertTrue(client.outlet.closed)

    def test_a_client_that_goes(self) -> None:
        sim = self.cluster()
        a = sim.nodes["a"]
        kept, clean = self.connect(a, "kept", **KEPT), self.connect(a, "clean")
        sim.run(2.0)
        a.lose(kept)
        a.lose(clean)
        sim.run(3.0)
        self.assert_shown(sim, kept=("offline", "a"))

    def test_a_node_dies_and_comes_back(self) -> None:
        sim = self.cluster()
        a, b = sim.nodes["a"], sim.nodes["b"]
        self.connect(a, "kept", **KEPT)
        self.connect(a, "clean")
        self.connect(b, "other", **KEPT)
        sim.run(3.0)
        was = sim.present("c").presence()["kept"]
        a.crash()
        sim.run(PATIENCE_S + 2.0)
        expected = {
            "kept": ("offline", "a"),
            "clean": ("offline", "a"),
            "other": ("connected", "b"),
        }
        self.assert_shown(sim, **expected)
        found = sim.present("c").presence()["kept"]
        self.assertEqual(found["node_state"], "down")
        self.assertEqual((found["user"], found["address"]), (was["user"], was["address"]))
        self.assertGreater(found["since"], was["since"])
        a.start()
        sim.run(6.0)
        self.assert_shown(sim, kept=("offline", "a"), other=("connected", "b"))
        self.assertEqual(sim.present("b").presence()["kept"]["node_state"], "up")

    def test_a_client_comes_to_another_node_while_its_own_is_dead(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["a"], "x", **KEPT)
        sim.run(2.0)
        sim.nodes["a"].crash()
        sim.run(1.0)
        client = sim.nodes["b"].open(4)
        sim.nodes["b"].send(client, p.connect("x", 4, clean=False))
        sim.run(15.0)
        self.assert_shown(sim, x=("connected", "b"))
        sim.nodes["a"].start()
        sim.run(20.0)
        self.assert_shown(sim, x=("connected", "b"))

    def test_a_link_that_breaks_for_a_moment_changes_nothing(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["a"], "x", **KEPT)
        sim.run(2.0)
        watcher = self.connect(sim.nodes["b"], "watcher")
        self.subscribe(sim.nodes["b"], watcher, f"{PREFIX}/x")
        watcher.take()
        sim.cut("a", "b")
        sim.run(10.0)
        self.assertTrue(sim.whole())
        self.assertEqual(watcher.take(), [])

    def test_a_split(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["a"], "x", **KEPT)
        self.connect(sim.nodes["b"], "y", **KEPT)
        sim.run(2.0)
        sim.split({"a"}, {"b", "c"})
        sim.run(20.0)
        shown = {"x": ("connected", "a"), "y": ("offline", "b")}
        self.assertEqual(sim.present("a").shown(), shown)
        shown = {"x": ("offline", "a"), "y": ("connected", "b")}
        self.assertEqual(sim.present("b").shown(), shown)
        sim.heal()
        sim.run(20.0)
        self.assert_shown(sim, x=("connected", "a"), y=("connected", "b"))

    def test_a_node_that_is_forgotten_has_no_clients(self) -> None:
        sim = self.cluster()
        self.connect(sim.nodes["a"], "x", **KEPT)
        sim.run(2.0)
        sim.nodes["a"].crash()
        sim.run(20.0)
        for name in "bc":
            node_of(sim.nodes[name]).forget("a")
        sim.run(5.0)
        self.assert_shown(sim)

    def test_more_clients_than_one_question_asks_for(self) -> None:
        sim = self.cluster("ab")
        a = sim.nodes["a"]
        count = 2 * BATCH + 1
        for number in range(count):
            a.send(a.open(4), p.connect(f"c{number}", 4))
        sim.run(10.0)
        shown = sim.present("b").shown()
        self.assertEqual(len(shown), count)
        self.assertEqual(set(shown.values()), {("connected", "a")})
        for client in list(a.clients):
            a.lose(client)
        sim.run(10.0)
        self.assertEqual(sim.present("b").shown(), {})

    def test_a_node_of_an_older_release_tells_where_clients_are(self) -> None:
        sim = self.cluster("ab")
        node_of(sim.nodes["b"]).queries.respondent = lambda name, arguments, replying: (
            replying.fail("BadArgument", "what?")
        )
        self.connect(sim.nodes["b"], "x", **KEPT)
        sim.run(3.0)
        found = sim.present("a").presence()["x"]
        self.assertEqual((found["state"], found["node"]), ("connected", "b"))
        self.assertEqual((found["user"], found["address"], found["since"]), (None, None, None))


class WalkTests(Case):
    """Whatever happens: in the end, each node shows what there is."""

    simulation = PresenceSimulation

    def walk(self, seed: int, durable: bool) -> None:
        chance = random.Random(seed)
        sim = PresenceSimulation(seed, "abc", durable=durable)
        sim.start()
        sim.run(3.0)
        names = [f"c{number}" for number in range(8)]
        for _ in range(40):
            sim.run(chance.choice([0.01, 0.1, 0.5, 2.0, 5.0]))
            node = sim.nodes[chance.choice("abc")]
            what = chance.random()
            if what < 0.55 and node.serves:
                client = node.open(4)
                is_clean = chance.random() < 0.3
                node.send(client, p.connect(chance.choice(names), 4, clean=is_clean))
            elif what < 0.75 and node.up and node.clients:
                node.lose(chance.choice(node.clients))
            elif what < 0.83:
                sim.cut(*chance.sample("abc", 2))
            elif what < 0.89:
                sim.split({chance.choice("abc")})
            elif what < 0.94:
                sim.heal()
            elif node.up:
                node.crash()
            else:
                node.come()
        sim.heal()
        for node in sim.nodes.values():
            node.come()
        sim.run(90.0)
        self.assertTrue(sim.whole())
        truth = sim.truth()
        for name in sim.nodes:
            shown = sim.present(name).shown()
            self.assertEqual(shown, truth, f"seed {seed}, at {name}\n" + "\n".join(sim.history))
        everything = [sim.present(name).presence() for name in sim.nodes]
        self.assertEqual(everything[0].keys(), everything[1].keys())
        for client_id, found in everything[0].items():
            for other in everything[1:]:
                self.assertEqual(found["address"], other[client_id]["address"])
                self.assertEqual(found["version"], other[client_id]["version"])

    def test_with_stores(self) -> None:
        for seed in range(12):
            self.walk(seed, True)

    def test_without_stores(self) -> None:
        for seed in range(100, 112):
            self.walk(seed, False)
