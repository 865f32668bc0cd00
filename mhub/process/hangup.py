"""SIGHUP: the configuration is read again, and the file of the log opened again.

One that comes during the start is remembered, and done when the broker runs.
"""

from collections.abc import Callable
from typing import Any, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from mhub.log import logger
from mhub.operations.contract import OperationError
from mhub.operations.steering import Reloaded


class Steering(Protocol):
    async def reload(self) -> Reloaded: ...


class Hangup:
    def __init__(
        self,
        file: str,
        steering: Steering,
        reopen: Callable[[], None],
        is_starting: Callable[[], bool],
        reactor: Any,
    ) -> None:
        """`file` is the configuration, or ""; reopen() opens the file of the log again."""
        self._what = f"{file} and certificates" if file else "files"
        self._steering = steering
        self._reopen = reopen
        self._is_starting = is_starting
        self._reactor = reactor
        self._log = logger("broker")
        self._is_wanted = False  # as soon as the broker has started

    def on_signal(self) -> None:
        self._reactor.callFromThread(self._begin)

    async def started(self) -> None:
        """Do what was wanted during the start."""
        if self._is_wanted:
            await self._reload()

    def _begin(self) -> None:
        self._reopen()  # whatever becomes of the rest: somebody may have moved the file
        Deferred.fromCoroutine(self._reload()).addErrback(self._failed)

    async def _reload(self) -> None:
        self._log.info("SIGHUP: reading {what} again", what=self._what)
        self._is_wanted = self._is_starting()
        if self._is_wanted:
            return
        try:
            await self._steering.reload()
        except OperationError:
            pass  # the log has it

    def _failed(self, failure: Failure) -> None:
        self._log.failure("a defect in mhub, please report it; it hit a reload", failure)
