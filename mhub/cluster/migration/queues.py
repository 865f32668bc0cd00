"""A frozen session's queue as entries, read in portions; and entries into a session.

The queue stays as it is while it is read: the source keeps all until the target has it.  A session
that is in the store is read from there, so what is given is safe by itself.
"""

from typing import Final

from mhub.core import records
from mhub.core.delivery import Delivery, delivery_of
from mhub.core.hub import Hub
from mhub.core.journal import subscription_record
from mhub.core.records import DeliveryRecord, Row, StoredSession
from mhub.core.session import Session

MOST: Final = 100
MOST_BYTES: Final = 64 * 1024
"""What is sent in a frame.  Each is a turn's work at both nodes, for which all others there wait:
some 0.3 ms."""

READ: Final = 1000
READ_BYTES: Final = 256 * 1024
"""What is read from the store at a time: that is not done in a turn, but takes a while to begin."""


def stored_of(session: Session, clock_offset_s: float) -> StoredSession:
    """A session as a value, without its entries."""
    stored = StoredSession(session.record(clock_offset_s))
    stored.record.sid = 1
    stored.subscriptions = [
        subscription_record(1, name, each) for name, each in session.subscriptions.items()
    ]
    stored.incoming = list(session.incoming)
    return stored


def row_of(delivery: Delivery, seq: int, pid: int, clock_offset_s: float) -> Row:
    message = delivery.message
    record = DeliveryRecord(1, seq)
    record.size_bytes = len(message.payload) + len(message.topic_data)
    record.qos = delivery.qos
    record.retain = delivery.retain
    record.ids = delivery.ids
    record.share = delivery.group.full_name if delivery.group is not None else ""
    record.pid = pid
    record.released = delivery.released
    return Row(record, records.message(message, clock_offset_s))


class Reader:
    """Entries of a session in their order: those in flight, retained replay, the queue."""

    def __init__(self, session: Session, clock_offset_s: float) -> None:
        self._session = session
        self._clock_offset_s = clock_offset_s  # the hub's time plus this is that of day
        self._end = -1  # the number up to which it is read; -1: all that comes
        self.last = 0  # the number of the last entry of the queue that was read

    def first(self) -> list[Row]:
        """What is not in the queue: all of it at once."""
        session = self._session
        rows = []
        for pid, delivery in session.inflight.deliveries.items():
            seq = delivery.record.seq if delivery.record is not None else 1
            rows.append(row_of(delivery, seq, pid, self._clock_offset_s))
        for subscription, message in session.replay_entries():
            qos = min(message.qos, subscription.qos)
            delivery = Delivery(message, qos, True, subscription.ids)
            rows.append(row_of(delivery, 1, 0, self._clock_offset_s))
        return rows

    def catch_up(self) -> None:
        """Read up to what is in the queue now."""
        self._end = self._session.last_seq if self._session.sid else self._session.queued()

    def is_exhausted(self) -> bool:
        session = self._session
        if session.sid:
            end = self._end if self._end >= 0 else session.last_seq
            return not session.queued() or self.last >= end
        return self.last >= (self._end if self._end >= 0 else session.queued())

    def read(self) -> list[Row] | None:
        """The next of the queue; None: the store was asked."""
        session = self._session
        if session.sid:
            queue = session.queue
            if queue is not None and not queue.loading:
                queue.loading = True
                session.hub.storage.read(session, self.last, READ, READ_BYTES)
            return None
        rows = []
        end = self.last + MOST
        if self._end >= 0:
            end = min(end, self._end)
        if session.queue is not None:
            waiting = session.queue.deliveries
            size_bytes = 0
            # By index: an iterator would walk through all that was read before.
            for index in range(self.last, min(end, len(waiting))):
                self.last += 1
                row = row_of(waiting[index], self.last, 0, self._clock_offset_s)
                rows.append(row)
                size_bytes += row.record.size_bytes
                if size_bytes >= MOST_BYTES:
                    break
        return rows

    def loaded(self, rows: list[Row]) -> list[Row]:
        """What the store answered: those that are to be read."""
        if not rows:
            if not self._session.hub.require_journal().is_pending():
                self.last = self._session.last_seq  # there is no more, whatever was counted
            return rows
        if self._end >= 0:
            rows = [row for row in rows if row.record.seq <= self._end]
        self.last = rows[-1].record.seq if rows else self._end
        return rows


def revive_inflight(hub: Hub, session: Session, row: Row, clock_offset_s: float) -> None:
    """An entry that is in flight, with the packet id that its client knows."""
    delivery = delivery_of(row, clock_offset_s, session.subscriptions)
    if session.sid:
        journal = hub.require_journal()
        journal.add(session, delivery)
        journal.sent(delivery, row.record.pid)
        if delivery.released:
            journal.released(delivery)
    session.inflight.deliveries[row.record.pid] = delivery
