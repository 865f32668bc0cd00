"""What a dead node left in Redis: another node takes its lease, then its sessions, one by one.

    open()      take the lease: NothingThere, StillOwned (it lives, or another one adopts), or fine
    sessions()  each session, and
    rows()      all that is on its way to it, in portions
    confirm()   what was read is whole: nobody took the lease meanwhile
    ...         the adopter makes the sessions safe in its own store, and only then
    end()       they are gone here, with all they had
    close()     give the lease back

Nothing is lost if the adopter ends in between: once its lease has lapsed, another survivor or the
node itself finds all that was not ended.  What was made safe but not ended is there twice then, for
the cluster to tell.

The node itself waits in open() as long as its estate is open.  If it never ended, but was cut off
from Redis, all that it wants to store is refused from open() on: StoreTaken.  Its retained messages
and its notes stay, and so does the version of its schema: it may be an older mhub.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

from mhub.config.settings import RedisSettings
from mhub.core.journal import Row, StoredSession
from mhub.store import redis_lua as lua
from mhub.store.contract import StoreTaken, is_over
from mhub.store.make import redis_options
from mhub.store.redis_lease import NothingThere, RedisLease, StillOwned
from mhub.store.redis_link import RedisLink, RedisOptions
from mhub.store.redis_reader import PAGE, PAGE_BYTES, RedisReader
from mhub.store.redis_records import sids as packed

__all__ = ["Estate", "NothingThere", "StillOwned", "StoreTaken", "make_estate"]


def make_estate(redis: RedisSettings, prefix: str, reactor: Any) -> "Estate":
    """The estate of the node that has this prefix, on the server of the settings; not yet open."""
    return Estate(reactor, redis_options(redis, prefix))


class Estate:
    def __init__(self, reactor: Any, options: RedisOptions) -> None:
        self._link = RedisLink(reactor, options)
        self._reader = RedisReader(self._link)
        self._lease = RedisLease(reactor, self._link, options.lease_s, adopts=True)
        self.name = self._link.name

    async def open(self) -> None:
        """Take the lease, without waiting for it.  If that fails, nothing is changed."""
        await self._lease.take()

    async def sessions(self, now: float) -> AsyncIterator[StoredSession]:
        """All there are, while some may be ended.  Those whose time is over are, here.

        `now` is as for Store.open(), and so is what is over.
        """
        _, _, known = await self._reader.numbers()
        over = []
        async for sid, stored in self._reader.sessions(known):
            if stored is not None and not is_over(stored.record, now):
                yield stored
            else:
                over.append(sid)
        await self.end(over)

    async def rows(self, stored: StoredSession) -> AsyncIterator[list[Row]]:
        """What is in flight to a session, then what waits for it, each in the order of its seq."""
        for at in range(0, len(stored.inflight), PAGE):
            yield stored.inflight[at : at + PAGE]
        after = 0
        while rows := await self._reader.queue(stored.record.sid, after, PAGE, PAGE_BYTES):
            yield rows
            after = rows[-1].record.seq

    async def notes(self) -> dict[str, str]:
        return await self._reader.notes()

    async def confirm(self) -> None:
        """StoreTaken if somebody else took the lease, so that what was read may be incomplete."""
        await self._lease.renew()

    async def end(self, sids: Sequence[int]) -> None:
        """Remove sessions that are safe elsewhere; what has ended already may be among them."""
        for at in range(0, len(sids), PAGE):
            await self._finish(sids[at : at + PAGE])
        while await self._finish(()):  # what is left of those that had much
            pass

    async def close(self) -> None:
        """Give the lease back; what was not ended stays."""
        await self._lease.close()
        await self._link.close()

    async def _finish(self, sids: Sequence[int]) -> int:
        return await self._lease.run(lua.FINISH, packed(sids))
