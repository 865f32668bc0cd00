"""Perspective Broker as the links use it: plain data, within bounds, at a low price for each call.

Twisted gives the wire format (banana, jelly) and the bookkeeping of calls and answers.  A peer may
be hostile, so what it sends meets less than all of PB here:

    version, message, answer    the only commands that are understood
    (tuple int-or-bytes ...)    the only arguments and answers: jelly's reader, which makes objects,
                                is never run
    `calls` of an object        the only methods that can be called, with the types they take
    lists, depth, sizes         bounded while they are read, and closely so before the login

Whatever breaks these rules ends the connection; nothing is answered to it.

Reading is our own because pb.Broker copies the rest of its buffer for each item in it, so that a
burst of small calls costs four times as much (tests.cluster.bench_link), and bounds no nesting.
"""

from typing import Any, ClassVar, Final, Protocol

from twisted.internet.defer import Deferred
from twisted.internet.tcp import Connection
from twisted.python.failure import Failure
from twisted.spread import banana, jelly, pb
from twisted.spread.pb import ProtocolError

from mhub.log import logger

PB: Final[Any] = pb
JELLY: Final[Any] = jelly
"""Both of Twisted, without the annotations that it has for a part of them."""

STRANGER_BYTES: Final = 64 * 1024
"""How much one may send before it has proven who it is: a hello, and very little else."""

_STRING_BYTES: Final = banana.SIZE_LIMIT
_DIGITS: Final = 10  # of base 128
_DEPTH: Final = 4
_LENGTH: Final = 16
_LIST, _INT, _STRING, _LONGINT, _VOCAB = (
    mark[0] for mark in (banana.LIST, banana.INT, banana.STRING, banana.LONGINT, banana.VOCAB)
)
_KINDS: Final = ("bytes", "int", "tuple", "dict")
_VOCABULARY: Final[dict[int, bytes]] = banana.Banana.incomingVocabulary

_PLAIN: Final = (b"tuple", b"dictionary", *(f"builtins.{kind}".encode() for kind in _KINDS))


class PlainData(JELLY.SecurityOptions):  # type: ignore[misc]
    """What jelly may write for us, and could read for others if it were asked to.

    The taster of Twisted allows each name with a dot in it to become whatever any library in this
    process has registered for that name.
    """

    def isTypeAllowed(self, typeName: bytes) -> bool:
        return typeName in _PLAIN


class Callee(Protocol):
    """What a peer can be given to call: method `remote_NAME` for each name in `calls`."""

    calls: ClassVar[dict[bytes, tuple[type, ...]]]


class Owner(Protocol):
    """Who is told how it goes with a connection."""

    def connected(self) -> None:
        """It is there; nothing was said."""

    def broken(self, text: str) -> None:
        """The other side does not keep to the rules; it will not be listened to any more."""

    def disconnected(self, why: Failure) -> None:
        """The connection is gone."""


def _number(value: int) -> bytes:
    """As banana writes it: base 128, the lowest digit first."""
    digits = bytearray((value & 0x7F,))
    while value := value >> 7:
        digits.append(value & 0x7F)
    return bytes(digits)


def cast(target: bytes, name: bytes, *arguments: int | bytes) -> list[bytes]:
    """The pieces of a PB call that wants no answer, which is all that has to be fast.

    `callRemote(name, ..., pbanswer=0)` comes to the same bytes, but for the number of the request,
    in ten times the time.
    """
    pieces = [b"\x07\x80\x1a\x87\0\x81"]  # a list of seven: `message`, number 0
    for item in (target, name):
        pieces += (_number(len(item)), banana.STRING, item)
    pieces += (b"\0\x81", _number(len(arguments) + 1), b"\x80\x0b\x87")  # no answer; `tuple`
    for argument in arguments:
        if isinstance(argument, bytes):
            pieces += (_number(len(argument)), banana.STRING, argument)
        else:
            pieces += (_number(argument), banana.INT)
    pieces.append(b"\x01\x80\x05\x87")  # an empty `dictionary`: no keyword arguments
    return pieces


class Broker(PB.Broker):  # type: ignore[misc]
    knownDialects = [b"pb"]

    def __init__(self, isClient: bool, security: PlainData) -> None:
        super().__init__(isClient, security)
        self.owner: Owner | None = None
        self.trusted = False
        self._deaf = False
        self._from_stranger = 0
        # What came and was not read yet, and how much of it must be there to get on.
        self._pieces: list[bytes] = []
        self._have = 0
        self._need = 0
        # Lists that are not complete: how long each will be, and what it has.
        self._lists: list[tuple[int, list[Any]]] = []
        self._size = 0

    def connectionMade(self) -> None:
        self.transport.setTcpNoDelay(True)
        self.transport.setTcpKeepAlive(True)
        super().connectionMade()
        if self.owner is not None:
            self.owner.connected()

    def connectionLost(self, reason: Failure) -> None:
        super().connectionLost(reason)
        if self.owner is not None:
            self.owner.disconnected(reason)

    def cast(self, target: bytes, name: bytes, *arguments: int | bytes) -> None:
        """Call the method of an object of the other side; there will be no answer."""
        self._write_through(b"".join(cast(target, name, *arguments)))

    def _write_through(self, data: bytes) -> None:
        """To the socket at once, if nothing waits for it: the reactor has more to do for a write
        than the socket has.  What the socket does not take, and errors, are the reactor's.
        """
        transport = self.transport
        # Twisted has no public name for the second part of its buffer.
        if (
            isinstance(transport, Connection)
            and not transport.dataBuffer
            and not transport._tempDataBuffer
            and not transport.disconnecting
            and transport.connected
        ):
            sent = transport.writeSomeData(data)
            if not isinstance(sent, int):
                sent = 0  # it is lost, which the reactor finds out as well
            data = data[sent:]
        if data:
            transport.write(data)

    def dataReceived(self, chunk: bytes) -> None:
        if self._deaf:
            return
        try:
            self._take(chunk)
        except ProtocolError as error:
            if not self._deaf:
                self._broken(str(error))
        except Exception:
            logger("cluster").failure("internal error while reading from a link")
            self._broken("an internal error")

    def stop_listening(self) -> None:
        """Whatever comes from now on is not read."""
        self._deaf = True
        self._pieces.clear()

    def _broken(self, text: str) -> None:
        self.stop_listening()
        if self.owner is None:
            self.transport.abortConnection()
        else:
            self.owner.broken(text)

    def _take(self, chunk: bytes) -> None:
        if not self.trusted:
            if chunk.startswith(b"\x16\x03") and not self._from_stranger:
                raise ProtocolError("it speaks TLS, which is not configured here")
            self._from_stranger += len(chunk)
            if self._from_stranger > STRANGER_BYTES:
                raise ProtocolError(f"more than {STRANGER_BYTES} bytes before the login")
        self._pieces.append(chunk)
        self._have += len(chunk)
        # A long string is joined once, when all of it is there.
        if self._have >= self._need:
            data = b"".join(self._pieces)
            rest = data[self._read(data) :]
            self._pieces = [rest]
            self._have = len(rest)

    def _read(self, data: bytes) -> int:
        """Take all whole items; how many bytes they were.  `_need` is set for those that follow."""
        at = 0
        while True:
            start = at
            value = shift = 0
            for mark in data[at : at + _DIGITS + 1]:
                at += 1
                if mark > 0x7F:
                    break
                value |= mark << shift
                shift += 7
            else:
                if at - start > _DIGITS:
                    raise ProtocolError("a number that is too large")
                self._need = 0
                return start
            if mark == _STRING:
                end = at + value
                self._grow(value)
                if end > len(data):
                    self._size -= value
                    self._need = end - start
                    return start
                self._add(data[at:end])
                at = end
            elif mark == _INT or mark == _LONGINT:
                self._add(value)
            elif mark == _VOCAB:
                self._add(_VOCABULARY.get(value, b""))
            elif mark == _LIST:
                self._open(value)
            else:
                raise ProtocolError(f"no item begins with {mark:#x}")

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _STRING_BYTES:
            raise ProtocolError(f"more than {_STRING_BYTES} bytes in one call")

    def _open(self, length: int) -> None:
        if length > _LENGTH or len(self._lists) == _DEPTH:
            raise ProtocolError("a list that is too long or too deep")
        if length:
            self._lists.append((length, []))
        else:
            self._add([])

    def _add(self, item: Any) -> None:
        lists = self._lists
        while lists:
            length, items = lists[-1]
            items.append(item)
            if len(items) < length:
                return
            lists.pop()
            item = items
        self._size = 0
        self.callExpressionReceived(item)

    def callExpressionReceived(self, obj: Any) -> None:
        if self._deaf:
            return  # what came in the same read
        if self.currentDialect:
            self.expressionReceived(obj)
        elif self.isClient and type(obj) is list and b"pb" in obj:
            self.sendEncoded(b"pb")
            self._selectDialect(b"pb")
        elif not self.isClient and obj == b"pb":
            self._selectDialect(b"pb")
        else:
            raise ProtocolError("the other side does not speak Perspective Broker")

    def expressionReceived(self, sexp: Any) -> None:
        match sexp:
            case [b"message", int(request), bytes(target), bytes(name), int(wanted), arguments, kw]:
                if kw != [b"dictionary"]:
                    raise ProtocolError("a call with keyword arguments")
                self._called(request, target, name, wanted, self.unserialize(arguments))
            case [b"answer", int(request), _] if request in self.waitingForAnswers:
                self.proto_answer(*sexp[1:])
            case [b"version", int(version)]:
                self.proto_version(version)
            case _:
                raise ProtocolError("neither a call nor an answer")

    def _called(
        self, request: int, target: bytes, name: bytes, wanted: int, arguments: tuple[Any, ...]
    ) -> None:
        callee = self.localObjectForID(target)
        # `link` and `root` are what has a name here, and nothing has a number.
        types = callee.calls.get(name) if callee is not None else None
        if types is None or tuple(map(type, arguments)) != types:
            raise ProtocolError("a call to an unknown object")
        result = getattr(callee, f"remote_{name.decode()}")(*arguments)
        if isinstance(result, Deferred):
            result.addCallback(lambda found: self._answer(request, found))
        elif wanted:
            self._answer(request, result)

    def _answer(self, request: int, result: tuple[bytes, ...]) -> None:
        # Whoever has nothing to say has ended the connection.
        if result and not self.disconnected:
            self._sendAnswer([b"tuple", *result], request)

    def unserialize(self, sexp: Any, perspective: object = None) -> tuple[int | bytes, ...]:
        if type(sexp) is not list or sexp[:1] != [b"tuple"]:
            raise ProtocolError("something other than a tuple")
        if any(type(item) is list for item in sexp):
            raise ProtocolError("something other than numbers and bytes in a tuple")
        return tuple(sexp[1:])
