"""The loop as a Twisted service: the reactor's side of it, start, reload and stop.

The reactor watches one descriptor, the loop's epoll, which is readable when any of its sockets is.
Then the two change places: the loop serves its sockets turn after turn and watches the reactor's
epoll.  When that is readable, the reactor's own sockets (links to other nodes, HTTP) are served in
between; when a timed call is due or another thread has called, the reactor goes on.  A message that
comes alone so costs no more of Twisted's bookkeeping than one of a thousand, and 0.7 to 0.8 of the
CPU that it costs with a turn of the reactor for each (docs/performance.md).  A reactor without an
epoll of its own gets a turn at a time.
"""

import select
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import LoopingCall, deferLater
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.config import ListenerSettings, Settings
from mhub.config.settings import WEB
from mhub.core.hub import Hub
from mhub.core.timers import SLOTS_PER_SECOND
from mhub.log import logger
from mhub.net.listen import acceptor
from mhub.net.loop import Acceptor, Loop
from mhub.net.strangers import Strangers
from mhub.net.tls import TlsContexts, TlsError
from mhub.operations.contract import ListenerStatus


@implementer(IReadDescriptor)
class Turns:
    """The descriptor that the reactor watches."""

    def __init__(self, loop: Loop, reactor: Any) -> None:
        self._loop = loop
        self._fileno = loop.epoll.fileno()
        self._reactor = reactor
        self._continuing = False

    def fileno(self) -> int:
        return self._fileno

    def doRead(self) -> None:
        # Twisted has no public name for it.
        poller = getattr(self._reactor, "_poller", None)
        if isinstance(poller, select.epoll):
            # Two epolls must not watch each other.
            self._reactor.removeReader(self)
            try:
                self._loop.serve(poller.fileno(), self._patience, self._others)
            finally:
                if not self._loop.epoll.closed:
                    self._reactor.addReader(self)
                    # The reactor was let go on in the midst of it.  No socket need have anything to
                    # read: what was put off would wait for the next tick.
                    if self._loop.hub.is_unfinished():
                        self.go_on_soon()
        elif self._loop.turn():
            self.go_on_soon()

    def _patience(self) -> float | None:
        """In how many seconds the reactor has something to do.

        Calls of threads make its epoll readable once.  If that was read in the same round as our
        own events, before we were served, nothing would tell of them until the next timer.
        """
        if self._reactor.threadCallQueue:
            return 0.0
        timeout: float | None = self._reactor.timeout()
        return timeout

    def _others(self) -> bool:
        """Serve the reactor's own sockets; whether it has more to do than that."""
        reactor = self._reactor
        reactor.doIteration(0)
        # A signal is a call from a thread, too.  Of a stop by others Twisted has no public name.
        return bool(reactor.threadCallQueue) or reactor._stopped

    def go_on_soon(self) -> None:
        if not self._continuing:
            self._continuing = True
            self._reactor.callLater(0, self._go_on)

    def _go_on(self) -> None:
        self._continuing = False
        if not self._loop.epoll.closed:
            self.doRead()
        if self._reactor.threadCallQueue:
            # It has made its calls of threads before its timed ones, of which this is one.  What
            # woke it for those that came meanwhile was read by us.
            self._reactor.wakeUp()

    def logPrefix(self) -> str:
        return "mhub"

    def connectionLost(self, reason: Failure) -> None:
        """The reactor is being stopped."""


class NetService(Service):
    name = "net"

    def __init__(
        self,
        settings: Settings,
        hub: Hub,
        reactor: Any,
        clock: Callable[[], float],
    ) -> None:
        self._settings = settings
        self._hub = hub
        self._strangers = Strangers(settings.listeners)
        self._reactor = reactor
        self._log = logger("net")
        self.loop = Loop(hub, clock, self._strangers.describe)
        self.loop.max_connections = settings.broker.max_connections
        self.loop.accepts_per_turn = settings.net.accepts_per_turn
        self._turns = Turns(self.loop, reactor)
        self._ticks = LoopingCall(self._tick)
        self._ticks.clock = reactor
        self._tls: dict[str, TlsContexts] = {}
        self._bound: list[tuple[ListenerSettings, Acceptor]] = []
        self._opened: list[tuple[ListenerSettings, Acceptor]] = []  # with the ports that they got
        self.is_open = False

    def privilegedStartService(self) -> None:
        """Bind the listeners, while the process may still bind what only root may."""
        for listener in self._settings.listeners:
            tls = TlsContexts(listener.tls) if listener.tls is not None else None
            if tls is not None:
                self._tls[listener.name] = tls
            self._bound.append((listener, acceptor(listener, tls)))

    def open(self) -> None:
        """Let clients in."""
        self._hub.publish_due_wills(self.loop.clock())
        self._ticks.start(1.0 / SLOTS_PER_SECOND, now=True)
        self._reactor.addReader(self._turns)
        for listener, bound in self._bound:
            self.loop.listen(bound)
            if listener.transport != "unix":
                listener = replace(listener, port=bound.listener.getsockname()[1])
            self._opened.append((listener, bound))
            self._log.info(
                "listening on {address} ({name})", address=listener.address, name=listener.name
            )
        self._strangers.listeners = [listener for listener, _ in self._opened]
        self.is_open = True

    def listeners(self) -> list[ListenerStatus]:
        """Those that are open."""
        return [
            ListenerStatus(
                listener.name,
                listener.address,
                bound.connections,
                bound.max_connections,
                bound.accepted,
            )
            for listener, bound in self._opened
        ]

    def web_listeners(self) -> list[ListenerSettings]:
        """Those that are open to WebSockets, with the ports that they got."""
        return [listener for listener, _ in self._opened if listener.transport in WEB]

    def close_listeners(self) -> None:
        """Nobody new; those who are here stay."""
        self.loop.stop_listening()

    def wake(self) -> None:
        """Go on with what earlier turns put off, without an event on any socket."""
        if self._hub.is_unfinished():
            self._turns.go_on_soon()

    def _tick(self) -> None:
        self.loop.measure()
        self.loop.tick()
        self.wake()

    def reload_certificates(self, listeners: Sequence[ListenerSettings]) -> None:
        """Read all certificates again; connections that are there stay as they are.

        `listeners` are those of this service, whose certificates may be in other files now.
        """
        wanted = {listener.name: listener.tls for listener in listeners}
        for name, tls in self._tls.items():
            try:
                tls.reload(wanted.get(name))
            except TlsError as error:
                self._log.error(
                    "{name}: certificates not reloaded: {error}", name=name, error=error
                )
            else:
                self._log.info("{name}: certificates reloaded", name=name)

    async def _stop(self) -> None:
        loop = self.loop
        deadline = self._reactor.seconds() + self._settings.net.shutdown_timeout_s
        loop.stop_listening()
        for _, bound in self._bound:
            bound.listener.close()
        for listener in self._settings.listeners:
            if listener.transport == "unix":
                Path(listener.path).unlink(missing_ok=True)
        self._hub.shut_down(loop.clock())
        while loop.links and self._reactor.seconds() < deadline:
            await deferLater(self._reactor, 0.02)
        self._reactor.removeReader(self._turns)
        if self._ticks.running:
            self._ticks.stop()
        loop.close()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return Deferred.fromCoroutine(self._stop())
