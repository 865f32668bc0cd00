"""Users in PostgreSQL, by psycopg 3."""

import math
from dataclasses import dataclass
from typing import Any

from mhub.auth.contract import Context, Source
from mhub.auth.sql import SqlSettings, SqlSource, check_sql
from mhub.auth.sql_pool import Pool
from mhub.config.kinds import Integer, Place
from mhub.config.problems import ConfigError, Problem
from mhub.config.schema import setting
from mhub.config.servers import password_of

KIND = "postgresql"


@dataclass(frozen=True, repr=False)
class Settings(SqlSettings):
    port: int = setting(Integer(1, 65535), 5432, "Its port.")


def check(settings: Settings, place: Place) -> None:
    check_sql(settings, KIND, place)


def make(name: str, settings: Settings, context: Context) -> Source:
    try:
        import psycopg
    except ImportError as error:  # also without libpq
        text = f'type = "{KIND}" needs psycopg: pip install "mhub-broker[postgresql]" ({error})'
        raise ConfigError(f"auth {name}", [Problem("", 0, text)]) from error
    pool = Pool(
        context.reactor,
        psycopg.__name__,
        settings.max_concurrent,
        _connection(name, settings),
        lambda connection: int(connection.fileno()),
    )
    return SqlSource(name, KIND, settings, context, pool)


def _connection(name: str, settings: Settings) -> dict[str, Any]:
    # What is not given here would be taken from the environment (PGHOST, ...) and from ~/.pgpass.
    given: dict[str, Any] = {
        "host": settings.host,
        "port": settings.port,
        "dbname": settings.database,
        "user": settings.username,
        "password": password_of(settings, f"auth {name}"),
        "sslmode": "verify-full" if settings.tls else "disable",
        "connect_timeout": max(2, math.ceil(settings.timeout_s)),  # libpq's least
        "application_name": "mhub",
        "client_encoding": "UTF8",
        "autocommit": True,
        # A statement that was prepared is gone when a pooler gives us another session.
        "prepare_threshold": None,
    }
    if settings.tls:
        given["sslrootcert"] = settings.ca or "system"
        if settings.certificate:
            given |= {"sslcert": settings.certificate, "sslkey": settings.key}
    return given
