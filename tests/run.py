"""Runs the tests, each time on a known build, and closes with `N passed, N failed`.

    python tests/run.py                       all tests, on the pure and then on the compiled build
    python tests/run.py --build pure          all tests on the pure build
    python tests/run.py tests.wire -v         some of them, on both, test by test

The pure build is the source tree.  The compiled build is the one installed beside this Python
(`make test` installs it), which the tree must not shadow.  Each build gets a fresh process.  That
process, and what it starts, finds mhub by PYTHONPATH (pure) or in site-packages (compiled), never
in the current directory: PYTHONSAFEPATH sees to that.  What was loaded is then asked of
`mhub.build`, and a wrong answer fails the run.  The log of a run is build/test-BUILD.log.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
BUILDS = ("pure", "compiled")
LONGEST_RUN_S = 600


class Counts(NamedTuple):
    passed: int
    failed: int
    skipped: int


def main() -> int:
    options = _parse(sys.argv[1:])
    if options.report:
        return _run_here(options)
    counts = {}
    for build in [options.build] if options.build else BUILDS:
        counts[build] = _run_process(build, options)
    for build, (passed, failed, skipped) in counts.items():
        print(f"{build} build: {passed} passed, {failed} failed, {skipped} skipped")
    passed, failed, _ = map(sum, zip(*counts.values(), strict=True))
    print(f"{passed} passed, {failed} failed", flush=True)
    return 0 if passed and not failed else 1


def _parse(argv: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", choices=BUILDS, help="one build; both without this")
    parser.add_argument("--verbose", "-v", action="store_true", help="name each test")
    parser.add_argument("--report", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", default=["tests"], help="modules, classes or tests")
    return parser.parse_args(argv)


def _run_process(build: str, options: argparse.Namespace) -> Counts:
    """One build's run in a process of its own.  One that dies, or hangs, is a failed test."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PYTHONSAFEPATH"] = "1"
    if build == "pure":
        environment["PYTHONPATH"] = str(ROOT)
    with tempfile.TemporaryDirectory() as directory:
        report = Path(directory, "counts.json")
        command = [sys.executable, __file__, "--build", build, "--report", str(report)]
        command += ["-v"] * options.verbose + options.names
        try:
            code = subprocess.run(command, env=environment, timeout=LONGEST_RUN_S).returncode
        except subprocess.TimeoutExpired:
            code = None
        if report.exists():
            return Counts(*json.loads(report.read_text()))
    ended = f"still ran after {LONGEST_RUN_S} s" if code is None else f"ended with status {code}"
    print(f"the {build} run {ended}, without a result")
    return Counts(0, 1, 0)


def _run_here(options: argparse.Namespace) -> int:
    # Last, so that an installed mhub comes first; the tests themselves are never installed.
    sys.path.append(str(ROOT))
    wrong = _wrong_build(options.build)
    if wrong:
        print(wrong)
        return 2

    from twisted.trial import reporter, runner

    style = reporter.TreeReporter if options.verbose else reporter.TextReporter
    suite = runner.TestLoader().loadByNames(options.names, recurse=True)
    # Short, as the name of a Unix socket has room for about a hundred bytes, all told.
    scratch = options.report.parent / "t"
    result = runner.TrialRunner(style, workingDirectory=str(scratch)).run(suite)
    log = ROOT / "build" / f"test-{options.build}.log"
    log.parent.mkdir(exist_ok=True)
    shutil.copyfile(scratch / "test.log", log)
    failed = len(result.failures) + len(result.errors) + len(result.unexpectedSuccesses)
    passed = result.successes + len(result.expectedFailures)
    options.report.write_text(json.dumps(Counts(passed, failed, len(result.skips))))
    return 0


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
