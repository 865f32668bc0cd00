"""`mhub ctl top`: what it shows on screens of any size, and how it behaves on a real terminal."""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mhub.ctl.table import cells
from mhub.ctl.top_view import BOTH, CLIENTS, TOPICS, Numbers, Shown, once, rates_of, screen
from tests.ctl.canned import LONGEST_S, canned_socket
from tests.ctl.case import CtlCase

STATUS = {
    "version": "1",
    "state": "running",
    "uptime_s": 60.0,
    "sessions": {"connected": 2, "total": 3},
    "messages": {"received": 100, "sent": 50, "dropped": 0, "received_per_s": 7.0},
    "queues": {"queued_bytes": 2048},
}


def clients(number: int) -> list[dict[str, object]]:
    return [
        {"client_id": f"pump-{n}\x1b[2J", "messages_in_per_s": 1000.0 - n, "queued": n}
        for n in range(number)
    ]


def topics(number: int) -> list[dict[str, object]]:
    return [{"topic": f"plant/{n}/" + "x" * 200, "messages_per_s": 5.0} for n in range(number)]


def numbers(most: int = 50) -> Numbers:
    return Numbers(0.0, STATUS, {}, clients(most), topics(most), ("c",))


class ScreenTests(SynchronousTestCase):
    def test_any_size(self) -> None:
        """It has as many lines as the screen, and none is wider."""
        for view in (BOTH, CLIENTS, TOPICS):
            for width, height in ((80, 24), (200, 60), (40, 10), (20, 5), (8, 2), (300, 4)):
                for most in (0, 1, 50):
                    lines = screen(numbers(most), Shown(view=view), "broken", width, height)
                    self.assertEqual(len(lines), height)
                    self.assertLessEqual(max(map(cells, lines)), max(width, 8), (width, height))

    def test_80_by_24(self) -> None:
        lines = screen(numbers(), Shown(), "", 80, 24)
        text = "\n".join(lines)
        self.assertNotIn("\x1b", text)
        self.assertTrue(lines[0].startswith("mhub 1: running for 1m, at "))
        self.assertIn("not answered: c", lines[0])
        self.assertTrue(lines[1].startswith("2 connected of 3; "))
        self.assertIn("CLIENTS by messages in", text)
        self.assertIn("pump-0\\x1b[2J ", text)
        self.assertIn("TOPICS by messages", text)
        self.assertIn("xx…", text)
        self.assertTrue(lines[-1].startswith("q quit"))
        self.assertEqual(text.count("pump-"), text.count("plant/"))

    def test_what_one_does_not_need_the_other_has(self) -> None:
        found = Numbers(0.0, STATUS, {}, clients(2), topics(50), ())
        text = "\n".join(screen(found, Shown(), "", 80, 24))
        self.assertEqual(text.count("pump-"), 2)
        self.assertGreater(text.count("plant/"), 10)

    def test_once(self) -> None:
        lines = once(numbers(), Shown(), 80)
        self.assertEqual(sum("pump-" in line for line in lines), 50)

    def test_rates(self) -> None:
        """Between two answers; of the first, and after a restart, the broker's averages."""
        self.assertEqual(rates_of(STATUS, {})["received"], 7.0)
        later = {**STATUS, "uptime_s": 62.0, "messages": {"received": 300, "sent": 50}}
        self.assertEqual(rates_of(later, STATUS)["received"], 100.0)
        self.assertEqual(rates_of(STATUS, later)["received"], 7.0)


class OnceTests(CtlCase):
    def run_top(self, *argv: str) -> None:
        path = self.folder / "control.sock"
        answers = (STATUS, {"clients": clients(2)}, {"topics": topics(1), "missing": []})
        with canned_socket(path, *answers) as canned:
            self.assertEqual(self.run_ctl("top", *argv, "--socket", str(path)), 0, self.err)
        self.asked = [request.short for request in canned.requests]

    def test_without_a_terminal(self) -> None:
        self.run_top("--sort", "bytes_out_per_s")
        self.assertIn("CLIENTS by bytes out\n", self.out)
        self.assertNotIn("\x1b", self.out)
        by = {"by": "bytes_out_per_s", "limit": "100"}
        self.assertEqual(self.asked[1], ("GET", "clients/top", by))

    def test_json(self) -> None:
        self.run_top("--json")
        self.assertEqual(json.loads(self.out)["status"], STATUS)

    def test_mistakes(self) -> None:
        for argv in (("--interval", "0"), ("--sort", "x")):
            self.assertEqual(self.run_ctl("top", *argv), 2)


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command: list[str], width: int, height: int) -> None:
        self.main, self.other = pty.openpty()
        self.resize(width, height)
        self.before = termios.tcgetattr(self.other)
        self.process = subprocess.Popen(
            command,
            stdin=self.other,
            stdout=self.other,
            stderr=self.other,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm"} | {"PYTHONPATH": os.pathsep.join(sys.path)},
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0) and None,
        )
        self.seen = ""

    def resize(self, width: int, height: int) -> None:
        fcntl.ioctl(self.main, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def type(self, keys: str) -> None:
        self.seen = ""
        os.write(self.main, keys.encode())

    def until(self, pattern: str) -> str:
        """What it writes, until that comes."""
        ends = time.monotonic() + LONGEST_S
        while not re.search(pattern, self.seen, re.S):
            readable, _, _ = select.select([self.main], [], [], max(ends - time.monotonic(), 0))
            if not readable:
                raise AssertionError(f"{pattern!r} did not come, but {self.seen!r}")
            self.seen += os.read(self.main, 65536).decode()
        return self.seen

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.main)
        os.close(self.other)


class TerminalTests(CtlCase):
    def start(self, width: int = 80, height: int = 24) -> Terminal:
        path = self.folder / "control.sock"
        found = ({"clients": clients(50)}, {"topics": topics(50), "missing": []})
        self.canned = canned_socket(path, *(STATUS, *found) * 40)
        self.canned.__enter__()
        self.addCleanup(self.canned.stop)
        python = (sys.executable, "-c", "import sys; from mhub.cli import main; sys.exit(main())")
        terminal = Terminal(
            [*python, "ctl", "top", "--socket", str(path), "--interval", "60"],
            width,
            height,
        )
        self.addCleanup(terminal.close)
        return terminal

    def setUp(self) -> None:
        super().setUp()
        # Those of the tests' own terminal would count more than the size of this one.
        for name in ("COLUMNS", "LINES"):
            os.environ.pop(name, None)
        self.folder = Path("/tmp") / f"mhub-top-{os.getpid()}-{id(self)}"
        self.folder.mkdir()
        self.addCleanup(shutil.rmtree, self.folder)

    def assertGivenBack(self, terminal: Terminal, status: int = 0) -> None:
        """The screen, the cursor and the modes are as they were."""
        terminal.until(re.escape("\x1b[?25h\x1b[?1049l"))
        self.assertEqual(terminal.process.wait(LONGEST_S), status)
        self.assertEqual(termios.tcgetattr(terminal.other), terminal.before)

    def test_keys(self) -> None:
        terminal = self.start()
        seen = terminal.until("space pause")
        self.assertIn("\x1b[?1049h\x1b[?25l", seen)
        self.assertIn("CLIENTS by messages in\x1b[K", seen)
        self.assertEqual(seen.count("\r\n"), 23)
        terminal.type("O")
        terminal.until("CLIENTS by bytes out.*space pause")
        terminal.type("b")
        terminal.until("TOPICS by bytes.*space pause")
        terminal.type("v")
        self.assertNotIn("TOPICS", terminal.until("CLIENTS.*space pause").rpartition("\x1b[H")[2])
        terminal.type(" ")
        terminal.until("PAUSED")
        terminal.type("q")
        self.assertGivenBack(terminal)

    def test_resized(self) -> None:
        terminal = self.start()
        terminal.until("space pause")
        terminal.seen = ""
        terminal.resize(60, 12)
        os.kill(terminal.process.pid, signal.SIGWINCH)
        seen = terminal.until("q quit.*\x1b\\[J").rpartition("\x1b[H")[2]
        lines = seen.replace("\x1b[K", "").replace("\x1b[J", "").split("\r\n")
        self.assertEqual(len(lines), 12)
        self.assertLessEqual(max(map(cells, lines)), 60)
        terminal.type("q")
        self.assertGivenBack(terminal)

    def test_interrupted(self) -> None:
        terminal = self.start()
        terminal.until("space pause")
        terminal.type("\x03")
        self.assertGivenBack(terminal)

    def test_no_broker(self) -> None:
        """The screen is not taken for an error."""
        terminal = Terminal(
            [sys.executable, "-m", "mhub", "ctl", "top", "--socket", "/nowhere"], 80, 24
        )
        self.addCleanup(terminal.close)
        self.assertEqual(terminal.process.wait(LONGEST_S), 1)
        self.assertNotIn("\x1b", terminal.until("control socket"))
