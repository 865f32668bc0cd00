"""The channel to a peer: messages with numbers, each kept until the peer has confirmed it.

    put() -> waiting -> out -> a frame on the link -> unacked -> confirmed(): gone

Messages of QoS 1 and 2 have numbers, one after the other for as long as the channel has the same
epoch, so the other side can tell what it has had, also after a link that broke or a restart of
either side.  While the peer responds a message is in memory only, and its publisher waits until the
peer has it.  Otherwise messages are journaled like those for a client that is away, and the
publisher waits for the store.  What is QoS 2 from a session that would survive a crash is journaled
in any case, together with the packet id that keeps it from being taken twice; and so is what a
member of a shared subscription leaves behind, as its publisher does not wait any more.

QoS 0 has no number and is sent while there is room, and not at all while the link is down.

Two kinds of records are for session migration (`mhub.cluster.migration`): control records, which
count by their position among the messages, and direct ones, messages for a single session.
"""

from collections import deque
from itertools import chain
from typing import TYPE_CHECKING, Final

from mhub.core.channel_records import (
    PUBLISHES,
    Entry,
    control_of,
    head_of,
    special_of,
    wire_of,
)
from mhub.core.journal import AckTracker, Waiter, tracker_of
from mhub.wire.primitives import u64
from mhub.wire.publish import Publish

if TYPE_CHECKING:
    from mhub.core.peer import Peer

FRAME_BYTES: Final = 64 * 1024
"""Bytes from which on a frame is sent without waiting for more."""

EAGER: Final = 8
"""So many frames are sent without waiting for confirmation; then they grow instead."""

RESERVE: Final = 1_000_000
"""Numbers that are taken at a time: a restart begins behind all that may be used."""

NOTE: Final = "channel/"
"""The note of the epoch and of the numbers that are taken begins so."""


class OutgoingChannel:
    def __init__(self, peer: "Peer") -> None:
        self.peer = peer
        self.hub = peer.hub
        self.limits = peer.limits
        self.counters = peer.counters
        self.sid = 0  # under which the store has what is journaled
        self.epoch = ""
        self.last_n = 0
        self.confirmed_n = 0  # the last one that the peer has confirmed, since this process began
        self.reserved = 0
        self.reserve_after = 0
        self.waiting: deque[Entry] = deque()
        self.unacked: deque[Entry] = deque()
        # Control records of both, by the client they are about; lazily: some are confirmed by now
        self.controls: deque[Entry] = deque()
        self.client_controls: dict[bytes, deque[Entry]] = {}
        self.queued = 0  # entries of both with a number
        self.queued_bytes = 0
        self.queued_bytes_qos0 = 0
        # The frame that gathers, and those that are on their way
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.out_first = 0
        self.out_next = 0
        self.frames: deque[int] = deque()  # their sizes
        self.under_way_bytes = 0
        self.frames_confirmed = 0

    def begin(self, sid: int, noted: str) -> None:
        """Go on behind all that an earlier process may have used, or begin a new channel."""
        epoch, _, reserved = noted.partition(" ")
        self.sid = sid
        self.epoch = epoch or self.hub.token()
        self.last_n = int(reserved or 0)
        self._reserve()

    def revive(self, entry: Entry) -> None:
        """A message that was journaled."""
        if entry.is_control:
            self._index(entry)
        self.waiting.append(entry)
        self.queued += 1
        self.queued_bytes += entry.size()

    def _reserve(self) -> None:
        """Take the next numbers, for good."""
        self.reserved = self.last_n + RESERVE
        journal = self.hub.journal
        if journal is not None:
            journal.note(NOTE + self.peer.name, f"{self.epoch} {self.reserved}")
            self.reserve_after = journal.batch.number

    # In

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
        elif self.full():
            self.counters.dropped_full += 1
        else:
            self._put(Entry(0, message, plain, shares), self.peer.responds())

    def put_in_any_case(self, message: Publish) -> None:
        """A message that no bound holds back, as it is for the node itself."""
        self._put(Entry(0, message, False, None), self.peer.responds())

    def put_control(self, client_id: str, body: bytes) -> None:
        """A control record, which no bound holds back, and which outlives this process."""
        entry = Entry(0, Publish(client_id.encode("utf-8"), body, 1, False), False, None)
        entry.is_control = True
        self._put(entry, False)
        self._index(entry)

    def _index(self, entry: Entry) -> None:
        self._drop_confirmed()
        self.controls.append(entry)
        client_id = entry.message.topic_data
        if client_id not in self.client_controls:
            self.client_controls[client_id] = deque()
        self.client_controls[client_id].append(entry)

    def _drop_confirmed(self) -> None:
        """Here, and not with each confirmation: that is for each message."""
        controls = self.controls
        confirmed_n = self.confirmed_to()
        while controls and controls[0].n <= confirmed_n:
            client_id = controls.popleft().message.topic_data
            left = self.client_controls[client_id]
            left.popleft()
            if not left:
                del self.client_controls[client_id]

    def put_copy(self, copy: Entry) -> None:
        """What another node has for the peer, too: it comes once, in front of what follows here."""
        self._put(copy, False)

    def put_direct(
        self, client_id: str, session_epoch: int, message: Publish, is_safe: bool, via: str
    ) -> None:
        """A message for one session there.  It is as safe as where it was taken from: in the store
        if it was there (`is_safe`), else its sender waits for this peer, too."""
        entry = Entry(0, message, False, None)
        entry.direct = client_id
        entry.session_epoch = session_epoch
        entry.via = via
        self._put(entry, not is_safe and self.peer.responds())

    def _put(self, entry: Entry, sender_waits: bool) -> None:
        """The sender waits for the peer, or the store has it; some are worth both."""
        hub = self.hub
        self.last_n += 1
        if self.last_n >= self.reserved:
            self._reserve()
        entry.n = self.last_n
        entry.after = self.reserve_after
        if hub.journal is not None and (not sender_waits or entry.message.journaled):
            self._journal(entry)
        if sender_waits:
            tracker = tracker_of(entry.message)
            tracker.remote += 1
            entry.tracker = tracker
        self.queued += 1
        self.queued_bytes += entry.size()
        if self.peer.up and not self.waiting and entry.after <= hub.durable and self._open():
            self._send(entry)
        else:
            self.waiting.append(entry)

    def _put_qos0(self, message: Publish, plain: bool, shares: list[str] | None) -> None:
        if not self.peer.up:
            self.counters.dropped_qos0 += 1
        elif not self.waiting and self._open():
            self._write(message, plain, shares)
        else:
            size = len(message.payload) + len(message.topic_data)
            if self.queued_bytes_qos0 + size > self.limits.max_queued_bytes_qos0:
                self.counters.dropped_qos0 += 1
                return
            self.queued_bytes_qos0 += size
            self.waiting.append(Entry(0, message, plain, shares))

    def _journal(self, entry: Entry) -> None:
        journal = self.hub.require_journal()
        journal.keep_for_peer(self.sid, entry.n, entry, entry.addressed())
        entry.after = journal.batch.number

    # Out

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
            return
        if entry.origin is not None or entry.direct:
            head = special_of(entry, entry.origin)
            self.out.append(head)  # no frame ends between it and its record
            self.out_bytes += len(head)
        self._write(entry.message, entry.plain, entry.shares)

    def _write(self, message: Publish, plain: bool, shares: list[str] | None) -> None:
        if message.qos or message.retain or message.properties or not plain or shares is not None:
            head = head_of(message, plain, shares)
            wire = wire_of(message, self.hub.now)
            self.out.append(head)
            self.out_bytes += len(head)
        else:
            known = message.frame_v3  # those who have subscribed here get the same
            if known is None:
                known = wire_of(message, 0.0)
                message.frame_v3 = known
            wire = known
        self.counters.messages_sent += 1
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
        self.peer.send(PUBLISHES, body)

    def _clear_out(self) -> None:
        self.out = []
        self.out_bytes = 0
        self.out_first = 0

    def flush(self) -> None:
        """The end of a turn."""
        if not self.peer.up:
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

    # What the peer has

    def confirmed(self, frames: int, n: int) -> None:
        """So many frames of this link have come, and all up to a number is safe there."""
        while self.frames_confirmed < frames and self.frames:
            self.frames_confirmed += 1
            self.under_way_bytes -= self.frames.popleft()
        unacked = self.unacked
        freed: Waiter | None = None
        while unacked and unacked[0].n <= n:
            entry = unacked.popleft()
            tracker = entry.tracker
            if tracker is not None:
                # As AckTracker.arrived(), but a sender of many in a row is told once.
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
        self.confirmed_n = entry.n
        self.queued -= 1
        self.queued_bytes -= entry.size()
        if entry.record is not None:
            self.hub.require_journal().remove(entry)
        self._excuse(entry)

    def _excuse(self, entry: Entry) -> None:
        """Nobody waits for the peer any more on account of this entry."""
        if entry.tracker is not None:
            entry.tracker.arrived()
            entry.tracker = None
        if entry.also is not None:
            for tracker in entry.also:
                tracker.arrived()
            entry.also = None

    def unconfirmed(self) -> list[Entry]:
        """What the peer may not have."""
        return [entry for entry in chain(self.unacked, self.waiting) if entry.n]

    def behind(self, n: int) -> list[Entry]:
        """What the peer may not have, behind a number; what is in front of that costs nothing."""
        found: list[Entry] = []
        for entries in (self.waiting, self.unacked):
            for entry in reversed(entries):
                if entry.n:
                    if entry.n <= n:
                        found.reverse()
                        return found
                    found.append(entry)
        found.reverse()
        return found

    def controls_of(self, client_id: str) -> list[Entry]:
        """Control records about a client that the peer may not have."""
        self._drop_confirmed()
        return list(self.client_controls.get(client_id.encode("utf-8"), ()))

    def confirmed_to(self) -> int:
        """The number up to which the peer has all."""
        for entry in chain(self.unacked, self.waiting):
            if entry.n:
                return entry.n - 1
        return self.last_n

    def wait_for_all(self, tracker: AckTracker) -> None:
        """Until the peer has all that was put so far."""
        if not self.peer.responds():
            return
        for entries in (self.waiting, self.unacked):
            for last in reversed(entries):
                if last.n:
                    last.also = [tracker] if last.also is None else [*last.also, tracker]
                    tracker.remote += 1
                    return

    # Links come and go

    def linked(self, epoch: str, n: int) -> None:
        """The peer has the channel of this epoch up to a number; go on behind that."""
        self.frames_confirmed = 0
        if epoch == self.epoch:
            while self.waiting and self.waiting[0].n <= n:
                self._settle(self.waiting.popleft())

    def unlinked(self) -> None:
        """What was on its way is to be sent again, but for QoS 0."""
        self._clear_out()
        self.frames.clear()
        self.under_way_bytes = 0
        again = self.unacked
        for entry in self.waiting:
            if entry.n:
                again.append(entry)
            else:
                self.counters.dropped_qos0 += 1
        self.queued_bytes_qos0 = 0
        self.waiting = again
        self.unacked = deque()

    def stop_waiting(self) -> None:
        """Nobody waits for the peer any more; what it may not have is journaled instead."""
        for entry in self.unconfirmed():
            if self.hub.journal is not None and entry.record is None:
                self._journal(entry)
            self._excuse(entry)

    def forget(self) -> int:
        """The peer is not to come back: drop what was kept for it; how many messages."""
        dropped = self.unconfirmed()
        self.waiting.clear()
        for entry in dropped:
            self._settle(entry)
        if self.hub.journal is not None:
            self.hub.journal.end_channel(self.sid)
            self.hub.journal.note(NOTE + self.peer.name, "")
        return len(dropped)
