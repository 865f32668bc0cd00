"""What is wrong with the contents of a Redis server, as lines for people."""

from mhub.core.records import DeliveryRecord, StoredSession, publish_of
from mhub.store.redis_reader import RedisReader


async def check_contents(reader: RedisReader) -> list[str]:
    """Nothing is changed.  The messages that wait for one session alone are not looked at."""
    check = _Check(await reader.refs())
    _, _, known = await reader.numbers()
    async for sid, stored in reader.sessions(known):
        if stored is None:
            check.wrong.append(f"session {sid}: its record is gone")
            continue
        waiting_bytes = 0
        async for record in reader.deliveries(sid):
            waiting_bytes += record.size_bytes
            check.delivery(record)
        check.session(stored, waiting_bytes)
    async for messages in reader.hash(b"m"):
        for name, body in messages.items():
            check.message(int(name), body)
    async for retained in reader.hash(b"retained"):
        for topic, body in retained.items():
            check.body(f"retained {topic.decode('utf-8', 'replace')}", body)
    async for notes in reader.hash(b"notes"):
        for name, text in notes.items():
            if not text:
                check.wrong.append(f"note {name.decode('utf-8', 'replace')}: it has no text")
    for letter, sid in sorted(await reader.holders()):
        if sid not in known:
            check.wrong.append(f"key {letter.decode()}:{sid}: there is no such session")
    return check.wrong


class _Check:
    def __init__(self, refs: dict[int, int]) -> None:
        self.wrong: list[str] = []
        self._refs = refs
        self._counted = dict.fromkeys(refs, 0)

    def delivery(self, record: DeliveryRecord) -> None:
        if record.mid in self._counted:
            self._counted[record.mid] += 1
        elif record.mid:
            self.wrong.append(
                f"delivery {record.sid}/{record.seq}: there is no message {record.mid}"
            )

    def session(self, stored: StoredSession, waiting_bytes: int) -> None:
        sid = stored.record.sid
        for row in stored.inflight:
            self.delivery(row.record)
            if not row.record.mid:
                self.body(f"delivery {sid}/{row.record.seq}", row.body)
        if waiting_bytes != stored.queued_bytes:
            noted = stored.queued_bytes
            self.wrong.append(f"session {sid}: queued_bytes {noted}, but {waiting_bytes} wait")

    def message(self, mid: int, body: bytes) -> None:
        self.body(f"message {mid}", body)
        refs = self._refs.get(mid)
        if refs is None:
            self.wrong.append(f"message {mid}: it has no refs")
        elif refs != self._counted[mid]:
            counted = self._counted[mid]
            self.wrong.append(f"message {mid}: refs {refs}, but {counted} deliveries")

    def body(self, where: str, body: bytes) -> None:
        try:
            publish_of(body, 0.0)
        except ValueError as error:
            self.wrong.append(f"{where}: {error}")
