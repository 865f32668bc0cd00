"""The reactor and the loop that serves its sockets: neither waits while the other has work."""

import os
import select
from collections.abc import Callable

from twisted.trial.unittest import SynchronousTestCase

from mhub.net.service import Turns


class Reactor:
    """As much of one as a loop needs."""

    def __init__(self) -> None:
        self._poller = select.epoll()
        self.threadCallQueue: list[Callable[[], None]] = []
        self.woken = 0
        self.later: Callable[[], None] | None = None

    def wakeUp(self) -> None:
        self.woken += 1

    def callLater(self, delay_s: float, call: Callable[[], None]) -> None:
        self.later = call

    def timeout(self) -> float:
        return 7.0

    def addReader(self, reader: Turns) -> None:
        self._poller.register(reader.fileno(), select.EPOLLIN)

    def removeReader(self, reader: Turns) -> None:
        self._poller.unregister(reader.fileno())


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

    def watch(self, fd: int) -> None:
        self.epoll.register(fd, select.EPOLLIN)

    def serve(self, patience: Callable[[], float | None], others: object) -> None:
        self.waits.append(patience())


class Patience(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Reactor()
        self.loop = Loop()
        self.addCleanup(self.reactor._poller.close)
        self.addCleanup(self.loop.epoll.close)
        self.turns = Turns(self.loop, self.reactor)  # type: ignore[arg-type]
        self.reactor.addReader(self.turns)

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

    def test_the_reactor_has_nothing_to_do_but_to_hand_over(self) -> None:
        """It has a reader that is always ready, and not while the loop serves its sockets."""
        self.assertEqual(self.ready(self.reactor._poller), [self.turns.fileno()])
        found = []
        self.loop.serve = lambda *args: found.append(  # type: ignore[method-assign]
            self.ready(self.reactor._poller)
        )
        self.turns.doRead()
        self.assertEqual(found, [[]])
        self.assertEqual(self.ready(self.reactor._poller), [self.turns.fileno()])

    def test_the_loop_sees_what_the_reactor_has_to_do(self) -> None:
        reader, writer = os.pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        self.reactor._poller.register(reader, select.EPOLLIN)
        found = []
        self.loop.serve = lambda *args: found.append(  # type: ignore[method-assign]
            self.ready(self.loop.epoll)
        )
        self.turns.doRead()
        os.write(writer, b"!")
        self.turns.doRead()
        self.assertEqual(found, [[], [self.reactor._poller.fileno()]])

    def test_close(self) -> None:
        fd = self.turns.fileno()
        self.turns.close()
        self.assertEqual(self.ready(self.reactor._poller), [])
        self.assertRaises(OSError, os.fstat, fd)

    @staticmethod
    def ready(epoll: select.epoll) -> list[int]:
        return [fd for fd, _ in epoll.poll(0)]


class WithoutEpoll(SynchronousTestCase):
    def test_the_reactor_watches_the_loop(self) -> None:
        loop = Loop()
        self.addCleanup(loop.epoll.close)
        turns = Turns(loop, object())  # type: ignore[arg-type]
        self.assertEqual(turns.fileno(), loop.epoll.fileno())
