"""From a file to `Settings`: either everything in it is right, or all that is wrong is said."""

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mhub.config.certificates import read_file
from mhub.config.kinds import Place
from mhub.config.limits import LIMIT_KEYS, BrokerLimits
from mhub.config.lines import line_numbers
from mhub.config.listeners import Listeners, build_listeners
from mhub.config.problems import ConfigError, Problem, Report
from mhub.config.schema import Key, Record, Table, keys_of
from mhub.config.settings import AuthSettings, LogSettings, NetSettings, Settings, SysSettings
from mhub.core.limits import Limits

BROKER_KEYS: Final = keys_of(BrokerLimits)

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
    "sys": Key(Record(SysSettings), "The broker's statistics under `$SYS`."),
    "net": Key(Record(NetSettings), "How the sockets are served."),
    "log": Key(Record(LogSettings), "What is logged; where to is an option of `twistd`."),
    "auth": Key(Record(AuthSettings), "Who clients are; see `authentication.md`."),
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


def parse(text: str, file: str) -> Settings:
    """The settings in a text that stands in `file`, whose folder relative paths start from."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(file, [_syntax(str(error))]) from None
    except RecursionError:
        raise ConfigError(file, [Problem("", 0, "is nested too deeply")]) from None
    report = Report(line_numbers(text))
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
    listeners = build_listeners(tables, limits)
    settings = Settings(file=file, listeners=listeners, limits=limits, broker=broker, **found)
    _check_users(settings, place)
    _warn(settings, place)
    return replace(settings, warnings=tuple(found.render(file) for found in place.report.warnings))


def _check_users(settings: Settings, place: Place) -> None:
    if settings.auth.scram is not None and settings.auth.scram.users_file:
        from mhub.auth.users import UsersFileError, parse_users

        at = place.at("auth").at("scram").at("users_file")
        data = read_file(settings.auth.scram.users_file, at)
        if data is not None:
            try:
                parse_users(data, settings.auth.scram.users_file)
            except UsersFileError as error:
                at.wrong(str(error))


def _warn(settings: Settings, place: Place) -> None:
    """What a broker can start with, but its owner hardly wants."""
    for index, listener in enumerate(settings.listeners):
        key = place.at("listeners").item(index).at("allow_anonymous").path
        by_certificate = listener.tls is not None and listener.tls.identity_as_username != "off"
        if (
            not listener.limits.allow_anonymous
            and settings.auth.scram is None
            and not by_certificate
        ):
            place.report.warn(
                key, f"nobody can log in at {listener.name}: it wants a user, and [auth] has none"
            )


def _syntax(message: str) -> Problem:
    match = re.search(r" \(at line (\d+), column \d+\)$", message)
    text = message[: match.start()] if match else message
    return Problem("", int(match[1]) if match else 0, f"not TOML: {text}")
