"""The broker as operators steer it: what `mhub.operations.steering.Steering` asks for."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import asdict
from typing import Any, Final, Protocol

from mhub.config import ConfigError, Settings, parse
from mhub.config.changes import changes
from mhub.config.reloadable import RELOADABLE, merged
from mhub.config.view import shown
from mhub.log import level, logger, set_level
from mhub.log.clients import CLIENTS, MOST
from mhub.log.recent import Recent
from mhub.operations.contract import OperationError
from mhub.operations.steering import (
    ClientLogLevel,
    Configuration,
    ConfigurationCheck,
    ConfigurationProblem,
    ListenerDetail,
    LogLevels,
    LogPage,
    Reloaded,
    TraceEvent,
)
from mhub.operations.traces import MOST_EVENTS, Trace, Traces
from mhub.process.reload import Reload

NOT_READ: Final = "files that it names were not looked at"


class Listeners(Protocol):
    """The net service."""

    def listener_details(self) -> list[ListenerDetail]: ...

    def listener_open(self, name: str) -> ListenerDetail: ...

    def listener_close(self, name: str, disconnect: bool) -> ListenerDetail: ...


class BrokerSteering:
    def __init__(
        self,
        reload: Reload,
        listeners: Listeners,
        traces: Traces,
        recent: Recent,
        reactor: Any,
        in_thread: Callable[[Callable[[], Any]], Awaitable[Any]],
        file: str,
        why_not: Callable[[], str],
    ) -> None:
        """`why_not` says why there can be no reload at the moment, or ""."""
        self._reload = reload
        self._listeners = listeners
        self._traces = traces
        self._recent = recent
        self._reactor = reactor
        self._in_thread = in_thread
        self._file = file
        self._why_not = why_not
        self._log = logger("broker")
        self._watched: dict[str, _Watched] = {}

    # Reload

    async def reload(self) -> Reloaded:
        """With lines in the log, whoever has asked for it."""
        why_not = self._why_not()
        if why_not:
            raise OperationError(why_not)
        log = self._log
        try:
            result = await self._reload.run()
        except OperationError as error:
            log.error("nothing is reloaded, because of mistakes:\n{error}", error=error)
            raise
        for warning in result.warnings:
            log.warn("{warning}", warning=warning)
        if result.in_force:
            # Also if it is the level that has changed, to one above this line's.
            log.info("reloaded: {keys}", keys=", ".join(result.in_force), forced=True)
        if result.needs_restart:
            log.warn(
                "changed, but only a restart reloads it: {keys}",
                keys=", ".join(result.needs_restart),
            )
        if not result.in_force and not result.needs_restart:
            log.info("no setting has changed")
        return result

    # Listeners

    def listener_details(self) -> list[ListenerDetail]:
        return self._listeners.listener_details()

    def listener_open(self, name: str) -> ListenerDetail:
        return self._listeners.listener_open(name)

    def listener_close(self, name: str, disconnect: bool) -> ListenerDetail:
        return self._listeners.listener_close(name, disconnect)

    # The configuration

    def configuration(self) -> Configuration:
        settings = self._reload.settings
        return Configuration(
            file=self._file,
            settings=shown(settings),
            lines=settings.lines,
            needs_restart=self._reload.needs_restart(),
            reloadable=tuple(RELOADABLE),
        )

    async def check_configuration(self, text: str) -> ConfigurationCheck:
        name = self._file or "the text"

        def check() -> Settings:
            return parse(text, name, reads_files=False)

        try:
            new: Settings = await self._in_thread(check)
        except ConfigError as error:
            problems = [
                ConfigurationProblem(each.key, each.line, each.text) for each in error.problems
            ]
            return ConfigurationCheck(tuple(problems), (), (), ())
        in_force = self._reload.settings
        return ConfigurationCheck(
            problems=(),
            warnings=(*new.warnings, NOT_READ),
            changed=tuple(changes(in_force, new)),
            needs_restart=tuple(changes(merged(in_force, new), new)),
        )

    # The log

    def log_levels(self) -> LogLevels:
        now = self._reactor.seconds()
        clients = [
            ClientLogLevel(client_id, each.level, round(each.until - now, 1))
            for client_id, each in self._watched.items()
        ]
        return LogLevels(level().name, self._reload.settings.log.level, tuple(clients))

    def set_log_level(self, level: str, client_id: str, seconds: float) -> None:
        if not client_id:
            set_level(level)
            self._log.info("the level of the log is {least} now", least=level, forced=True)
            return
        if client_id not in self._watched and len(self._watched) >= MOST:
            raise OperationError(f"{MOST} clients have a level of their own, as many as may be")
        self._forget(client_id)
        trace: Trace | None = None
        remove: Callable[[], None] = _nothing
        if level == "debug":
            trace, remove = self._traces.start(client_id, "", min(seconds, 3600.0), MOST_EVENTS, 0)
            trace.listener = self._log_packet
        CLIENTS.set(client_id, level)
        until = self._reactor.seconds() + seconds
        timer = self._reactor.callLater(seconds, self._forget, client_id)
        self._watched[client_id] = _Watched(level, until, timer, remove)

    def _log_packet(self, event: TraceEvent) -> None:
        if event.kind != "packet":
            return  # the log has a line of its own
        fields = {name: value for name, value in asdict(event).items() if value not in _EMPTY}
        words = " ".join(
            f"{name}={fields[name]!r}" for name in _LOGGED if name in fields and fields[name] != ()
        )
        logger("trace").debug(
            "{client_id} {direction} {packet} {words}",
            client_id=repr(event.client_id[:256]),
            direction=event.direction,
            packet=event.packet,
            words=words,
            forced=True,
        )

    def _forget(self, client_id: str) -> None:
        watched = self._watched.pop(client_id, None)
        if watched is None:
            return
        CLIENTS.forget(client_id)
        watched.remove()
        if watched.timer.active():
            watched.timer.cancel()

    def log_recent(self, after: int, least: str, most: int) -> LogPage:
        return self._recent.page(after, least, most)

    # Traces

    def trace(
        self, client_id: str, topic: str, seconds: float, most: int, payload_bytes: int
    ) -> AsyncGenerator[TraceEvent, None]:
        return self._traces.run(client_id, topic, seconds, most, payload_bytes)

    def stop(self) -> None:
        for client_id in list(self._watched):
            self._forget(client_id)
        self._traces.stop()


_LOGGED: Final = (
    *("topic", "qos", "retain", "dup", "packet_id", "filters", "reasons", "size_bytes"),
    *("payload_bytes", "dropped", "text"),
)
_EMPTY: Final = (None, "", (), False)


class _Watched:
    def __init__(self, level: str, until: float, timer: Any, remove: Callable[[], None]) -> None:
        self.level = level
        self.until = until
        self.timer = timer
        self.remove = remove


def _nothing() -> None:
    pass
