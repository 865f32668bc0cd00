"""What may stand between a socket and the core: PROXY header, TLS, WebSocket.

Each is a `Layer` of `mhub.net.loop`: bytes in, bytes out, no I/O.  A stack of them is built for
each connection of a listener that wants one; plain MQTT has none.
"""

from typing import Final

from OpenSSL import SSL

# pyOpenSSL has no public way to read or write without an exception for "nothing there", nor without
# a buffer of its own for each call: two thirds of what TLS cost a message (docs/performance.md).
from OpenSSL._util import ffi, lib

from mhub.core.connection import Connection
from mhub.core.principal import Certificate
from mhub.net.handshake import Accepted, Handshake, Refused
from mhub.net.loop import LayerEnd
from mhub.net.tls import TlsContexts
from mhub.wire import proxy
from mhub.wire.websocket import Framer, WebSocketFault

TLS_CHUNK: Final = 64 * 1024
_BUFFER: Final = ffi.new("char[]", TLS_CHUNK)
GOING_AWAY: Final = 1001


class ProxyLayer:
    """The PROXY protocol: one header, then nothing of its own."""

    def __init__(self) -> None:
        self._header: proxy.ProxyHeader | None = None
        self._buffer = b""

    def receive(self, data: bytes) -> bytes:
        if self._header is not None:
            return data
        self._buffer += data
        try:
            self._header = proxy.parse(self._buffer)
        except proxy.ProxyFault as fault:
            raise LayerEnd(fault.text, b"") from fault
        if self._header is None:
            return b""
        rest = self._buffer[self._header.length :]
        self._buffer = b""
        return rest

    def replies(self) -> bytes:
        return b""

    def send(self, data: bytes) -> bytes:
        return data

    def close(self) -> bytes:
        return b""

    def introduce(self, connection: Connection) -> None:
        header = self._header
        if header is None or not header.host:
            return
        host = f"[{header.host}]" if ":" in header.host else header.host
        principal = connection.principal
        principal.address = f"{host}:{header.port}" if header.port else host
        if header.common_name:
            principal.certificate = Certificate(header.common_name)


class TlsLayer:
    """OpenSSL over memory: encrypted bytes below, plain ones above.

    Contexts, handshake and all errors are pyOpenSSL's.  The bytes of an established connection go
    straight to OpenSSL and from it, by way of one buffer that all connections share.  Whatever is
    not simply "no more for now" is asked again by way of pyOpenSSL, which raises what it means and
    clears OpenSSL's list of errors.
    """

    def __init__(self, contexts: TlsContexts) -> None:
        self._contexts = contexts
        self._tls = contexts.serverConnectionForTLS(None)
        self._tls.set_accept_state()
        self._ssl = self._tls._ssl
        self._incoming = self._tls._into_ssl
        self._outgoing = self._tls._from_ssl
        self._established = False
        self._early: list[bytes] = []  # written before the handshake was over

    def receive(self, data: bytes) -> bytes:
        if self._established:
            lib.BIO_write(self._incoming, data, len(data))  # memory takes all of it
        else:
            self._tls.bio_write(data)
            if not self._shake_hands():
                return b""
        plain: list[bytes] = []
        while True:
            size = lib.SSL_read(self._ssl, _BUFFER, TLS_CHUNK)
            if size > 0:
                plain.append(ffi.buffer(_BUFFER, size)[:])
            elif lib.SSL_get_error(self._ssl, size) == lib.SSL_ERROR_WANT_READ:
                return plain[0] if len(plain) == 1 else b"".join(plain)
            else:
                plain.append(self._receive_end(plain))

    def _shake_hands(self) -> bool:
        """Whether the handshake is over."""
        try:
            self._tls.do_handshake()
        except SSL.WantReadError:
            return False
        except SSL.ZeroReturnError:
            raise LayerEnd("the peer closed the connection", b"") from None
        except SSL.Error as error:
            raise LayerEnd(f"TLS: {_explain(error)}", b"") from error
        self._established = True
        for early in self._early:
            self._write(early)
        self._early = []
        return True

    def _receive_end(self, plain: list[bytes]) -> bytes:
        """There is something else than data to read: as a rule the end."""
        try:
            return self._tls.recv(TLS_CHUNK)
        except SSL.WantReadError:
            return b""
        except SSL.ZeroReturnError:
            raise LayerEnd("the peer closed the connection", b"".join(plain)) from None
        except SSL.Error as error:
            raise LayerEnd(f"TLS: {_explain(error)}", b"".join(plain)) from error

    def replies(self) -> bytes:
        return self._drain()

    def send(self, data: bytes) -> bytes:
        if not self._established:
            self._early.append(data)
            return b""
        self._write(data)
        return self._drain()

    def _write(self, data: bytes) -> None:
        start = ffi.from_buffer(data)
        done = 0
        while done < len(data):  # a record at a time
            size = lib.SSL_write(self._ssl, start + done, len(data) - done)
            if size <= 0:
                try:
                    self._tls.sendall(data[done:])
                except SSL.Error:
                    pass  # the connection is broken; reading it will say so
                return
            done += size

    def close(self) -> bytes:
        try:
            self._tls.shutdown()
        except SSL.Error:
            pass
        return self._drain()

    def introduce(self, connection: Connection) -> None:
        certificate = self._contexts.client_certificate(self._tls)
        if certificate is None:
            return
        connection.principal.certificate = certificate

    def _drain(self) -> bytes:
        size = lib.BIO_read(self._outgoing, _BUFFER, TLS_CHUNK)
        if size <= 0:
            return b""
        first: bytes = ffi.buffer(_BUFFER, size)[:]
        if size < TLS_CHUNK:
            return first
        parts = [first]
        while size == TLS_CHUNK:
            size = lib.BIO_read(self._outgoing, _BUFFER, TLS_CHUNK)
            if size > 0:
                parts.append(ffi.buffer(_BUFFER, size)[:])
        return b"".join(parts)


def _explain(error: SSL.Error) -> str:
    """OpenSSL's reasons, as far as they say anything."""
    words = [str(part[-1]) for part in error.args[0]] if error.args and error.args[0] else []
    return ", ".join(words) or "the connection broke off"


class WebSocketLayer:
    """The HTTP upgrade, then MQTT in binary frames [MQTT-6.0.0-1]."""

    def __init__(self, path: str, origins: tuple[str, ...], max_size: int) -> None:
        self._handshake: Handshake | None = Handshake(path, origins, max_size)
        self._framer = Framer()
        self._replies = b""
        self._last = b""

    def receive(self, data: bytes) -> bytes:
        if self._handshake is not None:
            verdict = self._handshake.receive(data)
            if verdict is None:
                return b""
            if isinstance(verdict, Refused):
                self._last = verdict.response
                raise LayerEnd(verdict.text, b"")
            assert isinstance(verdict, Accepted)
            self._handshake = None
            self._replies = verdict.response
            data = verdict.rest
            if not data:
                return b""
        framer = self._framer
        try:
            payload = framer.receive(data)
        except WebSocketFault as fault:
            # What it had asked for before the wrong frame is still answered.
            if not framer.unfinished:
                self._last = b"".join(framer.replies) + framer.close_frame(fault.code, fault.text)
            raise LayerEnd(f"WebSocket: {fault.text}", fault.carried) from fault
        if framer.replies:
            self._replies += b"".join(framer.replies)
            framer.replies.clear()
        if framer.closed:
            self._last = b"" if framer.unfinished else self.replies()
            raise LayerEnd("the peer closed the WebSocket", payload)
        return payload

    def replies(self) -> bytes:
        if self._framer.unfinished:
            return b""  # a frame is not to be interrupted: with the next send()
        replies = self._replies
        self._replies = b""
        return replies

    def send(self, data: bytes) -> bytes:
        data = self._framer.frame(data)
        return data + self.replies() if self._replies else data

    def close(self) -> bytes:
        if self._last or self._handshake is not None or self._framer.closed:
            return self._last
        if self._framer.unfinished:
            return b""
        return self._framer.close_frame(GOING_AWAY, "")

    def introduce(self, connection: Connection) -> None:
        pass
