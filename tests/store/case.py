"""What every part of the suite stands on: a store that starts, restarts, and is asked."""

from typing import Any

from mhub.core.records import Contents, Row
from mhub.store.contract import Store
from tests.store import plain
from tests.store.records import LOTS, NOW, batch, delivery, message, session, subscription


class StoreCase:
    """The first four are for each store to answer."""

    store: Store | None = None

    def make_store(self) -> Store:
        """A new store, not yet open, on the contents of this test."""
        raise NotImplementedError

    async def left_behind(self) -> list[Any]:
        """Raw rows or keys that are there, but for the highest numbers; the store is closed."""
        raise NotImplementedError

    async def obstruct(self) -> None:
        """Make the next commits fail, until clear()."""
        raise NotImplementedError

    async def clear(self) -> None:
        raise NotImplementedError

    async def start(self, now: float = NOW) -> Contents:
        await self.stop()
        store = self.make_store()
        contents = await store.open(now)
        self.store = store
        return contents

    async def stop(self) -> None:
        store, self.store = self.store, None
        if store is not None:
            await store.close()

    def tearDown(self) -> Any:
        return self.stop()

    async def commit(self, *records: Any, **kinds: Any) -> None:
        assert self.store is not None
        await self.store.commit(batch(*records, **kinds))

    async def queue(self, sid: int, after: int = 0, most: int = 1000) -> list[Row]:
        assert self.store is not None
        return await self.store.load(sid, after, most, LOTS)

    async def seqs(self, sid: int, after: int = 0, most: int = 1000) -> list[int]:
        return [row.record.seq for row in await self.queue(sid, after, most)]

    async def portrait(self) -> dict[str, Any]:
        assert self.store is not None
        return await plain.portrait(self.store)

    async def assert_sound(self) -> None:
        assert self.store is not None
        self.assertEqual(await self.store.check(), [])

    async def full_session(self, sid: int, expiry_s: int = 60, **fields: Any) -> None:
        """A session with something of everything."""
        await self.commit(
            session(sid, expiry_s, **fields),
            subscription(sid, "a/#"),
            message(sid, 2),
            delivery(sid, 1),
            delivery(sid, 2, sid, pid=1),
            delivery(sid, 3, sid),
            delivery(sid, 4, pid=2),
            incoming={(sid, 9): True},
        )
