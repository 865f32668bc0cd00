"""What steering a broker takes and gives: reload, listeners, configuration, log, traces.

The same rules as in `mhub.operations.contract`: frozen results, times of day in seconds of the Unix
epoch, durations in seconds, sizes in bytes.
"""

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass
from typing import Final, Protocol

OPEN: Final = "open"
CLOSED: Final = "closed"


@dataclass(frozen=True)
class Reloaded:
    """A reload that was done.  One that is refused is an OperationError, and has changed nothing.

    Keys are as in the file, such as `limits.max_qos` and `listeners[0].port`.
    """

    file: str  # "": the broker has none
    in_force: tuple[str, ...]  # changed, and taken
    needs_restart: tuple[str, ...]  # in the file, and other than what is in force
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ListenerDetail:
    name: str
    state: str  # "open", or "closed" by an operator
    address: str
    transport: str
    proxy_protocol: bool
    connections: int
    max_connections: int  # 0: any number
    certificate_expires_at: float | None  # the first of its certificates; None: no TLS
    client_certificate: str  # "none", "optional", "required"
    limits: Mapping[str, object]  # of a client, by the names of `[limits]`


@dataclass(frozen=True)
class Configuration:
    """What is in force.  Secrets are replaced by a mark."""

    file: str  # "": there is none
    settings: Mapping[str, object]  # tables by name; `[[listeners]]` and `[[auth]]` are lists
    lines: Mapping[str, int]  # keys that the file sets, and where; all others have their default
    needs_restart: tuple[str, ...]  # in the file at the last reload, and other than in force
    reloadable: tuple[str, ...]  # keys and tables that a reload takes


@dataclass(frozen=True)
class ConfigurationProblem:
    key: str  # "": the whole text
    line: int  # 0: not known
    text: str


@dataclass(frozen=True)
class ConfigurationCheck:
    problems: tuple[ConfigurationProblem, ...]  # none: a broker could start with it
    warnings: tuple[str, ...]
    changed: tuple[str, ...]  # keys that are not as in force
    needs_restart: tuple[str, ...]  # those of them that a reload would not take


@dataclass(frozen=True)
class ClientLogLevel:
    client_id: str
    level: str
    left_s: float


@dataclass(frozen=True)
class LogLevels:
    level: str  # of all
    configured: str  # what the configuration in force says: a reload brings it back if it changes
    clients: tuple[ClientLogLevel, ...]


@dataclass(frozen=True)
class LogLine:
    seq: int  # contiguous, from 1 on
    time: float
    level: str
    part: str
    text: str


@dataclass(frozen=True)
class LogPage:
    lines: tuple[LogLine, ...]  # the oldest first
    next: int  # `after` of the next call
    missed: int  # lines behind `after` that are not kept any more


@dataclass(frozen=True)
class TraceEvent:
    """One packet, or what happened to a connection."""

    seq: int
    time: float
    kind: str  # "begin", "end"; "packet"; "message" of a topic; "connected", "refused", ...
    direction: str = ""  # "in": from the client, "out": to it
    packet: str = ""  # PUBLISH, PUBACK, ...
    client_id: str = ""  # of a message: who has published it
    topic: str = ""
    qos: int | None = None
    retain: bool | None = None
    dup: bool | None = None
    packet_id: int | None = None
    size_bytes: int | None = None  # of the packet
    payload_bytes: int | None = None  # of the message
    reasons: tuple[int, ...] = ()  # reason codes, or return codes of MQTT 3
    filters: tuple[str, ...] = ()  # of SUBSCRIBE and UNSUBSCRIBE
    payload: str | None = None  # the first bytes, in base64, if they were asked for
    text: str = ""
    dropped: int = 0  # events before this one that were left out, as there were too many


class Steering(Protocol):
    """The broker, as far as it can be steered."""

    async def reload(self) -> Reloaded:
        """Raises OperationError, with all that is wrong."""

    def listener_details(self) -> list[ListenerDetail]: ...

    def listener_open(self, name: str) -> ListenerDetail: ...

    def listener_close(self, name: str, disconnect: bool) -> ListenerDetail: ...

    def configuration(self) -> Configuration: ...

    async def check_configuration(self, text: str) -> ConfigurationCheck: ...

    def log_levels(self) -> LogLevels: ...

    def set_log_level(self, level: str, client_id: str, seconds: float) -> None: ...

    def log_recent(self, after: int, least: str, most: int) -> LogPage: ...

    def trace(
        self, client_id: str, topic: str, seconds: float, most: int, payload_bytes: int
    ) -> AsyncGenerator[TraceEvent, None]: ...
