"""Passwords are checked and hashed here, in threads of their own, of which there are few.

    verify, make, verifier -> queue, one for each address, served in turn -> thread -> Deferred

A check takes some 20 ms of a core, on purpose, and whoever can reach a listener can ask for one.
So no more than `threads` run at a time, with a low priority, and no more than `max_queued` wait;
what is beyond fails with `Busy`.  One address that asks for many only waits behind itself: the
queues are served in turn, and when all places are taken, one is taken from the longest queue.
A Deferred that is cancelled while it waits leaves its queue.
"""

import os
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mhub.auth import hashes
from mhub.auth.addresses import host_of, network_around, parse_address, show_network
from mhub.auth.fair_queue import FairQueue
from mhub.auth.hashes import Costs
from mhub.auth.users import ITERATIONS, make_verifier

T = TypeVar("T")

NICENESS: Final = 10
"""Of the threads: the messages of those who are connected come first."""

IPV6_PREFIX: Final = 64
"""Whoever has one address of such a network can have all of them."""


class Busy(Exception):
    """So many passwords are waiting to be checked that this one is not."""


class Counts(Protocol):
    """Where it is counted: the hub's statistics."""

    passwords_checked: int
    passwords_refused: int


class Workers(Protocol):
    """What runs jobs; `done` is called in the reactor's thread."""

    def run(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None: ...

    def stop(self) -> None: ...


class Threads:
    """Daemons, started when they are first needed: a stop of the broker does not wait for them."""

    def __init__(self, count: int, reactor: Any) -> None:
        self._count = count
        self._reactor = reactor
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Callable[[Any], None]] | None]
        self._jobs = SimpleQueue()
        self._started = False

    def run(self, job: Callable[[], Any], done: Callable[[Any], None]) -> None:
        if not self._started:
            self._started = True
            for number in range(self._count):
                threading.Thread(target=self._work, name=f"passwords-{number}", daemon=True).start()
        self._jobs.put((job, done))

    def stop(self) -> None:
        for _ in range(self._count if self._started else 0):
            self._jobs.put(None)

    def _work(self) -> None:
        try:
            # On Linux that is this thread alone.
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        except OSError:
            pass
        while (task := self._jobs.get()) is not None:
            job, done = task
            try:
                result = job()
            except Exception:
                result = Failure()  # type: ignore[no-untyped-call]
            self._reactor.callFromThread(done, result)


class _Job:
    def __init__(self, work: Callable[[], Any], key: str) -> None:
        self.work = work
        self.key = key
        self.is_running = False
        self.deferred: Deferred[Any] = Deferred()


class Passwords:
    """One for the broker; all calls in the reactor's thread."""

    def __init__(
        self,
        workers: Workers,
        threads: int,
        max_queued: int,
        counts: Counts,
        costs: Costs | None = None,
        scram_iterations: int = ITERATIONS,
    ) -> None:
        self.costs = Costs() if costs is None else costs
        self.scram_iterations = scram_iterations
        self._workers = workers
        self._idle = threads
        self._max_queued = max_queued
        self._counts = counts
        self._queue: FairQueue[_Job] = FairQueue()
        self._stopped = False

    @property
    def waiting(self) -> int:
        return len(self._queue)

    def verify(self, text: str, password: bytes, address: str = "") -> Deferred[bool]:
        """Whether a hash is that of a password.  Fails with Busy or HashError.

        `address` is where the client is, as its principal says; those of one address wait in one
        queue.
        """
        return self._put(lambda: self._matches(text, password), address)

    def make(self, password: bytes, address: str = "") -> Deferred[str]:
        """A new hash."""
        return self._put(lambda: hashes.make(password, self.costs), address)

    def verifier(self, password: str, address: str = "", iterations: int = 0) -> Deferred[str]:
        """What SCRAM needs, with as many iterations as is usual if they are 0.

        Fails with ValueError for a password that SASLprep refuses.
        """
        rounds = iterations or self.scram_iterations
        return self._put(lambda: make_verifier(password, rounds).render(), address)

    def take(self, max_queued: int, costs: Costs, scram_iterations: int) -> None:
        """Go by these settings from now on."""
        self._max_queued = max_queued
        self.costs = costs
        self.scram_iterations = scram_iterations

    def stop(self) -> None:
        self._stopped = True
        for job in self._queue.clear():
            job.deferred.cancel()
        self._workers.stop()

    def _matches(self, text: str, password: bytes) -> bool:
        return hashes.matches(text, password)

    def _put(self, work: Callable[[], Any], address: str) -> Deferred[Any]:
        job = _Job(work, queue_of(address))
        job.deferred = Deferred(lambda _: self._cancelled(job))
        if self._stopped:
            job.deferred.errback(Failure(Busy("the broker is stopping")))  # type: ignore[no-untyped-call]
            return job.deferred
        deferred = job.deferred
        if self._idle:
            self._run(job)
            return deferred
        if self.waiting >= self._max_queued:
            other = self._queue.give_way(job.key)
            self._refuse(job if other is None else other)
            if other is None:
                return deferred
        self._queue.put(job.key, job)
        return deferred

    def _refuse(self, job: _Job) -> None:
        self._counts.passwords_refused += 1
        text = "too many passwords are waiting to be checked"
        job.deferred.errback(Failure(Busy(text)))  # type: ignore[no-untyped-call]

    def _cancelled(self, job: _Job) -> None:
        self._queue.remove(job.key, job)

    def _run(self, job: _Job) -> None:
        self._idle -= 1
        job.is_running = True
        self._counts.passwords_checked += 1
        self._workers.run(job.work, lambda result: self._done(job, result))

    def _done(self, job: _Job, result: Any) -> None:
        self._idle += 1
        if self._queue:
            self._run(self._queue.pop())
        if not job.deferred.called:
            job.deferred.callback(result)


def queue_of(address: str) -> str:
    """The host of an address without its port; of IPv6 the network, which one host may have."""
    host = host_of(address)
    found = parse_address(host)
    return host if found is None else show_network(network_around(found, IPV6_PREFIX))
