"""Lost, repeated and disordered messages are told apart exactly."""

import random
from unittest import TestCase

from mhub.bench.load.track import Source, Track


class TrackTests(TestCase):
    def setUp(self) -> None:
        self.source = Source()
        self.track = Track(self.source)

    def take(self, *seqs: int) -> int:
        """Deliver messages as `Client.feed` does; how many were there for the first time."""
        first = 0
        for seq in seqs:
            if seq == self.track.next:
                self.track.next += 1
                self.source.seen += 1
                first += 1
            elif self.track.unexpected(seq):
                first += 1
        return first

    def assertCounts(self, missing: int, duplicated: int, disordered: int) -> None:
        track = self.track
        found = (track.missing(), track.duplicated, track.disordered)
        self.assertEqual(found, (missing, duplicated, disordered))

    def test_in_order(self) -> None:
        self.assertEqual(self.take(0, 1, 2), 3)
        self.assertCounts(0, 0, 0)

    def test_a_gap(self) -> None:
        self.take(0, 3)
        self.assertCounts(2, 0, 0)

    def test_the_publishers_window_does_not_wait_for_what_is_lost(self) -> None:
        self.take(0, 3)
        self.assertEqual(self.source.seen, 4)

    def test_two_messages_changed_places(self) -> None:
        self.assertEqual(self.take(0, 2, 1, 3), 4)
        self.assertCounts(0, 0, 1)

    def test_repeated(self) -> None:
        self.assertEqual(self.take(0, 1, 1, 0, 2), 3)
        self.assertCounts(0, 2, 0)

    def test_a_late_one_twice(self) -> None:
        self.assertEqual(self.take(0, 5, 3, 3), 3)
        self.assertCounts(3, 1, 1)

    def test_a_gap_fills_from_its_ends_and_its_middle(self) -> None:
        self.take(10)
        for n, seq in enumerate((5, 0, 9, 4, 6, 1, 8, 7, 3, 2), 1):
            self.assertEqual(self.take(seq), 1)
            self.assertCounts(10 - n, 0, n)

    def test_any_order_gives_what_a_set_gives(self) -> None:
        rng = random.Random(8)
        seqs = [rng.randrange(400) for _ in range(1000)]
        self.assertEqual(self.take(*seqs), len(set(seqs)))
        self.assertEqual(self.track.duplicated, len(seqs) - len(set(seqs)))
        self.assertEqual(self.track.missing(), max(seqs) + 1 - len(set(seqs)))
