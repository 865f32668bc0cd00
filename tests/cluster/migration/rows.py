"""A scenario for each row of a state machine's table.

A test named `test_row_STATE_EVENT` brings a machine into that state and makes the event happen
within `self.row(STATE, EVENT)`.  `RowCase.check_rows()` finds rows without a scenario, and
scenarios that would pass without their row.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from unittest import TestResult, mock

from mhub.cluster.migration.source import Source
from mhub.cluster.migration.target import Target
from tests.cluster.migration.played import Case

Table = dict[tuple[str, str], tuple[str, str]]

PREFIX = "test_row_"


class RowCase(Case):
    table: Table

    def machine(self) -> Source | Target | None:
        raise NotImplementedError

    @contextmanager
    def row(self, state: str, event: str, after: str = "") -> Iterator[None]:
        """An event in a state; `after` is the state in the end, if others follow at once."""
        machine = self.machine()
        assert machine is not None
        self.assertEqual(machine.state, state)
        yield
        self.assertIn((state, event), self.table)
        self.assertEqual(machine.state, after or self.table[state, event][1])

    def check_rows(self, without_effect: set[tuple[str, str]]) -> None:
        """`without_effect` are rows that say only that nothing is to be done."""
        names = {f"{PREFIX}{state}_{event}": (state, event) for state, event in self.table}
        found = {name for name in dir(self) if name.startswith(PREFIX)}
        self.assertEqual(found, set(names))
        needless = {row for name, row in names.items() if self._passes_without(name, row)}
        self.assertEqual(needless, without_effect)

    def _passes_without(self, name: str, row: tuple[str, str]) -> bool:
        """Whether a scenario gets through while its machine does not have the row."""
        result = TestResult()
        with (
            mock.patch.dict(self.table),
            mock.patch.object(type(self), "table", dict(self.table)),
        ):
            del self.table_of_machine()[row]
            type(self)(name).run(result)
        return result.wasSuccessful()

    def table_of_machine(self) -> Table:
        """The one that the machine looks into, whatever `table` is meanwhile."""
        raise NotImplementedError
