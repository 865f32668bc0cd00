"""The SQLite store: the contract, and what may happen to a file."""

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.trial.unittest import TestCase

from mhub.core.records import HEAD_SIZE, SCHEMA, Batch, publish_of
from mhub.store.contract import Store, StoreBroken, StoreError, StoreInUse
from mhub.store.sqlite import SqliteStore
from mhub.store.sqlite_file import APPLICATION_ID
from tests.store.suite import (
    NOW,
    StoreSuite,
    batch,
    body,
    delivery,
    message,
    plain_session,
    plain_subscription,
    portrait,
    session,
    subscription,
)

TABLES = ("sessions", "subscriptions", "messages", "deliveries", "incoming", "retained", "notes")


def rows_of(path: str) -> list[Any]:
    """What is in the tables, read by SQLite alone."""
    db = sqlite3.connect(path)
    try:
        return [(table, *row) for table in TABLES for row in db.execute(f"SELECT * FROM {table}")]
    finally:
        db.close()


def said(stored: bytes) -> tuple[str, bytes]:
    """Topic and payload, which stay whatever becomes of the form in which they are stored."""
    publish = publish_of(stored, 0.0)
    return publish.topic, publish.payload


class SqliteStoreTests(StoreSuite, TestCase):
    def setUp(self) -> None:
        self.path = os.path.join(self.mktemp(), "mhub.db")
        self.other: sqlite3.Connection | None = None

    def make_store(self) -> Store:
        # Nothing here is about loss of power, and a sync costs most of the time.
        store = SqliteStore(reactor, self.path, "off")
        store._database.busy_s = 0.05
        return store

    async def left_behind(self) -> list[Any]:
        return rows_of(self.path)

    async def obstruct(self) -> None:
        self.other = sqlite3.connect(self.path, isolation_level=None)
        self.other.execute("BEGIN IMMEDIATE")

    async def clear(self) -> None:
        assert self.other is not None
        self.other.close()


class FileTests(TestCase):
    """The file itself."""

    def setUp(self) -> None:
        self.directory = self.mktemp()
        self.path = os.path.join(self.directory, "mhub.db")
        self.stores: list[SqliteStore] = []

    async def tearDown(self) -> None:
        for store in self.stores:
            await store.close()

    async def opened(self, synchronous: str = "off") -> SqliteStore:
        store = SqliteStore(reactor, self.path, synchronous)
        store._database.busy_s = 0.05
        self.stores.append(store)
        await store.open(NOW)
        return store

    async def problem(self, call: Any, kind: type[StoreError] = StoreError) -> str:
        """The text of the error that a call ends with."""
        try:
            await call
        except StoreError as error:
            self.assertIs(type(error), kind)
            self.assertIn(os.path.abspath(self.path), str(error))
            return str(error)
        self.fail("it worked")

    async def refused(self) -> str:
        """Why the file cannot be opened; it was left as it was, with nothing new beside it."""
        before = Path(self.path).read_bytes()
        problem = await self.problem(self.opened(), StoreBroken)
        self.assertEqual(Path(self.path).read_bytes(), before)
        self.assertLessEqual(set(os.listdir(self.directory)), {"mhub.db", "mhub.db.lock"})
        return problem

    async def test_only_the_owner_may_read_it(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1)))
        self.assertEqual(stat.S_IMODE(os.stat(self.directory).st_mode), 0o700)
        for name in os.listdir(self.directory):
            mode = stat.S_IMODE(os.stat(os.path.join(self.directory, name)).st_mode)
            self.assertEqual(mode, 0o600, name)

    async def test_close_leaves_one_complete_file(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1), delivery(1, 1)))
        await store.close()
        self.assertEqual(set(os.listdir(self.directory)), {"mhub.db", "mhub.db.lock"})
        self.assertEqual(len(rows_of(self.path)), 2)

    async def test_close_ends_the_thread(self) -> None:
        store = await self.opened()
        self.assertIn("mhub-sqlite", [each.name for each in threading.enumerate()])
        await store.close()
        self.assertNotIn("mhub-sqlite", [each.name for each in threading.enumerate()])
        await store.close()
        with self.assertRaises(StoreError):
            await store.load(1, 0, 1, 1)

    async def test_a_failed_open_ends_the_thread_and_may_be_tried_again(self) -> None:
        os.makedirs(self.path)
        store = SqliteStore(reactor, self.path)
        self.stores.append(store)
        await self.problem(store.open(NOW), StoreBroken)
        self.assertNotIn("mhub-sqlite", [each.name for each in threading.enumerate()])
        os.rmdir(self.path)
        await store.open(NOW)

    async def test_what_synchronous_means_to_sqlite(self) -> None:
        for synchronous, number in (("full", 2), ("normal", 1), ("off", 0)):
            store = await self.opened(synchronous=synchronous)
            self.assertEqual(await self.pragma(store, "synchronous"), number)
            self.assertEqual(await self.pragma(store, "journal_mode"), "wal")
            await store.close()
        with self.assertRaises(ValueError):
            SqliteStore(reactor, self.path, "extra")

    async def pragma(self, store: SqliteStore, text: str) -> Any:
        database = store._database
        row = await store._call(lambda: database._connection().execute(f"PRAGMA {text}").fetchone())
        return row[0] if row else None

    # What is not ours, not whole or not free

    async def test_text_is_left_alone(self) -> None:
        os.makedirs(self.directory)
        Path(self.path).write_text("dear diary\n" * 100)
        self.assertIn("not a database", await self.refused())

    async def test_a_few_bytes_are_left_alone(self) -> None:
        os.makedirs(self.directory)
        Path(self.path).write_bytes(b"SQLite format 3\0")
        self.assertIn("not a database", await self.refused())

    async def test_a_database_of_another_program_is_left_alone(self) -> None:
        os.makedirs(self.directory)
        db = sqlite3.connect(self.path)
        db.executescript("PRAGMA journal_mode = WAL; CREATE TABLE sessions (id);")
        db.close()
        self.assertIn("not a database of mhub", await self.refused())

    async def test_a_newer_schema_is_left_alone(self) -> None:
        await (await self.opened()).close()
        db = sqlite3.connect(self.path)
        db.execute(f"PRAGMA user_version = {SCHEMA + 1}")
        db.close()
        self.assertIn(f"version {SCHEMA + 1}", await self.refused())

    async def test_a_newer_schema_that_is_in_the_wal_is_seen(self) -> None:
        """As after a crash of the newer program."""
        store = await self.opened()
        await store.commit(batch(session(1)))
        await self.pragma(store, f"user_version = {SCHEMA + 1}")
        copy = os.path.join(self.directory, "copy.db")
        for end in ("", "-wal"):
            shutil.copyfile(self.path + end, copy + end)
        self.path = copy
        problem = await self.problem(self.opened(), StoreBroken)
        self.assertIn(f"version {SCHEMA + 1}", problem)

    async def test_damage_is_found_and_left_alone(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1), *(delivery(1, seq) for seq in range(1, 1000))))
        await store.close()
        with open(self.path, "r+b") as file:
            file.seek(4096)
            file.write(b"\xa5" * (os.path.getsize(self.path) - 4096))
        self.assertIn("damaged", await self.refused())

    async def test_a_file_that_was_cut_is_damaged(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1), *(delivery(1, seq) for seq in range(1, 1000))))
        await store.close()
        os.truncate(self.path, os.path.getsize(self.path) // 2)
        self.assertIn("damaged", await self.refused())

    async def test_an_empty_file_is_a_new_one(self) -> None:
        os.makedirs(self.directory)
        Path(self.path).touch()
        store = await self.opened()
        await store.commit(batch(session(1)))

    async def test_a_file_that_was_never_finished_is_made_again(self) -> None:
        os.makedirs(self.directory)
        Path(f"{self.path}.new").write_text("half of it")
        await self.opened()
        self.assertNotIn("mhub.db.new", os.listdir(self.directory))

    async def test_a_wal_without_its_file_is_not_taken_for_the_new_ones(self) -> None:
        os.makedirs(self.directory)
        Path(f"{self.path}-wal").write_bytes(b"x" * 100)
        self.assertIn("-wal is there", await self.problem(self.opened(), StoreBroken))

    async def test_two_stores_cannot_have_one_file(self) -> None:
        store = await self.opened()
        problem = await self.problem(self.opened(), StoreInUse)
        self.assertIn(f"in use by process {os.getpid()}", problem)
        await store.commit(batch(session(1)))
        await store.close()
        await self.opened()

    async def test_a_batch_that_met_a_lock_succeeds_when_it_is_gone(self) -> None:
        store = await self.opened()
        other = sqlite3.connect(self.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        some = batch(session(1), message(1, 2), delivery(1, 1, 1), delivery(1, 2, 1))
        self.assertIn("locked by another process", await self.problem(store.commit(some)))
        other.close()
        await store.commit(some)
        self.assertEqual((await portrait(store))["messages"], [(1, 2, body("shared"))])

    async def test_a_batch_that_met_a_full_disk_succeeds_when_there_is_space(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1), message(1, 1), delivery(1, 1, 1)))
        before = await portrait(store)
        await self.pragma(store, "max_page_count = 20")
        some = batch(*(delivery(1, seq, 1, ids=b"x" * 500) for seq in range(2, 500)), refs={1: 498})
        self.assertIn("the disk is full", await self.problem(store.commit(some)))
        self.assertEqual(await portrait(store), before)
        await self.pragma(store, "max_page_count = 100000")
        await store.commit(some)
        self.assertEqual((await portrait(store))["messages"], [(1, 499, body("shared"))])

    def test_a_write_that_fails_is_an_error_and_leaves_what_was_there(self) -> None:
        """In a process of its own, as its files may not grow beyond some size."""
        os.makedirs(self.directory)
        run = [sys.executable, "-m", "tests.store.test_sqlite", self.path]
        root = Path(__file__).parents[2]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, str(root)])}
        found = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=60)
        self.assertEqual(found.stderr, "")
        self.assertIn("I/O error", found.stdout)
        self.assertEqual(len(rows_of(self.path)), 2 + 2000)

    async def test_a_commit_that_was_one_in_spite_of_its_error_is_not_repeated(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1), message(1, 1), delivery(1, 1, 1)))
        some = batch(delivery(1, 2, 1), refs={1: 1})
        database = store._database
        real = database._db
        database._db = LosesAnswers(real)  # type: ignore[assignment]
        await self.problem(store.commit(some))
        database._db = real
        await store.commit(some)
        self.assertEqual((await portrait(store))["messages"], [(1, 2, body("shared"))])
        await store.commit(batch(delivery(1, 3, 1), refs={1: 1}))
        self.assertEqual(await store.check(), [])

    # Its size

    async def test_it_does_not_grow_by_what_is_gone(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1)))
        sizes = []
        for turn in range(12):
            await store.commit(self.many(turn))
            gone = batch(removals=[(1, each.seq) for each in self.many(turn).deliveries])
            await store.commit(gone)
            await self.pragma(store, "wal_checkpoint(TRUNCATE)")
            sizes.append(os.path.getsize(self.path))
        self.assertLess(max(sizes), sizes[1] * 1.1)

    async def test_it_gives_back_what_a_long_queue_took(self) -> None:
        store = await self.opened()
        database = store._database
        database.tidy_every, database.spare_pages, database.most_pages = 4, 10, 50
        await store.commit(batch(session(1), session(2)))
        for turn in range(4):
            await store.commit(self.many(turn))
        await self.pragma(store, "wal_checkpoint(TRUNCATE)")
        full = os.path.getsize(self.path)
        await store.commit(batch(ended=[1]))
        for step in range(200):
            await store.commit(batch(incoming={(2, 1): step % 2 == 0}))
        await self.pragma(store, "wal_checkpoint(TRUNCATE)")
        self.assertLess(os.path.getsize(self.path), full / 4)
        self.assertEqual(await store.check(), [])

    async def test_the_wal_does_not_grow(self) -> None:
        store = await self.opened()
        await store.commit(batch(session(1)))
        for turn in range(20):
            await store.commit(self.many(turn))
        self.assertLess(os.path.getsize(f"{self.path}-wal"), 10_000_000)

    def many(self, turn: int) -> Batch:
        seqs = range(turn * 1000 + 1, turn * 1000 + 1001)
        return batch(*(delivery(1, seq, body=body("x" * 500)) for seq in seqs))

    # check() and versions

    async def test_check_names_each_problem(self) -> None:
        store = await self.opened()
        wrong = [subscription(9, "a"), message(1, 2), delivery(1, 1, 1), delivery(1, 2, 5)]
        cut_off = bytes(HEAD_SIZE - 1) + b"\x01"  # of the size of its properties
        own = [delivery(1, 3, body=b"short"), delivery(9, 1)]
        some = batch(session(1, will=b"short"), *wrong, *own, incoming={(9, 4): True})
        some.retained["t"] = cut_off
        await store.commit(some)
        await store._call(
            lambda: store._database._connection().executescript(
                "UPDATE counters SET last_mid = 0; INSERT INTO notes VALUES ('n', '')"
            )
        )
        self.assertEqual(
            sorted(await store.check()),
            [
                "delivery 1/2: there is no message 5",
                "delivery 1/3: a stored message is cut off",
                "delivery 9/1: there is no such session",
                "incoming 9/4: there is no such session",
                "last_mid: there is a higher one, 1",
                "message 1: refs 2, but 1 deliveries",
                "note n: it has no text",
                "retained t: a stored message is cut off",
                "subscription 9/a: there is no such session",
                "will of session 1: a stored message is cut off",
            ],
        )

    async def test_a_file_of_version_1_opens_with_all_it_has(self) -> None:
        """However the schema goes on."""
        await self.assert_opens("version1.sql", {})

    async def test_a_file_of_version_2_opens_with_all_it_has(self) -> None:
        await self.assert_opens("version2.sql", {"boot": "3"})

    async def assert_opens(self, script: str, notes: dict[str, str]) -> None:
        os.makedirs(self.directory)
        db = sqlite3.connect(self.path)
        db.executescript(Path(__file__).with_name(script).read_text())
        db.close()
        store = SqliteStore(reactor, self.path, "off")
        self.stores.append(store)
        contents = await store.open(NOW)
        self.assertEqual((contents.last_sid, contents.last_mid), (12, 40))
        self.assertEqual([said(each) for each in contents.retained], [("r", b"kept")])
        [found] = contents.sessions
        expected = session(
            7, 300, client_id="old", principal='{"claimed_user":"u"}', listener="l", mount="m/"
        )
        expected.ends_at, expected.will_delay_s, expected.will_at = NOW + 100, 5, NOW + 0.5
        expected.will = found.record.will
        self.assertEqual(said(found.record.will), ("w", b"bye"))
        self.assertEqual(plain_session(found.record), plain_session(expected))
        kept = subscription(7, "$share/g/a", qos=2, no_local=True, identifier=3)
        kept.retain_as_published = True
        self.assertEqual(
            [plain_subscription(each) for each in found.subscriptions], [plain_subscription(kept)]
        )
        self.assertEqual((found.incoming, found.queued, found.queued_bytes), ([9], 1, 4))
        [sent] = found.inflight
        self.assertEqual((sent.record.pid, sent.record.released), (5, True))
        [row] = await store.load(7, 0, 10, 100)
        self.assertEqual((row.record.seq, row.record.ids), (22, b"\x0b\x03"))
        self.assertEqual((said(sent.body), said(row.body)), (("t", b"two"), ("t", b"own")))
        self.assertEqual(await store.check(), [])
        self.assertEqual(contents.notes, notes)
        expected.epoch, expected.began = (1 << 62) - 1, 5
        await store.commit(batch(expected, notes={"new": "\0since version 2"}))
        await store.close()
        contents = await store.open(NOW)
        self.assertEqual(contents.last_sid, 12)
        self.assertEqual(
            [plain_session(each.record) for each in contents.sessions], [plain_session(expected)]
        )
        self.assertEqual(contents.notes, {**notes, "new": "\0since version 2"})
        await store.close()
        db = sqlite3.connect(self.path)
        self.assertEqual(db.execute("PRAGMA user_version").fetchone(), (SCHEMA,))
        self.assertEqual(db.execute("PRAGMA application_id").fetchone(), (APPLICATION_ID,))
        db.close()


class LosesAnswers:
    """A connection whose COMMIT works and then fails."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self.real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def execute(self, statement: str, values: Any = ()) -> Any:
        found = self.real.execute(statement, values)
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return found


def write_too_much(path: str) -> None:
    """A commit that fits, and one that does not; what the second one said."""
    import resource

    from twisted.internet.defer import Deferred

    async def work() -> None:
        store = SqliteStore(reactor, path, "off")
        await store.open(NOW)
        await store.commit(batch(session(1), session(2)))
        await store.commit(batch(*(delivery(1, seq) for seq in range(1, 2001))))
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, 2_000_000))
        try:
            await store.commit(batch(*(delivery(2, seq) for seq in range(1, 50_000))))
        except StoreError as error:
            print(error)
        await store.close()

    done = Deferred.fromCoroutine(work())
    done.addErrback(lambda failure: failure.printTraceback())
    done.addBoth(lambda _: reactor.callLater(0, reactor.stop))
    reactor.run()


if __name__ == "__main__":
    write_too_much(sys.argv[1])
