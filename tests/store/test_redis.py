"""The store in a Redis server, a real one."""

import time
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.protocol import Factory, Protocol
from twisted.trial.unittest import TestCase

from mhub.core.records import SCHEMA, Batch
from mhub.store import redis_snapshot
from mhub.store.contract import Store, StoreError, StoreTaken
from mhub.store.redis import SLACK_S, RedisOptions, RedisStore
from tests.helpers.certificates import Authority
from tests.helpers.redis import Proxy, RedisServer, free_port, shared_server
from tests.store.redis_case import RedisCase, pause
from tests.store.suite import (
    LOTS,
    NOW,
    StoreSuite,
    batch,
    body,
    delivery,
    message,
    plain_contents,
    plain_session,
    portrait,
    session,
)

DURABLE = ("appendonly yes", "appendfsync always")


class RedisStoreTests(StoreSuite, TestCase):
    def setUp(self) -> None:
        self.server = shared_server()
        self.patch(redis_snapshot, "SESSIONS", 1)  # so that much is left to change meanwhile

    def make_store(self) -> Store:
        return RedisStore(reactor, RedisOptions(port=self.server.port))

    async def test_one_snapshot_at_a_time(self) -> None:
        await self.start()
        await self.commit(session(1), session(2))
        first = self.store.snapshot()
        await anext(first)
        second = await self.problem(anext(self.store.snapshot()))
        self.assertIn("being exported already", str(second))
        await first.aclose()
        self.assertEqual(len([part async for part in self.store.snapshot()]), 2)

    async def test_a_snapshot_ends_with_what_a_batch_still_reads(self) -> None:
        """A batch may be the last to read anything, for what it is about to change."""
        await self.start()
        deliveries = [delivery(sid, seq) for sid in range(1, 9) for seq in (1, 2)]
        await self.commit(*(session(sid) for sid in range(1, 9)), *deliveries)
        snapshot = self.store.snapshot()
        parts = [await anext(snapshot)]
        going = Deferred.fromCoroutine(self.commit(removals=[(sid, 1) for sid in range(1, 9)]))
        parts += [part async for part in snapshot]
        await going
        found = sorted((each.sid, each.seq) for part in parts for each in part.deliveries)
        self.assertEqual(found, [(sid, seq) for sid in range(1, 9) for seq in (1, 2)])

    async def test_a_snapshot_that_nobody_takes(self) -> None:
        """It fails, and the broker goes on."""
        self.patch(redis_snapshot, "MOST_WAITING", 1000)
        await self.start()
        deliveries = [delivery(sid, 1) for sid in range(2, 40)]
        await self.commit(*(session(sid) for sid in range(1, 40)), *deliveries)
        snapshot = self.store.snapshot()
        await anext(snapshot)
        await self.commit(removals=[(sid, 1) for sid in range(2, 40)])
        self.assertEqual(await self.seqs(2), [])
        problem = await self.problem(anext(snapshot))
        self.assertIn("the export is read too slowly", str(problem))
        await self.commit(session(50))

    async def problem(self, call: Any) -> StoreError:
        try:
            await call
        except StoreError as error:
            return error
        raise AssertionError("it was to fail")

    async def left_behind(self) -> list[Any]:
        return [key for key in self.server.all_keys() if key != "mhub:meta"]

    async def obstruct(self) -> None:
        self.server.ask("CONFIG", "SET", "maxmemory", 1)
        self.addCleanup(self.server.ask, "CONFIG", "SET", "maxmemory", 0)

    async def clear(self) -> None:
        self.server.ask("CONFIG", "SET", "maxmemory", 0)


class ConnectingTests(RedisCase):
    async def test_a_password(self) -> None:
        server = self.server("requirepass pencil")
        await self.assert_broken(self.make(server.port).open(NOW), "wants a password")
        wrong = self.make(server.port, password="pen")
        await self.assert_broken(wrong.open(NOW), "refuses the username or the password")
        await self.assert_works(self.make(server.port, password="pencil"))

    async def test_a_password_that_nobody_asked_for(self) -> None:
        port = shared_server().port
        await self.assert_broken(self.make(port, password="x").open(NOW), "without any password")

    async def test_a_password_is_not_shown(self) -> None:
        store = self.make(free_port(), password="pencil")
        error = await self.refusal(store.open(NOW))
        self.assertNotIn("pencil", store.name + str(error) + repr(RedisOptions(password="pencil")))

    async def test_a_user_of_an_acl(self) -> None:
        server = self.server(
            "user hub on >pencil ~hub:* +@all -@dangerous -@admin",
            "user reader on >pencil ~* +@read",
        )
        user = {"username": "hub", "password": "pencil"}
        await self.assert_works(self.make(server.port, prefix="hub:", **user))
        wrong = self.make(server.port, username="hub", password="pen")
        await self.assert_broken(wrong.open(NOW), "refuses the username or the password")
        foreign = self.make(server.port, prefix="other:", **user)
        await self.assert_broken(foreign.open(NOW), "does not let this user")
        reader = self.make(server.port, prefix="hub:", username="reader", password="pencil")
        await self.assert_broken(reader.open(NOW), "does not let this user")

    async def test_a_database_by_number(self) -> None:
        server = shared_server()
        await self.assert_works(self.make(server.port, db=3))
        self.assertEqual(server.all_keys(), [])
        self.assertIn("mhub:s:1", server.all_keys(db=3))
        none = self.make(server.port, db=99)
        await self.assert_broken(none.open(NOW), "DB index is out of range")

    async def test_prefixes_keep_brokers_apart(self) -> None:
        server = shared_server()
        server.ask("SET", "somebody's", "1")
        first = await self.opened(server.port, prefix="a:")
        second = await self.opened(server.port, prefix="b:")
        await first.commit(batch(session(1), delivery(1, 1), retained={"t": b"x" * 24}))
        self.assertEqual(await second.load(1, 0, 10, LOTS), [])
        await second.commit(batch(session(1), delivery(1, 5)))
        [row] = await first.load(1, 0, 10, LOTS)
        self.assertEqual(row.record.seq, 1)
        await first.commit(batch(ended=[1], retained={"t": b""}))
        await first.close()
        found = [key for key in server.all_keys() if not key.startswith("b:")]
        self.assertEqual(found, ["a:meta", "somebody's"])

    async def test_a_key_that_is_not_ours(self) -> None:
        server = shared_server()
        server.ask("SET", "mhub:meta", "1")
        await self.assert_broken(self.make(server.port).open(NOW), "choose another prefix")
        self.assertEqual(server.all_keys(), ["mhub:meta"])

    async def test_a_unix_socket(self) -> None:
        server = self.server("unixsocket redis.sock")
        await self.assert_works(self.make(1, host=str(server.directory / "redis.sock")))

    async def test_tls(self) -> None:
        directory = Path(self.mktemp()).absolute()
        directory.mkdir()
        ca, certificate, key = (directory / name for name in ("ca.pem", "c.pem", "k.pem"))
        authority = Authority("Test CA")
        authority.write(ca)
        other = directory / "other.pem"
        Authority("Other CA").write(other)
        both = directory / "both.pem"
        both.write_bytes(other.read_bytes() + ca.read_bytes())
        authority.issue("localhost", certificate, key)
        authority.issue("hub", directory / "hub.pem", directory / "hub.key")
        files = (
            f"tls-cert-file {certificate}",
            f"tls-key-file {key}",
            f"tls-ca-cert-file {ca}",
        )
        server = self.server(*files, "tls-auth-clients no", tls=True)
        there = {"host": "localhost", "tls": True}
        await self.assert_works(self.make(server.port, ca=str(ca), **there))
        for file in (other, key, directory / "none"):
            store = self.make(server.port, ca=str(file), **there)
            await self.assert_broken(store.open(NOW), "TLS")
        by_address = self.make(server.port, ca=str(ca), tls=True)
        await self.assert_broken(by_address.open(NOW), "TLS")

        strict = self.server(*files, "tls-auth-clients yes", tls=True)
        shown = {"certificate": str(directory / "hub.pem"), "key": str(directory / "hub.key")}
        await self.assert_works(self.make(strict.port, ca=str(both), **shown, **there))
        await self.refusal(self.make(strict.port, ca=str(ca), **there).open(NOW))

    async def test_nobody_there(self) -> None:
        store = self.make(free_port())
        for _ in range(2):
            await self.assert_fails(store.open(NOW), "cannot connect")

    async def test_sentinels_say_who_the_master_is(self) -> None:
        """Also when it is another one than before."""
        first = self.server("repl-diskless-sync-delay 0")
        sentinel = self.server(f"sentinel monitor main 127.0.0.1 {first.port} 1", sentinel=True)
        sentinels = (f"127.0.0.1:{free_port()}", f"127.0.0.1:{sentinel.port}")
        store = self.make(1, sentinels=sentinels, sentinel_name="main")
        await self.assert_works(store)
        unknown = self.make(1, sentinels=sentinels, sentinel_name="nobody")
        await self.assert_fails(unknown.open(NOW), "knows no master nobody")

        second = self.server(f"replicaof 127.0.0.1 {first.port}")
        while second.ask("EXISTS", "mhub:meta") == 0:
            await pause(0.05)
        second.ask("REPLICAOF", "NO", "ONE")
        first.ask("REPLICAOF", "127.0.0.1", second.port)
        sentinel.ask("SENTINEL", "REMOVE", "main")
        sentinel.ask("SENTINEL", "MONITOR", "main", "127.0.0.1", second.port, 1)
        more = batch(delivery(1, 2))
        await self.assert_fails(store.commit(more), "read-only replica")
        await store.commit(more)
        self.assertEqual(second.ask("ZCARD", "mhub:q:1"), 2)


class FixedAnswer(Protocol):
    """A server that says one thing only, or nothing."""

    def dataReceived(self, data: bytes) -> None:
        self.transport.write(self.factory.answer)


class RefusalTests(RedisCase):
    """What a server may say instead of doing it."""

    def answering(self, answer: bytes) -> int:
        factory = Factory.forProtocol(FixedAnswer)
        factory.answer = answer
        factory.noisy = False
        listener = reactor.listenTCP(0, factory, interface="127.0.0.1")
        self.addCleanup(listener.stopListening)
        return int(listener.getHost().port)

    async def test_what_passes_by_says_what_to_do(self) -> None:
        for answer, text in (
            (b"-LOADING Redis is loading the dataset in memory", "still loading"),
            (b"-OOM command not allowed when used memory > 'maxmemory'.", "raise its maxmemory"),
            (b"-MISCONF Redis is configured to save RDB snapshots", "is the disk full?"),
            (b"-READONLY You can't write against a read only replica.", "name the master"),
            (b"-ERR Error running script: @user_script: -OOM no", "raise its maxmemory"),
            (b"-BUSY Redis is busy running a script.", "busy"),
            (b"-ERR max number of clients reached", "max number of clients"),
        ):
            port = self.answering(answer + b"\r\n")
            await self.assert_fails(self.make(port).open(NOW), text)
            await self.assert_fails(self.make(port, password="x").open(NOW), text)

    async def test_no_answer_is_waited_for_but_not_for_long(self) -> None:
        port = self.answering(b"")
        started = reactor.seconds()
        store = self.make(port, timeout_s=0.2)
        await self.assert_fails(store.open(NOW), "no answer within 0.2 s")
        await self.assert_fails(self.make(port, timeout_s=0.2, password="x").open(NOW), "no answer")
        self.assertLess(reactor.seconds() - started, 3)

    async def test_without_memory_removals_get_through(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await store.commit(batch(session(1), delivery(1, 1, 7), delivery(1, 2), message(7, 1)))
        server.ask("CONFIG", "SET", "maxmemory", 1)
        self.addCleanup(server.ask, "CONFIG", "SET", "maxmemory", 0)
        await self.assert_fails(store.commit(batch(delivery(1, 3))), "out of memory")
        await self.assert_fails(store.commit(batch(notes={"a": "2"})), "out of memory")
        await store.commit(batch(removals=[(1, 1)], refs={7: -1}, notes={"a": ""}))
        [row] = await store.load(1, 0, 10, LOTS)
        self.assertEqual(row.record.seq, 2)

    async def test_a_newer_schema_is_left_alone(self) -> None:
        server = shared_server()
        server.ask("HSET", "mhub:meta", "schema", 7)
        server.ask("SADD", "mhub:sessions", 1)
        await self.assert_broken(self.make(server.port).open(NOW), "schema 7 is of a newer mhub")
        self.assertEqual(server.all_keys(), ["mhub:meta", "mhub:sessions"])
        self.assertEqual(server.ask("HGETALL", "mhub:meta"), [b"schema", b"7"])

    async def test_contents_of_an_earlier_version_are_taken_on(self) -> None:
        """1 had no notes, 2 no epochs of sessions."""
        server = shared_server()
        for version, notes in ((1, {}), (2, {"n": "1"})):
            server.ask("FLUSHALL")
            store = await self.opened(server.port)
            kept = session(1, principal="u", will=body("gone"), epoch=5, began=4)
            await store.commit(
                batch(kept, delivery(1, 1), retained={"t": body()}, notes=notes),
            )
            await store.close()
            server.ask("HSET", "mhub:meta", "schema", version)
            self.assertEqual(server.ask("HDEL", "mhub:s:1", "epoch", "began"), 2)
            again = self.make(server.port)
            contents = await again.open(NOW)
            [found] = contents.sessions
            kept.epoch = kept.began = 0
            self.assertEqual(plain_session(found.record), plain_session(kept))
            self.assertEqual((found.queued, len(contents.retained)), (1, 1))
            self.assertEqual(contents.notes, notes)
            self.assertEqual(server.ask("HGET", "mhub:meta", "schema"), b"%d" % SCHEMA)
            await again.commit(batch(session(1, epoch=(1 << 62) - 1)))
            self.assertEqual(server.ask("HGET", "mhub:s:1", "epoch"), b"4611686018427387903")
            [found] = (await again.open(NOW)).sessions
            self.assertEqual(found.record.epoch, (1 << 62) - 1)
            await again.close()

    async def test_contents_that_are_gone(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        server.ask("FLUSHALL")
        await self.assert_broken(store.commit(batch(session(1))), "has lost its contents")
        self.assertEqual(server.all_keys(), [])
        await self.assert_works(store)


class FaultTests(RedisCase):
    """A batch has its effect once, whatever becomes of connections and servers."""

    async def begun(self, port: int, **options: Any) -> RedisStore:
        store = await self.opened(port, **options)
        some = [delivery(1, 1, 7), delivery(1, 2, 7, pid=1), delivery(1, 3)]
        await store.commit(batch(session(1), message(7, 2), *some))
        return store

    def next_batch(self) -> Batch:
        some = [delivery(1, 4, 7), delivery(1, 5, 7, pid=2), delivery(1, 6, body=b"x" * 20000)]
        return batch(*some, removals=[(1, 1), (1, 3)], refs={7: 1})

    async def assert_once(self, store: RedisStore) -> None:
        found = await portrait(store)
        self.assertEqual([each[:2] for each in found["messages"]], [(7, 3)])
        self.assertEqual([each[1] for each in found["deliveries"]], [2, 4, 5, 6])
        stored = (await store.open(NOW)).sessions[0]
        self.assertEqual((stored.queued, stored.queued_bytes, len(stored.inflight)), (2, 20, 2))
        self.assertEqual([line for line in await store.check() if "cut off" not in line], [])

    async def _cut(self, where: str, applied: bool) -> None:
        server = shared_server()
        proxy = Proxy(reactor, server.port)
        self.addCleanup(proxy.stop)
        store = await self.begun(proxy.port)
        changes = self.next_batch()
        for _ in range(2):
            proxy.cut = where
            await self.assert_fails(store.commit(changes), "the connection is lost")
            self.assertEqual(server.ask("HGET", "mhub:r", 7), b"3" if applied else b"2")
        self.assertEqual(proxy.cuts, 2)
        await store.commit(changes)
        await self.assert_once(store)

    async def test_a_connection_lost_before_the_batch_arrived(self) -> None:
        await self._cut("request", applied=False)

    async def test_a_connection_lost_after_the_batch_was_applied(self) -> None:
        await self._cut("reply", applied=True)

    async def test_a_connection_lost_while_loading(self) -> None:
        proxy = Proxy(reactor, shared_server().port)
        self.addCleanup(proxy.stop)
        store = await self.begun(proxy.port)
        proxy.cut = "reply"
        await self.assert_fails(store.load(1, 0, 10, LOTS), "the connection is lost")
        self.assertEqual(len(await store.load(1, 0, 10, LOTS)), 2)

    async def test_a_server_that_hangs_and_then_does_it_late(self) -> None:
        """What waited in its socket is done after the batch came again, and changes nothing."""
        server = self.server()
        store = await self.begun(server.port, timeout_s=0.5)
        changes = self.next_batch()
        server.pause()
        try:
            for _ in range(2):
                await self.assert_fails(store.commit(changes), "no answer within")
        finally:
            server.go_on()
        await store.commit(changes)
        await store.commit(batch(session(1)))
        await self.assert_once(store)

    async def test_a_server_that_restarts(self) -> None:
        server = self.server(*DURABLE)
        store = await self.begun(server.port)
        server.stop()
        changes = self.next_batch()
        await self.assert_fails(store.commit(changes))
        await self.assert_fails(store.commit(changes), "cannot connect")
        server.start()
        await store.commit(changes)
        await self.assert_once(store)

    async def test_a_server_that_is_killed_and_back_before_anybody_noticed(self) -> None:
        server = self.server(*DURABLE)
        store = await self.begun(server.port)
        changes = self.next_batch()
        await store.commit(changes)
        server.kill()
        server.start()
        found = 0
        while not found:
            try:
                found = len(await store.load(1, 0, 10, LOTS))
            except StoreError as error:
                self.assertIn("the connection is lost", str(error))
        await self.assert_once(store)

    async def test_scripts_that_the_server_has_forgotten(self) -> None:
        server = shared_server()
        store = await self.begun(server.port)
        server.ask("SCRIPT", "FLUSH")
        await store.commit(self.next_batch())
        await self.assert_once(store)

    async def test_close_without_a_server(self) -> None:
        server = self.server()
        store = await self.begun(server.port)
        server.kill()
        await store.close()


class OwnerTests(RedisCase):
    """One broker at a time."""

    async def test_a_second_broker_is_refused(self) -> None:
        port = shared_server().port
        first = await self.opened(port, lease_s=1)
        second = self.make(port, lease_s=1)
        await self.assert_broken(second.open(NOW), "in use by", "pid")
        await first.commit(batch(session(1)))

    async def test_whoever_follows_a_killed_one_waits_for_its_lease(self) -> None:
        server = shared_server()
        server.ask("SET", "mhub:owner", "host pid 1 x", "PX", 500)
        started = reactor.seconds()
        await self.assert_works(self.make(server.port))
        self.assertGreater(reactor.seconds() - started, 0.4)

    async def test_close_ends_the_wait(self) -> None:
        server = shared_server()
        server.ask("SET", "mhub:owner", "host pid 1 x")
        store = self.make(server.port)
        opening = Deferred.fromCoroutine(store.open(NOW))
        await pause(0.3)
        await store.close()
        await self.assertFailure(opening, CancelledError)

    async def test_close_gives_it_up(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        self.assertIn("mhub:owner", server.all_keys())
        await store.close()
        self.assertEqual(server.all_keys(), ["mhub:meta"])
        await self.assert_works(self.make(server.port))

    async def test_a_lease_that_lapsed_is_renewed_if_nobody_took_it(self) -> None:
        """Without a commit: one that has nothing to store is alive too."""
        server = shared_server()
        store = await self.opened(server.port, lease_s=0.2)
        server.ask("DEL", "mhub:owner")
        await self.until(lambda: server.ask("EXISTS", "mhub:owner") == 1)
        await store.commit(batch(session(1)))

    async def test_one_whose_place_was_taken_changes_nothing(self) -> None:
        server = shared_server()
        first = await self.opened(server.port)
        await first.commit(batch(session(1)))
        server.ask("DEL", "mhub:owner")  # as if it had slept for longer than its lease
        second = await self.opened(server.port)
        for _ in range(2):
            error = await self.refusal(first.commit(batch(session(2))))
            self.assertIsInstance(error, StoreTaken)
            self.assertIn("another broker uses it", str(error))
        await second.commit(batch(session(3)))
        self.assertEqual(sorted(server.ask("SMEMBERS", "mhub:sessions")), [b"1", b"3"])


class ExpiryTests(RedisCase):
    """The keys of a session go with it, also where no broker runs."""

    def ttl(self, server: RedisServer, sid: int) -> dict[str, int]:
        keys = [key for key in server.all_keys() if key.endswith(f":{sid}")]
        return {key.split(":")[1]: server.ask("TTL", key) for key in keys}

    async def full(self, store: RedisStore, sid: int, **fields: Any) -> None:
        some = [delivery(sid, 1), delivery(sid, 2, 7), delivery(sid, 3, 8, pid=1)]
        messages = [message(7, 1), message(8, 1)]
        record = session(sid, **fields)
        await store.commit(batch(record, *messages, *some, incoming={(sid, 1): True}))

    async def test_keys_expire_a_little_after_their_session(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await self.full(store, 1, ends_at=NOW + 100)
        found = self.ttl(server, 1)
        self.assertEqual(sorted(found), ["b", "i", "p", "q", "s"])
        for ttl in found.values():
            self.assertTrue(SLACK_S + 90 < ttl <= SLACK_S + 101, ttl)

    async def test_keys_stay_while_the_client_is_there(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await self.full(store, 1, ends_at=NOW + 100)
        await store.commit(batch(session(1)))
        self.assertEqual(set(self.ttl(server, 1).values()), {-1})

    async def test_a_session_with_a_will_stays_until_that_is_published(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await self.full(store, 1, ends_at=NOW + 100, will=body("gone"))
        await store.commit(batch(delivery(1, 4)))
        self.assertEqual(set(self.ttl(server, 1).values()), {-1})
        await store.commit(batch(session(1, ends_at=NOW + 100)))
        self.assertNotIn(-1, self.ttl(server, 1).values())

    async def test_a_queue_that_begins_later_expires_too(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await store.commit(batch(session(1, ends_at=NOW + 100)))
        await store.commit(batch(delivery(1, 1)))
        found = self.ttl(server, 1)
        self.assertEqual(sorted(found), ["b", "q", "s"])
        self.assertNotIn(-1, found.values())

    async def test_the_time_of_the_broker_counts(self) -> None:
        """A server whose clock is ahead does not take away what the broker still needs."""
        server = shared_server()
        store = self.make(server.port)
        behind = time.time() - 10 * SLACK_S
        await store.open(behind)
        await self.full(store, 1, ends_at=behind + 100)
        self.assertEqual(len(await store.load(1, 0, 10, LOTS)), 2)

    async def test_shared_messages_of_a_session_that_expired_here(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await self.full(store, 1)
        await store.commit(batch(session(2), delivery(2, 1, 7), delivery(2, 2, 7), refs={7: 2}))
        await store.close()
        for key in "sqibp":
            server.ask("DEL", f"mhub:{key}:1")
        contents = plain_contents(await (again := self.make(server.port)).open(NOW))
        self.assertEqual([stored[0][0] for stored in contents["sessions"]], [2])
        self.assertEqual(server.ask("HGETALL", "mhub:r"), [b"7", b"2"])
        self.assertEqual(server.ask("HKEYS", "mhub:m"), [b"7"])
        self.assertEqual(await again.check(), [])
        await again.commit(batch(ended=[2]))
        await again.close()
        self.assertEqual(server.all_keys(), ["mhub:meta"])

    async def test_a_session_that_expired_here_before_its_broker_ended_it(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await self.full(store, 1)
        for key in "sqibp":
            server.ask("DEL", f"mhub:{key}:1")
        await store.commit(batch(ended=[1]))
        await store.close()
        await self.opened(server.port)
        self.assertEqual(server.all_keys(), ["mhub:meta", "mhub:owner"])


class LargeTests(RedisCase):
    """Nothing is read or removed in one go that may be large."""

    async def test_a_long_queue_of_an_ended_session_goes_in_portions(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        some = [delivery(1, seq, seq % 3 and seq) for seq in range(1, 9001)]
        shared = [message(each.mid, 1) for each in some if each.mid]
        await store.commit(batch(session(1), *shared, *some))
        self.assertEqual((await store.open(NOW)).sessions[0].queued, 9000)
        await store.commit(batch(ended=[1]))
        self.assertGreater(server.ask("ZCARD", "mhub:q:1"), 0)
        self.assertEqual(await store.check(), [])
        self.assertEqual(server.all_keys(), ["mhub:meta", "mhub:owner"])

    async def test_a_long_line_in_flight_of_an_ended_session_goes_in_portions(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        some = [delivery(1, seq, seq % 3 and 7, pid=1) for seq in range(1, 5001)]
        refs = sum(1 for each in some if each.mid)
        await store.commit(
            batch(session(1), session(2), message(7, refs + 1), delivery(2, 1, 7), *some)
        )
        await store.commit(batch(ended=[1]))
        left = server.ask("HLEN", "mhub:i:1")
        self.assertTrue(0 < left < 5000, left)
        self.assertEqual(await store.check(), [])
        self.assertEqual(server.ask("HGETALL", "mhub:r"), [b"7", b"1"])
        self.assertEqual(server.ask("EXISTS", "mhub:i:1", "mhub:ending"), 0)

    async def test_what_is_left_of_an_ended_session_goes_at_the_next_start(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        await store.commit(batch(session(1), *(delivery(1, seq) for seq in range(1, 9001))))
        await store.commit(batch(ended=[1]))
        await store.close()
        self.assertIn("mhub:ending", server.all_keys())
        self.assertEqual((await self.make(server.port).open(NOW)).sessions, [])
        self.assertEqual(server.all_keys(), ["mhub:meta", "mhub:owner"])

    async def test_sessions_come_in_portions(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        will = b"x" * 10000
        await store.commit(batch(*(session(sid, will=will) for sid in range(1, 701))))
        found = (await store.open(NOW)).sessions
        self.assertEqual([each.record.sid for each in found], list(range(1, 701)))


class CheckTests(RedisCase):
    async def test_each_problem_is_a_line(self) -> None:
        server = shared_server()
        store = await self.opened(server.port)
        some = [delivery(1, 1, 5), delivery(1, 2, 6, pid=1), delivery(1, 3, 7)]
        await store.commit(batch(session(1), message(7, 2), *some, retained={"t": b"short"}))
        server.ask("HSET", "mhub:s:1", "queued_bytes", 7)
        server.ask("HSET", "mhub:m", 9, body())
        server.ask("SADD", "mhub:sessions", 4)
        server.ask("SET", "mhub:q:99", "x")
        server.ask("HSET", "mhub:notes", "n", "")
        self.assertEqual(
            sorted(await store.check()),
            [
                "delivery 1/1: there is no message 5",
                "delivery 1/2: there is no message 6",
                "key q:99: there is no such session",
                "message 7: refs 2, but 1 deliveries",
                "message 9: it has no refs",
                "note n: it has no text",
                "retained t: a stored message is cut off",
                "session 1: queued_bytes 7, but 20 wait",
                "session 4: its record is gone",
            ],
        )
