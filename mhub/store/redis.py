"""State in a Redis server.

RedisStore      the contract: a batch is one script
redis_lua       the scripts
redis_records   records as the bytes that the scripts take and give
redis_reader    what there is in the server, in portions
redis_snapshot  the contents at one moment, while the broker goes on changing them
redis_check     what can be wrong with the contents
redis_link      the connection to the server
redis_lease     who has the keys: one broker at a time

With the default prefix, its keys are

    mhub:meta         hash   schema, last_sid, last_mid; applied_by, applied: see below; recount
    mhub:owner        text   which broker has it; goes `lease_s` after that one was killed
    mhub:sessions     set    all sids
    mhub:ending       set    sids of sessions that have ended and had much; a rest is still there
    mhub:s:SID        hash   a session: client_id, principal, …; queued_bytes; `sub NAME`: options
    mhub:q:SID        zset   what waits for it: heads by seq; see mhub.store.redis_records
    mhub:b:SID        hash   seq -> message of what waits, where it is for this session alone
    mhub:i:SID        hash   what is in flight to it: seq -> head, with a message of its own
    mhub:p:SID        set    packet ids of its incoming QoS 2 messages
    mhub:m            hash   mid -> message that several share
    mhub:r            hash   mid -> how many deliveries do
    mhub:retained     hash   topic -> message
    mhub:notes        hash   name -> text

In a cluster the prefix of node a is mhub:a:, and there is one key for all nodes:

    mhub:cluster      text   by which they see that they use the same server

The keys of a session expire with it, a little later, unless it has a will, which a broker has to
publish first.  If that happens while no broker runs, refs are counted anew at the next open().

A batch is one script: all of it or nothing.  It may arrive and its answer not, so the script notes
in `applied` the number of the batch, and in `applied_by` whose number that is: a batch that comes
again does nothing, and a broker whose place another one has taken changes nothing: see
mhub.store.redis_lease.  The numbers are the store's own: the batch that comes after an error is
the same object.

Safe is what the server calls safe: see `appendonly` and `appendfsync` of Redis.  A server that has
lost everything refuses batches until the broker starts again.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import replace
from secrets import token_hex
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred, DeferredLock

from mhub.core.records import Batch, Contents, MessageRecord, Row, StoredSession
from mhub.store import redis_lua as lua
from mhub.store.contract import StoreError, StoreTaken, expires_at_of, is_over
from mhub.store.redis_check import check_contents
from mhub.store.redis_lease import RedisLease
from mhub.store.redis_link import RedisLink, RedisOptions
from mhub.store.redis_reader import PAGE, PAGE_BYTES, RedisReader
from mhub.store.redis_records import grows, refs_of, sections, sids
from mhub.store.redis_snapshot import RedisSnapshot

__all__ = ["RedisOptions", "RedisStore"]

SLACK_S: Final = 3600
"""The keys of a session outlive it by so much: to end it is for the broker, if there is one."""


class RedisStore:
    def __init__(
        self,
        reactor: Any,
        options: RedisOptions,
        successor: str = "",
        taken: Callable[[StoreTaken], None] | None = None,
    ) -> None:
        """As for RedisLease.  Who takes over from another node calls claim() before open()."""
        self._reactor = reactor
        self._options = options
        self._link = RedisLink(reactor, options)
        self._reader = RedisReader(self._link)
        self._lease = RedisLease(reactor, self._link, options.lease_s, successor, taken)
        self.name = self._link.name
        self.lease_s = options.lease_s
        self._number = 0  # of the last batch
        self._unsure: Batch | None = None  # the one that failed last
        self._sweeping: Deferred[None] | None = None
        self._changing = DeferredLock()  # held while a batch is applied
        self._snapshot: RedisSnapshot | None = None
        self._clock_offset_s = 0.0  # from the caller's clock to the server's

    def beside(self, node: str, by: str, taken: Callable[[StoreTaken], None]) -> "RedisStore":
        return RedisStore(self._reactor, replace(self._options, node=node), by, taken)

    async def claim(self) -> None:
        await self._lease.take()

    async def identity(self) -> str:
        """Of the server, the database and the prefix."""
        key = f"{self._options.prefix}cluster".encode()
        word: bytes = await self._link.run(lua.SHARED, key, token_hex(8).encode())
        return word.decode()

    async def open(self, now: float) -> Contents:
        recount, server_time = await self._lease.wait()
        self._clock_offset_s = server_time - now
        contents = Contents()
        contents.last_sid, contents.last_mid, known = await self._reader.numbers()
        over = []
        async for sid, stored in self._reader.sessions(known):
            if stored is None:
                recount = True
                over.append(sid)
            elif is_over(stored.record, now):
                over.append(sid)
            else:
                contents.sessions.append(stored)
        for at in range(0, len(over), PAGE):
            await self._finish(over[at : at + PAGE])
        await self._sweep()
        if recount:
            await self._recount(contents.sessions)
        contents.retained = await self._retained(now)
        contents.notes = await self._reader.notes()
        return contents

    async def commit(self, batch: Batch) -> None:
        await self._changing.acquire()
        try:
            if self._snapshot is not None:
                await self._snapshot.before(batch)
            await self._commit(batch)
        finally:
            self._changing.release()

    async def _commit(self, batch: Batch) -> None:
        if batch is not self._unsure:
            self._number += 1
            self._unsure = batch
        left = await self._lease.run(
            lua.COMMIT,
            self._lease.owner,
            self._lease.lease_ms,
            b"%d" % self._number,
            b"%d" % grows(batch),
            b"%d" % max(0, 0, *batch.sessions, *batch.ended),
            b"%d" % max(0, 0, *(each.mid for each in batch.messages)),
            b"%d" % (SLACK_S + self._clock_offset_s),
            *sections(batch),
        )
        self._unsure = None
        if left and self._sweeping is None:
            self._sweeping = Deferred.fromCoroutine(self._sweep_aside())

    async def load(self, sid: int, after: int, most: int, most_bytes: int) -> list[Row]:
        return await self._reader.queue(sid, after, most, most_bytes)

    async def pages(self) -> AsyncIterator[Batch]:
        await self._sweep()
        reader = self._reader
        last_sid, last_mid, known = await reader.numbers()
        number = 1
        # The highest numbers ever used come first, by what is gone: ended before it begins.
        batch = Batch(number)
        batch.ended.append(last_sid)
        batch.messages.append(MessageRecord(last_mid, b""))
        yield batch
        refs = await reader.refs()
        async for messages in reader.hash(b"m"):
            batch = Batch(number := number + 1)
            for mid, body in messages.items():
                message = MessageRecord(int(mid), body)
                message.refs = refs.get(int(mid), 0)
                batch.messages.append(message)
            yield batch
        async for sid, stored in reader.sessions(known):
            if stored is None:
                continue
            batch = Batch(number := number + 1)
            batch.sessions[sid] = stored.record
            batch.subscriptions.update({(sid, each.name): each for each in stored.subscriptions})
            batch.incoming.update({(sid, pid): True for pid in stored.incoming})
            yield batch
            for at in range(0, len(stored.inflight), PAGE):
                batch = Batch(number := number + 1)
                batch.deliveries = [row.record for row in stored.inflight[at : at + PAGE]]
                yield batch
            after = 0
            while rows := await reader.queue(sid, after, PAGE, PAGE_BYTES):
                batch = Batch(number := number + 1)
                batch.deliveries = [row.record for row in rows]
                yield batch
                after = rows[-1].record.seq
        async for retained in reader.hash(b"retained"):
            batch = Batch(number := number + 1)
            batch.retained = {topic.decode(): body for topic, body in retained.items()}
            yield batch
        async for notes in reader.hash(b"notes"):
            batch = Batch(number := number + 1)
            batch.notes = {name.decode(): text.decode() for name, text in notes.items()}
            yield batch

    async def snapshot(self) -> AsyncGenerator[Batch, None]:
        """As pages(), but all of one moment, while commits go on; one at a time."""
        if self._snapshot is not None:
            raise StoreError(f"{self.name}: it is being exported already; try again later")
        snapshot = self._snapshot = RedisSnapshot(self._reader, self._changing)
        try:
            await self._changing.acquire()
            try:
                await snapshot.begin()
            finally:
                self._changing.release()
            async for batch in snapshot.pages():
                yield batch
        finally:
            self._snapshot = None

    async def check(self) -> list[str]:
        await self._sweep()
        return await check_contents(self._reader)

    async def close(self) -> None:
        await self._lease.close()
        if self._sweeping is not None:
            self._sweeping.cancel()
        await self._link.close()

    # What goes

    async def _finish(self, over: list[int]) -> int:
        return await self._lease.run(lua.FINISH, sids(over))

    async def _sweep(self) -> None:
        while await self._finish([]):
            pass

    async def _sweep_aside(self) -> None:
        """While the broker goes on; what fails here is done after a later commit or open()."""
        try:
            await self._sweep()
        except (StoreError, CancelledError):
            pass
        self._sweeping = None

    async def _retained(self, now: float) -> list[bytes]:
        kept = []
        over = []
        async for portion in self._reader.hash(b"retained"):
            for topic, body in portion.items():
                if 0 < expires_at_of(body) <= now:
                    over.append(topic)
                else:
                    kept.append(body)
        for at in range(0, len(over), PAGE):
            await self._lease.run(lua.DELETE, b"retained", *over[at : at + PAGE])
        return kept

    async def _recount(self, sessions: list[StoredSession]) -> None:
        """Make refs true again after a session has vanished with what it counted there."""
        counted: dict[int, int] = {}
        for stored in sessions:
            mids = [record.mid async for record in self._reader.deliveries(stored.record.sid)]
            for mid in (*mids, *(row.record.mid for row in stored.inflight)):
                counted[mid] = counted.get(mid, 0) + 1
        noted = await self._reader.refs()
        async for portion in self._reader.hash(b"m", values=False):
            for field in portion:
                noted.setdefault(int(field), -1)  # not even 0
        wrong = [
            (mid, counted.get(mid, 0)) for mid, refs in noted.items() if refs != counted.get(mid, 0)
        ]
        for at in range(0, len(wrong), PAGE):
            await self._lease.run(lua.REFS, refs_of(wrong[at : at + PAGE]), b"")
        await self._lease.run(lua.REFS, b"", b"done")
