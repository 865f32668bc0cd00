"""A store in one SQLite file, used by a thread of its own.

SqliteStore        the contract: turns batches into rows, and waits for the thread
sqlite_thread      the thread
sqlite_database    what it does: transactions, queries, giving back space
sqlite_file        the file: its lock, whether it is ours, a new one, an upgrade
sqlite_access      whether the file can ever be opened
sqlite_snapshot    the contents at one moment, while a broker goes on changing them
sqlite_rows        a batch as statements and rows
sqlite_records     rows as records
sqlite_check       what can be wrong with the contents
sqlite_errors      errors as what a person can do about them
"""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any, Final, TypeVar

from twisted.internet.defer import Deferred

from mhub.core.records import Batch, Contents, Row
from mhub.store.contract import StoreError
from mhub.store.sqlite_database import Database
from mhub.store.sqlite_records import PAGES
from mhub.store.sqlite_rows import work_of
from mhub.store.sqlite_thread import Worker

T = TypeVar("T")

SYNCHRONOUS: Final = ("full", "normal", "off")
"""What is safe when commit() returns: full, against loss of power; normal, against the end of the
process (SQLite then leaves it to the system when to write); off, the same, but a loss of power may
also damage the file."""


class SqliteStore:
    def __init__(self, reactor: Any, path: str, synchronous: str = "full") -> None:
        if synchronous not in SYNCHRONOUS:
            raise ValueError(f"synchronous: {synchronous} is none of {', '.join(SYNCHRONOUS)}")
        self.name = f"sqlite {os.path.abspath(path)}"
        self._reactor = reactor
        self._database = Database(os.path.abspath(path), synchronous)
        self._worker: Worker | None = None

    async def open(self, now: float) -> Contents:
        self._worker = Worker(self._reactor, self._database.path)
        try:
            return await self._call(self._database.open, now)
        except Exception:
            await self.close()
            raise

    async def commit(self, batch: Batch) -> None:
        # Here and not in the thread, as the hub goes on changing its records.
        work = work_of(batch)
        await self._call(self._database.commit, work)
        if self._database.wants_tidying() and self._worker is not None:
            self._tidy(self._worker)

    def _tidy(self, worker: Worker) -> None:
        """Step by step: whatever else was asked for in between has its turn."""

        def step() -> None:
            if self._database.tidy():
                worker.post(step)

        worker.post(step)

    async def load(self, sid: int, after: int, most: int, most_bytes: int) -> list[Row]:
        return await self._call(self._database.load, sid, after, most, most_bytes)

    async def pages(self) -> AsyncIterator[Batch]:
        number = 1
        yield await self._call(self._database.numbers)
        for select, start, add in PAGES:
            key = start
            while rows := await self._call(self._database.portion, select, key):
                batch = Batch(number := number + 1)
                for row in rows:
                    add(batch, row)
                key = rows[-1][: len(start)]
                yield batch

    async def snapshot(self) -> AsyncGenerator[Batch, None]:
        from mhub.store.sqlite_snapshot import SqliteSnapshot

        # With a thread and a connection of its own.
        snapshot = SqliteSnapshot(self._reactor, self._database.path)
        try:
            await snapshot.open(0.0)
            async for batch in snapshot.pages():
                yield batch
        finally:
            await snapshot.close()

    async def check(self) -> list[str]:
        return await self._call(self._database.check)

    async def close(self) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            try:
                await worker.call(self._database.close)
            finally:
                worker.end()

    def _call(self, function: Callable[..., T], *values: Any) -> Deferred[T]:
        if self._worker is None:
            raise StoreError(f"{self.name}: it is not open")
        return self._worker.call(function, *values)
