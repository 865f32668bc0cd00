"""Slices: who has a turn in between, and when."""

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations.slices import LOOK_S, SLICE_S, Pauses, Slices


class SlicesTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.reactor = Clock()
        self.now = 0.0
        self.turns = 0
        self.steps = 0
        self.stretches: set[int] = set()
        self.pauses = Pauses(self.reactor, self.turn, lambda: self.now)
        self.elsewhere: Deferred[None] = Deferred()

    def turn(self) -> None:
        self.turns += 1

    def slices(self) -> Slices:
        return Slices(lambda: self.now, self.pauses)

    async def work(self, slices: Slices, steps: int) -> None:
        for _ in range(steps):
            self.now += LOOK_S
            await slices.pause_if_due()
            self.steps += 1
            self.stretches.add(self.pauses.stretch)

    def test_the_first_pause_is_the_reactors(self) -> None:
        """Who began the work is not known: it may be the core, in the midst of a turn."""
        Deferred.fromCoroutine(self.work(self.slices(), 3))
        self.assertEqual((self.steps, self.turns), (0, 0))
        self.reactor.advance(0)
        # Before it and after it, and before each step but the first.
        self.assertEqual((self.steps, self.turns), (3, 4))

    def test_the_reactor_has_its_turn_after_a_slice(self) -> None:
        per_slice = round(SLICE_S / LOOK_S)
        Deferred.fromCoroutine(self.work(self.slices(), 3 * per_slice))
        self.reactor.advance(0)
        self.assertEqual(self.steps, 3 * per_slice)
        self.assertIn(len(self.stretches), (3, 4))

    def test_no_turn_when_another_has_called(self) -> None:
        async def work() -> None:
            slices = self.slices()
            await self.work(slices, 1)
            await self.elsewhere
            await self.work(slices, 1)

        Deferred.fromCoroutine(work())
        self.reactor.advance(0)
        self.elsewhere.callback(None)  # as the core may do it
        self.assertEqual((self.steps, self.turns), (1, 2))
        self.reactor.advance(0)
        self.assertEqual((self.steps, self.turns), (2, 4))

    def test_the_parts_of_a_stretch_are_one_slice(self) -> None:
        per_slice = round(SLICE_S / LOOK_S)

        async def work() -> None:
            for _ in range(10):
                await self.work(self.slices(), per_slice // 4)

        Deferred.fromCoroutine(work())
        self.reactor.advance(0)
        self.assertEqual(self.steps, 10 * (per_slice // 4))
        self.assertGreater(self.turns, per_slice)
        self.assertEqual(len(self.stretches), 3)

    def test_no_turn_within_a_turn(self) -> None:
        """What the core calls in a turn may begin long work of its own."""

        depths = [0]

        def turn() -> None:
            self.turns += 1
            depths.append(depths[-1] + 1)
            if self.turns == 2:
                Deferred.fromCoroutine(self.work(self.slices(), 1))
            self.assertEqual(depths.pop(), 1)

        self.pauses = Pauses(self.reactor, turn, lambda: self.now)
        Deferred.fromCoroutine(self.work(self.slices(), 2))
        self.reactor.advance(0)
        self.assertEqual((self.steps, self.turns), (3, 5))

    def test_a_look_is_due_after_the_last_one(self) -> None:
        """Whatever the time was spent on, and however often work asked since."""

        async def work() -> None:
            await self.work(self.slices(), 1)
            self.now += LOOK_S
            await self.slices().pause_if_due()
            await self.slices().pause_if_due()

        Deferred.fromCoroutine(work())
        self.reactor.advance(0)
        self.assertEqual((self.turns, self.pauses.looked_at), (3, self.now))

    def test_cancel(self) -> None:
        done = Deferred.fromCoroutine(self.work(self.slices(), 1))
        done.addErrback(lambda _: None)
        done.cancel()
        self.assertEqual(self.reactor.getDelayedCalls(), [])

    def test_cancelled_by_what_is_served(self) -> None:
        self.pauses = Pauses(self.reactor, lambda: done.cancel(), lambda: self.now)
        done = Deferred.fromCoroutine(self.work(self.slices(), 1))
        self.reactor.advance(0)
        self.failureResultOf(done, CancelledError)
        self.assertEqual(self.steps, 0)
