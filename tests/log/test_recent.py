"""The last lines of the log in memory; other levels for some clients."""

from typing import Any

from twisted.internet.task import Clock
from twisted.logger import LogLevel, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from mhub.config import parse
from mhub.log import level, logger, set_level
from mhub.log.clients import CLIENTS, MOST
from mhub.log.events import EventLog
from mhub.log.recent import LONGEST, Recent
from mhub.operations.contract import OperationError
from mhub.operations.traces import Traces
from mhub.process.reload import Reload
from mhub.process.steering import BrokerSteering
from tests.core.world import World


class RecentTests(SynchronousTestCase):
    def setUp(self) -> None:
        self.recent = Recent(5, 1000)

    def log(self, text: str, at: Any = LogLevel.info, namespace: str = "mhub.net") -> None:
        self.recent(
            {
                "log_time": 1.5,
                "log_level": at,
                "log_namespace": namespace,
                "log_format": "{text}",
                "text": text,
            }
        )

    def texts(self, after: int = -1, least: str = "debug", most: int = 100) -> list[str]:
        return [line.text for line in self.recent.page(after, least, most).lines]

    def test_lines(self) -> None:
        self.log("a")
        self.log("b", LogLevel.error)
        page = self.recent.page(-1, "debug", 10)
        self.assertEqual((page.next, page.missed), (2, 0))
        (first, second) = page.lines
        self.assertEqual(
            (first.seq, first.time, first.level, first.part, first.text),
            (1, 1.5, "info", "net", "a"),
        )
        self.assertEqual(second.level, "error")
        self.assertEqual(self.texts(least="warn"), ["b"])

    def test_going_on(self) -> None:
        for text in "abc":
            self.log(text)
        page = self.recent.page(0, "debug", 2)
        self.assertEqual(([line.text for line in page.lines], page.next), (["a", "b"], 2))
        page = self.recent.page(page.next, "debug", 2)
        self.assertEqual(([line.text for line in page.lines], page.next), (["c"], 3))
        page = self.recent.page(page.next, "debug", 2)
        self.assertEqual((page.lines, page.next, page.missed), ((), 3, 0))

    def test_the_last_ones(self) -> None:
        for text in "abc":
            self.log(text)
        self.assertEqual(self.texts(most=2), ["b", "c"])

    def test_bounds(self) -> None:
        for text in "abcdefgh":
            self.log(text)
        self.assertEqual(self.texts(), list("defgh"))
        self.assertEqual(self.recent.page(1, "debug", 10).missed, 2)
        self.log("x" * 998)
        self.assertEqual([text[:1] for text in self.texts()], ["g", "h", "x"])
        self.log("y" * (LONGEST + 10))
        self.assertEqual(self.texts(), [])

    def test_a_filter_that_nothing_passes(self) -> None:
        """Who goes on with `next` does not see the same lines again and again."""
        self.log("a")
        page = self.recent.page(0, "error", 10)
        self.assertEqual((page.lines, page.next), ((), 1))

    def test_what_others_say(self) -> None:
        self.log("a factory starts", namespace="twisted.internet")
        self.log("a defect", LogLevel.critical, "twisted.internet")
        self.assertEqual(self.texts(), ["a defect"])


class LevelTests(SynchronousTestCase):
    def setUp(self) -> None:
        before = level().name
        self.addCleanup(set_level, before)
        set_level("warn")
        self.world = World()
        self.world.hub.events.sinks.append(EventLog())
        self.clock = Clock()
        self.recent = Recent()
        self.steering = BrokerSteering(
            Reload(parse("", "x.toml"), None, ()),
            None,  # type: ignore[arg-type]
            Traces(self.world.hub, self.clock.seconds, self.clock),
            self.recent,
            self.clock,
            None,  # type: ignore[arg-type]
            "",
            lambda: "",
        )
        self.addCleanup(self.steering.stop)
        globalLogPublisher.addObserver(self.recent)  # type: ignore[arg-type]
        self.addCleanup(globalLogPublisher.removeObserver, self.recent)

    def lines(self) -> list[str]:
        return [f"{line.level} {line.text}" for line in self.recent.page(-1, "debug", 500).lines]

    def test_of_all(self) -> None:
        self.steering.set_log_level("info", "", 0.0)
        logger("net").info("here")
        self.assertIn("info here", self.lines())
        levels = self.steering.log_levels()
        self.assertEqual((levels.level, levels.configured, levels.clients), ("info", "info", ()))

    def test_of_one_client(self) -> None:
        """Its events and packets; others stay as they were, and the time ends it."""
        self.steering.set_log_level("debug", "a", 60.0)
        client = self.world.client("a")
        self.world.client("b").publish("secret/topic")
        client.publish("t/1", b"not-shown", 1)
        found = self.lines()
        self.assertTrue(any("info 'a' connected" in line for line in found), found)
        self.assertTrue(any("debug 'a' in PUBLISH topic='t/1' qos=1" in line for line in found))
        self.assertFalse(any("'b'" in line or "secret" in line for line in found))
        self.assertFalse(any("not-shown" in line for line in found))
        (told,) = self.steering.log_levels().clients
        self.assertEqual((told.client_id, told.level, told.left_s), ("a", "debug", 60.0))
        self.clock.advance(61.0)
        self.assertEqual(self.steering.log_levels().clients, ())
        before = len(self.lines())
        client.publish("t/2", b"", 1)
        client.lose()
        self.assertEqual(len(self.lines()), before)
        self.assertEqual(CLIENTS.levels, {})

    def test_how_many(self) -> None:
        for number in range(MOST):
            self.steering.set_log_level("info", f"c{number}", 60.0)
        self.assertRaises(OperationError, self.steering.set_log_level, "info", "one-more", 60.0)
        self.steering.set_log_level("debug", "c1", 60.0)
