"""The reactor and the loop that serves its sockets: neither waits while the other has work."""

import select
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from mhub.net.service import Turns


class Reactor:
    """As much of one as a loop needs."""

    def __init__(self) -> None:
        self._poller = select.epoll()
        self.threadCallQueue: list[Callable[[], None]] = []
        self.readers = 0
        self.woken = 0
        self.later: Callable[[], None] | None = None

    def wakeUp(self) -> None:
        self.woken += 1

    def callLater(self, delay_s: float, call: Callable[[], None]) -> None:
        self.later = call

    def timeout(self) -> float:
        return 7.0

    def addReader(self, reader: Turns) -> None:
        self.readers += 1

    def removeReader(self, reader: Turns) -> None:
        self.readers -= 1


class Hub:
    def __init__(self) -> None:
        self.unfinished: list[str] = []

    def is_unfinished(self) -> bool:
        return bool(self.unfinished)


class Loop:
    """Says how long it would have waited."""

    def __init__(self) -> None:
        self.hub = Hub()
        self.epoll = select.epoll()
        self.waits: list[float | None] = []

    def serve(self, other_fd: int, patience: Callable[[], float | None], others: object) -> None:
        self.waits.append(patience())


class Patience(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Reactor()
        self.loop = Loop()
        self.addCleanup(self.reactor._poller.close)
        self.addCleanup(self.loop.epoll.close)
        self.turns = Turns(self.loop, self.reactor)  # type: ignore[arg-type]

    def test_until_a_timer_is_due(self) -> None:
        self.turns.doRead()
        self.assertEqual(self.loop.waits, [7.0])

    def test_not_if_a_thread_has_called(self) -> None:
        """The wake-up was read together with our events: it does not come again."""
        self.reactor.threadCallQueue.append(lambda: None)
        self.turns.doRead()
        self.assertEqual(self.loop.waits, [0.0])

    def test_a_call_of_a_thread_that_came_meanwhile_is_not_left_to_the_next_timer(self) -> None:
        """Within a timed call: those of threads were made before, and the wake-up is read."""
        self.turns.go_on_soon()
        self.loop.serve = self.calls  # type: ignore[method-assign]
        self.run_later()
        self.assertEqual(self.reactor.woken, 1)

    def calls(self, *args: object) -> None:
        self.reactor.threadCallQueue.append(lambda: None)

    def test_without_one_nobody_is_woken(self) -> None:
        self.turns.go_on_soon()
        self.run_later()
        self.assertEqual(self.reactor.woken, 0)

    def run_later(self) -> None:
        assert self.reactor.later is not None
        self.reactor.later()

    def test_what_is_unfinished_when_the_reactor_goes_on_does_not_wait_for_a_tick(self) -> None:
        """A timed call of others was due, say; no socket has anything to read."""
        self.loop.hub.unfinished.append("a queue that was sent one portion of")
        self.turns.doRead()
        self.run_later()
        self.assertEqual(len(self.loop.waits), 2)

    def test_with_nothing_unfinished_the_next_event_is_waited_for(self) -> None:
        self.turns.doRead()
        self.assertIsNone(self.reactor.later)

    def test_the_two_epolls_do_not_watch_each_other(self) -> None:
        found = []
        self.loop.serve = lambda *args: found.append(self.reactor.readers)  # type: ignore
        self.turns.doRead()
        self.assertEqual((found, self.reactor.readers), ([-1], 0))
