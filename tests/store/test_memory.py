"""The store in plain dictionaries, which the others are compared with."""

from typing import Any

from twisted.trial.unittest import TestCase

from mhub.core.records import HEAD
from mhub.store.contract import Store
from mhub.store.memory import MemoryStore
from tests.store.suite import StoreSuite, batch, delivery, message, session, subscription


class MemoryStoreTests(StoreSuite, TestCase):
    def setUp(self) -> None:
        self.disk = MemoryStore()

    def make_store(self) -> Store:
        return self.disk

    async def left_behind(self) -> list[Any]:
        disk = self.disk
        kept = (disk.sessions, disk.subscriptions, disk.messages, disk.deliveries, disk.retained)
        return [key for kind in (*kept, disk.incoming, disk.notes) for key in kind]

    async def obstruct(self) -> None:
        self.disk.failing = "no space"

    async def clear(self) -> None:
        self.disk.failing = ""


class CheckTests(TestCase):
    async def test_each_problem_is_a_line(self) -> None:
        store = MemoryStore()
        wrong = [subscription(9, "a"), message(1, 2), delivery(1, 1, 1), delivery(1, 2, 5)]
        cut_off = bytes(HEAD.size - 1)
        own = [delivery(1, 3, body=cut_off), delivery(9, 1)]
        some = batch(session(1), *wrong, *own, incoming={(9, 4): True}, retained={"t": cut_off})
        await store.commit(some)
        self.assertEqual(
            sorted(await store.check()),
            [
                "delivery 1/2: there is no message 5",
                "delivery 1/3: a stored message is cut off",
                "delivery 9/1: there is no such session",
                "incoming 9/4: there is no such session",
                "message 1: refs 2, but 1 deliveries",
                "retained t: a stored message is cut off",
                "subscription 9/a: there is no such session",
            ],
        )
