"""The thread that a database has to itself: one job after the other, results come by the reactor.

It knows nothing of what the jobs do, but for their errors, which it makes readable.
"""

from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from twisted.internet.defer import Deferred

from mhub.store.sqlite_errors import explained

T = TypeVar("T")


class Worker:
    """A thread that does one job after the other."""

    def __init__(self, reactor: Any, path: str) -> None:
        self._reactor = reactor
        self._path = path
        self._jobs: SimpleQueue[
            tuple[Deferred[Any] | None, Callable[..., Any], tuple[Any, ...]] | None
        ]
        self._jobs = SimpleQueue()
        # A daemon: a process that ends without close() is not to wait for it.
        self._thread = Thread(target=self._work, name="mhub-sqlite", daemon=True)
        self._thread.start()

    def call(self, function: Callable[..., T], *values: Any) -> Deferred[T]:
        result: Deferred[T] = Deferred()
        self._jobs.put((result, function, values))
        return result

    def post(self, function: Callable[[], None]) -> None:
        """Do this when its turn comes; nobody waits for it, and it handles its errors."""
        self._jobs.put((None, function, ()))

    def end(self) -> None:
        """What was asked for is done before; there is nothing left then, so this does not wait."""
        self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            result, function, values = job
            try:
                found = function(*values)
            except Exception as error:
                problem = explained(error, self._path)
                if result is not None:
                    self._reactor.callFromThread(result.errback, problem)
            else:
                if result is not None:
                    self._reactor.callFromThread(result.callback, found)
            # Whoever waits for the next job is not to keep this one's rows in memory.
            del job, result, function, values
