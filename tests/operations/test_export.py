"""What a broker without a store has, as an export that another broker can go on with."""

import io

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.restore import restore
from mhub.operations.contract import OperationError
from mhub.operations.operations import Operations
from mhub.operations.slices import SLICE_S
from mhub.store.contract import StoreError
from mhub.store.jsonl import Survey, batches
from mhub.store.memory import MemoryStore
from tests.core.world import World
from tests.helpers import packets as p
from tests.operations.around import Around, Pauses


class Case(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World(max_inflight=2)
        self.around = Around(self.world.hub)
        self.pauses = Pauses()
        self.clock = lambda: self.world.now
        self.messages = 0

    def export(self) -> bytes:
        operations = Operations(self.world.hub, self.around, self.clock, self.pauses)

        async def read() -> bytes:
            return b"".join([part async for part in operations.store_export()])

        return self.successResultOf(Deferred.fromCoroutine(read()))

    def store(self) -> MemoryStore:
        """A store with what was exported."""
        file = io.BytesIO(self.export())
        store = MemoryStore()

        async def fill() -> None:
            for batch in batches(file, "export", Survey(file, "export").refs):
                await store.commit(batch)
            self.assertEqual(await store.check(), [])

        self.successResultOf(Deferred.fromCoroutine(fill()))
        return store

    def moved(self) -> World:
        """Another broker that goes on with it."""
        store = self.store()
        other = World(max_inflight=2)
        journal = Journal(0.0, 1000, 1 << 20)
        other.hub.keep_in(Writer(store, other), journal)
        contents = self.successResultOf(Deferred.fromCoroutine(store.open(other.now)))
        restore(other.hub, contents, lambda name: Limits(max_inflight=2))
        return other

    def publish(self, topic: str, *numbers: int, qos: int = 1) -> None:
        publisher = self.world.client("p")
        for number in numbers:
            publisher.publish(topic, b"%d" % number, qos)


class Writer:
    """The way to a store that is at hand."""

    def __init__(self, store: MemoryStore, world: World) -> None:
        self._store = store
        self._world = world

    def commit(self, batch: object) -> None:
        Deferred.fromCoroutine(self._store.commit(batch))
        self._world.hub.storage.committed()

    def load(self, session: object, after: int, most: int, most_bytes: int) -> None:
        rows: list[object] = []
        loading = Deferred.fromCoroutine(self._store.load(session.sid, after, most, most_bytes))
        loading.addCallback(rows.extend)
        self._world.hub.storage.loaded(session, rows, self._world.now)


class MemoryTests(Case):
    def test_a_session_goes_on_elsewhere(self) -> None:
        """In flight, queued, subscriptions, QoS 2 packet ids and retained messages."""
        client = self.world.client("a", clean=False)
        client.subscribe("t/#", 2)
        client.send(p.publish("up", b"x", 2, 77))
        client.take()
        self.publish("t/1", 1, 2, 3, 4)
        self.publish("t/2", 5, qos=2)
        self.world.client("r").publish("kept", b"k", 0, retain=True)
        client.lose()
        other = self.moved()
        again = other.client("a", clean=False)
        assert again.connack is not None
        self.assertTrue(again.connack.session_present)
        found = []
        other.settle()
        while packets := [packet for packet in again.take() if packet.type == "PUBLISH"]:
            for packet in packets:
                found.append((packet.payload, packet.dup))
                if packet.qos == 1:
                    again.send(p.puback(packet.pid))
                else:
                    again.send(p.pubrec(packet.pid))
                    again.next("PUBREL")
                    again.send(p.pubcomp(packet.pid))
            other.settle()
        self.assertEqual(
            found, [(b"1", True), (b"2", True)] + [(b"%d" % n, False) for n in (3, 4, 5)]
        )
        self.assertEqual(again.session.incoming, {77: False})
        kept = other.hub.retained.tree.get("kept")
        assert kept is not None
        self.assertEqual(kept.payload, b"k")

    def test_the_registry(self) -> None:
        registry = self.world.hub.registry
        registry.change({f"user/{number}": f"{number}" for number in range(60)}, self.world.now)
        other = self.moved().hub.registry
        self.assertEqual(other.revision, registry.revision)
        self.assertEqual(len(other), 60)

    def test_what_is_not_exported(self) -> None:
        """Sessions that end with their connection, and what the broker says of itself."""
        self.world.client("clean").subscribe("#")
        self.world.wait(20.0, 2)
        self.assertGreater(len(self.world.hub.retained), 0)
        store = self.store()
        self.assertEqual((store.sessions, store.retained), ({}, {}))

    def test_qos0(self) -> None:
        """It waits for a client that is away, and not for one that is slow."""
        self.world = World(queue_qos0_offline=True)
        self.around = Around(self.world.hub)
        away = self.world.client("away", clean=False)
        away.subscribe("t", 0)
        away.lose()
        slow = self.world.client("slow", clean=False)
        slow.subscribe("t", 0)
        slow.connection.blocked = True
        self.publish("t", 1, qos=0)
        store = self.store()
        owner = {sid: record.client_id for sid, record in store.sessions.items()}
        self.assertEqual([owner[sid] for sid, _ in store.deliveries], ["away"])

    def test_each_session_is_of_one_moment(self) -> None:
        """Whatever happens between the slices."""
        for name in ("a", "b"):
            client = self.world.client(name, clean=False)
            client.subscribe("t", 1)
            client.lose()
        self.publish("t", *range(200))

        def slow() -> float:
            self.world.now += SLICE_S
            return self.world.now

        def meanwhile() -> None:
            if self.messages < 10:
                self.messages += 1
                self.publish("t", 200 + self.messages)
                client = self.world.client("a", clean=False)
                for packet in client.take():
                    client.send(p.puback(packet.pid))
                client.lose()

        self.clock = slow
        self.pauses.meanwhile = meanwhile
        store = self.store()
        self.assertGreater(self.pauses.count, 10)
        seqs = sorted(seq for sid, seq in store.deliveries if sid == 1)
        self.assertEqual(seqs, list(range(1, 201)))


class StoreTests(Case):
    def test_what_the_store_refuses(self) -> None:
        async def broken() -> object:
            raise StoreError("the disk is gone")
            yield  # type: ignore[unreachable]

        self.around.snapshot = broken  # type: ignore[method-assign]
        operations = Operations(self.world.hub, self.around, self.clock, self.pauses)

        async def read() -> None:
            async for _ in operations.store_export():
                pass

        failure = self.failureResultOf(Deferred.fromCoroutine(read()), OperationError)
        self.assertEqual(str(failure.value), "the disk is gone")
