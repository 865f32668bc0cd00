"""The journal writer: batches go to the store, one at a time, again and again until they are safe.

    open()    at the start: what the store has, into the hub; waits for a store that is not there
    commit()  a batch; while the store fails nothing that it holds is acknowledged, and the hub
              reads no more from publishers once much is pending
    close()   at the end: what is pending still goes to the store, for a bounded time

A failure is an event of the hub (the first one, each one for another reason, then once a minute),
and shows in `$SYS/broker/store/state` and in the hub's counters.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final, TypeVar

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from mhub.core.hub import Hub
from mhub.core.journal import PEER, Journal
from mhub.core.limits import Limits
from mhub.core.records import Batch, Contents, Row, StoredSession
from mhub.core.restore import restore
from mhub.core.session import Session
from mhub.log import logger
from mhub.store.contract import Store, StoreBroken, StoreError

T = TypeVar("T")

REMIND_S: Final = 60.0
LONGEST: Final = 10
"""The wait between two tries grows up to so many times the first one."""


class StoreWriter:
    def __init__(
        self,
        store: Store,
        hub: Hub,
        reactor: Any,
        clock: Callable[[], float],
        retry_s: float,
        node: str = "",
    ) -> None:
        """`node` is whose store it is, if that is another one."""
        self._store = store
        self._hub = hub
        self._reactor = reactor
        self._clock = clock  # the hub's
        self._retry_s = retry_s
        self._log = logger("store", node)
        self._calling = False  # inside of a call of the hub's
        self._stopping = False
        self._given_up = False
        self._rests: set[Deferred[None]] = set()  # waits before another try; a load has its own
        self._failing_since = 0.0
        self._failure = ""  # why it failed last
        self._reminded_at = 0.0

    async def open(
        self,
        now: float,
        journal: Journal,
        limits_of: Callable[[str], Limits],
        once: bool = False,
    ) -> None:
        """Bring back what the store has; StoreBroken if that cannot be.

        `once`: StoreError if it cannot be now.
        """
        if once:
            contents = await self._store.open(now)
        else:
            contents = await self._persist(lambda: self._store.open(now), True)
        hub = self._hub
        hub.now = self._clock()
        hub.keep_in(self, journal)
        restore(hub, contents, limits_of)
        self._hub.storage.state = "ok"
        found = _describe(contents, len(hub.retained))
        self._log.info("{store}: {found}", store=self._store.name, found=found)

    # The hub's journal writer

    def commit(self, batch: Batch) -> None:
        self._calling = True
        self._start(self._commit(batch))
        self._calling = False

    async def _commit(self, batch: Batch) -> None:
        began_at = self._clock()
        await self._persist(lambda: self._store.commit(batch), False)
        hub = self._hub
        hub.stats.store_commits += 1
        hub.now = self._clock()
        hub.storage.commits.observe(hub.now - began_at)
        hub.storage.committed()
        self._end_turn()

    def load(self, session: Session, after: int, most: int, most_bytes: int) -> None:
        self._calling = True
        self._start(self._load(session, after, most, most_bytes))
        self._calling = False

    async def _load(self, session: Session, after: int, most: int, most_bytes: int) -> None:
        sid = session.sid
        rows: list[Row] = await self._persist(
            lambda: self._store.load(sid, after, most, most_bytes), False
        )
        self._hub.storage.loaded(session, rows, self._clock())
        self._end_turn()

    def _end_turn(self) -> None:
        if not self._calling:
            self._hub.flush()
            self._hub.wake()

    def _start(self, work: Coroutine[Deferred[Any], Any, None]) -> None:
        Deferred.fromCoroutine(work).addErrback(self._ended)

    def _ended(self, failure: Failure) -> None:
        if not failure.check(CancelledError):  # which is how close() ends it
            self._log.failure("internal error while storing", failure)

    # Again and again

    async def _persist(self, call: Callable[[], Coroutine[Any, Any, T]], opening: bool) -> T:
        """Call until it works.  Opening fails for good where trying again cannot help."""
        wait_s = self._retry_s
        while True:
            try:
                result = await call()
            except CancelledError:
                raise
            except StoreBroken as error:
                if opening:
                    raise
                self._failed(str(error))
            except StoreError as error:
                if self._stopping:
                    raise CancelledError from None  # by close(), whichever way it shows
                self._failed(str(error))
            except Exception as error:
                self._log.failure("a defect in the store")
                self._failed(f"{type(error).__name__}: {error}")
            else:
                self._worked()
                return result
            if self._stopping:
                raise CancelledError
            rest: Deferred[None] = deferLater(self._reactor, wait_s)
            self._rests.add(rest)
            try:
                await rest
            finally:
                self._rests.discard(rest)
            wait_s = min(wait_s * 2, self._retry_s * LONGEST)

    def _failed(self, text: str) -> None:
        hub = self._hub
        now = self._clock()
        hub.stats.store_failures += 1
        hub.storage.state = f"failing: {text}"
        is_first = not self._failing_since
        if is_first:
            self._failing_since = now
        elif text == self._failure and now - self._reminded_at < REMIND_S:
            return
        self._failure = text
        self._reminded_at = now
        hub.events.store_failed(text, hub.journal is not None, is_first, now - self._failing_since)

    def _worked(self) -> None:
        if self._failing_since:
            self._hub.events.store_recovered(self._clock() - self._failing_since)
            self._failing_since = 0.0
            self._hub.storage.state = "ok"

    def snapshot(self) -> AsyncGenerator[Batch, None]:
        """What the store has, of one moment, while all goes on."""
        return self._store.snapshot()

    # The end

    def give_up(self) -> None:
        """The store is another one's: close() need not wait."""
        self._given_up = True

    async def close(self, timeout_s: float) -> None:
        """Wait for what is pending, but not for ever."""
        hub = self._hub
        journal = hub.journal
        deadline = self._reactor.seconds() + timeout_s
        if journal is not None and not self._given_up:
            while journal.under_way is not None or journal.batch.touched():
                journal.hurry()
                hub.flush()
                if self._reactor.seconds() >= deadline:
                    self._log.error(
                        "stopped while {count} bytes were not stored; none of them was"
                        " acknowledged",
                        count=journal.pending_bytes(),
                    )
                    break
                await deferLater(self._reactor, 0.01)
        self._stopping = True
        for rest in list(self._rests):
            rest.cancel()
        await self._store.close()


def _describe(contents: Contents, retained: int) -> str:
    channels: list[StoredSession] = []
    sessions: list[StoredSession] = []
    for stored in contents.sessions:
        is_channel = stored.record.client_id.startswith(PEER)  # to another node
        (channels if is_channel else sessions).append(stored)
    text = (
        f"{_count(len(sessions), 'session')}, {_count(_waiting(sessions), 'queued message')},"
        f" {retained} retained"
    )
    kept = _waiting(channels)
    return f"{text}, {_count(kept, 'message')} for other nodes" if kept else text


def _waiting(sessions: list[StoredSession]) -> int:
    return sum(stored.queued + len(stored.inflight) for stored in sessions)


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
