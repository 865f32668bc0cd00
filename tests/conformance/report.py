"""Writes docs/conformance.md: each statement, the tests that show it, and how they ended.

    python -m tests.conformance.report

runs the conformance tests and writes the verdicts of that very run.  `test_report` holds the
committed file against the CSV files and the tests.
"""

import contextlib
import sys
import tempfile
import unittest
from pathlib import Path

from tests.conformance.statements import (
    FILES,
    HERE,
    Statement,
    load_tests_of_all_chapters,
    shown_by,
    statements,
)

DOCUMENT = HERE.parent.parent / "docs" / "conformance.md"

PASSES, FAILS, SKIPPED, MISSING = "passes", "**fails**", "skipped", "**no test**"
EXCUSED = {
    "internal": "not visible from outside",
    "client-only": "a duty of clients",
}

HEAD = """# Conformance

Every normative statement of MQTT 3.1.1 and MQTT 5.0, the tests that hold mhub to it over a real
socket, and how they ended. The summaries are ours; the specifications of OASIS have the words that
count. MQTT 3.1 numbers no statements: `tests/conformance/test_mqtt31.py` has its tests.

This file is written by `python -m tests.conformance.report`, which runs the tests. A statement
without a test, or a table that is out of date, fails the test run.
"""


class Verdicts(unittest.TestResult):
    """Remembers how each test ended, by its full name."""

    def __init__(self) -> None:
        super().__init__()
        self.of: dict[str, str] = {}

    def startTest(self, test: unittest.TestCase) -> None:
        self.of[test.id()] = PASSES

    def addError(self, test: unittest.TestCase, err: object) -> None:
        self.of[test.id()] = FAILS

    addFailure = addError

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        self.of[test.id()] = SKIPPED


def run() -> dict[str, str]:
    """Runs the tests of all chapters and returns how each of them ended."""
    suite = unittest.TestSuite()
    for path in sorted(HERE.glob("test_mqtt*.py")):
        suite.addTests(unittest.defaultTestLoader.loadTestsFromName(f"{__package__}.{path.stem}"))
    verdicts = Verdicts()
    # trial's TestCase.mktemp() makes its directories below the current one.
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        suite.run(verdicts)
    return verdicts.of


def verdict(row: Statement, ended: dict[str, str]) -> str:
    """The worst end of the tests of one statement."""
    tests = shown_by.get((row.spec, row.id), [])
    if not tests:
        return EXCUSED.get(row.testable, MISSING)
    ends = {ended.get(test, MISSING) for test in tests}
    return next(end for end in (FAILS, MISSING, SKIPPED, PASSES) if end in ends)


def cells(row: Statement) -> list[str]:
    """What is known of a statement without running anything: id, summary, tests."""
    named = sorted(shown_by.get((row.spec, row.id), []))
    tests = (test.removeprefix(f"{__package__}.") for test in named)
    return [row.id, row.summary.replace("|", "\\|"), "<br>".join(f"`{test}`" for test in tests)]


def document(ended: dict[str, str]) -> str:
    """The whole text."""
    load_tests_of_all_chapters()
    parts = [HEAD]
    for spec in FILES:
        rows = list(statements(spec).values())
        verdicts = [verdict(row, ended) for row in rows]
        passed, wire = verdicts.count(PASSES), sum(row.testable == "wire" for row in rows)
        parts.append(
            f"## MQTT {spec}\n\n{len(rows)} statements, {wire} of them visible on the wire; "
            f"{passed} are shown by tests that pass.\n\n"
            "| statement | summary | tests | verdict |\n| --- | --- | --- | --- |"
        )
        for row, end in zip(rows, verdicts, strict=True):
            parts.append("| " + " | ".join([*cells(row), end]) + " |")
        parts.append("")
    return "\n".join(parts)


def main(path: Path = DOCUMENT) -> int:
    load_tests_of_all_chapters()
    text = document(run())
    path.write_text(text, encoding="utf-8")
    bad = [line for line in text.splitlines() if line.endswith((f"{FAILS} |", f"{MISSING} |"))]
    print("\n".join([*bad, f"{path.name}: {len(bad)} statements not shown"]))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
