"""The channel from a peer: what came of it, what of that is safe, and what is confirmed.

    take() -> last_received -> the batch with it is safe: safe_n -> CONFIRM, up to the lowest cap

Each number is taken once, in the order of the peer's channel, for as long as that has the same
epoch.  The last number is noted in the batch with what its message changed: both are safe, or none.

A message may come early: as a copy of it, in another node's channel.  And what came may have to
stay unconfirmed, as the peer may have to send it elsewhere (`hold_confirm`).
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from mhub.core.channel_records import (
    BARE,
    CONFIRM,
    CONTROL,
    COPY,
    DIRECT,
    Entry,
    read_bare,
    read_control,
    read_record,
    read_special,
)
from mhub.wire.primitives import read_u64, u64

if TYPE_CHECKING:
    from mhub.core.peer import Peer

UNCONFIRMED: Final = 4
"""So many frames with nothing but QoS 0 are confirmed together: fewer than EAGER, as then the
other side waits for it.  A confirmation costs both sides as much as fifty messages."""

UNCONFIRMED_S: Final = 0.2
"""For so long, and until the next tick, less than that may stay unconfirmed."""

# Notes begin so
NOTE: Final = "received/"  # of the epoch and of the last number
EARLY: Final = "early/"  # of the numbers that came early


class IncomingChannel:
    def __init__(self, peer: "Peer") -> None:
        self.peer = peer
        self.peers = peer.peers
        self.hub = peer.hub
        self.counters = peer.counters
        self.epoch = ""
        self.last_received = 0
        self.early: dict[int, str] = {}  # numbers that came as copies -> epoch of the channel
        self.safe_n = 0
        self.becoming_safe: deque[tuple[int, int]] = deque()  # (batch, number that is safe with it)
        self.caps: dict[str, int] = {}  # what is not to be confirmed, by why: beyond these numbers
        self.cap = -1  # the lowest of them; -1: there is none
        # What is to be confirmed
        self.frames_received = 0
        self.unconfirmed = 0  # of these frames, and
        self.unconfirmed_bytes = 0  # how long they are
        self.confirm_due = False
        self.confirmed_at = 0.0

    def recall(self, notes: dict[str, str]) -> None:
        """Go on where an earlier process was."""
        self.epoch, _, n = notes.get(NOTE + self.peer.name, "").partition(" ")
        self.last_received = int(n or 0)
        self.safe_n = self.last_received
        for item in notes.get(EARLY + self.peer.name, "").split():
            early_n, _, epoch = item.partition("/")
            self.early[int(early_n)] = epoch

    def forget(self) -> None:
        if self.hub.journal is not None:
            self.hub.journal.note(NOTE + self.peer.name, "")
            self.hub.journal.note(EARLY + self.peer.name, "")

    def linked(self, epoch: str) -> None:
        """There is a link; the peer's channel has this epoch."""
        self.frames_received = 0
        self.unconfirmed = 0
        self.unconfirmed_bytes = 0
        self.confirm_due = True
        if epoch != self.epoch:
            self.peers.end_channel(self)
            self.epoch = epoch
            self.last_received = 0
            self.safe_n = 0
            self.becoming_safe.clear()
            if self.caps:
                self.caps = dict.fromkeys(self.caps, 0)
                self.cap = 0

    # Messages

    def take(self, data: bytes, now: float) -> None:
        """A frame with messages; ProtocolFault if it is none."""
        hub = self.hub
        hub.now = now
        self.frames_received += 1
        self.unconfirmed += 1
        self.unconfirmed_bytes += len(data)
        first, pos = read_u64(data, 0)
        much = self.unconfirmed_bytes >= self.peer.limits.window_bytes // 4
        if first or much or self.unconfirmed >= UNCONFIRMED:
            self.confirm_due = True
        self.peers.publisher = self.peer
        try:
            self._take(data, pos, first)
        finally:
            self.peers.publisher = None
        journal = hub.journal
        if journal is None:
            self.safe_n = self.last_received
        elif first:
            self._note_received()
            self.becoming_safe.append((journal.mark(), self.last_received))

    def _note_received(self) -> None:
        """With what the messages changed: both are safe, or none."""
        journal = self.hub.journal
        if journal is not None and journal.batch.touched():
            journal.note(NOTE + self.peer.name, f"{self.epoch} {self.last_received}")

    def _take(self, data: bytes, pos: int, n: int) -> None:
        """Records from pos on, the first that has a number with number n."""
        hub = self.hub
        end = len(data)
        while pos < end:
            kind = data[pos]
            if kind == BARE:
                message, pos = read_bare(data, pos)
                self.counters.messages_received += 1
                hub.publish_from_peer(message, True, None)
            elif kind == CONTROL:
                client_id, body, pos = read_control(data, pos)
                if self._is_new(n):
                    self.peers.neighbours.control(self.peer, client_id, body)
                n += 1
            elif kind == COPY or kind == DIRECT:
                entry, pos = read_special(data, pos, hub.now)
                if self._is_new(n):
                    self._take_special(entry)
                n += 1
            else:
                message, plain, shares, pos = read_record(data, pos, hub.now)
                if message.qos:
                    n += 1
                    if not self._is_new(n - 1):
                        continue
                self.counters.messages_received += 1
                hub.publish_from_peer(message, plain, shares)
            if hub.work >= hub.work_per_turn:
                self._note_received()  # what came so far may go to the store now
                self.peers.publisher = None  # a will that is published now is of this node
                hub.flush()
                self.peers.publisher = self.peer

    def _is_new(self, n: int) -> bool:
        """Whether a number has not come yet; from now on it has."""
        if n > self.last_received:
            self.last_received = n
            if not self.early or self.early.get(n) != self.epoch:
                return True
            del self.early[n]
            self._note_early()
        self.counters.messages_doubled += 1
        return False

    def _take_special(self, entry: Entry) -> None:
        """A message for one session, or a copy: another node has it for this one, too, and it may
        have come from there."""
        peers = self.peers
        origin = entry.origin
        publisher = self.peer
        if origin is not None:
            if origin.node == peers.node or peers.has_come(origin.channel_epoch, origin.n):
                return
            publisher = peers.meet(origin.node)
            if not publisher.incoming.comes_early(origin.channel_epoch, origin.n):
                return
            peers.publisher = publisher
            peers.publisher_controls = origin.controls
        publisher.counters.messages_received += 1
        if entry.direct:
            peers.neighbours.direct(entry)
        else:
            self.hub.publish_from_peer(entry.message, entry.plain, entry.shares)
        peers.publisher = self.peer
        peers.publisher_controls = ""

    def comes_early(self, epoch: str, n: int) -> bool:
        """Whether a message of this channel has not come; then it does now, as another's copy."""
        if (epoch == self.epoch and n <= self.last_received) or self.early.get(n) == epoch:
            return False
        self.early[n] = epoch
        self._note_early()
        return True

    def _note_early(self) -> None:
        journal = self.hub.journal
        if journal is not None:
            text = " ".join([f"{n}/{epoch}" for n, epoch in self.early.items()])
            journal.note(EARLY + self.peer.name, text)

    # Confirmations

    def flush(self) -> None:
        """The end of a turn."""
        becoming_safe = self.becoming_safe
        while becoming_safe and becoming_safe[0][0] <= self.hub.durable:
            self.safe_n = becoming_safe.popleft()[1]
            self.confirm_due = True
        now = self.hub.now
        if self.confirm_due or (self.unconfirmed and now - self.confirmed_at >= UNCONFIRMED_S):
            self.confirm_due = False
            self.unconfirmed = 0
            self.unconfirmed_bytes = 0
            self.confirmed_at = now
            body = u64(self.frames_received) + u64(self.confirmable())
            self.peer.send(CONFIRM, body + u64(max(self.peer.table_received, 0)))

    def confirmable(self) -> int:
        """The number up to which all is safe here, and not held."""
        return self.safe_n if self.cap < 0 or self.safe_n < self.cap else self.cap

    def hold_confirm(self, why: str, n: int) -> None:
        """Confirm nothing beyond a number, until release_confirm()."""
        self.caps[why] = n
        self.cap = min(self.caps.values())

    def release_confirm(self, why: str) -> None:
        if self.caps.pop(why, -1) >= 0:
            self.cap = min(self.caps.values(), default=-1)
            self.confirm_due = True
