"""Connections to a database, in threads: what adbapi has, with calls that can be cut.

The threads are adbapi's own, as many as questions may be asked at a time; each has a connection,
made when it is first needed.  A driver that waits for a server waits for ever, if the server hangs:
so `cut` shuts the socket, by a handle of ours, and the thread is free in the same moment.  Until a
connection is made there is no handle; the driver's own time-out bounds that.

A connection that the server has closed meanwhile is seen before it is used, so that a restart of
the server does not fail the first login on each of them.
"""

import os
import select
import socket
import threading
from collections.abc import Callable, Mapping
from typing import Any

from twisted.enterprise.adbapi import ConnectionPool
from twisted.internet.defer import Deferred
from twisted.internet.threads import deferToThreadPool
from twisted.python.failure import Failure


class Connected:
    """A connection of a driver, and a handle on its socket."""

    def __init__(self, connection: Any, fileno: int) -> None:
        self.connection = connection
        self._handle = socket.socket(fileno=os.dup(fileno))
        self._lock = threading.Lock()

    def is_lost(self) -> bool:
        """Whether something came while nothing was asked: most likely, the end."""
        poll = select.poll()
        poll.register(self._handle, select.POLLIN)
        return bool(poll.poll(0))

    def cut(self) -> None:
        with self._lock:
            try:
                self._handle.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # closed, or lost already

    def close(self) -> None:
        with self._lock:
            self._handle.close()
        try:
            self.connection.close()
        except Exception:
            pass  # it is lost anyway


class Call(Deferred[Any]):
    """What a thread is asked to do.  Fires when the thread is done; cancel() makes that soon."""

    def __init__(self, work: Callable[[Any], Any]) -> None:
        super().__init__()
        self.work = work
        self.connected: Connected | None = None
        self.is_cut = False
        self._lock = threading.Lock()

    def cancel(self) -> None:
        with self._lock:
            self.is_cut = True
            if self.connected is not None:
                self.connected.cut()

    def use(self, connected: Connected | None) -> None:
        """By the thread: this is what has to be cut.  None: nothing any more."""
        with self._lock:
            if self.is_cut and connected is not None:
                raise TimeoutError("too late")
            self.connected = connected


class Pool(ConnectionPool):
    """`driver` is a module of DB-API; `fileno` finds the socket of one of its connections.

    Connections are in autocommit mode: each query is on its own.
    """

    def __init__(
        self,
        reactor: Any,
        driver: str,
        size: int,
        settings: Mapping[str, Any],
        fileno: Callable[[Any], int],
    ) -> None:
        super().__init__(driver, cp_min=0, cp_max=size, cp_reactor=reactor, **settings)
        self._fileno = fileno
        self._calls: set[Call] = set()

    def run(self, work: Callable[[Any], Any]) -> "Deferred[Any]":
        """Fires with `work(cursor)`, which is called in a thread."""
        call = Call(work)
        self._calls.add(call)
        if not self.running:
            self.start()
        done = deferToThreadPool(self._reactor, self.threadpool, self._work, call)
        done.addBoth(self._done, call)
        return call

    def stop(self) -> "Deferred[None]":
        """Cut what is under way, and wait for the threads, in a thread: they may be connecting."""
        stopped: Deferred[None] = Deferred()
        for call in list(self._calls):
            call.cancel()
        if self.startID is not None:
            self._reactor.removeSystemEventTrigger(self.startID)
            self.startID = None
        if not self.running or self.shutdownID is None:
            stopped.callback(None)  # it has no thread, or was stopped before
            return stopped
        self._reactor.removeSystemEventTrigger(self.shutdownID)
        self.shutdownID = None

        def wait() -> None:
            self.finalClose()
            self._reactor.callFromThread(stopped.callback, None)

        threading.Thread(target=wait, name="database-stop", daemon=True).start()
        return stopped

    def _done(self, result: Any, call: Call) -> None:
        self._calls.discard(call)
        if isinstance(result, Failure):
            call.errback(result)
        else:
            call.callback(result)

    def _work(self, call: Call) -> Any:
        connected = self._connected()
        try:
            call.use(connected)
            cursor = connected.connection.cursor()
            result = call.work(cursor)
            cursor.close()
            return result
        except self.dbapi.DataError:
            raise  # the connection is as good as before
        except BaseException:
            self.disconnect(connected)
            raise
        finally:
            call.use(None)

    def _connected(self) -> Connected:
        """The connection of this thread."""
        tid = self.threadID()
        connected: Connected | None = self.connections.get(tid)
        if connected is not None and connected.is_lost():
            self.disconnect(connected)
            connected = None
        if connected is None:
            connection = self.dbapi.connect(*self.connargs, **self.connkw)
            connected = Connected(connection, self._fileno(connection))
            self.connections[tid] = connected
        return connected
