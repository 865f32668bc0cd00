"""Whether what is said about a server that the broker connects to can work: password, TLS, Redis.

Tables with the same keys are checked alike, wherever they stand.
"""

from typing import Any

from mhub.config.certificates import check_tls, read_file
from mhub.config.kinds import Place
from mhub.config.problems import ConfigError, Problem
from mhub.config.settings import RedisSettings, TlsSettings


def check_redis(redis: Any, place: Place) -> None:
    """`redis` has the keys of RedisSettings."""
    check_password(redis, place)
    if redis.sentinels and not redis.sentinel_name:
        place.at("sentinel_name").wrong("missing; sentinels needs it")
    elif redis.sentinel_name and not redis.sentinels:
        place.at("sentinel_name").wrong("needs sentinels")
    for name in ("host", "port") if redis.sentinels else ():
        if getattr(redis, name) != getattr(RedisSettings(), name):
            place.at(name).wrong("not together with sentinels")
    check_client_tls(redis, place, is_on=redis.tls, on="tls = true")


def check_password(server: Any, place: Place) -> None:
    """`username`, and `password` or `password_file`."""
    if server.password and server.password_file:
        place.at("password_file").wrong("not together with password")
    elif server.password_file:
        data = read_file(server.password_file, place.at("password_file"))
        if data is not None and not data.strip():
            place.at("password_file").wrong(f"there is no password in {server.password_file}")
    elif (
        server.username
        and not server.password
        and not any(
            place.report.covers(place.at(name).path) for name in ("password", "password_file")
        )
    ):
        place.at("username").wrong("needs password or password_file")


def check_client_tls(server: Any, place: Place, *, is_on: bool, on: str) -> None:
    """`ca`, `certificate` and `key`; `on` is what turns TLS on."""
    given = [name for name in ("ca", "certificate", "key") if getattr(server, name)]
    if given and not is_on:
        for name in given:
            place.at(name).wrong(f"needs {on}")
        return
    for name, other in (("certificate", "key"), ("key", "certificate")):
        if other in given and name not in given and not place.report.covers(place.at(name).path):
            place.at(name).wrong(f"missing; {other} needs it")
    check_tls(TlsSettings(server.certificate, server.key, ca=server.ca), place)


def password_of(server: Any, table: str) -> str:
    """The password, from its file if it has one.  Raises ConfigError that names the table."""
    if not server.password_file:
        return str(server.password)
    try:
        with open(server.password_file, encoding="utf-8") as file:
            return file.read().strip("\r\n")  # which an editor leaves at the end
    except (OSError, UnicodeDecodeError) as error:
        text = f"password_file {server.password_file}: {error}"
        raise ConfigError(table, [Problem("", 0, text)]) from error
