"""The committed docs/conformance.md says what the CSV files and the tests say."""

from twisted.trial import unittest

from tests.conformance import report
from tests.conformance.statements import FILES, load_tests_of_all_chapters, statements


class CommittedReport(unittest.SynchronousTestCase):
    def rows(self) -> list[list[str]]:
        text = report.DOCUMENT.read_text(encoding="utf-8")
        lines = [line for line in text.splitlines() if line.startswith("| MQTT-")]
        return [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]

    def test_every_statement_with_its_tests(self) -> None:
        """Ids, summaries and test names are up to date: `python -m tests.conformance.report`."""
        load_tests_of_all_chapters()
        expected = [report.cells(row) for spec in FILES for row in statements(spec).values()]
        self.assertEqual(expected, [row[:3] for row in self.rows()])

    def test_no_statement_fails(self) -> None:
        """The last written run showed every statement that can be shown."""
        good = {report.PASSES, *report.EXCUSED.values()}
        self.assertEqual([], [row[0] for row in self.rows() if row[3] not in good])
