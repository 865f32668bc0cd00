"""Where lines of the log go.  None of these raises: what cannot be written is lost, and counted.

The broker waits for a file and for standard output, as for any other write.  It never waits for
syslog: what its socket does not take is lost.
"""

import os
import socket
import time
from logging.handlers import SysLogHandler
from pathlib import Path
from typing import Any, Final, Protocol

from mhub.log.lines import short_line

SEVERITIES: Final = {"debug": 7, "info": 6, "warn": 4, "error": 3, "critical": 2}
LONGEST: Final = 8192
"""Bytes of a message to syslog; many servers take no more."""


class Output(Protocol):
    lost: int  # lines, since the start

    def write(self, line: str, event: dict[str, Any]) -> None:
        """A line without its newline, and the event that it was made from."""

    def reopen(self) -> None:
        """Somebody has moved the file."""

    def close(self) -> None:
        """Nothing more is written."""


class StandardOutput:
    lost = 0  # whoever reads it is gone, if a line is lost here

    def write(self, line: str, event: dict[str, Any]) -> None:
        data = memoryview(f"{line}\n".encode("utf-8", "backslashreplace"))
        try:
            while data:
                # Past Python's buffers: what they cannot get rid of makes the exit status another.
                data = data[os.write(1, data) :]
        except OSError:
            pass

    def reopen(self) -> None:
        pass

    def close(self) -> None:
        pass


class FileOutput:
    """A file that becomes FILE.1, FILE.2 and so on when it has reached its size."""

    def __init__(self, path: str, max_bytes: int, keep: int) -> None:
        """OSError if the file cannot be written."""
        self._path = Path(path)
        self._max_bytes = max_bytes  # 0: any size, others rotate it
        self._keep = keep
        self._fd = -1
        self._size = 0
        self._is_cut = False  # the last line has only its beginning
        self.lost = 0
        self._open()

    def _open(self) -> None:
        self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._fd).st_size

    def write(self, line: str, event: dict[str, Any]) -> None:
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        try:
            if self._max_bytes and self._size and self._size + len(data) > self._max_bytes:
                self._begin_another()
            if self._fd < 0:
                self._open()
            self._write(data)
        except OSError:
            self.lost += 1

    def _write(self, data: bytes) -> None:
        """A disk may take the beginning of a line, and nothing more for a while."""
        if self._is_cut:
            data = b"\n" + data
        while data:
            written = os.write(self._fd, data)
            self._size += written
            data = data[written:]
            self._is_cut = bool(data)

    def _begin_another(self) -> None:
        self.close()
        try:
            self._rotate()
        except OSError:
            # The folder may not be ours any more: the file grows, and this is tried again later.
            self._open()
            self._size = 0

    def _rotate(self) -> None:
        for number in range(self._keep - 1, 0, -1):
            older = self._numbered(number)
            if older.exists():
                older.replace(self._numbered(number + 1))
        if self._keep:
            self._path.replace(self._numbered(1))
        else:
            self._path.unlink()

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def reopen(self) -> None:
        self.close()
        try:
            self._open()
        except OSError:
            self.lost += 1  # each line tries again

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class SyslogOutput:
    """Datagrams to a Unix socket, in the form of the C library, or by UDP, in that of RFC 5424."""

    def __init__(self, address: str, facility: str) -> None:
        self._address = address
        self._facility = SysLogHandler.facility_names[facility]
        self._sock: socket.socket | None = None
        self.lost = 0

    def write(self, line: str, event: dict[str, Any]) -> None:
        data = self._datagram(line, event)
        try:
            self._send(data)
        except OSError:
            # The server may have been started again, with a new socket.
            self.reopen()
            try:
                self._send(data)
            except OSError:
                self.reopen()
                self.lost += 1

    def _datagram(self, line: str, event: dict[str, Any]) -> bytes:
        priority = self._facility << 3 | SEVERITIES[event["log_level"].name]
        if not line.startswith("{"):
            line = short_line(event)  # syslog adds the time
        line = line.replace("\n", " ").replace("\0", " ")
        if self._address.startswith("/"):
            head = f"<{priority}>mhub[{os.getpid()}]: "
        else:
            when = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(event["log_time"]))
            head = f"<{priority}>1 {when} {socket.gethostname()} mhub {os.getpid()} - - "
        return f"{head}{line}".encode("utf-8", "backslashreplace")[:LONGEST]

    def _send(self, data: bytes) -> None:
        if self._sock is None:
            self._sock = self._connect()
        self._sock.send(data)

    def _connect(self) -> socket.socket:
        where: Any = self._address
        family = socket.AF_UNIX
        if not self._address.startswith("/"):
            host, _, port = self._address.rpartition(":")
            host = host.strip("[]")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            where = (host, int(port))
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            sock.connect(where)
        except OSError:
            sock.close()
            raise
        return sock

    def reopen(self) -> None:
        if self._sock is not None:
            self._sock.close()
            self._sock = None

    def close(self) -> None:
        self.reopen()
