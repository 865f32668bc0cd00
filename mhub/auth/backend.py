"""What stands between clients that log in and a server that is asked about them.

A server that is slow or gone must cost the broker nothing but the logins that need it.  So there
are never more than `max_concurrent` questions under way and `max_waiting` behind them, in queues by
the address of the client, so that whoever guesses passwords waits behind itself.  Each client has
its answer after `timeout_s` at the latest, and a server that does not answer is left alone:

    CLOSED      questions are asked; `breaker_failures` failures in a row open the circuit
    OPEN        no question is asked: all fail at once, until `breaker_pause_s` have passed
    HALF_OPEN   one question, the probe, is asked; others fail at once.  Its answer closes the
                circuit, its failure opens it again

    CLOSED -- failures --> OPEN -- pause, next question --> HALF_OPEN -- answer --> CLOSED
                             ^------------ failure ------------'

What is a failure: a question that raises, or that has no answer when `timeout_s` are over.  It is
none if the question spent most of that in the queue: the server was asked late, or not at all.
Clients must not be able to open the circuit: what a server refuses because of what the client has
sent is an answer (`no`).

A client that goes away takes its question out of the queue; one that is under way runs on, as
to cut it can cost a connection to the server, which anybody could then do at will.

The log tells of changes, never of clients: that the server does not answer, that it does again,
that the queue is full.  The numbers are in `Stats`.
"""

from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from twisted.internet.defer import Deferred, fail
from twisted.python.failure import Failure

from mhub.auth.fair_queue import FairQueue
from mhub.auth.passwords import queue_of
from mhub.core.stats import Stats
from mhub.log import logger

T = TypeVar("T")

CLOSED: Final = "closed"
OPEN: Final = "open"
HALF_OPEN: Final = "half-open"

MAX_TEXT: Final = 200

_log = logger("auth")


class Unavailable(Exception):
    """The server was not asked, or did not answer: nothing is known about the client."""


class Bounds:
    """What a back end may take.  The settings of a source have the same names."""

    timeout_s = 5.0
    max_concurrent = 8
    max_waiting = 1000
    breaker_failures = 5
    breaker_pause_s = 5.0


class _Question(Generic[T]):
    def __init__(self, ask: Callable[[], "Deferred[T]"], key: str) -> None:
        self.ask = ask
        self.key = key  # of its queue
        self.answer: Deferred[T] = Deferred()
        self.asked: Deferred[T] | None = None  # the call, once it is under way
        self.timer: Any = None
        self.began_at = 0.0
        self.is_probe = False
        self.is_late = False  # it was under way for too long, which has been counted
        self.is_over = False  # its client has an answer, or has gone


class Backend:
    """`reactor` has the timers, `clock` the time; `bounds` has what Bounds has."""

    def __init__(
        self, name: str, bounds: Any, reactor: Any, clock: Callable[[], float], stats: Stats
    ) -> None:
        self.name = name
        self.state = CLOSED
        self._bounds = bounds
        self._reactor = reactor
        self._clock = clock
        self._stats = stats
        self._waiting: FairQueue[_Question[Any]] = FairQueue()
        self._running: set[_Question[Any]] = set()
        self._failures = 0  # in a row
        self._opened_at = 0.0
        self._probe_at = 0.0
        self._rejected = 0  # since the circuit opened, or the queue was full
        self._is_full = False
        self._is_draining = False
        self._is_stopped = False

    @property
    def running(self) -> int:
        return len(self._running)

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def ask(self, ask: Callable[[], "Deferred[T]"], address: str = "") -> "Deferred[T]":
        """What `ask()` comes to; fails with Unavailable.  `ask` is called now, later, or never.

        `address` is where the client is; those of one address wait in one queue.
        The Deferred of `ask()` is cancelled when it takes too long, and counts as under way until
        it fires: one that cannot be cut keeps its place among `max_concurrent`.
        """
        question: _Question[T] = _Question(ask, queue_of(address))
        question.answer = Deferred(lambda _: self._abandon(question))
        refusal = self._refusal(question)
        if refusal:
            self._reject(question, refusal)
            return question.answer
        question.timer = self._reactor.callLater(self._bounds.timeout_s, self._late, question)
        if self._has_room():
            self._begin(question)
        else:
            self._waiting.put(question.key, question)
        return question.answer

    def stop(self) -> None:
        """Nobody is asked any more; what is under way is cut."""
        self._is_stopped = True
        for question in [*self._waiting.clear(), *self._running]:
            self._forget_timer(question)
            self._end(question, Unavailable(f"{self.name} is being stopped"))
        for question in list(self._running):
            if question.asked is not None:
                question.asked.cancel()

    def _has_room(self) -> bool:
        return len(self._running) < int(self._bounds.max_concurrent)

    def _refusal(self, question: _Question[Any]) -> str:
        """Why a question is not even queued; "": it is."""
        if self._is_stopped:
            return f"{self.name} is being stopped"
        if self.state == OPEN and self._clock() >= self._probe_at and self._has_room():
            self.state = HALF_OPEN
            question.is_probe = True
            return ""
        if self.state != CLOSED:
            return f"{self.name} does not answer"
        if self._has_room() or len(self._waiting) < self._bounds.max_waiting:
            return ""
        if not self._is_full:
            self._is_full = True
            self._rejected = 0
            _log.warn(
                "{name}: {count} clients wait to be authenticated, as many as may wait"
                " (max_waiting): more are refused",
                name=self.name,
                count=len(self._waiting),
            )
        text = f"too many clients wait for {self.name}"
        other = self._waiting.give_way(question.key)
        if other is None:
            return text
        self._forget_timer(other)
        self._reject(other, text)
        return ""

    def _reject(self, question: _Question[Any], text: str) -> None:
        self._stats.auth_backend_rejected += 1
        self._rejected += 1
        self._end(question, Unavailable(text))

    def _begin(self, question: _Question[Any]) -> None:
        self._running.add(question)
        question.began_at = self._clock()
        try:
            asked = question.ask()
        except Exception:
            asked = fail()
        question.asked = asked
        asked.addCallbacks(
            self._answered, self._failed, callbackArgs=(question,), errbackArgs=(question,)
        )

    def _answered(self, answer: Any, question: _Question[Any]) -> None:
        self._finish(question)
        if not question.is_late:
            self._stats.auth_backend_answers += 1
            self._failures = 0
            if question.is_probe:
                self._close()
        self._end(question, answer)
        self._drain()

    def _failed(self, failure: Failure, question: _Question[Any]) -> None:
        self._finish(question)
        text = plain(str(failure.value) or type(failure.value).__name__)
        if not question.is_late and not self._is_stopped:
            self._count_failure(question, text)
        self._end(question, Unavailable(f"{self.name}: {text}"))
        self._drain()

    def _late(self, question: _Question[Any]) -> None:
        self._stats.auth_backend_timeouts += 1
        within = f"within {self._bounds.timeout_s:g} s"
        if question.asked is None:
            self._waiting.remove(question.key, question)
            self._end(question, Unavailable(f"{self.name}: no turn {within}"))
            self._drain()
            return
        question.is_late = True
        text = f"no answer {within}"
        if 2 * (self._clock() - question.began_at) >= self._bounds.timeout_s:
            self._count_failure(question, text)
        # Cut before the client is told: its next question must not go where this one hangs.
        was_over, question.is_over = question.is_over, True
        question.asked.cancel()
        question.is_over = was_over
        self._end(question, Unavailable(f"{self.name}: {text}"))

    def _abandon(self, question: _Question[Any]) -> None:
        """The client has gone; its Deferred fails with CancelledError by itself."""
        question.is_over = True
        if self._waiting.remove(question.key, question):
            self._forget_timer(question)
            self._drain()

    def _finish(self, question: _Question[Any]) -> None:
        self._running.discard(question)
        self._forget_timer(question)

    def _forget_timer(self, question: _Question[Any]) -> None:
        if question.timer is not None and question.timer.active():
            question.timer.cancel()

    def _end(self, question: _Question[Any], answer: Any) -> None:
        if question.is_over:
            return
        question.is_over = True
        if isinstance(answer, Unavailable):
            question.answer.errback(answer)
        else:
            question.answer.callback(answer)

    def _drain(self) -> None:
        # A question that is answered at once comes back here: a loop, as the queue can be long.
        if self._is_draining:
            return
        self._is_draining = True
        while self._waiting and self._has_room():
            self._begin(self._waiting.pop())
        self._is_draining = False
        if self._is_full and not self._waiting:
            self._is_full = False
            if self.state == CLOSED:
                _log.info(
                    "{name}: no client waits any more; {count} were refused",
                    name=self.name,
                    count=self._rejected,
                )

    def _count_failure(self, question: _Question[Any], text: str) -> None:
        self._stats.auth_backend_failures += 1
        self._failures += 1
        if question.is_probe:
            self.state = OPEN
            self._probe_at = self._clock() + self._bounds.breaker_pause_s
        elif self.state == CLOSED and self._failures >= self._bounds.breaker_failures:
            self._open(text)

    def _open(self, text: str) -> None:
        self.state = OPEN
        self._opened_at = self._clock()
        self._probe_at = self._opened_at + self._bounds.breaker_pause_s
        self._rejected = 0
        _log.warn(
            "{name} does not answer: {text}. Clients that need it are refused; it is tried again"
            " every {pause_s:g} s",
            name=self.name,
            text=text,
            pause_s=self._bounds.breaker_pause_s,
        )
        for question in self._waiting.clear():
            self._forget_timer(question)
            self._reject(question, f"{self.name} does not answer")

    def _close(self) -> None:
        self.state = CLOSED
        _log.info(
            "{name} answers again, after {seconds:.0f} s; {count} clients were refused meanwhile",
            name=self.name,
            seconds=self._clock() - self._opened_at,
            count=self._rejected,
        )


def plain(text: str) -> str:
    """Text from outside for a log: on one line, nothing that a terminal obeys, bounded."""
    short = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in short)
