"""`tests/run.py` runs the tests on the build it was asked for, and its last line counts them.

However it ends, nothing that the tests have started is left.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from twisted.trial.unittest import SynchronousTestCase

from mhub import build
from tests.packaging.tree import ROOT

PATIENCE_S = 120.0


def command(*arguments: str) -> list[str]:
    return [sys.executable, str(ROOT / "tests/run.py"), "--build", build.kind(), *arguments]


class RunTests(SynchronousTestCase):
    def run_tests(self, *names: str) -> tuple[int, list[str]]:
        done = subprocess.run(
            command(*names),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout.splitlines()

    def test_passed_tests_are_counted_and_the_build_is_named(self) -> None:
        status, lines = self.run_tests("tests.packaging.test_build.KindTests")
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed"), "\n".join(lines))
        self.assertTrue(any(build.describe() in line for line in lines), lines)

    def test_what_cannot_be_run_has_failed(self) -> None:
        status, lines = self.run_tests("tests.packaging.no_such_module")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"), "\n".join(lines))

    def test_both_builds_are_summed(self) -> None:
        """Where one is missing, that is a failure."""
        done = subprocess.run(
            [sys.executable, str(ROOT / "tests/run.py"), "tests.packaging.test_build.KindTests"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE_S,
        )
        lines = done.stdout.splitlines()
        each = [line for line in lines if line.startswith(("pure build: ", "compiled build: "))]
        self.assertEqual(
            [line.split(" ", 1)[0] for line in each], ["pure", "compiled"], done.stdout
        )
        counts = [[int(word) for word in line.split() if word.isdigit()] for line in each]
        passed, failed, _ = map(sum, zip(*counts, strict=True))
        self.assertEqual(lines[-1], f"{passed} passed, {failed} failed")
        self.assertEqual(done.returncode, 1 if failed else 0)


class HangingTests(SynchronousTestCase):
    """A run that hangs, with brokers, a Redis server and a daemon that it has started."""

    def start(self, *names: str, stall_s: float = PATIENCE_S) -> None:
        self.path = Path(self.mktemp()).absolute()
        tests = [f"tests.packaging.hanging.HangingTests.{name}" for name in names]
        self.runner = subprocess.Popen(
            command("--stall", str(stall_s), *tests),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "MHUB_HANGING": str(self.path)},
        )
        self.addCleanup(self.runner.kill)

    def wait_for_processes(self) -> list[int]:
        """The process ids, when all of them run."""
        deadline = time.monotonic() + PATIENCE_S
        while not self.path.exists():
            if self.runner.poll() is not None or time.monotonic() > deadline:
                self.fail(f"it does not hang: {self.runner.communicate()[0]}")
            time.sleep(0.02)
        return [int(pid) for pid in self.path.read_text().split()]

    def check(self, pids: list[int], last_line: str) -> list[str]:
        """The output, and that nothing is left of these processes."""
        said = self.runner.communicate(timeout=PATIENCE_S)[0]
        lines = said.splitlines()
        self.assertEqual((1, last_line), (self.runner.returncode, lines[-1]), said)
        self.assertEqual([], [pid for pid in pids if Path(f"/proc/{pid}").exists()], said)
        return lines

    def test_it_is_cut_off_when_no_test_ends_for_a_long_time(self) -> None:
        # The time counts from the end of the first test, and the second one starts processes.
        self.start("test_1_passes", "test_2_hangs", stall_s=15.0)
        lines = self.check(self.wait_for_processes(), "1 passed, 1 failed")
        self.assertTrue(any("test_2_hangs" in line for line in lines), lines)

    def test_sigterm_ends_all_of_it(self) -> None:
        self.start("test_1_passes", "test_2_hangs")
        pids = self.wait_for_processes()
        self.runner.send_signal(signal.SIGTERM)
        self.check(pids, "1 passed, 1 failed")

    def test_sigint_ends_all_of_it_even_if_a_test_ignores_that(self) -> None:
        self.start("test_1_passes", "test_3_hangs_and_cannot_be_interrupted")
        pids = self.wait_for_processes()
        self.runner.send_signal(signal.SIGINT)
        self.check(pids, "1 passed, 1 failed")
