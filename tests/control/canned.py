"""A control socket that answers with what it was given, whatever is asked."""

import json
import socket
from pathlib import Path
from threading import Thread
from typing import Self

from mhub.control.contract import short_name

LONGEST_S = 20.0


class CannedSocket:
    """Serves one client: takes a line, sends `answer`, and closes unless it is to be `silent`."""

    def __init__(self, path: Path, *answer: object, silent: bool = False) -> None:
        self.requests: list[object] = []
        self._lines = [
            line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n"
            for line in answer
        ]
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
        connection, _ = self._listener.accept()
        with connection, connection.makefile("rb") as incoming:
            connection.settimeout(LONGEST_S)
            self.requests.append(json.loads(incoming.readline()))
            try:
                for line in self._lines:
                    connection.sendall(line)
                if self._silent:
                    incoming.read()  # until the client closes
            except (BrokenPipeError, ConnectionResetError):
                pass  # it has heard enough
