"""The rate limit: a storm of one kind is cut short, its size is told, others are not touched."""

from typing import Any
from unittest import TestCase

from twisted.internet.task import Clock
from twisted.logger import formatEvent, globalLogPublisher

from mhub.config import LogSettings
from mhub.core.events import Events
from mhub.log import logger, set_level, set_rate_limit
from mhub.log.destination import limit_rate
from mhub.log.events import EventLog
from mhub.log.limit import RateLimit


class LimitTests(TestCase):
    def setUp(self) -> None:
        self.clock = Clock()
        self.told: list[tuple[str, str, int]] = []
        self.limit = RateLimit(
            2.0,
            5,
            10.0,
            self.clock,
            lambda kind, level, count: self.told.append((kind, level, count)),
        )

    def storm(self, kind: str, count: int) -> int:
        return sum(self.limit.admits(kind, "info") for _ in range(count))

    def test_a_burst_then_a_rate(self) -> None:
        self.assertEqual(self.storm("a", 100), 5)
        self.clock.advance(1.0)
        self.assertEqual(self.storm("a", 100), 2)
        self.clock.advance(1000.0)
        self.assertEqual(self.storm("a", 100), 5)

    def test_each_kind_by_itself(self) -> None:
        self.storm("a", 100)
        self.assertEqual(self.storm("b", 3), 3)

    def test_how_many_were_left_out_is_told(self) -> None:
        self.storm("a", 100)
        self.assertEqual(self.told, [])
        self.clock.advance(10.0)
        self.assertEqual(self.told, [("a", "info", 95)])
        self.clock.advance(100.0)
        self.assertEqual(len(self.told), 1)
        self.storm("a", 6)
        self.clock.advance(10.0)
        self.assertEqual(self.told[1:], [("a", "info", 1)])

    def test_a_slow_stream_is_never_limited(self) -> None:
        for _ in range(100):
            self.assertEqual(self.storm("a", 1), 1)
            self.clock.advance(0.5)
        self.clock.advance(100.0)
        self.assertEqual(self.told, [])


class LogTests(TestCase):
    """The same, between a logger and whoever hears it."""

    def setUp(self) -> None:
        self.lines: list[str] = []
        self.clock = Clock()
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)
        self.addCleanup(set_rate_limit, None)
        self.addCleanup(set_level, "info")
        limit_rate(LogSettings(rate=1.0, burst=3), self.clock)

    def observe(self, event: dict[str, Any]) -> None:
        if event["log_namespace"].startswith("mhub."):
            self.lines.append(f"{event['log_level'].name} {formatEvent(event)}")

    def test_events(self) -> None:
        events = Events([EventLog()])
        for number in range(50):
            events.accept_failed("tcp", f"for reason {number}")
        events.node("b", "dead", "")
        self.assertEqual(len(self.lines), 4)
        self.assertEqual(self.lines[-1], "warn node b is dead")
        self.clock.advance(10.0)
        self.assertEqual(self.lines[4:], ["error 47 more lines left out (log.rate): accept_failed"])

    def test_events_below_the_level_do_not_count(self) -> None:
        events = Events([EventLog()])
        set_level("critical")
        for _ in range(50):
            events.accept_failed("tcp", "for a reason")
        set_level("info")
        events.accept_failed("tcp", "for a reason")
        self.assertEqual(len(self.lines), 1)

    def test_other_lines(self) -> None:
        """Of the same text, whatever is filled in."""
        log = logger("cluster")
        for number in range(50):
            log.info("no link with {peer}", peer=number)
        log.info("something else")
        self.assertEqual(len(self.lines), 4)
        self.clock.advance(10.0)
        self.assertIn(
            "info 47 more lines left out (log.rate): cluster: no link with", self.lines[4]
        )

    def test_switched_off(self) -> None:
        limit_rate(LogSettings(rate=0.0), self.clock)
        log = logger("cluster")
        for _ in range(500):
            log.info("a line")
        self.assertEqual(len(self.lines), 500)
