"""The last lines of the log, in memory, for those who ask a running broker for them.

Bounded by their number and their size.  Each line has a number, counted from the start of the
process, so that who has read some can ask for those that follow, and learns how many it has missed.
"""

from collections import deque
from typing import Any, Final

from twisted.logger import ILogObserver, LogLevel
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.log.destination import is_shown
from mhub.log.lines import part_of, text_of
from mhub.operations.steering import LogLine, LogPage

MOST_LINES: Final = 500
MOST_CHARACTERS: Final = 256 << 10
LONGEST: Final = 4096
"""Characters of one line: a traceback may have more."""


@implementer(ILogObserver)
class Recent:
    """An observer of Twisted's, beside where the log goes to."""

    def __init__(self, most_lines: int = MOST_LINES, most_size: int = MOST_CHARACTERS) -> None:
        self._most_lines = most_lines
        self._most_size = most_size
        self._lines: deque[LogLine] = deque()
        self._size = 0
        self._last = 0  # the number of the last line

    def __call__(self, event: dict[str, Any]) -> None:
        if not is_shown(event):
            return
        text = text_of(event)
        if len(text) > LONGEST:
            text = text[: LONGEST - 1] + "…"
        self._last += 1
        line = LogLine(self._last, event["log_time"], event["log_level"].name, part_of(event), text)
        self._lines.append(line)
        self._size += len(text)
        while len(self._lines) > self._most_lines or self._size > self._most_size:
            self._size -= len(self._lines.popleft().text)

    def page(self, after: int, least: str, most: int) -> LogPage:
        """The first `most` lines behind number `after` that are of level `least` or above.

        `after` < 0: the last ones that there are.
        """
        wanted = LogLevel.levelWithName(least)
        found = [
            line
            for line in self._lines
            if line.seq > after and LogLevel.levelWithName(line.level) >= wanted
        ]
        if after < 0:
            found = found[-most:]
            return LogPage(tuple(found), self._last, 0)
        oldest = self._lines[0].seq if self._lines else self._last + 1
        missed = max(0, min(oldest, self._last + 1) - after - 1)
        page = found[:most]
        end = page[-1].seq if len(found) > most else max(self._last, after)
        return LogPage(tuple(page), end, missed)
