"""The calls that steer a broker: reload, listeners, configuration, log, traces.

A part of `mhub.operations.Operations`, in a file of its own.
"""

from collections.abc import AsyncGenerator
from typing import Final

from mhub.operations.contract import BadArgument, OperationError
from mhub.operations.steering import (
    Configuration,
    ConfigurationCheck,
    ListenerDetail,
    LogLevels,
    LogPage,
    Reloaded,
    Steering,
    TraceEvent,
)

LEVELS: Final = ("debug", "info", "warn", "error", "critical")
LONGEST_TEXT: Final = 1 << 20
"""Characters of a configuration that is checked."""
MOST_DOTS: Final = 200
"""In a line of it: what a key of many parts costs to read grows with their square."""
LONGEST_S: Final = 86400.0
MOST_LINES: Final = 500


class SteeringOperations:
    steering: Steering | None = None
    """The broker; None: there is none that could be steered."""

    def _steering(self) -> Steering:
        if self.steering is None:
            raise OperationError("this broker cannot be steered")
        return self.steering

    async def reload(self) -> Reloaded:
        """Read the configuration again, and put it in force as a whole; as SIGHUP does.

        Raises OperationError with all that is wrong; then nothing has changed.
        """
        return await self._steering().reload()

    def listeners(self) -> list[ListenerDetail]:
        """Those of the configuration, open or closed."""
        return self._steering().listener_details()

    def listener_open(self, name: str) -> ListenerDetail:
        """Let clients in at a listener that was closed."""
        return self._steering().listener_open(name)

    def listener_close(self, name: str, disconnect: bool = False) -> ListenerDetail:
        """Let no more clients in; those that are connected stay, unless they are to be
        disconnected (0x98).  Their sessions, and what waits for them, stay in either case."""
        return self._steering().listener_close(name, disconnect)

    def configuration(self) -> Configuration:
        """What is in force, without secrets."""
        return self._steering().configuration()

    async def check_configuration(self, text: str) -> ConfigurationCheck:
        """What is wrong with a text, and what it would change; files that it names are not read."""
        if len(text) > LONGEST_TEXT:
            raise BadArgument(f"text: expected at most {LONGEST_TEXT} characters")
        if any(line.count(".") > MOST_DOTS for line in text.split("\n")):
            raise BadArgument(f"text: a line has more than {MOST_DOTS} dots")
        return await self._steering().check_configuration(text)

    def log_level(self) -> LogLevels:
        return self._steering().log_levels()

    def set_log_level(self, level: str, client_id: str = "", seconds: float = 600.0) -> LogLevels:
        """Of the whole log, until it is set again or a reload changes it; or of what concerns one
        client, for so many seconds, with a line for each of its packets at `debug`."""
        check_level("level", level)
        if client_id and not 1 <= seconds <= LONGEST_S:
            raise BadArgument(f"seconds: expected from 1 to {LONGEST_S:g}")
        self._steering().set_log_level(level, client_id, seconds)
        return self.log_level()

    def log_recent(self, after: int = -1, least: str = "debug", most: int = 100) -> LogPage:
        """Lines of the log behind the number `after`; -1: the last ones."""
        check_level("least", least)
        if not 1 <= most <= MOST_LINES:
            raise BadArgument(f"most: expected from 1 to {MOST_LINES}")
        return self._steering().log_recent(after, least, most)

    def trace(
        self,
        client_id: str = "",
        topic: str = "",
        seconds: float = 60.0,
        most: int = 10_000,
        payload_bytes: int = 0,
    ) -> AsyncGenerator[TraceEvent, None]:
        """The packets of one client, or the messages of the topics of a filter, as they come."""
        return self._steering().trace(client_id, topic, seconds, most, payload_bytes)


def check_level(name: str, level: str) -> None:
    if level not in LEVELS:
        raise BadArgument(f"{name}: expected one of {', '.join(LEVELS)}")
