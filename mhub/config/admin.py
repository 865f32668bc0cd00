"""The keys of `[admin]`."""

from dataclasses import dataclass
from ipaddress import ip_address

from mhub.config.certificates import check_tls
from mhub.config.kinds import Boolean, Choice, Host, Integer, Number, Place, Seconds, Text
from mhub.config.schema import ListOf, Record, setting
from mhub.config.settings import ListenerSettings, TlsSettings

LISTENER = "admin"
"""What logs, authenticators and rules call the listener."""


def _is_origin(text: str) -> bool:
    scheme, found, rest = text.partition("://")
    return bool(found) and scheme in ("http", "https") and bool(rest) and "/" not in rest


@dataclass(frozen=True)
class AdminSettings:
    enabled: bool = setting(Boolean(), True, "Whether it listens.")
    host: str = setting(
        Host(),
        "127.0.0.1",
        "The address to listen on. Where others can reach it, use `tls`, or a proxy that does.",
    )
    port: int = setting(Integer(0, 65535), 8088, "The port; 0 takes any free one.")
    tls: TlsSettings | None = setting(  # noqa: RUF009 (makes a field)
        Record(TlsSettings), None, "Certificates and all else that TLS needs, as for a listener."
    )
    origins: tuple[str, ...] = setting(
        ListOf(Text(check=_is_origin, what='an origin such as "https://ops.example.org"')),
        (),
        "Web pages of other origins that may use the API, with a token. The dashboard is not one.",
    )
    basic: bool = setting(
        Boolean(),
        False,
        "Whether scripts may send user name and password with each request (HTTP basic).",
    )
    metrics: str = setting(
        Choice("login", "open"),
        "login",
        "Whether `/metrics` needs a login (a token with the scope `metrics` is enough), or answers"
        " everybody.",
    )
    require_reason: bool = setting(
        Boolean(), False, "Whether each change has to say why, with the parameter `reason`."
    )
    session_idle_s: float = setting(
        Seconds(60, 30 * 86400), 1800.0, "How long a login lasts without a request."
    )
    session_max_s: float = setting(
        Seconds(60, 30 * 86400), 43200.0, "How long a login lasts in any case."
    )
    max_sessions: int = setting(
        Integer(1, 100_000),
        1000,
        "How many logins there may be at a time; one more ends the oldest. Of one user: a tenth.",
    )
    max_connections: int = setting(
        Integer(2, 10_000),
        256,
        "How many connections there may be; one more takes the place of an idle one.",
    )
    max_streams: int = setting(
        Integer(1, 10_000),
        100,
        "How many of them may be streams of events: dashboards, traces, subscriptions. Of one user:"
        " a quarter.",
    )
    max_requests_per_s: float = setting(
        Number(0, 1_000_000),
        100.0,
        "How many requests of one address are answered in a second, in the long run; 0 is any"
        " number. At once it may be five times as many.",
    )
    request_timeout_s: float = setting(
        Seconds(1, 600), 30.0, "How long a client may take to send a request."
    )
    idle_timeout_s: float = setting(
        Seconds(1, 3600), 60.0, "How long a connection may be idle between two requests."
    )

    @property
    def address(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.tls is not None else 'http'}://{host}:{self.port}"


def check_admin(
    admin: AdminSettings, listeners: tuple[ListenerSettings, ...], place: Place
) -> None:
    if admin.tls is not None:
        check_tls(admin.tls, place.at("tls"))
    for index, listener in enumerate(listeners):
        if listener.name == LISTENER:
            place.wrong(f'listeners[{index}] has the name "{LISTENER}", which is this one\'s')
        if listener.port and listener.port == admin.port and listener.host == admin.host:
            place.at("port").wrong(f"listeners[{index}] listens on {listener.address} already")
    if admin.enabled and admin.tls is None and not ip_address(admin.host).is_loopback:
        place.report.warn(
            place.at("tls").path,
            f"others can reach {admin.address}, and passwords cross the network as they are: add"
            " tls, or let a proxy with TLS be the only one that reaches it",
        )
