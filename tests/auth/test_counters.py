"""Counters in bounded memory that never say less than the truth."""

import random
from unittest import TestCase

from mhub.auth.counters import Counters, digest


class CounterTests(TestCase):
    def test_the_threshold(self) -> None:
        counters = Counters(3, 10.0, 100)
        self.assertEqual(
            [counters.add(b"a", 0.0) for _ in range(7)], [False, False, True] * 2 + [False]
        )

    def test_one_is_at_once(self) -> None:
        self.assertTrue(Counters(1, 10.0, 100).add(b"a", 0.0))

    def test_a_count_ends_with_its_window(self) -> None:
        counters = Counters(3, 10.0, 100)
        for now in (0.0, 9.0):
            self.assertFalse(counters.add(b"a", now))
        self.assertTrue(counters.add(b"a", 18.9))
        for now in (20.0, 29.0):
            self.assertFalse(counters.add(b"b", now))
        self.assertFalse(counters.add(b"b", 39.0))
        self.assertEqual(len(counters), 1)

    def test_forgotten(self) -> None:
        counters = Counters(3, 10.0, 100)
        counters.add(b"a", 0.0)
        counters.add(b"a", 0.0)
        counters.forget(b"a")
        counters.forget(b"other")
        self.assertFalse(counters.add(b"a", 0.0))

    def test_what_is_full_does_not_forget(self) -> None:
        """Filling it with other keys does not give anybody one more try."""
        counters = Counters(5, 1000.0, 50)
        tries = 0
        fill = 0
        while tries < 10 and not counters.add(b"the guesser", 0.0):
            tries += 1
            for _ in range(200):
                fill += 1
                counters.add(b"other %d" % fill, 0.0)
        self.assertLess(tries, 5)
        self.assertLessEqual(len(counters), 50)
        self.assertGreater(counters.evicted, 0)

    def test_a_flood_makes_it_stricter_by_a_bounded_amount(self) -> None:
        """As long as there is less than one event a counter, nobody is hit by others."""
        counters = Counters(5, 1000.0, 50)
        for number in range(100):
            self.assertFalse(counters.add(b"other %d" % number, 0.0))
        # All of the 50 have 2 now; a new one inherits that.
        self.assertFalse(counters.add(b"honest", 0.0))
        self.assertFalse(counters.add(b"honest", 0.0))
        self.assertTrue(counters.add(b"honest", 0.0))

    def test_never_below_the_truth(self) -> None:
        """Whatever the order of events, a key is through its threshold no later than it should."""
        for seed in range(50):
            choose = random.Random(seed)
            counters = Counters(4, 100.0, 5)
            truth: dict[bytes, int] = {}
            for now in range(400):
                key = b"%d" % min(choose.randrange(20), choose.randrange(20))
                truth[key] = truth.get(key, 0) + 1
                if counters.add(key, now * 0.01):
                    truth[key] = 0
                self.assertLess(truth[key], 4, f"seed {seed}")
                self.assertLessEqual(len(counters), 5)
                self.assertEqual(sum(len(level) for level in counters.levels), len(counters))

    def test_digests_are_of_the_parts(self) -> None:
        self.assertNotEqual(digest("a", "bc"), digest("ab", "c"))
        self.assertNotEqual(digest("1:a"), digest("a"))
        self.assertEqual(len(digest("x" * 100_000)), 16)
        digest("\ud800")
