"""One operation of a running broker and its answer, with a plain socket that blocks.

The request says HTTP/1.0, which gets an answer that needs no decoding: it ends with the connection.
So this is a page of code, where the standard library's client would be a third of the time that
`mhub ctl status` takes.
"""

import socket
from collections.abc import Callable, Iterator
from typing import Any, Final

from mhub.control.contract import ControlError, from_line, short_name, to_line

CONNECT_S: Final = 5.0
SILENCE_S: Final = 30.0
MAX_LINE: Final = 64 << 20
NOT_UNDERSTOOD: Final = "the broker gives an answer that this mhub does not understand"


class NoBroker(ControlError):
    """Nobody answers at the socket."""


def call(
    path: str,
    operation: str,
    arguments: dict[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
    silence_s: float = SILENCE_S,
    data: Callable[[bytes], object] | None = None,
) -> object:
    """What the broker at `path` answers.

    Raises ControlError when it refuses, when nobody is there, and when nothing is received for
    `silence_s`.  What is told meanwhile goes to `progress`, and each line of data to `data`.
    """
    body = to_line(arguments or {})
    head = f"POST /{operation} HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    with _connect(path) as connection:
        connection.settimeout(silence_s)
        try:
            connection.sendall(head.encode("ascii") + body)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have said why, before it closed
        except TimeoutError:
            raise _silent(path, silence_s) from None
        lines = _lines(connection, path, silence_s)
        if not next(lines, b"HTTP/1.").startswith(b"HTTP/1."):
            raise _stranger(path)
        while next(lines, b"\r") != b"\r":
            pass
        for line in lines:
            if not line.startswith((b'{"progress":', b'{"result":', b'{"error":')):
                if data is None:
                    raise _stranger(path)
                data(line + b"\n")
                continue
            answer = _understood(line, path)
            if "result" in answer:
                return answer["result"]
            if "error" in answer:
                raise ControlError(str(answer["error"]))
            if progress is not None:
                progress(str(answer["progress"]))
    raise ControlError(f"the broker at {path} went away without an answer: has it ended?")


def facts(answer: object) -> dict[str, Any]:
    """An answer that has to be an object.  Raises ControlError."""
    if not isinstance(answer, dict):
        raise ControlError(NOT_UNDERSTOOD)
    return answer


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        with short_name(path) as name:
            connection.connect(name)
    except OSError as error:
        connection.close()
        raise _why_not(path, error) from None
    return connection


def _why_not(path: str, error: OSError) -> ControlError:
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


def _lines(connection: socket.socket, path: str, silence_s: float) -> Iterator[bytes]:
    """Each line that comes, until the connection ends."""
    rest = b""
    while True:
        try:
            data = connection.recv(1 << 18)
        except TimeoutError:
            raise _silent(path, silence_s) from None
        except ConnectionResetError:
            return
        if not data:
            return
        *lines, rest = (rest + data).split(b"\n")
        yield from lines
        if len(rest) > MAX_LINE:
            raise _stranger(path)


def _understood(line: bytes, path: str) -> dict[str, object]:
    try:
        return from_line(line)
    except ValueError:
        raise _stranger(path) from None


def _silent(path: str, silence_s: float) -> ControlError:
    return ControlError(
        f"nothing was received from the broker at {path} for {silence_s:g} s; its log may tell why"
    )


def _stranger(path: str) -> ControlError:
    return ControlError(f"what answers at {path} is not a broker's control socket")
