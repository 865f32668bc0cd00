"""SIGTERM, SIGINT and SIGHUP, from the first moment of a start to the end of the process.

Before the reactor runs nothing can be stopped in good order, and the default of each of these
signals would end the process in the middle of something, SIGINT with a traceback.  So what comes
early is remembered, and served when the broker can: `serve()`.

    SIGTERM, SIGINT   stop; the second one of a kind ends the process at once, as the system does it
    SIGHUP            reload

The handlers run between any two instructions of the main thread: they only note and call what
`serve()` was given, which must hand over to the reactor (callFromThread).
"""

import signal
from collections.abc import Callable


class Signals:
    def __init__(self) -> None:
        self.stopped_by = ""  # the name of the first signal that did
        self._hung_up = False
        self._stop: Callable[[str], None] | None = None
        self._reload: Callable[[], None] | None = None

    def catch(self) -> None:
        """Take over the handlers; again, after somebody else did."""
        signal.signal(signal.SIGHUP, self._on_hangup)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_stop)

    def serve(self, stop: Callable[[str], None], reload: Callable[[], None]) -> None:
        """Call these from now on, at once for what came before; `stop` gets the signal's name."""
        self._stop = stop
        self._reload = reload
        if self.stopped_by:
            stop(self.stopped_by)
        elif self._hung_up:
            reload()

    def _on_stop(self, number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if self.stopped_by:
            return
        self.stopped_by = signal.Signals(number).name
        if self._stop is not None:
            self._stop(self.stopped_by)

    def _on_hangup(self, number: int, frame: object) -> None:
        self._hung_up = True
        if self._reload is not None:
            self._reload()
