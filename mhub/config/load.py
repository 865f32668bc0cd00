"""From a file to `Settings`: either everything in it is right, or all that is wrong is said."""

import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mhub.config.access import AccessSettings, check_policy
from mhub.config.admin import AdminSettings, check_admin
from mhub.config.auth import PasswordSettings, Sources
from mhub.config.auth_checks import check_sources, settle_anonymous
from mhub.config.cluster import ClusterSettings
from mhub.config.cluster_checks import check_cluster
from mhub.config.guard import GuardSettings
from mhub.config.influx import InfluxSettings, check_influx
from mhub.config.kinds import Place
from mhub.config.limits import LIMIT_KEYS, BrokerLimits
from mhub.config.lines import line_numbers
from mhub.config.listeners import Listeners, build_listeners, check_socket_file
from mhub.config.presence import PresenceSettings
from mhub.config.problems import ConfigError, Problem, Report
from mhub.config.schema import Key, Record, Table, keys_of
from mhub.config.servers import check_redis
from mhub.config.settings import (
    LEASE_S,
    ControlSettings,
    ListenerSettings,
    LogSettings,
    NetSettings,
    Settings,
    StoreSettings,
    SysSettings,
)
from mhub.config.units import show_duration
from mhub.core.limits import Limits

BROKER_KEYS: Final = keys_of(BrokerLimits)
STORE_KEYS: Final = keys_of(StoreSettings)
LOG_KEYS: Final = keys_of(LogSettings)

FAILOVER_S: Final = 2.0
"""How long a node that takes over from another one may take, once it may."""

TOP: Final[dict[str, Key[Any]]] = {
    "listeners": Key(
        Listeners(),
        "Where clients connect; any number. Without one, the broker listens on 127.0.0.1:1883.",
    ),
    "limits": Key(
        Table(BROKER_KEYS | LIMIT_KEYS),
        "What the broker bears as a whole, and what each client may do."
        " The latter can be set again for a listener.",
    ),
    "store": Key(Table(STORE_KEYS), "What outlives the process, and where."),
    "sys": Key(Record(SysSettings), "Statistics under `$SYS`; `monitoring.md` lists them."),
    "presence": Key(
        Record(PresenceSettings),
        "Who is connected, as retained messages; see `monitoring.md`.",
    ),
    "net": Key(Record(NetSettings), "How the sockets are served."),
    "log": Key(Table(LOG_KEYS), "What is logged, and where to; see `monitoring.md`."),
    "auth": Key(
        Sources(),
        "Who clients are: the authenticators, asked in the order of the file until one says yes or"
        " no; see `authentication.md`. Any number.",
    ),
    "passwords": Key(
        Record(PasswordSettings), "How passwords are checked, which is slow on purpose."
    ),
    "guard": Key(
        Record(GuardSettings),
        "Who is kept out after failed logins, and flapping clients; see `authentication.md`.",
    ),
    "cluster": Key(
        Record(ClusterSettings),
        "The other brokers that this one is a node with. Without this table, it is alone.",
    ),
    "access": Key(
        Record(AccessSettings),
        "What clients may do; see `access.md`. Without this table, all of them may do all.",
    ),
    "admin": Key(
        Record(AdminSettings),
        "The admin API, the dashboard and MQTT over HTTP; see `admin-api.md`. Without this table,"
        " there is none.",
    ),
    "influx": Key(
        Record(InfluxSettings),
        "An InfluxDB that the numbers are sent to; see `monitoring.md`. Without this table, there"
        " is none.",
    ),
    "control": Key(
        Table(keys_of(ControlSettings)),
        "A Unix socket for `mhub ctl status`, `mhub ctl cluster` and other tools on this machine.",
    ),
}


def load(path: str | Path) -> Settings:
    """The settings in a file.  Raises `ConfigError` with everything that is wrong with it."""
    file = str(path)
    try:
        text = Path(path).read_text("utf-8")
    except OSError as error:
        raise ConfigError(file, [Problem("", 0, f"cannot be read: {error.strerror}")]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(file, [Problem("", 0, f"is not UTF-8: see byte {error.start}")]) from None
    return parse(text, file)


def parse(text: str, file: str, *, reads_files: bool = True) -> Settings:
    """The settings in a text that stands in `file`, whose folder relative paths start from.

    Without `reads_files`, what is in the files that it names is not looked at.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, [_syntax(str(error))]) from None
    except RecursionError:
        raise ConfigError(file, [Problem("", 0, "is nested too deeply")]) from None
    report = Report(line_numbers(text))
    report.reads_files = reads_files
    place = Place(report, Path(file).absolute().parent)
    found = Table(TOP).read(raw, place)
    settings = _build(found, place, file)
    if report.problems:
        raise ConfigError(file, report.problems)
    return settings


def _build(found: dict[str, Any], place: Place, file: str) -> Settings:
    given = found.pop("limits", {})
    limits = Limits(**{name: value for name, value in given.items() if name in LIMIT_KEYS})
    broker = BrokerLimits(**{name: value for name, value in given.items() if name in BROKER_KEYS})
    tables = found.pop("listeners", []) or [(place.at("listeners").item(0), {})]
    sources = found.pop("auth", [])
    listeners = build_listeners(tables, limits)
    check_sources(sources, listeners)
    listeners = settle_anonymous(listeners, tables, sources, "allow_anonymous" in given)
    store = _build_store(found.pop("store", {}), place.at("store"))
    control = _build_control(found.pop("control", {}), "cluster" in found, place.at("control"))
    log = _build_log(found.pop("log", {}), place.at("log"))
    settings = Settings(
        file=file,
        log=log,
        listeners=listeners,
        limits=limits,
        broker=broker,
        store=store,
        control=control,
        auth=tuple(source for _, source in sources),
        **found,
    )
    if settings.cluster is not None:
        check_cluster(settings.cluster, listeners, place.at("cluster"))
    if settings.access is not None:
        check_policy(settings.access, place.at("access").at("policy"))
    if settings.admin is not None:
        check_admin(settings.admin, listeners, place.at("admin"))
    if settings.influx is not None:
        check_influx(settings.influx, place.at("influx"))
    _check_control(control, listeners, place.at("control"))
    _check_client_ids(settings, place)
    _warn(settings, place)
    return replace(
        settings,
        warnings=tuple(found.render(file) for found in place.report.warnings),
        lines=place.report.lines,
    )


def _build_store(table: dict[str, Any], place: Place) -> StoreSettings:
    store = StoreSettings(**table)
    if "path" not in table:
        # The default too starts from the folder of the file, not from where twistd was started.
        store = replace(store, path=str(place.folder / store.path))
    if place.report.covers(place.at("kind").path):
        return store  # which keys belong to it is anyone's guess
    for name in table:
        only = STORE_KEYS[name].only
        if only and store.kind not in only:
            place.at(name).wrong(f"only for kind {' or '.join(only)}; this store's is {store.kind}")
    # Not Path: it may raise.
    if store.kind == "sqlite" and place.report.reads_files and os.path.isdir(store.path):
        place.at("path").wrong(f"expected a file, found the folder {store.path}")
    if store.kind == "redis":
        check_redis(store.redis, place.at("redis"))
    return store


def _build_log(table: dict[str, Any], place: Place) -> LogSettings:
    log = LogSettings(**table)
    if place.report.covers(place.at("to").path):
        return log  # which keys belong to it is anyone's guess
    for name in table:
        only = LOG_KEYS[name].only
        if only and log.to not in only:
            place.at(name).wrong(f'only for to = "{only[0]}"')
    if log.to == "file" and not place.report.covers(place.at("file").path):
        _check_log_file(log.file, place.at("file"))
    return log


def _check_log_file(path: str, place: Place) -> None:
    if not path:
        place.wrong('missing; to = "file" needs it')
    elif not place.report.reads_files:
        return
    elif Path(path).is_dir():
        place.wrong(f"expected a file, found the folder {path}")
    elif not Path(path).parent.is_dir():
        place.wrong(f"there is no folder {Path(path).parent}")


def _build_control(table: dict[str, Any], is_node: bool, place: Place) -> ControlSettings:
    control = ControlSettings(**table)
    if "path" not in table:
        control = replace(control, path=str(place.folder / control.path))
    # Nobody asked for the socket of a single broker: where it cannot be, there is none.
    return replace(control, required=bool(control.path) and ("path" in table or is_node))


def _check_control(
    control: ControlSettings, listeners: tuple[ListenerSettings, ...], place: Place
) -> None:
    if not control.path:
        return
    check_socket_file(control.path, place.at("path"))
    for index, listener in enumerate(listeners):
        if listener.path and Path(listener.path) == Path(control.path):
            place.at("path").wrong(f"listeners[{index}] listens on {listener.address} already")


def _check_client_ids(settings: Settings, place: Place) -> None:
    """Whoever may be anonymous may give any user name, and so would have anybody's session."""
    for index, listener in enumerate(settings.listeners):
        limits = listener.limits
        if limits.username_as_client_id and limits.allow_anonymous:
            place.at("listeners").item(index).at("username_as_client_id").wrong(
                f"at {listener.name}, users are not authenticated: anybody could take over"
                " anybody's session. Set allow_anonymous = false"
            )


def _warn(settings: Settings, place: Place) -> None:
    """What a broker can start with, but its owner hardly wants."""
    for index, listener in enumerate(settings.listeners):
        key = place.at("listeners").item(index).at("allow_anonymous").path
        if not listener.limits.allow_anonymous and not any(
            source.applies_to(listener.name) for source in settings.auth
        ):
            place.report.warn(
                key,
                f"nobody can log in at {listener.name}: it requires a user, and no [[auth]] is for"
                " it",
            )
    if settings.access is not None and settings.access.enabled and not settings.auth:
        place.report.warn(
            place.at("access").path,
            "there is no [[auth]], so all clients are anonymous: only rules for role:everyone and"
            " role:anonymous let them do anything",
        )
    _warn_of_free_client_ids(settings, place)
    _warn_of_open_mount_points(settings, place)
    _warn_of_impatience(settings, place)


def _warn_of_free_client_ids(settings: Settings, place: Place) -> None:
    """All listeners have the same sessions."""
    bound = [each.name for each in settings.listeners if each.limits.username_as_client_id]
    for index, listener in enumerate(settings.listeners):
        if bound and not listener.limits.username_as_client_id:
            place.report.warn(
                place.at("listeners").item(index).at("username_as_client_id").path,
                f"clients of {listener.name} choose their client id, and can take over the sessions"
                f" of users of {bound[0]}, whose client ids are their names",
            )


def _warn_of_open_mount_points(settings: Settings, place: Place) -> None:
    """It is put before what clients write as it is: the first level may go on."""
    for index, listener in enumerate(settings.listeners):
        mount = listener.limits.mount_point
        if mount and not mount.endswith("/"):
            place.report.warn(
                place.at("listeners").item(index).at("mount_point").path,
                f'does not end with a slash: a topic "2/x" at {listener.name} is "{mount}2/x",'
                ' which may be somebody else\'s, and the filters "#" and "+" match nothing;'
                f' write "{mount}/"',
            )


def _warn_of_impatience(settings: Settings, place: Place) -> None:
    cluster = settings.cluster
    if cluster is None or not settings.store.is_shared:
        return
    fails_over = cluster.failover and cluster.sessions
    if fails_over and cluster.takeover_timeout_s < LEASE_S + FAILOVER_S:
        place.report.warn(
            place.at("cluster").at("takeover_timeout_s").path,
            f"a CONNECT does not wait until another node takes over from one that is gone:"
            f" that takes {show_duration(LEASE_S + FAILOVER_S)}, or set failover = false",
        )


def _syntax(message: str) -> Problem:
    match = re.search(r" \(at line (\d+), column \d+\)$", message)
    text = message[: match.start()] if match else message
    return Problem("", int(match[1]) if match else 0, f"not TOML: {text}")
