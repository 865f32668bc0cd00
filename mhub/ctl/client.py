"""The admin API of a running broker, with a plain socket that blocks.

A request is HTTP/1.1 on a connection of its own, so that an answer ends with its connection.  The
standard library's client would be a third of the time that `mhub ctl status` takes.
"""

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NoReturn

from mhub import __version__
from mhub.control.contract import ControlError, short_name

if TYPE_CHECKING:
    from mhub.ctl.place import Place

BASE: Final = "/admin/v1"
CONNECT_S: Final = 5.0
SILENCE_S: Final = 30.0
MAX_LINE: Final = 64 << 20
"""Bytes of a line, and of an answer that is no stream."""

NOT_UNDERSTOOD: Final = "the broker gives an answer that this mhub does not understand"
RECEIVE: Final = 1 << 18

Query = Mapping[str, object]


class NoBroker(ControlError):
    """Nobody answers there."""


class Refused(ControlError):
    """The broker does not do it; `status` is that of HTTP."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status


class Api:
    """The broker at one place."""

    def __init__(self, place: "Place", silence_s: float = SILENCE_S) -> None:
        self.place = place
        self.silence_s = silence_s
        self.reason = ""  # why changes are made

    def get(self, path: str, /, **query: object) -> dict[str, Any]:
        """An answer that has to be an object.  Raises ControlError."""
        return facts(self.call("GET", path, query))

    def post(self, path: str, query: Query | None = None, /, **body: object) -> dict[str, Any]:
        """The same, of a change: an answer without content is an empty object."""
        return facts(self.call("POST", path, query, body) or {})

    def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Mapping[str, object] | None = None,
        version: str = "",
    ) -> Any:
        """What the broker answers, or None.  `version` is that which must be the current one."""
        data = b"" if body is None else _encoded(body)
        headers = {"Content-Type": "application/json"} if data else {}
        if version:
            headers["If-Match"] = f'"{version}"'
        text = self.text(method, path, query, data, headers)
        if not text:
            return None
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise self._stranger() from None

    def text(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> bytes:
        """The same as it comes; `data` is the body."""
        found = b""
        for piece in self._pieces(method, path, query, data, headers or {}):
            found += piece
            if len(found) > MAX_LINE:
                raise self._stranger()
        return found

    def lines(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        data: bytes = b"",
        headers: Mapping[str, str] | None = None,
    ) -> Iterator[bytes]:
        """The lines of a stream, each with its end, as they come."""
        rest = b""
        for piece in self._pieces(method, path, query, data, headers or {}):
            *lines, rest = (rest + piece).split(b"\n")
            for line in lines:
                yield line + b"\n"
            if len(rest) > MAX_LINE:
                raise self._stranger()
        if rest:
            yield rest

    # HTTP

    def _pieces(
        self,
        method: str,
        path: str,
        query: Query | None,
        data: bytes,
        headers: Mapping[str, str],
    ) -> Iterator[bytes]:
        place = self.place
        target = place.prefix + (path if path.startswith("/") else f"{BASE}/{path}")
        if self.reason and method != "GET":
            query = {**(query or {}), "reason": self.reason}
        if query:
            target += "?" + encoded_query(query)
        head = [f"{method} {target} HTTP/1.1", f"Host: {place.host}", "Connection: close"]
        head += [f"User-Agent: mhub/{__version__}", f"Content-Length: {len(data)}"]
        head += [f"{name}: {value}" for name, value in headers.items()]
        if place.token:
            head.append(f"Authorization: Bearer {place.token}")
        with self._connected() as connection:
            incoming = Incoming(connection)
            try:
                connection.sendall("\r\n".join([*head, "", ""]).encode("ascii") + data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # it may have said why, before it closed
            status, answered = self._head(incoming)
            body = incoming.body(answered)
            if status >= 400:
                self._refused(status, answered, b"".join(body))
            yield from body

    def _head(self, incoming: "Incoming") -> tuple[int, dict[str, str]]:
        first = incoming.line()
        version, _, rest = first.partition(b" ")
        if first and not (version.startswith(b"HTTP/1.") and rest[:3].isdigit()):
            raise self._stranger()
        if not first:
            raise Cut
        headers = {}
        while line := incoming.line():
            name, _, value = line.decode("latin-1").partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(rest[:3]), headers

    def _refused(self, status: int, headers: Mapping[str, str], body: bytes) -> NoReturn:
        try:
            problem = json.loads(body)
            detail = str(problem["detail"])
        except (ValueError, TypeError, KeyError, RecursionError):
            if headers.get("content-type", "").startswith("application/problem+json"):
                raise self._stranger() from None
            # A proxy, or another server.
            raise Refused(status, f"{self.place.name} answers with the status {status}") from None
        if status == 401:
            detail = self.place.not_logged_in(detail)
        raise Refused(status, detail)

    # The connection

    @contextmanager
    def _connected(self) -> Iterator[socket.socket]:
        """Raises ControlError for all that goes wrong with it, until its end."""
        place = self.place
        try:
            connection = _connect(place)
        except OSError as error:
            raise _why_not(place, error) from None
        with connection:
            connection.settimeout(self.silence_s)
            try:
                yield connection
            except TimeoutError:
                raise ControlError(
                    f"nothing was received from {place.name} for {self.silence_s:g} s; its log may"
                    " tell why"
                ) from None
            except Cut:
                raise ControlError(
                    f"{place.name} went away without an answer: has it ended?"
                ) from None
            except NotHttp:
                raise self._stranger() from None

    def _stranger(self) -> ControlError:
        return ControlError(f"what answers at {self.place.address} is not {self.place.expected}")


class Cut(Exception):
    """The connection ended too early."""


class NotHttp(Exception):
    """What came makes no sense."""


class Incoming:
    """What a connection brings."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def _receive(self) -> bytes:
        try:
            return self._connection.recv(RECEIVE)
        except TimeoutError:
            raise
        except OSError:  # reset, or TLS that ends without a word
            raise Cut from None

    def line(self) -> bytes:
        """Without its end.  Raises Cut and NotHttp."""
        while b"\n" not in self._rest:
            data = self._receive()
            if not data:
                raise Cut
            self._rest += data
            if len(self._rest) > 1 << 16 and b"\n" not in self._rest:
                raise NotHttp
        line, _, self._rest = self._rest.partition(b"\n")
        return line.rstrip(b"\r")

    def body(self, headers: Mapping[str, str]) -> Iterator[bytes]:
        """As it comes.  Raises Cut if that was not all."""
        if headers.get("transfer-encoding", "").lower() == "chunked":
            while size := self._size():
                yield from self._exactly(size)
                self.line()
        elif "content-length" in headers:
            yield from self._exactly(int(headers["content-length"]))

    def _size(self) -> int:
        try:
            return int(self.line().partition(b";")[0], 16)
        except ValueError:
            raise NotHttp from None

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size > 0:
            data = self._rest or self._receive()
            if not data:
                raise Cut
            piece, self._rest = data[:size], data[size:]
            size -= len(piece)
            yield piece


def facts(answer: object) -> dict[str, Any]:
    """An answer that has to be an object.  Raises ControlError."""
    if not isinstance(answer, dict):
        raise ControlError(NOT_UNDERSTOOD)
    return answer


def fact_of(line: bytes) -> dict[str, Any]:
    """A line of a stream of JSON objects.  Raises ControlError."""
    try:
        return facts(json.loads(line))
    except (ValueError, RecursionError):
        raise ControlError(NOT_UNDERSTOOD) from None


def events(lines: Iterator[bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The names and the data of server-sent events."""
    name, data = "", b""
    for line in lines:
        field, _, value = line.strip(b"\r\n").partition(b":")
        value = value.removeprefix(b" ")
        if not field and not value:
            if data:
                yield name or "message", fact_of(data)
            name, data = "", b""
        elif field == b"event":
            name = value.decode("utf-8", "replace")
        elif field == b"data":
            data += value


def encoded_query(query: Query) -> str:
    """What stands behind the question mark; a list is a parameter that is given several times."""
    pairs = []
    for name, value in query.items():
        for each in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(each, bool):
                each = "true" if each else "false"
            pairs.append(f"{name}={_quoted(str(each))}")
    return "&".join(pairs)


UNRESERVED: Final = frozenset(
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/"
)


def _quoted(text: str) -> str:
    # As urllib.parse does it, whose import takes longer than all of this module.
    data = text.encode("utf-8", "surrogateescape")
    return "".join(chr(byte) if byte in UNRESERVED else f"%{byte:02X}" for byte in data)


def _encoded(body: Mapping[str, object]) -> bytes:
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    # Half of a surrogate pair is what a command line makes of bytes that are not UTF-8.
    return text.encode("utf-8", "surrogateescape")


def _connect(place: "Place") -> socket.socket:
    if place.socket:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(CONNECT_S)
            with short_name(place.socket) as name:
                connection.connect(name)
        except OSError:
            connection.close()
            raise
        return connection
    connection = socket.create_connection((place.hostname, place.port), CONNECT_S)
    if not place.is_tls:
        return connection
    import ssl

    try:
        context = ssl.create_default_context(cafile=place.ca or None)
        # An end without a word may be somebody's who cuts answers off.
        return context.wrap_socket(
            connection, server_hostname=place.hostname, suppress_ragged_eofs=False
        )
    except BaseException:
        connection.close()
        raise


def _why_not(place: "Place", error: OSError) -> ControlError:
    if place.socket:
        return _why_no_socket(place.socket, error)
    if isinstance(error, ConnectionRefusedError):
        return NoBroker(
            f"nobody answers at {place.address}: is the broker running, and is that its [admin]"
            " listener?"
        )
    if isinstance(error, socket.gaierror):
        return ControlError(f"{place.address}: no address is known for {place.hostname}")
    if type(error).__module__ == "ssl":
        return _why_no_tls(place, error)
    if isinstance(error, TimeoutError):
        return ControlError(f"{place.address} does not take the connection: is it reachable?")
    if isinstance(error, FileNotFoundError) and place.ca:
        return ControlError(f"--ca {place.ca}: {error.strerror}")
    if isinstance(error, ConnectionResetError) and place.is_tls:
        return ControlError(f"{place.address} ends the connection: does it speak TLS?")
    return ControlError(f"cannot connect to {place.address}: {error.strerror or error}")


def _why_no_tls(place: "Place", error: OSError) -> ControlError:
    why = getattr(error, "verify_message", "") or getattr(error, "reason", "") or str(error)
    if getattr(error, "verify_message", ""):
        return ControlError(
            f"the certificate of {place.address} is not trusted: {why}; --ca FILE names the"
            " authority that has signed it"
        )
    if why == "WRONG_VERSION_NUMBER" or "EOF" in why:
        return ControlError(f"{place.address} does not speak TLS: is it http://?")
    if "NO_START_LINE" in why or "NO_CERTIFICATE" in why:
        return ControlError(f"--ca {place.ca}: there is no certificate in it")
    return ControlError(f"no TLS with {place.address}: {why}")


def _why_no_socket(path: str, error: OSError) -> ControlError:
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)):
        return NoBroker(
            f"no broker answers at {path}: is it running, and is that its control socket?"
        )
    if isinstance(error, PermissionError):
        return ControlError(
            f"not allowed to use {path}: run this as the user of the broker, or let others use the"
            " socket by [control] path and mode"
        )
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return ControlError(
            f"the broker at {path} does not take the connection: is it stopped or very busy?"
        )
    return ControlError(f"cannot connect to {path}: {error.strerror or error}")
