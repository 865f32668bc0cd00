"""What somebody outside of MQTT was promised: an operator whose change has to be durable.

A client is told by a deferred frame of its connection; here a function is called instead.  The
flush that ends each turn looks whether what a promise waits for has come.
"""

from collections.abc import Callable

from mhub.core.events import Events
from mhub.core.journal import AckTracker


class Promise:
    def __init__(self, after: int, trackers: list[AckTracker], on_safe: Callable[[], None]) -> None:
        self.after = after  # the number of a batch
        self.trackers = trackers
        self.on_safe = on_safe

    def is_safe(self, durable: int) -> bool:
        return self.after <= durable and all(each.free(durable) for each in self.trackers)


class Promises:
    def __init__(self) -> None:
        self.waiting: list[Promise] = []

    def release(self, durable: int, events: Events) -> None:
        """Tell those whose wait is over."""
        safe = [each for each in self.waiting if each.is_safe(durable)]
        if not safe:
            return
        self.waiting = [each for each in self.waiting if not each.is_safe(durable)]
        for promise in safe:
            try:
                promise.on_safe()
            except Exception as error:
                events.crashed("who waits for a change to be durable", error)
