"""The hub's side of the store: what goes there, what comes back, and who waits for it.

    Hub.flush -> send()              the next batch, if none is under way
    committed()                      it is safe: who waited for it goes on
    refill() -> loaded()             the next messages of a queue that is paged out

Three kinds wait: connections with output that may not leave before something is safe (`holding`),
connections whose messages are not read while the store is behind (`stalled`), and sessions whose
messages are still on their way to the store when they are asked for (`starving`).  What has to be
stored gathers in the hub's journal; a hub without one uses `holding` alone, for what waits for
other nodes.
"""

from typing import TYPE_CHECKING, Final

from mhub.core.connection import STORE, Connection
from mhub.core.delivery import Delivery, delivery_of
from mhub.core.histogram import Histogram
from mhub.core.journal import AckTracker, Journal
from mhub.core.outgoing import OutgoingQueue
from mhub.core.ports import JournalWriter
from mhub.core.records import Row

if TYPE_CHECKING:
    from mhub.core.hub import Hub
    from mhub.core.session import Session

PAGE_MESSAGES: Final = 2048
"""So many messages of a queue come back from the store at a time, for a client that is here."""

PAGE_BYTES: Final = 4 * 1024 * 1024
"""So much of a queue comes back from the store at a time, at most."""

COMMIT_S: Final[tuple[float, ...]] = (
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    10.0,
)
"""The buckets of how long a batch takes to be safe, with all tries that it needs."""


class Storage:
    def __init__(self, hub: "Hub") -> None:
        self.hub = hub
        self.writer: JournalWriter | None = None
        self.state = "none"  # for $SYS
        self.commits = Histogram(COMMIT_S)
        self.behind = False  # the store does not keep up
        self.holding: dict[Connection, bool] = {}  # those with output that waits for the store
        self.stalled: list[Connection] = []  # those whose messages wait for it
        self.starving: list[Session] = []  # those that wait for messages from it

    def send(self, journal: Journal) -> None:
        """Give the next batch to the store, if that has done with the one before."""
        writer = self.writer
        assert writer is not None
        while journal.under_way is None and journal.batch.urgent:
            batch = journal.take()
            if batch.worth_storing():
                writer.commit(batch)
            else:
                self.committed()
        if not self.behind and journal.behind():
            self.behind = True
            self.hub.stats.store_behind += 1

    def can_send(self) -> bool:
        """Whether somebody waits for a batch that could be on its way."""
        journal = self.hub.journal
        return journal is not None and journal.batch.urgent and journal.under_way is None

    def committed(self) -> None:
        """The batch that was under way is safe; the caller ends the turn with Hub.flush()."""
        journal = self.hub.require_journal()
        batch = journal.under_way
        assert batch is not None
        journal.under_way = None
        self.hub.durable = batch.number
        self.hub.registry.durable = batch.number
        for message in batch.messages:
            message.body = b""  # the store has it
        for record in batch.deliveries:
            record.body = b""
        for connection in list(self.holding):
            connection.release()
        if self.behind and not journal.behind():
            self._catch_up()
        starving = self.starving
        self.starving = []
        for session in starving:
            if session.queue is not None:
                self._load(session, session.queue)
        peers = self.hub.peers
        if peers is not None and peers.deferred:
            peers.neighbours.stored()

    def _catch_up(self) -> None:
        self.behind = False
        stalled = self.stalled
        self.stalled = []
        for connection in stalled:
            connection.handle_soon(STORE)

    # Queues that are paged out

    def refill(self, session: "Session") -> None:
        """Ask for more before the part of a queue that is in memory is empty."""
        queue = session.queue
        if queue is None or not queue.paged_out or queue.loading:
            return
        at_hand = queue.at_hand
        if not at_hand or at_hand < self._page_size(session) // 2 or session.shares:
            queue.loading = True
            self._load(session, queue)

    def _page_size(self, session: "Session") -> int:
        """How many messages of a queue are to be at hand: many, if somebody takes them."""
        return PAGE_MESSAGES if session.is_connected() else self.hub.require_journal().window

    def _load(self, session: "Session", queue: OutgoingQueue) -> None:
        self.read(session, queue.tail_seq, self._page_size(session), PAGE_BYTES)

    def read(self, session: "Session", after: int, most: int, most_bytes: int) -> None:
        """Ask for queued messages of a session that come behind seq `after`."""
        assert self.writer is not None
        self.writer.load(session, after, most, most_bytes)

    def loaded(self, session: "Session", rows: list[Row], now: float) -> None:
        """What was asked for; no rows: there are none, or the store does not have them yet."""
        hub = self.hub
        hub.now = now
        queue = session.queue
        if not session.sid or queue is None:
            return
        if queue.stale_load:
            queue.stale_load = False
            queue.loading = False
            session.end_queue()
            if not session.frozen:
                self.refill(session)
        elif session.frozen:
            queue.loading = False
            if hub.peers is not None:
                hub.peers.neighbours.loaded(session, rows)
        elif rows:
            queue.loading = False
            self._page_in(session, queue, rows)
            session.drain_queue(hub.portion)
            self.refill(session)
        elif hub.require_journal().is_pending():
            self.starving.append(session)  # they are on their way to the store
            hub.require_journal().hurry()
        else:
            hub.events.crashed(
                f"the queue of {session.client_id!r}",
                LookupError(f"{queue.paged_out} messages are not in the store any more"),
            )
            queue.give_up_paged_out()
            session.end_queue()

    def _page_in(self, session: "Session", queue: OutgoingQueue, rows: list[Row]) -> None:
        """Messages from the store: they are next."""
        clock_offset_s = self.hub.require_journal().clock_offset_s
        for row in rows:
            queue.page_in(row.record)
            found = self.revive(session, row, clock_offset_s)
            if found is not None:
                queue.append(found, found.size_bytes())
        queue.unchecked = queue.at_hand  # they may have been stored under other rights
        session.end_queue()

    def revive(self, session: "Session", row: Row, clock_offset_s: float) -> Delivery | None:
        """A delivery as it was when it was stored; None if the store has damaged it."""
        try:
            delivery = delivery_of(row, clock_offset_s, session.subscriptions)
        except ValueError as error:
            self.hub.events.crashed(f"a stored message for {session.client_id!r}", error)
            self.hub.require_journal().forget(row.record)
            return None
        tracker = AckTracker()
        tracker.unsettled = 1
        delivery.message.tracker = tracker
        delivery.record = row.record
        return delivery
