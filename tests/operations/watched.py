"""A hub that watches itself, with clocks of the test."""

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from mhub.operations.operations import Operations
from tests.core.world import World
from tests.operations.around import Around, Pauses

MIDNIGHT = 1_800_000_000.0
"""A time of day at which a period of each length begins."""


class WatchedCase(SynchronousTestCase):
    def setUp(self) -> None:
        self.world = World()
        self.around = Around(self.world.hub)
        self.pauses = Pauses()
        self.suspended_s = 0.0  # for which the hub's clock stood still
        self.began = self.world.now
        self.operations = Operations(
            self.world.hub,
            self.around,
            lambda: self.world.now,
            self.pauses,
            unix_time=lambda: MIDNIGHT + self.suspended_s + self.world.now - self.began,
        )

    def run_for(self, seconds: int) -> None:
        """Ticks, one a second."""
        for _ in range(seconds):
            self.world.now += 1.0
            self.operations.monitor.tick()

    def result(self, coroutine: Any) -> Any:
        return self.successResultOf(Deferred.fromCoroutine(coroutine))
