"""The history for charts: periods, gaps, what longer periods are made of, and its memory."""

import sys
from typing import Any

from mhub.operations.contract import BadArgument
from mhub.operations.history import SPANS, STEP_S, Recorder
from mhub.operations.series import NAMES, SERIES
from tests.operations.watched import MIDNIGHT, WatchedCase


class HistoryTests(WatchedCase):
    def read(self, name: str, span: str = "1h") -> list[Any]:
        found = self.result(self.operations.history((name,), span))
        return list(found.series[name])

    def tail(self, name: str, count: int, span: str = "1h") -> list[Any]:
        return self.read(name, span)[-count:]

    def test_empty_at_the_start(self) -> None:
        self.assertEqual(set(self.read("clients")), {None})

    def test_a_gauge(self) -> None:
        self.operations.monitor.tick()
        self.world.client("a")
        self.run_for(5)
        self.world.client("b")
        self.run_for(5)
        self.assertEqual(self.tail("clients", 3), [None, 1, 2])

    def test_a_rate(self) -> None:
        client = self.world.client("a")
        self.operations.monitor.tick()
        for _ in range(20):
            client.publish("t")
        self.run_for(5)
        self.assertEqual(self.tail("messages_in", 2), [None, 4])

    def test_the_time_of_each_value(self) -> None:
        self.operations.monitor.tick()
        self.run_for(12)
        found = self.result(self.operations.history(("clients",), "1h"))
        step_s, length = SPANS["1h"]
        self.assertEqual(found.start, MIDNIGHT + 10 - step_s * length)
        self.assertEqual((found.step_s, len(found.series["clients"])), (step_s, length))
        self.assertEqual(found.units, {"clients": "clients"})

    def test_a_mean_of_what_was_stored(self) -> None:
        """None where there was nothing."""
        self.operations.monitor.tick()
        commits = self.world.hub.storage.commits
        commits.observe(0.002)
        commits.observe(0.004)
        self.run_for(10)
        self.assertEqual(self.tail("store_commit_s", 2), [0.003, None])

    def test_how_late_the_loop_was_at_most(self) -> None:
        self.operations.monitor.tick()
        for drift_s in (0.25, 0.5, 0.0):
            self.world.hub.measure_drift(drift_s, self.world.now)
        self.run_for(10)
        self.assertEqual(self.tail("lateness_s", 2), [0.5, 0.0])

    def test_a_minute_is_the_mean_of_its_samples(self) -> None:
        client = self.world.client("a")
        self.operations.monitor.tick()
        for _ in range(30):
            client.publish("t")
        self.world.hub.measure_drift(0.5, self.world.now)
        self.run_for(60)
        self.world.client("b")
        self.run_for(65)
        self.assertEqual(self.tail("messages_in", 3, "1d"), [None, 0.5, 0])
        self.assertEqual(self.tail("lateness_s", 3, "1d"), [None, 0.5, 0])
        self.assertEqual(self.tail("clients", 2, "1d"), [1, 2])

    def test_ten_minutes(self) -> None:
        self.operations.monitor.tick()
        self.run_for(1205)
        self.assertEqual(self.tail("clients", 3, "7d"), [None, 0, 0])

    def test_a_machine_that_was_suspended_leaves_a_gap(self) -> None:
        self.world.client("a")
        self.operations.monitor.tick()
        self.run_for(10)
        self.suspended_s += 20.0
        self.run_for(10)
        self.assertEqual(self.tail("clients", 8), [1, 1, None, None, None, None, 1, 1])

    def test_a_process_that_was_stopped_has_no_rates_of_that_time(self) -> None:
        """Nobody knows when within a minute it was that messages came."""
        client = self.world.client("a")
        self.operations.monitor.tick()
        self.run_for(5)
        client.publish("t")
        self.world.now += 60.0
        self.run_for(5)
        self.assertEqual(self.tail("messages_in", 14), [0, *[None] * 12, 0.0])
        self.assertEqual(self.tail("clients", 3), [None, 1, 1])

    def test_a_late_tick_is_no_gap(self) -> None:
        self.operations.monitor.tick()
        self.run_for(4)
        self.world.now += 4.0
        self.operations.monitor.tick()
        self.run_for(2)
        self.assertEqual(self.tail("messages_in", 2), [0, 0])

    def test_a_clock_that_is_set_back(self) -> None:
        """What is written then replaces what it calls the future, and what is behind it is gone."""
        self.operations.monitor.tick()
        self.run_for(60)
        self.suspended_s -= 30.0
        self.world.client("a")
        self.run_for(10)
        found = self.read("clients")
        self.assertEqual(found[-9:], [None, 0, 0, 0, 0, 0, 1, 1, 1])
        self.suspended_s += 300.0
        self.assertEqual(set(self.tail("clients", 60)), {None})

    def test_a_span_that_is_full_loses_its_oldest(self) -> None:
        self.operations.monitor.tick()
        self.run_for(3600)
        self.assertEqual(self.read("clients"), [0] * 720)
        self.world.client("a")
        self.run_for(3600)
        self.assertEqual(self.read("clients"), [1] * 720)

    def test_older_than_the_span_is_not_shown(self) -> None:
        """The places of a ring are used again: what is there of an hour ago is not of now."""
        self.operations.monitor.tick()
        self.run_for(100)
        self.suspended_s += 3600.0
        self.assertEqual(set(self.read("clients")), {None})

    def test_all_series_without_a_name(self) -> None:
        found = self.result(self.operations.history())
        self.assertEqual(tuple(found.series), NAMES)
        self.assertEqual(set(found.units), set(NAMES))

    def test_what_there_is_not(self) -> None:
        for names, span in ((("clients", "nonsense"), "1h"), ((), "1y")):
            failed = self.failureResultOf(_deferred(self.operations.history(names, span)))
            failed.trap(BadArgument)

    def test_memory(self) -> None:
        """docs/monitoring.md says how much it is."""
        recorder = Recorder(None)  # type: ignore[arg-type]
        points = sum(length for _, length in SPANS.values())
        self.assertEqual(recorder.size_bytes(), 4 * points * len(SERIES))
        self.assertLess(recorder.size_bytes(), 400_000)
        columns = [each for ring in recorder._rings.values() for each in ring._columns]
        self.assertLess(sum(map(sys.getsizeof, columns)), 1.05 * recorder.size_bytes())


def _deferred(coroutine: Any) -> Any:
    from twisted.internet.defer import Deferred

    return Deferred.fromCoroutine(coroutine)


class StepTests(WatchedCase):
    def test_read_once_a_period_where_nobody_watches(self) -> None:
        reads = []
        self.around.pushes = lambda: reads.append(1) or []  # type: ignore[func-returns-value]
        self.operations.monitor.tick()
        self.run_for(100)
        self.assertEqual(len(reads), 1 + 100 // STEP_S)
