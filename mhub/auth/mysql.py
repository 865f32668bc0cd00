"""Users in MySQL or MariaDB, by PyMySQL.

PyMySQL binds parameters itself: a string becomes a literal, escaped as the session of the server
wants it (also in the mode NO_BACKSLASH_ESCAPES).
"""

import ssl
from dataclasses import dataclass
from typing import Any

from mhub.auth.contract import Context, Source
from mhub.auth.sql import SqlSettings, SqlSource, check_sql
from mhub.auth.sql_pool import Pool
from mhub.config.kinds import Integer, Place
from mhub.config.problems import ConfigError, Problem
from mhub.config.schema import setting
from mhub.config.servers import password_of

KIND = "mysql"


@dataclass(frozen=True, repr=False)
class Settings(SqlSettings):
    port: int = setting(Integer(1, 65535), 3306, "Its port.")


def check(settings: Settings, place: Place) -> None:
    check_sql(settings, KIND, place)


def make(name: str, settings: Settings, context: Context) -> Source:
    try:
        import pymysql  # type: ignore[import-untyped]
    except ImportError as error:
        text = f'type = "{KIND}" needs PyMySQL: pip install "mhub-broker[mysql]" ({error})'
        raise ConfigError(f"auth {name}", [Problem("", 0, text)]) from error
    try:
        pool = Pool(
            context.reactor,
            pymysql.__name__,
            settings.max_concurrent,
            _connection(name, settings),
            _fileno(settings.tls),
        )
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"auth {name}", [Problem("", 0, f"TLS: {error}")]) from error
    return SqlSource(name, KIND, settings, context, pool)


def _connection(name: str, settings: Settings) -> dict[str, Any]:
    given: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "database": settings.database,
        "user": settings.username,
        "password": password_of(settings, f"auth {name}").encode(),
        "charset": "utf8mb4",
        "autocommit": True,
        "local_infile": False,
        "connect_timeout": settings.timeout_s,
        "read_timeout": settings.timeout_s,
        "write_timeout": settings.timeout_s,
    }
    if settings.host.startswith("/"):
        given["unix_socket"] = settings.host
    if settings.tls:
        given["ssl"] = _tls(settings)
    else:
        given["ssl_disabled"] = True
    return given


def _tls(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=settings.ca or None)
    if settings.certificate:
        context.load_cert_chain(settings.certificate, settings.key)
    return context


def _fileno(tls: bool) -> Any:
    def fileno(connection: Any) -> int:
        found = connection._sock  # there is no public name for it
        if tls and not isinstance(found, ssl.SSLSocket):
            connection.close()  # versions before 1.2 go on without, if the server has none
            raise OSError("the server does not offer TLS")
        return int(found.fileno())

    return fileno
