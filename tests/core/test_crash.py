"""Nothing acknowledged is ever lost: random traffic, a store that takes its time, and crashes.

Publishers and persistent subscribers behave as MQTT clients do: they resend after a reconnect what
was not acknowledged.  Whatever the moments of commits and crashes: each acknowledged message
reaches each subscriber, QoS 2 exactly once, in the order of its publisher; the retained value is
the last acknowledged one or a later one.
"""

import random

from twisted.trial.unittest import SynchronousTestCase

from tests.core.disk import Disk, crash
from tests.core.world import Client, World
from tests.helpers import packets as p

TOPIC = "t/%s"


class Publisher:
    def __init__(self, name: str, qos: int, retain: bool) -> None:
        self.name = name
        self.qos = qos
        self.retain = retain
        self.client: Client | None = None
        self.sent = 0
        self.waiting: dict[int, int] = {}  # packet id -> number of the message
        self.releasing: dict[int, int] = {}  # the same after PUBREC
        self.acknowledged: set[int] = set()

    def connect(self, world: World, disk: Disk, rng: random.Random) -> None:
        self.client = open_session(world, disk, self.name)
        for pid in self.releasing:
            self.client.send(p.pubrel(pid))
        for pid, number in self.waiting.items():
            self.client.send(self._packet(pid, number, True))

    def _packet(self, pid: int, number: int, dup: bool) -> bytes:
        payload = f"{self.name} {number}".encode()
        return p.publish(TOPIC % self.name, payload, self.qos, pid, self.retain, dup)

    def act(self, rng: random.Random) -> None:
        assert self.client is not None
        packets = []
        for _ in range(rng.randrange(1, 4)):
            if len(self.waiting) + len(self.releasing) >= 10:
                break
            self.sent += 1
            pid = next(n for n in range(1, 99) if n not in self.waiting | self.releasing)
            self.waiting[pid] = self.sent
            packets.append(self._packet(pid, self.sent, False))
        self.client.send(*packets)

    def read(self) -> None:
        if self.client is None:
            return
        for packet in self.client.take():
            pid = packet.pid
            if packet.type == "PUBACK":
                self.acknowledged.add(self.waiting.pop(pid))
            elif packet.type == "PUBREC":
                number = self.waiting.pop(pid, None)
                if number is not None:
                    self.acknowledged.add(number)
                    self.releasing[pid] = number
                self.client.send(p.pubrel(pid))
            elif packet.type == "PUBCOMP":
                self.releasing.pop(pid)
            else:
                raise AssertionError(packet)

    def idle(self) -> bool:
        return not self.waiting and not self.releasing


class Subscriber:
    def __init__(self, name: str, qos: int) -> None:
        self.name = name
        self.qos = qos
        self.client: Client | None = None
        self.got: dict[str, list[int]] = {}
        self.open: set[int] = set()  # QoS 2 packet ids before PUBREL

    def connect(self, world: World, disk: Disk, rng: random.Random) -> None:
        self.client = open_session(world, disk, self.name)

    def read(self, rng: random.Random | None = None) -> None:
        """Take what came; with rng acknowledge only some of it, and the rest never."""
        if self.client is None:
            return
        for packet in self.client.take():
            if rng is not None and rng.random() < 0.05:
                self.client = None  # it dies here
                return
            if packet.type == "PUBLISH":
                name, number = packet.payload.decode().split()
                if packet.qos < 2 or packet.pid not in self.open:
                    self.got.setdefault(name, []).append(int(number))
                if packet.qos == 1:
                    self.client.send(p.puback(packet.pid))
                elif packet.qos == 2:
                    self.open.add(packet.pid)
                    self.client.send(p.pubrec(packet.pid))
            elif packet.type == "PUBREL":
                self.open.discard(packet.pid)
                self.client.send(p.pubcomp(packet.pid))
            else:
                raise AssertionError(packet)


def open_session(world: World, disk: Disk, name: str) -> Client:
    client = world.open(4)
    client.send(p.connect(name, 4, clean=False))
    disk.settle()
    connack = client.next("CONNACK")
    assert connack.reason == 0, connack
    return client


class CrashTests(SynchronousTestCase):
    def check_seed(self, seed: int, crashes: bool) -> None:
        rng = random.Random(seed)
        world = World()
        disk = Disk(world, window=rng.choice((2, 4, 50)))
        publishers = [Publisher(f"p{n}", 1 + n % 2, n > 1) for n in range(4)]
        subscribers = [Subscriber(f"s{n}", 1 + n % 2) for n in range(3)]
        for subscriber in subscribers:
            subscriber.connect(world, disk, rng)
            assert subscriber.client is not None
            subscriber.client.send(p.subscribe(1, ("t/#", subscriber.qos)))
            disk.settle()
            self.assertEqual(subscriber.client.next("SUBACK").pid, 1)
        for _ in range(rng.randrange(50, 150)):
            actor = rng.choice([*publishers, *subscribers])
            what = rng.random()
            if crashes and what < 0.03:
                for each in [*publishers, *subscribers]:
                    each.client = None
                world, disk = crash(world, disk)
            elif what < 0.08 and actor.client is not None:
                actor.client.lose()
                actor.client = None
            elif what < 0.5:
                disk.step()
                world.settle()
            elif actor.client is None:
                actor.connect(world, disk, rng)
            elif isinstance(actor, Publisher):
                actor.act(rng)
                if rng.random() < 0.5:
                    actor.read()
            else:
                actor.read(rng)
                world.settle()
        self.finish(world, disk, publishers, subscribers, rng)

    def finish(
        self,
        world: World,
        disk: Disk,
        publishers: list[Publisher],
        subscribers: list[Subscriber],
        rng: random.Random,
    ) -> None:
        """Everybody comes back, and everything comes to rest."""
        for each in [*publishers, *subscribers]:
            if each.client is None:
                each.connect(world, disk, rng)
        for _ in range(200):
            disk.settle()
            for each in [*publishers, *subscribers]:
                each.read()
            if not disk.busy() and all(each.idle() for each in publishers):
                if not any(each.client and each.client.outlet.data for each in subscribers):
                    break
        disk.settle()
        for publisher in publishers:
            self.assertTrue(publisher.idle())
            for subscriber in subscribers:
                got = subscriber.got.get(publisher.name, [])
                lost = publisher.acknowledged - set(got)
                self.assertFalse(lost, f"{subscriber.name} lost of {publisher.name}")
                firsts = list(dict.fromkeys(got))
                self.assertEqual(firsts, sorted(firsts), f"{subscriber.name}: order")
                if publisher.qos == subscriber.qos == 2:
                    self.assertEqual(got, firsts, f"{subscriber.name}: twice")
        store = disk.store
        self.assertEqual(store.deliveries, {}, "all is acknowledged, and still stored")
        self.assertEqual(store.messages, {})
        self.assertEqual(store.incoming, set())
        self.check_retained(world, disk, publishers)

    def check_retained(self, world: World, disk: Disk, publishers: list[Publisher]) -> None:
        world, disk = crash(world, disk)
        client = world.client("late")
        client.send(p.subscribe(1, ("t/#", 0)))
        kept = dict(packet.payload.decode().split() for packet in client.take()[1:])
        for publisher in publishers:
            if publisher.retain and publisher.acknowledged:
                self.assertGreaterEqual(int(kept[publisher.name]), max(publisher.acknowledged))

    def test_connections_that_come_and_go(self) -> None:
        for seed in range(150):
            self.check_seed(seed, crashes=False)

    def test_crashes_at_any_moment(self) -> None:
        for seed in range(1000, 1400):
            self.check_seed(seed, crashes=True)
