"""The registry: users, roles, rules, bans and what else the nodes of a cluster have to agree on.

A replicated table of key -> value (JSON text), of which `mhub.access` knows the meaning.

    get() items()     what is there
    change()          several keys at once: all of them or none
    watchers          who is told which keys are not what they were, whoever changed them
    revision          a text that is equal where tables are

An entry is kept like a retained message, under a topic that no client can have: in the same place
of every store, by the same journal.  A change set crosses a link as one message of a channel, so it
is applied as a whole, and the change is safe when the store and all linked nodes have it.  What a
node missed it takes when it is linked again (`mhub.cluster.rounds`).

No client reads or writes any of this: topics with U+0000 are refused where packets are read, and
nothing in here is in the tree of retained messages, in a route or under $SYS.

Newest wins.  A deleted entry leaves a tombstone, which lasts until `mhub.core.floors` says that
every known node has it; there is why an entry that it refuses was deleted.  In a hub that never was
in a cluster it lasts for a day: a command may have changed the store of a node that did not run,
and had just joined.

A watcher is called before change() returns and before a change of another node is confirmed: what
was acknowledged is in force here.
"""

import json
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from typing import Any, Final
from zlib import crc32

from mhub.core.fields import CLOCK
from mhub.core.floors import Floors
from mhub.core.hlc import LOW_BITS, Clock
from mhub.core.journal import AckTracker, Journal
from mhub.core.replicated import MASK, ODD, ReplicatedMap
from mhub.wire.primitives import malformed
from mhub.wire.publish import Publish, topic_field

PREFIX: Final = "\0registry/"
"""An entry is kept like a retained message, under a topic that no client can have."""

TOPIC: Final = b"\0registry"
"""The topic of a change set in a channel between nodes."""

NOTE: Final = "registry"
"""The note with what `Floors` has to remember."""

MAX_KEY_BYTES: Final = 60_000
"""What a topic has room for, about."""


class StaleVersion(Exception):
    """An entry is not the one that a change expects."""

    def __init__(self, key: str, hlc: int) -> None:
        super().__init__(f"{key}: it was changed meanwhile")
        self.key = key
        self.hlc = hlc  # the version that it has; 0: there is none


class Entry:
    def __init__(self, key: str, value: str, hlc: int) -> None:
        self.key = key
        self.value = value  # JSON
        self.hlc = hlc  # its version: when it was changed last, on the cluster's clock


class Change:
    """A change set, which has taken effect here; is it safe?"""

    def __init__(self, registry: "Registry", tracker: AckTracker, revision: str) -> None:
        self.revision = revision
        self.tracker = tracker
        self.on_safe: Callable[[], None] | None = None  # called once, unless it is safe already
        self._registry = registry

    def is_safe(self) -> bool:
        """Whether the store has it, and all linked nodes have."""
        return self.tracker.free(self._registry.durable)


def _alone(message: Publish) -> None:
    """There is nobody to forward a change to."""


def _unheard(what: str, error: Exception) -> None:
    raise error


class Registry(ReplicatedMap):
    def __init__(self) -> None:
        super().__init__()
        self.entries: dict[str, Publish] = {}  # by topic
        self.floors = Floors()
        self.watchers: list[Callable[[list[str]], None]] = []
        self.clock = Clock("", 0.0)  # until there is a cluster
        self.journal: Journal | None = None
        self.durable = 0  # the last batch that is safe
        self.tombstone_s = 86_400.0  # the least that a tombstone lasts
        self.refused = 0  # entries of other nodes that were deleted here
        self.collected = 0  # tombstones
        self.forward: Callable[[Publish], None] = _alone  # to all linked nodes
        self.lineage_begun: Callable[[], None] | None = None  # there was none before
        self.token: Callable[[], str] | None = None  # makes a lineage
        self.crashed: Callable[[str, Exception], None] = _unheard
        self._top = 0  # the highest version that ever was
        self._sum = 0  # over all entries
        self._keys: list[str] = []  # sorted
        self.waiting: list[Change] = []  # those that are not safe, as far as is known

    # Reading

    def __len__(self) -> int:
        return len(self.entries)

    def get(self, key: str) -> Entry | None:
        found = self.entries.get(PREFIX + key)
        return _entry_of(key, found) if found is not None else None

    def items(self, prefix: str) -> list[Entry]:
        """All whose keys begin so, sorted by key."""
        keys = self._keys
        found = []
        for index in range(bisect_left(keys, prefix), len(keys)):
            key = keys[index]
            if not key.startswith(prefix):
                break
            found.append(_entry_of(key, self.entries[PREFIX + key]))
        return found

    def keys(self, prefix: str, after: str = "", most: int = 0) -> list[str]:
        """Those that begin so, sorted, behind `after`: without looking at the entries.

        `most` of them; 0: all.
        """
        keys = self._keys
        index = bisect_right(keys, after) if after > prefix else bisect_left(keys, prefix)
        found: list[str] = []
        while index < len(keys) and keys[index].startswith(prefix):
            found.append(keys[index])
            index += 1
            if most and len(found) == most:
                break
        return found

    def count(self, prefix: str, after: str = "") -> int:
        """How many keys() finds."""
        keys = self._keys
        start = bisect_right(keys, after) if after > prefix else bisect_left(keys, prefix)
        return max(0, bisect_left(keys, prefix + "\U0010ffff") - start)

    @property
    def revision(self) -> str:
        """When the last change was, and a check sum: equal where tables are, ordered by time."""
        fold = self._sum ^ self._sum >> 16 ^ self._sum >> 32 ^ self._sum >> 48
        return f"{self._top:016x}-{fold & 0xFFFF:04x}"

    @property
    def top(self) -> int:
        return self._top

    # Changing

    def change(
        self, values: dict[str, str | None], now: float, expected: dict[str, int] | None = None
    ) -> Change:
        """Set some entries and delete others (None); all of it or nothing.

        `expected`: versions that entries must have, 0: there must be none; else StaleVersion.
        ValueError for a key or value that cannot be kept.  The caller ends the turn: Hub.flush().
        """
        for key, hlc in (expected or {}).items():
            found = self.entries.get(PREFIX + key)
            version = found.hlc if found is not None else 0
            if version != hlc:
                raise StaleVersion(key, version)
        changes: list[tuple[str, str]] = []
        for key, value in values.items():
            _check(key, value)
            if value is not None:
                if not value:
                    raise ValueError(f"{key}: an empty value; None deletes an entry")
                changes.append((key, value))
            elif PREFIX + key in self.entries:
                changes.append((key, ""))
        if not changes:
            # As safe as what made it so.
            last = self.waiting[-1].tracker if self.waiting else AckTracker()
            return Change(self, last, self.revision)
        if not self.entries and not self.tombstones:
            self._ensure_lineage()  # else those who made it first will tell
        hlc = self.clock.timestamp(now)
        for key, value in changes:
            self._put(entry_message(key, value, hlc))
        message = self._change_set(changes, hlc)
        tracker = AckTracker()
        message.tracker = tracker
        if self.journal is not None:
            tracker.batch = self.journal.batch.number
            tracker.unsettled = 1  # which nothing but the store settles
        self.forward(message)
        change = Change(self, tracker, self.revision)
        if not change.is_safe():
            self.waiting.append(change)
        self._tell([key for key, _ in changes])
        return change

    def ensure_lineage_of_contents(self) -> None:
        """A table from before there was a cluster has none, and nobody may be there to tell it."""
        if self.entries:
            self._ensure_lineage()

    def _ensure_lineage(self) -> None:
        """In a cluster, a table has one from its first change on."""
        if not self.floors.lineage and self.digests is not None and self.token is not None:
            self.floors.begin(self.token())
            self.note()
            if self.lineage_begun is not None:
                self.lineage_begun()

    def _change_set(self, changes: list[tuple[str, str]], hlc: int) -> Publish:
        body = {"set": [[key, hlc, each] for key, each in changes]}
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
        message = Publish(TOPIC, text.encode("utf-8"), 1, True)
        message.topic = TOPIC.decode()
        message.topic_field = topic_field(TOPIC)
        message.hlc = hlc
        return message

    def _put(self, message: Publish) -> None:
        """An entry or a tombstone, in the place of what is known of its key."""
        topic = message.topic
        old = self.entries.pop(topic, None)
        key = topic[len(PREFIX) :]
        if old is not None:
            self._count(old)
            self._sum ^= self.digest_of(old)
        self._drop_tombstone(topic)
        self._top = max(self._top, message.hlc)
        journal = self.journal
        if message.payload:
            self.entries[topic] = message
            self._sum ^= self.digest_of(message)
            if old is None:
                insort(self._keys, key)
        else:
            if old is not None:
                del self._keys[bisect_left(self._keys, key)]
            self.tombstones[topic] = message
        self._count(message)
        if journal is not None:
            journal.put_entry(message)

    def _tell(self, keys: list[str]) -> None:
        if not keys:
            return
        for watcher in list(self.watchers):
            try:
                watcher(keys)
            except Exception as error:
                self.crashed("who watches the registry", error)

    def release(self) -> None:
        """The end of a turn: tell those who wait for what is safe by now."""
        waiting = self.waiting
        self.waiting = [change for change in waiting if not change.is_safe()]
        for change in waiting:
            if change.is_safe() and change.on_safe is not None:
                told, change.on_safe = change.on_safe, None
                try:
                    told()
                except Exception as error:
                    self.crashed("who waits for the registry", error)

    # Other nodes

    def take_change(self, payload: bytes) -> None:
        """A change set of another node, from its channel; ProtocolFault if it is none."""
        try:
            body = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise malformed(f"a change of the registry that is not JSON: {error}") from error
        if not isinstance(body, dict):
            raise malformed("a change of the registry that is no object")
        entries = read_entries(body.get("set"))
        self.take(entries)

    def take(self, entries: list[tuple[str, int, str]]) -> list[tuple[str, int]]:
        """What another node has; keys and versions of those that were deleted here."""
        refused: list[tuple[str, int]] = []
        changed: list[str] = []
        for key, hlc, value in entries:
            self.clock.saw(hlc)
            message = entry_message(key, value, hlc)
            topic = message.topic
            is_here = topic in self.entries
            if not is_here and hlc <= self.floors.floor and topic not in self.tombstones:
                if value:
                    self.refused += 1
                    refused.append((key, hlc))
            elif self.newer(message):
                self._put(message)
                if is_here or value:
                    changed.append(key)
        self._tell(changed)
        return refused

    def drop(self, refused: list[tuple[str, int]]) -> None:
        """Another node says that entries were deleted, which were here meanwhile."""
        # A tombstone that is newer than the entry and older than any change of it.
        self.take([(key, hlc + 1, "") for key, hlc in refused if self._has(key, hlc)])

    def _has(self, key: str, hlc: int) -> bool:
        found = self.entries.get(PREFIX + key)
        return found is not None and found.hlc <= hlc

    def reached(self, top: int) -> None:
        """All of another node's table is here, whose highest version was this."""
        if top > self._top:
            self._top = top
            self.clock.saw(top)
            self.note()

    def collect(self, now: float) -> None:
        """Forget deletions that every known node has, and that are old enough."""
        if not self.tombstones:
            return
        limit = self._old(now)
        if self.digests is not None or self.floors.lineage:
            limit = min(limit, self.floors.floor)
        over = [topic for topic, each in self.tombstones.items() if each.hlc <= limit]
        for topic in over:
            self._drop_tombstone(topic)
            if self.journal is not None:
                self.journal.forget_retained(topic)
        if over:
            self.collected += len(over)
            self.note()  # the floor, for which they could go, goes to the store with that

    def has_old_tombstones(self, now: float) -> bool:
        """Whether there is something to collect, once every node has it."""
        oldest = min([each.hlc for each in self.tombstones.values()], default=0)
        return 0 < oldest <= self._old(now)

    def _old(self, now: float) -> int:
        """Tombstones up to this version are old enough."""
        return self.clock.at(now) - (int(self.tombstone_s * 1000.0) << LOW_BITS)

    def note(self) -> None:
        """What has to be known after a restart, besides the entries."""
        if self.journal is not None:
            self.journal.note(NOTE, self.floors.to_text(self._top))

    # ReplicatedMap

    def value_of(self, topic: str) -> Publish | None:
        return self.entries.get(topic)

    def values(self) -> list[Publish]:
        return list(self.entries.values())

    def digest_of(self, message: Publish) -> int:
        """With its value: of two nodes that change a key at the same time, both shall notice."""
        seed = crc32(message.topic_data)
        return (message.hlc * ODD + seed + (crc32(message.payload, seed) << 20)) & MASK

    # The start

    def join(
        self, clock: Clock, forward: Callable[[Publish], None], token: Callable[[], str]
    ) -> None:
        """From now on there is a cluster."""
        self.token = token
        clock.saw(self.clock.last)
        self.clock = clock
        self.forward = forward
        self.count_for_peers()

    def keep_in(self, journal: Journal, has_clock: bool) -> None:
        """From now on there is a store; without a cluster, it also says what time it is."""
        self.journal = journal
        if not has_clock:
            self.clock.offset_s = journal.clock_offset_s

    def recall_note(self, text: str) -> None:
        """What note() has left in the store; ValueError if it cannot be read."""
        self._top = max(self._top, self.floors.recall(text))

    def recall(self, message: Publish) -> None:
        """An entry or a tombstone of the store's."""
        journal, self.journal = self.journal, None
        self._put(message)
        self.journal = journal

    def restored(self) -> None:
        """All that the store had is here."""
        floors = self.floors
        given = [node.given for node in floors.nodes.values()]
        self.clock.saw(max([self._top, floors.floor, *given]))
        self._tell(list(self._keys))


def entry_message(key: str, value: str, hlc: int) -> Publish:
    """An entry as the store has it; "": a tombstone."""
    topic = PREFIX + key
    topic_data = topic.encode("utf-8")
    message = Publish(topic_data, value.encode("utf-8"), 0, True)
    message.topic = topic
    message.topic_field = topic_field(topic_data)
    message.hlc = hlc
    return message


def entry_of(message: Publish) -> tuple[str, int, str]:
    """Key, version and value, as they cross a link."""
    return message.topic[len(PREFIX) :], message.hlc, message.payload.decode("utf-8")


def read_entries(found: Any) -> list[tuple[str, int, str]]:
    """What entry_of() made, as a peer has sent it; ProtocolFault if it is not that."""
    if type(found) is not list:
        raise malformed("entries of the registry that are no list")
    entries: list[tuple[str, int, str]] = []
    for each in found:
        if type(each) is not list or len(each) != 3:
            raise malformed("an entry of the registry that is none")
        key, hlc, value = each
        if type(hlc) is not int or not 0 < hlc < CLOCK.high:
            raise malformed("an entry of the registry with an invalid version")
        try:
            if type(key) is not str or type(value) is not str:
                raise ValueError("it is no text")
            _check(key, value)
        except ValueError as error:
            raise malformed(f"an entry of the registry with {error}") from None
        entries.append((key, hlc, value))
    return entries


def _entry_of(key: str, message: Publish) -> Entry:
    return Entry(key, message.payload.decode("utf-8"), message.hlc)


def _check(key: str, value: str | None) -> None:
    if not key or "\0" in key or len(key.encode("utf-8")) > MAX_KEY_BYTES:
        raise ValueError("a key that is empty, too long, or has U+0000")
    if value is not None:
        value.encode("utf-8")  # UnicodeEncodeError is a ValueError
