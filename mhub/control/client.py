"""One command for a running broker and its answer, with a plain socket that blocks."""

import socket
from collections.abc import Callable, Iterator
from typing import Final

from mhub.control.contract import ControlError, from_line, short_name, to_line

CONNECT_S: Final = 5.0
SILENCE_S: Final = 30.0
MAX_ANSWER: Final = 64 << 20


def call(
    path: str,
    command: str,
    arguments: dict[str, object] | None = None,
    progress: Callable[[str], None] | None = None,
    silence_s: float = SILENCE_S,
) -> object:
    """What the broker at `path` answers to a command.

    Raises ControlError when it refuses, when nobody is there, and when nothing is received for
    `silence_s`; what is told meanwhile goes to `progress`.
    """
    with _connect(path) as connection:
        connection.settimeout(silence_s)
        try:
            connection.sendall(to_line({**(arguments or {}), "command": command}))
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have said why, before it closed
        except TimeoutError:
            raise _silent(path, silence_s) from None
        for line in _lines(connection, path, silence_s):
            answer = _understood(line, path)
            if "progress" in answer:
                if progress is not None:
                    progress(str(answer["progress"]))
            elif answer.get("ok") is True:
                return answer.get("result")
            else:
                raise ControlError(str(answer.get("error", "the broker gives no reason")))
    raise ControlError(f"the broker at {path} went away without an answer: has it ended?")


def _connect(path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        connection.settimeout(CONNECT_S)
        with short_name(path) as name:
            connection.connect(name)
    except OSError as error:
        connection.close()
        raise ControlError(_why_not(path, error)) from None
    return connection


def _why_not(path: str, error: OSError) -> str:
    if isinstance(error, (FileNotFoundError, NotADirectoryError, ConnectionRefusedError)):
        return f"no broker answers at {path}: is it running, and is that its control socket?"
    if isinstance(error, PermissionError):
        return (
            f"not allowed to use {path}: run this as the user of the broker, or let others use the"
            " socket by [control] path and mode"
        )
    if isinstance(error, (TimeoutError, BlockingIOError)):
        return f"the broker at {path} does not take the connection: is it stopped or very busy?"
    return f"cannot connect to {path}: {error.strerror or error}"


def _lines(connection: socket.socket, path: str, silence_s: float) -> Iterator[bytes]:
    """Each line that comes, until the connection ends."""
    buffer = bytearray()
    while True:
        try:
            data = connection.recv(1 << 16)
        except TimeoutError:
            raise _silent(path, silence_s) from None
        except ConnectionResetError:
            return
        if not data:
            return
        buffer += data
        while (end := buffer.find(b"\n")) >= 0:
            yield bytes(buffer[:end])
            del buffer[: end + 1]
        if len(buffer) > MAX_ANSWER:
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
