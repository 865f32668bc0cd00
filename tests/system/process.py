"""A broker in a process of its own: `twistd mhub`, on loopback, with the log in a file."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import mhub
from tests.system.raw import Raw

PATIENCE_S = 30.0
"""How long anything may take before a test gives up: only failures wait that long."""

POLL_S = 0.02

_LISTENING = re.compile(r"listening on \w+://\S+:(\d+)\S* \((.+)\)")


def wait_until(done: Callable[[], bool], what: str, patience_s: float = PATIENCE_S) -> None:
    deadline = time.monotonic() + patience_s
    while not done():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited in vain: {what}")
        time.sleep(POLL_S)


def environment(*plugins: Path) -> dict[str, str]:
    """Processes find the mhub that the tests found, on either build, and plugins below folders."""
    found = Path(mhub.__file__).resolve().parent.parent
    path = ":".join(map(str, (found, *plugins)))
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1"}


def twistd(*arguments: str) -> list[str]:
    return [str(Path(sys.executable).with_name("twistd")), "--pidfile=", *arguments]


def run(command: list[str], **options: object) -> subprocess.CompletedProcess[str]:
    """A command that ends by itself; its output is text."""
    return subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment(),
        timeout=PATIENCE_S,
        **options,
    )


class Broker:
    """One `twistd mhub`, whose configuration has a plain listener of the name `plain`.

    Listeners should have port 0: `ports` says by their names which ones the system gave them.
    `application` is a file for `twistd -y` that takes over from the command `mhub`; it finds the
    configuration by MHUB_CONFIG.
    """

    def __init__(self, directory: Path, config: str, application: Path | None = None) -> None:
        self.directory = directory
        self.ports: dict[str, int] = {}
        self._application = application
        self._config = directory / "broker.toml"
        self._config.write_text(config)
        self._log = directory / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Returns when the broker has answered a first client."""
        command = twistd("-n", "mhub", "--config", str(self._config))
        if self._application is not None:
            command = twistd("-n", "--no_save", "-y", str(self._application))
        keeper = shutil.which("setpriv")
        if keeper:  # A test run that is killed takes its brokers with it.
            command = [keeper, "--pdeathsig", "KILL", *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=self.directory,
                env={**environment(self.directory), "MHUB_CONFIG": str(self._config)},
            )
        wait_until(self._answers, "the broker answers")

    def _answers(self) -> bool:
        if self._ended() is not None:
            raise AssertionError(f"the broker ended with {self._ended()}:\n{self.log()}")
        self._find_ports()
        if "plain" not in self.ports:
            return False
        first = Raw(("127.0.0.1", self.port))
        first.connect("first")
        first.close()
        self._find_ports()  # by now all of them are open
        return True

    def _find_ports(self) -> None:
        self.ports = {name: int(port) for port, name in _LISTENING.findall(self.log())}

    @property
    def port(self) -> int:
        return self.ports["plain"]

    @property
    def pid(self) -> int:
        assert self._process is not None, "not started"
        return self._process.pid

    def _ended(self) -> int | None:
        return self._process.poll() if self._process is not None else None

    @property
    def running(self) -> bool:
        return self._process is not None and self._ended() is None

    def log(self, since: int = 0) -> str:
        """What was logged; `since` is a length of an earlier log."""
        return self._log.read_text()[since:]

    def wait_for_log(self, text: str, since: int = 0) -> str:
        """The first line with this text."""

        def lines() -> list[str]:
            return [line for line in self.log(since).splitlines() if text in line]

        try:
            wait_until(lambda: bool(lines()), text)
        except AssertionError:
            raise AssertionError(f"not logged: {text!r}\n{self.log(since)[-5000:]}") from None
        return lines()[0]

    def resident_bytes(self) -> int:
        """The memory the process takes now."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def signal(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def wait(self, patience_s: float = PATIENCE_S) -> int:
        """The exit status, once the process has ended; negative if it died of a signal."""
        assert self._process is not None, "not started"
        try:
            return self._process.wait(patience_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the broker still runs:\n{self.log()[-5000:]}") from None

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def kill(self) -> None:
        """For the end of a test, whatever happened."""
        if self._process is not None and self._ended() is None:
            self._process.kill()
            self._process.wait()
