"""The numbers of each second: one reading for all, and slow watchers that hold nothing up."""

from typing import Any

from twisted.internet.defer import Deferred

from mhub.operations.contract import LimitReached
from mhub.operations.live import MOST_WATCHERS, LiveWatch
from mhub.operations.series import NAMES
from tests.operations.watched import MIDNIGHT, WatchedCase


class LiveTests(WatchedCase):
    def next(self, watch: LiveWatch) -> Deferred[Any]:
        return Deferred.fromCoroutine(watch.__anext__())

    def test_each_second(self) -> None:
        client = self.world.client("a")
        watch = self.operations.live()
        self.run_for(1)
        first = self.successResultOf(self.next(watch))
        self.assertEqual(first.time, MIDNIGHT + 1)
        self.assertEqual(tuple(first.values), NAMES)
        self.assertIsNone(first.values["messages_in"])  # it has just begun
        self.assertEqual(first.values["clients"], 1)
        waiting = self.next(watch)
        self.assertNoResult(waiting)
        for _ in range(3):
            client.publish("t")
        self.run_for(1)
        second = self.successResultOf(waiting)
        self.assertEqual(second.values["messages_in"], 3)
        self.assertEqual(second.totals["messages_in"], 3)
        self.assertEqual((second.state, second.ready), ("running", "ready"))
        self.assertEqual(second.store_state, "none")
        self.assertEqual([each.name for each in second.listeners], ["mqtt"])

    def test_one_reading_for_all(self) -> None:
        watches = [self.operations.live() for _ in range(3)]
        self.run_for(1)
        found = [self.successResultOf(self.next(watch)) for watch in watches]
        self.assertIs(found[0], found[1])
        self.assertIs(found[1], found[2])

    def test_the_point_of_the_history_that_has_just_ended(self) -> None:
        watch = self.operations.live()
        points = []
        for _ in range(11):
            self.run_for(1)
            live = self.successResultOf(self.next(watch))
            if live.point is not None:
                points.append(live.point.time)
        self.assertEqual(points, [MIDNIGHT, MIDNIGHT + 5])

    def test_a_slow_watcher_gets_the_newest(self) -> None:
        slow, quick = self.operations.live(), self.operations.live()
        for second in range(5):
            self.run_for(1)
            live = self.successResultOf(self.next(quick))
            self.assertEqual(live.time, MIDNIGHT + second + 1)
        self.assertEqual(self.successResultOf(self.next(slow)).time, MIDNIGHT + 5)
        self.assertEqual((slow.missed, quick.missed), (4, 0))

    def test_nothing_is_read_for_nobody(self) -> None:
        reads = []
        self.around.pushes = lambda: reads.append(1) or []  # type: ignore[func-returns-value]
        self.operations.monitor.tick()
        self.run_for(4)
        self.assertEqual(len(reads), 1)
        watch = self.operations.live()
        self.run_for(4)
        self.assertEqual(len(reads), 5)
        watch.close()
        self.run_for(4)
        self.assertEqual(len(reads), 6)  # the history's

    def test_one_that_goes(self) -> None:
        watch = self.operations.live()
        waiting = self.next(watch)
        watch.close()
        watch.close()
        self.failureResultOf(waiting, StopAsyncIteration)
        self.failureResultOf(self.next(watch), StopAsyncIteration)
        self.assertEqual(len(self.world.hub.overload.peaks), 1)

    def test_one_whose_wait_is_cancelled(self) -> None:
        watch = self.operations.live()
        waiting = self.next(watch)
        waiting.cancel()
        self.failureResultOf(waiting)
        self.run_for(1)
        self.assertEqual(self.successResultOf(self.next(watch)).time, MIDNIGHT + 1)

    def test_the_broker_stops(self) -> None:
        waiting = self.next(self.operations.live())
        self.operations.monitor.stop()
        self.failureResultOf(waiting, StopAsyncIteration)

    def test_so_many_and_no_more(self) -> None:
        watches = [self.operations.live() for _ in range(MOST_WATCHERS)]
        self.assertRaises(LimitReached, self.operations.live)
        watches[0].close()
        self.operations.live()

    def test_new_events_are_announced(self) -> None:
        watch = self.operations.live()
        self.run_for(1)
        before = self.successResultOf(self.next(watch)).last_event
        self.world.client("a")
        self.run_for(1)
        self.assertEqual(self.successResultOf(self.next(watch)).last_event, before + 1)
