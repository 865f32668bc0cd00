"""mosquitto_pub, mosquitto_sub and mosquitto_rr, of the package mosquitto-clients.

Those of Debian 12 (2.0.11) speak TCP, TLS and Unix sockets; WebSocket came to them in a later
version, so WebSocket is tested with paho-mqtt only.
"""

import shutil
import subprocess
from pathlib import Path

from twisted.trial.unittest import SkipTest, SynchronousTestCase

from tests.system.process import wait_until

PATIENCE_S = 30


def need() -> None:
    """Skip the test where the clients are not installed."""
    if shutil.which("mosquitto_pub") is None:
        raise SkipTest("mosquitto_pub is not there: install mosquitto-clients")


def call(case: SynchronousTestCase, name: str, *arguments: str) -> str:
    """Run one to its end; its output."""
    command = [f"mosquitto_{name}", *arguments]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE_S,
    )
    case.assertEqual(0, done.returncode, f"{' '.join(command)}: {done.stdout}")
    return done.stdout


class Subscriber:
    """A mosquitto_sub that has subscribed, and ends after `count` messages."""

    def __init__(self, case: SynchronousTestCase, count: int, *arguments: str) -> None:
        self._case = case
        # With -d it tells of each packet, and a line at a time thanks to stdbuf.
        self._output = Path(case.mktemp())
        limits = ["-C", str(count), "-W", str(PATIENCE_S)]
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                ["stdbuf", "-oL", "mosquitto_sub", "-d", *limits, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        case.addCleanup(self._end)
        wait_until(lambda: "received SUBACK" in self._text(), "mosquitto_sub has subscribed")

    def _text(self) -> str:
        return self._output.read_text()

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    def lines(self) -> list[str]:
        """The payloads, once it has ended; its talk about packets left out."""
        code = self._process.wait(PATIENCE_S)
        text = self._text()
        self._case.assertEqual(0, code, text)
        chatter = ("Client ", "Subscribed ")
        return [line for line in text.splitlines() if not line.startswith(chatter)]
