"""The loop as a Twisted service: the reactor's side of it, start, reload and stop.

The loop's epoll watches the reactor's epoll, and the reactor has a reader that is always ready: so
whenever it has done what it had to do, it hands over, and the loop serves its sockets turn after
turn.  When the reactor's epoll is readable, the reactor's own sockets (links to other nodes, HTTP)
are served in between; when a timed call is due or another thread has called, the reactor goes on.
A message that comes alone so costs no more of Twisted's bookkeeping than one of a thousand, and 0.7
to 0.8 of the CPU that it costs with a turn of the reactor for each (docs/performance.md).

The reactor does not watch the loop's epoll: to put it into the reactor's costs the kernel 0.25 us
for each descriptor that is in it, 2.5 ms with 10,000 clients, and it had to be put there anew
whenever a timed call had been due.  A reactor without an epoll of its own watches it all the time,
and gets a turn at a time.  There can be one loop in a process.
"""

import os
import select
from collections.abc import Callable
from typing import Any

from twisted.application.service import Service
from twisted.internet.defer import Deferred
from twisted.internet.interfaces import IReadDescriptor
from twisted.internet.task import LoopingCall, deferLater
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.config import Settings
from mhub.config.settings import WEB
from mhub.core.hub import Hub
from mhub.core.timers import SLOTS_PER_SECOND
from mhub.log import logger
from mhub.net.entries import Dismissals, Entry
from mhub.net.listen import ListenError, acceptor, bind
from mhub.net.loop import Loop
from mhub.net.reload import ListenersPart
from mhub.net.strangers import Strangers
from mhub.net.tls import TlsContexts
from mhub.operations.contract import ListenerStatus, NotThere, OperationError
from mhub.operations.steering import ListenerDetail


@implementer(IReadDescriptor)
class Turns:
    """The descriptor that the reactor watches."""

    def __init__(self, loop: Loop, reactor: Any) -> None:
        self._loop = loop
        self._reactor = reactor
        self._continuing = False
        self._always_ready = -1
        # Twisted has no public name for it.
        poller = getattr(reactor, "_poller", None)
        if isinstance(poller, select.epoll):
            loop.watch(poller.fileno())
            self._always_ready = os.eventfd(1)

    def fileno(self) -> int:
        return self._always_ready if self._always_ready >= 0 else self._loop.epoll.fileno()

    def doRead(self) -> None:
        if self._always_ready >= 0:
            # Or the loop would find that the reactor has something to do, all the time.
            self._reactor.removeReader(self)
            try:
                self._loop.serve(self._patience, self._others)
            finally:
                if not self._loop.epoll.closed:
                    self._reactor.addReader(self)
                    # The reactor was let go on in the midst of it.  No socket need have anything to
                    # read: what was put off would wait for the next tick.
                    if self._loop.hub.is_unfinished():
                        self.go_on_soon()
        elif self._loop.turn():
            self.go_on_soon()

    def close(self) -> None:
        """No more turns."""
        self._reactor.removeReader(self)
        if self._always_ready >= 0:
            os.close(self._always_ready)
            self._always_ready = -1

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
        self._entries: dict[str, Entry] = {}  # by name, in the order of the file
        self._dismissals = Dismissals(reactor, self._settle)
        self.part = ListenersPart(
            self.loop, hub, lambda: self._entries, self._replaced, self._dismissals
        )
        self.is_open = False

    def privilegedStartService(self) -> None:
        """Bind the listeners, while the process may still bind what only root may."""
        for listener in self._settings.listeners:
            tls = TlsContexts(listener.tls) if listener.tls is not None else None
            self._entries[listener.name] = Entry(listener, acceptor(listener, tls), tls)

    def open(self) -> None:
        """Let clients in."""
        self._hub.publish_due_wills(self.loop.clock())
        self._ticks.start(1.0 / SLOTS_PER_SECOND, now=True)
        self._reactor.addReader(self._turns)
        for entry in self._entries.values():
            self.loop.listen(entry.acceptor)
            entry.is_open = True
            self._say_open(entry)
        self._replaced(self._entries)
        self.is_open = True

    def _say_open(self, entry: Entry) -> None:
        shown = entry.shown
        self._log.info("listening on {address} ({name})", address=shown.address, name=shown.name)

    def _replaced(self, entries: dict[str, Entry]) -> None:
        self._entries = entries
        self._strangers.listeners = [each.shown for each in entries.values() if each.is_open]

    def _settle(self) -> None:
        self._hub.flush()
        self.wake()

    def set_limits(self, settings: Settings) -> None:
        """Of a reload: what is not about one listener."""
        self._settings = settings
        self.loop.max_connections = settings.broker.max_connections
        self.loop.accepts_per_turn = settings.net.accepts_per_turn

    def listeners(self) -> list[ListenerStatus]:
        """Those that are open."""
        return [each.status() for each in self._entries.values() if each.is_open]

    def listener_details(self) -> list[ListenerDetail]:
        return [each.detail() for each in self._entries.values()]

    def listener_open(self, name: str) -> ListenerDetail:
        """Let clients in again.  Raises NotThere, and OperationError if the address is taken."""
        entry = self._entry(name)
        if entry.is_open:
            return entry.detail()
        try:
            sock = bind(entry.settings)
        except ListenError as error:
            raise OperationError(str(error)) from error
        entry.acceptor.listener = sock
        try:
            self.loop.listen(entry.acceptor)
        except OSError as error:
            entry.close_socket()
            raise OperationError(f"listener {name}: {error.strerror}") from error
        entry.is_open = True
        entry.was_closed = False
        self._say_open(entry)
        self._replaced(self._entries)
        return entry.detail()

    def listener_close(self, name: str, disconnect: bool) -> ListenerDetail:
        """No new clients; those that are connected stay, or are told 0x98, with their sessions
        kept.  Raises NotThere."""
        entry = self._entry(name)
        if entry.is_open:
            self.loop.withdraw(entry.acceptor)
            address = entry.shown.address
            entry.close_socket()
            entry.is_open = False
            entry.was_closed = True
            self._log.info("closed {address} ({name})", address=address, name=name)
            self._replaced(self._entries)
        if disconnect:
            text = "its listener was closed by an operator"
            self._dismissals.add(self.loop.links_of(entry.acceptor), text)
        return entry.detail()

    def _entry(self, name: str) -> Entry:
        entry = self._entries.get(name)
        if entry is None:
            names = ", ".join(self._entries)
            raise NotThere(f'there is no listener "{name}"; there are: {names}')
        if not self.is_open or self._hub.stopping or self._hub.redirect is not None:
            raise OperationError("the broker is starting, leaving or stopping")
        return entry

    def web_sockets(self, host: str) -> list[str]:
        """Where a page that came from this host finds MQTT."""
        found = [each.shown for each in self._entries.values() if each.is_open and host]
        return [f"{each.transport}://{host}:{each.port}" for each in found if each.transport in WEB]

    def close_listeners(self) -> None:
        """Nobody new; those who are here stay."""
        for entry in self._entries.values():
            self.loop.withdraw(entry.acceptor)
            entry.close_socket()
            entry.is_open = False

    def wake(self) -> None:
        """Go on with what earlier turns put off, without an event on any socket."""
        if self._hub.is_unfinished():
            self._turns.go_on_soon()

    def turn(self) -> None:
        """Serve the sockets that have something.  Only for who is called by the reactor itself."""
        if self.is_open and not self.loop.epoll.closed and self.loop.turn():
            self._turns.go_on_soon()

    def _tick(self) -> None:
        self.loop.measure()
        self.loop.tick()
        self.wake()

    async def _stop(self) -> None:
        loop = self.loop
        deadline = self._reactor.seconds() + self._settings.net.shutdown_timeout_s
        self.close_listeners()
        self._dismissals.stop()
        self._hub.shut_down(loop.clock())
        while loop.links and self._reactor.seconds() < deadline:
            await deferLater(self._reactor, 0.02)
        self._turns.close()
        if self._ticks.running:
            self._ticks.stop()
        loop.close()

    def stopService(self) -> Deferred[None]:
        super().stopService()
        return Deferred.fromCoroutine(self._stop())
