"""Sockets that never block: TCP and Unix, with or without TLS; and what their errors mean."""

import errno
import os
import resource
import socket
import ssl
from dataclasses import dataclass
from typing import Final

from mhub.bench.errors import BenchError
from mhub.bench.target import Address, Target

READ_SIZE: Final = 256 * 1024

# One buffer for all sockets of the process: `recv(READ_SIZE)` would map and unmap fresh memory for
# every read, which costs 20 us, where copying a small read out of this costs a fraction of one.
_BUFFER: Final = memoryview(bytearray(READ_SIZE))

DONE: Final = 0
WANTS_READ: Final = 1
WANTS_WRITE: Final = 2

_SPARE_FILES: Final = 50


@dataclass(frozen=True)
class TlsOptions:
    cafile: str | None = None
    insecure: bool = False
    certfile: str | None = None
    keyfile: str | None = None


def tls_context(options: TlsOptions) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=options.cafile)
        if options.certfile:
            context.load_cert_chain(options.certfile, options.keyfile)
    except (OSError, ssl.SSLError) as error:
        names = " or ".join(n for n in (options.cafile, options.certfile, options.keyfile) if n)
        raise BenchError(f"cannot use {names}: {error}", "They are files in PEM format.") from None
    if options.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


class Wire:
    """One connection, plain."""

    def __init__(self, address: Address, source: str | None = None) -> None:
        self.sock = socket.socket(socket.AddressFamily(address.family), socket.SOCK_STREAM)
        self._is_connected = False
        try:
            self.sock.setblocking(False)
            if address.family != socket.AF_UNIX:
                self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if source:
                self.sock.bind((source, 0))
            code = self.sock.connect_ex(address.where)
            # EAGAIN (`BlockingIOError`): the backlog of a Unix socket is full; no event follows.
            if code not in (0, errno.EINPROGRESS):
                raise OSError(code, errno.errorcode.get(code, ""))
        except BaseException:
            self.sock.close()
            raise

    def advance(self) -> int:
        """Go on with connecting: DONE, or what to wait for.  Raises `OSError`."""
        if not self._is_connected:
            code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code:
                raise OSError(code, errno.errorcode.get(code, ""))
            self._is_connected = True
        return DONE

    def recv(self) -> bytes | None:
        """What is there; b"" at the end, None when there is nothing yet."""
        try:
            size = self.sock.recv_into(_BUFFER)
        except BlockingIOError:
            return None
        return bytes(_BUFFER[:size])

    def send(self, data: memoryview | bytearray | bytes) -> int:
        try:
            return self.sock.send(data)
        except BlockingIOError:
            return 0

    def close(self) -> None:
        self.sock.close()


class TlsWire(Wire):
    def __init__(
        self, address: Address, context: ssl.SSLContext, host: str, source: str | None = None
    ) -> None:
        super().__init__(address, source)
        self._context = context
        self._host = host
        self._tls: ssl.SSLSocket | None = None

    def advance(self) -> int:
        if self._tls is None:
            super().advance()
            self._tls = self._context.wrap_socket(
                self.sock, server_hostname=self._host, do_handshake_on_connect=False
            )
            self.sock = self._tls
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return WANTS_READ
        except ssl.SSLWantWriteError:
            return WANTS_WRITE
        return DONE

    def recv(self) -> bytes | None:
        # A record that TLS has read already rings no bell: take all there is, record by record.
        chunks = []
        size = 0
        try:
            while size < READ_SIZE or self._tls.pending():  # type: ignore[union-attr]
                got = self.sock.recv_into(_BUFFER)
                if not got:
                    break
                chunks.append(bytes(_BUFFER[:got]))
                size += got
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            if not chunks:
                return None
        return b"".join(chunks)

    def send(self, data: memoryview | bytearray | bytes) -> int:
        try:
            return self.sock.send(data)
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            return 0


def explain(error: OSError, target: Target) -> BenchError:
    """`error` from connecting, as a sentence with what to check."""
    where = target.path if target.scheme == "unix" else target.authority
    if isinstance(error, ssl.SSLCertVerificationError):
        return BenchError(
            f"the certificate of {where} is not trusted: {error.verify_message}",
            "Name its authority with --cafile FILE, or skip the check with --insecure.",
        )
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or str(error)).replace("_", " ").lower()
        return BenchError(
            f"no TLS with {where}: {reason}",
            "Does the port speak TLS? mqtt:// and ws:// are for those that do not.",
        )
    hint = {
        errno.ECONNREFUSED: "Does the broker run, and listen on this address and port?",
        errno.ENOENT: "There is no such socket: does the broker run, and listen there?",
        errno.EACCES: "This user may not open that socket.",
        errno.EAGAIN: "The broker does not accept connections as fast as they come.",
        errno.ECONNRESET: f"Does that port speak what {target.scheme}:// stands for?",
        errno.EADDRNOTAVAIL: "This machine has no free port left: open fewer connections.",
        errno.EMFILE: "Too many open files: raise the limit with `ulimit -n`.",
    }.get(error.errno or 0, "Check address and port, and the network between here and there.")
    text = {
        errno.ECONNREFUSED: "connection refused",
        errno.ECONNRESET: "connection reset",
    }.get(error.errno or 0, "")
    if not text:
        text = os.strerror(error.errno).lower() if error.errno else str(error)
    return BenchError(f"cannot connect to {where}: {text}", hint)


def raise_file_limit(files: int) -> None:
    """Let this process open `files` sockets.  Raises `BenchError`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files + _SPARE_FILES
    if soft == resource.RLIM_INFINITY or wanted <= soft:
        return
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise BenchError(
            f"{files:,} connections need more open files than the {hard:,} this process may have",
            "Raise the hard limit (`ulimit -Hn`), or ask for fewer with --clients, --pubs, --subs.",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
