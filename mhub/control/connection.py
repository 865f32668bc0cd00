"""The connections to a control socket: requests in, answers out, one after the other.

Each command is a function that the broker gave.  What it raises as ControlError is told to the
caller; anything else is a mistake of ours, which goes to the log as well.
"""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Final

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.interfaces import IHalfCloseableProtocol
from twisted.internet.protocol import Factory, Protocol, connectionDone
from twisted.python.failure import Failure
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.control.contract import MAX_REQUEST, ControlError, from_line, to_line
from mhub.log import logger

MAX_CLIENTS: Final = 16
IDLE_S: Final = 60.0
CLOSE_S: Final = 1.0
"""How long a client may take for what is left to say when the broker stops."""

Say = Callable[[str], None]
"""Tells the caller how far a command has come."""

Command = Callable[[dict[str, object], Say], object]
"""Carries out a command with its arguments; the result, or what an awaitable brings, is JSON."""


class Clients(Factory):
    """Who is connected."""

    noisy = False

    def __init__(self, commands: Mapping[str, Command], reactor: Any) -> None:
        self.commands = commands
        self.reactor = reactor
        self.connected: set[Client] = set()
        self._empty: Deferred[None] | None = None

    def buildProtocol(self, addr: object) -> "Client":
        return Client(self)

    def gone(self, client: "Client") -> None:
        self.connected.discard(client)
        if self._empty is not None and not self.connected:
            self._empty.callback(None)
            self._empty = None

    def close(self) -> Deferred[None]:
        """End all connections; fires when they have ended."""
        ended: Deferred[None] = Deferred()
        if not self.connected:
            ended.callback(None)
            return ended
        self._empty = ended
        for client in list(self.connected):
            client.close()
        return ended


@implementer(IHalfCloseableProtocol)
class Client(Protocol):
    """One connection: takes a request, answers it, takes the next.

    Nothing is read while a command runs or while the other side does not take its answers.
    """

    def __init__(self, clients: Clients) -> None:
        self._clients = clients
        self._log = logger("control")
        self._buffer = b""
        self._work: Deferred[None] | None = None
        self._is_busy = False
        self._is_full = False  # the other side does not take what is written
        self._is_gone = False
        self._transport: Any = None
        self._idle: Any = None

    def connectionMade(self) -> None:
        self._transport = self.transport
        self._transport.registerProducer(self, True)
        self._idle = self._clients.reactor.callLater(IDLE_S, self._on_idle)
        crowded = len(self._clients.connected) >= MAX_CLIENTS
        self._clients.connected.add(self)
        if crowded:
            self._refuse(f"{MAX_CLIENTS} others use the control socket; try again later")

    def connectionLost(self, reason: Failure = connectionDone) -> None:
        # A command that runs goes on: the node that leaves does not stay because nobody looks.
        self._is_gone = True
        if self._idle.active():
            self._idle.cancel()
        self._clients.gone(self)

    def dataReceived(self, data: bytes) -> None:
        self._wait(IDLE_S)
        self._buffer += data
        self._go_on()

    def readConnectionLost(self) -> None:
        """No more requests come.  All are answered, as nothing is read while a command runs."""
        self._end()

    def writeConnectionLost(self) -> None:
        """Only after loseWriteConnection(), which is not called."""

    def pauseProducing(self) -> None:
        self._is_full = True
        self._transport.pauseProducing()

    def resumeProducing(self) -> None:
        self._is_full = False
        self._go_on()

    def stopProducing(self) -> None:
        """The connection is lost; connectionLost() follows."""

    def close(self) -> None:
        """The broker stops."""
        self._buffer = b""
        if self._work is not None:
            self._work.cancel()
        self._end()
        self._wait(CLOSE_S)

    def _end(self) -> None:
        """Close, once what was written is taken."""
        self._transport.unregisterProducer()
        self._transport.loseConnection()

    def _wait(self, longest_s: float) -> None:
        """Begin to wait for the other side anew."""
        if self._idle.active():
            self._idle.reset(longest_s)

    def _on_idle(self) -> None:
        if self._is_busy and not self._transport.disconnecting:
            self._idle = self._clients.reactor.callLater(IDLE_S, self._on_idle)
        else:
            self._transport.abortConnection()

    def _go_on(self) -> None:
        if not self._is_busy:
            self._is_busy = True
            self._work = Deferred.fromCoroutine(self._serve())

    async def _serve(self) -> None:
        """Answer what is in the buffer."""
        self._transport.pauseProducing()
        while not self._is_full and not self._is_gone and (line := self._next_line()) is not None:
            self._write(await self._answer(line))
        self._is_busy = False
        self._work = None
        if not (self._is_full or self._is_gone or self._transport.disconnecting):
            self._wait(IDLE_S)
            self._transport.resumeProducing()

    def _next_line(self) -> bytes | None:
        line, end, rest = self._buffer.partition(b"\n")
        if len(line) > MAX_REQUEST:
            self._buffer = b""
            self._refuse(f"a request may have {MAX_REQUEST} bytes")
            return None
        if not end:
            return None
        self._buffer = rest
        return line

    async def _answer(self, line: bytes) -> bytes:
        try:
            command, arguments = self._parse(line)
            result = command(arguments, self._say)
            if inspect.isawaitable(result):
                result = await result
            return to_line({"ok": True, "result": result})
        except ControlError as error:
            return _error(str(error))
        except CancelledError:
            return _error("the broker is stopping")
        except Exception as error:
            self._log.failure("a command at the control socket failed")
            return _error(f"the broker failed: {type(error).__name__}: {error}; see its log")

    def _parse(self, line: bytes) -> tuple[Command, dict[str, object]]:
        try:
            arguments = from_line(line)
        except ValueError:
            raise ControlError('expected a JSON object with the key "command"') from None
        name = arguments.pop("command", None)
        commands = self._clients.commands
        if not isinstance(name, str) or name not in commands:
            known = ", ".join(sorted(commands))
            asked = 'expected the key "command"' if name is None else f'no command "{name}"'
            raise ControlError(f"{asked}; this broker knows {known}")
        return commands[name], arguments

    def _say(self, text: str) -> None:
        self._write(to_line({"progress": text}))

    def _refuse(self, text: str) -> None:
        self._write(_error(text))
        self._end()

    def _write(self, line: bytes) -> None:
        if not self._is_gone:
            self._transport.write(line)


def _error(text: str) -> bytes:
    return to_line({"ok": False, "error": text})
