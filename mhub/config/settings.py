"""The settings of a broker: every key of the file but those in `limits` and `cluster`.

The classes are frozen: a reload makes new ones.  What stands in `setting(...)` is the reference.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from mhub.config.access import AccessSettings
from mhub.config.auth import PasswordSettings, SourceSettings
from mhub.config.cluster import ClusterSettings
from mhub.config.guard import GuardSettings
from mhub.config.kinds import (
    Boolean,
    Choice,
    FileMode,
    FilePath,
    Host,
    HostPort,
    Integer,
    Number,
    Seconds,
    Secret,
    Size,
    SyslogAddress,
    Text,
    join_address,
)
from mhub.config.limits import BrokerLimits
from mhub.config.presence import PresenceSettings
from mhub.config.schema import ListOf, Record, setting
from mhub.core.limits import Limits

if TYPE_CHECKING:
    from mhub.config.admin import AdminSettings
    from mhub.config.influx import InfluxSettings

TRANSPORTS = ("tcp", "tls", "ws", "wss", "unix")
INTERNET = ("tcp", "tls", "ws", "wss")
WEB = ("ws", "wss")
SECURE = ("tls", "wss")
STORES = ("sqlite", "redis", "memory")
SHARED_STORES = ("redis",)
"""Those in which all nodes of a cluster can have their contents."""

PORTS = {"tcp": 1883, "tls": 8883}
CIPHERSUITES = (
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_128_CCM_SHA256",
    "TLS_AES_128_CCM_8_SHA256",
)
FACILITIES: Final = (
    *("user", "daemon", "auth", "syslog", "local0", "local1", "local2", "local3", "local4"),
    *("local5", "local6", "local7"),
)
"""Of syslog; the others are for parts of the system."""

LEASE_S: Final = 3.0
"""How long a broker that was killed keeps others from its keys in Redis."""


@dataclass(frozen=True)
class SniSettings:
    hosts: tuple[str, ...] = setting(
        ListOf(Text(empty=False), low=1),
        (),
        'The server names that get this certificate; `"*.example.org"` is one level of names.',
        required=True,
    )
    certificate: str = setting(
        FilePath(), "", "The certificate, with its chain, as a PEM file.", required=True
    )
    key: str = setting(
        FilePath(), "", "Its private key, as a PEM file without a passphrase.", required=True
    )


@dataclass(frozen=True)
class TlsSettings:
    certificate: str = setting(
        FilePath(),
        "",
        "The certificate of the broker, with its chain, as a PEM file.",
        required=True,
    )
    key: str = setting(
        FilePath(), "", "Its private key, as a PEM file without a passphrase.", required=True
    )
    sni: tuple[SniSettings, ...] = setting(
        ListOf(Record(SniSettings)),
        (),
        "Further certificates, chosen by the server name that the client asks for.",
    )
    min_version: str = setting(
        Choice("1.2", "1.3"), "1.2", "The lowest version of TLS that is spoken."
    )
    ciphers: str = setting(
        Text(),
        "",
        "The ciphers of TLS 1.2, in OpenSSL's notation.",
        shown="those with forward secrecy",
    )
    ciphersuites: tuple[str, ...] = setting(
        ListOf(Choice(*CIPHERSUITES)),
        (),
        "The cipher suites of TLS 1.3, best first.",
        shown="OpenSSL's",
    )
    client_certificate: str = setting(
        Choice("none", "optional", "required"),
        "none",
        "Whether clients are asked for a certificate.",
    )
    ca: str = setting(
        FilePath(),
        "",
        "The authorities that client certificates must come from, in one PEM file. Those between"
        " the broker's own certificates and their root are sent to clients, if the files of these"
        " certificates do not have them.",
        shown="none; needed when clients are asked for certificates",
    )
    crl: str = setting(
        FilePath(), "", "Client certificates that were revoked, as a PEM file.", shown="none"
    )


@dataclass(frozen=True)
class ListenerSettings:
    name: str = setting(
        Text(empty=False),
        "",
        "What logs and statistics call the listener.",
        shown="transport and port, as `tcp-1883`",
    )
    transport: str = setting(
        Choice(*TRANSPORTS), "tcp", "How MQTT is carried; `wss` is `ws` inside TLS."
    )
    host: str = setting(
        Host(),
        "127.0.0.1",
        'The address to listen on. `"0.0.0.0"` is every IPv4 address of the machine,'
        ' `"::"` every address, IPv6 and IPv4.',
        only=INTERNET,
    )
    port: int = setting(
        Integer(0, 65535),
        -1,
        "The port; 0 takes any free one.",
        only=INTERNET,
        shown="1883 for tcp, 8883 for tls, none for ws and wss",
    )
    bind_interface: str = setting(
        Text(),
        "",
        "Only accept what arrives at this network interface, as `eth1` (Linux; needs privileges).",
        only=INTERNET,
        shown="any",
    )
    path: str = setting(
        FilePath(),
        "",
        "The Unix socket; needed.",
        only=("unix",),
        shown="none",
    )
    mode: int = setting(FileMode(), 0o660, "The permissions of the Unix socket.", only=("unix",))
    backlog: int = setting(
        Integer(1, 65535),
        4096,
        "How many connections the kernel holds until they are accepted (it has its own bound).",
    )
    tcp_nodelay: bool = setting(Boolean(), True, "Send small packets at once.", only=INTERNET)
    max_connections: int = setting(
        Integer(0), 0, "How many clients may be connected here; 0 is any number."
    )
    max_sessions: int = setting(
        Integer(0),
        0,
        "How many sessions there may be of clients that were connected here last; beyond, no new"
        " one is made here. 0 is any number.",
    )
    proxy_protocol: bool = setting(
        Boolean(),
        False,
        "Connections begin with a PROXY protocol header, version 1 or 2, that names the client."
        " Only where nobody but the proxy can reach the listener.",
    )
    http_path: str = setting(
        Text(
            check=lambda path: path.startswith("/") and "?" not in path and "#" not in path,
            what='a path such as "/mqtt"',
        ),
        "/mqtt",
        "Where WebSockets are offered.",
        only=WEB,
    )
    origins: tuple[str, ...] = setting(
        ListOf(Text(empty=False)),
        (),
        'The web pages that may connect, as `"https://app.example.org"`; the empty list is any.',
        only=WEB,
    )
    max_handshake_size: int = setting(
        Size(512, 1 << 20), 8192, "How long the request that opens a WebSocket may be.", only=WEB
    )
    tls: TlsSettings | None = setting(  # noqa: RUF009 (makes a field)
        Record(TlsSettings), None, "Certificates and all else that TLS needs.", only=SECURE
    )

    limits: Limits = field(default_factory=Limits)

    @property
    def address(self) -> str:
        """Where to find the listener, in the form of a URL."""
        if self.transport == "unix":
            return f"unix:{self.path}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        scheme = {"tcp": "mqtt", "tls": "mqtts"}.get(self.transport, self.transport)
        return f"{scheme}://{host}:{self.port}" + (self.http_path if self.transport in WEB else "")


@dataclass(frozen=True, repr=False)  # no repr: it would show the password
class RedisSettings:
    host: str = setting(
        Text(empty=False),
        "127.0.0.1",
        "The server: a name, an address, or the path of a Unix socket.",
    )
    port: int = setting(Integer(1, 65535), 6379, "Its port.")
    username: str = setting(
        Text(), "", "The user to log in as, with a password.", shown="Redis' default user"
    )
    password: str = setting(Secret(), "", "The password, if the server wants one.", shown="none")
    password_file: str = setting(
        FilePath(),
        "",
        "A file with the password, in the place of `password`; read when the broker starts.",
        shown="none",
    )
    db: int = setting(Integer(0), 0, "The number of the database.")
    prefix: str = setting(
        Text(empty=False),
        "mhub:",
        "What the names of all keys begin with. Each broker on a server needs its own.",
    )
    tls: bool = setting(Boolean(), False, "Whether the connection is encrypted.")
    ca: str = setting(
        FilePath(),
        "",
        "The authorities that the server's certificate must come from, in one PEM file.",
        shown="the system's",
    )
    certificate: str = setting(
        FilePath(), "", "The certificate to show to the server, as a PEM file.", shown="none"
    )
    key: str = setting(
        FilePath(), "", "Its private key, as a PEM file without a passphrase.", shown="none"
    )
    sentinels: tuple[str, ...] = setting(
        ListOf(HostPort()),
        (),
        "Sentinels to ask for the server, in the place of `host` and `port`.",
    )
    sentinel_name: str = setting(
        Text(), "", "What the sentinels call the server.", shown="none; needed with `sentinels`"
    )
    timeout_s: float = setting(
        Seconds(0.1, 3600), 5.0, "How long to wait for a connection and for each answer."
    )

    @property
    def address(self) -> str:
        """Where to find the server, for people."""
        if self.sentinels:
            return f"{self.sentinel_name}, by {' '.join(self.sentinels)}"
        if self.host.startswith("/"):
            return self.host
        return join_address(self.host, self.port)


@dataclass(frozen=True)
class StoreSettings:
    kind: str = setting(
        Choice(*STORES),
        "sqlite",
        "Where sessions, queued and retained messages are kept; `memory` ends with the process.",
    )
    path: str = setting(
        FilePath(),
        "mhub-data/mhub.sqlite",
        "The file; its folder is made when it is missing. Without a configuration, a relative path"
        " starts from the working directory.",
        only=("sqlite",),
    )
    synchronous: str = setting(
        Choice("full", "normal", "off"),
        "full",
        "What is safe. `full` survives a loss of power. `normal` survives a crash of mhub or its"
        " kill; a loss of power may cost the last moments. `off` leaves it to the system: a crash"
        " of the machine may damage the file.",
        only=("sqlite",),
    )
    max_pending_bytes: int = setting(
        Size(64 << 10),
        64 << 20,
        "How much may wait to be stored. Beyond, nothing more is read from publishers of QoS 1 and"
        " 2 until the store has caught up.",
    )
    queue_window: int = setting(
        Integer(16, 1_000_000),
        256,
        "How many messages of a session's queue are held in memory; the rest is only in the store.",
    )
    retry_s: float = setting(
        Seconds(0.1, 3600),
        1.0,
        "How long to wait after the store failed until it is tried again. The wait grows up to ten"
        " times that.",
    )
    redis: RedisSettings = setting(  # noqa: RUF009 (makes a field)
        Record(RedisSettings), RedisSettings(), "The Redis server.", only=("redis",)
    )

    @property
    def is_shared(self) -> bool:
        """Whether another node can take over what this one has in it."""
        return self.kind in SHARED_STORES


@dataclass(frozen=True)
class SysSettings:
    interval_s: float = setting(
        Seconds(0, 86400), 10.0, "How often the `$SYS` topics are published; 0 turns them off."
    )


@dataclass(frozen=True)
class NetSettings:
    accepts_per_turn: int = setting(
        Integer(1, 10_000),
        64,
        "How many new connections a listener accepts before live traffic has its turn.",
    )
    deliveries_per_turn: int = setting(
        Integer(100, 10_000_000),
        20_000,
        "How many messages are handed to clients before the sockets are looked at again.",
    )
    overload_drift_s: float = setting(
        Seconds(0, 3600),
        2.0,
        "When the broker is late by so much, twice in a row, it refuses new clients (0x89, in MQTT"
        " 3.1.1 the return code 3) until it has caught up; 0 never does.",
    )
    portion: int = setting(
        Integer(1, 1_000_000),
        500,
        "How many waiting messages one client is sent before the others have their turn.",
    )
    shutdown_timeout_s: float = setting(
        Seconds(0, 3600), 5.0, "How long a stop waits until what was written has left."
    )


@dataclass(frozen=True)
class LogSettings:
    level: str = setting(
        Choice("debug", "info", "warn", "error", "critical"),
        "info",
        "The least important lines that are logged. What Twisted says besides warnings and errors"
        " is `debug`.",
    )
    to: str = setting(
        Choice("stdout", "file", "syslog"),
        "",
        "Where the log goes.",
        shown="`stdout` for `mhub run`; with `twistd`, what its options say",
    )
    format: str = setting(
        Choice("text", "json"),
        "text",
        "Lines for people, or a JSON object on each line.",
    )
    file: str = setting(
        FilePath(),
        "",
        "The file; its folder has to be there.",
        only=("file",),
        shown="none; needed",
    )
    max_file_size: int = setting(
        Size(0),
        10 << 20,
        "The size at which the file becomes FILE.1 and a new one begins; 0 leaves that to others,"
        " who send SIGHUP when they have moved it.",
        only=("file",),
    )
    keep_files: int = setting(Integer(0, 1000), 5, "How many older files are kept.", only=("file",))
    syslog: str = setting(
        SyslogAddress(),
        "/dev/log",
        "The socket of the syslog daemon, or the address and port of a server (UDP).",
        only=("syslog",),
    )
    facility: str = setting(
        Choice(*FACILITIES), "daemon", "The facility of the lines.", only=("syslog",)
    )
    rate: float = setting(
        Number(0, 1_000_000),
        20.0,
        "How many lines of a kind are logged in a second, in the long run; 0 is any number. The"
        " number of those that were left out is logged.",
    )
    burst: int = setting(
        Integer(1, 1_000_000), 100, "How many lines of a kind are logged at once, before that."
    )
    summary_s: float = setting(
        Seconds(1, 86400),
        10.0,
        "How often a number is logged in the place of lines: of the lines that were left out, and"
        " of the messages that were dropped for a client, or denied to it, after the first.",
    )


@dataclass(frozen=True)
class ControlSettings:
    path: str = setting(
        FilePath(off=True),
        "mhub-data/control.sock",
        "The socket; its folder is made when it is missing, for its owner only. The empty string"
        " turns it off. A broker that cannot have it does not start if this key or `[cluster]` is"
        " there, else it does without.",
    )
    mode: int = setting(
        FileMode(), 0o660, "The permissions of the socket; those of its folder count as well."
    )

    required: bool = False  # a broker that cannot have the socket does not start


@dataclass(frozen=True)
class Settings:
    file: str = ""
    listeners: tuple[ListenerSettings, ...] = ()
    limits: Limits = field(default_factory=Limits)  # of a listener that overrides none
    broker: BrokerLimits = field(default_factory=BrokerLimits)
    store: StoreSettings = field(default_factory=StoreSettings)
    sys: SysSettings = field(default_factory=SysSettings)
    presence: PresenceSettings = field(default_factory=PresenceSettings)
    net: NetSettings = field(default_factory=NetSettings)
    log: LogSettings = field(default_factory=LogSettings)
    auth: tuple[SourceSettings, ...] = ()
    passwords: PasswordSettings = field(default_factory=PasswordSettings)
    guard: GuardSettings = field(default_factory=GuardSettings)
    cluster: ClusterSettings | None = None
    control: ControlSettings = field(default_factory=ControlSettings)
    access: AccessSettings | None = None
    admin: "AdminSettings | None" = None
    influx: "InfluxSettings | None" = None
    warnings: tuple[str, ...] = ()  # what is allowed but probably not meant
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)
    """Where in the file each key stands that is there, as `listeners[0].port`."""
