"""What happened lately, in memory: events, and what was denied, for a page that has just opened.

A sink of the hub's events.  Two rings of MOST events each, so that a storm of connections does not
push out what somebody should look at: what clients do all day, and the rest.  All events have
sequence numbers, from 1 at the start of the process, by which whoever has seen some continues.

Denials are kept once more, by who, what, where and which rule: MOST_DENIALS of them, those that
happened last.  Of a burst only the first denial has its topic; those that follow are added to it.

Names and topics are cut at LONGEST characters: all of it takes 1.5 MB when it is full, and 8 MB if
every name is that long, and written with characters of four bytes (measured).
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from heapq import merge
from typing import Final

from mhub.core import events
from mhub.core.events import Event
from mhub.operations.contract import BadArgument
from mhub.wire.packets import VERSION_NAMES

MOST: Final = 1000
MOST_DENIALS: Final = 500
LONGEST: Final = 255

ROUTINE: Final = frozenset(
    {
        events.CONNECTED,
        events.REFUSED,
        events.REJECTED,
        events.STRANGER,
        events.DISCONNECTED,
        events.TAKEN_OVER,
        events.SESSION_EXPIRED,
    }
)
"""What clients do all day."""


@dataclass(frozen=True)
class EventEntry:
    """Fields that do not apply are empty."""

    seq: int
    time: float
    kind: str
    client_id: str
    user: str  # proved
    claimed_user: str
    address: str
    listener: str
    version: str  # of MQTT
    reason: int  # an MQTT reason code
    text: str
    cause: str
    by: str  # who ended a connection, or administers the broker
    topic: str
    rule: str
    node: str
    count: int
    is_first: bool  # False: more of a burst that was told of before
    duration_s: float
    why: str  # what an administrator gave as the reason
    outcome: str  # of what an administrator wanted: "done", "refused" or "failed"


@dataclass(frozen=True)
class EventPage:
    events: tuple[EventEntry, ...]  # oldest first
    next: int  # give it as `after` to continue
    lost: int  # events behind `after` that are not kept any more, wanted or not


@dataclass(frozen=True)
class Denial:
    client_id: str
    user: str
    action: str  # "publish", "subscribe", "receive", "will", "connect"
    topic: str
    rule: str
    count: int  # with those of the same burst, which may have had other topics
    first_at: float
    last_at: float
    address: str
    listener: str


@dataclass(frozen=True)
class DenialList:
    denials: tuple[Denial, ...]  # the last one first


@dataclass(frozen=True)
class EventFilter:
    """Which events; all of what is given has to fit."""

    kinds: tuple[str, ...] = ()
    client_id: str = ""  # a pattern with * and ?
    user: str = ""  # proved or claimed
    address: str = ""  # what it begins with
    listener: str = ""
    node: str = ""

    def check(self) -> None:
        for kind in self.kinds:
            if kind not in events.KINDS:
                raise BadArgument(
                    f"unknown kind {kind[:40]!r}; expected some of {', '.join(events.KINDS)}"
                )

    def fits(self, entry: EventEntry) -> bool:
        return (
            (not self.kinds or entry.kind in self.kinds)
            and (not self.client_id or fnmatchcase(entry.client_id, self.client_id))
            and (not self.user or self.user in (entry.user, entry.claimed_user))
            and (not self.address or entry.address.startswith(self.address))
            and (not self.listener or entry.listener == self.listener)
            and (not self.node or entry.node == self.node)
        )


class Activity:
    def __init__(self, unix_time: Callable[[], float]) -> None:
        self._time = unix_time
        self.seq = 0  # of the last event
        self._routine: deque[EventEntry] = deque(maxlen=MOST)
        self._notable: deque[EventEntry] = deque(maxlen=MOST)
        self._denials: OrderedDict[tuple[str, ...], Denial] = OrderedDict()
        self._topics: dict[tuple[str, ...], str] = {}  # of the last denial of who and what

    def emit(self, event: Event) -> None:
        """The hub has an event."""
        self.seq += 1
        entry = _entry(event, self.seq, round(self._time(), 3))
        (self._routine if event.kind in ROUTINE else self._notable).append(entry)
        if event.kind == events.DENIED:
            self._denied(entry)

    def page(self, after: int, wanted: EventFilter, limit: int) -> EventPage:
        """The first ones behind `after`; without it, the last ones there are."""
        wanted.check()
        after = 0 if after > self.seq else after  # it is of a process before this one
        found = [entry for entry in self._all() if entry.seq > after and wanted.fits(entry)]
        found = found[:limit] if after else found[-limit:]
        is_last = not after or len(found) < limit
        return EventPage(
            tuple(found),
            self.seq if is_last else found[-1].seq,
            self._lost(after) if after else 0,
        )

    def denials(self, limit: int) -> DenialList:
        return DenialList(tuple(reversed(self._denials.values()))[:limit])

    def _all(self) -> Iterator[EventEntry]:
        return merge(self._routine, self._notable, key=lambda entry: entry.seq)

    def _lost(self, after: int) -> int:
        kept = sum(
            1 for ring in (self._routine, self._notable) for entry in ring if entry.seq > after
        )
        return self.seq - after - kept

    def _denied(self, entry: EventEntry) -> None:
        who = (entry.client_id, entry.user, entry.cause)
        topic = entry.topic if entry.is_first else self._topics.get(who, "")
        key = (*who, topic, entry.rule)
        before = self._denials.pop(key, None)
        self._denials[key] = Denial(
            client_id=entry.client_id,
            user=entry.user,
            action=entry.cause,
            topic=topic,
            rule=entry.rule,
            count=entry.count + (before.count if before is not None else 0),
            first_at=before.first_at if before is not None else entry.time,
            last_at=entry.time,
            address=entry.address,
            listener=entry.listener,
        )
        self._topics[who] = topic
        if len(self._denials) > MOST_DENIALS:
            oldest, _ = self._denials.popitem(last=False)
            if self._topics.get(oldest[:3]) == oldest[3]:
                del self._topics[oldest[:3]]


def _entry(event: Event, seq: int, time: float) -> EventEntry:
    principal = event.principal
    return EventEntry(
        seq,
        time,
        event.kind,
        _cut(principal.client_id),
        _cut(principal.user),
        _cut(principal.claimed_user),
        principal.address,
        principal.listener,
        VERSION_NAMES.get(event.version, ""),
        event.reason,
        _cut(event.text),
        event.cause,
        _cut(event.by),
        _cut(event.topic),
        _cut(event.rule),
        event.node,
        event.count,
        event.is_first,
        round(event.duration_s, 3),
        _cut(event.why),
        event.outcome,
    )


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[:LONGEST] + "…"
