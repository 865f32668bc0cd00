"""A node with its store in Redis dies for good: the others have its sessions with all they had."""

from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers import packets as p
from tests.helpers.redis import RedisServer
from tests.system.case import place
from tests.system.cluster_processes import PORT, ClusterProcesses
from tests.system.process import wait_until
from tests.system.raw import Raw

MESSAGES = 150
"""More than the store's window, so that a part of the queues is in Redis alone."""


class Reader:
    """A subscriber that writes down what it gets; QoS 2 as it should be done."""

    def __init__(self, case: "FailoverTests", name: str, qos: int) -> None:
        self.case = case
        self.name = name
        self.qos = qos
        self.got: list[str] = []
        self.open: set[int] = set()
        self.raw: Raw | None = None

    def come(self, node: str) -> bool:
        """Whether the session was there."""
        self.raw = Raw((self.case.house.nodes[node].host, PORT))
        return bool(self.raw.connect(self.name, clean=False).session_present)

    def subscribe(self) -> None:
        assert self.raw is not None
        self.raw.subscribe("t/#", self.qos)

    def read_until(self, last: str) -> None:
        """All that comes until a payload, and the end of its delivery."""
        assert self.raw is not None
        while last not in self.got or self.open:
            packet = self.raw.receive()
            assert packet is not None, f"{self.name} was disconnected"
            assert packet.pid is not None, packet
            if packet.type == "PUBREL":
                self.open.discard(packet.pid)
                self.raw.send(p.pubcomp(packet.pid))
                continue
            assert packet.type == "PUBLISH", packet
            if packet.qos == 1:
                self.got.append(packet.payload.decode())
                self.raw.send(p.puback(packet.pid))
            else:
                if packet.pid not in self.open:
                    self.got.append(packet.payload.decode())
                self.open.add(packet.pid)
                self.raw.send(p.pubrec(packet.pid))

    def begin_one(self) -> None:
        """Take a message of QoS 2 half: the broker has PUBREC, and we do not read on."""
        assert self.raw is not None
        packet = self.raw.expect("PUBLISH", qos=2)
        assert packet.pid is not None
        self.got.append(packet.payload.decode())
        self.open.add(packet.pid)
        self.raw.send(p.pubrec(packet.pid))

    def leave(self) -> None:
        assert self.raw is not None
        self.raw.close()


class FailoverTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.redis = RedisServer()
        self.addCleanup(self.redis.remove)
        store = f'kind = "redis"\nredis.port = {self.redis.port}'
        self.house = ClusterProcesses(place(self), store=store)
        self.addCleanup(self.house.close)
        self.house.add("a", "b", "c")
        self.house.start()
        self.until(self.house.whole, "three nodes that see each other")
        self.numbers = iter(range(1, 1 << 30))

    def until(self, done: Callable[[], bool], what: str) -> None:
        try:
            wait_until(done, what)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.house.describe()}") from None

    def publish(self, node: str, count: int, qos: int) -> list[str]:
        """Payloads that a node has acknowledged; the publisher has a session of its own."""
        raw = Raw((self.house.nodes[node].host, PORT))
        raw.connect(f"publisher-{next(self.numbers)}")
        sent = []
        for _ in range(count):
            number = next(self.numbers)
            pid = number % 60000 + 1
            raw.publish("t/x", f"m{number}".encode(), qos, pid)
            if qos == 1:
                raw.expect("PUBACK", pid=pid)
            else:
                raw.expect("PUBREC", pid=pid)
                raw.send(p.pubrel(pid))
                raw.expect("PUBCOMP", pid=pid)
            sent.append(f"m{number}")
        raw.close()
        return sent

    def readers(self) -> list[Reader]:
        """Lasting sessions on a, of clients that are away by now."""
        found = [Reader(self, "one", 1), Reader(self, "two", 2), Reader(self, "away", 2)]
        for reader in found:
            self.assertFalse(reader.come("a"))
            reader.subscribe()
        return found

    def members(self, node: str) -> dict[str, dict[str, object]]:
        status = self.house.nodes[node].status()
        return {each["node"]: each for each in status["members"]} if status is not None else {}

    def wait_for_a_to_leave(self) -> None:
        def is_gone(node: str) -> bool:
            members = self.members(node)
            return bool(members) and "a" not in members

        self.until(lambda: is_gone("b") and is_gone("c"), "all of a is at the others")

    def check(self, reader: Reader, sent: list[str]) -> None:
        self.assertEqual(set(sent) - set(reader.got), set(), f"{reader.name} lacks something")
        self.assertEqual([m for m in reader.got if m not in sent], [])
        if reader.qos == 2:
            self.assertEqual(len(reader.got), len(set(reader.got)), f"{reader.name}: twice")

    def test_the_sessions_of_a_node_that_is_killed_go_on_elsewhere(self) -> None:
        one, two, away = readers = self.readers()
        sent = self.publish("b", 1, 2)
        two.begin_one()
        for reader in readers:
            reader.leave()
        sent += self.publish("a", MESSAGES, 2)
        self.house.kill("a")
        sent += self.publish("b", 20, 2)
        sent += self.publish("c", 20, 1)
        self.assertTrue(one.come("b"), self.house.describe())
        self.assertTrue(two.come("c"), self.house.describe())
        # Those of clients that are nowhere find a place; then it is as if a had left.
        self.wait_for_a_to_leave()
        sent += self.publish("c", 5, 2)
        self.assertTrue(away.come("b"), self.house.describe())
        for reader in readers:
            reader.read_until(sent[-1])
            self.check(reader, sent)
            reader.leave()
        # The node itself can come back, and has nothing.
        self.house.start("a")
        self.until(self.house.whole, "a is back")
        status = self.house.nodes["a"].status()
        self.assertEqual(0, status["clients"] if status is not None else -1)
        sent += self.publish("a", 3, 2)
        for reader in readers:
            self.assertTrue(reader.come("a"))
            reader.read_until(sent[-1])
            self.check(reader, sent)
            reader.leave()
        self.assertNotIn("Traceback", self.house.describe())

    def test_a_node_that_was_frozen_stops_when_it_wakes_up(self) -> None:
        one, two, away = readers = self.readers()
        away.leave()
        sent = self.publish("a", 20, 2)
        house = self.house
        late = Raw((house.nodes["a"].host, PORT))
        late.connect("late")
        house.shut("a")
        house.nodes["a"].freeze()
        late.send(*(p.publish("t/x", b"late %d" % pid, 1, pid) for pid in range(1, 6)))
        self.wait_for_a_to_leave()
        self.assertTrue(one.come("b"), house.describe())
        sent += self.publish("b", 5, 2)
        house.nodes["a"].thaw()
        self.assertEqual(house.nodes["a"].wait(), 1)
        self.assertIn("this node was considered dead", house.nodes["a"].log())
        # What it has acknowledged nevertheless is with the others.
        while (packet := late.receive()) is not None:
            if packet.type == "PUBACK":
                sent.append(f"late {packet.pid}")
        sent += self.publish("c", 1, 2)
        self.assertTrue(two.come("c"), house.describe())
        self.assertTrue(away.come("b"), house.describe())
        for reader in readers:
            reader.read_until(sent[-1])
            reader.got = [text for text in reader.got if text in sent or text[:4] != "late"]
            self.check(reader, sent)
            reader.leave()
        house.start("a")
        self.until(house.whole, "a is back")
        self.assertNotIn("Traceback", house.describe())
