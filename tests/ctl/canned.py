"""A server that answers with what it was given, whatever is asked."""

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from ssl import SSLContext, SSLError
from threading import Thread
from typing import Self
from urllib.parse import parse_qsl, unquote

from mhub.control.contract import short_name

LONGEST_S = 20.0


def answer(body: object, status: int = 200, media_type: str = "application/json") -> bytes:
    """Bytes are an answer as a whole; all else is JSON."""
    if isinstance(body, bytes):
        return body
    data = json.dumps(body, default=vars).encode()
    head = f"HTTP/1.1 {status} -\r\nContent-Type: {media_type}\r\nContent-Length: {len(data)}\r\n"
    return head.encode() + b"Connection: close\r\n\r\n" + data


def problem(status: int, detail: str) -> bytes:
    return answer({"detail": detail}, status, "application/problem+json")


def chunked(*pieces: bytes, ends: bool = True) -> bytes:
    """A stream; without its end, it was cut off."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
    return head + body + (b"0\r\n\r\n" if ends else b"")


class Asked:
    """A request: method, path without /admin/v1/, query, body and headers."""

    def __init__(self, line: str, headers: dict[str, str], body: bytes) -> None:
        self.method, target, _ = line.split(" ")
        path, _, query = target.partition("?")
        self.path = unquote(path).removeprefix("/admin/v1/")
        self.query = dict(parse_qsl(query, keep_blank_values=True))
        self.headers = headers
        self.body = json.loads(body) if body else None

    @property
    def short(self) -> tuple[str, str, dict[str, str]]:
        return self.method, self.path, self.query


class Canned:
    """Each answer is for another client, which is let go then unless the server is `silent`."""

    def __init__(
        self,
        listener: socket.socket,
        *answers: object,
        silent: bool = False,
        tls: SSLContext | None = None,
    ) -> None:
        self.requests: list[Asked] = []
        self._answers = [answer(each) for each in answers]
        self._silent = silent
        self._tls = tls
        self._listener = listener
        self._listener.settimeout(LONGEST_S)
        self._listener.listen()
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.join(LONGEST_S)
        self._listener.close()

    def stop(self) -> None:
        """Also if not all answers were wanted; the thread sees it when it has waited enough."""
        self._listener.close()

    def _serve(self) -> None:
        for made in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(LONGEST_S)
            try:
                if self._tls is not None:
                    connection = self._tls.wrap_socket(connection, server_side=True)
                with connection, connection.makefile("rb") as incoming:
                    self._one(incoming, connection, made)
            except (BrokenPipeError, ConnectionResetError, SSLError):
                pass  # it has heard enough
            finally:
                connection.close()

    def _one(self, incoming: Iterator[bytes], connection: socket.socket, made: bytes) -> None:
        lines = []
        for line in incoming:
            if line == b"\r\n":
                break
            lines.append(line.decode("latin-1").strip())
        if not lines or not lines[0].endswith("HTTP/1.1"):
            return  # it wanted TLS, or nothing
        headers = dict(line.split(": ", 1) for line in lines[1:])
        body = incoming.read(int(headers.get("Content-Length", "0")))  # type: ignore[attr-defined]
        self.requests.append(Asked(lines[0], headers, body))
        connection.sendall(made)
        if self._silent:
            incoming.read()  # type: ignore[attr-defined]  # until the client closes


def canned_socket(path: Path, *answers: object, silent: bool = False) -> Canned:
    """At a control socket."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with short_name(str(path)) as name:
        listener.bind(name)
    return Canned(listener, *answers, silent=silent)


@contextmanager
def canned_port(*answers: object, tls: SSLContext | None = None) -> Iterator[tuple[Canned, int]]:
    """At a port of this machine."""
    listener = socket.create_server(("127.0.0.1", 0))
    with Canned(listener, *answers, tls=tls) as canned:
        yield canned, listener.getsockname()[1]
