"""The $SYS topics and the counters behind them."""

from unittest import TestCase

from mhub.core.connection import Connection
from mhub.core.hlc import Clock
from mhub.core.limits import PeerLimits
from mhub.core.metrics import BROKER, CLUSTER, COUNTER, TEXT, Load
from mhub.core.peer import Peer
from mhub.core.peers import Peers
from mhub.core.records import Row
from mhub.core.session import Session
from tests.core.world import Client, World
from tests.helpers import packets as p
from tests.helpers.packets import Prop


class Case(TestCase):
    def setUp(self) -> None:
        self.world = World(sys_interval_s=10.0, version="1.2.3")

    def told(self, client: Client) -> dict[str, str]:
        self.world.settle()
        return {packet.topic or "": packet.payload.decode() for packet in client.take()}

    def listen(self, topic_filter: str = "$SYS/#") -> Client:
        client = self.world.client("listener")
        client.send(p.subscribe(1, (topic_filter, 0)))
        client.next("SUBACK")
        return client


class Topics(Case):
    def test_told_at_once_and_retained(self) -> None:
        self.world.wait(0.5)
        told = self.told(self.listen())
        self.assertEqual(told["$SYS/broker/version"], "mhub 1.2.3")
        self.assertEqual(told["$SYS/broker/clients/connected"], "0")
        for name in ("uptime", "bytes/received", "subscriptions/count", "retained messages/count"):
            self.assertIn(f"$SYS/broker/{name}", told)

    def test_only_what_has_changed(self) -> None:
        self.world.wait(0.5)
        listener = self.listen()
        self.told(listener)
        self.world.wait(10)
        told = self.told(listener)
        self.assertEqual(told["$SYS/broker/clients/connected"], "1")
        self.assertNotIn("$SYS/broker/version", told)

    def test_in_the_configured_interval(self) -> None:
        listener = self.listen("$SYS/broker/uptime")
        self.world.wait(0.5)
        self.assertEqual(len(self.told(listener)), 1)
        self.world.wait(9)
        self.assertEqual(self.told(listener), {})
        self.world.wait(2)
        self.assertEqual(self.told(listener), {"$SYS/broker/uptime": "12 seconds"})

    def test_switched_off(self) -> None:
        self.world = World(sys_interval_s=0)
        self.world.wait(100)
        self.assertEqual(self.told(self.listen()), {})

    def test_hidden_from_wildcards(self) -> None:
        """[MQTT-4.7.2-1]"""
        listener = self.listen("#")
        listener.subscribe("+/broker/version")
        self.world.wait(0.5)
        self.assertEqual(self.told(listener), {})

    def test_every_dropped_message_is_told_by_its_cause(self) -> None:
        world = self.world
        listener = self.listen("$SYS/broker/+/+")
        away = world.client("away", clean=False)
        away.subscribe("t", 0)
        away.lose()
        small = world.client("small", 5, props=[(Prop.MAXIMUM_PACKET_SIZE, 30)])
        small.subscribe("t")
        world.client("p").publish("t", b"x" * 50)
        world.wait(0.5)
        told = self.told(listener)
        self.assertEqual(told["$SYS/broker/dropped/offline"], "1")
        self.assertEqual(told["$SYS/broker/dropped/too_large"], "1")
        self.assertEqual(told["$SYS/broker/dropped/queue_full"], "0")


class Neighbours:
    """Other nodes that need to be told nothing."""

    def tell(self, peer: Peer) -> None:
        peer.told = peer.knows = 1_000

    def claim(self, connection: Connection) -> bool:
        return False

    def control(self, peer: Peer, client_id: str, body: bytes) -> None:
        pass

    def loaded(self, session: Session, rows: list[Row]) -> None:
        pass

    def ended(self, session: Session) -> None:
        pass

    def owned(self, peer: Peer, client_id: str, value: int) -> None:
        pass

    def remains(self, peer: Peer, client_id: str, epoch: int) -> None:
        pass

    def turn(self) -> None:
        pass

    def stranger_numbers(self) -> dict[str, int]:
        return {"now": 2, "evicted": 9}

    def session_numbers(self) -> dict[str, int]:
        return {"migrating": 3, "held": 1}


class Frames:
    """The way to a peer, which is no further than here."""

    def send(self, kind: int, body: bytes) -> None:
        pass


class Cluster(Case):
    def join(self) -> Peers:
        limits = PeerLimits()
        limits.max_queued_messages = 2
        peers = Peers(self.world.hub, "a", Clock("a", 0.0), Neighbours(), limits)
        peers.suback_waits = False
        self.world.hub.join(peers)
        for name in ("b", "c"):
            peers.meet(name)
            peers.learn(peers.peers[name], "ft/#", 3)
        peers.peers["b"].linked(Frames(), "", 0, "epoch")
        return peers

    def test_nothing_of_a_cluster_without_one(self) -> None:
        self.world.wait(0.5)
        self.assertFalse([name for name in self.told(self.listen()) if "cluster" in name])

    def test_the_sums_over_all_peers(self) -> None:
        peers = self.join()
        listener = self.listen("$SYS/broker/cluster/#")
        self.world.client("s").subscribe("u/#")
        publisher = self.world.client("p")
        publisher.publish("t/1", b"12345", 1)
        publisher.publish("t/2", b"12345")
        peers.peers["b"].counters.messages_received = 5
        peers.peers["c"].counters.messages_doubled = 1
        self.world.wait(0.5)
        told = {
            name.removeprefix("$SYS/broker/cluster/"): v for name, v in self.told(listener).items()
        }
        self.assertEqual(
            told,
            {
                "node": "a",
                "members/up": "1",
                "members/total": "2",
                "sessions/migrating": "3",
                "sessions/waiting": "0",
                "sessions/merging": "0",
                "sessions/held": "1",
                "strangers/now": "2",
                "strangers/evicted": "9",
                "strangers/rejected": "0",
                "strangers/wrong_secrets": "0",
                "routes": "1",
                "messages/sent": "2",
                "messages/received": "5",
                "messages/doubled": "1",
                "dropped/qos0": "1",
                "dropped/full": "0",
                "refused/full": "0",
                "registry/refused": "0",
                "registry/tombstones": "0",
                "queued/messages": "2",
                "queued/bytes": "16",
            },
        )

    def test_counters_do_not_go_down_with_a_peer_that_is_forgotten(self) -> None:
        peers = self.join()
        publisher = self.world.client("p")
        publisher.publish("t/1", b"12345")
        publisher.publish("t/1", b"12345", 1)
        peers.peers["b"].counters.messages_received = 5
        peers.peers["b"].counters.messages_doubled = 1
        peers.peers["c"].counters.dropped_full = 2
        before = self.world.hub.metrics.snapshot(self.world.now)
        peers.peers["b"].unlinked()
        for name in ("b", "c"):
            peers.forget(peers.peers[name])
        after = self.world.hub.metrics.snapshot(self.world.now)
        for metric in CLUSTER:
            if metric.kind == COUNTER:
                self.assertEqual(after[metric.name], before[metric.name], metric.name)
        self.assertEqual(before["cluster/dropped/full"], 2)
        self.assertEqual(after["cluster/members/total"], 0)
        self.assertEqual(after["cluster/queued/messages"], 0)

    def test_a_queue_that_is_full(self) -> None:
        peers = self.join()
        listener = self.listen("$SYS/broker/cluster/+/full")
        publisher = self.world.client("p", 5)
        for _ in range(3):
            publisher.send(p.publish("t/1", b"x", 1, 1, version=5))
        peers.limits.refuse_when_full = False
        publisher.send(p.publish("t/1", b"x", 1, 1, version=5))
        self.world.wait(0.5)
        told = self.told(listener)
        self.assertEqual(told["$SYS/broker/cluster/refused/full"], "1")
        self.assertEqual(told["$SYS/broker/cluster/dropped/full"], "2")


class Loads(Case):
    def test_a_steady_rate_is_approached(self) -> None:
        load = Load(60.0)
        for _ in range(60):
            load.update(50, 10.0)
        self.assertAlmostEqual(load.per_minute, 300.0, delta=0.1)
        for _ in range(60):
            load.update(0, 10.0)
        self.assertAlmostEqual(load.per_minute, 0.0, delta=0.1)

    def test_told_for_each_window(self) -> None:
        self.world.wait(0.5)
        listener = self.listen("$SYS/broker/load/#")
        self.told(listener)
        for _ in range(600):
            self.world.client("p").publish("t")
        self.world.wait(10)
        told = self.told(listener)
        rates = [float(told[f"$SYS/broker/load/publish/received/{n}min"]) for n in (1, 5, 15)]
        self.assertTrue(rates[0] > rates[1] > rates[2] > 0, rates)


class Table(Case):
    def test_types(self) -> None:
        """Counters and gauges are whole numbers, for whoever reads a snapshot."""
        Cluster.join(self)  # type: ignore[arg-type]
        snapshot = self.world.hub.metrics.snapshot(self.world.now)
        for metric in (*BROKER, *CLUSTER):
            expected = str if metric.kind == TEXT else int
            self.assertIs(type(snapshot[metric.name]), expected, metric.name)
            self.assertEqual(metric.unit == "", metric.kind == TEXT, metric.name)

    def test_every_counter_is_shown(self) -> None:
        """What is counted and never shown need not be counted."""
        peers = Cluster.join(self)  # type: ignore[arg-type]
        metrics = self.world.hub.metrics
        for counters in (self.world.stats, peers.peers["b"].counters):
            for name in _counters(type(counters)):
                before = metrics.snapshot(self.world.now)
                if name == "denied_by_rule":
                    counters.denied_by_rule["r1"] = 1
                else:
                    value = getattr(counters, name)
                    more = [each + 1 for each in value] if isinstance(value, list) else value + 1
                    setattr(counters, name, more)
                self.assertNotEqual(metrics.snapshot(self.world.now), before, name)

    def test_a_snapshot_does_not_move_the_averages(self) -> None:
        self.world.wait(10.5)
        before = self.world.hub.metrics.snapshot(self.world.now)
        self.world.client("p").publish("t")
        after = self.world.hub.metrics.snapshot(self.world.now + 5)
        name = "load/publish/received/1min"
        self.assertEqual((type(before[name]), after[name]), (float, before[name]))


def _counters(cls: type) -> list[str]:
    """The attributes of an instance; a compiled class has them as descriptors."""
    return sorted(vars(cls()) if hasattr(cls(), "__dict__") else cls.__mypyc_attrs__)


class Counters(TestCase):
    def test_traffic(self) -> None:
        """Each byte, packet and message is counted once, on its way in and on its way out."""
        world = World(sys_interval_s=0)
        subscriber = world.client("s")
        subscriber.subscribe("t", 1)
        publisher = world.client("p")
        stats = world.stats
        before = {name: getattr(stats, name) for name in ("bytes_received", "bytes_sent")}
        received, sent = stats.packets_received, stats.packets_sent
        data = p.publish("t", b"12345", 1, 1) + p.publish("t", b"67") + p.pingreq()
        publisher.send(data)
        self.assertEqual(stats.bytes_received - before["bytes_received"], len(data))
        out = len(publisher.outlet.data) + len(subscriber.outlet.data)
        self.assertEqual(stats.bytes_sent - before["bytes_sent"], out)
        self.assertEqual(stats.packets_received - received, 3)
        self.assertEqual(stats.packets_sent - sent, 4)
        self.assertEqual((stats.publish_received, stats.publish_bytes_received), (2, 7))
        self.assertEqual((stats.publish_sent, stats.publish_bytes_sent), (2, 7))

    def test_faults(self) -> None:
        world = World()
        world.client("d").send(b"\xff\0")
        world.open().send(b"\x10\x01?")
        self.assertEqual(world.stats.protocol_errors, 2)
        self.assertEqual(world.stats.connections_refused, 1)

    def test_clients(self) -> None:
        world = World()
        clients = [world.client(f"c{number}") for number in range(3)]
        for client in clients:
            client.lose()
        world.client("c9")
        self.assertEqual((world.hub.connected, world.stats.clients_maximum), (1, 3))
