"""The level in the configuration bounds what mhub logs, and only that."""

from twisted.logger import Logger, LogLevel, globalLogPublisher
from twisted.trial.unittest import TestCase

from mhub.log import logger, set_level


class LevelTests(TestCase):
    def setUp(self) -> None:
        self.seen: list[str] = []
        globalLogPublisher.addObserver(self.observe)
        self.addCleanup(globalLogPublisher.removeObserver, self.observe)
        self.addCleanup(set_level, "info")

    def observe(self, event: dict[str, object]) -> None:
        if event.get("marked"):
            self.seen.append(f"{event['log_namespace']} {event['log_level'].name}")

    def log_all(self, log: Logger) -> list[str]:
        self.seen.clear()
        for level in (LogLevel.debug, LogLevel.info, LogLevel.warn):
            log.emit(level, "text", marked=True)
        return self.seen

    def test_info_is_the_default(self) -> None:
        self.assertEqual(self.log_all(logger("net")), ["mhub.net info", "mhub.net warn"])

    def test_levels(self) -> None:
        """The level can change while loggers are in use."""
        log = logger("net")
        set_level("debug")
        self.assertEqual(len(self.log_all(log)), 3)
        set_level("warn")
        self.assertEqual(self.log_all(log), ["mhub.net warn"])

    def test_others_are_left_alone(self) -> None:
        set_level("critical")
        self.assertEqual(len(self.log_all(Logger(namespace="other"))), 3)
