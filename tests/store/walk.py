"""Histories at random, from a seed: what a hub could write, batch after batch."""

import random

from mhub.core.records import Batch, ChangeRecord, DeliveryRecord
from mhub.store.memory import MemoryStore
from tests.store.records import body, delivery, message, session, subscription


class Walk:
    """Batches at random, as a hub could write them on top of what the reference holds."""

    def __init__(self, chance: random.Random, reference: MemoryStore) -> None:
        self.random = chance
        self.reference = reference

    def step(self, now: float) -> Batch:
        made = Batch(1)
        kinds = (self._begin, self._deliver, self._deliver, self._change, self._remove)
        others = (self._subscribe, self._receive, self._retain, self._note, self._end)
        for kind in (*kinds, *others):
            if self.random.random() < 0.6:
                kind(made, now)
        return made

    def _sids(self, made: Batch) -> list[int]:
        return sorted({*self.reference.sessions, *made.sessions})

    def _begin(self, made: Batch, now: float) -> None:
        """A new session, or an earlier one otherwise."""
        sid = self.random.choice([*self._sids(made), self.reference.last_sid + 1])
        record = session(sid, self.random.choice((0, 60, 60, 0xFFFFFFFF)))
        record.ends_at = self.random.choice((0.0, 0.0, now + 10, now + 100))
        record.will = self.random.choice((b"", body("will")))
        made.sessions[sid] = record

    def _deliver(self, made: Batch, now: float) -> None:
        """Messages of a session's own, and one that several share; some are over already."""
        sids = self._sids(made)
        if not sids:
            return
        last = [self.reference.last_mid, *(each.mid for each in made.messages)]
        shared = message(max(last) + 1, 0, str(self.random.random()))
        made.messages.append(shared)
        for _ in range(self.random.randrange(12)):
            mid = self.random.choice((0, shared.mid, self._old_mid()))
            record = delivery(sid := self.random.choice(sids), self._next_seq(made, sid), mid)
            record.size_bytes = self.random.randrange(40)
            record.pid = self.random.choice((0, 0, 1, 1 + record.seq % 0xFFFF))
            record.dead = self.random.random() < 0.3
            made.deliveries.append(record)
            made.dead += record.dead
            if not record.dead and mid == shared.mid:
                shared.refs += 1
            elif not record.dead and mid:
                made.refs[mid] = made.refs.get(mid, 0) + 1

    def _old_mid(self) -> int:
        return self.random.choice([*self.reference.messages, 0])

    def _next_seq(self, made: Batch, sid: int) -> int:
        stored = [seq for holder, seq in self.reference.deliveries if holder == sid]
        last = max([*stored, *(each.seq for each in made.deliveries), 0])
        return last + self.random.choice((1, 1, 1, 1 << 32))

    def _some(self) -> list[DeliveryRecord]:
        every = list(self.reference.deliveries.values())
        return self.random.sample(every, min(len(every), self.random.randrange(9)))

    def _change(self, made: Batch, now: float) -> None:
        for each in self._some():
            pid = self.random.choice((0, 1, 1 + each.seq % 0xFFFF))
            made.changes.append(ChangeRecord(each.sid, each.seq, pid, self.random.random() < 0.5))

    def _remove(self, made: Batch, now: float) -> None:
        for each in self._some():
            made.removals.append((each.sid, each.seq))
            if each.mid:
                made.refs[each.mid] = made.refs.get(each.mid, 0) - 1

    def _subscribe(self, made: Batch, now: float) -> None:
        for sid in self._sids(made):
            name = self.random.choice(("a", "b/#", "$share/g/c"))
            record = subscription(sid, name, qos=self.random.randrange(3))
            made.subscriptions[sid, name] = self.random.choice((record, None))

    def _receive(self, made: Batch, now: float) -> None:
        for sid in self._sids(made):
            made.incoming[sid, self.random.randrange(1, 5)] = self.random.random() < 0.5

    def _retain(self, made: Batch, now: float) -> None:
        topic = self.random.choice("abcdefgh")
        expires_at = self.random.choice((0.0, now + 10, now + 100))
        made.retained[topic] = self.random.choice((b"", body("r", topic, expires_at)))

    def _note(self, made: Batch, now: float) -> None:
        for _ in range(self.random.randrange(4)):
            name = self.random.choice(("", "a", "a\0", "\0b", "\U0001f600"))
            made.notes[name] = self.random.choice(("", "\0", f"{name} {self.random.random()}"))

    def _end(self, made: Batch, now: float) -> None:
        for sid in self._sids(made):
            if self.random.random() < 0.1:
                made.ended.append(sid)
