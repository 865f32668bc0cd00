"""The log: loggers whose level the configuration sets, and where their lines go.

limit         not more lines of a kind than somebody can read
events        events of the hub as lines
clients       another level for some clients, for a while
lines         a line as text, or as JSON
recent        the last lines, in memory
outputs       where lines go: standard output, a file, syslog
destination   all of these, as `[log]` in the configuration wants them

logger(...).info(...) -> level -> rate limit -> Twisted's publisher -> destination, or twistd's log
EventLog.emit ------------------------------/
"""

from typing import Any, Final

from twisted.logger import (
    FilteringLogObserver,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    PredicateResult,
    globalLogPublisher,
)

from mhub.log.limit import RateLimit


class _Rate:
    """The limit in force, if there is one.  A predicate of Twisted's for lines that are no events:
    those were counted before they were written."""

    def __init__(self) -> None:
        self.limit: RateLimit | None = None

    def __call__(self, event: dict[str, Any]) -> Any:
        if self.limit is None or "event" in event or event.get("unlimited"):
            return PredicateResult.maybe
        kind = f"{event['log_namespace'].removeprefix('mhub.')}: {event.get('log_format')}"
        admitted = self.limit.admits(kind, event["log_level"].name)
        return PredicateResult.maybe if admitted else PredicateResult.no


class _Forced:
    """Lines of a client whose level somebody has lowered for a while: neither the level of the rest
    nor the rate limit holds them back."""

    def __call__(self, event: dict[str, Any]) -> Any:
        return PredicateResult.yes if event.get("forced") else PredicateResult.maybe


# `Any`: they provide the interfaces that are asked for, but mypy does not see zope's declarations.
_LEVELS: Final[Any] = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
_RATE: Final[Any] = _Rate()
_FORCED: Final[Any] = _Forced()
_PUBLISHER: Final[Any] = globalLogPublisher
_OUTLET: Final[Any] = FilteringLogObserver(_PUBLISHER, [_FORCED, _LEVELS, _RATE])


def logger(name: str, node: str = "") -> Logger:
    """The logger of one part of mhub, as `net` or `auth`; of a node that is taken over here."""
    whose = f" for {node}" if node else ""
    return Logger(namespace=f"mhub.{name}{whose}", observer=_OUTLET)


def set_level(level: str) -> None:
    """From now on, log nothing of mhub below `level` (debug, info, warn, error, critical)."""
    _LEVELS.setLogLevelForNamespace("mhub", LogLevel.levelWithName(level))


def level() -> Any:
    """What set_level() has set."""
    return _LEVELS.logLevelForNamespace("mhub")


def set_rate_limit(limit: RateLimit | None) -> None:
    """From now on, leave lines out that are more than this."""
    _RATE.limit = limit


def is_wanted(kind: str, at: Any) -> bool:
    """Whether an event will be logged: asked before its line is written, and counts as one."""
    if at < level():
        return False
    return _RATE.limit is None or bool(_RATE.limit.admits(kind, at.name))
