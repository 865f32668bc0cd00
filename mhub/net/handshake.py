"""The HTTP request that turns a connection into a WebSocket for MQTT (RFC 6455, section 4).

Bytes in, a verdict out; no I/O.  h11 reads the request, the rules stand here.  Unlike the usual
WebSocket servers this one never accepts a client that does not offer MQTT as its subprotocol
[MQTT-6.0.0-3], and whoever comes with something else, a browser or a misled proxy, is told in plain
words what this port is for.

    bytes -> Handshake.receive() -> None       more bytes are needed
                                 -> Accepted   send .response; .rest and what follows are frames
                                 -> Refused    send .response, close, log .text
"""

import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

import h11

from mhub.net import sniff
from mhub.wire.websocket import accept_key

SUBPROTOCOLS: Final = ("mqtt", "mqttv3.1")
"""In the order of preference; the second is what clients of MQTT 3.1 ask for."""

_REASONS: Final = {
    400: "Bad Request",
    403: "Forbidden",
    404: "Not Found",
    405: "Method Not Allowed",
    426: "Upgrade Required",
    431: "Request Header Fields Too Large",
}
_SHOWN: Final = 100
_FIRST: Final = 16
_ONCE: Final = (b"sec-websocket-key", b"sec-websocket-version", b"origin")


@dataclass(frozen=True)
class Accepted:
    """The client gets `response`, and from then on both sides speak WebSocket."""

    response: bytes
    subprotocol: str
    rest: bytes
    """What came behind the request: the client's first frames, should it not have waited."""
    host: str
    origin: str
    user_agent: str


@dataclass(frozen=True)
class Refused:
    """The client gets `response` (empty if it does not speak HTTP) and the connection is closed."""

    response: bytes
    status: int
    """The HTTP status; 0 if the client does not speak HTTP."""
    text: str
    """What was wrong, for the log."""


class _No(Exception):
    def __init__(self, status: int, text: str, *headers: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text
        self.headers = headers


class Handshake:
    """One connection's request.  `receive` gets what the socket gave until it gives a verdict.

    `path` is where MQTT is found; empty accepts any.  `origins` are the web pages that may connect
    (`https://example.org`, or `https://*.example.org` for all below it); empty, or `*` among them,
    accepts any.  A client that sends no Origin is not a browser and is not held to them.
    `max_size` is the largest request head in bytes.
    """

    def __init__(
        self, path: str = "/mqtt", origins: Sequence[str] = (), max_size: int = 8192
    ) -> None:
        self._path = path
        self._origins = [origin.lower().rstrip("/") for origin in origins]
        self._max_size = max_size
        self._size = 0
        self._first = b""
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=max_size)

    def receive(self, data: bytes) -> Accepted | Refused | None:
        """Take bytes from the socket; not to be called again after a verdict."""
        if len(self._first) < _FIRST:
            self._first += data[:_FIRST]
        # Every method of HTTP is a word: anything else need not be waited for.
        if not self._first[:1].isalpha():
            return self._stranger() if self._first else None
        # The reader never gets more than a head may have, so that its size is judged alike
        # whether it came at once or in pieces.
        room = max(self._max_size - self._size, 0)
        self._size += len(data)
        request: h11.Request | None = None
        try:
            # To h11 an empty piece would be the end of the connection.
            if piece := data[:room]:
                self._http.receive_data(piece)
            event = self._http.next_event()
            if isinstance(event, h11.Request):
                request = event
                return self._accept(event, data[room:])
            if self._size > self._max_size:
                raise _No(431, f"a request head of more than {self._max_size} bytes")
        except h11.RemoteProtocolError as error:
            if sniff.kind(self._first) == sniff.PROXY:
                return self._stranger()
            return _refuse(_No(400, f"no valid HTTP request, {str(error)[:_SHOWN]}"), request)
        except _No as no:
            return _refuse(no, request)
        return None

    def _accept(self, request: h11.Request, beyond: bytes) -> Accepted:
        headers = _gather(request)
        target = request.target.decode("ascii")
        if request.method != b"GET":
            method = request.method.decode("ascii")
            raise _No(405, f"method {_show(method)}, a WebSocket begins with GET", "Allow: GET")
        if self._path and target.partition("?")[0] != self._path:
            raise _No(404, f"nothing at {_show(target)}, MQTT over WebSocket is at {self._path}")
        _check_upgrade(request, headers)
        origin = headers.get(b"origin", "")
        if not self._allowed(origin):
            raise _No(403, f"origin {_show(origin)} is not among those allowed here")
        subprotocol = _choose(headers.get(b"sec-websocket-protocol", ""))
        key = headers.get(b"sec-websocket-key", "")
        if not isinstance(self._http.next_event(), h11.EndOfMessage):
            raise _No(400, "a WebSocket request has no body")
        return Accepted(
            response=_switch(key, subprotocol),
            subprotocol=subprotocol,
            rest=self._http.trailing_data[0] + beyond,
            host=headers.get(b"host", ""),
            origin=origin,
            user_agent=headers.get(b"user-agent", ""),
        )

    def _allowed(self, origin: str) -> bool:
        if not origin or not self._origins or "*" in self._origins:
            return True
        origin = origin.lower()
        for pattern in self._origins:
            scheme, star, domain = pattern.partition("://*.")
            if origin == pattern:
                return True
            if star and origin.startswith(scheme + "://") and origin.endswith("." + domain):
                return True
        return False

    def _stranger(self) -> Refused:
        """What speaks no HTTP gets no answer in it."""
        kind = sniff.kind(self._first)
        if not kind:
            text = "MQTT without WebSocket"
        elif kind == sniff.OTHER:
            text = f"no HTTP request: begins with {self._first.hex(' ')}"
        else:
            text = str(sniff.describe(self._first))
        return Refused(b"", 0, text)


def _gather(request: h11.Request) -> dict[bytes, str]:
    """The headers by name; values of the same name joined, as HTTP allows, where it may repeat."""
    headers: dict[bytes, str] = {}
    for name, value in request.headers:
        text = value.decode("latin-1")
        if name not in headers:
            headers[name] = text
        elif name in _ONCE:
            raise _No(400, f"header {name.decode('ascii')} given twice")
        else:
            headers[name] += ", " + text
    return headers


def _words(value: str) -> list[str]:
    return [word.strip() for word in value.split(",")]


def _check_upgrade(request: h11.Request, headers: dict[bytes, str]) -> None:
    hint = "if a reverse proxy stands between, let it pass the headers Upgrade and Connection on"
    if "websocket" not in _words(headers.get(b"upgrade", "").lower()):
        if b"sec-websocket-key" in headers:
            raise _No(426, f"a WebSocket request without 'Upgrade: websocket'; {hint}")
        raise _No(426, "this is the WebSocket port of an MQTT broker: it takes MQTT clients")
    if "upgrade" not in _words(headers.get(b"connection", "").lower()):
        raise _No(400, f"a WebSocket request without 'Connection: Upgrade'; {hint}")
    if request.http_version < b"1.1":
        raise _No(400, "a WebSocket request needs HTTP/1.1")
    version = headers.get(b"sec-websocket-version", "")
    if version != "13":
        needed = "Sec-WebSocket-Version: 13"
        raise _No(426, f"WebSocket version {_show(version)}, only 13 is spoken here", needed)
    try:
        key = binascii.a2b_base64(headers.get(b"sec-websocket-key", ""), strict_mode=True)
    except ValueError:
        key = b""
    if len(key) != 16:
        raise _No(400, "Sec-WebSocket-Key is not 16 bytes in base64")


def _choose(offer: str) -> str:
    """[MQTT-6.0.0-3], [MQTT-6.0.0-4]: the client must offer "mqtt", the server answer with it."""
    offered = _words(offer)
    for name in SUBPROTOCOLS:
        if name in offered:
            return name
    what = f"offers {_show(offer)}" if offer else "offers none"
    raise _No(400, f"MQTT needs the WebSocket subprotocol 'mqtt', and the client {what}")


def _switch(key: str, subprotocol: str) -> bytes:
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: %b\r\nSec-WebSocket-Protocol: %b\r\n\r\n"
    ) % (accept_key(key.encode("ascii")), subprotocol.encode("ascii"))


def _show(value: str) -> str:
    """A value of the client's for log and page: quoted, escaped, and not too long."""
    return repr(value if len(value) <= _SHOWN else value[:_SHOWN] + "…")


def _refuse(no: _No, request: h11.Request | None) -> Refused:
    reason = _REASONS[no.status]
    headers = [f"HTTP/1.1 {no.status} {reason}", *no.headers]
    accepts = b""
    if request is not None:
        accepts = b",".join(value for name, value in request.headers if name == b"accept")
    if b"text/html" in accepts:
        kind = "text/html"
        body = f"<!doctype html><title>{reason}</title><h1>{reason}</h1><p>{escape(no.text)}.\n"
    else:
        kind = "text/plain"
        body = f"{no.text}.\n"
    page = body.encode()
    connection = "close"
    if no.status == 426:
        headers.append("Upgrade: websocket")
        connection = "Upgrade, close"
    headers += [
        f"Connection: {connection}",
        f"Content-Type: {kind}; charset=utf-8",
        f"Content-Length: {len(page)}",
        "X-Content-Type-Options: nosniff",
        "Cache-Control: no-store",
    ]
    if request is not None and request.method == b"HEAD":
        page = b""
    head = "\r\n".join(headers).encode("ascii") + b"\r\n\r\n"
    return Refused(head + page, no.status, no.text)
