"""When a node is called, and called again: the waits double, and differ by chance."""

from random import Random

from twisted.trial.unittest import SynchronousTestCase

from mhub.cluster.dials import PATIENCE, Dials

RETRY_S, RETRY_MAX_S = 0.5, 15.0
B = "b:7883"


class Case(SynchronousTestCase):
    def dials(self, node: str = "a", seed: int = 1) -> Dials:
        return Dials(node, RETRY_S, RETRY_MAX_S, Random(seed))

    def outlook(self, dials: Dials, address: str, now: float) -> tuple[int, float]:
        """How often it did not answer, in a row, and in how long it is called again."""
        dial = dials.at(address)
        return (0, 0.0) if dial is None else (dial.failures, dial.wait_left_s(now))

    def waits(self, dials: Dials, name: str, count: int) -> list[float]:
        """How long an address is left alone after each of so many failures."""
        now = 100.0
        for moment in (0.0, now):
            dials.due({B: name}, set(), moment)
        found = []
        for _ in range(count):
            dials.failed(B, now, "refused")
            failed_at = now
            while not dials.due({B: name}, set(), now):
                now += 0.005
            found.append(now - failed_at)
        return found


class BackOffTests(Case):
    def test_waits_double_up_to_the_longest(self) -> None:
        for seed in range(20):
            waits = self.waits(self.dials(seed=seed), "b", 9)
            for wait_s, middle_s in zip(waits, (0.5, 1, 2, 4, 8, 15, 15, 15, 15), strict=True):
                self.assertGreater(wait_s, 0.74 * middle_s)
                self.assertLess(wait_s, 1.26 * middle_s)

    def test_no_two_nodes_wait_equally_long(self) -> None:
        waits = [self.waits(self.dials(seed=seed), "b", 3) for seed in range(20)]
        for column in zip(*waits, strict=True):
            self.assertGreater(len({round(wait_s, 3) for wait_s in column}), 15)
            self.assertGreater(max(column), 1.2 * min(column))

    def test_the_higher_name_has_more_patience(self) -> None:
        """So of two nodes that lost each other mostly one calls."""
        patient = self.waits(self.dials("c"), "b", 3)
        for wait_s, middle_s in zip(patient, (0.5, 1, 2), strict=True):
            self.assertGreater(wait_s, 0.74 * middle_s * PATIENCE)
        dials = self.dials("c")
        self.assertEqual(dials.due({B: "b"}, set(), 0.0), [])
        self.assertEqual(dials.due({B: "b"}, set(), RETRY_S * PATIENCE), [B])

    def test_an_answer_ends_it(self) -> None:
        dials = self.dials()
        self.waits(dials, "b", 6)
        dials.answered(B, "b")
        self.assertEqual(dials.due({B: "b"}, {"b"}, 1e6), [])
        dials.lost("b", 1e6)
        self.assertEqual(dials.due({B: "b"}, set(), 1e6), [])
        self.assertEqual(dials.due({B: "b"}, set(), 1e6 + RETRY_S), [B])
        dials.failed(B, 2e6, "refused")
        self.assertEqual(dials.due({B: "b"}, set(), 2e6 + 1.26 * RETRY_S), [B])

    def test_after_a_lost_link_not_all_call_at_the_same_moment(self) -> None:
        moments = set()
        for seed in range(20):
            dials = self.dials(seed=seed)
            dials.due({B: "b"}, set(), 0.0)
            dials.answered(B, "b")
            dials.lost("b", 0.0)
            now = 0.0
            while not dials.due({B: "b"}, set(), now):
                now += 0.01
            moments.add(round(now, 2))
        self.assertGreater(len(moments), 10)

    def test_the_outlook(self) -> None:
        """How often it failed since the last answer, and when the next call is."""
        dials = self.dials()
        self.assertEqual(self.outlook(dials, B, 0.0), (0, 0.0))
        dials.due({B: "b"}, set(), 0.0)
        self.assertEqual(self.outlook(dials, B, 0.0), (0, 0.0))
        for failures in (1, 2, 3):
            dials.failed(B, 100.0, "refused")
            found, wait_s = self.outlook(dials, B, 100.0)
            self.assertEqual(found, failures)
            self.assertEqual(dials.due({B: "b"}, set(), 100.0 + wait_s - 0.001), [])
            self.assertEqual(dials.due({B: "b"}, set(), 100.0 + wait_s), [B])
        dials.answered(B, "b")
        self.assertEqual(self.outlook(dials, B, 200.0), (0, 0.0))


class WhomTests(Case):
    def test_one_call_at_a_time(self) -> None:
        dials = self.dials()
        self.assertEqual(dials.due({B: ""}, set(), 0.0), [B])
        self.assertEqual(dials.due({B: ""}, set(), 1e6), [])

    def test_nobody_who_is_linked(self) -> None:
        """Whichever of its addresses it answered at."""
        dials = self.dials()
        dials.due({B: ""}, set(), 0.0)
        dials.answered(B, "b")
        self.assertEqual(dials.due({B: ""}, {"b"}, 1e6), [])

    def test_not_this_node(self) -> None:
        dials = self.dials()
        dials.due({B: ""}, set(), 0.0)
        dials.failed(B, 0.0, "refused")
        dials.is_ours(B)
        self.assertEqual(dials.due({B: ""}, set(), 1e6), [])

    def test_an_address_that_is_gone_is_forgotten(self) -> None:
        dials = self.dials()
        self.waits(dials, "b", 6)
        dials.failed(B, 0.0, "refused")
        dials.due({}, set(), 0.0)
        self.assertFalse(dials.settled(B, set()))
        self.assertEqual(dials.due({B: "b"}, set(), 0.0), [B])

    def test_an_address_that_is_gone_while_it_is_called_is_not_called_twice(self) -> None:
        """It may be back in the list before the call has ended."""
        dials = self.dials()
        self.assertEqual(dials.due({B: ""}, set(), 0.0), [B])
        dials.due({}, set(), 0.0)
        self.assertEqual(dials.due({B: ""}, set(), 1e6), [])
        dials.failed(B, 1e6, "refused")
        self.assertEqual(dials.due({B: ""}, set(), 2e6), [B])

    def test_a_node_whose_name_a_list_has_told(self) -> None:
        """It is linked, though nobody has answered at this address."""
        dials = self.dials()
        dials.due({B: ""}, set(), 0.0)
        dials.failed(B, 0.0, "refused")
        self.assertEqual(dials.due({B: "b"}, {"b"}, 1e6), [])

    def test_nobody_is_patient_with_an_address_without_a_name(self) -> None:
        """Who is there, and who of the two should call, is not known before it answers."""
        (wait_s,) = self.waits(self.dials("z"), "", 1)
        self.assertLess(wait_s, 1.26 * RETRY_S)

    def test_who_answered_counts_for_more_than_what_others_say(self) -> None:
        """They may remember a node whose place another one has taken."""
        dials = self.dials()
        dials.due({B: ""}, set(), 0.0)
        dials.answered(B, "new")
        self.assertEqual(dials.due({B: "old"}, {"new"}, 1e6), [])
        self.assertTrue(dials.settled(B, {"new"}))
        self.assertEqual(dials.due({B: "old"}, set(), 2e6), [B])

    def test_settled(self) -> None:
        """A node that starts waits until all addresses that it knows are."""
        ends = {
            "failed": (lambda dials: dials.failed(B, 0.0, "refused"), set()),
            "answered": (lambda dials: dials.answered(B, "b"), {"b"}),
            "left": (lambda dials: dials.left("b", 0.0), set()),
            "ours": (lambda dials: dials.is_ours(B), set()),
        }
        for how, (end, linked) in ends.items():
            with self.subTest(how):
                dials = self.dials()
                self.assertFalse(dials.settled(B, set()))
                dials.due({B: ""}, set(), 0.0)
                self.assertFalse(dials.settled(B, set()))
                dials.due({B: "b"}, set(), 0.0)  # another node has told who is there
                self.assertFalse(dials.settled(B, set()))
                end(dials)
                self.assertTrue(dials.settled(B, linked))

    def test_not_settled_after_a_link_is_lost(self) -> None:
        """Until the next call has ended: it may be back in a moment."""
        dials = self.dials()
        dials.due({B: ""}, set(), 0.0)
        dials.answered(B, "b")
        dials.lost("b", 0.0)
        self.assertFalse(dials.settled(B, set()))
        dials.due({B: ""}, set(), 100.0)
        dials.failed(B, 100.0, "refused")
        self.assertTrue(dials.settled(B, set()))


class LinkTests(Case):
    """A link that was there."""

    def linked(self, node: str, seed: int = 1) -> Dials:
        dials = self.dials(node, seed)
        for now in (0.0, 100.0):
            dials.due({B: "b"}, set(), now)
        dials.answered(B, "b")
        return dials

    def test_after_it_was_lost_the_higher_name_has_more_patience(self) -> None:
        eager, patient = self.linked("a"), self.linked("c")
        for dials in (eager, patient):
            dials.lost("b", 200.0)
        wait_s = self.outlook(eager, B, 200.0)[1]
        self.assertAlmostEqual(self.outlook(patient, B, 200.0)[1], PATIENCE * wait_s)
        self.assertTrue(0.1 * RETRY_S <= wait_s <= RETRY_S, wait_s)

    def test_a_call_that_is_under_way_when_it_is_lost_is_not_doubled(self) -> None:
        dials = self.linked("a")
        dials.due({B: "b"}, set(), 200.0)
        dials.lost("b", 200.0)
        self.assertEqual(self.outlook(dials, B, 200.0), (0, 0.0))
        self.assertEqual(dials.due({B: "b"}, set(), 1e6), [])

    def test_another_link_that_is_lost_changes_nothing(self) -> None:
        dials = self.linked("a")
        dials.due({B: "b"}, set(), 200.0)
        dials.failed(B, 200.0, "refused")
        before = self.outlook(dials, B, 200.0)
        dials.lost("other", 210.0)
        dials.left("other", 210.0)
        self.assertEqual(self.outlook(dials, B, 200.0), before)

    def test_who_has_left_is_called_seldom(self) -> None:
        """A list may still name it, and it may come back there."""
        dials = self.linked("a")
        dials.left("b", 200.0)
        self.assertEqual(self.outlook(dials, B, 200.0), (0, RETRY_MAX_S))
        self.assertEqual(dials.due({B: ""}, set(), 200.0 + RETRY_MAX_S), [B])
        dials.failed(B, 300.0, "refused")
        self.assertGreaterEqual(self.outlook(dials, B, 300.0)[1], 0.75 * RETRY_MAX_S)

    def test_the_outlook_of_an_address_that_should_have_been_called(self) -> None:
        """There is no call in the past."""
        dials = self.linked("a")
        dials.lost("b", 200.0)
        self.assertEqual(self.outlook(dials, B, 1e6), (0, 0.0))
