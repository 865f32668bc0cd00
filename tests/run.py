"""Runs the tests, each time on a known build, and closes with `N passed, N failed`.

    python tests/run.py                       all tests, on the pure and on the compiled build
    python tests/run.py --build pure          all tests on the pure build
    python tests/run.py tests.wire -v         some of them, on both, test by test
    python tests/run.py --stall 60            cut off when no test has ended for a minute

The pure build is the source tree.  The compiled build is the one installed beside this Python
(`make test` installs it), which the tree must not shadow.  Each build gets a fresh process.  That
process, and what it starts, finds mhub by PYTHONPATH (pure) or in site-packages (compiled), never
in the current directory: PYTHONSAFEPATH sees to that.  What was loaded is then asked of
`mhub.build`, and a wrong answer fails the run.  The log of a run is build/test-BUILD.log.

The two builds are tested at the same time, each by a process like this one: much of what tests do
is to wait for other processes.  What the second one says is shown when the first one has ended.

A run may take as long as it needs, if its tests come to their ends one after the other.  One in
which none does for five minutes is cut off, and counts as one more failure.  However a run ends,
also by SIGINT or SIGTERM to this process, nothing that it started goes on (`tests.supervise`).
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ("pure", "compiled")
POLL_S = 0.2
STALL_S = 300.0
"""A run in which no test has ended for so long is cut off."""


class Counts(NamedTuple):
    passed: int
    failed: int
    skipped: int


def main() -> int:
    options = _parse(sys.argv[1:])
    # Last, so that an installed mhub comes first; the tests themselves are never installed.
    sys.path.append(str(ROOT))
    if options.report:
        return _run_here(options)
    from tests.supervise import Interrupted, die_with_parent, interruptible

    if options.build is None:
        return _run_both(sys.argv[1:])
    if options.beside:
        die_with_parent()
    counts: dict[str, Counts] = {}
    with interruptible():
        try:
            _run_process(options.build, options, counts)
        except Interrupted as interrupted:
            print(f"\ninterrupted by {interrupted}")
    passed, failed, skipped = counts[options.build]
    print(f"{options.build} build: {passed} passed, {failed} failed, {skipped} skipped")
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


def _run_both(argv: list[str]) -> int:
    """Both builds at the same time, each in a process of its own, which cleans up behind itself."""
    from tests.supervise import Interrupted, interruptible

    passed = failed = 0
    with tempfile.TemporaryDirectory() as directory, interruptible():
        runs = {}
        for build in BUILDS:
            output = Path(directory, build)
            command = [sys.executable, __file__, "--build", build, "--beside", *argv]
            with output.open("wb") as file:
                runs[output] = subprocess.Popen(
                    command, stdout=file, stderr=subprocess.STDOUT, start_new_session=True
                )
        try:
            for output, process in runs.items():
                _show(output, process)
        except Interrupted:
            for process in runs.values():
                process.send_signal(signal.SIGTERM)
        for output, process in runs.items():
            process.wait()
            lines = output.read_text("utf-8", "replace").splitlines()
            found = re.fullmatch(r"(\d+) passed, (\d+) failed", lines[-1] if lines else "")
            passed += int(found[1]) if found else 0
            failed += int(found[2]) if found else 1
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


def _show(output: Path, process: "subprocess.Popen[bytes]") -> None:
    """What a process writes to a file, until it ends."""
    with output.open("rb") as file:
        is_over = False
        while not is_over:
            is_over = process.poll() is not None
            sys.stdout.buffer.write(file.read())
            sys.stdout.flush()
            if not is_over:
                time.sleep(POLL_S)


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", choices=BUILDS, help="one build; both without this")
    parser.add_argument("--verbose", "-v", action="store_true", help="name each test")
    parser.add_argument(
        "--stall",
        type=float,
        default=STALL_S,
        metavar="S",
        help=f"cut a run off in which no test has ended for so long; {STALL_S:g}",
    )
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--beside", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=["tests"], help="modules, classes or tests")
    return parser.parse_args(argv)


def _run_process(build: str, options: argparse.Namespace, counts: dict[str, Counts]) -> None:
    """One build's run in a process of its own.  One that dies, or hangs, is a failed test."""
    from tests.supervise import run

    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONSAFEPATH"] = "1"
    if build == "pure":
        environment["PYTHONPATH"] = str(ROOT)
    counts[build] = Counts(0, 1, 0)  # what holds if we are interrupted
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory:
        report = Path(directory, "tests")
        command = [sys.executable, __file__, "--build", build, "--report", str(report)]
        command += ["-v"] * options.verbose + ["--", *options.names]
        code: int | None = None
        try:
            code = run(command, environment, report, options.stall)
        finally:
            counts[build], under_way, is_over = _read(report)
            if code is None:
                print(f"\nthe {build} run was cut off{f' in {under_way}' if under_way else ''}")
            elif not is_over:
                print(f"the {build} run ended with status {code}, without a result")
        if code is None:
            print(f"no test has ended for {options.stall:g} s")


def _read(report: Path) -> tuple[Counts, str, bool]:
    """What has been counted, the test that was under way, and whether all have ended.

    A run that did not come to its end is a failure.
    """
    counts, under_way = Counts(0, 0, 0), ""
    for line in report.read_text().splitlines() if report.exists() else ():
        try:
            said = json.loads(line)
        except ValueError:
            break  # the last one, half written
        if said == "end":
            return counts, "", True
        if isinstance(said, str):
            under_way = said
        else:
            counts, under_way = Counts(*said), ""
    return counts._replace(failed=counts.failed + 1), under_way, False


def _run_here(options: argparse.Namespace) -> int:
    from tests.supervise import die_with_parent

    die_with_parent()
    wrong = _wrong_build(options.build)
    if wrong:
        print(wrong)
        return 2

    from twisted.trial import reporter, runner

    with options.report.open("w", buffering=1) as report:

        def tell(said: object) -> None:
            report.write(json.dumps(said) + "\n")

        style = reporter.TreeReporter if options.verbose else reporter.TextReporter
        suite = runner.TestLoader().loadByNames(options.names, recurse=True)
        # Short, as the name of a Unix socket has room for about a hundred bytes, all told.
        scratch = options.report.parent / "t"
        trial = runner.TrialRunner(_telling(style, tell), workingDirectory=str(scratch))
        result = trial.run(suite)
        log = ROOT / "build" / f"test-{options.build}.log"
        log.parent.mkdir(exist_ok=True)
        shutil.copyfile(scratch / "test.log", log)
        tell(_counts(result))
        tell("end")
    return 0


def _counts(result: Any) -> Counts:
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    return Counts(result.successes + len(result.expectedFailures), failed, len(result.skips))


def _telling(style: Any, tell: Any) -> Any:
    """A reporter of that style, which also tells when a test begins, and the counts at its end."""

    class Telling(style):  # type: ignore[misc]
        def startTest(self, method: Any) -> None:
            tell(method.id())
            super().startTest(method)

        def stopTest(self, method: Any) -> None:
            super().stopTest(method)
            tell(_counts(self))

    return Telling


def _wrong_build(wanted: str) -> str:
    """Print which build the tests are going to run on; what is wrong with it, if anything is."""
    import mhub
    from mhub.build import describe, kind

    directory = Path(mhub.__file__).resolve().parent
    print(f"\nTesting {describe()}, from {directory}", flush=True)
    in_tree = directory == ROOT / "mhub"
    if kind() == wanted and in_tree == (wanted == "pure"):
        return ""
    remedy = "make clean-ext" if wanted == "pure" else "make test, which installs it"
    return f"That is not the {wanted} build; what helps: {remedy}."


if __name__ == "__main__":
    sys.exit(main())
