"""A hub with a store, and the moment at which the store has done its work is the test's.

disk = Disk(world)        the world's hub keeps what it has to in disk.store
disk.step()               the batch that is under way becomes safe, or messages come back
disk.settle()             until nothing is left to do
crash(world)              everybody is cut off; a new hub has what the store has, and nothing else
"""

from collections.abc import Coroutine
from typing import Any, TypeVar

from mhub.core.journal import Journal
from mhub.core.limits import Limits
from mhub.core.records import Batch
from mhub.core.restore import restore
from mhub.core.session import Session
from mhub.store.memory import MemoryStore
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
            done(self.store.commit(batch))
            hub.storage.committed()
        hub.flush()

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


def crash(world: World, disk: Disk, seconds: float = 1.0) -> tuple[World, Disk]:
    """What was not safe is gone, and so are all connections."""
    after = World(**world.options)
    after.now = world.now + seconds
    after.hub.tick(after.now)
    return after, Disk(after, disk.store, disk.window)
