"""What was acknowledged survives: brokers that are killed under load, and stores that fail.

The short form of `tests.system.crash_run`: few kills, a fixed plan of chance, and the same checks.
"""

import random
from contextlib import AbstractContextManager

from twisted.trial.unittest import SynchronousTestCase

from tests.system.case import place as directory
from tests.system.durability import Load, crashes, finish, store_crashes
from tests.system.durability_check import Verdict
from tests.system.durability_store import (
    FAILING,
    WORKING,
    Lives,
    Place,
    RedisPlace,
    SmallDisk,
    SqlitePlace,
    StoreState,
)

SEED = 20


class DurabilityCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.rng = random.Random(SEED)
        self.load = Load(self.rng)
        self.directory = directory(self)
        self.addCleanup(self.load.close)

    def lives(self, place: Place) -> Lives:
        lives = Lives(self.directory, place, self.rng)
        self.addCleanup(place.close)
        self.addCleanup(lives.end)
        return lives

    def check(self, verdict: Verdict) -> None:
        self.assertEqual([], verdict.wrong, verdict.summary())
        self.assertEqual(verdict.published, verdict.acknowledged)

    def tell(self, number: int, acknowledged: int) -> None:
        """Nobody looks."""


class KilledBrokerTests(DurabilityCase):
    def test_sqlite(self) -> None:
        lives = self.lives(SqlitePlace(self.directory))
        self.check(crashes(lives, self.load, 4, self.rng, self.tell))

    def test_redis(self) -> None:
        lives = self.lives(RedisPlace())
        self.check(crashes(lives, self.load, 3, self.rng, self.tell))


class FailingStoreTests(DurabilityCase):
    """The broker goes on, acknowledges nothing meanwhile, and loses nothing."""

    def check_fault(self, lives: Lives, fault: AbstractContextManager[None], text: str) -> None:
        load = self.load
        lives.start()
        broker = lives.broker
        load.begin(lives.port)
        # A message that all its receivers have acknowledged would need no store.
        load.absent(load.subscribers[-1])
        load.run(0.0, acknowledged=50)
        state = StoreState(lives.port)
        self.addCleanup(state.close)
        with fault:
            load.run_until(lambda: FAILING in broker.log(), "the store fails")
            self.assertIn(text, broker.wait_for_log(FAILING))
            self.assertIn(text, state.wait_for("failing"))
            load.run(0.0, turns=50)  # what was acknowledged before is read
            before = load.acknowledged()
            load.run(0.3, turns=50)
            self.assertEqual(before, load.acknowledged())
        load.run_until(lambda: WORKING in broker.log(), "the store works again")
        state.wait_for("ok")
        load.run(0.0, acknowledged=50)
        self.assertTrue(broker.running)
        self.check(finish(lives, load, [], is_killed=False))

    def test_a_file_that_another_process_has_locked(self) -> None:
        place = SqlitePlace(self.directory)
        self.check_fault(self.lives(place), place.locked(), "locked by another process")

    def test_a_full_disk(self) -> None:
        mounted = directory(self)
        disk = SmallDisk(mounted, size_mib=4)
        self.addCleanup(disk.unmount)
        self.check_fault(self.lives(SqlitePlace(mounted)), disk.full(), "the disk is full")

    def test_redis_is_killed(self) -> None:
        place = RedisPlace(is_mortal=True)
        self.check_fault(self.lives(place), place.dead(), f"{place.server.port}")

    def test_redis_is_killed_at_any_moment(self) -> None:
        place = RedisPlace(is_mortal=True)
        lives = self.lives(place)
        self.check(store_crashes(lives, self.load, place.server, 3, self.rng, self.tell))
