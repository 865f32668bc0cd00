"""Slices: who has a turn in between, and when."""

from twisted.internet.defer import Deferred
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
        self.pauses = Pauses(self.reactor, self.turn)
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
        self.assertEqual((self.steps, self.turns), (3, 2))

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
        self.assertEqual((self.steps, self.turns), (1, 0))
        self.reactor.advance(0)
        self.assertEqual((self.steps, self.turns), (2, 0))

    def test_cancel(self) -> None:
        done = Deferred.fromCoroutine(self.work(self.slices(), 1))
        done.addErrback(lambda _: None)
        done.cancel()
        self.assertEqual(self.reactor.getDelayedCalls(), [])
