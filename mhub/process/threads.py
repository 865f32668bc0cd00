"""The reactor's threads, which look up names: a stop does not wait for them.

A look-up takes as long as the system's resolver waits for name servers, half a minute or more, and
cannot be cancelled.  Twisted joins its threads when it stops, and Python once more when it ends.
Nothing of the broker's own is done there.
"""

from functools import partial
from threading import Thread
from typing import Any


def make_daemonic(reactor: Any) -> None:
    """Let the process end while threads are busy; before there are any."""
    reactor.getThreadPool().threadFactory = partial(Thread, daemon=True)


def abandon_busy(reactor: Any) -> None:
    """Let the reactor not wait for them either, if they are; for the end of a stop."""
    if reactor.threadpool is not None and reactor.threadpool.working:
        reactor.removeSystemEventTrigger(reactor.threadpoolShutdownID)
