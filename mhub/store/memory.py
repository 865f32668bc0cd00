"""The contract in plain dictionaries: what the other stores are measured by in tests.

What was committed stays across close() and open(), so one object also serves as the disk of a hub
that ends and starts again within one process.  The hub goes on changing its records, so whatever
is kept is a copy.  `failing` makes it refuse, as a full disk would.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from itertools import islice
from typing import Final, TypeVar

from mhub.core.records import (
    DELIVERY,
    MESSAGE,
    SESSION,
    SUBSCRIPTION,
    Batch,
    Contents,
    DeliveryRecord,
    MessageRecord,
    Row,
    SessionRecord,
    StoredSession,
    SubscriptionRecord,
    publish_of,
)
from mhub.store.contract import StoreError, expires_at_of, is_over

PAGE: Final = 500
"""Records in one batch of pages()."""

T = TypeVar("T")


class MemoryStore:
    name = "memory"

    def __init__(self) -> None:
        self.failing = ""  # why the next commits fail
        self.sessions: dict[int, SessionRecord] = {}
        self.subscriptions: dict[tuple[int, str], SubscriptionRecord] = {}
        self.messages: dict[int, MessageRecord] = {}
        self.deliveries: dict[tuple[int, int], DeliveryRecord] = {}
        self.incoming: set[tuple[int, int]] = set()
        self.retained: dict[str, bytes] = {}
        self.notes: dict[str, str] = {}
        self.last_sid = 0
        self.last_mid = 0

    async def open(self, now: float) -> Contents:
        for record in list(self.sessions.values()):
            if is_over(record, now):
                self._end(record.sid)
        for topic, body in list(self.retained.items()):
            if 0 < expires_at_of(body) <= now:
                del self.retained[topic]
        return self._contents()

    async def commit(self, batch: Batch) -> None:
        if self.failing:
            raise StoreError(f"{self.name}: {self.failing}")
        # Those that are not to be stored count too: no number is ever used again.
        self.last_mid = max(self.last_mid, *(each.mid for each in batch.messages), 0)
        self.last_sid = max(self.last_sid, *batch.sessions, *batch.ended, 0)
        for message in batch.messages:
            if message.refs:
                self.messages[message.mid] = MESSAGE.copy(message)
        for delivery in batch.deliveries:
            if not delivery.dead:
                self.deliveries[delivery.sid, delivery.seq] = DELIVERY.copy(delivery)
        for change in batch.changes:
            found = self.deliveries.get((change.sid, change.seq))
            if found is not None:
                found.pid = change.pid
                found.released = change.released
        for place in batch.removals:
            self.deliveries.pop(place, None)
        for mid, by in batch.refs.items():
            self._refer(mid, by)
        for packet, waits in batch.incoming.items():
            if waits:
                self.incoming.add(packet)
            else:
                self.incoming.discard(packet)
        for sid, session in batch.sessions.items():
            self.sessions[sid] = SESSION.copy(session)
        for key, subscription in batch.subscriptions.items():
            if subscription is None:
                self.subscriptions.pop(key, None)
            else:
                self.subscriptions[key] = SUBSCRIPTION.copy(subscription)
        for topic, body in batch.retained.items():
            if body:
                self.retained[topic] = body
            else:
                self.retained.pop(topic, None)
        for name, text in batch.notes.items():
            if text:
                self.notes[name] = text
            else:
                self.notes.pop(name, None)
        for sid in batch.ended:
            self._end(sid)

    async def load(self, sid: int, after: int, most: int, most_bytes: int) -> list[Row]:
        rows: list[Row] = []
        size_bytes = 0
        for record in self._queue(sid):
            if record.seq > after and not record.pid:
                if len(rows) == most or (rows and size_bytes >= most_bytes):
                    break
                rows.append(self._row(record))
                size_bytes += record.size_bytes
        return rows

    async def pages(self) -> AsyncIterator[Batch]:
        # The highest numbers ever used come first, by what is gone: ended before it begins.
        number = 1
        batch = Batch(number)
        batch.messages.append(MessageRecord(self.last_mid, b""))
        batch.ended.append(self.last_sid)
        yield batch
        for messages in _portions(self.messages.values()):
            batch = Batch(number := number + 1)
            batch.messages = [MESSAGE.copy(each) for each in messages]
            yield batch
        for deliveries in _portions(self.deliveries.values()):
            batch = Batch(number := number + 1)
            batch.deliveries = [DELIVERY.copy(each) for each in deliveries]
            yield batch
        for packets in _portions(self.incoming):
            batch = Batch(number := number + 1)
            batch.incoming = dict.fromkeys(packets, True)
            yield batch
        for sessions in _portions(self.sessions.values()):
            batch = Batch(number := number + 1)
            batch.sessions = {each.sid: SESSION.copy(each) for each in sessions}
            yield batch
        for subscriptions in _portions(self.subscriptions.items()):
            batch = Batch(number := number + 1)
            batch.subscriptions = {key: SUBSCRIPTION.copy(each) for key, each in subscriptions}
            yield batch
        for retained in _portions(self.retained.items()):
            batch = Batch(number := number + 1)
            batch.retained = dict(retained)
            yield batch
        for notes in _portions(self.notes.items()):
            batch = Batch(number := number + 1)
            batch.notes = dict(notes)
            yield batch

    async def snapshot(self) -> AsyncGenerator[Batch, None]:
        for batch in [batch async for batch in self.pages()]:
            yield batch

    async def check(self) -> list[str]:
        wrong = []
        counted = dict.fromkeys(self.messages, 0)
        for (sid, seq), delivery in self.deliveries.items():
            if sid not in self.sessions:
                wrong.append(f"delivery {sid}/{seq}: there is no such session")
            if delivery.mid in counted:
                counted[delivery.mid] += 1
            elif delivery.mid:
                wrong.append(f"delivery {sid}/{seq}: there is no message {delivery.mid}")
            else:
                wrong += _wrong_body(f"delivery {sid}/{seq}", delivery.body)
        for mid, message in self.messages.items():
            if message.refs != counted[mid]:
                wrong.append(f"message {mid}: refs {message.refs}, but {counted[mid]} deliveries")
            wrong += _wrong_body(f"message {mid}", message.body)
        for sid, name in self.subscriptions:
            if sid not in self.sessions:
                wrong.append(f"subscription {sid}/{name}: there is no such session")
        for sid, pid in self.incoming:
            if sid not in self.sessions:
                wrong.append(f"incoming {sid}/{pid}: there is no such session")
        for topic, body in self.retained.items():
            wrong += _wrong_body(f"retained {topic}", body)
        return wrong

    async def close(self) -> None:
        pass

    def _contents(self) -> Contents:
        contents = Contents()
        contents.last_sid = self.last_sid
        contents.last_mid = self.last_mid
        contents.retained = list(self.retained.values())
        contents.notes = dict(self.notes)
        for sid, record in self.sessions.items():
            stored = StoredSession(SESSION.copy(record))
            stored.subscriptions = [
                SUBSCRIPTION.copy(each) for each in self.subscriptions.values() if each.sid == sid
            ]
            stored.incoming = [pid for holder, pid in self.incoming if holder == sid]
            for delivery in self._queue(sid):
                stored.last_seq = delivery.seq
                if delivery.pid:
                    stored.inflight.append(self._row(delivery))
                else:
                    stored.queued += 1
                    stored.queued_bytes += delivery.size_bytes
            contents.sessions.append(stored)
        return contents

    def _queue(self, sid: int) -> list[DeliveryRecord]:
        """A session's deliveries in their order."""
        found = [each for each in self.deliveries.values() if each.sid == sid]
        found.sort(key=_seq)
        return found

    def _row(self, record: DeliveryRecord) -> Row:
        body = record.body
        if record.mid:
            message = self.messages.get(record.mid)
            body = message.body if message is not None else b""
        return Row(DELIVERY.copy(record), body)

    def _refer(self, mid: int, by: int) -> None:
        message = self.messages.get(mid)
        if message is not None:
            message.refs += by
            if message.refs <= 0:
                del self.messages[mid]

    def _end(self, sid: int) -> None:
        self.sessions.pop(sid, None)
        for delivery in self._queue(sid):
            del self.deliveries[sid, delivery.seq]
            self._refer(delivery.mid, -1)
        self.incoming = {packet for packet in self.incoming if packet[0] != sid}
        for key in [key for key in self.subscriptions if key[0] == sid]:
            del self.subscriptions[key]


def _seq(record: DeliveryRecord) -> int:
    return record.seq


def _portions(records: Iterable[T]) -> Iterable[list[T]]:
    rest = iter(list(records))
    while portion := list(islice(rest, PAGE)):
        yield portion


def _wrong_body(where: str, body: bytes) -> list[str]:
    try:
        publish_of(body, 0.0)
    except ValueError as error:
        return [f"{where}: {error}"]
    return []
