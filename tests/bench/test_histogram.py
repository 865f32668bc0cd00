"""Latencies are counted with less than 1 % error, in any range."""

from unittest import TestCase

from mhub.bench.load.histogram import Histogram


class HistogramTests(TestCase):
    def test_small_values_are_exact(self) -> None:
        for value in (0, 1, 63, 64, 127):
            histogram = Histogram()
            histogram.add(value)
            self.assertEqual(histogram.quantile(0.5), value)

    def test_every_magnitude_is_within_one_percent(self) -> None:
        value = 128
        while value < 10**15:
            histogram = Histogram()
            histogram.add(value, 3)
            histogram.add(value * 1000)  # else the maximum would correct the middle
            self.assertLess(abs(histogram.quantile(0.5) / value - 1), 0.01, value)
            value = value * 17 // 16 + 1

    def test_slots_follow_each_other_without_holes(self) -> None:
        """A larger value never lands in an earlier slot, also where the powers of two meet."""
        middles = []
        for value in range(1, 5000):
            histogram = Histogram()
            histogram.add(value)
            [(middle, count)] = histogram.filled()
            self.assertEqual(count, 1)
            middles.append(middle)
        self.assertEqual(middles, sorted(middles))

    def test_quantiles_of_a_hundred_values(self) -> None:
        histogram = Histogram()
        for value in range(1, 101):
            histogram.add(value)
        self.assertEqual(histogram.quantile(0.5), 50)
        self.assertEqual(histogram.quantile(0.95), 95)
        self.assertEqual(histogram.quantile(0.99), 99)
        self.assertEqual(histogram.quantile(1.0), 100)
        self.assertEqual((histogram.total, histogram.max), (100, 100))
        self.assertEqual(histogram.mean(), 50.5)

    def test_no_quantile_is_above_the_maximum(self) -> None:
        histogram = Histogram()
        histogram.add(1_000_001, 10)
        self.assertLessEqual(histogram.quantile(0.99), 1_000_001)

    def test_a_batch_counts_as_often_as_it_has_messages(self) -> None:
        histogram = Histogram()
        histogram.add(10, 99)
        histogram.add(90)
        self.assertEqual(histogram.quantile(0.99), 10)
        self.assertEqual(histogram.quantile(0.999), 90)

    def test_nothing_counted(self) -> None:
        histogram = Histogram()
        self.assertEqual((histogram.quantile(0.5), histogram.mean(), histogram.max), (0, 0, 0))
        self.assertEqual(list(histogram.filled()), [])

    def test_impossible_values_are_kept_in_range(self) -> None:
        histogram = Histogram()
        histogram.add(-5)
        histogram.add(1 << 80)
        self.assertEqual(histogram.total, 2)
        self.assertEqual(histogram.quantile(0.1), 0)
