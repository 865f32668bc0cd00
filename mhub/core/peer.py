"""Another node, as the hub sees it: what it wants, and the line of messages to it and from it.

    put() -> waiting -> out -> a frame on the link -> unacked -> confirmed(): gone

QoS 1 and 2 messages have numbers in this line, one after the other for as long as the line lives
(`life`), so the other side can tell what it has had, also after a link that broke or a restart of
either side.  While the link is up a message is in memory only, and its publisher waits until the
peer has it.  While it is down, or nothing is heard from it, messages are journaled like those for a
client that is away, and the publisher waits for the store.  What is QoS 2 from a session that would
survive a crash is journaled in any case, together with the packet id that keeps it from being taken
twice; and so is what a member of a shared subscription leaves behind, as its publisher does not
wait any more.

QoS 0 has no number and is sent while there is room, and not at all while the link is down.

Two kinds of records are for session migration (`mhub.cluster.migration`): control records, which
count by their position among the messages, and direct ones, messages for a single session.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.core.delivery import Delivery
from mhub.core.journal import AckTracker, tracker_of
from mhub.core.ports import PeerOutlet
from mhub.wire.decode import frame
from mhub.wire.packets import V5, V311
from mhub.wire.primitives import BYTES, malformed, read_u16, read_u64, u16, u64
from mhub.wire.publish import Publish, decode, encode_v3, encode_v5, with_expiry

if TYPE_CHECKING:
    from mhub.core.connection import Connection
    from mhub.core.hub import Hub

PUBLISHES: Final = 1
"""The kind of a frame with messages: the number of the first that has one, then records."""

CONFIRM: Final = 2
"""The kind of a frame that says what came: frames, the last number that is safe, the table's."""

# A record: flags, what they announce in this order, then the message as a PUBLISH with QoS 0.
# Where no flag is set, their byte is not there either: the first is that of the PUBLISH, BARE,
# which as flags would make no sense.  Such a PUBLISH goes to most subscribers just as it came.
QOS: Final = 3
RETAIN: Final = 4
STAMPED: Final = 8  # 8 bytes: when it was retained
APART: Final = 32  # not for plain subscriptions
SHARED: Final = 64  # a count, and the names of shared subscriptions that it is for
PROPERTIES: Final = 128  # the PUBLISH is one of MQTT 5, else of 3.1.1

BARE: Final = 0x30

CONTROL: Final = 3
"""In the place of flags, as QoS 3 would make no sense: a control record.  Then the sizes of client
id (u16) and body (u32), and these."""

FRAME_BYTES: Final = 64 * 1024
"""Bytes from which on a frame is sent without waiting for more."""

EAGER: Final = 8
"""So many frames are sent without waiting for confirmation; then they grow instead."""

OWED: Final = 4
"""So many frames with nothing but QoS 0 are confirmed together: fewer than EAGER, as then the
other side waits for it.  A confirmation costs both sides as much as fifty messages."""

OWED_S: Final = 0.2
"""For so long, and until the next tick, less than that may stay unconfirmed."""

RESERVE: Final = 1_000_000
"""Numbers of a line that are taken at a time: a restart begins behind all that may be used."""

MAX_PROPERTIES: Final = 1 << 28


class Nowhere:
    """The outlet of a peer without a link."""

    def send(self, kind: int, body: bytes) -> None:
        pass


NOWHERE: Final = Nowhere()


DIRECT: Final = 11
"""In the place of flags: a message for one client's session.  Then the epoch (u64), the sizes of
the client id and of where it was (u16 each) and these, a record."""

COPY: Final = 7
"""In the place of flags: a copy of what another node has in its line to the same peer.  Then a size
(u32), so much text (node, life and what its control records say, with newlines between), the number
there (u64), a record."""


class Origin:
    """Where a copy has been taken from: a number in another node's line to the same peer."""

    def __init__(self, node: str, life: str, n: int, controls: str) -> None:
        self.node = node
        self.life = life
        self.n = n
        self.controls = controls  # what the control records in front of it say, for the cluster


class Entry(Delivery):
    """A message in the line to a peer."""

    def __init__(self, n: int, message: Publish, plain: bool, shares: list[str] | None) -> None:
        super().__init__(message, message.qos, message.retain, b"")
        self.n = n  # 0: QoS 0
        self.plain = plain  # for whoever has subscribed there
        self.shares = shares  # and for one member of each of these groups
        self.is_control = False  # no message: client id and body are in its topic and payload
        self.direct = ""  # the client whose session alone it is for
        self.epoch = 0  # under which that session is held
        self.via = ""  # the node and the place in its line to another one, where it was at first
        self.origin: Origin | None = None  # if it is a copy
        self.after = 0  # it leaves when this batch is safe
        self.tracker: AckTracker | None = None  # whose sender waits for the peer
        self.also: list[AckTracker] | None = None  # others that do

    def size(self) -> int:
        return len(self.message.payload) + len(self.message.topic_data)

    def spoken(self) -> str:
        """Whom it is for, as the journal has it."""
        names = self.shares if self.shares is not None else []
        kind = "!" if self.is_control else "+" if self.plain else "-"
        if self.direct:
            kind = "="
            names = [self.direct, str(self.epoch), *self.via.split("\n")]
        origin = self.origin
        place = ["", "", "0", ""]
        if origin is not None:
            place = [origin.node, origin.life, str(origin.n), origin.controls]
        return "\n".join([kind, self.message.sender, *place, *names])


class Waiting:
    """Somebody waits until a peer has applied our table up to a number."""

    def __init__(self, number: int, tracker: AckTracker) -> None:
        self.number = number
        self.tracker = tracker


class PeerLimits:
    def __init__(self) -> None:
        self.window_bytes = 4 * 1024 * 1024
        self.max_queued_messages = 100_000
        self.max_queued_bytes = 64 * 1024 * 1024
        self.max_queued_bytes_qos0 = 8 * 1024 * 1024
        self.refuse_when_full = True


class Peer:
    def __init__(self, hub: "Hub", name: str, limits: PeerLimits) -> None:
        self.hub = hub
        self.name = name
        self.limits = limits
        self.outlet: PeerOutlet = NOWHERE
        self.up = False  # there is a link, and both sides know where the other one stands
        self.patient = True  # whether somebody may have to wait for it; not if it is suspected
        # What it wants, by its own word
        self.routes: dict[str, int] = {}
        self.clients: dict[str, int] = {}
        # ... and by that of others: names of its table, and the number from which on they are there
        self.expected: dict[str, int] = {}
        self.expected_of = ""  # the process that they are about
        # The line to it
        self.sid = 0
        self.life = ""
        self.last_n = 0
        self.settled_n = 0  # the last one that the peer has confirmed, since this process began
        self.reserved = 0
        self.reserve_after = 0
        self.waiting: deque[Entry] = deque()
        self.unacked: deque[Entry] = deque()
        self.queued = 0  # entries of both with a number
        self.queued_bytes = 0
        self.queued_bytes_qos0 = 0
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.out_first = 0
        self.out_next = 0
        self.frames: deque[int] = deque()  # sizes of those that are not confirmed
        self.under_way_bytes = 0
        self.frames_confirmed = 0
        # The line from it
        self.heard_life = ""
        self.heard_n = 0
        self.early: dict[int, str] = {}  # numbers that came as copies -> life of the line
        self.safe_n = 0
        self.caps: dict[str, int] = {}  # what is not to be confirmed, by why: beyond these numbers
        self.cap = -1  # the lowest of them; -1: there is none
        self.marks: deque[tuple[int, int]] = deque()  # (batch, number that is safe with it)
        self.frames_heard = 0
        self.table_heard = 0
        self.confirm_due = False
        self.owed = 0  # frames that are not confirmed yet, and
        self.owed_bytes = 0  # how long they are
        self.confirmed_at = 0.0
        # Our table, as far as it
        self.told = 0  # was told of it
        self.knows = 0  # has confirmed it
        self.awaiting: deque[Waiting] = deque()
        # Counters
        self.messages_sent = 0
        self.messages_received = 0
        self.messages_doubled = 0
        self.dropped_qos0 = 0
        self.dropped_full = 0
        self.refused = 0  # messages that publishers were refused on its account

    # The line out

    def full(self) -> bool:
        """Whether the next QoS 1 or 2 message would be too much."""
        limits = self.limits
        return bool(
            (limits.max_queued_messages and self.queued >= limits.max_queued_messages)
            or (limits.max_queued_bytes and self.queued_bytes >= limits.max_queued_bytes)
        )

    def put(self, message: Publish, plain: bool, shares: list[str] | None) -> None:
        """A message for the peer."""
        if message.qos == 0:
            self._put_qos0(message, plain, shares)
            return
        if self.full():
            self.dropped_full += 1
            return
        entry = self._number(message, plain, shares)
        if self.up and self.patient:
            if message.journaled and self.hub.journal is not None:
                self._journal(entry)
            entry.tracker = tracker_of(message)
            entry.tracker.remote += 1
        elif self.hub.journal is not None:
            self._journal(entry)
        self._put(entry)

    def put_control(self, client_id: str, body: bytes) -> None:
        """A control record, which no bound holds back, and which outlives this process."""
        message = Publish(client_id.encode("utf-8"), body, 1, False)
        entry = self._number(message, False, None)
        entry.is_control = True
        if self.hub.journal is not None:
            self._journal(entry)
        self._put(entry)

    def unconfirmed(self) -> list[Entry]:
        """What the peer may not have."""
        return [e for line in (self.unacked, self.waiting) for e in line if e.n]

    def put_copy(self, copy: Entry) -> None:
        """What another node has for the peer, too: it comes once, in front of what follows here."""
        entry = self._number(copy.message, copy.plain, copy.shares)
        entry.origin = copy.origin
        entry.direct = copy.direct
        entry.epoch = copy.epoch
        entry.via = copy.via
        if self.hub.journal is not None:
            self._journal(entry)
        self._put(entry)

    def put_direct(
        self, client_id: str, epoch: int, message: Publish, is_safe: bool, via: str
    ) -> None:
        """A message for one session there.  It is as safe as where it was taken from: in the store
        if it was there (`is_safe`), else its sender waits for this peer, too."""
        entry = self._number(message, False, None)
        entry.direct = client_id
        entry.epoch = epoch
        entry.via = via
        waits = self.up and self.patient and not is_safe
        if self.hub.journal is not None and (not waits or message.journaled):
            self._journal(entry)
        if waits:
            entry.tracker = tracker_of(message)
            entry.tracker.remote += 1
        self._put(entry)

    def _number(self, message: Publish, plain: bool, shares: list[str] | None) -> Entry:
        self.last_n += 1
        if self.last_n >= self.reserved:
            self.reserve()
        entry = Entry(self.last_n, message, plain, shares)
        if self.reserve_after > self.hub.durable:
            entry.after = self.reserve_after
        return entry

    def _put(self, entry: Entry) -> None:
        hub = self.hub
        self.queued += 1
        self.queued_bytes += entry.size()
        if self.up and not self.waiting and entry.after <= hub.durable and self._open():
            self._send(entry)
        else:
            self.waiting.append(entry)

    def _put_qos0(self, message: Publish, plain: bool, shares: list[str] | None) -> None:
        if not self.up:
            self.dropped_qos0 += 1
        elif not self.waiting and self._open():
            self._write(message, plain, shares)
        else:
            size = len(message.payload) + len(message.topic_data)
            if self.queued_bytes_qos0 + size > self.limits.max_queued_bytes_qos0:
                self.dropped_qos0 += 1
                return
            self.queued_bytes_qos0 += size
            self.waiting.append(Entry(0, message, plain, shares))

    def _journal(self, entry: Entry) -> None:
        journal = self.hub.require_journal()
        journal.keep_for_peer(self.sid, entry.n, entry, entry.spoken())
        entry.after = journal.batch.number

    def reserve(self) -> None:
        """Take the next numbers, for good."""
        self.reserved = self.last_n + RESERVE
        journal = self.hub.journal
        if journal is not None:
            journal.note("line/" + self.name, f"{self.life} {self.reserved}")
            self.reserve_after = journal.batch.number

    def _open(self) -> bool:
        return self.under_way_bytes + self.out_bytes < self.limits.window_bytes

    def _send(self, entry: Entry) -> None:
        """An entry with a number, into the frame that gathers."""
        if self.out_first and entry.n != self.out_next:
            self._cut()
        if not self.out_first:
            self.out_first = entry.n
        self.out_next = entry.n + 1
        self.unacked.append(entry)
        if entry.is_control:
            self._append(control_of(entry.message))
        elif entry.origin is not None or entry.direct:
            head = copy_of(entry.origin) if entry.origin is not None else b""
            if entry.direct:
                head += direct_of(entry)
            record = record_of(entry.message, entry.plain, entry.shares, self.hub.now)
            self._append(head + record)
        else:
            self._write(entry.message, entry.plain, entry.shares)

    def _write(self, message: Publish, plain: bool, shares: list[str] | None) -> None:
        head = b""
        if message.qos or message.retain or message.properties or not plain or shares is not None:
            head = head_of(message, plain, shares)
            wire = wire_of(message, self.hub.now)
            self.out.append(head)
        else:
            known = message.frame_v3  # those who have subscribed here get the same
            if known is None:
                known = wire_of(message, 0.0)
                message.frame_v3 = known
            wire = known
        self.messages_sent += 1
        self.out_bytes += len(head)
        self._append(wire)

    def _append(self, data: bytes) -> None:
        self.out.append(data)
        self.out_bytes += len(data)
        if self.out_bytes >= FRAME_BYTES:
            self._cut()

    def _cut(self) -> None:
        """Send what has gathered."""
        body = u64(self.out_first) + b"".join(self.out)
        self._clear_out()
        self.frames.append(len(body))
        self.under_way_bytes += len(body)
        self.outlet.send(PUBLISHES, body)

    def _clear_out(self) -> None:
        self.out = []
        self.out_bytes = 0
        self.out_first = 0

    def flush(self) -> None:
        """The end of a turn."""
        if not self.up:
            return
        durable = self.hub.durable
        waiting = self.waiting
        while waiting and waiting[0].after <= durable and self._open():
            entry = waiting.popleft()
            if entry.n:
                self._send(entry)
            else:
                self.queued_bytes_qos0 -= entry.size()
                self._write(entry.message, entry.plain, entry.shares)
        if self.out and len(self.frames) < EAGER:
            self._cut()
        marks = self.marks
        while marks and marks[0][0] <= durable:
            self.safe_n = marks.popleft()[1]
            self.confirm_due = True
        if self.confirm_due or (self.owed and self.hub.now - self.confirmed_at >= OWED_S):
            self._confirm()

    def _confirm(self) -> None:
        self.confirm_due = False
        self.owed = 0
        self.owed_bytes = 0
        self.confirmed_at = self.hub.now
        body = u64(self.frames_heard) + u64(self.capped(self.safe_n))
        self.outlet.send(CONFIRM, body + u64(max(self.table_heard, 0)))

    # What is not confirmed, though it came: the peer may have to send it elsewhere

    def hold_confirm(self, why: str, n: int) -> None:
        """Confirm nothing beyond a number, until release_confirm()."""
        self.caps[why] = n
        self.cap = min(self.caps.values())

    def release_confirm(self, why: str) -> None:
        if self.caps.pop(why, -1) >= 0:
            self.cap = min(self.caps.values(), default=-1)
            self.confirm_due = True

    def capped(self, n: int) -> int:
        return n if self.cap < 0 or n < self.cap else self.cap

    def confirmed(self, body: bytes) -> None:
        """What the peer says that it has."""
        frames, pos = read_u64(body, 0)
        n, pos = read_u64(body, pos)
        number, pos = read_u64(body, pos)
        while self.frames_confirmed < frames and self.frames:
            self.frames_confirmed += 1
            self.under_way_bytes -= self.frames.popleft()
        self._settle_to(n)
        self.knows_table(number)

    def _settle_to(self, n: int) -> None:
        unacked = self.unacked
        freed: Connection | None = None
        while unacked and unacked[0].n <= n:
            entry = unacked.popleft()
            tracker = entry.tracker
            if tracker is not None:
                # As arrived(), but a sender of many in a row is told once.
                entry.tracker = None
                tracker.remote -= 1
                waiter = tracker.waiter
                if tracker.remote == 0 and waiter is not None and waiter is not freed:
                    if freed is not None:
                        freed.release()
                    freed = waiter
            self._settle(entry)
        if freed is not None:
            freed.release()

    def _settle(self, entry: Entry) -> None:
        self.settled_n = entry.n
        self.queued -= 1
        self.queued_bytes -= entry.size()
        if entry.record is not None:
            self.hub.require_journal().remove(entry)
        self._excuse(entry)

    def _excuse(self, entry: Entry) -> None:
        """Nobody waits for the peer any more on account of this entry."""
        if entry.tracker is not None:
            arrived(entry.tracker)
            entry.tracker = None
        if entry.also is not None:
            for tracker in entry.also:
                arrived(tracker)
            entry.also = None

    def knows_table(self, number: int) -> None:
        self.knows = number
        while self.awaiting and self.awaiting[0].number <= number:
            arrived(self.awaiting.popleft().tracker)

    def wait_for_line(self, tracker: AckTracker) -> None:
        """Until the peer has all that was put so far."""
        if not self.up or not self.patient:
            return
        # The last one with a number: all that waits may be QoS 0, which is not confirmed by itself.
        for line in (self.waiting, self.unacked):
            for entry in reversed(line):
                if entry.n:
                    if entry.also is None:
                        entry.also = []
                    entry.also.append(tracker)
                    tracker.remote += 1
                    return

    # Links come and go

    def linked(self, outlet: PeerOutlet, life: str, n: int, their_life: str) -> None:
        """There is a link; the peer has our line `life` up to n, and its own is `their_life`."""
        self.outlet = outlet
        self.up = True
        self.patient = True
        self.frames_confirmed = 0
        self.frames_heard = 0
        self.owed = 0
        self.owed_bytes = 0
        self.confirm_due = True
        if life == self.life:
            while self.waiting and self.waiting[0].n <= n:
                self._settle(self.waiting.popleft())
        if their_life != self.heard_life:
            if self.hub.peers is not None:
                self.hub.peers.end_channel(self)
            self.heard_life = their_life
            self.heard_n = 0
            self.safe_n = 0
            self.marks.clear()
            if self.caps:
                self.caps = dict.fromkeys(self.caps, 0)
                self.cap = 0

    def unlinked(self) -> None:
        """The link is gone: what the peer may not have is kept, as the store promises."""
        if not self.up:
            return
        self.up = False
        self.outlet = NOWHERE
        self._clear_out()
        self.frames.clear()
        self.under_way_bytes = 0
        line = self.unacked
        for entry in self.waiting:
            if entry.n:
                line.append(entry)
            else:
                self.dropped_qos0 += 1
        self.queued_bytes_qos0 = 0
        self.waiting = line
        self.unacked = deque()
        self.be_impatient()

    def be_impatient(self) -> None:
        """Nobody waits for the peer any more; what it may not have is kept for it."""
        self.patient = False
        while self.awaiting:
            arrived(self.awaiting.popleft().tracker)
        for line in (self.unacked, self.waiting):
            for entry in line:
                if entry.n:
                    if self.hub.journal is not None and entry.record is None:
                        self._journal(entry)
                    self._excuse(entry)

    def confirmed_to(self) -> int:
        """The number up to which the peer has all."""
        for line in (self.unacked, self.waiting):
            for entry in line:
                if entry.n:
                    return entry.n - 1
        return self.last_n

    def forget_line(self) -> int:
        """The peer is not to come back: drop what was kept for it; how many messages."""
        dropped = 0
        while self.waiting:
            entry = self.waiting.popleft()
            if entry.n:
                self._settle(entry)
                dropped += 1
        return dropped

    # The line in

    def take(self, data: bytes, now: float) -> None:
        """A frame with messages; ProtocolFault if it is none."""
        hub = self.hub
        hub.now = now
        self.frames_heard += 1
        self.owed += 1
        self.owed_bytes += len(data)
        n, pos = read_u64(data, 0)
        numbered = n != 0
        if numbered or self.owed >= OWED or self.owed_bytes >= self.limits.window_bytes // 4:
            self.confirm_due = True
        end = len(data)
        hub.source = self
        while pos < end:
            if data[pos] == BARE:
                message, pos = read_bare(data, pos)
                plain = True
                shares: list[str] | None = None
            elif data[pos] == CONTROL:
                client_id, body, pos = read_control(data, pos)
                if n > self.heard_n and hub.peers is not None:
                    self.heard_n = n
                    hub.peers.neighbours.control(self, client_id, body)
                n += 1
                continue
            elif data[pos] == COPY or data[pos] == DIRECT:
                entry, pos = read_special(data, pos, now)
                if n > self.heard_n and hub.peers is not None:
                    if self.early and self._came_early(n):
                        self.messages_doubled += 1
                    else:
                        hub.peers.take_special(self, entry)
                        hub.source = self
                    self.heard_n = n
                n += 1
                continue
            else:
                message, plain, shares, pos = read_record(data, pos, now)
            if message.qos:
                if n <= self.heard_n or (self.early and self._came_early(n)):
                    self.heard_n = max(self.heard_n, n)
                    self.messages_doubled += 1
                    n += 1
                    continue
                self.heard_n = n
                n += 1
            self.messages_received += 1
            hub.publish_from_peer(message, plain, shares)
            if hub.work >= hub.work_per_turn:
                hub.flush()
        hub.source = None
        journal = hub.journal
        if journal is None:
            self.safe_n = self.heard_n
            return
        if not numbered:
            return
        if journal.batch.touched():
            # With what the messages changed: both are safe, or none.
            journal.note("heard/" + self.name, f"{self.heard_life} {self.heard_n}")
        self.marks.append((journal.mark(), self.heard_n))

    def comes_early(self, life: str, n: int) -> bool:
        """Whether a message of this line has not come; then it does now, as another's copy."""
        if (life == self.heard_life and n <= self.heard_n) or self.early.get(n) == life:
            return False
        self.early[n] = life
        self._note_early()
        return True

    def _came_early(self, n: int) -> bool:
        if self.early.get(n) != self.heard_life:
            return False
        del self.early[n]
        self._note_early()
        return True

    def _note_early(self) -> None:
        journal = self.hub.journal
        if journal is not None:
            text = " ".join([f"{n}/{life}" for n, life in self.early.items()])
            journal.note("early/" + self.name, text)


def arrived(tracker: AckTracker) -> None:
    """One peer less to wait for."""
    tracker.remote -= 1
    if tracker.remote == 0 and tracker.waiter is not None:
        tracker.waiter.release()


def record_of(message: Publish, plain: bool, shares: list[str] | None, now: float) -> bytes:
    """A message as it crosses a link, by itself."""
    return head_of(message, plain, shares) + wire_of(message, now)


def head_of(message: Publish, plain: bool, shares: list[str] | None) -> bytes:
    """Flags and what they announce."""
    flags = message.qos
    head = b""
    if message.properties:
        flags |= PROPERTIES
    if message.retain:
        flags |= RETAIN
        if message.stamp:
            flags |= STAMPED
            head = u64(message.stamp)
    if not plain:
        flags |= APART
    if shares is not None:
        flags |= SHARED
        head += _names(shares)
    return BYTES[flags] + head if head else BYTES[flags]


def control_of(record: Publish) -> bytes:
    client_id = record.topic_data
    size = len(record.payload)
    sizes = u16(len(client_id)) + u16(size >> 16) + u16(size & 0xFFFF)
    return b"%b%b%b%b" % (BYTES[CONTROL], sizes, client_id, record.payload)


def read_control(data: bytes, pos: int) -> tuple[str, bytes, int]:
    """Client id, body, the place behind it."""
    end = len(data)
    client_size, pos = read_u16(data, pos + 1, end)
    high, pos = read_u16(data, pos, end)
    low, pos = read_u16(data, pos, end)
    body_from = pos + client_size
    stop = body_from + (high << 16 | low)
    if stop > end:
        raise malformed("a control record from a peer is cut off")
    return data[pos:body_from].decode("utf-8"), data[body_from:stop], stop


def copy_of(origin: Origin) -> bytes:
    name = f"{origin.node}\n{origin.life}\n{origin.controls}".encode()
    size = u16(len(name) >> 16) + u16(len(name) & 0xFFFF)
    return b"%b%b%b%b" % (BYTES[COPY], size, name, u64(origin.n))


def read_origin(data: bytes, pos: int) -> tuple[Origin, int]:
    high, start = read_u16(data, pos + 1, len(data))
    low, start = read_u16(data, start, len(data))
    stop = start + (high << 16 | low)
    if stop + 8 >= len(data):
        raise malformed("a copy from a peer is cut off")
    node, life, controls = data[start:stop].decode("utf-8").split("\n")
    n, pos = read_u64(data, stop)
    return Origin(node, life, n, controls), pos


def direct_of(entry: Entry) -> bytes:
    name = entry.direct.encode("utf-8")
    via = entry.via.encode("utf-8")
    sizes = u16(len(name)) + u16(len(via))
    return b"%b%b%b%b%b" % (BYTES[DIRECT], u64(entry.epoch), sizes, name, via)


def read_special(data: bytes, pos: int, now: float) -> tuple[Entry, int]:
    """A copy, or a message for one session, or both."""
    origin: Origin | None = None
    direct = ""
    via = ""
    epoch = 0
    if data[pos] == COPY:
        origin, pos = read_origin(data, pos)
    if data[pos] == DIRECT:
        epoch, pos = read_u64(data, pos + 1)
        size, pos = read_u16(data, pos, len(data))
        via_size, pos = read_u16(data, pos, len(data))
        direct = data[pos : pos + size].decode("utf-8")
        pos += size
        via = data[pos : pos + via_size].decode("utf-8")
        pos += via_size
        if pos >= len(data):
            raise malformed("a direct message from a peer is cut off")
    message, plain, shares, pos = read_record(data, pos, now)
    entry = Entry(0, message, plain, shares)
    entry.origin = origin
    entry.direct = direct
    entry.epoch = epoch
    entry.via = via
    return entry, pos


def wire_of(message: Publish, now: float) -> bytes:
    if not message.properties:
        return encode_v3(0x30, message.topic_field, 0, message.payload, 0)
    properties = with_expiry(message, now)
    return encode_v5(0x30, message.topic_field, 0, properties, message.payload, 0)


def _names(names: list[str]) -> bytes:
    data = BYTES[len(names)]
    for name in names:
        encoded = name.encode("utf-8")
        data += u16(len(encoded) >> 16) + u16(len(encoded) & 0xFFFF) + encoded
    return data


def _read_names(data: bytes, pos: int, end: int) -> tuple[list[str], int]:
    names: list[str] = []
    if pos >= end:
        raise malformed("a message from a peer is cut off")
    count = data[pos]
    pos += 1
    for _ in range(count):
        high, pos = read_u16(data, pos, end)
        low, pos = read_u16(data, pos, end)
        size = high << 16 | low
        if pos + size > end:
            raise malformed("a message from a peer is cut off")
        names.append(data[pos : pos + size].decode("utf-8"))
        pos += size
    return names, pos


def read_record(data: bytes, pos: int, now: float) -> tuple[Publish, bool, list[str] | None, int]:
    """What head_of() and wire_of() wrote at pos: message, plain, shares, the place behind it."""
    end = len(data)
    flags = data[pos]
    pos += 1
    stamp = 0
    shares: list[str] | None = None
    if flags & STAMPED:
        stamp, pos = read_u64(data, pos)
    if flags & SHARED:
        shares, pos = _read_names(data, pos, end)
    body, stop = _publish_at(data, pos)
    version = V5 if flags & PROPERTIES else V311
    message = decode(data, 0x30, body, stop, version, MAX_PROPERTIES)
    message.qos = flags & QOS
    message.retain = flags & RETAIN != 0
    message.stamp = stamp
    if message.expiry_s >= 0:
        message.expires_at = now + message.expiry_s
    return message, flags & APART == 0, shares, stop


def read_bare(data: bytes, pos: int) -> tuple[Publish, int]:
    """A record without flags: the message, and the place behind it."""
    body, stop = _publish_at(data, pos)
    message = decode(data, 0x30, body, stop, V311, 0)
    message.frame_v3 = data[pos:stop]
    return message, stop


def _publish_at(data: bytes, pos: int) -> tuple[int, int]:
    """Where its body begins and ends."""
    end = len(data)
    body, stop = frame(data, pos, end)
    if body == 0 or stop > end:
        raise malformed("a message from a peer is cut off")
    return body, stop
