"""Stores that can be made to fail, and a broker with several lives on one of them.

sqlite    a file; another process can lock it, and where one may mount, its disk can be full
redis     a server of our own; it can be killed
"""

import os
import random
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import SkipTest

from tests.helpers.redis import RedisServer
from tests.system.process import PATIENCE_S, Broker, run
from tests.system.raw import Raw

CONFIG = """
[[listeners]]
name = "plain"
port = 0

[limits]
max_queued_messages = 0
max_queued_bytes = 0

[sys]
interval_s = 0.2

[store]
retry_s = 0.1
queue_window = {window}
"""

WINDOWS = (16, 64, 256)
"""Small ones, so that queues are partly in the store alone."""

FAILING = "the store failed"
WORKING = "the store recovered"


class SqlitePlace:
    def __init__(self, directory: Path) -> None:
        self.path = directory / "mhub.sqlite"

    def config(self) -> str:
        return f'kind = "sqlite"\npath = "{self.path}"\n'

    def bereave(self) -> None:
        """The lock of a file goes with its process."""

    def size_bytes(self) -> int:
        return self.path.stat().st_size

    def close(self) -> None:
        """Files go with their directory."""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Another process has the file for itself."""
        script = (
            "import sqlite3, sys\n"
            "db = sqlite3.connect(sys.argv[1], timeout=30, isolation_level=None)\n"
            "db.execute('BEGIN EXCLUSIVE')\n"
            "print('locked', flush=True)\n"
            "sys.stdin.read()\n"
        )
        command = [sys.executable, "-c", script, str(self.path)]
        holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert holder.stdout is not None
        try:
            said = holder.stdout.readline()
            assert said == "locked\n", said
            yield
        finally:
            holder.communicate(timeout=PATIENCE_S)  # which ends its standard input


class SmallDisk:
    """A file system of a few megabytes, which can be filled."""

    def __init__(self, directory: Path, size_mib: int) -> None:
        if os.geteuid() != 0:
            raise SkipTest("a disk of a few megabytes has to be mounted, which only root may")
        self.directory = directory
        options = f"size={size_mib}m"
        done = run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(directory)])
        if done.returncode:
            raise SkipTest(f"a disk of a few megabytes cannot be mounted: {done.stdout.strip()}")

    @contextmanager
    def full(self) -> Iterator[None]:
        self._fill()
        yield
        (self.directory / "filler").unlink()

    def _fill(self) -> None:
        with open(self.directory / "filler", "wb", buffering=0) as filler:
            for size in (65536, 4096):
                try:
                    while filler.write(bytes(size)) == size:
                        pass
                except OSError:
                    pass  # full, for pieces of that size

    def unmount(self) -> None:
        done = run(["umount", str(self.directory)])
        assert done.returncode == 0, done.stdout


class RedisPlace:
    def __init__(self, is_mortal: bool = False) -> None:
        """`is_mortal`: it will be killed itself, and has to write to its disk what it promises."""
        safe = ("appendonly yes", "appendfsync always") if is_mortal else ()
        self.server = RedisServer(*safe)

    def config(self) -> str:
        return f'kind = "redis"\nredis.port = {self.server.port}\n'

    def bereave(self) -> None:
        """The broker is dead, as we know and Redis does not: the next one need not wait."""
        self.server.ask("DEL", "mhub:owner")

    def size_bytes(self) -> int:
        found = re.search(rb"used_memory:(\d+)", self.server.ask("INFO", "memory"))
        assert found is not None
        return int(found[1])

    def close(self) -> None:
        self.server.remove()

    @contextmanager
    def dead(self) -> Iterator[None]:
        self.server.kill()
        yield
        self.server.start()


Place = SqlitePlace | RedisPlace


class Lives:
    """A broker that is killed and started again, on the same data."""

    def __init__(self, directory: Path, place: Place, rng: random.Random) -> None:
        self.directory = directory
        self.place = place
        self.kills = 0
        self.wrong: list[str] = []  # what was in the logs and must not be
        self._rng = rng
        self._broker: Broker | None = None

    @property
    def broker(self) -> Broker:
        assert self._broker is not None, "not started"
        return self._broker

    @property
    def port(self) -> int:
        return self.broker.port

    def start(self) -> None:
        self._prepare()
        self.broker.start()

    def start_and_kill(self, after_s: float) -> None:
        """Killed while it starts, or just after."""
        self._prepare()
        killer = threading.Timer(after_s, self.broker.kill)
        killer.start()
        try:
            self.broker.start()
        except (AssertionError, OSError):
            killer.join()
            if self.broker.wait() != -signal.SIGKILL:
                raise  # it ended by itself
        killer.join()
        self.kills += 1
        self.place.bereave()

    def kill(self) -> None:
        self.broker.kill()
        self.kills += 1
        # Sometimes the next one has to find out by itself that this one is dead.
        if self.kills % 10:
            self.place.bereave()

    def stop(self) -> None:
        """As an operator would; the store then must be sound, and hold no message any more."""
        status = self.broker.stop()
        if status:
            self.wrong.append(f"the broker ended with {status}")
        config = str(self.directory / "broker.toml")
        command = [sys.executable, "-m", "mhub", "store", "check", "--config", config]
        checked = run(command, cwd=self.directory)
        if checked.returncode or re.search(r"\d (message|deliver|QoS 2)", checked.stdout):
            self.wrong.append(f"after the end: {checked.stdout.strip()}")
        self._read_log()

    def end(self) -> None:
        """Whatever happened."""
        if self._broker is not None:
            self._broker.kill()

    def _prepare(self) -> None:
        """A new broker, whose log begins with it: its ports are found there."""
        if self._broker is not None:
            self._read_log()
            (self.directory / "broker.log").unlink()
        config = CONFIG.format(window=self._rng.choice(WINDOWS)) + self.place.config()
        self._broker = Broker(self.directory, config)

    def _read_log(self) -> None:
        log = self.broker.log()
        if "Traceback" in log:
            self.wrong.append(f"in the log: {log[log.index('Traceback') :][:3000]}")


class StoreState:
    """What `$SYS` says of the store."""

    def __init__(self, port: int) -> None:
        self._raw = Raw(("127.0.0.1", port))
        self._raw.connect("watcher")
        self._raw.subscribe("$SYS/broker/store/state")

    def wait_for(self, text: str) -> str:
        while True:
            packet = self._raw.receive()
            assert packet is not None, "the broker has ended"
            state = packet.payload.decode()
            if state.startswith(text):
                return state

    def close(self) -> None:
        self._raw.close()
