"""What a dead node left in Redis, a real one: one other node has it at a time; nothing is lost."""

from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.logger import formatEvent, globalLogPublisher

from mhub.core.records import Batch
from mhub.store.contract import NothingThere, StillOwned, StoreTaken
from mhub.store.redis import RedisOptions, RedisStore
from tests.helpers.redis import Proxy, RedisServer, free_port, shared_server
from tests.store.plain import plain_stored
from tests.store.records import LOTS, NOW, batch, body, delivery, message, session, subscription
from tests.store.redis_case import RedisCase

NODE = "mhub:b:"
LONG_S = 60.0  # a lease that no test outlives, however slow the machine
SHORT_S = 0.2  # one that is to lapse


class Line(Proxy):
    """Keeps requests back, from the first one with `hold` in it until let_go()."""

    def __init__(self, reactor: Any, server_port: int) -> None:
        super().__init__(reactor, server_port)
        self.hold: bytes | None = None
        self.held: list[tuple[Any, bytes]] = []
        self._stopped = False

    async def stop(self) -> None:
        if not self._stopped:
            self._stopped = True
            await super().stop()

    def came(self, end: Any, data: bytes) -> None:
        found = self.held or (self.hold is not None and self.hold in data)
        if end.role == "request" and found:
            self.held.append((end, data))
        else:
            super().came(end, data)

    def let_go(self) -> None:
        held, self.held, self.hold = self.held, [], None
        for end, data in held:
            super().came(end, data)


def full(sid: int, **fields: Any) -> Batch:
    """A session with something of everything; the message 7 is also for others."""
    return batch(
        session(sid, **fields),
        subscription(sid, "a/#", qos=1),
        delivery(sid, 1, pid=5),
        delivery(sid, 2, 7),
        delivery(sid, 4, 7, pid=2),
        delivery(sid, 9),
        incoming={(sid, 3): True},
        refs={7: 2},
    )


def shared() -> Batch:
    """The message that the sessions of full() share, held by the session 99."""
    return batch(session(99), message(7, 1), delivery(99, 1, 7))


class FailoverCase(RedisCase):
    def setUp(self) -> None:
        self.taken: list[StoreTaken] = []
        self.lines: list[str] = []
        globalLogPublisher.addObserver(self._hear)
        self.addCleanup(globalLogPublisher.removeObserver, self._hear)

    def _hear(self, event: Any) -> None:
        if event.get("log_namespace") == "mhub.store":
            self.lines.append(formatEvent(event))

    def line(self, server: RedisServer) -> Line:
        line = Line(reactor, server.port)
        self.addCleanup(line.stop)
        return line

    def successor(self, port: int, by: str = "a", **options: Any) -> RedisStore:
        """What node `a` makes of its own store, for node `b`."""
        given = {"port": port, "node": "a", "lease_s": LONG_S, "timeout_s": 60, **options}
        own = RedisStore(reactor, RedisOptions(**given))
        store = own.beside("b", by, self.taken.append)
        self.addCleanup(store.close)
        return store

    async def node(self, port: int, *batches: Batch, lease_s: float = LONG_S) -> RedisStore:
        """The store of a node that runs."""
        options = RedisOptions(port=port, node="b", lease_s=lease_s, timeout_s=60)
        store = RedisStore(reactor, options, taken=self.taken.append)
        self.addCleanup(store.close)
        await store.open(NOW)
        for each in batches:
            await store.commit(each)
        return store

    async def dead_node(self, server: RedisServer, *batches: Batch) -> None:
        """One that does not reach Redis any more, after these batches."""
        line = self.line(server)
        await self.node(line.port, *batches, lease_s=SHORT_S)
        await line.stop()
        await self.lapsed(server)

    async def lapsed(self, server: RedisServer) -> None:
        await self.until(lambda: server.ask("EXISTS", f"{NODE}owner") == 0)

    def picture(self, server: RedisServer) -> dict[str, bytes]:
        """All there is but for leases."""
        keys = [key for key in server.all_keys() if not key.endswith("owner")]
        return {key: server.ask("DUMP", key) for key in keys}

    async def sids(self, store: RedisStore) -> list[int]:
        await store.claim()
        return sorted(each.record.sid for each in (await store.open(NOW)).sessions)

    async def assert_taken(self, call: Any) -> None:
        before = len(self.taken)
        error = await self.refusal(call)
        self.assertIsInstance(error, StoreTaken)
        self.assertIn("another broker uses it now", str(error))
        self.assertGreater(len(self.taken), before, "nobody was told")


class ClaimTests(FailoverCase):
    async def test_a_node_that_lives_is_left_alone(self) -> None:
        server = shared_server()
        node = await self.node(server.port, shared(), full(1))
        before = self.picture(server)
        error = await self.refusal(self.successor(server.port).claim())
        self.assertIsInstance(error, StillOwned)
        self.assertIn("is being used by", str(error))
        self.assertEqual(self.picture(server), before)
        await node.commit(batch(session(2)))
        self.assertEqual(self.taken, [])

    async def test_where_nothing_is_nothing_is_made(self) -> None:
        server = shared_server()
        error = await self.refusal(self.successor(server.port).claim())
        self.assertIsInstance(error, NothingThere)
        self.assertIn(NODE, str(error))
        self.assertEqual(server.all_keys(), [])

    async def test_another_schema_is_left_alone(self) -> None:
        """A node of another release may come back, as in the middle of an upgrade."""
        server = shared_server()
        for schema, text in ((99, "of a newer mhub"), (2, "of an older mhub")):
            server.ask("HSET", f"{NODE}meta", "schema", schema)
            server.ask("SADD", f"{NODE}sessions", 1)
            before = self.picture(server)
            await self.assert_broken(self.successor(server.port).claim(), f"schema {schema}", text)
            self.assertEqual(self.picture(server), before)

    async def test_a_server_that_is_not_there(self) -> None:
        await self.assert_fails(self.successor(free_port()).claim(), "cannot connect")

    async def test_one_at_a_time_and_all_that_was_there(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1))
        first, second = self.successor(server.port), self.successor(server.port, by="c")
        self.assertEqual(await self.sids(first), [1, 99])
        error = await self.refusal(second.claim())
        self.assertIsInstance(error, StillOwned)
        self.assertIn("is being taken over by node a on ", str(error))
        await first.commit(batch(ended=[1]))
        await first.close()
        self.assertEqual(await self.sids(second), [99])
        self.assertEqual(await second.check(), [])


class SharedTests(FailoverCase):
    async def test_whoever_uses_the_same_keys_has_the_same_word(self) -> None:
        server = shared_server()
        first = await self.node(server.port)
        word = await first.identity()
        self.assertTrue(word)
        self.assertEqual(await self.make(server.port, node="c").identity(), word)
        for other in ({"prefix": "other:"}, {"db": 1}):
            elsewhere = self.make(server.port, node="c", **other)
            self.assertNotEqual(await elsewhere.identity(), word)


class LeaseTests(FailoverCase):
    """Who may do what, while and after one takes over from another."""

    async def test_another_one_goes_on_where_a_failover_died(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.dead_node(server, shared(), full(1), full(2))
        first = self.successor(line.port, lease_s=SHORT_S)
        await first.claim()
        expected = [plain_stored(each) for each in (await first.open(NOW)).sessions]
        await first.commit(batch(ended=[1]))
        await line.stop()
        await self.lapsed(server)
        second = self.successor(server.port)
        await second.claim()
        found = [plain_stored(each) for each in (await second.open(NOW)).sessions]
        self.assertEqual(found, expected[1:])
        self.assertEqual(await second.check(), [])

    async def test_the_node_goes_on_where_a_failover_died(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.dead_node(server, shared(), full(1), full(2))
        successor = self.successor(line.port, lease_s=SHORT_S)
        self.assertEqual(await self.sids(successor), [1, 2, 99])
        await successor.commit(batch(ended=[1]))
        await line.stop()
        node = self.make(server.port, prefix=NODE)
        contents = await node.open(NOW)
        self.assertEqual([each.record.sid for each in contents.sessions], [2, 99])
        self.assertEqual(await node.check(), [])
        await node.commit(full(3))

    async def test_a_stand_in_that_was_too_slow_changes_nothing(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.dead_node(server, shared(), full(1), full(2))
        first = self.successor(line.port, lease_s=SHORT_S)
        await self.sids(first)
        line.hold = b""
        ending = Deferred.fromCoroutine(first.commit(batch(ended=[1, 2])))
        await self.lapsed(server)
        second = self.successor(server.port)
        await second.claim()
        await second.commit(batch(ended=[1]))
        before = self.picture(server)
        line.let_go()
        await self.assert_taken(ending)
        await second.close()
        await self.assert_taken(first.commit(batch(ended=[2])))
        await first.close()
        self.assertEqual(self.picture(server), before)

    async def test_the_node_waits_as_long_as_it_is_stood_in_for(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1))
        successor = self.successor(server.port)
        await self.sids(successor)
        node = self.make(server.port, prefix=NODE, lease_s=SHORT_S)
        opening = Deferred.fromCoroutine(node.open(NOW))
        await self.until(lambda: bool(self.lines))
        began = reactor.seconds()  # it waits for longer than it would for a dead one
        await self.until(lambda: reactor.seconds() > began + 3 * SHORT_S)
        self.assertFalse(opening.called)
        await successor.commit(batch(ended=[1]))
        await successor.close()
        contents = await opening
        self.assertEqual([each.record.sid for each in contents.sessions], [99])
        self.assertEqual(len(self.lines), 1, self.lines)
        self.assertIn("node a on ", self.lines[0])
        self.assertIn("is taking over what this node had", self.lines[0])

    async def test_a_node_that_has_nothing_to_store_hears_that_it_was_taken(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.node(line.port, full(1), lease_s=SHORT_S)
        line.hold = b""
        await self.lapsed(server)
        await self.successor(server.port).claim()
        self.assertEqual(self.taken, [])
        line.let_go()
        await self.until(lambda: bool(self.taken))

    async def test_a_batch_that_comes_late_is_not_applied(self) -> None:
        """The node was cut off, and has not heard that it is dead."""
        server = shared_server()
        line = self.line(server)
        node = await self.node(line.port, shared(), full(1), lease_s=SHORT_S)
        line.hold = b""
        changes = batch(
            session(2),
            delivery(1, 20),
            removals=[(1, 9)],
            retained={"t": body()},
            notes={"n": "1"},
            ended=[99],
        )
        late = Deferred.fromCoroutine(node.commit(changes))
        await self.lapsed(server)
        successor = self.successor(server.port)
        await successor.claim()
        before = self.picture(server)
        line.let_go()
        await self.assert_taken(late)
        for _ in range(2):  # it tries again and again
            await self.assert_taken(node.commit(changes))
        self.assertEqual(self.picture(server), before)
        await successor.commit(batch(ended=[1, 99]))
        await successor.close()
        before = self.picture(server)
        await self.assert_taken(node.commit(changes))
        self.assertEqual(await node.load(1, 0, 10, LOTS), [])
        await node.close()
        self.assertEqual(self.picture(server), before)

    async def test_a_start_that_was_too_slow_changes_nothing(self) -> None:
        """Whatever it was about to do when another one came."""
        for step in (b"sids that have ended", b"refs as they shall be", b"hash, fields"):
            server = shared_server()
            old = batch(retained={"t": body("x", "t", NOW + 5)})
            await self.dead_node(server, shared(), full(1, ends_at=NOW + 5), full(2), old)
            for key in "sqibp":
                server.ask("DEL", f"{NODE}{key}:2")
            line = self.line(server)
            slow = self.successor(line.port, lease_s=SHORT_S)
            line.hold = step
            opening = Deferred.fromCoroutine(slow.open(NOW + 10))
            await self.until(lambda line=line: bool(line.held))
            await self.lapsed(server)
            later = batch(session(1), delivery(99, 30, 7), refs={7: 1})
            node = await self.node(server.port, later)
            before = self.picture(server)
            line.let_go()
            await self.assert_taken(opening)
            self.assertEqual(self.picture(server), before)
            await node.close()
            await slow.close()
