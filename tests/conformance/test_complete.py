"""No statement of the specifications that shows on the wire goes without a test."""

from twisted.trial import unittest

from tests.conformance.statements import FILES, load_tests_of_all_chapters, shown_by, statements


class EveryStatementHasATest(unittest.SynchronousTestCase):
    def missing(self, spec: str) -> list[str]:
        load_tests_of_all_chapters()
        return [
            row.id
            for row in statements(spec).values()
            if row.testable == "wire" and (spec, row.id) not in shown_by
        ]

    def test_mqtt_3_1_1(self) -> None:
        """Each `wire` row of mqtt311.csv is named by a test."""
        self.assertEqual([], self.missing("3.1.1"))

    def test_mqtt_5(self) -> None:
        """Each `wire` row of mqtt5.csv is named by a test."""
        self.assertEqual([], self.missing("5"))

    def test_files_hold_known_kinds_of_rows(self) -> None:
        """A row that is neither testable nor excused would slip through."""
        kinds = {row.testable for spec in FILES for row in statements(spec).values()}
        self.assertEqual({"wire", "internal", "client-only"}, kinds)
