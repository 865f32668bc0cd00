"""A test case with a mosquitto of its own, a fresh one for each test, on free loopback ports."""

import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from unittest import SkipTest, TestCase

from tests.bench.command import Said, bench

PLACES = "/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin"
FAULTS = ("lost", "duplicated", "disordered", "misrouted", "unacknowledged")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class MosquittoCase(TestCase):
    configuration = ""
    """{port}, {websocket} (of the listener that is opened last) and {directory} are filled in."""

    def setUp(self) -> None:
        program = shutil.which("mosquitto", path=PLACES)
        if program is None:
            raise SkipTest("mosquitto is not installed (Debian: apt install mosquitto)")
        self.directory = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.directory)
        self.port, self.websocket = free_port(), free_port()
        self.prepare()
        file = self.directory / "mosquitto.conf"
        text = self.configuration.format(
            port=self.port, websocket=self.websocket, directory=self.directory
        )
        file.write_text(f"user {self.directory.owner()}\nallow_anonymous true\n{text}")
        self.process = subprocess.Popen([program, "-c", str(file)], stderr=subprocess.DEVNULL)
        self.addCleanup(self.stop)
        for _ in range(500):
            try:
                socket.create_connection(("127.0.0.1", self.websocket), 1).close()
                return
            except OSError:
                time.sleep(0.02)
        self.fail("mosquitto does not listen")

    def prepare(self) -> None:
        """Put into the directory what the configuration names."""

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(10)

    def run_bench(self, *options: str, url: str = "") -> Said:
        url = url or f"mqtt://127.0.0.1:{self.port}"
        return bench(url, "--seconds", "0.2", "--window", "20", *options)

    def assertClean(self, said: Said) -> None:
        self.assertEqual(said.status, 0, said)
        for result in said.results:
            self.assertGreater(result["received"], 0)
            self.assertEqual([result[fault] for fault in FAULTS], [0] * len(FAULTS), result)
