"""What a dead node left in Redis, a real one: one survivor takes all of it, and nothing is lost."""

from dataclasses import replace
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from mhub.config.settings import RedisSettings
from mhub.core.journal import Batch, Row, StoredSession
from mhub.store.adopt import Estate, NothingThere, StillOwned, StoreTaken, make_estate
from mhub.store.redis import RedisOptions, RedisStore
from mhub.store.redis_reader import PAGE
from tests.helpers.redis import Proxy, RedisServer, free_port, shared_server
from tests.store.plain import plain_row, plain_stored, portrait
from tests.store.records import (
    LOTS,
    NOW,
    batch,
    body,
    delivery,
    message,
    session,
    subscription,
)
from tests.store.redis_case import RedisCase

NODE = "mhub:b:"
OTHER = "mhub:a:"
LONG_S = 60.0  # a lease that no test outlives, however slow the machine
SHORT_S = 0.2  # one that is to lapse
NEVER = 0xFFFFFFFF


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


class AdoptCase(RedisCase):
    def line(self, server: RedisServer) -> Line:
        line = Line(reactor, server.port)
        self.addCleanup(line.stop)
        return line

    def estate(self, port: int, **options: Any) -> Estate:
        given = {"port": port, "prefix": NODE, "lease_s": LONG_S, "timeout_s": 60, **options}
        estate = Estate(reactor, RedisOptions(**given))
        self.addCleanup(estate.close)
        return estate

    async def node(self, port: int, *batches: Batch, lease_s: float = LONG_S) -> RedisStore:
        """The store of a node that runs."""
        store = await self.opened(port, prefix=NODE, lease_s=lease_s, timeout_s=60)
        for each in batches:
            await store.commit(each)
        return store

    async def dead_node(self, server: RedisServer, *batches: Batch) -> RedisStore:
        """One that does not reach Redis any more, after these batches."""
        line = self.line(server)
        store = await self.node(line.port, *batches, lease_s=SHORT_S)
        await line.stop()
        await self.lapsed(server)
        return store

    async def lapsed(self, server: RedisServer) -> None:
        await self.until(lambda: server.ask("EXISTS", f"{NODE}owner") == 0)

    def picture(self, server: RedisServer) -> dict[str, bytes]:
        """All there is but for leases."""
        keys = [key for key in server.all_keys() if not key.endswith("owner")]
        return {key: server.ask("DUMP", key) for key in keys}

    def left(self, server: RedisServer) -> list[str]:
        keys = [key for key in server.all_keys() if key.startswith(NODE)]
        return [key.removeprefix(NODE) for key in keys]

    async def found(self, estate: Estate, now: float = NOW) -> list[StoredSession]:
        return [stored async for stored in estate.sessions(now)]

    async def sids(self, estate: Estate, now: float = NOW) -> list[int]:
        return [stored.record.sid for stored in await self.found(estate, now)]

    async def all_rows(self, estate: Estate, stored: StoredSession) -> list[Row]:
        return [row async for portion in estate.rows(stored) for row in portion]

    async def assert_taken(self, call: Any) -> None:
        error = await self.refusal(call)
        self.assertIsInstance(error, StoreTaken)
        self.assertIn("another broker uses it now", str(error))
        self.assertIn("nothing is stored", str(error))


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


class OpenTests(AdoptCase):
    async def test_a_node_that_lives_is_left_alone(self) -> None:
        server = shared_server()
        node = await self.node(server.port, shared(), full(1))
        before = self.picture(server)
        error = await self.refusal(self.estate(server.port).open())
        self.assertIsInstance(error, StillOwned)
        self.assertIn("is being used by", str(error))
        self.assertIn(" pid ", str(error))
        self.assertEqual(self.picture(server), before)
        await node.commit(batch(session(2)))

    async def test_where_nothing_is_nothing_is_made(self) -> None:
        server = shared_server()
        error = await self.refusal(self.estate(server.port).open())
        self.assertIsInstance(error, NothingThere)
        self.assertIn(NODE, str(error))
        self.assertEqual(server.all_keys(), [])

    async def test_a_node_without_sessions_is_left_alone(self) -> None:
        """It may only be slow, and goes on then."""
        server = shared_server()
        line = self.line(server)
        kept = batch(retained={"t": body()}, notes={"n": "1"})
        node = await self.node(line.port, full(1), kept, batch(ended=[1]), lease_s=SHORT_S)
        line.hold = b""
        await self.lapsed(server)
        before = self.picture(server)
        error = await self.refusal(self.estate(server.port).open())
        self.assertIsInstance(error, NothingThere)
        self.assertEqual(self.picture(server), before)
        self.assertEqual(server.ask("EXISTS", f"{NODE}owner"), 0)
        line.let_go()
        await node.commit(batch(session(2)))

    async def test_a_newer_schema_is_left_alone(self) -> None:
        server = shared_server()
        server.ask("HSET", f"{NODE}meta", "schema", 99)
        server.ask("SADD", f"{NODE}sessions", 1)
        before = self.picture(server)
        await self.assert_broken(self.estate(server.port).open(), "schema 99 is of a newer mhub")
        self.assertEqual(self.picture(server), before)
        self.assertEqual(self.left(server), ["meta", "sessions"])

    async def test_an_older_schema_stays(self) -> None:
        """The node may be an older mhub, as in the middle of an upgrade, and come back."""
        server = shared_server()
        await self.dead_node(server, full(1))
        server.ask("HSET", f"{NODE}meta", "schema", 1)
        estate = self.estate(server.port)
        await estate.open()
        self.assertEqual(await self.sids(estate), [1])
        await estate.close()
        self.assertEqual(server.ask("HGET", f"{NODE}meta", "schema"), b"1")

    async def test_a_server_that_is_not_there(self) -> None:
        estate = self.estate(free_port())
        for _ in range(2):
            await self.assert_fails(estate.open(), "cannot connect")

    async def test_from_the_settings(self) -> None:
        server = shared_server()
        await self.dead_node(server, batch(session(1)))
        settings = replace(RedisSettings(), port=server.port)
        estate = make_estate(settings, NODE, reactor)
        self.addCleanup(estate.close)
        self.assertIn(f"keys {NODE}*", estate.name)
        await estate.open()
        self.assertEqual(await self.sids(estate), [1])


class ReadTests(AdoptCase):
    async def test_sessions_come_as_the_node_itself_would_get_them(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1), full(2, will=body("gone", "w")))
        estate = self.estate(server.port)
        await estate.open()
        found = [plain_stored(each) for each in await self.found(estate)]
        await estate.close()
        node = self.make(server.port, prefix=NODE)
        contents = await node.open(NOW)
        self.assertEqual(found, [plain_stored(each) for each in contents.sessions])
        self.assertEqual(len(found), 3)

    async def test_rows_are_whole_and_in_order(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1))
        estate = self.estate(server.port)
        await estate.open()
        stored = (await self.found(estate))[0]
        own = [plain_row(Row(each, each.body)) for each in full(1).deliveries]
        expected = [own[0], own[2], own[1], own[3]]  # what is in flight comes first
        for at in (1, 2):
            expected[at] = (*expected[at][:-1], body("shared"))
        rows = await self.all_rows(estate, stored)
        self.assertEqual([plain_row(row) for row in rows], expected)

    async def test_what_is_long_comes_in_portions(self) -> None:
        server = shared_server()
        flying = [delivery(1, seq, pid=1) for seq in range(2, 2402, 2)]
        waiting = [delivery(1, seq) for seq in range(1, 2401, 2)]
        large = [delivery(2, seq, body=body("x" * 300_000), size_bytes=300_000) for seq in (1, 2)]
        large += [delivery(2, seq, body=body("x" * 900_000), size_bytes=900_000) for seq in (3, 4)]
        owner = session(1, NEVER, client_id="\0peer/c/77")
        await self.dead_node(server, batch(owner, *flying, *waiting), batch(session(2), *large))
        estate = self.estate(server.port)
        await estate.open()
        first, second = await self.found(estate)
        self.assertEqual(first.record.client_id, "\0peer/c/77")
        portions = [portion async for portion in estate.rows(first)]
        self.assertLessEqual(max(map(len, portions)), PAGE)
        seqs = [row.record.seq for portion in portions for row in portion]
        self.assertEqual(seqs, [*range(2, 2402, 2), *range(1, 2401, 2)])
        portions = [portion async for portion in estate.rows(second)]
        self.assertEqual([len(portion) for portion in portions], [3, 1])

    async def test_what_is_over_is_ended_and_what_has_a_will_is_not(self) -> None:
        server = shared_server()
        await self.dead_node(
            server,
            shared(),
            full(1, expiry_s=0),
            full(2, ends_at=NOW + 5),
            full(3, expiry_s=0, will=body("gone", "w")),
            full(4, ends_at=NOW + 50),
        )
        for key in "sqibp":
            server.ask("DEL", f"{NODE}{key}:4")  # as its keys expire
        estate = self.estate(server.port)
        await estate.open()
        self.assertEqual(await self.sids(estate, NOW + 10), [3, 99])
        self.assertEqual(sorted(server.ask("SMEMBERS", f"{NODE}sessions")), [b"3", b"99"])

    async def test_notes(self) -> None:
        server = shared_server()
        await self.dead_node(server, full(1), batch(notes={"a\0": "\0b"}))
        estate = self.estate(server.port)
        await estate.open()
        self.assertEqual(await estate.notes(), {"a\0": "\0b"})


class EndTests(AdoptCase):
    async def adopt(self, estate: Estate, into: RedisStore) -> list[int]:
        """Each session as it is, into another store, and only then out of the estate."""
        taken = []
        async for stored in estate.sessions(NOW):
            sid = stored.record.sid
            made = batch(stored.record, *stored.subscriptions)
            made.incoming = {(sid, pid): True for pid in stored.incoming}
            async for rows in estate.rows(stored):
                for row in rows:
                    row.record.mid, row.record.body = 0, row.body  # a copy for each will do
                    made.deliveries.append(row.record)
            await estate.confirm()
            await into.commit(made)
            await estate.end([sid])
            taken.append(sid)
        return taken

    async def test_all_of_it_moves_and_what_is_the_nodes_own_stays(self) -> None:
        server = shared_server()
        kept = batch(retained={"t": body("r")}, notes={"n": "1"})
        long = batch(session(50), *(delivery(50, seq) for seq in range(1, 5001)))
        node = await self.dead_node(server, shared(), full(1), full(2), long, kept)
        before = await portrait(await self.copy(server, node))
        own = await self.opened(server.port, prefix=OTHER)
        estate = self.estate(server.port)
        await estate.open()
        self.assertEqual(await self.adopt(estate, own), [1, 2, 50, 99])
        await estate.close()
        self.assertEqual(self.left(server), ["meta", "notes", "retained"])
        after = await portrait(own)
        self.assertEqual(len(after["deliveries"]), 4 + 4 + 5000 + 1)
        for kind in ("sessions", "subscriptions", "incoming"):
            self.assertEqual(after[kind], before[kind])
        self.assertEqual(await own.check(), [])
        error = await self.refusal(self.estate(server.port).open())
        self.assertIsInstance(error, NothingThere)

        back = self.make(server.port, prefix=NODE)
        contents = await back.open(NOW)
        self.assertEqual((contents.sessions, contents.notes), ([], {"n": "1"}))
        self.assertEqual((contents.retained, contents.last_sid), ([body("r")], 99))
        self.assertEqual(await back.check(), [])

    async def copy(self, server: RedisServer, node: RedisStore) -> RedisStore:
        """What a node has, under another prefix."""
        for key in self.left(server):
            server.ask("COPY", f"{NODE}{key}", f"mhub:copy:{key}")
        return await self.opened(server.port, prefix="mhub:copy:")

    async def test_ended_twice_is_ended(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1), full(2))
        estate = self.estate(server.port)
        await estate.open()
        for _ in range(2):
            await estate.end([1, 2, 1000])
        self.assertEqual(await self.sids(estate), [99])
        self.assertEqual(server.ask("HGETALL", f"{NODE}r"), [b"7", b"1"])

    async def test_sessions_may_end_while_they_are_read(self) -> None:
        server = shared_server()
        many = batch(*(session(sid) for sid in range(1, 1300)))
        await self.dead_node(server, many)
        estate = self.estate(server.port)
        await estate.open()
        found = []
        async for stored in estate.sessions(NOW):
            found.append(stored.record.sid)
            await estate.end([stored.record.sid])
        self.assertEqual(found, list(range(1, 1300)))
        self.assertEqual(self.left(server), ["meta", "owner"])

    async def test_a_rest_that_was_left_is_removed(self) -> None:
        server = shared_server()
        long = batch(session(1), *(delivery(1, seq) for seq in range(1, 9001)))
        await self.dead_node(server, long)
        server.ask("SMOVE", f"{NODE}sessions", f"{NODE}ending", 1)
        server.ask("DEL", f"{NODE}s:1")
        estate = self.estate(server.port)
        await estate.open()
        self.assertEqual(await self.sids(estate), [])
        self.assertEqual(self.left(server), ["meta", "owner"])


class LeaseTests(AdoptCase):
    """Who may do what, while and after one adopts."""

    async def test_one_survivor_adopts(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1))
        first, second = self.estate(server.port), self.estate(server.port)
        await first.open()
        error = await self.refusal(second.open())
        self.assertIsInstance(error, StillOwned)
        self.assertIn("is being taken over by", str(error))
        await first.end([1])
        await first.close()
        await second.open()
        self.assertEqual(await self.sids(second), [99])

    async def test_another_one_goes_on_where_an_adopter_died(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.dead_node(server, shared(), full(1), full(2))
        first = self.estate(line.port, lease_s=SHORT_S)
        await first.open()
        expected = [plain_stored(each) for each in await self.found(first)]
        await first.end([1])
        await line.stop()
        await self.lapsed(server)
        second = self.estate(server.port)
        await second.open()
        found = await self.found(second)
        self.assertEqual([plain_stored(each) for each in found], expected[1:])
        self.assertEqual([len(await self.all_rows(second, each)) for each in found], [4, 1])

    async def test_the_node_goes_on_where_an_adopter_died(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.dead_node(server, shared(), full(1), full(2))
        estate = self.estate(line.port, lease_s=SHORT_S)
        await estate.open()
        expected = [plain_stored(each) for each in await self.found(estate)]
        await estate.end([1])
        await line.stop()
        node = self.make(server.port, prefix=NODE)
        contents = await node.open(NOW)
        self.assertEqual([plain_stored(each) for each in contents.sessions], expected[1:])
        self.assertEqual(await node.check(), [])
        await node.commit(full(3))

    async def test_an_adopter_that_was_too_slow_ends_nothing(self) -> None:
        server = shared_server()
        line = self.line(server)
        await self.dead_node(server, shared(), full(1), full(2))
        first = self.estate(line.port, lease_s=SHORT_S)
        await first.open()
        self.assertEqual(await self.sids(first), [1, 2, 99])
        line.hold = b""
        ending = Deferred.fromCoroutine(first.end([1, 2]))
        await self.lapsed(server)
        second = self.estate(server.port)
        await second.open()
        await second.end([1])
        before = self.picture(server)
        line.let_go()
        await self.assert_taken(ending)
        await self.assert_taken(first.confirm())
        await second.close()
        await self.assert_taken(first.confirm())
        await self.assert_taken(first.end([2]))
        await first.close()
        self.assertEqual(self.picture(server), before)

    async def test_an_adopter_whose_lease_nobody_took_goes_on(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1))
        estate = self.estate(server.port)
        await estate.open()
        server.ask("DEL", f"{NODE}owner")
        await estate.confirm()
        self.assertEqual(server.ask("EXISTS", f"{NODE}owner"), 1)
        await estate.end([1])

    async def test_the_node_waits_while_it_is_adopted(self) -> None:
        server = shared_server()
        await self.dead_node(server, shared(), full(1))
        estate = self.estate(server.port)
        await estate.open()
        node = self.make(server.port, prefix=NODE, lease_s=SHORT_S)
        # In a way that may pass by, so its keeper calls again.
        for _ in range(2):
            await self.assert_fails(node.open(NOW), "is being taken over by")
        patient = self.make(server.port, prefix=NODE, lease_s=10)
        opening = Deferred.fromCoroutine(patient.open(NOW))
        await estate.end([1])
        await estate.close()
        contents = await opening
        self.assertEqual([each.record.sid for each in contents.sessions], [99])

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
        estate = self.estate(server.port)
        await estate.open()
        before = self.picture(server)
        line.let_go()
        await self.assert_taken(late)
        for _ in range(2):  # it tries again and again
            await self.assert_taken(node.commit(changes))
        await self.assert_taken(node.commit(batch(notes={"n": "2"})))
        self.assertEqual(self.picture(server), before)
        first, _ = await self.found(estate)
        seqs = [row.record.seq for row in await self.all_rows(estate, first)]
        self.assertEqual(seqs, [1, 4, 2, 9])
        await estate.end([1, 99])
        await estate.close()
        before = self.picture(server)
        await self.assert_taken(node.commit(changes))
        self.assertEqual(await node.load(1, 0, 10, LOTS), [])
        await node.close()
        self.assertEqual(self.picture(server), before)
        self.assertEqual(self.left(server), ["meta"])

    async def test_a_start_that_was_too_slow_changes_nothing(self) -> None:
        """Whatever it was about to do when another one came."""
        for step in (b"sids that have ended", b"refs as they shall be", b"hash, fields"):
            server = shared_server()
            old = batch(retained={"t": body("x", "t", NOW + 5)})
            await self.dead_node(server, shared(), full(1, ends_at=NOW + 5), full(2), old)
            for key in "sqibp":
                server.ask("DEL", f"{NODE}{key}:2")
            line = self.line(server)
            slow = self.make(line.port, prefix=NODE, lease_s=SHORT_S, timeout_s=60)
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
