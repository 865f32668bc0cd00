"""Options: what is run, and what cannot be."""

from unittest import TestCase

from mhub.bench.errors import BenchError
from mhub.bench.plan import FAN_IN, FAN_OUT, LATENCY, THROUGHPUT, Plan, check, matrix, plan
from mhub.bench.usage import Meter
from tests.bench.command import bench

BASE = Plan("")


class PlanTests(TestCase):
    def test_the_matrix(self) -> None:
        found = [(one.scenario, one.qos) for one in matrix(BASE, None, None, None)]
        self.assertEqual(found, [(s, q) for s in (THROUGHPUT, LATENCY) for q in (0, 1, 2)])

    def test_the_matrix_of_one_qos(self) -> None:
        self.assertEqual([one.qos for one in matrix(BASE, 1, None, None)], [1, 1])

    def test_usual_numbers_of_clients(self) -> None:
        for scenario, pubs, subs, expected in (
            (THROUGHPUT, None, None, (10, 10, 1)),
            (THROUGHPUT, 3, None, (3, 3, 1)),
            (LATENCY, None, 4, (4, 4, 1)),
            (FAN_IN, None, None, (100, 1, 1)),
            (FAN_OUT, None, 7, (1, 7, 7)),
        ):
            one = plan(BASE, scenario, pubs, subs)
            self.assertEqual((one.pubs, one.subs, one.fan), expected)

    def test_pairs_are_pairs(self) -> None:
        with self.assertRaises(BenchError):
            plan(BASE, THROUGHPUT, 2, 3)

    def test_the_defaults_can_run(self) -> None:
        for one in matrix(BASE, None, None, None):
            check(one)


class OptionTests(TestCase):
    def test_wrong_ones_are_told_with_status_2(self) -> None:
        for options, word in (
            (["--size", "15"], "--size 15 is not from 16"),
            (["--window", "0"], "--window 0"),
            (["--rate", "-1"], "--rate -1"),
            (["--seconds", "0"], "--seconds 0"),
            (["--pubs", "70000"], "--pubs 70000"),
            (["--topic-prefix", "a/#"], "--topic-prefix"),
            (["--password", "x"], "--username"),
            (["ftp://host"], "ftp://"),
            (["--qos", "3"], "--qos"),
            (["--scenario", "nonsense"], "--scenario"),
            (["--scenario", "throughput", "--pubs", "1", "--subs", "2"], "pairs"),
        ):
            said = bench(*options)
            self.assertEqual(said.status, 2, options)
            self.assertIn(word, said.err)

    def test_help_fits_a_terminal(self) -> None:
        said = bench("--help")
        self.assertEqual(said.status, 0)
        for word in ("fan-out", "examples", "--insecure"):
            self.assertIn(word, said.out)

    def test_a_process_that_is_not_there(self) -> None:
        with self.assertRaises(BenchError):
            Meter([2**22 + 1])
