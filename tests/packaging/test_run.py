"""`tests/run.py` runs the tests on the build it was asked for, and its last line counts them."""

import subprocess
import sys

from twisted.trial.unittest import SynchronousTestCase

from mhub import build
from tests.packaging.tree import ROOT


class RunTests(SynchronousTestCase):
    def run_tests(self, *names: str) -> tuple[int, list[str]]:
        command = [sys.executable, str(ROOT / "tests/run.py"), "--build", build.kind()]
        output = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        done = subprocess.run([*command, *names], **output, timeout=60)
        return done.returncode, done.stdout.splitlines()

    def test_passed_tests_are_counted_and_the_build_is_named(self) -> None:
        status, lines = self.run_tests("tests.packaging.test_build.KindTests")
        self.assertEqual((status, lines[-1]), (0, "3 passed, 0 failed"), "\n".join(lines))
        self.assertTrue(any(build.describe() in line for line in lines), lines)

    def test_what_cannot_be_run_has_failed(self) -> None:
        status, lines = self.run_tests("tests.packaging.no_such_module")
        self.assertEqual((status, lines[-1]), (1, "0 passed, 1 failed"), "\n".join(lines))
