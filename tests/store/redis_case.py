"""Stores in a Redis server that end with their test, and what they refuse."""

from collections.abc import Callable
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.trial.unittest import TestCase

from mhub.store.contract import StoreBroken, StoreError
from mhub.store.redis import RedisOptions, RedisStore
from tests.helpers.redis import RedisServer
from tests.store.records import LOTS, NOW, batch, delivery, session


class RedisCase(TestCase):
    """Stores that are closed at the end, whatever happens."""

    def server(self, *settings: str, **kinds: Any) -> RedisServer:
        server = RedisServer(*settings, **kinds)
        self.addCleanup(server.remove)
        return server

    def make(self, port: int, **options: Any) -> RedisStore:
        store = RedisStore(reactor, RedisOptions(**{"port": port, "timeout_s": 5, **options}))
        self.addCleanup(store.close)
        return store

    async def opened(self, port: int, **options: Any) -> RedisStore:
        store = self.make(port, **options)
        await store.open(NOW)
        return store

    async def refusal(self, call: Any) -> StoreError:
        try:
            await call
        except StoreError as error:
            return error
        raise AssertionError("it was to fail")

    async def assert_fails(self, call: Any, *texts: str) -> None:
        """In a way that may pass by."""
        error = await self.refusal(call)
        self.assertNotIsInstance(error, StoreBroken)
        for text in texts:
            self.assertIn(text, str(error))

    async def assert_broken(self, call: Any, *texts: str) -> None:
        error = await self.refusal(call)
        self.assertIsInstance(error, StoreBroken)
        for text in texts:
            self.assertIn(text, str(error))

    async def until(self, is_so: Callable[[], bool]) -> None:
        for _ in range(1000):
            if is_so():
                return
            await pause(0.01)
        self.fail("it never came to be")

    async def assert_works(self, store: RedisStore) -> None:
        await store.open(NOW)
        await store.commit(batch(session(1), delivery(1, 1)))
        [row] = await store.load(1, 0, 10, LOTS)
        self.assertEqual(row.record.seq, 1)


async def pause(seconds: float) -> None:
    await deferLater(reactor, seconds)
