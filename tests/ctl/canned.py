"""A control socket that answers with what it was given, whatever is asked."""

import json
import socket
from pathlib import Path
from threading import Thread
from typing import Self

from mhub.control.contract import short_name

LONGEST_S = 20.0
HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"


class CannedSocket:
    """Takes a client's request, sends all lines, and closes, unless it is to be `silent`.

    `each`: every line is the answer for another client.  `requests` has the operation and the
    arguments of each request.
    """

    def __init__(
        self,
        path: Path,
        *lines: object,
        silent: bool = False,
        each: bool = False,
        head: bytes = HEAD,
    ) -> None:
        self.requests: list[tuple[str, object]] = []
        answers = [_line(line) for line in lines]
        self._answers = [head + one for one in (answers if each else [b"".join(answers)])]
        self._silent = silent
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.settimeout(LONGEST_S)
        with short_name(str(path)) as name:
            self._listener.bind(name)
        self._listener.listen()
        self._thread = Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._thread.join(LONGEST_S)
        self._listener.close()

    def _serve(self) -> None:
        for answer in self._answers:
            connection, _ = self._listener.accept()
            with connection, connection.makefile("rb") as incoming:
                connection.settimeout(LONGEST_S)
                operation = incoming.readline().split()[1].decode()
                size = 0
                while (line := incoming.readline().strip()) != b"":
                    name, _, value = line.partition(b":")
                    size = int(value) if name == b"Content-Length" else size
                self.requests.append((operation, json.loads(incoming.read(size))))
                try:
                    connection.sendall(answer)
                    if self._silent:
                        incoming.read()  # until the client closes
                except (BrokenPipeError, ConnectionResetError):
                    pass  # it has heard enough


def _line(line: object) -> bytes:
    if isinstance(line, bytes):
        return line
    return json.dumps(line, default=vars, separators=(",", ":")).encode() + b"\n"
