"""Where the log goes, as `[log]` in the configuration wants it: an observer of Twisted's."""

from typing import Any, Final

from twisted.logger import ILogObserver, LogLevel
from zope.interface import implementer  # type: ignore[import-untyped]

from mhub.config import LogSettings
from mhub.log import level, logger, set_rate_limit
from mhub.log.limit import RateLimit
from mhub.log.lines import json_line, text_line
from mhub.log.outputs import FileOutput, Output, StandardOutput, SyslogOutput

_LOG: Final = logger("log")


class LogError(Exception):
    """The log cannot be written; the text says why."""


@implementer(ILogObserver)
class Destination:
    """Writes lines of mhub, which were chosen before they came here, and of others.

    What Twisted says at `info` (a factory starts, the log begins) is for those who look for a
    defect: it is shown at the level `debug` alone.
    """

    def __init__(self, settings: LogSettings) -> None:
        """LogError if it cannot be written to."""
        self._line = json_line if settings.format == "json" else text_line
        self._output = make_output(settings)
        self._told = 0  # lines that were lost, of which the log tells

    def __call__(self, event: dict[str, Any]) -> None:
        if not is_shown(event):
            return
        output = self._output
        before = output.lost
        output.write(self._line(event), event)
        if output.lost == before and before > self._told:
            count, self._told = before - self._told, before
            _LOG.warn("{count} lines of the log were lost", count=count, unlimited=True)

    def reopen(self) -> None:
        """After the files were moved."""
        self._output.reopen()

    def take(self, settings: LogSettings, output: Output | None) -> None:
        """Write by these settings from now on, to another output if there is one."""
        self._line = json_line if settings.format == "json" else text_line
        if output is not None:
            self._output.close()
            self._output = output
            self._told = 0


def is_shown(event: dict[str, Any]) -> bool:
    """Whether a line is for the log: all of mhub's that come here, and what matters of others'."""
    if event.get("log_level") is None:
        return False
    if str(event.get("log_namespace")).startswith("mhub."):
        return True
    if level() is LogLevel.debug:
        return True
    return bool(event["log_level"] >= max(level(), LogLevel.warn))


def make_output(settings: LogSettings) -> Output:
    """LogError if it cannot be written to."""
    try:
        return _output(settings)
    except OSError as error:
        raise LogError(f"cannot write the log {settings.file}: {error.strerror}") from error


def is_same_output(one: LogSettings, other: LogSettings) -> bool:
    names = ("to", "file", "max_file_size", "keep_files", "syslog", "facility")
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _output(settings: LogSettings) -> Output:
    if settings.to == "file":
        return FileOutput(settings.file, settings.max_file_size, settings.keep_files)
    if settings.to == "syslog":
        return SyslogOutput(settings.syslog, settings.facility)
    return StandardOutput()


def limit_rate(settings: LogSettings, clock: Any) -> None:
    """Leave lines out that come too fast; `clock` is a reactor."""
    if not settings.rate:
        set_rate_limit(None)
        return
    log = logger("log")

    def tell(kind: str, at: str, count: int) -> None:
        log.emit(
            LogLevel.levelWithName(at),
            "{count} more lines left out (log.rate): {kind}",
            count=count,
            kind=kind,
            unlimited=True,
        )

    limit = RateLimit(settings.rate, settings.burst, settings.summary_s, clock, tell)
    set_rate_limit(limit)
