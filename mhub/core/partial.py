"""Packets of which only a part has come, of one connection and of all together.

What one connection may hold is bounded by its listener's `max_packet_size`.  What all of them hold
is bounded here: when it is too much, the one has to go whose packet has made no progress for the
longest time.  So whoever begins large packets and does not end them makes room for those who do; to
stop reading instead would let the former keep the latter out for as long as they like.

Only packets of more than COUNTED_BYTES count.  A read often ends in the midst of a small one, and
what that costs each message should be next to nothing.  No layer below holds more than a record of
TLS (16 KiB) or the header of a WebSocket frame.
"""

from typing import Final

from mhub.core.journal import Waiter

PROGRESS: Final = 1024
"""So many bytes of an unfinished packet are a sign of life, as a whole packet is."""

COUNTED_BYTES: Final = 16 * 1024


class Partial:
    """What was read and not handled: the beginning of a packet, or all that was put off."""

    def __init__(self, data: bytes, needed: int) -> None:
        self.data = bytearray(data)
        self.needed = needed  # bytes until it is worth looking again
        self.progress = 0  # bytes of it that have counted as a sign of life
        self.counted = 0  # bytes of it that PartialPackets has counted

    def is_due(self) -> bool:
        return len(self.data) >= self.needed

    def has_progress(self) -> bool:
        """Whether so much has come since the last time that its sender is alive."""
        if len(self.data) - self.progress < PROGRESS:
            return False
        self.progress = len(self.data)
        return True


class PartialPackets:
    """Those of all connections that are worth counting."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes  # 0: any number
        self.size_bytes = 0
        self.senders: dict[Waiter, Partial] = {}  # who has made progress last is last

    def begin(self, sender: Waiter, partial: Partial) -> None:
        self.senders[sender] = partial
        partial.counted = len(partial.data)
        self.size_bytes += partial.counted

    def grow(self, sender: Waiter, partial: Partial, size: int, progress: bool) -> None:
        partial.counted += size
        self.size_bytes += size
        if progress:
            del self.senders[sender]
            self.senders[sender] = partial

    def end(self, sender: Waiter, partial: Partial) -> None:
        """It is whole, or not wanted any more."""
        self.size_bytes -= partial.counted
        partial.counted = 0
        self.senders.pop(sender, None)

    def excess(self) -> Waiter | None:
        """Whose packet has to go, and is not counted any more; None: nobody's.

        One packet is within the bound whatever its size.
        """
        if self.size_bytes <= self.most_bytes or not self.most_bytes or len(self.senders) < 2:
            return None
        for sender, partial in self.senders.items():
            self.end(sender, partial)
            return sender
        return None
