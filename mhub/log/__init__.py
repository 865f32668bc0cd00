"""Loggers whose level the configuration sets.

`twistd` decides where the log goes; mhub decides how much of its own there is.  What Twisted and
other libraries log is not touched.
"""

from typing import Any, Final

from twisted.logger import (
    FilteringLogObserver,
    Logger,
    LogLevel,
    LogLevelFilterPredicate,
    globalLogPublisher,
)

# `Any`: they provide the interfaces that are asked for, but mypy does not see zope's declarations.
_LEVELS: Final[Any] = LogLevelFilterPredicate(defaultLogLevel=LogLevel.info)
_PUBLISHER: Final[Any] = globalLogPublisher
_OUTLET: Final[Any] = FilteringLogObserver(_PUBLISHER, [_LEVELS])


def logger(name: str, node: str = "") -> Logger:
    """The logger of one part of mhub, as `net` or `auth`; of a node that is taken over here."""
    whose = f" for {node}" if node else ""
    return Logger(namespace=f"mhub.{name}{whose}", observer=_OUTLET)


def set_level(level: str) -> None:
    """From now on, log nothing of mhub below `level` (debug, info, warn, error, critical)."""
    _LEVELS.setLogLevelForNamespace("mhub", LogLevel.levelWithName(level))
