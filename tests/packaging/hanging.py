"""A test that passes, and one that starts processes and hangs: for the tests of `tests/run.py`.

Not collected by default, as its name does not begin with `test_`.  The process ids are written to
the file that MHUB_HANGING names.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from tests.helpers.redis import RedisServer
from tests.system.process import Broker, environment, twistd

CONFIG = '[[listeners]]\nname = "plain"\nport = 0\n'

SLEEPER = """
import os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.setsid()
if os.fork():
    os._exit(0)
print(os.getpid(), flush=True)
time.sleep(3600)
"""
"""A process with a session of its own and without a parent, which only SIGKILL ends."""


class HangingTests(SynchronousTestCase):
    def test_1_passes(self) -> None:
        pass

    def test_2_hangs(self) -> None:
        self.hang()

    def test_3_hangs_and_cannot_be_interrupted(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.hang()

    def hang(self) -> None:
        directory = Path(tempfile.mkdtemp(dir=os.getcwd()))
        broker = Broker(directory, CONFIG)
        broker.start()
        pids = [os.getpid(), broker.pid]
        frozen = Broker(Path(tempfile.mkdtemp(dir=os.getcwd())), CONFIG)
        frozen.start()
        frozen.signal(signal.SIGSTOP)
        pids += [frozen.pid, self.daemon(directory), self.sleeper()]
        if shutil.which("redis-server"):
            pids.append(RedisServer().pid)
        path = Path(os.environ["MHUB_HANGING"])
        path.with_suffix(".new").write_text(" ".join(map(str, pids)))
        path.with_suffix(".new").rename(path)
        while True:
            time.sleep(3600)

    def sleeper(self) -> int:
        command = [sys.executable, "-c", SLEEPER]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            return int(process.stdout.readline())

    def daemon(self, directory: Path) -> int:
        """A broker in the background, as twistd makes it without `--nodaemon`."""
        pid_file = directory / "daemon.pid"
        config = directory / "daemon.toml"
        config.write_text(CONFIG + '[store]\nkind = "memory"\n[control]\npath = ""\n')
        command = twistd("mhub", "--config", str(config))
        command[1:2] = [f"--pidfile={pid_file}", f"--logfile={directory / 'daemon.log'}"]
        subprocess.run(command, check=True, cwd=directory, env=environment(), timeout=60)
        return int(pid_file.read_text())
