"""The deliveries that wait for one session, in their order.

    append() -> deliveries -> take()                       the front of the queue, in memory
    page_out() -> paged_out ... the store ... page_in()    the rest, if the queue is a long one

Messages that are paged out are behind all that are in memory, so a queue with paged-out messages
takes new ones at its end in the store alone.  They come back in portions, before the front is
empty; `Storage.refill` asks for them.

Nothing here sends, stores or drops anything: that is the session's.  A session for which nothing
waits has no OutgoingQueue at all, as an empty deque alone holds half a kilobyte.
"""

from collections import deque

from mhub.core.delivery import Delivery
from mhub.core.limits import Limits
from mhub.core.records import DeliveryRecord


class QueueTotal:
    """What waits for all sessions together."""

    def __init__(self, most_bytes: int) -> None:
        self.size_bytes = 0
        self.messages = 0
        self.most_bytes = most_bytes  # 0: any number

    def is_exceeded_by(self, size_bytes: int) -> bool:
        return self.most_bytes != 0 and self.size_bytes + size_bytes > self.most_bytes


class OutgoingQueue:
    def __init__(self, total: QueueTotal) -> None:
        self.total = total
        self.deliveries: deque[Delivery] = deque()
        self.at_hand = 0  # how many they are; a deque is slower to tell
        self.size_bytes = 0  # of all that waits, paged out or not
        self.qos0 = 0  # how many of `deliveries` are QoS 0
        self.unchecked = 0  # so many in front are asked for again: `mhub.core.revocation`
        self.paged_out = 0  # messages behind those of `deliveries`, in the store alone
        self.tail_seq = 0  # the last one that is not among them
        self.loading = False  # the next of them are on their way
        self.stale_load = False  # they are not wanted any more

    def __len__(self) -> int:
        return self.at_hand + self.paged_out

    def is_over(self) -> bool:
        """Whether it is empty, and nothing is on its way to it."""
        return not self.at_hand and not self.paged_out and not self.loading

    def begins_with_qos0(self) -> bool:
        """Whether the next one needs no place in the window."""
        return self.qos0 != 0 and self.deliveries[0].qos == 0

    def is_exceeded_by(self, size_bytes: int, allowed: Limits) -> bool:
        """Whether one more message would pass a bound: of all together, or of this session.

        Of a session's own bounds, one message is within them whatever its size.
        """
        total = self.total
        if total.most_bytes and total.size_bytes + size_bytes > total.most_bytes:
            return True
        waiting = self.at_hand + self.paged_out
        if not waiting:
            return False
        most = allowed.max_queued_messages
        if most and waiting >= most:
            return True
        most_bytes = allowed.max_queued_bytes
        return most_bytes != 0 and self.size_bytes + size_bytes > most_bytes

    # What is in memory

    def append(self, delivery: Delivery, size_bytes: int) -> None:
        """Behind all others; its size is what Delivery.size_bytes() says."""
        self.deliveries.append(delivery)
        self.at_hand += 1
        self.size_bytes += size_bytes
        self.total.size_bytes += size_bytes
        self.total.messages += 1
        if delivery.qos == 0:
            self.qos0 += 1

    def put_back(self, deliveries: list[Delivery]) -> None:
        """In front of all others, in this order."""
        for delivery in reversed(deliveries):
            self.deliveries.appendleft(delivery)
            self.at_hand += 1
            self._count(1, delivery.size_bytes())
            if delivery.qos == 0:
                self.qos0 += 1
        self.unchecked += len(deliveries)

    def take(self) -> Delivery:
        """The oldest one, which has to be in memory."""
        delivery = self.deliveries.popleft()
        self.at_hand -= 1
        if self.unchecked:
            self.unchecked -= 1
        size_bytes = delivery.size_bytes()
        self.size_bytes -= size_bytes
        self.total.size_bytes -= size_bytes
        self.total.messages -= 1
        if delivery.qos == 0:
            self.qos0 -= 1
        return delivery

    # What is in the store alone

    def page_out(self, messages: int, size_bytes: int) -> None:
        """Messages behind all others, which the store has."""
        self.paged_out += messages
        self._count(messages, size_bytes)

    def page_in(self, record: DeliveryRecord) -> None:
        """The first of them came back; if it is sound, append() follows."""
        self.tail_seq = record.seq
        self.paged_out -= 1
        self._count(-1, -record.size_bytes)

    def give_up_paged_out(self) -> None:
        """What should be in the store is not."""
        self.loading = False
        left = sum([delivery.size_bytes() for delivery in self.deliveries])
        self._count(-self.paged_out, left - self.size_bytes)
        self.paged_out = 0

    def forget(self) -> None:
        """It takes no room any more."""
        self._count(-len(self), -self.size_bytes)

    def _count(self, messages: int, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self.total.size_bytes += size_bytes
        self.total.messages += messages
