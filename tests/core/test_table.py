"""What a node tells all others: its table, whose changes are numbered and remembered."""

from twisted.trial.unittest import SynchronousTestCase

from mhub.core.table import FILTER, LOG, Table


class ChangesOfTheTable(SynchronousTestCase):
    def setUp(self) -> None:
        self.table = Table()

    def change(self, count: int) -> None:
        """So many filters that nobody had subscribed to before."""
        first = self.table.number + 1
        for number in range(first, first + count):
            self.table.announce(f"{FILTER}t/{number}", 1)

    def numbers(self, since: int) -> list[int] | None:
        found = self.table.since(since)
        return None if found is None else [int(name.rpartition("/")[2]) for name, _ in found]

    def test_those_behind_a_number(self) -> None:
        self.change(5)
        self.assertEqual(self.numbers(0), [1, 2, 3, 4, 5])
        self.assertEqual(self.numbers(2), [3, 4, 5])
        self.assertEqual(self.numbers(4), [5])

    def test_whoever_has_the_last_one_has_all(self) -> None:
        self.assertEqual(self.numbers(0), [])
        self.change(3)
        self.assertEqual(self.numbers(3), [])

    def test_a_number_that_was_not_given_yet_is_of_another_table(self) -> None:
        self.assertIsNone(self.numbers(1))
        self.change(3)
        self.assertIsNone(self.numbers(4))

    def test_as_many_are_remembered_as_can_be_and_no_more(self) -> None:
        """One change too few would be a gap in the other node's table, and one filter unheard."""
        self.change(LOG)
        self.assertEqual(self.numbers(0), list(range(1, LOG + 1)))
        self.change(10)
        self.assertEqual(self.numbers(10), list(range(11, LOG + 11)))
        self.assertIsNone(self.numbers(9))
        self.assertIsNone(self.numbers(0))
        self.assertLessEqual(len(self.table.log), LOG)

    def test_what_stays_the_same_is_no_change(self) -> None:
        self.table.announce(FILTER + "t", 1)
        self.table.announce(FILTER + "t", 1)
        self.table.announce(FILTER + "never", 0)
        self.assertEqual((self.table.number, self.table.since(0)), (1, [("ft", 1)]))

    def test_a_change_that_was_taken_back_is_two(self) -> None:
        """Both are told: the table of the other node counts them."""
        for value in (1, 0):
            self.table.announce(FILTER + "t", value)
        self.assertEqual(self.table.since(0), [("ft", 1), ("ft", 0)])
        self.assertEqual(self.table.names, {})
