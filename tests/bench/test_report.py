"""What people read fits 80 columns and says what matters."""

import io
from dataclasses import replace
from unittest import TestCase

from mhub.bench.load.histogram import Histogram
from mhub.bench.picture import bars, strips
from mhub.bench.plan import CONNECTIONS, LATENCY, THROUGHPUT, Plan
from mhub.bench.progress import Progress
from mhub.bench.report import report
from mhub.bench.result import Result
from mhub.bench.units import count, short, span
from mhub.bench.usage import Usage


def result(scenario: str = THROUGHPUT, qos: int = 0, received: int = 30_000_000) -> Result:
    latency = Histogram()
    latency.add(1_234_000, received * 9 // 10)
    latency.add(45_600_000, received // 10)
    return Result(
        Plan(scenario, qos=qos),
        sent=received,
        expected=received,
        received=received,
        seconds=2.0,
        latency=latency,
        usage=Usage(2.0, 0.5, 1.5, 4096),
    )


class UnitTests(TestCase):
    def test_times(self) -> None:
        for nanoseconds, expected in (
            (0, "0.00ns"), (870, "870ns"), (999.6, "1.00us"), (23_440, "23.4us"),
            (1_049_999, "1.05ms"), (99_960_000, "100ms"), (12e9, "12.0s"), (9.996e3, "10.0us"),
        ):  # fmt: skip
            self.assertEqual(span(nanoseconds), expected)

    def test_counts(self) -> None:
        self.assertEqual([short(n) for n in (0, 999_999, 12_345_678)], ["0", "999,999", "12.3M"])
        self.assertEqual([count(n) for n in (0.5, 10, 1234567.8)], ["0.5", "10", "1,234,568"])


class ReportTests(TestCase):
    def test_eighty_columns(self) -> None:
        big = result()
        big.disordered = big.duplicated = big.misrouted = 9_999_999
        results = [big, result(qos=1), result(LATENCY, 2, 3000)]
        crowd = result(CONNECTIONS, received=100)
        crowd.connect = crowd.latency
        for chosen in (results, [big], [crowd]):
            for plain in (False, True):
                text = report(chosen, plain)
                self.assertLessEqual(max(map(len, text.split("\n"))), 80, text)
                if plain:
                    text.encode("ascii")

    def test_the_figures(self) -> None:
        text = report([result()])
        row = next(line for line in text.split("\n") if line.startswith("QoS 0 throughput"))
        self.assertEqual(
            row.split()[3:],
            ["15,000,000", "15,000,000", "960.00", "1.24ms", "45.4ms", "45.4ms", "45.6ms"],
        )

    def test_the_brokers_column_is_there_when_its_process_is_known(self) -> None:
        known, unknown = result(), result()
        unknown.usage = Usage(2.0, 0.5)
        self.assertIn("broker", report([known]))
        self.assertNotIn("broker", report([unknown]))

    def test_a_clean_run_has_no_remarks(self) -> None:
        self.assertNotIn("!", report([result()]))

    def test_remarks(self) -> None:
        faulty = result(qos=1)
        faulty.expected += 5
        faulty.strange_acks = 2
        faulty.usage = Usage(2.0, 1.96)
        late = result(LATENCY)
        late.late = late.latency
        text = report([faulty, late, late])
        self.assertLessEqual(max(map(len, text.split("\n"))), 80, text)
        self.assertEqual(text.count("load side itself was late"), 1)
        self.assertIn("! QoS 1 throughput: 5 of 30,000,005 messages never came", text)
        self.assertIn("2 acknowledgements came for nothing in flight", text)
        self.assertIn("98% busy", text)

    def test_nothing_received(self) -> None:
        empty = Result(Plan(THROUGHPUT), sent=5, expected=5)
        self.assertIn("5 of 5 messages never came", report([empty]))

    def test_faults_depend_on_the_qos(self) -> None:
        for qos, change, faulty in (
            (0, {}, False),
            (0, {"expected": 31_000_000}, False),
            (1, {"expected": 31_000_000}, True),
            (1, {"duplicated": 1}, False),
            (0, {"duplicated": 1}, True),
            (2, {"duplicated": 1}, True),
            (0, {"disordered": 1}, True),
            (0, {"trouble": "it broke"}, True),
        ):
            self.assertEqual(replace(result(qos=qos), **change).is_faulty, faulty, (qos, change))


class PictureTests(TestCase):
    def test_bars(self) -> None:
        histogram = Histogram()
        histogram.add(1_500, 3)
        histogram.add(30_000, 1)
        self.assertEqual(
            bars("title", histogram, plain=True).split("\n"),
            [
                "title",
                f"     under 2us {'#' * 44}  75.00%",
                f"     under 5us {'':44}   0.00%",
                f"    under 10us {'':44}   0.00%",
                f"    under 20us {'':44}   0.00%",
                f"    under 50us {'#' * 15:44}  25.00%",
            ],
        )

    def test_strips_share_an_axis(self) -> None:
        fast, slow = Histogram(), Histogram()
        fast.add(1_100, 8)
        slow.add(950_000, 8)
        slow.add(1_100, 1)
        _, first, second, axis = strips([("fast", fast), ("slow", slow)], 6, plain=True).split("\n")
        self.assertEqual(first, "fast  @")
        self.assertEqual((second[6], second[-1]), (".", "@"))
        self.assertEqual([axis.index(mark) for mark in ("|1us", "|10us", "|100us")], [6, 30, 54])

    def test_the_rarest_is_still_seen(self) -> None:
        histogram = Histogram()
        histogram.add(1_500, 10**9)
        histogram.add(90_000)
        self.assertIn("▏", bars("", histogram).split("\n")[-1])


class ProgressTests(TestCase):
    def test_a_bar_on_a_terminal(self) -> None:
        out = io.StringIO()
        now = 0.0
        progress = Progress(out, True, False, True, lambda: now)
        progress.begin(Plan(THROUGHPUT), 1, 2)
        progress.tick(0.0, 0)
        self.assertEqual(out.getvalue(), "")
        now = 0.5
        progress.tick(0.5, 1000)
        text = out.getvalue()
        self.assertTrue(text.startswith("\r1/2 QoS 0 throughput"))
        self.assertIn("############------------  50%  2,000 msg/s", text)
        self.assertLessEqual(len(text), 80)
        progress.end(result())
        self.assertTrue(out.getvalue().endswith("\r"))

    def test_a_line_for_each_scenario_elsewhere(self) -> None:
        out = io.StringIO()
        progress = Progress(out, False, True, True, lambda: 0.0)
        progress.begin(Plan(THROUGHPUT), 2, 2)
        progress.tick(0.5, 10)
        progress.end(result())
        self.assertEqual(out.getvalue(), "2/2 QoS 0 throughput: 15,000,000 msg/s, p99 45.4ms\n")
