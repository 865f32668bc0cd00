"""The contents of a Redis server at one moment, while its broker goes on changing them.

Redis has no transaction that reads much and blocks nobody.  But all changes come through one store,
which asks here before each batch: whatever the batch is about to change, and was not read yet, is
read first (`before`).  So all that is read is as it was at the moment of `begin`.

What was read early waits in memory for whoever takes the snapshot.  If that becomes too much, as
for a very slow reader, the snapshot fails, and not the broker.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Final

from twisted.internet.defer import DeferredLock

from mhub.core.records import Batch, MessageRecord, Row
from mhub.store.contract import StoreError
from mhub.store.redis_reader import PAGE, PAGE_BYTES, RedisReader

MOST_WAITING: Final = 256 << 20
"""Bytes of what was read early."""

SESSIONS: Final = 50
"""Sessions that are read between two batches of the broker's."""


class RedisSnapshot:
    def __init__(self, reader: RedisReader, lock: DeferredLock) -> None:
        """`lock` is held by whoever changes something, and calls before() then."""
        self._reader = reader
        self._lock = lock
        self._sids: dict[int, bool] = {}  # those that are still to be read
        self._read: dict[bytes, set[bytes]] = {b"retained": set(), b"notes": set()}
        self._mids: set[int] = set()  # shared messages that were read
        self._waiting: list[Batch] = []  # what was read early
        self._waiting_bytes = 0
        self._failure = ""

    async def begin(self) -> None:
        """The moment; the lock is held."""
        _, _, known = await self._reader.numbers()
        self._sids = dict.fromkeys(known, True)

    async def before(self, batch: Batch) -> None:
        """Read what a batch will change; the lock is held.  An error is the snapshot's alone."""
        if self._failure:
            return
        try:
            changed = dict.fromkeys(sid for sid in _sids(batch) if sid in self._sids)
            async for found in self._sessions(list(changed)):
                self._keep(found)
            for name, fields in ((b"retained", batch.retained), (b"notes", batch.notes)):
                read = self._read[name]
                new = [field for each in fields if (field := each.encode()) not in read]
                read.update(new)  # before they come, as pages() may come across them meanwhile
                for at in range(0, len(new), PAGE):
                    values = await self._reader.fields(name, new[at : at + PAGE])
                    self._keep(_hash_batch(name, values))
        except StoreError as error:
            self.fail(str(error))

    def fail(self, text: str) -> None:
        self._failure = text
        self._waiting = []

    def _keep(self, batch: Batch) -> None:
        self._waiting.append(batch)
        self._waiting_bytes += (
            sum(len(each.body) for each in batch.messages)
            + sum(len(each.body) for each in batch.deliveries)
            + sum(map(len, batch.retained.values()))
        )
        if self._waiting_bytes > MOST_WAITING:
            self.fail("the export is read too slowly: the broker changes more than can wait for it")

    async def pages(self) -> AsyncIterator[Batch]:
        """All there was.  Raises StoreError."""
        while self._sids:
            await self._lock.acquire()
            try:
                some = list(self._sids)[:SESSIONS]
                batches = [batch async for batch in self._sessions(some)]
            finally:
                self._lock.release()
            for batch in (*batches, *self._early()):
                yield batch
        for name in (b"retained", b"notes"):
            read = self._read[name]
            async for portion in self._reader.hash(name):
                # No batch can have been applied since these were read that before() does not know.
                new = {field: value for field, value in portion.items() if field not in read}
                read.update(new)
                yield _hash_batch(name, new)
                for batch in self._early():
                    yield batch
        # A last batch may be waiting for what before() reads just now.
        await self._lock.run(lambda: None)
        for batch in self._early():
            yield batch

    def _early(self) -> list[Batch]:
        if self._failure:
            raise StoreError(self._failure)
        waiting, self._waiting = self._waiting, []
        self._waiting_bytes = 0
        return waiting

    async def _sessions(self, sids: list[int]) -> AsyncIterator[Batch]:
        """Sessions, each with all it has; from now on they are read."""
        for sid in sids:
            del self._sids[sid]
        async for sid, stored in self._reader.sessions(sids):
            if stored is None:
                continue
            batch = Batch(1)
            batch.sessions[sid] = stored.record
            batch.subscriptions.update({(sid, each.name): each for each in stored.subscriptions})
            batch.incoming.update({(sid, pid): True for pid in stored.incoming})
            self._add(batch, stored.inflight)
            yield batch
            after = 0
            while stored.queued and (
                rows := await self._reader.queue(sid, after, PAGE, PAGE_BYTES)
            ):
                batch = Batch(1)
                self._add(batch, rows)
                yield batch
                after = rows[-1].record.seq

    def _add(self, batch: Batch, rows: Iterable[Row]) -> None:
        """Deliveries; of a message that several share, the first one brings it."""
        for row in rows:
            mid = row.record.mid
            if mid and mid not in self._mids:
                self._mids.add(mid)
                message = MessageRecord(mid, row.body)
                message.refs = 1  # that there are any; how many is counted by whoever imports it
                batch.messages.append(message)
            batch.deliveries.append(row.record)


def _hash_batch(name: bytes, values: dict[bytes, bytes]) -> Batch:
    batch = Batch(1)
    if name == b"retained":
        batch.retained = {topic.decode(): body for topic, body in values.items()}
    else:
        batch.notes = {note.decode(): text.decode() for note, text in values.items()}
    return batch


def _sids(batch: Batch) -> Iterable[int]:
    """The sessions that a batch changes."""
    yield from batch.sessions
    yield from batch.ended
    for delivery in batch.deliveries:
        yield delivery.sid
    for change in batch.changes:
        yield change.sid
    for sid, _ in (*batch.removals, *batch.incoming, *batch.subscriptions):
        yield sid
