"""A hub with a store, and the moment at which the store has done its work is the test's.

disk = Disk(world)        the world's hub keeps what it has to in disk.store
disk.step()               the batch that is under way becomes safe, or messages come back
disk.settle()             until nothing is left to do
crash(world)              everybody is cut off; a new hub has what the store has, and nothing else

FileDisk(world, file)     the same with a file: batches are written at once, as bytes; step() syncs
                          before it tells the hub; a start has what is whole in the file
"""

from collections.abc import AsyncIterator, Coroutine
from typing import Any, TypeVar

from mhub.core.codec import decode_batch, encode_batch
from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.records import Batch
from mhub.core.restore import restore
from mhub.core.session import Session
from mhub.store.memory import MemoryStore
from tests.core.files import BatchFile, File
from tests.core.world import World

T = TypeVar("T")
EPOCH = 1_000_000_000.0


def done(work: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that waits for nothing, as those of the memory store do."""
    try:
        work.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError("it waits")


def every(items: AsyncIterator[T]) -> list[T]:
    """The same for what comes one by one."""
    found: list[T] = []
    while True:
        try:
            found.append(done(anext(items)))  # type: ignore[arg-type]
        except StopAsyncIteration:
            return found


class Disk:
    def __init__(
        self,
        world: World,
        store: MemoryStore | None = None,
        window: int = 4,
        max_pending_bytes: int = 1 << 30,
    ) -> None:
        self.world = world
        self.store = store or MemoryStore()
        self.window = window
        self.batch: Batch | None = None
        self.asked: list[tuple[Session, int, int, int]] = []
        self.batches = 0
        hub = world.hub
        hub.keep_in(self, Journal(EPOCH, window, max_pending_bytes))
        contents = done(self.store.open(world.now + EPOCH))
        restore(hub, contents, lambda name: Limits(**world.limits))

    def commit(self, batch: Batch) -> None:
        assert self.batch is None, "two batches at a time"
        self.batch = batch
        self.batches += 1

    def load(self, session: Session, after: int, most: int, most_bytes: int) -> None:
        self.asked.append((session, after, most, most_bytes))

    def busy(self) -> bool:
        return self.batch is not None or bool(self.asked)

    def step(self) -> None:
        hub = self.world.hub
        if self.asked:
            session, *rest = self.asked.pop(0)
            rows = done(self.store.load(session.sid, *rest))
            hub.storage.loaded(session, rows, self.world.now)
        elif self.batch is not None:
            batch, self.batch = self.batch, None
            self.save(batch)
            hub.storage.committed()
        hub.flush()

    def save(self, batch: Batch) -> None:
        """Make it safe: only then the hub is told."""
        done(self.store.commit(batch))

    def settle(self) -> None:
        for _ in range(100_000):
            self.world.settle()
            if not self.busy():
                self.world.hub.require_journal().hurry()
                self.world.hub.flush()
                if not self.busy():
                    return
            self.step()
        raise AssertionError("the store never rests")


class FileDisk(Disk):
    """With a journal of batches in a file that may lose what was not synced."""

    def __init__(self, world: World, file: File) -> None:
        self.journal = BatchFile(file)
        self._written: list[bytes] = []  # batches that are not in the store yet
        super().__init__(world, self._replayed())

    def _replayed(self) -> MemoryStore:
        """A store with all that is whole in the file, which becomes a shorter one."""
        store = MemoryStore()
        for data in self.journal.replay():
            done(store.commit(decode_batch(data)))
        wrong = done(store.check())
        assert not wrong, wrong
        self.journal.rewrite([encode_batch(batch) for batch in every(store.pages())])
        return store

    def commit(self, batch: Batch) -> None:
        super().commit(batch)
        # As bytes now: the hub goes on to change its records.
        data = encode_batch(batch)
        self.journal.append(data)
        self._written.append(data)

    def save(self, batch: Batch) -> None:
        self.journal.sync()
        self.apply()

    def apply(self) -> None:
        """What is read back is what was written, not what the hub still has of it."""
        for data in self._written:
            done(self.store.commit(decode_batch(data)))
        self._written.clear()


class HastyDisk(FileDisk):
    """A defect to be found: only every second batch is synced before the hub is told of it."""

    def save(self, batch: Batch) -> None:
        if self.batches % 2 == 0:
            self.journal.sync()
        self.apply()


def crash(world: World, disk: Disk, seconds: float = 1.0) -> tuple[World, Disk]:
    """What was not safe is gone, and so are all connections."""
    after = World(**world.options)
    after.now = world.now + seconds
    after.hub.tick(after.now)
    return after, Disk(after, disk.store, disk.window)
