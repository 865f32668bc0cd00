"""Runs a command to its end, or cuts it off; in either case nothing that it started goes on.

Progress decides: the command is cut off when the file that it writes to has not changed for a long
time, however long the whole takes.

All that a command starts is found, also what has a process group or session of its own and what
has lost its parent: this process is made their subreaper, so that the system makes them its
children (prctl(2), PR_SET_CHILD_SUBREAPER).  Linux only.
"""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

POLL_S = 0.1
GRACE_S = 5.0
"""How long a command may take to clean up after SIGINT, before everything is killed."""

KILL_S = 10.0
"""How long the system may take to end what was killed."""

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(Exception):
    """This process was told to end."""


@contextmanager
def interruptible() -> Iterator[None]:
    """A signal that would end this process raises `Interrupted` instead."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted(signal.Signals(number).name)

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def run(
    command: list[str], environment: Mapping[str, str], progress: Path, stall_s: float
) -> int | None:
    """The exit status; None if it was cut off, as nothing was written for so long."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    process: subprocess.Popen[bytes] | None = None
    try:
        # In a session of its own, so that Ctrl-C comes to us alone, and we see to the rest.
        process = subprocess.Popen(command, env=dict(environment), start_new_session=True)
        watched = _Progress(progress)
        while process.poll() is None:
            if watched.still_for() > stall_s:
                return None
            _reap(process.pid)
            time.sleep(POLL_S)
        return process.returncode
    finally:
        with _uninterrupted():
            _end(process)


class _Progress:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._size = -1
        self._changed_at = time.monotonic()

    def still_for(self) -> float:
        """For how many seconds nothing has been written."""
        now = time.monotonic()
        size = self._path.stat().st_size if self._path.exists() else 0
        if size != self._size:
            self._size, self._changed_at = size, now
        return now - self._changed_at


def die_with_parent() -> None:
    """For the command: a runner that is killed cannot clean up, so this process has to."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGINT)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """To clean up takes some seconds, and is done whatever the user does."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(process: "subprocess.Popen[bytes] | None") -> None:
    """The command, and then all that is left of it."""
    if process is not None and process.poll() is None:
        # Python makes it a KeyboardInterrupt: temporary files are removed, processes ended.
        process.send_signal(signal.SIGINT)
        _wait_until(lambda: process.poll() is not None, GRACE_S)
    else:
        # Brokers are killed by the system when their parent ends, which takes a moment.
        _wait_until(lambda: not _left(process), POLL_S)
    if not _wait_until(lambda: _kill_all(process), KILL_S):
        print(f"still running: {' '.join(map(str, _descendants()))}")


def _kill_all(process: "subprocess.Popen[bytes] | None") -> bool:
    """Whether there was nothing left to kill."""
    left = _left(process)
    for pid in left:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # it has just ended
    return not left


def _left(process: "subprocess.Popen[bytes] | None") -> list[int]:
    """What runs, or has not ended with all its threads."""
    if process is None or process.poll() is not None:
        _reap()
    return _descendants()


def _wait_until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S / 10)
    return True


def _reap(but: int = 0) -> None:
    """Take note of the end of processes that became our children; `but` is somebody else's."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or ended.si_pid == but:
            return
        os.waitpid(ended.si_pid, 0)


def _descendants() -> list[int]:
    """Processes that this one has started, that those have started, and so on."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            # The name of the program comes first, in parentheses, and may contain anything.
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        parents.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    waiting = [os.getpid()]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found
