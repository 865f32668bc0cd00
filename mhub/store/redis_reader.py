"""What there is in a Redis server, in portions: nothing that may be large comes as a whole."""

from collections.abc import AsyncIterator
from typing import Final

from mhub.core.records import DeliveryRecord, Row, StoredSession
from mhub.store import redis_lua as lua
from mhub.store.redis_link import RedisLink
from mhub.store.redis_records import Answer, sids

PAGE: Final = 500
PAGE_BYTES: Final = 1 << 20
AT_ONCE: Final = 20
"""So many deliveries in flight come with their session, more in portions of their own."""

NO_BOUND: Final = 1 << 52  # a number that Lua has


class RedisReader:
    def __init__(self, link: RedisLink) -> None:
        self._link = link

    async def numbers(self) -> tuple[int, int, list[int]]:
        """The highest sid and mid ever used, and all sids that there are."""
        answer = Answer(await self._link.run(lua.LIST))
        last_sid, last_mid = answer.large(), answer.large()
        known = []
        while answer.more():
            known.append(answer.large())
        return last_sid, last_mid, sorted(known)

    async def sessions(self, known: list[int]) -> AsyncIterator[tuple[int, StoredSession | None]]:
        """Sessions, or None for one whose record is gone."""
        at = 0
        while at < len(known):
            portion = sids(known[at : at + PAGE])
            bounds = (b"%d" % PAGE_BYTES, b"%d" % AT_ONCE)
            answer = Answer(await self._link.run(lua.READ, portion, *bounds))
            while answer.more():
                sid, stored, more = answer.session()
                if stored is not None and more:
                    stored.inflight = [row async for rows in self._flight(sid) for row in rows]
                    for row in stored.inflight[-1:]:
                        stored.last_seq = max(stored.last_seq, row.record.seq)
                yield sid, stored
                at += 1

    async def _flight(self, sid: int) -> AsyncIterator[list[Row]]:
        """What is in flight to a session, in order."""
        number = b"%d" % sid
        answer = Answer(await self._link.run(lua.FLYING, number))
        seqs = []
        while answer.more():
            seqs.append(answer.large())
        seqs.sort()
        at = 0
        while at < len(seqs):
            portion = sids(seqs[at : at + PAGE])
            answer = Answer(await self._link.run(lua.FLIGHT, number, portion, b"%d" % PAGE_BYTES))
            at += answer.number()
            rows = []
            while answer.more():
                rows.append(answer.row(sid))
            yield rows

    async def queue(
        self, sid: int, after: int, most: int, most_bytes: int, bodies: bool = True
    ) -> list[Row]:
        numbers = (sid, after, most, min(most_bytes, NO_BOUND), bodies)
        answer = Answer(await self._link.run(lua.QUEUE, *(b"%d" % each for each in numbers)))
        rows = []
        while answer.more():
            rows.append(answer.row(sid))
        return rows

    async def deliveries(self, sid: int) -> AsyncIterator[DeliveryRecord]:
        """All that waits for a session, without the messages."""
        after = 0
        while rows := await self.queue(sid, after, 10 * PAGE, NO_BOUND, bodies=False):
            for row in rows:
                yield row.record
            after = rows[-1].record.seq

    async def hash(self, name: bytes, values: bool = True) -> AsyncIterator[dict[bytes, bytes]]:
        """A hash in portions; HSCAN may bring a field twice, this does not."""
        seen: set[bytes] = set()
        cursor = b"0"
        while True:
            answer = Answer(await self._link.run(lua.SCAN, name, cursor, b"200", b"%d" % values))
            cursor = answer.text()
            portion = {}
            while answer.more():
                field = answer.text()
                value = answer.text()
                if field not in seen:
                    seen.add(field)
                    portion[field] = value
            if portion:
                yield portion
            if cursor == b"0":
                return

    async def fields(self, name: bytes, fields: list[bytes]) -> dict[bytes, bytes]:
        """Those fields of a hash that there are."""
        answer = Answer(await self._link.run(lua.FIELDS, name, *fields))
        found = {}
        while answer.more():
            field = answer.text()
            found[field] = answer.text()
        return found

    async def notes(self) -> dict[str, str]:
        notes = {}
        async for portion in self.hash(b"notes"):
            notes.update({name.decode(): text.decode() for name, text in portion.items()})
        return notes

    async def refs(self) -> dict[int, int]:
        refs = {}
        async for portion in self.hash(b"r"):
            refs.update({int(mid): int(count) for mid, count in portion.items()})
        return refs

    async def holders(self) -> set[tuple[bytes, int]]:
        """The keys that belong to sessions: the letter, and the sid."""
        prefix = self._link.prefix
        pattern = b"".join(b"\\%c" % each if each in b"*?[]\\" else b"%c" % each for each in prefix)
        found = set()
        cursor = b"0"
        while True:
            answer = Answer(await self._link.run(lua.KEYS, pattern + b"[sqbip]:*", cursor))
            cursor = answer.text()
            while answer.more():
                letter, _, sid = answer.text()[len(prefix) :].partition(b":")
                if sid.isdigit():
                    found.add((letter, int(sid)))
            if cursor == b"0":
                return found
