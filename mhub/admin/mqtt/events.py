"""The text of server-sent events, and those that can be sent again.

An id is EPOCH-NUMBER.  Numbers count the messages of one ring; the epoch is that ring's own, made
anew whenever there is none for a stream: after a restart, on another node, after a long pause.  So
an id says exactly whether what came behind it is still known.

What is in a ring was written to the HTTP connection, which does not mean that its reader has seen
it.  The packet id of a message is with it until the broker has forgotten that one: a message that
the broker sends again, and that is in the ring, is no new one.
"""

import json
import secrets
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Final

from mhub.admin.mqtt.message import Message, to_view
from mhub.admin.mqtt.packets import Received

RING_EVENTS: Final = 1_000
RING_BYTES: Final = 256 * 1024
"""What one stream can send again."""

ALL_BYTES: Final = 32 * 1024 * 1024
"""What all streams of a node can; beyond, the one that was not used for the longest time cannot."""

RING_COST: Final = 1_000
"""What a ring takes without its events."""

KEEP_ALIVE: Final = b": keep-alive\n\n"


def event(name: str, data: Mapping[str, object]) -> bytes:
    return f"event: {name}\ndata: {_json(data)}\n\n".encode()


def message_event(event_id: str, message: Message, time_s: float) -> bytes:
    fields = {name: value for name, value in asdict(to_view(message)).items() if value is not None}
    fields["time"] = round(time_s, 3)
    return f"id: {event_id}\ndata: {_json(fields)}\n\n".encode()


def _json(fields: Mapping[str, object]) -> str:
    """One line, in ASCII: no character in it ends a line for any reader."""
    return json.dumps(fields, ensure_ascii=True, separators=(",", ":"))


@dataclass
class Entry:
    number: int
    data: bytes
    pid: int  # 0: the broker has forgotten it, or it never had one
    content: int  # a hash of the message: packet ids come again, after a while


class Ring:
    def __init__(self, user: str = "", rings: "Rings | None" = None) -> None:
        self.user = user
        self.rings = rings  # those that it counts for
        self.epoch = secrets.token_hex(4)
        self.size_bytes = 0
        self.last = 0  # the number of the last message
        self._entries: deque[Entry] = deque()

    def next_id(self) -> str:
        return f"{self.epoch}-{self.last + 1}"

    def add(self, data: bytes, received: Received) -> Entry:
        """The message with next_id()."""
        self.last += 1
        entry = Entry(self.last, data, received.pid, _content(received))
        before = self.size_bytes
        self._entries.append(entry)
        self.size_bytes += len(data)
        while self.size_bytes > RING_BYTES or len(self._entries) > RING_EVENTS:
            self.size_bytes -= len(self._entries.popleft().data)
        if self.rings is not None:
            self.rings.grow(self.size_bytes - before)
        return entry

    def behind(self, event_id: str) -> list[Entry] | None:
        """What came behind an id; None: that is not known any more."""
        epoch, _, number = event_id.partition("-")
        if epoch != self.epoch or not number.isdecimal() or len(number) > 18:
            return None
        seen = int(number)
        first = self._entries[0].number if self._entries else self.last + 1
        if seen > self.last or seen + 1 < first:
            return None
        return [entry for entry in self._entries if entry.number > seen]

    def find(self, received: Received) -> Entry | None:
        """The same message, if the broker sends it again."""
        pid = received.pid
        content = _content(received) if pid else 0
        for entry in self._entries:
            if pid and entry.pid == pid and entry.content == content:
                return entry
        return None

    def forget_pids(self) -> None:
        """The session is a new one: its packet ids have nothing to do with those of before."""
        for entry in self._entries:
            entry.pid = 0


def _content(received: Received) -> int:
    return hash((received.message.topic, received.message.payload))


class Rings:
    """Those of streams with a session that is kept, by client id, also while nobody reads."""

    def __init__(self, most_bytes: int = ALL_BYTES) -> None:
        self._most_bytes = most_bytes
        self._all: OrderedDict[str, Ring] = OrderedDict()
        self._size_bytes = 0

    def __len__(self) -> int:
        return len(self._all)

    def of(self, client_id: str, user: str) -> Ring:
        """The ring of a stream, which is the last one to go from now on."""
        ring = self._all.get(client_id)
        if ring is not None and ring.user != user:
            self._forget(client_id)
            ring = None
        if ring is None:
            ring = Ring(user, self)
            self._all[client_id] = ring
            self.grow(RING_COST)
        self._all.move_to_end(client_id)
        return ring

    def grow(self, size_bytes: int) -> None:
        """One of them has become larger, or smaller; the oldest go until all are in the bound."""
        self._size_bytes += size_bytes
        while self._size_bytes > self._most_bytes and len(self._all) > 1:
            self._forget(next(iter(self._all)))

    def _forget(self, client_id: str) -> None:
        ring = self._all.pop(client_id)
        ring.rings = None  # who reads may go on with it
        self._size_bytes -= ring.size_bytes + RING_COST
