"""The limit of open files: raised, and compared with what the configuration wants."""

import resource
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from mhub.config import parse
from mhub.process.descriptors import RESERVED, RESERVED_IN_CLUSTER, OpenFiles, raise_limit, warning

TWO = (
    "[[listeners]]\nport = 1\nmax_connections = {}\n[[listeners]]\nport = 2\nmax_connections = {}\n"
)
CLUSTER = '[cluster]\nname = "c"\nnode = "a"\nsecret = "0123456789abcdef0123456789abcdef"\n'


class WarningTests(SynchronousTestCase):
    def check(self, limit: int, config: str) -> str:
        return warning(parse(config, "x.toml"), limit)

    def test_any_number_of_clients(self) -> None:
        """What nobody asked for is not missed."""
        self.assertEqual(self.check(10, ""), "")

    def test_the_first_that_is_too_many(self) -> None:
        config = "[limits]\nmax_connections = 1000\n"
        needs = 1000 + RESERVED + 1
        self.assertEqual(self.check(needs, config), "")
        text = self.check(needs - 1, config)
        self.assertIn(f"limits.max_connections = 1000 needs {needs} open files", text)
        self.assertIn(f"allows {needs - 1}, enough for 999 clients", text)

    def test_without_a_limit(self) -> None:
        self.assertEqual(self.check(0, "[limits]\nmax_connections = 1000000000\n"), "")

    def test_links_of_a_cluster(self) -> None:
        config = "[limits]\nmax_connections = 1000\n" + CLUSTER
        needs = 1000 + RESERVED + RESERVED_IN_CLUSTER + 1
        self.assertEqual(self.check(needs, config), "")
        self.assertNotEqual(self.check(needs - 1, config), "")

    def test_listeners(self) -> None:
        """All together, if each has a bound; the lower one of the two sums counts."""
        self.assertIn("of the listeners = 300 needs", self.check(200, TWO.format(100, 200)))
        self.assertEqual(self.check(200, TWO.format(100, 0)), "")
        both = "[limits]\nmax_connections = {}\n" + TWO.format(100, 200)
        self.assertEqual(self.check(200, both.format(100)), "")
        self.assertIn("limits.max_connections = 250", self.check(200, both.format(250)))
        self.assertIn("of the listeners = 300", self.check(200, both.format(1000)))

    def test_less_than_what_is_reserved(self) -> None:
        self.assertIn("enough for 0", self.check(10, "[limits]\nmax_connections = 1\n"))


class RaiseTests(SynchronousTestCase):
    def check(self, soft: int, hard: int, error: Exception | None = None) -> OpenFiles:
        with (
            mock.patch("resource.getrlimit", return_value=(soft, hard)),
            mock.patch("resource.setrlimit", side_effect=error) as asked,
        ):
            found = raise_limit()
        self.asked = [call.args for call in asked.call_args_list]
        return found

    def test_to_the_hard_one(self) -> None:
        self.assertEqual(self.check(256, 4096), OpenFiles(4096, 256))
        self.assertEqual(self.asked, [(resource.RLIMIT_NOFILE, (4096, 4096))])

    def test_is_there_already(self) -> None:
        self.assertEqual(self.check(4096, 4096), OpenFiles(4096, 4096))
        self.assertEqual(self.asked, [])

    def test_may_not_be_raised(self) -> None:
        for error in (OSError(), ValueError()):
            self.assertEqual(self.check(256, 4096, error), OpenFiles(256, 256))

    def test_there_is_none(self) -> None:
        self.assertEqual(self.check(256, resource.RLIM_INFINITY), OpenFiles(0, 256))
