"""What has to be safe before it is promised: changes gather here, a batch goes to the store.

    persist, then speak: a reply that promises something waits for the batch with what it promises

The batch that gathers is `batch`; at most one is `under_way` to the store.  Deliveries that are
over before their batch is taken are never stored, and a message that all its receivers have
acknowledged needs no store any more: its sender is answered at once.  So as long as clients keep
up, most messages cost the store nothing.  A batch in which deliveries only end is not urgent: if it
is lost, they come again.  It goes with the next one, or with the next tick.

A hub without a journal (the memory store) asks for none of this.
"""

from typing import TYPE_CHECKING, Final, cast

from mhub.core import records
from mhub.core.events import EventSource
from mhub.core.limits import NEVER
from mhub.core.records import (
    Batch,
    ChangeRecord,
    DeliveryRecord,
    MessageRecord,
    Row,
    SessionRecord,
    SubscriptionRecord,
)
from mhub.wire.primitives import read_varint
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.core.delivery import Delivery, Subscriber, Subscription

PEER: Final = "\0peer/"
"""The channel to a peer is kept like a session, under a client id that no client can have."""

FULL: Final = 4000
FULL_BYTES: Final = 8 * 1024 * 1024
"""Rows and bytes from which on a batch that waits should not grow.  A store takes 10,000 rows in
some 30 ms, on a busy machine in ten times that, and clients may have to wait for them."""

OVERHEAD: Final = 200
"""Bytes that a record takes besides its message, about."""


class Waiter(EventSource):
    """A connection, as far as those need to know it for whom its deferred frames wait."""

    def release(self) -> None:
        """Let go what need not wait any more."""
        raise NotImplementedError


class AckTracker:
    """What the store has to do with one message: when is its sender free of it?"""

    def __init__(self) -> None:
        self.remote = 0  # peers that do not have it yet: never before all do, and then
        self.batch = 0  # when this one is safe
        self.unsettled = 0  # or when none of its deliveries is left
        self.record: MessageRecord | None = None  # if it was stored once for several
        self.waiter: Waiter | None = None  # the sender's, that waits

    def arrived(self) -> None:
        """One peer less to wait for."""
        self.remote -= 1
        if self.remote == 0 and self.waiter is not None:
            self.waiter.release()

    def free(self, durable: int) -> bool:
        return self.remote == 0 and (self.unsettled == 0 or self.batch <= durable)


class DeferredFrame:
    """A frame that has to wait."""

    def __init__(
        self, frame: bytes, payload: bytes, after: int, tracker: AckTracker | None
    ) -> None:
        self.frame = frame
        self.payload = payload  # of a large message, behind its head
        self.after = after  # the number of a batch
        self.tracker = tracker
        self.pid = 0  # of a PUBLISH
        self.unchecked = False  # rights have changed since: whether a PUBLISH may leave is asked

    def free(self, durable: int) -> bool:
        return self.after <= durable and (self.tracker is None or self.tracker.free(durable))


class Journal:
    def __init__(self, clock_offset_s: float, window: int, max_pending_bytes: int) -> None:
        self.clock_offset_s = clock_offset_s  # the hub's clock plus this is the time of day
        self.window = window  # messages of a queue that are held in memory
        self.max_pending_bytes = max_pending_bytes
        self.batch = Batch(1)
        self.under_way: Batch | None = None
        self.last_sid = 0
        self.last_mid = 0

    def mark(self) -> int:
        """The number of the batch with which all that has happened so far is safe."""
        batch = self.batch
        if not batch.touched():
            return batch.number - 1
        batch.urgent = True
        return batch.number

    def is_pending(self) -> bool:
        """Whether the store does not have all yet."""
        return self.under_way is not None or self.batch.touched()

    def hurry(self) -> None:
        """Do not let what has gathered wait any longer."""
        if self.batch.touched():
            self.batch.urgent = True

    def take(self) -> Batch:
        """The batch, for the store; the next one begins."""
        batch = self.batch
        batch.changes = [change for change in batch.changes if not change.dead]
        self.batch = Batch(batch.number + 1)
        self.under_way = batch
        return batch

    def pending_bytes(self) -> int:
        under_way = self.under_way
        return self.batch.size_bytes + (under_way.size_bytes if under_way is not None else 0)

    def behind(self) -> bool:
        return self.pending_bytes() > self.max_pending_bytes

    def is_full(self) -> bool:
        """Whether a batch is under way, and the next one is large already."""
        batch = self.batch
        if self.under_way is None:
            return False
        rows = len(batch.deliveries) - batch.dead + len(batch.changes) + len(batch.removals)
        return rows >= FULL or batch.size_bytes >= FULL_BYTES

    # Deliveries

    def add(self, session: "Subscriber", delivery: "Delivery") -> None:
        """A message for a session to keep."""
        session.last_seq += 1
        self._add(session.sid, session.last_seq, delivery)
        if delivery.group is not None and delivery.record is not None:
            delivery.record.share = delivery.group.full_name

    def adopt(self, session: "Subscriber", row: Row) -> None:
        """A queued message that another store had."""
        session.last_seq += 1
        batch = self.batch
        record = row.record
        record.sid = session.sid
        record.seq = session.last_seq
        record.mid = 0
        record.body = row.body
        record.born = batch.number
        record.batch = batch.number
        batch.deliveries.append(record)
        batch.size_bytes += OVERHEAD + len(row.body)
        batch.urgent = True

    def keep_for_peer(self, sid: int, n: int, delivery: "Delivery", addressed: str) -> None:
        """A message for a peer to keep; all of its channel comes back at the start."""
        self._add(sid, n, delivery)
        record = delivery.record
        if record is not None:
            record.share = addressed
            record.pid = 1  # as if in flight: so it is at hand when the hub starts

    def _add(self, sid: int, seq: int, delivery: "Delivery") -> None:
        batch = self.batch
        message = delivery.message
        tracker = tracker_of(message)
        tracker.batch = batch.number
        tracker.unsettled += 1
        record = DeliveryRecord(sid, seq)
        record.size_bytes = len(message.payload) + len(message.topic_data)
        record.qos = delivery.qos
        record.retain = delivery.retain
        record.ids = delivery.ids
        record.born = batch.number
        record.batch = batch.number
        shared = self._shared(message, tracker) if message.shared else None
        if shared is not None:
            shared.refs += 1
            record.mid = shared.mid
        else:
            record.body = records.message(message, self.clock_offset_s)
        batch.deliveries.append(record)
        batch.size_bytes += OVERHEAD + len(record.body)
        batch.urgent = True
        delivery.record = record

    def _shared(self, message: Publish, tracker: AckTracker) -> MessageRecord | None:
        """What several deliveries of one batch share; those of later ones have their own copy."""
        batch = self.batch
        record = tracker.record
        if record is None:
            self.last_mid += 1
            record = MessageRecord(self.last_mid, records.message(message, self.clock_offset_s))
            record.batch = batch.number
            tracker.record = record
            batch.messages.append(record)
            batch.size_bytes += len(record.body)
        return record if record.batch == batch.number else None

    def sent(self, delivery: "Delivery", pid: int) -> None:
        """It has a packet id now."""
        record = delivery.record
        if record is not None:
            record.pid = pid
            self._changed(record)

    def released(self, delivery: "Delivery") -> None:
        """QoS 2: PUBREC came."""
        record = delivery.record
        if record is not None:
            record.released = True
            self._changed(record)

    def _changed(self, record: DeliveryRecord) -> None:
        batch = self.batch
        if record.born != batch.number:
            if record.change is not None and record.batch == batch.number:
                record.change.dead = True
            record.change = ChangeRecord(record.sid, record.seq, record.pid, record.released)
            batch.changes.append(record.change)
            batch.size_bytes += OVERHEAD
            if record.qos == 2:
                batch.urgent = True
        record.batch = batch.number

    def remove(self, delivery: "Delivery") -> None:
        """It is over: acknowledged, dropped, or handed to another session."""
        record = delivery.record
        if record is None:
            return
        delivery.record = None
        batch = self.batch
        if record.born == batch.number:
            record.dead = True
            record.body = b""
            batch.dead += 1
        else:
            batch.removals.append((record.sid, record.seq))
            batch.size_bytes += OVERHEAD
            if record.change is not None and record.batch == batch.number:
                record.change.dead = True
        tracker = tracker_of(delivery.message)
        if record.mid and not record.dead:
            batch.refs[record.mid] = batch.refs.get(record.mid, 0) - 1
        elif record.mid and tracker.record is not None:
            tracker.record.refs -= 1
        tracker.unsettled -= 1
        if tracker.unsettled == 0 and tracker.waiter is not None:
            tracker.waiter.release()

    def forget(self, record: DeliveryRecord) -> None:
        """A delivery of the store's that cannot be made."""
        self.batch.removals.append((record.sid, record.seq))
        if record.mid:
            self.batch.refs[record.mid] = self.batch.refs.get(record.mid, 0) - 1
        self.batch.size_bytes += OVERHEAD

    # Everything else

    def incoming(self, session: "Subscriber", pid: int, waits: bool) -> None:
        """A QoS 2 packet id of the client's: taken, or free again."""
        self.batch.incoming[(session.sid, pid)] = waits
        self._grow(0)

    def session(self, session: "Subscriber") -> None:
        """A session as it is now."""
        if session.sid == 0:
            self.last_sid += 1
            session.sid = self.last_sid
        record = session.record(self.clock_offset_s)
        self.batch.sessions[session.sid] = record
        self._grow(len(record.will))

    def open_channel(self, name: str) -> int:
        """The number under which the channel to a peer is kept."""
        self.last_sid += 1
        record = SessionRecord(self.last_sid, PEER + name)
        record.expiry_s = NEVER
        self.batch.sessions[record.sid] = record
        self._grow(len(name))
        return record.sid

    def peer_wants(self, sid: int, name: str, wanted: bool) -> None:
        """What a peer's lasting sessions have subscribed to."""
        record = SubscriptionRecord(sid, name) if wanted else None
        self.batch.subscriptions[(sid, name)] = record
        self._grow(len(name))

    def end_channel(self, sid: int) -> None:
        self.batch.ended.append(sid)
        self._grow(0)

    def ended(self, session: "Subscriber") -> None:
        """A session is over, with all it had."""
        self.batch.ended.append(session.sid)
        self._grow(0)
        session.sid = 0

    def subscribed(self, record: SubscriptionRecord) -> None:
        self.batch.subscriptions[(record.sid, record.name)] = record
        self._grow(len(record.name))

    def unsubscribed(self, session: "Subscriber", name: str) -> None:
        self.batch.subscriptions[(session.sid, name)] = None
        self._grow(0)

    def retain(self, message: Publish, kept: bool) -> None:
        """The retained message of a topic changed: to this one, or to none."""
        body = records.message(message, self.clock_offset_s) if kept else b""
        self.batch.retained[message.topic] = body
        self._grow(len(body))
        tracker = tracker_of(message)
        tracker.batch = self.batch.number
        tracker.unsettled += 1  # which nothing but the store settles

    def put_entry(self, message: Publish) -> None:
        """An entry of the registry changed, or was deleted."""
        body = records.message(message, self.clock_offset_s)
        self.batch.retained[message.topic] = body
        self._grow(len(body))

    def forget_retained(self, topic: str) -> None:
        self.batch.retained[topic] = b""
        self._grow(0)

    def note(self, name: str, text: str) -> None:
        """Something small to remember under a name; "" forgets it."""
        self.batch.notes[name] = text
        self._grow(len(text))

    def _grow(self, size: int) -> None:
        self.batch.size_bytes += OVERHEAD + size
        self.batch.urgent = True


def subscription_record(sid: int, name: str, subscription: "Subscription") -> SubscriptionRecord:
    record = SubscriptionRecord(sid, name)
    record.qos = subscription.qos
    record.no_local = subscription.no_local
    record.retain_as_published = subscription.retain_as_published
    if subscription.ids:
        record.identifier = read_varint(subscription.ids, 1, len(subscription.ids))[0]
    return record


def tracker_of(message: Publish) -> AckTracker:
    if message.tracker is None:
        message.tracker = AckTracker()
    return cast(AckTracker, message.tracker)
