"""The deliveries of one session that its client has not acknowledged, by their packet ids.

    add() -> deliveries[pid] -> end()                   QoS 1: PUBLISH, PUBACK
    add() -> deliveries[pid] -> release() -> end()      QoS 2: PUBLISH, PUBREC and PUBREL, PUBCOMP

and drop() at any time, for what is over without its acknowledgement.

An acknowledgement that does not belong to the state of its delivery is a Protocol Error: PUBREC or
PUBCOMP for QoS 1, PUBACK for QoS 2, PUBCOMP before PUBREC.  A second PUBREC does belong to it, as a
client sends one again that has not seen the PUBREL.  An acknowledgement of nothing is none, either:
packet ids are used in turn, so what comes late, after a break for one, meets no other delivery.

A delivery takes a place in the window from its PUBLISH on this connection to its end, and its
payload counts for `window_bytes`: below that the next one may go, whatever its size.  After a
reconnect nothing takes a place until it was sent again: those with PUBREC wait for PUBCOMP, the
others are in `resend`, and nothing else is sent before they are out.

Nothing here sends or stores anything: that is the session's.
"""

from typing import Final

from mhub.core.delivery import Delivery
from mhub.wire.errors import ProtocolFault
from mhub.wire.reasons import PROTOCOL_ERROR

MAX_PID: Final = 65535

UNLIMITED_BYTES: Final = 1 << 60
"""More than can be in flight."""


class Inflight:
    def __init__(self, window: int) -> None:
        self.window = window  # the Receive Maximum of the client, or what the listener allows
        self.window_bytes = UNLIMITED_BYTES
        self.outstanding = 0  # deliveries that take a place in it
        self.outstanding_bytes = 0  # of their payloads
        self.deliveries: dict[int, Delivery] = {}  # in the order in which they are sent again
        self.resend: list[int] | None = None  # packet ids that are still to be sent again
        self.last_pid = 0

    def __len__(self) -> int:
        return len(self.deliveries)

    def has_place(self) -> bool:
        """Whether one more may be on its way."""
        return self.outstanding < self.window and self.outstanding_bytes < self.window_bytes

    def has_room(self) -> bool:
        """Whether a new delivery may be sent."""
        return self.resend is None and self.has_place()

    def add(self, delivery: Delivery) -> int:
        """Take a place and a packet id that is not in use [MQTT-2.2.1-4]; the packet id."""
        pid = self.last_pid + 1
        if pid > MAX_PID:
            pid = 1
        while pid in self.deliveries:
            pid = pid + 1 if pid < MAX_PID else 1
        self.last_pid = pid
        self.deliveries[pid] = delivery
        self._count(delivery)
        return pid

    def _count(self, delivery: Delivery) -> None:
        delivery.counted = True
        self.outstanding += 1
        self.outstanding_bytes += len(delivery.message.payload)

    def _discount(self, delivery: Delivery) -> None:
        if delivery.counted:
            self.outstanding -= 1
            self.outstanding_bytes -= len(delivery.message.payload)

    def release(self, pid: int) -> Delivery | None:
        """PUBREC: what it is about, if there is such a delivery.

        PUBRELs are resent in the order of the PUBRECs [MQTT-4.6.0-4].
        """
        delivery = self.deliveries.get(pid)
        if delivery is None:
            return None
        if delivery.qos != 2:  # [MQTT-4.3.2-3]
            raise _wrong("PUBREC", pid, delivery)
        del self.deliveries[pid]
        self.deliveries[pid] = delivery
        delivery.released = True
        return delivery

    def end(self, pid: int, qos: int) -> Delivery | None:
        """PUBACK or PUBCOMP: what is over now, if there was such a delivery."""
        delivery = self.deliveries.get(pid)
        if delivery is None:
            return None
        if delivery.qos != qos or (qos == 2 and not delivery.released):  # [MQTT-4.3.3-5, -6]
            raise _wrong("PUBACK" if qos == 1 else "PUBCOMP", pid, delivery)
        del self.deliveries[pid]
        self._discount(delivery)
        return delivery

    def drop(self, pid: int) -> None:
        self._discount(self.deliveries.pop(pid))

    # After a reconnect

    def begin_resend(self) -> None:
        """A new connection: nothing of this was sent there."""
        self.outstanding = 0
        self.outstanding_bytes = 0
        for delivery in self.deliveries.values():
            delivery.counted = False
        pids = [pid for pid, delivery in self.deliveries.items() if not delivery.released]
        pids.reverse()  # taken from the end
        self.resend = pids if pids else None

    def next_resend(self) -> int:
        """The packet id to be sent again next, which takes a place; 0: none, or none is free."""
        while self.resend is not None and self.has_place():
            pid = self.resend.pop()
            if not self.resend:
                self.resend = None
            delivery = self.deliveries.get(pid)
            # A client that has the message may say so before it comes again; behind the PUBREL it
            # would be a new one to it [MQTT-4.3.3-6].
            if delivery is not None and not delivery.released:
                self._count(delivery)
                return pid
        return 0

    def take_all(self) -> list[Delivery]:
        """Nothing is in flight any more; what was, in its order."""
        deliveries = list(self.deliveries.values())
        self.deliveries = {}
        return deliveries


def _wrong(kind: str, pid: int, delivery: Delivery) -> ProtocolFault:
    state = "waits for PUBCOMP" if delivery.released else "has no acknowledgement yet"
    return ProtocolFault(
        PROTOCOL_ERROR, f"{kind} for packet id {pid}, a QoS {delivery.qos} message that {state}"
    )
